"""The asynchronous flow: what is stored is summarised by the same task, and the sweep finds what was forgotten."""

import io
from typing import Any

import pytest
from django.core.management import call_command

from benchapp import tasks
from benchapp.models import Incident, Series, SeriesSummary
from benchapp.pipeline.judge import has_judging_due
from benchapp.pipeline.normalize.batch import Batch
from benchapp.pipeline.normalize.summaries import has_due
from tests.factories import make_host, make_series
from tests.pipeline.detection.judging import make_cells, make_level
from tests.pipeline.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is enqueued instead of asking a broker."""
    calls: list[str] = []
    for name in ("normalize", "judge", "notify"):
        task = getattr(tasks, name)
        monkeypatch.setattr(task, "delay_on_commit", lambda name=name: calls.append(name))
    return calls


def test_what_is_stored_is_summarised_by_the_same_task(enqueued: list[str]) -> None:
    submit()

    tasks.normalize()

    assert not has_due()
    assert set(SeriesSummary.objects.values_list("series_id", flat=True)) == set(
        Series.objects.values_list("pk", flat=True)
    )
    assert enqueued == ["judge"]


def test_long_backlog_is_summarised_every_two_seconds(
    enqueued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, summarised_at = [0.0], []

    def settle() -> Batch:
        clock[0] += 0.9
        return Batch(50, (), (), ())

    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tasks, "normalize_batch", settle)
    monkeypatch.setattr(tasks, "summarize_due", lambda: summarised_at.append(round(clock[0], 1)) or 500)
    tasks.normalize()

    assert summarised_at[:3] == [2.7, 5.4, 8.1]
    assert enqueued == ["normalize"]


def test_long_backlog_is_judged_every_five_seconds_by_whoever_is_free(
    enqueued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def settle() -> Batch:
        clock[0] += 0.9
        return Batch(50, (), (), ())

    make_series([1.0])
    Series.objects.update(judging_is_due=True)
    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tasks, "normalize_batch", settle)
    monkeypatch.setattr(tasks, "summarize_due", lambda: 500)
    tasks.normalize()

    assert enqueued == ["judge", "judge", "judge", "normalize"]


def test_what_was_found_is_told_behind_the_judge(enqueued: list[str]) -> None:
    make_cells(make_host(), [make_level(1000.0, 24) + make_level(800.0, 8)])

    tasks.judge()

    assert Incident.objects.exists()
    assert (enqueued, has_judging_due()) == (["notify"], False)


def test_judge_that_finds_nothing_tells_nobody(enqueued: list[str]) -> None:
    make_cells(make_host(), [make_level(1000.0, 24)])

    tasks.judge()

    assert enqueued == []


def test_sweep_wakes_the_judge_for_what_lost_its_hint(enqueued: list[str]) -> None:
    make_series([1.0])
    Series.objects.update(summary_is_due=False, judging_is_due=True)

    tasks.sweep()

    assert enqueued == ["judge"]


@pytest.mark.parametrize(("is_due", "expected"), [(True, ["normalize"]), (False, [])])
def test_sweep_wakes_the_workers_for_what_is_due(
    is_due: bool, expected: list[str], enqueued: list[str]
) -> None:
    make_series([1.0])
    Series.objects.update(summary_is_due=is_due)

    tasks.sweep()

    assert enqueued == expected


def test_what_is_read_anew_in_the_background_is_summarised(settings: Any) -> None:
    make_series([1.0])

    tasks.renormalize()

    assert not has_due()


@pytest.mark.parametrize("command", [["drain"], ["renormalize"], ["summarize"]])
def test_commands_leave_nothing_due(command: list[str]) -> None:
    submit()
    call_command("drain", stdout=io.StringIO())
    Series.objects.update(summary_is_due=True)

    call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())

    assert not has_due()
    assert not has_judging_due()
    assert SeriesSummary.objects.exists()
