"""The runs: list, filters, and one run with every number."""

import csv
import io
import json
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.catalog.metrics import CATALOG
from benchapp.catalog.metrics import PERCENTILES as PERCENTILES_OF_CATALOG
from benchapp.models import Kind, Run
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_submission,
    make_target,
    make_workload,
)
from tests.pages import Page

MEASURED = {
    "iops": 33415.26,
    "bandwidth_bytes_per_s": 136868904.0,
    "latency_mean_ns": 241_000.5,
    "latency_p50_ns": 198_000.0,
    "latency_p95_ns": 352_000.0,
    "latency_p99_ns": 447_488.0,
    "latency_p99_9_ns": 583_000.0,
    "latency_max_ns": 1_240_000.0,
}
PERCENTILES = {"50": 198000, "99": 447488, "99.9": 583000, "99.99": 727000}


def make_measured_run(name: str = "db-01", **fields):
    run = make_run(make_host(name), **fields)
    make_measurement(run, job_name="randread-4k", percentiles=PERCENTILES, **MEASURED)
    return run


def test_list_shows_the_newest_first_with_their_results(viewer: Client) -> None:
    make_measured_run("db-01", started_at=NOON)
    make_measured_run("db-02", started_at=NOON + timedelta(hours=1))

    page = Page(viewer.get(reverse("runs")))

    assert page.words.index("21 Nov 2026 13:00") < page.words.index("21 Nov 2026 12:00")
    assert "2 runs" in page.words
    assert "33\u202f415" in page.words
    assert {cell["title"] for cell in page.cells if cell["data-metric"] == "iops"} == {"33415.26"}


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ({}, {"db-01", "db-02"}),
        ({"host": "db-01"}, {"db-01"}),
        ({"profile": "nightly"}, {"db-02"}),
        ({"rw": "randwrite"}, {"db-02"}),
        ({"from": "2026-11-22"}, {"db-02"}),
        ({"to": "2026-11-21"}, {"db-01"}),
        ({"from": "2026-11-21", "to": "2026-11-22"}, {"db-01", "db-02"}),
        ({"text": "gp3 db-01"}, {"db-01"}),
        ({"failed": "1"}, {"db-02"}),
        ({"pool": "blue"}, {"db-02"}),
        ({"host": "nobody"}, set()),
    ],
)
def test_filters_narrow_the_list(query: dict[str, str], hosts: set[str], viewer: Client) -> None:
    first = make_run(make_host("db-01"), target=make_target(volume_type="gp3"))
    make_measurement(first)
    second = make_run(
        make_host("db-02", pool="blue"), started_at=NOON + timedelta(days=1), profile="nightly", error=5
    )
    make_measurement(second, make_series(host=second.host, workload=make_workload(rw="randwrite")))

    page = Page(viewer.get(reverse("runs"), query))

    assert {link.split("/")[2] for link in page.links if link.startswith("/hosts/db")} == hosts


def test_filter_stays_in_the_form_and_in_the_link_to_older_runs(viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("benchapp.series.pages.runs.RUNS_ON_A_PAGE", 1)
    host = make_host("db-01")
    for hour in range(2):
        make_run(host, started_at=NOON + timedelta(hours=hour))

    page = Page(viewer.get(reverse("runs"), {"host": "db-01", "from": "2026-11-01"}))

    (field,) = [tag for name, tag in page.tags if name == "input" and tag.get("name") == "q"]
    assert field["value"] == "host:db-01"
    (older,) = [link for link in page.links if "after=" in link]
    assert older.startswith("?host=db-01&from=2026-11-01&after=")
    assert "1 run" in Page(viewer.get(reverse("runs") + older)).words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"from": "yesterday"}, "From is not a valid date."),
        ({"from": "2026-02-02", "to": "2026-01-01"}, "From is after To"),
        ({"text": "x" * 2001}, "The filter has 2001 characters"),
        ({"q": "speed:4"}, "Unknown filter &#x27;speed&#x27;"),
        ({"after": "rubbish"}, "Invalid page link"),
        ({"host": "a\x00b"}, "has a NUL character"),
    ],
)
def test_filter_that_makes_no_sense_is_said_in_words(
    query: dict[str, str], words: str, viewer: Client
) -> None:
    response = viewer.get(reverse("runs"), query)

    assert response.status_code == 400
    assert words in response.content.decode()


def test_empty_server_says_how_to_get_the_first_result(viewer: Client) -> None:
    words = Page(viewer.get(reverse("runs"))).words

    assert "No results yet" in words
    assert "make up" in words
    assert "bench-agent.pyz run --profile quick" in words
    assert "bench-agent.pyz schedule install --cron" in words
    assert "fio --output-format=json job.fio | curl --data-binary @-" in words


