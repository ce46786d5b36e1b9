"""The gate of a run over HTTP."""

import csv
import io
import random
from datetime import timedelta

import pytest
from django.test import Client

from benchapp.catalog.metrics import format_value
from benchapp.incidents.read.gate import BadBaseline, parse_gate_baseline
from benchapp.models import Host, IncidentState, Measurement, Run, Scope, Series, Verdict
from benchapp.models.measurement import describe_branch
from tests.factories import (
    NOON,
    calculate_levels,
    make_change,
    make_detection_policy,
    make_host,
    make_incident,
    make_measurement,
    make_run,
    make_series,
    make_token,
)

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def host() -> Host:
    return make_host("db-1")


@pytest.fixture
def client_of_host(host: Host) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token(Scope.INGEST, host=host)[1]}"})


def plant(host: Host, *, levels=((1000.0, 30),), noise: float = 0.02, **fields) -> Series:
    """Make a series of hourly runs with this noise; levels: (median, runs)."""
    chance = random.Random(1)
    values = [level * (1 + chance.gauss(0, noise)) for level, runs in levels for _ in range(runs)]
    return make_series(values, host=host, **fields)


def submit(series: Series, value: float | None, **fields) -> Run:
    """Make a run after all others of the series."""
    run = make_run(series.host, target=series.target, started_at=series.last_at + HOUR, **fields)
    make_measurement(run, series, iops=value, error=fields.get("error", 0))
    series.refresh_from_db()
    return run


def ask(client: Client, run: Run, **query):
    answer = client.get(f"/api/v1/runs/{run.pk}/gate", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("value", "outcome"), [(1000.0, "passed"), (800.0, "regressed"), (960.0, "undecided")]
)
def test_run_is_compared_with_its_level(host, client_of_host, value, outcome) -> None:
    series = plant(host)
    calculate_levels()
    run = submit(series, value)

    gate = ask(client_of_host, run)

    (row,) = gate["rows"]
    assert (gate["outcome"], gate["run"], gate["runs"], gate["tests"]) == (outcome, run.pk, [run.pk], 1)
    assert (row["series_id"], row["host"], row["metric"], row["outcome"]) == (
        series.pk,
        "db-1",
        "iops",
        outcome,
    )
    assert (row["value"], row["n"], row["baseline_n"], row["max_regression"]) == (value, 1, 30, 0.05)
    assert row["change"] == pytest.approx(value / 1000 - 1, abs=0.01)
    assert (row["value_text"], row["metric_label"]) == (format_value(value, "operations/s"), "IOPS")
    assert row["baseline_median_text"] == format_value(row["baseline_median"], "operations/s")
    assert row["series_page"] == f"/series/{series.pk}/"
    assert row["baseline_from"] == NOON.isoformat().replace("+00:00", "Z")


def test_persisting_regression_fails_until_a_person_accepts_it(host, client_of_host) -> None:
    """The runs that are regressed do not become the baseline, however many there are."""
    series = plant(host, levels=((1000.0, 30), (800.0, 30)))
    change = make_change(series, at=NOON + 30 * HOUR, before=1000.0, after=800.0)
    incident = make_incident(changes=[change])
    calculate_levels()
    run = submit(series, 800.0)

    red = ask(client_of_host, run)
    incident.state, incident.verdict = IncidentState.RESOLVED, Verdict.FIXED
    incident.save()
    claimed_fixed = ask(client_of_host, run)
    incident.verdict = Verdict.EXPECTED
    incident.save()
    green = ask(client_of_host, run)

    assert [each["outcome"] for each in (red, claimed_fixed, green)] == ["regressed", "regressed", "passed"]
    assert [each["rows"][0]["baseline_median"] for each in (red, green)] == pytest.approx(
        [1000, 800], rel=0.01
    )


@pytest.mark.parametrize(("later", "outcome"), [(550.0, "regressed"), (970.0, "passed"), (1200.0, "passed")])
def test_improvement_by_a_part_of_a_regression_is_no_baseline(host, client_of_host, later, outcome) -> None:
    series = plant(host, levels=((1000.0, 30), (500.0, 20), (later, 20)))
    for run, before, after in ((30, 1000.0, 500.0), (50, 500.0, later)):
        make_incident(changes=[make_change(series, at=NOON + run * HOUR, before=before, after=after)])
    calculate_levels()

    gate = ask(client_of_host, submit(series, later))

    assert gate["outcome"] == outcome
    baseline = 1000.0 if outcome == "regressed" else later
    assert gate["rows"][0]["baseline_median"] == pytest.approx(baseline, rel=0.01)


