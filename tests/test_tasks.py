"""The asynchronous flow: what is stored is followed by detection, and the sweep finds what lost its hint."""

import io

import pytest
from django.core.management import call_command

from benchapp import tasks
from benchapp.intake.normalize.batch import Batch
from benchapp.judge import has_judging_due
from benchapp.models import Incident, Level, Series, Subscription
from tests.detection.write.judging import make_cells, make_level
from tests.factories import make_dry_run, make_host, make_series, make_user
from tests.intake.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is enqueued instead of asking a broker."""
    calls: list[str] = []
    for name in ("normalize", "judge", "notify", "dry_run"):
        task = getattr(tasks, name)
        monkeypatch.setattr(task, "delay_on_commit", lambda name=name: calls.append(name))
    return calls


def test_detection_follows_what_is_stored(enqueued: list[str]) -> None:
    submit()

    tasks.normalize()
    tasks.judge()

    assert enqueued == ["judge"]
    assert not has_judging_due()
    assert set(Level.objects.values_list("series_id", flat=True)) == set(
        Series.objects.values_list("pk", flat=True)
    )


def test_detection_is_queued_every_two_seconds_during_a_long_backlog(
    enqueued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, queued_at = [0.0], []

    def normalize_batch() -> Batch:
        clock[0] += 0.9
        return Batch(50, (), (), ())

    make_series([1.0])
    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tasks, "normalize_batch", normalize_batch)
    monkeypatch.setattr(tasks.judge, "delay_on_commit", lambda: queued_at.append(round(clock[0], 1)))
    tasks.normalize()

    assert queued_at[:3] == [2.7, 5.4, 8.1]
    assert enqueued == ["normalize"]


def test_what_was_found_is_told_behind_the_judge(enqueued: list[str]) -> None:
    Subscription.objects.create(owner=make_user(), channel="webhook", address="http://127.0.0.1:9/")
    make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 12)])

    tasks.judge()

    assert Incident.objects.exists()
    assert (enqueued, has_judging_due()) == (["notify"], False)


def test_judge_that_finds_nothing_tells_nobody(enqueued: list[str]) -> None:
    make_cells(make_host(), [make_level(1000.0, 24)])

    tasks.judge()

    assert enqueued == []


def test_sweep_wakes_the_judge_for_what_lost_its_hint(enqueued: list[str]) -> None:
    make_series([1.0])
    Series.objects.update(judging_is_due=True)

    tasks.sweep()

    assert enqueued == ["judge"]


def test_sweep_queues_nothing_if_nothing_is_due(enqueued: list[str]) -> None:
    make_series([1.0])
    Series.objects.update(judging_is_due=False)

    tasks.sweep()

    assert enqueued == []


@pytest.mark.parametrize("command", [["drain"], ["renormalize"]])
def test_commands_leave_nothing_due(command: list[str]) -> None:
    submit()
    call_command("drain", stdout=io.StringIO())
    Series.objects.update(judging_is_due=True)

    call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())

    assert not has_judging_due()
    assert Level.objects.exists()


def test_sweep_wakes_dry_runs_and_the_task_finishes_them(enqueued: list[str]) -> None:
    dry_run = make_dry_run()

    tasks.sweep()
    tasks.dry_run()
    tasks.sweep()

    dry_run.refresh_from_db()
    assert (enqueued, dry_run.state) == (["dry_run"], "done")


def test_dry_run_that_takes_longer_than_the_budget_is_queued_again(
    enqueued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dry_run()
    monkeypatch.setattr(tasks, "_TASK_BUDGET_S", 0.0)

    tasks.dry_run()

    assert enqueued == ["dry_run"]