def test_filter_without_a_match_offers_to_clear_it(viewer: Client) -> None:
    make_run()

    page = Page(viewer.get(reverse("runs"), {"host": "nobody"}))

    assert "host:nobody matches no runs." in page.words
    assert "/runs/" in page.links


def test_list_asks_as_much_for_many_runs_as_for_one(viewer: Client, django_assert_num_queries) -> None:
    for number in range(5):
        make_measured_run(f"db-{number}")

    with django_assert_num_queries(8):  # session, person, runs (2), measurements, counts, profiles
        viewer.get(reverse("runs"))


def test_every_number_of_a_run_stands_on_its_page_exactly(viewer: Client) -> None:
    run = make_measured_run()

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    shown = {cell["data-metric"]: float(cell["title"] or "nan") for cell in page.cells}
    assert shown == MEASURED
    assert {cell["data-job"] for cell in page.cells} == {"randread-4k"}


def test_percentiles_for_the_chart_stand_in_the_table(viewer: Client) -> None:
    run = make_measured_run()

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    cells = {
        tag["data-percent"]: float(tag["data-value"] or "nan")
        for _, tag in page.tags
        if "data-percent" in tag
    }
    assert cells == {"50": 198000.0, "99": 447488.0, "99.9": 583000.0, "99.99": 727000.0}


def test_title_of_a_run_holds_the_answer(viewer: Client) -> None:
    run = make_measured_run()

    words = Page(viewer.get(reverse("run", args=[run.pk]))).words

    assert "db-01: 64 MiB file, 4k random read 33\u202f415 IOPS, p99 447 µs" in words


def test_withheld_values_say_why(viewer: Client) -> None:
    run = make_run()
    make_measurement(run, job_name="mixed", iops=1000.0, missing={"percentiles": "clones-without-bins"})

    response = viewer.get(reverse("run", args=[run.pk]))

    assert "mixed: several concurrent jobs without histograms" in Page(response).words
    assert 'title="several concurrent jobs' in response.content.decode()
    assert "percentiles-table" not in response.content.decode()


def test_failed_run_says_so_in_words(viewer: Client) -> None:
    run = make_measured_run(error=5, command={"argv": ["fio"], "exit_status": 1, "stderr": "fio: io_u error"})

    words = Page(viewer.get(reverse("run", args=[run.pk]))).words

    assert f"Run {run.pk} on db-01 failed" in words
    assert "fio reported error 5 (Input/output error)." in words
    assert "fio: io_u error" in words


def test_run_shows_facts_and_conditions_with_labels_and_units(viewer: Client) -> None:
    run = make_run(
        environment=make_environment(facts={"limits": {"memory_bytes": 2**31}}),
        command={"conditions": {"extent_mean_bytes": 2**25}},
    )

    words = Page(viewer.get(reverse("run", args=[run.pk]))).words

    assert "Limitsmemory 2.00 GiB" in words
    assert "At the time of this run Mean size of extents32.0 MiB" in words


def test_run_knows_the_one_before_and_the_next(viewer: Client) -> None:
    host = make_host()
    runs = [make_run(host, started_at=NOON + timedelta(hours=hour)) for hour in range(3)]

    links = Page(viewer.get(reverse("run", args=[runs[1].pk]))).links

    assert reverse("run", args=[runs[0].pk]) in links
    assert reverse("run", args=[runs[2].pk]) in links


def test_page_asks_as_much_for_many_measurements_as_for_one(
    viewer: Client, django_assert_num_queries
) -> None:
    run = make_measured_run()
    for number in range(5):
        make_measurement(run, make_series(host=run.host, workload=make_workload(iodepth=number + 1)))

    # session, person, new incidents, run, its neighbors, measurements, levels, those before, traces, requests
    with django_assert_num_queries(11):
        viewer.get(reverse("run", args=[run.pk]))


def test_what_fio_printed_comes_out_of_the_envelope(viewer: Client) -> None:
    envelope = json.dumps(
        {
            "schema": "benchapp-envelope/1",
            "id": "6f1c0a9e-9f0b-4c7e-8f57-2f6c1a1b2c3d",
            "kind": "fio",
            "agent": {"version": "0.1.0"},
            "profile": "quick",
            "command": {"argv": ["fio"]},
            "fio_output": '{"fio version": "fio-3.36"}\n',
        }
    ).encode()
    host = make_host()
    run = make_run(host, submission=make_submission(host, body=envelope, kind=Kind.ENVELOPE))

    response = viewer.get(reverse("run_output", args=[run.pk]))

    assert response.content == b'{"fio version": "fio-3.36"}\n'
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in response["Content-Disposition"]


def test_bare_output_comes_back_as_it_is(viewer: Client) -> None:
    host = make_host()
    run = make_run(host, submission=make_submission(host, body=b"\xff odd bytes"))

    assert viewer.get(reverse("run_output", args=[run.pk])).content == b"\xff odd bytes"


