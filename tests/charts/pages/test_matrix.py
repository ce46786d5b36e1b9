"""The matrix page."""

import csv
import re
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_shapes import ScalingRequest
from benchapp.framework.pages.series_marks import make_sparkline, make_step_line
from benchapp.framework.times import format_age
from benchapp.judge import judge_due, judge_series
from benchapp.layouts.read.question import read_question
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.models import SAMPLE_HOST, Incident, Run, Series
from benchapp.models.filtering import WITHOUT_SAMPLE
from tests.detection.write.judging import make_level
from tests.factories import add_series, make_environment, make_host, make_series, make_target, make_workload
from tests.pages import Page

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def add(values, *, volumes=1, rw="randread", metric="iops") -> Series:
    series = make_series(
        values,
        host=make_host(),
        target=make_target(volume_count=volumes, volume_type="gp3"),
        workload=make_workload(rw=rw),
        direction="write" if "write" in rw else "read",
        metric=metric,
        start_at=timezone.now() - timedelta(days=len(values)),
        step=timedelta(days=1),
    )
    judge_series([series.pk])
    return series


def test_cell_has_median_change_sparkline_age_and_a_link_to_its_history(viewer: Client) -> None:
    series = add(make_level(24_000.0, 24) + make_level(18_000.0, 10))
    incident = Incident.objects.get()

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    (cell,) = [tag for _, tag in page.tags if "data-cell" in tag]
    assert cell["href"] == f"/series/{series.pk}/?metric=iops"
    assert f"▼ −25 % since {incident.started_at:%-d %b}" in page.words
    assert "4k random read, 1 volume: 18\u202f0271 d · n 10" in page.words
    assert cell["title"].startswith("p10 17\u202f798 IOPS, p90 18\u202f221 IOPS; median 18027.0")
    assert f"was 24\u202f036 IOPS until {incident.started_at - timedelta(days=1):%-d %b %Y}" in cell["title"]
    assert f"/incidents/{incident.pk}/" in page.links
    assert page.has("polyline")


def test_what_to_measure_next_completes_the_matrix(viewer: Client) -> None:
    for volumes, rw in ((1, "randread"), (1, "randwrite"), (4, "randread")):
        add(make_level(1000.0, 20), volumes=volumes, rw=rw)
    for run in Run.objects.select_related("target"):
        environment = make_environment(facts={"directory": f"/mnt/{run.target.volume_count}"})
        finished_at = run.started_at + timedelta(seconds=18)
        Run.objects.filter(pk=run.pk).update(
            environment=environment, command={"parameters": {"runtime": 4}}, finished_at=finished_at
        )
    query = {"q": "host:*", "x": "volume_count", "rows": "pattern", "facet": "none", "next_runs": "1"}

    words = Page(viewer.get(reverse("matrix"), query)).words
    body = viewer.get("/api/v1/matrix", query).json()["next_runs"]

    assert "random write · 4 volumes" in words and "never measured" in words
    assert "1 run, 18 s in total." in words
    assert "bench-agent run --profile quick --directory /mnt/4 --set runtime=4" in words
    (measured,) = body["measurements"]
    assert ([reason["name"] for reason in measured["reasons"]], measured["is_possible"]) == (
        ["missing"],
        True,
    )
    assert body["commands"][0]["host"] == Series.objects.get(volume_count=4).scope.removeprefix("host:")
    assert viewer.get("/api/v1/matrix", {"q": "host:*"}).json()["next_runs"] is None
    asked = {"q": "host:*", "x": "volume_count", "color": "pattern", "any": "host"}
    scaling = Page(viewer.get(reverse("scaling"), asked))
    (link,) = [each for each in scaling.links if each.endswith("#next-runs")]
    assert link.startswith(reverse("scaling"))
    shown = Page(viewer.get(link))
    assert "random write · 4 volumes" in shown.words and "1 run, 18 s in total." in shown.words
    assert not [each for each in shown.links if each.endswith("#next-runs")]
    assert "never measured" not in scaling.words
    assert viewer.get("/api/v1/scaling", {**asked, "next_runs": "1"}).json()["next_runs"] == body
    assert viewer.get("/api/v1/scaling", asked).json()["next_runs"] is None
    grouped = {"q": "host:*", "x": "volume_count,volume_type", "next_runs": "1"}
    refused = viewer.get("/api/v1/scaling", grouped)
    assert (refused.status_code, refused.json()["pointer"]) == (400, "next_runs")
    assert "never measured" not in Page(viewer.get(reverse("scaling"), grouped)).words
    complete = {**query, "q": "host:* volume_count:1"}
    assert (
        "Nothing to measure: no combination has a gap" in Page(viewer.get(reverse("matrix"), complete)).words
    )