def test_regression_that_nobody_grouped_is_no_baseline(host, client_of_host) -> None:
    series = plant(host, levels=((1000.0, 30), (800.0, 10)))
    make_change(series, at=NOON + 30 * HOUR, before=1000.0, after=800.0)
    calculate_levels()

    assert ask(client_of_host, submit(series, 800.0))["outcome"] == "regressed"


def test_improvement_is_the_new_baseline(host, client_of_host) -> None:
    series = plant(host, levels=((1000.0, 30), (1200.0, 10)))
    make_incident(changes=[make_change(series, at=NOON + 30 * HOUR, before=1000.0, after=1200.0)])
    calculate_levels()

    assert ask(client_of_host, submit(series, 1000.0))["outcome"] == "regressed"


def test_baseline_may_be_a_span_or_a_label(host, client_of_host) -> None:
    series = plant(host, levels=((1000.0, 30), (800.0, 30)))
    older = Run.objects.filter(started_at__gte=NOON + 10 * HOUR, started_at__lt=NOON + 20 * HOUR)
    older.update(labels={"branch": "main", "commit": "abc:1"})
    calculate_levels()
    run = submit(series, 800.0, labels={"branch": "main"})

    until = f"..{(NOON + 30 * HOUR):%Y-%m-%dT%H:%M:%SZ}"
    answers = [
        ask(client_of_host, run, baseline=text)
        for text in (
            until,
            f"{(NOON + 30 * HOUR):%Y-%m-%dT%H:%M:%SZ}..",
            "label.branch:main",
            "label.commit:abc:1",
        )
    ]

    assert [each["outcome"] for each in answers] == ["regressed", "passed", "regressed", "regressed"]
    assert [each["rows"][0]["baseline_n"] for each in answers] == [30, 30, 10, 10]


def test_series_without_a_baseline_is_undecided(host, client_of_host) -> None:
    series = plant(host, levels=((1000.0, 4),))
    calculate_levels()
    run = submit(series, 1000.0)

    for query in ({}, {"baseline": "label.branch:none"}):
        gate = ask(client_of_host, run, **query)
        assert (gate["outcome"], gate["rows"][0]["reason"]) == ("undecided", "no-baseline")


def test_level_whose_runs_were_excluded_is_no_baseline(host, client_of_host) -> None:
    """Until the next evaluation the level is still stored."""
    series = plant(host)
    calculate_levels()
    series.measurements.update(is_excluded=True)

    gate = ask(client_of_host, submit(series, 1000.0))

    assert (gate["outcome"], gate["rows"][0]["reason"], gate["rows"][0]["baseline_n"]) == (
        "undecided",
        "no-baseline",
        0,
    )