def test_table_as_csv_has_base_units_and_escapes_formulas(viewer: Client) -> None:
    run = make_run(make_host("db-01"))
    make_measurement(run, job_name="\r=cmd()", percentiles=PERCENTILES, **MEASURED)

    text = viewer.get(reverse("run_table", args=[run.pk])).content.decode()

    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert '"\'\r=cmd()"' in text
    assert row["job_name"] == "'\r=cmd()"
    assert (row["iops"], row["latency_p99.9_ns"], row["latency_stddev_ns"]) == ("33415.3", "583000", "")
    assert row["started_at"] == "2026-11-21T12:00:00Z"


def test_page_csv_and_answer_of_a_run_have_every_metric_of_the_catalog(viewer: Client) -> None:
    values = {name: 1000.0 + place for place, name in enumerate(CATALOG)}
    percentiles = {f"{percent:g}": values[name] for name, percent in PERCENTILES_OF_CATALOG.items()}
    run = make_run(make_host("db-01"))
    make_measurement(run, percentiles=percentiles, **values)

    page = Page(viewer.get(reverse("run", args=[run.pk])))
    (answer,) = viewer.get(f"/api/v1/runs/{run.pk}").json()["measurements"]

    assert {cell["data-metric"]: float(cell["title"]) for cell in page.cells if "title" in cell} == values
    assert {name: answer[name] for name in CATALOG} == values
    in_csv = read_csv(viewer, run)
    columns = {name: f"latency_p{percent:g}_ns" for name, percent in PERCENTILES_OF_CATALOG.items()}
    assert {name: float(in_csv[columns.get(name, name)]) for name in CATALOG} == values


FEW_SAMPLES = {"code": "few-samples", "sentence": "Too few.", "numbers": {"samples": 60_000}}


def make_run_of_few(total_ios: int | None = None, **fields):
    run = make_run(make_host("db-01"), parser_version=2)
    values = {**MEASURED, "latency_p99_9_ns": None, "missing": {"latency_p99_9_ns": "few-samples"}, **fields}
    make_measurement(run, job_name="few", percentiles=PERCENTILES, total_ios=total_ios, **values)
    return run


def read_csv(viewer: Client, run) -> dict[str, str]:
    text = viewer.get(reverse("run_table", args=[run.pk])).content.decode()
    (row,) = csv.DictReader(io.StringIO(text))
    return row


def test_csv_leaves_out_what_the_page_withholds_and_all_beyond_it(viewer: Client) -> None:
    row = read_csv(viewer, make_run_of_few())

    assert (row["latency_p99_ns"], row["latency_p99.9_ns"], row["latency_p99.99_ns"]) == ("447488", "", "")


@pytest.mark.parametrize(
    ("fields", "p99_99"),
    [
        ({"total_ios": 99_999}, ""),
        ({"total_ios": 100_000}, "727000"),
        ({"total_ios": None}, "727000"),
        ({"total_ios": 100_000, "badges": [FEW_SAMPLES]}, ""),
    ],
)
def test_csv_holds_percentiles_against_the_number_of_ios(fields, p99_99: str, viewer: Client) -> None:
    run = make_run_of_few(**{"latency_p99_9_ns": 583_000.0, "missing": {}, **fields})

    row = read_csv(viewer, run)

    assert (row["latency_p99.9_ns"], row["latency_p99.99_ns"]) == ("583000", p99_99)


def test_percentile_table_puts_what_chance_decides_in_parentheses_and_off_the_chart(viewer: Client) -> None:
    page = Page(viewer.get(reverse("run", args=[make_run_of_few().pk])))

    few = {tag["data-percent"]: "data-few" in tag for _, tag in page.tags if "data-percent" in tag}
    assert few == {"50": False, "99": False, "99.9": True, "99.99": True}
    assert "(583)" in page.words
    assert "In parentheses, not in the chart: fewer than 10 samples" in page.words


def test_percentiles_beyond_the_histogram_are_minima(viewer: Client) -> None:
    run = make_run(parser_version=2)
    withheld = {"latency_p99_ns": "saturated"}
    percentiles = {"50": 9e9, "99": 17_112_760_320}
    make_measurement(run, latency_p50_ns=9e9, latency_p99_ns=None, percentiles=percentiles, missing=withheld)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert "≥ 17.1" in page.words
    assert "≥, not in the chart: longer than fio's histogram, which ends at 17.1 s" in page.words
    row = read_csv(viewer, run)
    assert (row["latency_p50_ns"], row["latency_p99_ns"]) == ("9000000000", "")


def test_run_of_nothing_but_chance_has_its_table_and_no_chart(viewer: Client) -> None:
    run = make_run(parser_version=2)
    make_measurement(run, iops=5.0, percentiles=PERCENTILES, total_ios=5)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert "(198)" in page.words
    assert not page.has("figure")


