"""Pages, API and CSV against a table of right answers, calculated from the raw values of a planted fleet."""

import csv
from collections import defaultdict
from statistics import median
from typing import Any

import pytest
from django.test import Client

from benchapp.framework.times import to_iso
from benchapp.models import DetectionResult, DetectionStatus, Incident
from tests.pages import Page
from tests.planted_fleet import DAYS, NOISE, POOL, Fleet, plant_fleet
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
# Before and after all steps: days 20 to 29, and from day 32 on.
BEFORE, AFTER = slice(20, 30), slice(32, None)


@shared_rows
def fleet() -> Fleet:
    return plant_fleet()


def list_worse(fleet: Fleet) -> dict[str, dict[str, list[float]]]:
    """Return the planted losses of IOPS of 5 % and more between the two periods, by scope and pattern."""
    worse: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in fleet.series:
        relative = each.median("iops", AFTER) / each.median("iops", BEFORE) - 1
        if relative <= -0.05:
            scope = f"host:{each.hosts[0]}" if len(each.hosts) == 1 else f"pool:{POOL}"
            worse[scope][each.rw].append(relative)
    return {scope: dict(patterns) for scope, patterns in worse.items()}


def compare_periods(fleet: Fleet, **query: str) -> dict[str, str]:
    return {
        "a_from": to_iso(fleet.at(20)),
        "a_to": to_iso(fleet.at(30)),
        "b_from": to_iso(fleet.at(32)),
        **query,
    }


def test_hosts_are_compared_by_pattern_and_sorted_by_the_largest_difference(
    fleet: Fleet, viewer: Client
) -> None:
    worse = list_worse(fleet)
    largest = {scope: min(map(median, patterns.values())) for scope, patterns in worse.items()}

    answer = viewer.get("/api/v1/comparison", compare_periods(fleet, metrics="iops")).json()

    found = {
        scope["scope"]: {
            each["pattern"]: (each["count"], each["relative"])
            for each in scope["differences"]
            if each["is_worse"]
        }
        for scope in answer["scopes"]
        if scope["worse"]
    }
    assert list(found) == sorted(largest, key=lambda scope: largest[scope])
    assert found == {
        scope: {rw: (len(losses), pytest.approx(median(losses))) for rw, losses in patterns.items()}
        for scope, patterns in worse.items()
    }
    assert all(not scope["better"] for scope in answer["scopes"])


def test_page_names_the_pattern_that_lost_on_each_host(fleet: Fleet, viewer: Client) -> None:
    query: dict[str, Any] = compare_periods(fleet)

    words = Page(viewer.get("/compare/", {**query, "metric": "iops"})).words

    assert "12 of 46 hosts or pools are worse: db-03: random read, IOPS −25 % (8 of 8 series);" in words
    table = words[words.index("By host") :]
    assert "db-09 ▼ random read, IOPS −18 % (8 of 8 series) 8 0 20" in table
    assert "db-01 same 0 0 20" in table


def test_mark_is_on_the_side_that_has_the_change(fleet: Fleet, viewer: Client) -> None:
    query = compare_periods(fleet, metrics="iops", q="host:db-09 rw:randread", format="csv")

    rows = list(csv.DictReader(viewer.get("/api/v1/comparison", query).content.decode().splitlines()))

    assert {(row["a_change_state"], row["b_change_state"]) for row in rows} == {("", "open")}


def test_difference_below_the_threshold_is_the_same(fleet: Fleet, viewer: Client) -> None:
    planted = {each.id: each for each in fleet.series}

    rows = viewer.get("/api/v1/comparison", compare_periods(fleet, metrics="iops")).json()["pairs"]

    assert len(rows) == len(planted)
    for row in rows:
        each = planted[row["a_series"][0]]
        ratio = each.median("iops", AFTER) / each.median("iops", BEFORE)
        assert row["ratio"] == pytest.approx(ratio)
        assert row["is_worse"] is (None if 0.9524 < ratio < 1.05 else ratio < 1)


def test_noise_after_a_recovery_is_that_within_the_levels(fleet: Fleet) -> None:
    ids = [each.id for each in fleet.of("db-22")]
    results = DetectionResult.objects.filter(series_id__in=ids, metric="latency_p99_ns")

    assert {(result.status, result.n) for result in results} == {(DetectionStatus.STEADY, DAYS)}
    # 5 % are planted; the noise of 40 runs is known to a tenth of it.
    assert all(result.spread == pytest.approx(NOISE["latency_p99_ns"], rel=0.3) for result in results)


def test_incident_titles_name_the_cause_that_people_recognize(fleet: Fleet) -> None:
    titles = {
        incident.scope: incident.title for incident in Incident.objects.filter(merged_into=None, is_open=True)
    }

    assert titles["host:db-30"].endswith("in 8 of 20 series, random 4k only")
    assert titles[""].startswith("db-03 and db-09 to db-16: IOPS ")
    assert titles[""].endswith("in 72 of 180 series, random read only")


def test_fleet_chart_counts_the_series_and_hosts_that_lost(fleet: Fleet, viewer: Client) -> None:
    lost = [
        each
        for each in fleet.series
        if each.median("iops", AFTER) / each.median("iops", slice(0, 14)) - 1 <= -0.05
    ]

    answer = viewer.get("/api/v1/fleet/levels").json()
    chart = viewer.get("/overview/charts/fleet/").context["chart"]

    assert answer["below_series_count"] == len(lost)
    assert {f"pool:{POOL}" if len(each.hosts) > 1 else f"host:{each.hosts[0]}" for each in lost} == set(
        answer["below_scopes"]
    )
    assert f"; {answer['below_series_count']} series on 11 hosts and 1 pool are lower" in chart.title
