"""What subscribers get is true when it is sent, and their last word of an incident agrees with its state.

Runs are posted to the API, followed by the tasks that workers run, by the clock of the story.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest

from benchapp.incidents.actions.triage import resolve_recovered
from benchapp.models import Change, ChangeState, Channel, Incident, IncidentEvent, Notice, Subscription
from benchapp.notices.write.enqueue import count_past_notices
from tests.documentation import ROOT
from tests.factories import NOON
from tests.received_notices import make_subscription
from tests.stories import at_time, silence_queue, tell_story

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


@pytest.mark.parametrize(
    ("bad_runs", "loss", "spread"), [(3, 0.75, 0.01), (4, 0.5, 0.03), (4, 0.2, 0.01), (3, 0.5, 0.01)]
)
def test_few_bad_runs_are_told_to_those_who_ask_for_suspicions(
    bad_runs: int, loss: float, spread: float
) -> None:
    Subscription.objects.update(further_runs=0)
    levels = [1.0] * 40 + [1 - loss] * bad_runs + [1.0] * 20

    told = tell_story(make_speeds(levels, spread=spread), step=STEP, judged=range(40, 70))

    (suspected_at, suspected), (over_at, over) = told
    assert (suspected, over) == ("suspected", "over")
    assert suspected_at < 40 + bad_runs
    assert 40 + bad_runs < over_at <= 42 + bad_runs
    incident = Incident.objects.get()
    assert (incident.verdict, incident.phase) == ("", "over")
    assert incident.relative == pytest.approx(-loss, abs=0.05)
    with at_time(NOON + STEP * 70):
        assert count_past_notices(Subscription.objects.get(), further_runs=[0, 3, 10]) == [2, 0, 0]


def test_regression_is_suspected_after_three_runs_and_told_after_six() -> None:
    levels = [1.0] * 40 + [0.8] * 12 + [1.0] * 12

    told = tell_story(make_speeds(levels), step=STEP, judged=range(40, 64))

    (worse_at, worse), (over_at, over) = told
    assert (worse, over, over_at) == ("worse", "over", 54)
    assert worse_at <= 45
    assert IncidentEvent.objects.get(kind="opened").at < NOON + STEP * (worse_at - 2)


def test_three_bad_runs_after_a_recovery_are_told_to_nobody_who_waits_for_more() -> None:
    levels = [1.0] * 40 + [0.8] * 12 + [1.0] * 18 + [0.8] * 3 + [1.0] * 12

    told = tell_story(make_speeds(levels), step=STEP, judged=range(40, 85))

    assert [(run, kind) for run, kind in told if run >= 70] == []
    assert [kind for _, kind in told] == ["worse", "over"]


def test_what_is_on_and_off_for_five_days_comes_and_goes() -> None:
    levels = [1.0] * 30 + ([0.75] * 20 + [1.0] * 20) * 4

    told = tell_story(make_speeds(levels), step=STEP, judged=range(30, 190))

    assert [kind for _, kind in told] == ["worse", "over", "worse", "over", "intermittent"]
    event = IncidentEvent.objects.get(kind="intermittent")
    assert event.text == "3 times in 20 days"
    incident = Incident.objects.get(is_regression=True)
    assert (incident.phase, incident.recovered_at is not None) == ("intermittent", True)
    with at_time(NOON + STEP * 190 + timedelta(days=15)):
        resolve_recovered()
    assert Incident.objects.get(is_regression=True).phase == "over"


def test_weekly_pattern_closes_an_incident_once_when_it_becomes_known() -> None:
    thursday = (3 - NOON.weekday()) % 7
    days = [(NOON + timedelta(days=thursday, hours=3 * run)).weekday() for run in range(180)]
    judged = [*range(64, 160, 4), *range(160, 180)]

    told = tell_story(
        make_speeds([0.9 if day >= 5 else 1.0 for day in days]), step=timedelta(hours=3), judged=judged
    )

    # The pattern is known after 21 days, 168 runs, and counts from the next evaluation on, that of run 175.
    assert told[-1][1] == "over"
    assert [kind for run, kind in told if run > 160] in ([], ["over"])
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
        assert kind != "worse" or min(levels[run - 2 : run + 1]) < 1
    last = {
        notice.incident: notice.body["kind"].removeprefix("incident.")
        for notice in Notice.objects.order_by("pk")
    }
    for incident, phase in last.items():
        assert phase == incident.phase != "worse"


def test_documentation_shows_what_is_sent_when() -> None:
    early = make_subscription(further_runs=0, channel=Channel.SLACK)
    levels = [1.0] * 40 + ([0.75] * 12 + [1.0] * 12) * 2 + [0.75] * 4

    told = tell_story(make_speeds(levels), step=STEP, judged=range(40, len(levels)))

    sent: dict[int, dict[bool, str]] = {}
    for (run, kind), notice in zip(told, Notice.objects.order_by("pk"), strict=True):
        sent.setdefault(run + 1, {})[notice.subscription == early] = kind
    section = (ROOT / "docs" / "notifications.md").read_text().partition("## What is sent when\n")[2]
    documented = re.findall(
        r"^\| (\d+) \|.*\| *(\w*) \| *(\w*) \|$", section.partition("\n## ")[0], re.MULTILINE
    )
    assert [(int(run), first, second) for run, first, second in documented] == [
        (run, kinds[True], kinds.get(False, "")) for run, kinds in sent.items()
    ]