def test_missing_combinations_are_hatched_and_counted(viewer: Client) -> None:
    add([1.0], volumes=1)
    add([1.0], volumes=4, rw="write")

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    assert "2 of 4 combinations; 2 not measured." in page.words
    assert "4k sequential write, 1 volume: not measured" in page.words
    assert "4k random read, 4 volumes: not measured" in page.words
    hatched = [tag for name, tag in page.tags if name == "td" and tag.get("class") == "hatched"]
    assert [tag["title"] for tag in hatched] == ["no series with this combination"] * 2


def test_matrix_is_a_table_with_headers(viewer: Client) -> None:
    add([1.0], volumes=1)
    add([1.0], volumes=4)

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    scopes = [tag.get("scope") for name, tag in page.tags if name == "th"]
    assert scopes == ["col", "col", "col", "row"]


def test_link_has_the_automatic_choices(viewer: Client) -> None:
    add([1.0], volumes=2)
    add([1.0], volumes=4)

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    (canonical,) = [
        tag["href"] for name, tag in page.tags if name == "link" and tag.get("rel") == "canonical"
    ]
    assert canonical == (
        "http://testserver/matrix/?q=host:*&metric=iops&x=volume_count&rows=pattern,block_size_bytes&facet=none"
    )
    assert Page(viewer.get(canonical)).words == page.words


def test_fixed_dimensions_have_links_to_other_values(viewer: Client) -> None:
    for kind in ("gp3", "io2"):
        add_series([1.0], target=make_target(volume_type=kind, volume_count=1))

    page = Page(viewer.get(reverse("matrix"), {"x": "volumes"}))

    assert {f"?x=volumes&q=volume_type:{kind}" for kind in ("gp3", "io2")} <= set(page.links)
    assert "1 of 2 series: " in page.words


def test_fields_choose_the_axes(viewer: Client) -> None:
    add([1.0], volumes=2)

    page = Page(viewer.get(reverse("matrix") + "?rows=volume_count&rows=&x=pattern&facet=none&facet="))

    assert "Median IOPS by volumes, over pattern" in page.words
    assert "2 volumes" in page.words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"metric": "speed"}, "Metric: 'speed' is not a valid metric; available: iops,"),
        ({"x": "speed"}, "X: 'speed' is not a valid dimension"),
        ({"rows": "host", "x": "host"}, "Rows: x, rows and facet must be different dimensions."),
    ],
)
def test_invalid_parameter_is_an_error_without_a_matrix(
    query: dict[str, str], words: str, viewer: Client
) -> None:
    add([1.0])

    response = viewer.get(reverse("matrix"), query)

    assert response.status_code == 400
    assert words in Page(response).words
    assert "combinations" not in Page(response).words


def test_empty_server_says_the_first_steps_and_a_narrow_filter_how_to_widen_it(viewer: Client) -> None:
    page = Page(viewer.get(reverse("matrix")))
    assert page.words.index("Matrix: no data") < page.words.index("No results yet")
    assert (
        "this filter. Clear the filter or remove a part of it"
        in Page(viewer.get(reverse("matrix"), {"q": "host:x"})).words
    )


def test_api_and_csv_have_the_cells_of_the_page(viewer: Client) -> None:
    series = add([1e6] * 12, metric="latency_p99_ns")
    add([2e6], volumes=4, metric="latency_p99_ns")
    page = Page(viewer.get(reverse("matrix"), {"q": "host:*", "metric": "latency_p99_ns"}))
    (csv_url,) = [link for link in page.links if "format=csv" in link]

    body = viewer.get(csv_url.replace("&format=csv", "")).json()

    assert (body["metric"], body["unit"], body["better"]) == ("latency_p99_ns", "ns", "lower")
    assert (body["x"], body["rows"], body["facet"]) == ("volume_count", ["pattern", "block_size_bytes"], [])
    assert body["counts"]["measured"] == 2
    first = body["cells"][0]
    assert (first["pattern"], first["volume_count"], first["series"]) == ("randread", 1, series.pk)
    assert (first["median"], first["change_state"], first["incident"], first["n"]) == (1e6, None, None, 12)
    header, *rows = csv.reader(viewer.get(csv_url).content.decode().splitlines())
    assert header[:5] == ["pattern", "block_size_bytes", "volume_count", "state", "series"]
    assert header[5:7] == ["series_count", "median"]
    assert len(rows) == 2


