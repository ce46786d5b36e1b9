"""One definition of open: what recovered is in no count, mark and list of open regressions, and has its own list.

A host with an open regression and one whose regression recovered 40 days ago are planted; the right answer is one each.
"""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.incidents.read.benchmark_health import read_benchmark_health
from benchapp.incidents.read.series_status import (
    count_open_regressions,
    read_scope_marks,
    read_series_marks,
)
from benchapp.judge import judge_series
from benchapp.models import Incident, IncidentState, Series, Verdict
from benchapp.overview.read.search import search_incidents
from benchapp.storage.read.hosts import count_totals
from tests.detection.write.judging import make_level
from tests.factories import make_change, make_host, make_incident, make_series
from tests.pages import Page

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def plant(host: str, *, metric: str = "iops") -> tuple[Series, Incident]:
    """Plant a series with a regression of high severity in one metric."""
    series = make_series(
        make_level(1000.0, 30), host=make_host(host), start_at=timezone.now() - 30 * DAY, step=DAY
    )
    judge_series([series.pk])
    change = make_change(series, after=750.0, metric=metric, is_regression=True)
    incident = make_incident(
        changes=[change],
        metric=metric,
        scope=series.scope,
        severity="high",
        title=f"lower on {host}",
        opened_at=timezone.now() - 50 * DAY,
    )
    return series, incident


@pytest.fixture
def planted() -> tuple[Series, Series]:
    """Return the series with the open regression, and the one whose incident recovered 40 days ago."""
    (open_series, _), (back_series, back) = plant("db-1"), plant("db-2")
    Incident.objects.filter(pk=back.pk).update(recovered_at=timezone.now() - 40 * DAY)
    return open_series, back_series


def test_marks_and_counts_have_the_open_one(planted: tuple[Series, Series]) -> None:
    ids = [series.pk for series in planted]

    marks = read_series_marks(ids, metric="iops")

    assert [marks[series_id].state for series_id in ids] == ["open", "recovered"]
    assert count_open_regressions(ids, metric="iops") == 1
    assert set(read_scope_marks(["host:db-1", "host:db-2"])) == {"host:db-1"}
    assert count_totals().open_incidents["high"] == 1
    assert [hit.key for hit in search_incidents("lower", limit=9)] == [
        str(marks[series_id].incident_id) for series_id in ids
    ]
    health = read_benchmark_health(Filter(), grouping="host", now=timezone.now())
    assert {row.key: row.facts.unresolved_count for row in health.rows} == {"host:db-1": 1}


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/", "Incidents 1 open"),
        ("/hosts/", "1 with open regressions"),
        ("/hosts/db-1/", "1 open regression"),
        ("/hosts/db-2/", "no open regressions"),
        ("/series/", "1 with an open regression"),
        ("/incidents/", "1 open regression, 1 of high severity"),
        ("/incidents/?tab=new", "1 new regression, 1 of high severity"),
        ("/incidents/?tab=recovered", "1 recovered regression"),
    ],
)
def test_pages_count_the_open_one(
    path: str, sentence: str, planted: tuple[Series, Series], viewer: Client
) -> None:
    page = Page(viewer.get(path))

    assert re.search(rf"\b{sentence}\b", page.words)
    if path == "/":
        assert "lower on db-2" not in page.words


@pytest.mark.parametrize(
    ("tab", "titles"),
    [
        ("open", ["lower on db-1"]),
        ("new", ["lower on db-1"]),
        ("acknowledged", []),
        ("recovered", ["lower on db-2"]),
        ("resolved", []),
        ("all", ["lower on db-1", "lower on db-2"]),
    ],
)
def test_lists_of_the_api_have_each_once(
    tab: str, titles: list[str], planted: tuple[Series, Series], viewer: Client
) -> None:
    rows = viewer.get(f"/api/v1/incidents?tab={tab}").json()["incidents"]

    assert sorted(row["title"] for row in rows) == titles
    assert all(row["is_open"] is (row["title"] == "lower on db-1") for row in rows)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/hosts/", "2 with open regressions"),
        ("/overview/charts/regressions/", "2 of 2 series are worse than their earlier level in a metric"),
        ("/series/", "2 series, 2 with an open regression, 1 in IOPS"),
        ("/series/?metric=latency_p99_ns", "2 series, 2 with an open regression, 1 in p99 latency"),
        ("/scaling/?metric=iops&x=host", "1 of 2 values has an open regression"),
        ("/matrix/?metric=iops&x=host&rows=pattern", "1 of 2 combinations is worse"),
        ("/history/?metric=iops", "1 of 2 series got worse: IOPS"),
        ("/history/?metric=latency_p99_ns", "1 of 2 series got worse: p99 latency"),
        ("/api/v1/status-badge?format=svg", "benchmarks: 2 of 2 series regressed"),
        ("/api/v1/status-badge?format=svg&metric=iops", "IOPS: 1 of 2 series regressed"),
        ("/api/v1/status-badge?format=svg&metric=latency_p99_9_ns", "p99.9 latency: 1 of 2 series regressed"),
    ],
)
def test_count_is_of_any_metric_or_names_the_one(path: str, sentence: str, viewer: Client) -> None:
    plant("db-1")
    plant("db-3", metric="latency_p99_ns")

    assert sentence in Page(viewer.get(path)).words


def test_accepted_change_hides_no_regression_of_another_metric(viewer: Client) -> None:
    series, incident = plant("db-1")
    Incident.objects.filter(pk=incident.pk).update(state=IncidentState.RESOLVED, verdict=Verdict.EXPECTED)
    tail = make_change(series, metric="latency_p99_ns", is_regression=True)
    make_incident(changes=[tail], metric="latency_p99_ns")

    assert read_series_marks([series.pk], metric="iops")[series.pk].state == "accepted"
    assert "1 with an open regression, 0 in IOPS" in Page(viewer.get("/series/")).words


def test_open_improvement_after_a_regression_hides_it_nowhere() -> None:
    series, _ = plant("db-1")
    make_incident(changes=[make_change(series, at=series.last_at - DAY, after=1100.0)], is_regression=False)

    assert read_series_marks([series.pk], metric="bandwidth_bytes_per_s")[series.pk].is_worse_in("iops")
    assert count_open_regressions([series.pk], metric="bandwidth_bytes_per_s") == 1
