"""Admins set how long raw output, traces, histograms, points and incidents are kept."""

import json
from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, F
from django.test import Client
from django.utils import timezone

from benchapp import tasks
from benchapp.corrections.retention import POINTS_KEPT, make_retentions_due, preview_retention
from benchapp.corrections.write import CORRECTIONS
from benchapp.framework.write.conflicts import BadValue
from benchapp.judge import judge_due
from benchapp.models import (
    Change,
    Correction,
    DailyPoint,
    DetectionResult,
    Incident,
    IncidentState,
    Level,
    Measurement,
    PinnedChart,
    Run,
    Series,
    Study,
    Submission,
    Trace,
)
from tests.corrections.test_corrections import delete, finish, judge, store
from tests.corrections.test_rename import assert_consistent, set_keys
from tests.detection.write.judging import make_level
from tests.factories import make_change, make_host, make_series, make_user
from tests.pages import Page
from tests.series.api.test_run_traces import make_trace

pytestmark = pytest.mark.django_db


def keep(tier: str, days: int = 30, **which: Any) -> Correction:
    """Keep a tier for so many days, and remove what is older as the worker does."""
    values = {"kind": "retention", "tier": tier, "keep_days": days, "reason": "trial", **which}
    entry = CORRECTIONS.create(Correction(**values), by=None)
    finish()
    entry.refresh_from_db()
    return entry


def read_rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def age() -> None:
    """Make all runs 400 days older."""
    for model in (Run, Measurement):
        model.objects.update(started_at=F("started_at") - timedelta(days=400))


def plant_years() -> Series:
    """Plant 400 days of two runs a day, slower in the last 200 days, with their resolved incident."""
    start_at = timezone.now().replace(hour=6, minute=0, second=0, microsecond=0) - timedelta(days=400)
    values = make_level(1000.0, 400) + make_level(780.0, 400)
    series = make_series(values, start_at=start_at, step=timedelta(hours=12))
    judge_due()
    set_keys()
    return Series.objects.get(pk=series.pk)


def list_derived() -> list[Any]:
    """Return levels, changes and incidents, without the numbers that a level has of the newest runs only."""
    return [
        *Level.objects.filter(is_current=False).order_by("pk").values(),
        *Level.objects.filter(is_current=True)
        .order_by("pk")
        .values("from_at", "first_run_id", "change", "previous_median"),
        *Change.objects.order_by("pk").values("pk", "run", "started_at", "state", "relative", "incident"),
        *Incident.objects.order_by("pk").values("pk", "title", "state", "change_count"),
    ]


def test_old_points_become_daily_ones_and_levels_changes_and_incidents_stay() -> None:
    series = plant_years()
    before = list_derived()
    points = list(Measurement.objects.order_by("started_at").values_list("run", "started_at", "iops"))
    (change,) = Change.objects.filter(metric="iops")

    entry = keep("points", 100)

    cut = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=100)
    exempt = {*Level.objects.values_list("first_run_id", flat=True), change.run_id, change.last_good_run_id}
    days: dict[Any, list[float]] = {}
    for run, at, value in points:
        if at < cut and run not in exempt:
            days.setdefault(at.date(), []).append(value)
    stored = read_rows("SELECT day, n, values->'iops' FROM benchapp_dailypoint ORDER BY day")
    expected = [(day, len(of), [min(of), median(of), max(of)]) for day, of in sorted(days.items())]
    assert [(day, n, json.loads(of) if isinstance(of, str) else of) for day, n, of in stored] == expected
    left = set(Run.objects.values_list("pk", flat=True))
    assert left == {run for run, at, _ in points if at >= cut} | exempt
    assert read_rows("SELECT count(*) FROM benchapp_submission") == [(len(left),)]
    assert entry.done_count == len(points) - len(left)
    assert_consistent()
    assert list_derived() == before
    # The newest run begins nothing.
    Series.objects.update(judging_is_due=True)
    judge()
    assert list_derived() == before
    series.refresh_from_db()
    assert (series.measurement_count, series.first_at) == (
        len(left),
        min(at for run, at, _ in points if run in left),
    )