def test_last_good_run_before_stands_below_with_its_percentiles(viewer: Client) -> None:
    host = make_host()
    series = make_series(host=host)
    runs = [
        make_run(host, started_at=NOON + timedelta(hours=hour), error=5 * (hour == 2)) for hour in range(4)
    ]
    excluded = make_run(host, started_at=NOON + timedelta(minutes=150))
    for run in (*runs, excluded):
        fields = {"error": run.error, "is_excluded": run is excluded}
        make_measurement(run, series, percentiles={"99": 1000 + run.pk, "50": 500}, iops=1.0, **fields)

    page = Page(viewer.get(reverse("run", args=[runs[3].pk])))
    first = Page(viewer.get(reverse("run", args=[runs[0].pk])))

    (row,) = (tag for name, tag in page.tags if name == "tr" and "data-before" in tag)
    values = [tag["data-value"] for _, tag in page.tags if tag.get("data-percent") == "99"]
    assert row["data-run"] == f"previous run {runs[1].pk}"
    assert values == [str(1000 + runs[3].pk), str(1000 + runs[1].pk)]
    assert f"previous run {runs[1].pk}" in page.words
    assert not any("data-before" in tag for _, tag in first.tags)


def test_run_before_of_another_kind_of_latency_is_not_held_against_it(viewer: Client) -> None:
    host = make_host()
    series = make_series(host=host)
    for hour, kind in enumerate(("lat", "clat")):
        run = make_run(host, started_at=NOON + timedelta(hours=hour))
        make_measurement(run, series, percentiles=PERCENTILES, latency_kind=kind)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert not any("data-before" in tag for _, tag in page.tags)


def test_csv_says_beside_the_percentiles_of_which_latency_they_are(viewer: Client) -> None:
    columns = list(read_csv(viewer, make_measured_run()))

    assert columns[columns.index("latency_kind") + 1] == "latency_p50_ns"
    assert columns.index("latency_max_ns") < columns.index("latency_kind")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Mean, max: total latency (lat). Percentiles: completion latency (clat)."),
        ({"latency_kind": "lat"}, "Mean, max, percentiles: total latency (lat)."),
        ({"missing": {"total": "not-measured"}}, "Mean, max, percentiles: completion latency (clat)."),
    ],
)
def test_page_says_of_which_latency_its_columns_are(fields, words: str, viewer: Client) -> None:
    run = make_run()
    make_measurement(run, percentiles=PERCENTILES, **MEASURED, **fields)

    assert words in Page(viewer.get(reverse("run", args=[run.pk]))).words


def test_row_whose_latencies_are_others_says_so(viewer: Client) -> None:
    run = make_run(parser_version=2)
    for kind in ("clat", "clat", "lat"):
        make_measurement(run, job_name=kind, percentiles=PERCENTILES, latency_kind=kind, **MEASURED)

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    assert "Mean, max: total latency (lat). Percentiles: completion latency (clat)." in page.words
    assert page.words.count("percentiles: lat") == 1
    assert "Latency percentiles, µs" in page.words


def test_percentile_table_names_its_latency(viewer: Client) -> None:
    words = Page(viewer.get(reverse("run", args=[make_measured_run().pk]))).words

    assert "Completion latency (clat) percentiles, µs" in words


def test_last_day_of_the_calendar_is_a_day_like_others(viewer: Client) -> None:
    assert viewer.get(reverse("runs"), {"from": "9999-12-31", "to": "9999-12-31"}).status_code == 200


@pytest.mark.parametrize(
    ("newest", "cell", "summary"),
    [
        (1010.0, "+1.0 % within the usual range of 31 runs", "1 result within the usual range."),
        (
            700.0,
            "−30 % outside the usual range of 31 runs",
            "1 of 1 result outside the usual range: 4k random read −30 %.",
        ),
    ],
)
def test_result_is_compared_to_the_level_of_its_series(
    newest: float, cell: str, summary: str, viewer: Client
) -> None:
    series = add_series([980.0, 1000.0, 1020.0] * 10 + [newest])
    calculate_levels([series.pk])
    run = Run.objects.order_by("-started_at")[0]

    page = Page(viewer.get(f"/runs/{run.pk}/"))

    assert cell in page.words
    assert summary in page.words


def test_level_of_zero_has_no_percentage(viewer: Client) -> None:
    add_series([0.0] * 31)
    run = Run.objects.order_by("-started_at")[0]

    page = Page(viewer.get(f"/runs/{run.pk}/"))

    assert "level 0: within the usual range of 31 runs" in page.words


def test_first_run_of_a_series_has_no_level_to_compare_to(viewer: Client) -> None:
    add_series([1000.0])

    assert "vs. level" not in viewer.get(f"/runs/{Run.objects.get().pk}/").text