def test_failed_run_is_undecided(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()

    gate = ask(client_of_host, submit(series, 1000.0, error=5))

    assert (gate["outcome"], gate["rows"][0]["reason"], gate["rows"][0]["n"]) == ("undecided", "no-value", 0)


def test_further_runs_of_the_build_count(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()
    first = submit(series, 962.0)
    single = ask(client_of_host, first)
    others = [submit(series, 962.0) for _ in range(single["rows"][0]["runs_needed"])]

    gate = ask(client_of_host, first, runs=",".join(str(run.pk) for run in others))

    assert (single["outcome"], gate["outcome"]) == ("undecided", "regressed")
    assert gate["runs"] == [first.pk, *(run.pk for run in others)]
    assert (gate["rows"][0]["n"], gate["rows"][0]["baseline_n"]) == (1 + len(others), 30)


def test_further_run_of_another_series_adds_its_rows(host, client_of_host) -> None:
    """A submission may be several runs."""
    series, other = plant(host), plant(host)
    calculate_levels()
    run, slow = submit(series, 1000.0), submit(other, 800.0)

    gate = ask(client_of_host, run, runs=slow.pk)

    assert (gate["outcome"], gate["tests"]) == ("regressed", 2)
    assert [(row["series_id"], row["outcome"]) for row in gate["rows"]] == [
        (series.pk, "passed"),
        (other.pk, "regressed"),
    ]


def test_repetitions_of_a_build_are_one_of_the_baseline(host, client_of_host) -> None:
    series = plant(host)
    for place, run in enumerate(Run.objects.order_by("started_at")):
        # Three runs a build, all of one commit.
        run.started_at, run.labels = NOON + place // 3 * HOUR + place % 3 * HOUR / 4, {"commit": "abc"}
        run.save()
        run.measurements.update(started_at=run.started_at)
    calculate_levels()

    gate = ask(client_of_host, submit(series, 1000.0))

    assert gate["rows"][0]["baseline_n"] == 10


def test_error_rate_is_of_all_times_that_the_gate_is_asked(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()
    run = submit(series, 960.0)

    once, often = (ask(client_of_host, run, asks=asks)["rows"][0] for asks in (1, 5))

    assert once["worst"] > often["worst"]
    assert once["best"] < often["best"]


def test_series_of_a_run_are_also_a_row_together(host, client_of_host) -> None:
    series = [plant(host), plant(host, direction="write")]
    for each in series[1:]:
        for measurement, run in zip(
            each.measurements.order_by("started_at"),
            Run.objects.order_by("started_at", "pk")[::2],
            strict=True,
        ):
            measurement.run = run
            measurement.save()
    calculate_levels()
    run = submit(series[0], 800.0)
    make_measurement(run, series[1], iops=800.0)

    gate = ask(client_of_host, run)

    together, *rows = gate["rows"]
    assert (gate["tests"], len(rows)) == (3, 2)
    assert (together["series_id"], together["series_count"], together["series_page"]) == (None, 2, None)
    assert (together["workload_title"], together["outcome"], together["unit"]) == (
        "all 2 series together",
        "regressed",
        "percent",
    )
    assert together["value_text"] == f"{together['value']:.3g} %"
    assert together["change"] == pytest.approx(-0.2, abs=0.01)


def test_run_of_a_branch_counts_but_no_run_that_a_person_excluded(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()
    labels = {"branch": "pr-17"}
    excluded = {"labels": labels, "excluded_at": NOON, "excluded_reason": describe_branch(labels)}
    run = submit(series, 800.0, **excluded)
    Measurement.objects.filter(run=run).update(is_excluded=True)
    of_branch = ask(client_of_host, run)
    Run.objects.filter(pk=run.pk).update(excluded_reason="disk was full")
    of_person = ask(client_of_host, run)

    assert (of_branch["outcome"], of_branch["rows"][0]["n"]) == ("regressed", 1)
    assert (of_person["outcome"], of_person["rows"][0]["reason"]) == ("undecided", "no-value")


def test_failed_further_run_adds_no_row_of_a_metric_that_is_not_measured(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()
    run, failed = submit(series, 1000.0), submit(series, 1000.0, error=5)

    gate = ask(client_of_host, run, runs=failed.pk)

    assert (gate["outcome"], [row["metric"] for row in gate["rows"]], gate["rows"][0]["n"]) == (
        "passed",
        ["iops"],
        1,
    )


def test_error_rate_is_divided_over_all_rows(host, client_of_host) -> None:
    one, other = plant(host), plant(host)
    calculate_levels()
    run = submit(one, 950.0)
    alone = ask(client_of_host, run)["rows"][0]
    make_measurement(run, other, iops=1000.0)

    both = ask(client_of_host, run)

    assert both["tests"] == 2
    assert both["rows"][0]["best"] > alone["best"]
    assert both["rows"][0]["worst"] == alone["worst"]


def test_latency_regresses_upwards(host, client_of_host) -> None:
    series = plant(host, metric="latency_p99_ns")
    calculate_levels()
    run = make_run(host, started_at=series.last_at + HOUR)
    make_measurement(run, series, latency_p99_ns=1400.0)

    gate = ask(client_of_host, run, metric="latency_p99_ns", max_regression="0.1")

    assert (gate["outcome"], gate["rows"][0]["better"], gate["rows"][0]["max_regression"]) == (
        "regressed",
        "lower",
        0.1,
    )


def test_limit_is_the_threshold_of_the_policy_that_matches_the_series(host, client_of_host) -> None:
    make_detection_policy(smallest_change=0.3, filter="host:db-1")
    wide, usual = plant(host), plant(make_host("db-2"))
    calculate_levels()
    runs = submit(wide, 800.0), submit(usual, 800.0)
    reader = Client(headers={"Authorization": f"Bearer {make_token(Scope.READ)[1]}"})

    gates = [ask(reader, run) for run in runs]
    stated = ask(reader, runs[0], max_regression="0.05")

    assert [(gate["outcome"], gate["rows"][0]["max_regression"]) for gate in (*gates, stated)] == [
        ("passed", 0.3),
        ("regressed", 0.05),
        ("regressed", 0.05),
    ]


def test_regression_of_the_baseline_lasts_until_it_is_within_the_threshold_of_the_policy(
    host, client_of_host
) -> None:
    series = plant(host, levels=((1000.0, 30), (500.0, 20), (850.0, 20)))
    for run, before, after in ((30, 1000.0, 500.0), (50, 500.0, 850.0)):
        make_incident(changes=[make_change(series, at=NOON + run * HOUR, before=before, after=after)])
    calculate_levels()
    run = submit(series, 850.0)

    usual = ask(client_of_host, run)
    make_detection_policy(smallest_change=0.2, filter="host:db-1")
    wide = ask(client_of_host, run)

    assert [(gate["outcome"], gate["rows"][0]["baseline_n"]) for gate in (usual, wide)] == [
        ("regressed", 30),
        ("passed", 20),
    ]


def test_rows_as_csv(host, client_of_host) -> None:
    series = plant(host)
    calculate_levels()
    run = submit(series, 1000.0)

    answer = client_of_host.get(f"/api/v1/runs/{run.pk}/gate", {"format": "csv"})

    (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["series_id"], row["outcome"], row["baseline_n"]) == (str(series.pk), "passed", "30")


def test_runs_of_other_hosts_are_not_found(host, client_of_host) -> None:
    own = submit(plant(host), 1000.0)
    foreign = submit(plant(make_host("db-2")), 1000.0)

    assert client_of_host.get(f"/api/v1/runs/{own.pk}").status_code == 200
    assert client_of_host.get(f"/api/v1/runs/{foreign.pk}").status_code == 404
    assert client_of_host.get(f"/api/v1/runs/{foreign.pk}/gate").status_code == 404
    assert client_of_host.get(f"/api/v1/runs/{own.pk}/gate", {"runs": foreign.pk}).status_code == 404
    assert client_of_host.get("/api/v1/runs").status_code == 403


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"baseline": "yesterday"}, "baseline"),
        ({"baseline": "label.a:\0"}, "baseline"),
        ({"baseline": "label.a:" + 201 * "x"}, "baseline"),
        ({"baseline": ".."}, "baseline"),
        ({"baseline": "2026-13-01.."}, "baseline"),
        ({"baseline": "..0001-01-01"}, "baseline"),
        ({"baseline": "2026-11-02..2026-11-01"}, "baseline"),
        ({"metric": "speed"}, "metric"),
        ({"max_regression": "-1"}, "max_regression"),
        ({"error_rate": "1"}, "error_rate"),
        ({"runs": "x"}, "runs"),
        ({"limit": "3"}, "limit"),
    ],
)
def test_bad_parameters_are_named(host, client_of_host, query, where) -> None:
    run = submit(plant(host), 1000.0)

    answer = client_of_host.get(f"/api/v1/runs/{run.pk}/gate", query)

    assert answer.status_code == 400
    assert answer.json()["pointer"] == where


def test_dates_of_a_span_are_utc() -> None:
    span = parse_gate_baseline("2026-11-01..2026-11-15T10:00:00+02:00")

    assert (span.from_at.isoformat(), span.to_at.isoformat()) == (
        "2026-11-01T00:00:00+00:00",
        "2026-11-15T08:00:00+00:00",
    )
    with pytest.raises(BadBaseline, match="valid: accepted"):
        parse_gate_baseline("main")
