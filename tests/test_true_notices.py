"""What subscribers get is true when it is sent, and their last word of an incident agrees with its state.

Runs are posted to the API, followed by the tasks that workers run, by the clock of the story.
"""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest

from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, Notice
from benchapp.notices.write.incident_message import CLOSING_KINDS
from tests.factories import NOON
from tests.received_notices import make_subscription
from tests.stories import silence_queue, tell_story

pytestmark = pytest.mark.django_db

STEP = timedelta(hours=6)
SEEDS = (1, 2)


@pytest.fixture(autouse=True)
def subscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribe to everything."""
    silence_queue(monkeypatch)
    make_subscription()


def make_speeds(
    levels: Sequence[float], *, spread: float = 0.01, seed: int = 1
) -> list[list[dict[str, float]]]:
    """Return speeds of reads and writes of one job with noise, from those of each run."""
    noise = 1 + spread * np.random.default_rng(seed).standard_normal((len(levels), 2))
    return [
        [{"read": level * read, "write": level * write}]
        for level, (read, write) in zip(levels, noise, strict=True)
    ]


@pytest.mark.parametrize(("bad_runs", "loss", "spread"), [(3, 0.75, 0.01), (4, 0.5, 0.03), (4, 0.2, 0.01)])
def test_few_bad_runs_are_reported_once_and_their_end_once(bad_runs: int, loss: float, spread: float) -> None:
    levels = [1.0] * 40 + [1 - loss] * bad_runs + [1.0] * 20

    told = tell_story(make_speeds(levels, spread=spread), step=STEP, judged=range(40, 70))

    (opened_at, opened), (over_at, over) = told
    assert (opened, over) == ("opened", "recovered")
    assert opened_at < 40 + bad_runs
    assert 40 + bad_runs < over_at <= 42 + bad_runs
    assert Incident.objects.get().verdict == ""


def test_whoever_is_told_that_it_is_bad_again_is_told_that_it_is_over_again() -> None:
    levels = [1.0] * 30 + ([0.75] * 8 + [1.0] * 8) * 4

    told = tell_story(make_speeds(levels), step=STEP, judged=range(30, 100))

    # The second reopening takes six bad runs, a third would take twelve.
    kinds = ["opened", "recovered", "reopened", "recovered", "reopened", "recovered"]
    assert [kind for _, kind in told] == kinds
    assert Incident.objects.get().recovered_at


def test_weekly_pattern_closes_an_incident_once_when_it_becomes_known() -> None:
    thursday = (3 - NOON.weekday()) % 7
    days = [(NOON + timedelta(days=thursday, hours=3 * run)).weekday() for run in range(180)]
    judged = [*range(64, 160, 4), *range(160, 180)]

    told = tell_story(
        make_speeds([0.9 if day >= 5 else 1.0 for day in days]), step=timedelta(hours=3), judged=judged
    )

    # The pattern is known after 21 days, 168 runs, and counts from the next evaluation on, that of run 175.
    assert [run for run, _ in told if run >= 144] == [144]
    assert told[-1] == (144, "recovered")
    assert list(IncidentEvent.objects.filter(kind="resolved").values_list("at", flat=True)) == [
        NOON + timedelta(days=21, hours=21, minutes=1)
    ]
    assert not Change.objects.filter(is_regression=True).exclude(state=ChangeState.WITHDRAWN).exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_last_word_of_every_incident_is_that_it_is_over(seed: int) -> None:
    generator = np.random.default_rng(seed)
    levels = [1.0] * 30
    while len(levels) < 60:
        loss = generator.uniform(0.1, 0.6)
        levels += [1 - loss] * int(generator.integers(1, 10)) + [1.0] * int(generator.integers(2, 12))
    levels += [1.0] * 20

    told = tell_story(make_speeds(levels, spread=0.02, seed=seed), step=STEP, judged=range(32, len(levels)))

    assert told
    for run, kind in told:
        assert kind in CLOSING_KINDS or min(levels[run - 2 : run + 1]) < 1
    last = {
        notice.incident: notice.body["kind"].removeprefix("incident.")
        for notice in Notice.objects.order_by("pk")
    }
    assert set(last.values()) <= CLOSING_KINDS
    for incident in last:
        assert incident.state == IncidentState.RESOLVED or incident.recovered_at