def test_chart_of_years_shows_the_days_whose_points_are_gone(admin: Client) -> None:
    series = plant_years()
    keep("points", 100)
    days = list(DailyPoint.objects.order_by("day"))

    answer = admin.get(f"/api/v1/history?series={series.pk}").json()

    buckets, points = answer["buckets"], answer["points"]
    assert (len(buckets), len(points)) == (len(days), Run.objects.count())
    first = [buckets[0][f"iops_{name}"] for name in ("minimum", "median", "maximum")]
    assert (first, buckets[0]["n"], buckets[0]["iops_p10"]) == (days[0].values["iops"], days[0].n, None)
    assert answer["daily_to_at"] == f"{days[-1].day + timedelta(days=1)}T00:00:00Z"
    page = admin.get(f"/series/{series.pk}/").content.decode()
    assert "whose runs a retention removed" in page
    assert admin.get("/api/v1/charts/history.svg", {"series": series.pk}).status_code == 200
    narrow = admin.get(f"/api/v1/history?series={series.pk}&from={timezone.now():%Y}-01-01").json()
    assert all(row["from_at"] >= f"{timezone.now():%Y}" for row in narrow["buckets"])


def test_newest_points_of_a_series_stay_however_old_they_are() -> None:
    start_at = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=400)
    make_series([1000.0] * 120, start_at=start_at, step=timedelta(days=1))
    judge()

    keep("points")

    assert (Run.objects.count(), DailyPoint.objects.count()) == (POINTS_KEPT + 1, 69)
    assert Level.objects.get(metric="iops").from_at == start_at


def test_baselines_pinned_charts_studies_and_other_pools_are_exempt() -> None:
    start_at = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=400)
    step = timedelta(days=1)
    for name in ("db-1", "db-2", "db-3", "db-4"):
        make_series([1000.0] * 120, host=make_host(name), start_at=start_at, step=step)
    judge()
    DetectionResult.objects.filter(series__host__name="db-1", metric="iops").update(
        baseline_from_at=start_at + 20 * step
    )
    span = f"from={start_at + 10 * step:%Y-%m-%d}&to={start_at + 19 * step:%Y-%m-%d}"
    PinnedChart.objects.create(owner=make_user(), position=1, kind="history", query=f"q=host:db-2&{span}")
    Study.objects.create(
        title="t", panels=[{"kind": "history", "query": "q=host:db-2", "title": "", "text": ""}]
    )

    compared = (
        f"a=host:db-3&a_from={start_at + 30 * step:%Y-%m-%d}&a_to={start_at + 34 * step:%Y-%m-%d}&b=host:db-9"
    )
    PinnedChart.objects.create(owner=make_user(), position=1, kind="compare", query=compared)

    entry = Correction(
        kind="retention", tier="points", keep_days=30, filter="host:db-1,db-2,db-3", reason="trial"
    )
    effect = preview_retention(entry)
    keep("points", filter="host:db-1,db-2,db-3")

    counts = dict(Run.objects.values_list("host__name").annotate(runs=Count("pk")))
    # A day more on both sides, for time zones.
    assert counts == {"db-1": 101, "db-2": POINTS_KEPT + 1 + 12, "db-3": POINTS_KEPT + 1 + 7, "db-4": 120}
    assert (effect.rows, effect.kept) == (360 - sum(counts.values()) + 120, sum(counts.values()) - 120)
    assert effect.size_bytes > 100 * effect.rows


def test_output_traces_and_histograms_are_removed_alone() -> None:
    store(50)
    age()
    for run in Run.objects.all():
        make_trace(run)
    Measurement.objects.update(latency_bins=[1, 2, 3])
    counted = list(Measurement.objects.order_by("pk").values_list("run", "iops", "latency_p99_ns"))

    effects = {
        tier: preview_retention(Correction(kind="retention", tier=tier, keep_days=30, reason="trial"))
        for tier in ("output", "traces", "histograms")
    }
    for tier, effect in effects.items():
        assert keep(tier).done_count == effect.rows > 0, tier

    assert list(Measurement.objects.order_by("pk").values_list("run", "iops", "latency_p99_ns")) == counted
    begins = Level.objects.values_list("first_run_id", flat=True)
    assert set(Submission.objects.exclude(body=None).values_list("runs", flat=True)) == set(begins)
    assert set(Trace.objects.values_list("run", flat=True)) == set(begins)
    stored = Measurement.objects.exclude(percentiles={}, latency_bins=None)
    assert set(stored.values_list("run", flat=True)) == set(begins)


def test_runs_without_raw_output_are_deleted_for_good_and_the_preview_says_so(admin: Client) -> None:
    store(3)
    Submission.objects.filter(runs=Run.objects.earliest("started_at")).update(body=None)

    preview = Page(admin.get("/corrections/delete", {"q": "host:db-1"})).words
    deletion = delete(filter="host:db-1")
    CORRECTIONS.cancel(deletion.pk, by=None)
    finish()

    assert "The raw output of 1 run was removed by a retention: no undo." in preview
    deletion.refresh_from_db()
    assert (deletion.unreadable_count, Run.objects.count()) == (1, 2)


