"""Facts of the environment on the axes of Scaling and Matrix: the same numbers on pages and in answers."""

import json
from collections import Counter
from datetime import timedelta

import pytest
from django.http import QueryDict
from django.test import Client

from benchapp.charts.pages.history import show_history
from benchapp.charts.read import history
from benchapp.models import Measurement, Series
from benchapp.series.read import selected_levels
from tests.charts.pages.test_environment_comparison import NEW, OLD, fleet  # noqa: F401
from tests.charts.pages.test_scaling import read_document
from tests.factories import (
    NOON,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
)
from tests.pages import Page

pytestmark = pytest.mark.django_db
EXPECTED = {
    ("db-1", OLD): (1000, 12),
    ("db-1", NEW): (1000, 12),
    ("db-2", OLD): (500, 12),
    ("db-2", NEW): (501, 12),
    ("db-3", OLD): (1000, 24),
    ("db-9", OLD): (1000, 12),
    ("db-9", NEW): (780, 12),
}


@pytest.fixture
def planted(fleet: dict[str, Series]) -> dict[str, Series]:  # noqa: F811  # a fixture
    return fleet


def read_rows(client: Client, path: str, **query: str) -> list[dict]:
    response = client.get(path, {**query, "format": "ndjson"})
    assert response.status_code == 200, response.content
    return [json.loads(line) for line in response.getvalue().decode().splitlines()]


def test_scaling_by_kernel_has_the_number_of_each_group(viewer: Client, planted: dict) -> None:
    rows = read_rows(viewer, "/api/v1/scaling", x="host", color="kernel", facet="none")

    found = {(row["x"], row["color"]): (row["median"], row["n"]) for row in rows if row.get("median")}
    assert found == EXPECTED


def test_many_divided_series_are_read_in_parts(
    viewer: Client, planted: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected_levels, "_DIVIDED_AT_ONCE", 1)

    rows = read_rows(viewer, "/api/v1/scaling", x="host", color="kernel", facet="none")

    found = {(row["x"], row["color"]): (row["median"], row["n"]) for row in rows if row.get("median")}
    assert found == EXPECTED


def test_matrix_by_kernel_has_the_same_numbers(viewer: Client, planted: dict) -> None:
    rows = read_rows(viewer, "/api/v1/matrix", x="kernel", rows="host", facet="none")

    found = {(row["host"], row["kernel"]): (row["median"], row["n"]) for row in rows if row.get("median")}
    assert found == EXPECTED


@pytest.mark.parametrize("kernel", [OLD, NEW])
def test_filter_selects_the_runs_of_a_kernel(viewer: Client, planted: dict, kernel: str) -> None:
    rows = read_rows(viewer, "/api/v1/matrix", x="host", rows="pattern", facet="none", q=f"kernel:{kernel}")

    found = {row["host"]: (row["median"], row["n"]) for row in rows if row.get("median")}
    assert found == {host: number for (host, own), number in EXPECTED.items() if own == kernel}


@pytest.mark.parametrize("path", ["/scaling/", "/matrix/"])
@pytest.mark.parametrize("query", ["x=kernel", "x=host&q=kernel:5.15*", "x=host&facet=kernel"])
def test_pages_show_facts_on_their_axes(viewer: Client, planted: dict, path: str, query: str) -> None:
    response = viewer.get(f"{path}?{query}")

    assert response.status_code == 200
    assert "kernel" in response.content.decode()


def test_badges_are_those_of_the_newest_run_of_a_group(viewer: Client, planted: dict) -> None:
    runs = planted["db-9"].measurements.order_by("started_at")
    for place, code in ((5, "cache-suspected"), (11, "too-short"), (23, "unsteady")):
        Measurement.objects.filter(pk=runs[place].pk).update(
            badges=[{"code": code, "sentence": "", "numbers": {}}]
        )
    Series.objects.filter(pk=planted["db-9"].pk).update(badges=["unsteady"])

    matrix = read_rows(viewer, "/api/v1/matrix", x="kernel", rows="host", facet="none", q="host:db-9")
    scaling = read_document(viewer.get("/scaling/?x=kernel&q=host:db-9&facet=none"))

    assert {row["kernel"]: row["badges"] for row in matrix} == {OLD: ["too-short"], NEW: ["unsteady"]}
    (line,) = scaling["layers"][0]["facets"][0]["lines"]
    assert [cell["badges"] for cell in line] == [["too-short"], ["unsteady"]]


