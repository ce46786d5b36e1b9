"""How the numbers of a run were computed, and how it went within itself: pages for people."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.intake.normalize import parsing_process
from benchapp.intake.provenance import report as report_module
from benchapp.models import Run, Trace
from benchapp.series.pages.runs import describe_trace
from benchapp.series.read.traces import TraceRow
from tests.envelopes import read_fio
from tests.factories import make_host, make_measurement, make_run, make_series, make_submission, make_workload
from tests.intake.normalize.test_parsing_process import spin
from tests.pages import Page

HOSTILE = "<img src=x onerror=alert(1)>"


def make_read_run(body: bytes | None = None, **fields) -> Run:
    host = make_host("db-01")
    output = read_fio("07_json.out").encode() if body is None else body
    return make_run(host, submission=make_submission(host, body=output), **fields)


def make_trace(run: Run, kind: str = "iops", direction: str = "read", **buckets) -> Trace:
    values = {
        "at_s": [1.0, 2.0],
        "mean": [100.0, 110.0],
        "minimum": [None, None],
        "maximum": [None, None],
        "count": [1, 1],
        **buckets,
    }
    return Trace.objects.create(
        run=run, kind=kind, direction=direction, jobs=1, entries=2, bucket_s=1.0, buckets=values
    )


def make_row(means: list[float], kind: str = "iops") -> TraceRow:
    nothing = tuple([None] * len(means))
    counts = tuple(int(mean > 0) for mean in means)
    at_s = tuple(float(place + 1) for place in range(len(means)))
    return TraceRow(kind, "read", 1, len(means), 1.0, at_s, tuple(means), nothing, nothing, counts)


def test_each_value_has_its_unit_and_its_way(viewer: Client) -> None:
    run = make_read_run()
    printed = json.loads(read_fio("07_json.out"))["jobs"][0]["read"]

    response = viewer.get(reverse("run_report", args=[run.pk]))

    words = Page(response).words
    assert response.status_code == 200
    assert f"Derived values of run {run.pk}" in words
    assert f"{printed['iops']:,.0f}".replace(",", "\u202f") + " IOPS" in words
    assert "as printed by fio" in words
    assert "Percentiles (clat): as printed by fio for one job" in words
    assert "bs=4k, from the report's options" in words
    assert "None: every line belongs to a report." in words


def test_merged_jobs_and_withheld_percentiles_are_told(viewer: Client) -> None:
    run = make_read_run(read_fio("11_numjobs4_json.out").encode())

    words = Page(viewer.get(reverse("run_report", args=[run.pk]))).words

    assert "Jobs 0 to 3 of fio's report, merged: 4 jobs." in words
    assert "sum of 4 entries" in words
    assert "withheld: several concurrent jobs without histograms" in words


def test_ignored_text_is_shown_as_text(viewer: Client) -> None:
    run = make_read_run(f"{HOSTILE}\n".encode() + read_fio("07_json.out").encode())

    page = Page(viewer.get(reverse("run_report", args=[run.pk])))

    assert HOSTILE in page.words
    assert not page.has("img")


def test_older_parser_is_told(viewer: Client) -> None:
    run = make_read_run(parser_version=0)

    assert (
        "The stored values come from parser version 0"
        in Page(viewer.get(reverse("run_report", args=[run.pk]))).words
    )


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (None, 410, "removed after the retention period"),
        (b"nothing of fio", 409, "finds no report in the upload"),
    ],
)
def test_what_cannot_be_said_is_said_in_words(body, status: int, words: str, viewer: Client) -> None:
    host = make_host()
    run = make_run(host, submission=make_submission(host, body=body))

    response = viewer.get(reverse("run_report", args=[run.pk]))

    assert response.status_code == status
    assert words in Page(response).words


def make_jobs(count: int) -> bytes:
    report = json.loads(read_fio("07_json.out"))
    (job,) = report["jobs"]
    report["jobs"] = [{**job, "jobname": f"job-{number}."} for number in range(count)]
    return json.dumps(report).encode()


def test_long_report_is_turned_page_by_page(viewer: Client) -> None:
    run = make_read_run(make_jobs(120))
    address = reverse("run_report", args=[run.pk])

    first, second, third = (
        Page(viewer.get(address + query)) for query in ("", "?position=50", "?position=100")
    )

    assert "Measurements 1 to 50 of 120" in first.words
    assert "job-49." in first.words and "job-50." not in first.words
    assert "Measurements 51 to 100 of 120" in second.words
    assert ("?position=0" in second.links, "?position=100" in second.links) == (True, True)
    assert "Measurements 101 to 120 of 120" in third.words
    assert ("job-119." in third.words, "?position=150" in third.links) == (True, False)


@pytest.mark.parametrize("query", ["?position=x", "?position=-1", "?position=", "?position=999999999999"])
def test_place_that_is_none_is_the_first(query: str, viewer: Client) -> None:
    run = make_read_run()

    assert "bs=4k" in Page(viewer.get(reverse("run_report", args=[run.pk]) + query)).words


def test_report_that_has_no_room_says_so_in_words(viewer: Client) -> None:
    run = make_read_run()

    with report_module._SLOTS, report_module._SLOTS:
        response = viewer.get(reverse("run_report", args=[run.pk]))

    assert (response.status_code, response.headers["Retry-After"]) == (503, "15")
    assert "Try again in a few seconds" in Page(response).words


def test_output_that_takes_too_long_to_parse_says_so_in_words(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_read_run()
    monkeypatch.setattr(parsing_process, "DOCUMENT_LIMIT_S", 0.2)
    monkeypatch.setattr(report_module, "_unpack_and_derive", spin)

    response = viewer.get(reverse("run_report", args=[run.pk]))

    assert response.status_code == 409
    assert "arsing took more than 0 s; the values of the run are still stored" in Page(response).words


def test_large_output_is_shown_to_those_who_are_signed_in(
    viewer: Client, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PUBLIC_READ = True
    monkeypatch.setattr("benchapp.series.pages.provenance.OPEN_BYTES_MAXIMUM", 100)
    address = reverse("run_report", args=[make_read_run().pk])

    response = Client().get(address)

    assert response.status_code == 403
    assert "Sign in" in Page(response).words
    assert viewer.get(address).status_code == 200


def test_report_takes_eight_queries(viewer: Client, django_assert_num_queries) -> None:
    run = make_read_run()

    with django_assert_num_queries(8):  # session, person, run, its neighbors, measurements, body
        viewer.get(reverse("run_report", args=[run.pk]))


def test_run_page_leads_to_its_report_while_the_output_is_kept(viewer: Client) -> None:
    kept = make_read_run()
    host = make_host()
    expired = make_run(host, submission=make_submission(host, body=None))

    for run, is_linked in ((kept, True), (expired, False)):
        links = Page(viewer.get(reverse("run", args=[run.pk]))).links
        assert (reverse("run_report", args=[run.pk]) in links) is is_linked


def test_run_without_logs_shows_nothing_of_them(viewer: Client) -> None:
    run = make_run()

    assert "Within the run" not in Page(viewer.get(reverse("run", args=[run.pk]))).words


def test_traces_are_a_panel_a_quantity_with_table_csv_and_curl_line(viewer: Client) -> None:
    run = make_run()
    make_measurement(run, make_series(host=run.host, workload=make_workload(rw="randread")))
    make_trace(run)
    make_trace(run, "lat", mean=[3e5, 4e5], minimum=[2e5, 4e5], maximum=[5e5, 4e5])
    make_trace(run, "clat")

    response = viewer.get(reverse("run", args=[run.pk]))

    page = Page(response)
    panels = [tag for _, tag in page.tags if "data-trace" in tag]
    assert [(panel["data-trace"], panel["data-unit"], panel["data-rw-read"]) for panel in panels] == [
        ("iops", "operations/s", "randread"),
        ("lat", "ns", "randread"),
    ]
    assert f"/api/v1/runs/{run.pk}/traces?format=csv&kind=iops" in page.links
    assert f"/api/v1/runs/{run.pk}/traces" in page.words
    assert "Data table" in page.words
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in ("1.0", "300", "200", "500", "1"))
    assert numbers in response.content.decode()


def test_steady_course_is_said_with_its_start_left_out() -> None:
    means = [300.0, 200.0, 150.0, *([100.0] * 16)]

    said = describe_trace(make_row(means), has_several_jobs=False)

    assert said == "Read IOPS was steady at 100 ± 0 % after the first 3 s."


def test_course_that_falls_is_said_to_fall() -> None:
    """Ten seconds without the first and the last: rounds of two, 925, 825, 725, 625 and 525."""
    means = [1000.0 - 50 * second for second in range(12)]

    said = describe_trace(make_row(means), has_several_jobs=False)

    assert said == (
        "Read IOPS was not steady: five slices range over 55 % of 725, falling by 55 % from 0 to 12 s."
    )


def test_stretches_between_gaps_are_said_one_by_one() -> None:
    means = [100.0] * 8 + [0.0] * 3 + [200.0] * 8

    assert describe_trace(make_row(means), has_several_jobs=True) == (
        "Read IOPS was steady at 100 ± 0 % from 0 to 8 s, then was steady at 200 ± 0 % from 11 to 19 s."
    )


def test_short_course_is_not_judged() -> None:
    assert describe_trace(make_row([100.0, 100.0]), has_several_jobs=False) == (
        "Read IOPS was logged from 0 to 2 s, too short to assess steadiness."
    )


def test_latency_is_said_with_its_unit() -> None:
    assert describe_trace(make_row([250_000.0] * 9, kind="lat"), has_several_jobs=False) == (
        "Mean read latency was steady at 250 µs ± 0 %."
    )