def test_resolved_incidents_go_and_open_or_present_ones_stay() -> None:
    plant_years()
    present = Incident.objects.get()
    old = timezone.now() - timedelta(days=90)
    Incident.objects.update(state=IncidentState.RESOLVED, resolved_at=old)
    values = {"severity": "low", "started_at": old, "relative": 0.1, "opened_at": old, "updated_at": old}
    gone = Incident.objects.create(title="gone", state="resolved", resolved_at=old, **values)
    merged = Incident.objects.create(title="merged", merged_into=gone, **values)
    unresolved = Incident.objects.create(title="open", **values)
    young = Incident.objects.create(title="young", state="resolved", resolved_at=timezone.now(), **values)
    # Detection would find the change again, and open another incident.
    found_again = Incident.objects.create(title="again", state="resolved", resolved_at=old, **values)
    make_change(make_series(), incident=found_again, started_at=timezone.now() - timedelta(days=50))

    assert keep("incidents").done_count == 1

    left = set(Incident.objects.values_list("pk", flat=True))
    assert left == {present.pk, unresolved.pk, young.pk, found_again.pk}
    assert merged.pk not in left


def test_retention_looks_once_a_day_until_it_ends() -> None:
    store(2)
    entry = keep("output")
    assert (entry.state, make_retentions_due()) == ("applied", 0)
    Correction.objects.update(removed_at=timezone.now() - timedelta(hours=25))

    tasks.forget()

    entry.refresh_from_db()
    assert entry.state == "applying"
    finish()
    CORRECTIONS.cancel(entry.pk, by=None)
    entry.refresh_from_db()
    assert entry.state == "ended"
    Correction.objects.update(removed_at=timezone.now() - timedelta(hours=25))
    assert make_retentions_due() == 0
    CORRECTIONS.restore(entry.pk, by=None)
    entry.refresh_from_db()
    assert entry.state == "applying"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tier": ""}, "say what to remove: output, traces, histograms, points, incidents"),
        ({"keep_days": 29}, "keep from 30 to 36500 days"),
        ({"keep_days": None}, "keep from 30 to 36500 days"),
        ({"run_ids": [1]}, "a retention has a filter, a tier and a number of days only"),
        ({"tier": "incidents", "filter": "kernel:6.1"}, "kernel is a fact of runs"),
        ({"kind": "deletion", "filter": "host:db-1"}, "a deletion has none"),
    ],
)
def test_retention_without_a_meaning_is_refused(given: dict[str, Any], text: str) -> None:
    values = {"kind": "retention", "tier": "output", "keep_days": 30, "reason": "trial", **given}

    with pytest.raises(BadValue) as refused:
        CORRECTIONS.create(Correction(**values), by=None)

    assert text in str(refused.value)


def test_page_and_api_preview_what_is_removed(admin: Client, editor: Client) -> None:
    store(50)
    age()
    given = {"tier": "output", "keep_days": "30", "filter": "host:db-1", "reason": "space"}

    answer = admin.post("/corrections/retention", {**given, "preview": "yes"})
    body = {"kind": "retention", "tier": "output", "keep_days": 30, "reason": "space", "dry_run": True}
    effect = admin.post("/api/v1/corrections", body, content_type="application/json").json()["retention"]

    assert "49 rows" in Page(answer).words
    assert "Everything is kept until you set one." in Page(admin.get("/corrections/retention")).words
    assert (effect["rows"], effect["kept"], effect["is_estimated"]) == (49, 1, False)
    assert not Correction.objects.exists()
    refused = editor.post("/api/v1/corrections", {**body, "dry_run": False}, content_type="application/json")
    assert (refused.status_code, editor.get("/corrections/retention").status_code) == (403, 403)
    done = admin.post("/corrections/retention", {**given, "seen": answer.context["seen"], "apply": "yes"})
    finish()
    entry = Correction.objects.get()
    assert done["Location"] == f"/corrections/{entry.pk}/"
    assert "Raw output kept for 30 days: 49 removed" in Page(admin.get(done["Location"])).words
    assert "30 days of host:db-1" in Page(admin.get("/status/")).words
    missing = admin.get(f"/api/v1/runs/{Run.objects.latest('started_at').pk}/output")
    assert (missing.status_code, "expired" in missing.json()["detail"]) == (404, True)