def test_api_rejects_invalid_parameters(viewer: Client) -> None:
    response = viewer.get("/api/v1/matrix?x=speed")

    assert (response.status_code, response.json()["pointer"]) == (400, "x")
    assert response.json()["detail"].startswith("x: 'speed' is not a valid dimension; available: host,")


def test_number_of_queries_does_not_grow_with_series(viewer: Client, django_assert_num_queries) -> None:
    for volumes in range(1, 6):
        add([1.0], volumes=volumes)

    # Session, person, columns of series, levels, marks; and those beside Django's cursor.
    with django_assert_num_queries(6):
        viewer.get(reverse("matrix"), {"q": "host:*"})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "now"), (60, "1 min"), (7_200, "2 h"), (86_400 * 3.9, "3 d"), (86_400 * 800, "2 y")],
)
def test_age_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_age(NOON - timedelta(seconds=seconds), now=NOON) == text


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([], ""),
        ([1.0], ""),
        ([1.0, 3.0], "2.0,16.0 70.0,2.0"),
        ([100.0, 100.0, 100.0], "2.0,9.0 36.0,9.0 70.0,9.0"),
        ([0.0, 0.0], "2.0,9.0 70.0,9.0"),
        ([99.0, 101.0], "2.0,10.4 70.0,7.6"),
    ],
)
def test_sparkline_fills_its_box_only_where_values_differ(values: list[float], points: str) -> None:
    assert make_sparkline(values) == points


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ([], ""),
        ([None, 1.0], ""),
        ([1.0, 1.0, 1.0], "M2 9H70"),
        ([1.0, 1.0, 0.5], "M2 2H70V16H70"),
        ([None, 1.0, 1.0, None, 0.9], "M19 2H36M70 16H70"),
    ],
)
def test_history_of_levels_is_a_line_in_steps(values: list[float | None], path: str) -> None:
    assert make_step_line(values) == path


def test_title_and_summary_list_changes_and_the_caption_describes_a_cell(viewer: Client) -> None:
    add(make_level(24_000.0, 24) + make_level(18_000.0, 10))
    add(make_level(24_000.0, 24) + make_level(30_000.0, 10), volumes=2)
    add(make_level(24_000.0, 34), volumes=4)

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    assert (
        "over volumes: 1 of 3 combinations is worse (4k random read, 1 volume, −25 %), 1 better" in page.words
    )
    assert "Regressed: 4k random read, 1 volume (−25 %)." in page.words
    assert "Improved: 4k random read, 2 volumes (+25 %)." in page.words
    assert "higher is better. 3 of 3 combinations." in page.words


def test_summary_without_open_changes(viewer: Client) -> None:
    add(make_level(24_000.0, 12))

    page = Page(viewer.get(reverse("matrix"), {"q": "host:*"}))

    assert "No open change in 1 combination." in page.words
    assert "worse (" not in page.words


def test_cell_of_several_series_links_to_all_their_histories(viewer: Client) -> None:
    first, second = add([1.0]), add([2.0])

    asked = {"q": f"host:{first.host.name},{second.host.name}", "x": "volume_count"}
    page = Page(viewer.get(reverse("matrix"), asked))

    (cell,) = [tag for _, tag in page.tags if "data-cell" in tag]
    freshest, other = sorted((first, second), key=lambda each: each.last_at, reverse=True)
    assert cell["href"] in (
        f"/history/?series={freshest.pk},{other.pk}&metric=iops",
        f"/history/?series={other.pk},{freshest.pk}&metric=iops",
    )
    assert "2 series" in page.words
    assert "Combinations with several series (different host) show the median of their medians." in page.words
    assert any(
        "median of 2 medians 1.5 operations/s" in (tag["title"] or "")
        for _, tag in page.tags
        if "title" in tag
    )
    assert viewer.get(cell["href"]).status_code == 200


