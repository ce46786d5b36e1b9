from datetime import timedelta

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.incidents.read.benchmark_health import read_benchmark_health
from benchapp.incidents.rules.benchmark_health import RUNS_WITHOUT_CHANGE
from benchapp.models import DetectionStatus, IncidentState, Verdict
from tests.factories import (
    NOON,
    make_change,
    make_detection_policy,
    make_detection_result,
    make_host,
    make_incident,
    make_points,
    make_run,
    make_series,
)

pytestmark = pytest.mark.django_db
NOW = NOON + timedelta(days=1)


def read(grouping="series", text="", **options):
    return read_benchmark_health(parse_filter(text), grouping=grouping, now=NOW, **options)


def add_incidents(series, *, sizes=(), verdict=Verdict.NONE, days_ago=10):
    for size in sizes:
        at = NOON + timedelta(minutes=series.changes.count())
        incident = make_incident(
            changes=[make_change(series, at=at, relative=-size)],
            metric="iops",
            relative=-size,
            verdict=verdict,
            state=IncidentState.RESOLVED if verdict else IncidentState.NEW,
            opened_at=NOW - timedelta(days=days_ago),
        )
        assert incident.is_regression


def codes_of(health):
    return {row.key: [finding.code for finding in row.findings] for row in health.rows}


def test_healthy_series_are_counted_and_not_listed():
    make_series([1.0, 2.0])

    health = read()

    assert (health.rows, health.healthy_count, health.series_count) == ((), 1, 1)


def test_retired_hosts_and_the_host_of_the_sample_are_left_out():
    long_ago = NOON - timedelta(days=60)
    expected = make_series([1.0], host=make_host("db-1"), start_at=long_ago)
    pool = make_series([1.0], pool="cache", start_at=long_ago)
    make_series([1.0], host=make_host("db-2", retired_at=NOON), start_at=long_ago)
    make_series([1.0], host=make_host("sample"), start_at=long_ago)

    assert set(codes_of(read(without="sample"))) == {str(expected.pk), str(pool.pk)}


def test_series_with_findings_are_listed_with_most_findings_first():
    stale = make_series([1.0], start_at=NOON - timedelta(days=60))
    noisy = make_series([1.0], start_at=NOON - timedelta(days=60))
    make_detection_result(noisy, status=DetectionStatus.NOISY, smallest_detectable_change=0.4)

    health = read()

    assert list(codes_of(health).items()) == [
        (str(noisy.pk), ["no-data", "high-spread"]),
        (str(stale.pk), ["no-data"]),
    ]
    assert health.rows[0].series.id == noisy.pk


def test_incidents_are_counted_by_verdict_and_noise_gets_a_proposal():
    series = make_series([1.0])
    add_incidents(series, sizes=(0.06, 0.07), verdict=Verdict.NOISE)
    add_incidents(series, sizes=(0.3,), verdict=Verdict.REAL)

    (row,) = read().rows

    assert [finding.code for finding in row.findings] == ["mostly-noise"]
    assert (row.facts.verdicts.noise, row.facts.verdicts.real, row.facts.incident_count) == (2, 1, 3)
    assert (row.proposal.metric, row.proposal.threshold) == ("iops", 0.05)
    assert (row.proposal.proposal.threshold, row.proposal.proposal.noise_left_out) == (0.08, 2)


def test_threshold_is_not_proposed_again_once_it_is_a_policy():
    series = make_series([1.0])
    add_incidents(series, sizes=(0.06, 0.07, 0.2), verdict=Verdict.NOISE)
    add_incidents(series, sizes=(0.3,), verdict=Verdict.REAL)
    make_detection_policy(filter="", smallest_change=0.08)

    (before,) = read().rows
    make_detection_policy(filter="", smallest_change=before.proposal.proposal.threshold)
    (after,) = read().rows

    assert (before.proposal.threshold, before.proposal.proposal.threshold) == (0.08, 0.21)
    assert after.proposal is None


def test_incidents_of_earlier_quarters_count_only_while_they_are_open():
    series = make_series([1.0])
    add_incidents(series, sizes=(0.1,) * 5, verdict=Verdict.NOISE, days_ago=120)
    add_incidents(series, sizes=(0.1,), days_ago=120)

    health = read()

    assert codes_of(health) == {str(series.pk): ["unresolved"]}
    assert (health.total.incident_count, health.total.verdicts.rated) == (0, 0)


def test_series_without_any_change_are_found():
    series, run = make_series(), make_run()
    times = [NOON - timedelta(hours=hour) for hour in range(RUNS_WITHOUT_CHANGE)]
    make_points(series, run, times, iops=1.0)

    assert codes_of(read()) == {str(series.pk): ["never-changed"]}
    make_change(series)
    assert codes_of(read()) == {}


def test_hosts_and_profiles_are_groups_of_their_series():
    host = make_host("db-1")
    for _ in range(2):
        make_series([1.0], host=host, start_at=NOON - timedelta(days=60))
    make_series([1.0], host=make_host("db-2"))

    assert codes_of(read("host")) == {"host:db-1": ["no-data"]}
    assert codes_of(read("profile")) == {}
    assert codes_of(read("profile", "host:db-1")) == {"quick": ["no-data"]}


def test_an_incident_counts_once_for_each_of_its_hosts_and_workloads():
    first, second = make_series([1.0], host=make_host("db-1")), make_series([1.0], host=make_host("db-2"))
    changes = [make_change(first), make_change(second)]
    make_incident(changes=changes, verdict=Verdict.REAL, state=IncidentState.RESOLVED, opened_at=NOW)

    health = read()

    assert [(row.name, row.incident_count) for row in health.by_scope] == [("host:db-1", 1), ("host:db-2", 1)]
    assert [(row.name, row.verdicts.real) for row in health.by_workload] == [("randread", 1)]
    assert [row.incident_count for row in health.by_method] == [1]


def test_the_filter_selects_series():
    stale = make_series([1.0], host=make_host("db-1"), start_at=NOON - timedelta(days=60))
    make_series([1.0], host=make_host("db-2"), start_at=NOON - timedelta(days=60))

    assert list(codes_of(read(text="host:db-1"))) == [str(stale.pk)]


def test_pages_are_cut_from_all_rows():
    for _ in range(3):
        make_series([1.0], start_at=NOON - timedelta(days=60))

    health = read(offset=2, limit=2)

    assert (len(health.rows), health.row_count) == (1, 3)


def test_larger_spread_and_two_states_of_a_metric_are_findings():
    wider, alternating = make_series([1.0]), make_series([1.0])
    make_detection_result(wider, spread_increase={"from_at": NOON.isoformat(), "before": 0.02, "after": 0.08})
    make_detection_result(alternating, two_states={"low": 8.0, "high": 10.0})
    make_detection_result(alternating, metric="elapsed_s", status=DetectionStatus.NOISY)

    assert codes_of(read()) == {
        str(alternating.pk): ["high-spread", "two-states"],
        str(wider.pk): ["spread-increased"],
    }
    assert codes_of(read(metric="latency_p99_ns")) == {}
    assert read(metric="latency_p99_ns").elsewhere == (("iops", 2), ("elapsed_s", 1))


def test_queries_do_not_depend_on_the_number_of_series(django_assert_num_queries):
    for _ in range(4):
        make_series([1.0], start_at=NOON - timedelta(days=60))

    with django_assert_num_queries(6):
        read()
