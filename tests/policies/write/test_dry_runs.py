"""Dry runs: added and removed incidents, progress, limits, failures; nothing else is written."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    Change,
    DetectionDryRun,
    DetectionPolicy,
    DryRunState,
    Incident,
    PlannedEvent,
    PlannedEventKind,
    Series,
)
from benchapp.policies import write
from benchapp.policies.write import (
    advance_dry_runs,
    forget_old_dry_runs,
    has_running_dry_runs,
    start_dry_run,
)
from tests.detection.write.judging import judge_all, make_cells, make_level
from tests.factories import make_dry_run, make_host

pytestmark = pytest.mark.django_db


def make_steps(*sizes: float, host: str = "db-1", days_ago: int = 20) -> list[Series]:
    """Make a series of a host for each size, with a step of IOPS that many days ago; daily runs."""
    values = [[*make_level(1000.0, 60), *make_level(1000.0 * (1 - size), days_ago)] for size in sizes]
    start_at = timezone.now().replace(microsecond=0) - timedelta(days=60 + days_ago)
    return make_cells(make_host(host), values, start_at=start_at, step=timedelta(days=1))


def run(smallest_change: float, **fields: Any) -> DetectionDryRun:
    given: dict[str, Any] = {"metric": "iops", "filter": "", "label": "", "by": None, **fields}
    started = start_dry_run(given.pop("metric"), smallest_change, **given)
    assert not advance_dry_runs(budget_s=60)
    started.refresh_from_db()
    return started


def test_lower_threshold_adds_the_incident_of_a_small_change() -> None:
    (large,) = make_steps(0.2, host="db-1")
    (small,) = make_steps(0.035, host="db-2")
    judge_all()
    before = list(Change.objects.values_list("id", "updated_at"))

    done = run(0.02)

    assert done.state == DryRunState.DONE
    assert (done.result["current"], done.result["proposed"]) == (1, 2)
    (added,) = done.result["added"]
    assert (added["scope"], added["series"], added["series_id"], added["incident"]) == (
        "host:db-2",
        1,
        small.pk,
        None,
    )
    assert added["relative"] == pytest.approx(-0.035, abs=0.005)
    assert done.result["removed"] == []
    assert list(Change.objects.values_list("id", "updated_at")) == before
    assert Incident.objects.get().changes.get().series_id == large.pk


def test_higher_threshold_removes_an_incident_and_links_to_the_stored_one() -> None:
    make_steps(0.2, host="db-1")
    make_steps(0.08, host="db-2")
    judge_all()

    done = run(0.12)

    assert (done.result["current"], done.result["proposed"], done.result["added"]) == (2, 1, [])
    (removed,) = done.result["removed"]
    stored = Incident.objects.get(scope="host:db-2")
    assert (removed["scope"], removed["metric"], removed["incident"]) == ("host:db-2", "iops", stored.pk)


def test_series_of_one_host_that_change_together_are_one_incident() -> None:
    make_steps(0.2, 0.2, 0.2)

    done = run(0.1)

    assert (done.result["current"], done.result["proposed"]) == (1, 1)


def test_only_series_of_the_filter_and_changes_of_the_period_count() -> None:
    make_steps(0.2, host="db-1")
    make_steps(0.2, host="db-2")
    make_steps(0.2, host="db-3", days_ago=100)

    done = run(0.1, filter="host:db-2,db-3")

    assert (done.series_count, done.done_count, done.result["current"]) == (2, 2, 1)


def test_expected_change_is_not_counted() -> None:
    make_steps(0.2)
    PlannedEvent.objects.create(
        kind=PlannedEventKind.CHANGE,
        filter="host:db-1",
        from_at=timezone.now() - timedelta(days=30),
        to_at=timezone.now(),
        reason="smaller volumes",
    )

    assert run(0.1).result["current"] == 0


def test_other_metric_is_evaluated_with_the_thresholds_of_today() -> None:
    make_steps(0.08)

    done = run(0.5, metric="latency_mean_ns")

    assert (done.result["current"], done.result["proposed"]) == (1, 1)


def test_policy_of_higher_rank_remains_in_effect() -> None:
    make_steps(0.035, host="db-1")
    make_steps(0.035, host="db-2")
    DetectionPolicy.objects.create(metric="iops", smallest_change=0.3, filter="host:db-1", reason="noisy")

    every, of_the_host = run(0.02), run(0.02, filter="host:db-1")

    assert [incident["scope"] for incident in every.result["added"]] == ["host:db-2"]
    assert [incident["scope"] for incident in of_the_host.result["added"]] == ["host:db-1"]


def test_batches_are_added_up_and_progress_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(0.2, 0.2, 0.2)
    monkeypatch.setattr(write, "_SERIES_AT_ONCE", 2)
    started = start_dry_run("iops", 0.1, filter="", label="", by=None)

    assert write._advance_oldest()
    started.refresh_from_db()
    assert (started.state, started.done_count) == (DryRunState.RUNNING, 2)
    assert {change["series_id"] for change in started.found["current"]} == set(started.series_ids[:2])
    assert advance_dry_runs(budget_s=60) is False
    started.refresh_from_db()

    assert (started.state, started.done_count, started.result["current"]) == (DryRunState.DONE, 3, 1)


def test_series_beyond_the_limit_are_counted_and_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(0.2, 0.2)
    monkeypatch.setattr(write, "DRY_RUN_SERIES_MAXIMUM", 1)

    done = run(0.1)

    assert (done.series_count, len(done.series_ids), done.done_count) == (2, 1, 1)


def test_filter_without_series_is_done_with_no_incidents() -> None:
    done = run(0.1, filter="host:nobody")

    assert (done.state, done.result["current"], done.result["proposed"]) == (DryRunState.DONE, 0, 0)


def test_error_ends_the_dry_run_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(0.2)

    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(write, "read_histories", break_down)

    assert run(0.1).state == DryRunState.FAILED
    assert not has_running_dry_runs()


def test_batch_that_ends_the_worker_three_times_ends_the_dry_run_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_steps(0.2)
    start_dry_run("iops", 0.1, filter="", label="", by=None)

    def end_worker(*_: object, **__: object) -> None:
        raise SystemExit

    monkeypatch.setattr(write, "read_histories", end_worker)
    for attempts in (1, 2, 3):
        with pytest.raises(SystemExit):
            advance_dry_runs(budget_s=60)
        assert DetectionDryRun.objects.filter(state=DryRunState.RUNNING, attempts=attempts).exists()

    assert advance_dry_runs(budget_s=60) is False

    failed = DetectionDryRun.objects.get()
    assert (failed.state, failed.found, failed.finished_at is None) == (DryRunState.FAILED, {}, False)


def test_finished_batch_clears_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    make_steps(0.2, 0.2)
    monkeypatch.setattr(write, "_SERIES_AT_ONCE", 1)
    started = start_dry_run("iops", 0.1, filter="", label="", by=None)
    DetectionDryRun.objects.update(attempts=2)

    assert write._advance_oldest()

    started.refresh_from_db()
    assert (started.attempts, started.done_count) == (0, 1)


def test_running_dry_runs_are_limited_and_a_canceled_one_makes_room() -> None:
    running = [make_dry_run() for _ in range(write.RUNNING_MAXIMUM)]

    with pytest.raises(BadValue, match="wait until one is done, or cancel one"):
        start_dry_run("iops", 0.1, filter="", label="", by=None)
    write.cancel_dry_run(running[0].pk)

    assert start_dry_run("iops", 0.1, filter="", label="", by=None).state == "running"


def test_canceled_dry_run_is_not_advanced_and_stays_canceled() -> None:
    dry_run = make_dry_run(found={"current": [{}]}, done_count=25)

    canceled = write.cancel_dry_run(dry_run.pk)

    assert (canceled.state, canceled.found, canceled.done_count) == ("canceled", {}, 25)
    assert canceled.finished_at is not None
    assert write.has_running_dry_runs() is False
    assert advance_dry_runs(budget_s=60) is False
    with pytest.raises(BadValue, match="it is canceled"):
        write.cancel_dry_run(dry_run.pk)
    with pytest.raises(write.UnknownDryRun):
        write.cancel_dry_run(dry_run.pk + 1)


def test_old_dry_runs_are_deleted() -> None:
    old, new = make_dry_run(state="done"), make_dry_run(state="done")
    DetectionDryRun.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=31))

    forget_old_dry_runs()

    assert list(DetectionDryRun.objects.all()) == [new]