def test_surface_of_depth_and_jobs_is_one_click_from_scaling_and_from_a_series(viewer: Client) -> None:
    host = make_host("db-1")
    for depth, jobs in product((1, 8), (1, 4)):
        workload = make_workload(iodepth=depth, numjobs=jobs)
        series = add_series([1000.0 * depth * jobs], host=host, workload=workload)
    alone = add_series([1000.0], host=host, workload=make_workload(rw="randwrite"))

    for address in ("/scaling/?q=rw:randread&x=iodepth", f"/series/{series.pk}/"):
        (link,) = [each for each in Page(viewer.get(address)).links if "x=iodepth&rows=numjobs" in each]
        matrix = viewer.get(link).context["figure"]["matrix"]
        assert [line.label for line in matrix.panels[0].lines] == ["1 job", "4 jobs"]
        assert [cell.median for line in matrix.panels[0].lines for cell in line.cells] == [
            1e3,
            8e3,
            4e3,
            32e3,
        ]

    assert "rows=numjobs" not in viewer.get(f"/series/{alone.pk}/").content.decode()


def test_pages_leave_out_the_sample_beside_other_data_and_begin_with_what_got_worse(viewer: Client) -> None:
    sample = add_series([1.0, 2.0], host=make_host(SAMPLE_HOST))
    alone = [
        "without the sample" in Page(viewer.get(f"/{name}/")).words
        for name in ("scaling", "matrix", "history")
    ]
    steady = make_series(make_level(1000.0, 40), host=make_host("db-1"))
    worse = make_series([*make_level(1000.0, 40)[:30], *make_level(700.0, 10)], host=make_host("db-2"))
    judge_due()

    for name in ("scaling", "matrix", "history"):
        page = Page(viewer.get(f"/{name}/"))
        assert "without the sample (show)" in page.words
        assert (
            SAMPLE_HOST
            in Page(
                viewer.get(next(link for link in page.links if "?q=host" in link and "ebs" in link))
            ).words
        )
        assert "without the sample" not in Page(viewer.get(f"/{name}/?q=host:{SAMPLE_HOST}")).words
    response = viewer.get("/history/")
    matrix = viewer.get("/matrix/?x=volumes").context["figure"]["matrix"]
    ranking = rank_layouts(read_question(QueryDict("iops=100")))

    # Only the sample matches.
    assert SAMPLE_HOST in Page(viewer.get("/history/?q=-host:db-1,db-2")).words
    assert not any(alone)
    assert response.context["title"] == "1 of 2 series got worse: IOPS −30 %, on db-2"
    assert "got worse" not in viewer.get("/history/?to=2020-01-31").context["title"]
    assert [line["series_id"] for line in response.context["table"]["lines"]] == [worse.pk, steady.pk]
    assert [cell.series_ids for cell in matrix.cells] == [(worse.pk, steady.pk)]
    medians = [
        cell.median
        for cell in read_scaling(ScalingRequest(Filter(terms=(WITHOUT_SAMPLE,)), x="volume_count")).cells
    ]
    assert [cell.median for cell in matrix.cells] == medians
    assert "1 of 1 values includes a series with an open" in Page(viewer.get("/scaling/?x=volumes")).words
    words = Page(viewer.get("/matrix/?x=volumes")).words
    assert re.search(r"worst: db-2 7\d\d, ▼ −(29|30)\S* % since .*, 1 of 2 series", words), words[
        words.index("worst:") :
    ][:80]
    assert "got worse" not in viewer.get("/history/?metric=latency_p99_ns").context["title"]
    assert sample.pk not in {each for row in ranking.all_rows for each in row.load.series_ids}
    assert WITHOUT_SAMPLE in ranking.question.filter.terms


def test_rows_without_measurements_are_one_line(viewer: Client) -> None:
    host = make_host("db-1")
    for size, pattern in ((1, "read"), (1, "write"), (2, "read")):
        workload = make_workload(rw=pattern, file_size_bytes=size * 2**30)
        add_series([1.0], host=host, workload=workload, direction=pattern)

    page = Page(viewer.get(reverse("matrix"), {"facet": "file_size"}))

    assert "1 row without measurements4k sequential write" in page.words
