"""The asynchronous flow: what is stored is summarised by the same task, and the sweep finds what was forgotten."""

import io
from typing import Any

import pytest
from django.core.management import call_command

from benchapp import tasks
from benchapp.models import Series, SeriesSummary
from benchapp.pipeline.normalize import Batch
from benchapp.pipeline.summarize import has_due
from tests.factories import make_series
from tests.pipeline.test_normalize import submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what is enqueued instead of asking a broker."""
    calls: list[str] = []
    monkeypatch.setattr(tasks.normalize, "delay_on_commit", lambda: calls.append("normalize"))
    return calls


def test_what_is_stored_is_summarised_by_the_same_task(enqueued: list[str]) -> None:
    submit()

    tasks.normalize()

    assert not has_due()
    assert set(SeriesSummary.objects.values_list("series_id", flat=True)) == set(
        Series.objects.values_list("pk", flat=True)
    )
    assert enqueued == []


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
    assert SeriesSummary.objects.exists()
