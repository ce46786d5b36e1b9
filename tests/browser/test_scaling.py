"""The scaling page in a browser: drawn from what it carries, walked by keys, fixed elsewhere, sorted, saved."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchapp.models import Host, Level, Run, Series, Submission
from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World
from tests.ebs import make_ebs_series, make_level
from tests.factories import NOON, add_series, make_host, make_series, make_target, make_workload

Visit = Callable[..., Watched]
EBS = "/scaling/?q=host:ebs-2013+volume_size:20G+bs:4k"
DEPTH = "/scaling/?q=host:depth-01"
RUNS = "/scaling/?q=host:runs-01&runs=1"
PAGES = {
    "first chart": "/scaling/",
    "bars with all lines": f"{EBS}&ideal=1&limit=instance:25000&scale=log",
    "panels": f"{EBS}&facet=file_size",
    "groups": f"{EBS}&group=small=file_size:5G&group=large=file_size:15G",
    "combined": f"{EBS}+rw:randread&x=volumes,file_size",
    "lines": DEPTH,
    "several metrics": f"{DEPTH}&metric=iops,latency_mean_ns",
    "targets": f"{EBS}+file_size:5G&target=iops:24000:Database&target=iops:8000*n:Volume",
    "latency over throughput": f"{DEPTH}&over=iops",
    "runs": RUNS,
    "nothing": "/scaling/?q=host:nobody",
}


@pytest.fixture(scope="module")
def sweep(world: World, django_db_blocker: Any) -> Iterator[None]:
    """Give a published series and a sweep over depths, committed; take them away afterwards."""
    with django_db_blocker.unblock():
        hosts = [make_ebs_series(2, 3), _make_depths(), make_host("runs-01")]
        add_series([1000.0, 1100.0], host=hosts[-1], target=make_target(volume_count=2))
    yield
    with django_db_blocker.unblock():
        Run.objects.filter(host__in=hosts).delete()
        Submission.objects.filter(host__in=hosts).delete()
        Level.objects.filter(series__host__in=hosts).delete()
        Series.objects.filter(host__in=hosts).delete()
        Host.objects.filter(pk__in=[host.pk for host in hosts]).delete()


def _make_depths() -> Host:
    host = make_host("depth-01")
    for depth in (1, 2, 4, 8, 16, 32, 64, 128):
        for rw, most in (("randread", 90_000), ("randwrite", 40_000)):
            workload, target = make_workload(rw=rw, iodepth=depth), make_target(volume_count=4)
            series = make_series(
                host=host, target=target, workload=workload, direction=rw.removeprefix("rand")
            )
            Series.objects.filter(pk=series.pk).update(measurement_count=20, first_at=NOON, last_at=NOON)
            iops = most * depth / (depth + 8)
            for metric, value in (("iops", iops), ("latency_mean_ns", depth / iops * 1e9)):
                make_level(series, metric, value, n=20, p10=value * 0.93, p90=value * 1.05)
    return host


def readout(watched: Watched) -> str:
    return str(watched.page.inner_text(".chart-readout")).replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_page_is_sound(path: str, visit: Visit, sweep: None) -> None:
    watched = visit(path)

    check_everywhere(watched)


def test_picture_is_drawn_without_a_second_request_for_numbers(visit: Visit, sweep: None) -> None:
    watched = visit("/account/")
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))

    watched.page.goto(EBS)
    watched.wait_for_charts()

    assert not [url for url in asked if "/api/" in url]


def test_keys_walk_the_lines_and_enter_opens_the_series(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}+file_size:5G")
    watched.wait_for_charts()

    watched.page.focus(".chart-box")
    watched.page.keyboard.press("Home")
    assert readout(watched).startswith("sequential read · 1 volume · 16 730 IOPS · one run, no spread")
    watched.page.keyboard.press("ArrowUp")
    watched.page.keyboard.press("ArrowUp")
    watched.page.keyboard.press("ArrowRight")
    watched.page.keyboard.press("ArrowRight")
    assert readout(watched).startswith("random read · 4 volumes · 30 613 IOPS")
    watched.page.keyboard.press("Enter")

    watched.page.wait_for_url("**/series/*/")


def test_sentence_leads_to_its_cells(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}&facet=file_size")

    watched.page.click("[data-cells] >> nth=0")

    meant = [cell.inner_text().split("\n")[0] for cell in watched.page.query_selector_all("td.is-meant")]
    assert meant == ["5\u202f956", "119"]


def test_held_dimension_is_changed_by_its_word(visit: Visit, sweep: None) -> None:
    watched = visit("/scaling/?q=host:ebs-2013")

    watched.page.locator(".scope summary", has_text="5 GiB files").click()
    watched.page.locator(".scope a:visible", has_text="15 GiB").click()
    watched.page.wait_for_url("**file_size_bytes:15G**")

    assert "20\u202f942" in watched.page.inner_text(".scaling-table")


def test_stripes_by_volume_type_are_three_clicks_from_the_overview(visit: Visit, sweep: None) -> None:
    watched = visit("/")
    page = watched.page

    page.get_by_role("navigation").get_by_role("link", name="Explore", exact=True).first.click()
    page.get_by_text("common charts").click()
    page.get_by_role("link", name="Stripes by volume type").click()
    page.wait_for_url("**x=stripe_count&color=volume_type**")
    watched.wait_for_charts()

    assert "by stripes" in page.inner_text(".scaling-table")
    assert "Volume type" in page.inner_text(".scaling-table")


def test_charts_of_several_metrics_share_one_cursor(visit: Visit, sweep: None, tmp_path: Path) -> None:
    watched = visit(f"{DEPTH}&metric=iops,latency_mean_ns&draw=bars")
    watched.wait_for_charts()
    page = watched.page
    active = """() => [...document.querySelectorAll(".scaling canvas")].map((canvas) =>
      globalThis.Chart.getChart(canvas).getActiveElements().map(({ datasetIndex, index }) => [datasetIndex, index]))"""

    page.focus(".chart-box >> nth=0")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(active) == [[[0, 1]], [[0, 1]]]
    assert "Mean latency: " in readout(watched)
    assert "IOPS: 18 000 IOPS" in readout(watched)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.evaluate(active) == [[[1, 7]], [[1, 7]]]
    page.evaluate("document.activeElement.blur()")
    page.locator(".chart-box canvas").nth(1).hover()
    first, second = page.evaluate(active)
    assert first == second != []

    page.click("summary:text-is('Share')")
    with page.expect_download() as download:
        page.click("[data-image]")
    assert download.value.suggested_filename == "scaling-iops-latency_mean_ns-over-iodepth.png"


def test_groups_are_added_moved_renamed_and_removed(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}&group=small=file_size:5G&group=gone=file_size:1G&x=group&color=volume_count")
    page = watched.page

    page.locator(".scope > .change > summary").click()
    page.get_by_role("button", name="Remove group 2").click()
    page.get_by_role("textbox", name="Group 1").fill("5 GB = file_size:5G")
    page.get_by_role("textbox", name="Group 2").fill("15 GB = file_size:15G")
    page.get_by_role("button", name="Add group").click()
    assert page.evaluate("document.activeElement.id") == "scaling-group-3"
    page.get_by_role("button", name="Move group 2 up").click()
    assert page.evaluate("document.activeElement.textContent") == "↓"
    page.get_by_role("form", name="Filter").get_by_role("button", name="Apply").click()
    page.wait_for_url("**group=15*")
    watched.wait_for_charts()

    heads = [cell.inner_text() for cell in page.query_selector_all(".scaling-table th.number")]
    assert heads == ["15 GB\n15 GiB files", "5 GB\n5 GiB files"]


def test_table_is_sorted_by_a_column(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}+file_size:5G")
    watched.wait_for_charts()

    button = watched.page.get_by_role("button", name="16", exact=True)
    button.click()
    button.click()

    rows = [row.inner_text() for row in watched.page.query_selector_all(".scaling-table tbody th")]
    assert rows == ["random read", "sequential read", "random write", "sequential write"]


def test_head_over_one_column_sorts_nothing(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}+file_size:5G+volume_count:4&x=volume_count")
    watched.wait_for_charts()

    buttons = [button.inner_text() for button in watched.page.query_selector_all(".scaling-table .sort")]

    assert buttons == ["Pattern", "4"]


def test_picture_of_panels_is_saved_as_one(visit: Visit, sweep: None, tmp_path: Path) -> None:
    watched = visit(f"{EBS}&facet=file_size")
    watched.wait_for_charts()

    watched.page.click("summary:text-is('Share')")
    with watched.page.expect_download() as download:
        watched.page.click("[data-image]")
    download.value.save_as(tmp_path / "scaling.png")

    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert download.value.suggested_filename == "scaling-iops-over-volume_count.png"


def test_nothing_moves_while_the_picture_is_drawn(visit: Visit, sweep: None) -> None:
    watched = visit("/account/")
    watched.page.add_init_script(
        "window.__shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => {"
        " window.__shift += entry.value; })).observe({ type: 'layout-shift', buffered: true });"
    )

    watched.page.goto(EBS)
    watched.wait_for_charts()
    watched.page.focus(".chart-box")

    assert watched.page.evaluate("window.__shift") < 0.02


def test_numbers_and_words_are_there_without_javascript(visit: Visit, sweep: None) -> None:
    watched = visit(f"{EBS}+file_size:5G", java_script_enabled=False)

    assert "levels off at 4 volumes" in watched.page.inner_text("h1").replace("\xa0", " ")
    assert "30\u202f613" in watched.page.inner_text(".scaling-table")


def test_runs_over_bars_open_by_click_and_by_keys(visit: Visit, sweep: None) -> None:
    watched = visit(RUNS)
    page = watched.page
    first, last = json.loads(page.text_content('figure script[type="application/json"]'))["layers"][0][
        "facets"
    ][0]["lines"][0][0]["runs"]["ids"]

    page.focus(".chart-box")
    page.keyboard.press(".")
    assert "one run: 1 000 IOPS · runs-01" in readout(watched)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{first}/")
    page.go_back()
    watched.wait_for_charts()
    page.focus(".chart-box")
    page.keyboard.press(",")
    assert "one run: 1 100 IOPS · runs-01" in readout(watched)
    canvas = page.locator(".chart-box canvas")
    box = canvas.bounding_box()
    # The bar is in the middle; the dots of the two runs are near its upper end, at known places.
    spot = page.evaluate(
        """async () => {
          const chart = Chart.getChart(document.querySelector(".chart-box canvas"));
          const { x, width } = chart.getDatasetMeta(0).data[0].getProps(["x", "width"]);
          return { x: x + ((2 * 0.618034) % 1 - 0.5) * width * 0.8, y: chart.scales.y.getPixelForValue(1100) };
        }"""
    )
    page.mouse.click(box["x"] + spot["x"], box["y"] + spot["y"])
    page.wait_for_url(f"**/runs/{last}/")