def test_earlier_time_with_a_fact_is_refused(viewer: Client, planted: dict) -> None:
    answer = viewer.get("/api/v1/scaling", {"x": "kernel", "as_of": "2026-11-01"})

    assert answer.status_code == 400
    assert "to cannot be combined with kernel" in answer.json()["detail"]


def test_agent_and_driver_are_filter_axis_color_and_panel(viewer: Client) -> None:
    host, layout = make_host("db-1"), make_target(volume_count=1)
    series = make_series(host=host, target=layout)
    for hour, (agent, driver) in enumerate((("0.1.0", "nvme 1.0"), ("0.2.0", None), (None, "virtio_blk"))):
        environment = make_environment(agent_version=agent, device_driver=driver)
        run = make_run(host, started_at=NOON + timedelta(hours=hour), environment=environment)
        make_measurement(run, series, iops=100.0 + hour)
    calculate_levels()

    by_agent = read_rows(viewer, "/api/v1/scaling", x="agent", color="none")
    by_driver = read_rows(viewer, "/api/v1/matrix", x="host", rows="pattern", facet="driver", q="agent:0.1*")

    assert {row["x"]: row["median"] for row in by_agent} == {"0.1.0": 100.0, "0.2.0": 101.0}
    assert [(row["median"], row["n"]) for row in by_driver if row.get("median")] == [(100.0, 1)]
    assert viewer.get("/scaling/?x=host&color=driver&facet=agent").status_code == 200


def test_history_shows_the_runs_that_match_and_reports_the_others(viewer: Client, planted: dict) -> None:
    answer = viewer.get("/api/v1/history", {"q": "kernel:5.15* host:db-9"}).json()
    page = Page(viewer.get("/history/", {"q": "kernel:5.15* host:db-9"}))

    assert (len(answer["points"]), answer["hidden"]) == (12, 12)
    assert {point["iops"] for point in answer["points"]} == {999.0, 1000.0, 1001.0}
    assert "12 runs with these facts of the environment shown, 12 others hidden" in page.words
    whole = viewer.get("/api/v1/history", {"q": "host:db-9"}).json()
    assert (len(whole["points"]), whole["hidden"], whole["color"]) == (24, 0, None)


def test_history_colors_runs_by_kernel(viewer: Client, planted: dict) -> None:
    answer = viewer.get("/api/v1/history", {"q": "host:db-9", "color": "kernel"}).json()
    rows = read_rows(viewer, "/api/v1/history", q="host:db-9", color="kernel")

    assert answer["color"] == {"name": "kernel", "label": "Kernel", "values": [OLD, NEW], "others": 0}
    assert [row["color"] for row in rows] == [OLD] * 12 + [NEW] * 12
    assert rows == answer["points"]


def test_values_beyond_the_colors_of_a_history_are_counted(
    viewer: Client, planted: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "COLORS_MAXIMUM", 1)

    answer = viewer.get("/api/v1/history", {"q": "host:db-*", "color": "kernel"}).json()

    assert (answer["color"]["values"], answer["color"]["others"]) == ([OLD], 1)
    assert {point["color"] for point in answer["points"]} == {OLD, None}
    assert len(answer["points"]) == 96


def test_buckets_of_a_history_have_one_color_each(
    viewer: Client, planted: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "POINTS_MAXIMUM", 10)

    query = {"q": "host:db-9", "color": "kernel", "resolution": "auto"}
    answer = viewer.get("/api/v1/history", query).json()

    counts = Counter()
    for bucket in answer["buckets"]:
        counts[bucket["color"]] += bucket["n"]
    assert counts == {OLD: 12, NEW: 12}


def test_color_of_a_history_is_in_the_form_the_chart_and_the_study(viewer: Client, planted: dict) -> None:
    response = viewer.get("/history/", {"q": "host:db-9", "color": "kernel"})

    page = Page(response)
    (figure,) = [tag for name, tag in page.tags if "data-history" in tag]
    assert "color=kernel" in figure["data-url"]
    assert "kernel" in [tag["value"] for name, tag in page.tags if name == "option" and "selected" in tag]
    assert any("color=kernel" in link and "format=csv" in link for link in page.links)
    shown = show_history(QueryDict("q=host:db-9&color=kernel"), key="panel-1", base_url="")
    assert shown.document["color"]["values"] == [OLD, NEW]


def test_color_that_is_no_fact_is_an_error(viewer: Client, planted: dict) -> None:
    page = viewer.get("/history/", {"color": "volume_type"})

    assert page.status_code == 400
    assert "not a fact of the environment" in Page(page).words
    assert viewer.get("/api/v1/history", {"color": "volume_type"}).status_code == 400
