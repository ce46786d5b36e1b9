"""The story that benchapp is for, from the outside: a kernel makes a host slower, one letter says so, another that it
is over.

fio's own output, its numbers varied by a seed: a spread of 2 %, one run in fifty to twenty far out, and one for
certain. Posted to the API, then the tasks that workers run, by the clock of the story. What a story promises holds for
each of the seeds here; how often it holds for any seed is in benchmarks/README.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest

from benchapp import tasks
from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.env import EmailServer
from benchapp.models import Host, Incident, Run, Scope
from benchmarks.histories import make_generator, make_history
from tests.factories import NOON
from tests.intake.api.test_posts import post
from tests.mail_server import MailServer, serve_mail
from tests.received_notices import make_subscription
from tests.stories import at_time, make_body, silence_queue

pytestmark = pytest.mark.django_db

STEP = timedelta(hours=6)
# The first slow run, and the first that is good again.
SLOW_FROM, GOOD_FROM = 20, 30
RUNS = 38
DROP = 0.15
OUTLIER = 11
SEEDS = (8, 24)


@dataclass
class Story:
    """What became known, and when: the number of the newest run posted by then; None: never."""

    letters: list[EmailMessage] = field(default_factory=list)
    opened_by: int | None = None
    recovered_by: int | None = None


def make_speeds(seed: int, direction: str) -> list[float]:
    """Return how fast each run is, 1 before the kernel came."""
    generator = make_generator("regression story", seed, direction)
    history = make_history("spikes", RUNS, variation=0.02, generator=generator)
    speeds = [value / 50_000 for value in history]
    speeds[OUTLIER] *= 0.6
    return [speed * (1 - DROP if SLOW_FROM <= run < GOOD_FROM else 1) for run, speed in enumerate(speeds)]


@pytest.fixture(autouse=True)
def quiet_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    silence_queue(monkeypatch)


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    settings.EMAIL_FROM = "bench@example.org"
    with serve_mail() as server:
        settings.EMAIL_SERVER = EmailServer("127.0.0.1", server.port, "", "", "none")
        yield server


def tell_story(seed: int, mail: MailServer) -> Story:
    """Post run after run, and have the workers do what they do after each."""
    story = Story()
    speeds = {direction: make_speeds(seed, direction) for direction in ("read", "write")}
    with at_time(NOON - STEP):
        host = Host.objects.create(name="db-1")
        token = issue_token(scope=Scope.INGEST, host=host)[1]
        make_subscription()
    for run in range(RUNS):
        with at_time(NOON + run * STEP + timedelta(minutes=1)):
            of_run = {direction: values[run] for direction, values in speeds.items()}
            kernel = "6.12.0" if SLOW_FROM <= run < GOOD_FROM else "6.1.0"
            body = make_body(NOON + run * STEP, [of_run], kernel=kernel)
            assert post(body, token).status == 202
            if run < SLOW_FROM or SLOW_FROM + 6 <= run < GOOD_FROM - 1:
                continue  # what waits is read together with the next that matters
            tasks.normalize()
            tasks.judge()
            tasks.notify()
        if story.opened_by is None and Incident.objects.filter(is_regression=True).exists():
            story.opened_by = run
        if story.recovered_by is None and Incident.objects.filter(recovered_at__isnull=False).exists():
            story.recovered_by = run
    story.letters = [letter.message for letter in mail.letters]
    return story


@pytest.mark.parametrize("seed", SEEDS)
def test_new_kernel_makes_one_incident_one_letter_and_one_more_when_it_is_over(
    seed: int, mail: MailServer
) -> None:
    story = tell_story(seed, mail)

    incident = Incident.objects.get(is_regression=True)
    assert story.opened_by is not None
    assert SLOW_FROM < story.opened_by < SLOW_FROM + 5
    change = incident.changes.filter(metric="iops").order_by("series__direction").first()
    assert change is not None
    assert change.run == Run.objects.order_by("started_at")[SLOW_FROM]
    assert change.relative == pytest.approx(-DROP, abs=0.03)
    assert [(one["name"], one["before"], one["after"]) for one in incident.suspects] == [
        ("kernel", "6.1.0", "6.12.0")
    ]
    assert story.recovered_by is not None
    assert story.recovered_by < GOOD_FROM + 5
    subjects = [str(letter["Subject"]) for letter in story.letters]
    assert len(subjects) == 2, subjects
    assert "db-1" in subjects[0]
    assert "Over: " in subjects[1]
