"""How a run went within itself: drawn from the API, walked by keys, saved as a picture; and the report of a run."""

from collections.abc import Callable

from tests.browser.watch import Watched
from tests.browser.world import HOSTILE, World

Visit = Callable[..., Watched]
IOPS = "[data-trace=iops]"
LATENCY = "[data-trace=lat]"


def readout(watched: Watched, figure: str) -> str:
    return str(watched.page.inner_text(f"{figure} .chart-readout")).replace("\u202f", " ")


def test_panels_are_drawn_and_walked_by_keys(visit: Visit, world: World) -> None:
    watched = visit(world.traced_run)
    watched.wait_for_charts()

    watched.page.focus(f"{LATENCY} .chart-box")
    assert readout(watched, LATENCY).startswith("write, 60 s after the start · ")
    watched.page.keyboard.press("Home")
    assert readout(watched, LATENCY).startswith("read, 1 s after the start · ")
    assert " µs to " in readout(watched, LATENCY)
    watched.page.focus(f"{IOPS} .chart-box")
    assert readout(watched, IOPS).endswith(" IOPS")
    assert watched.complaints == []


def test_course_is_said_in_words_below_the_chart(visit: Visit, world: World) -> None:
    watched = visit(world.traced_run)

    said = watched.page.inner_text(f"{IOPS} .finding").replace("\u202f", " ")

    assert said.startswith("Read IOPS was steady at 15 ")
    assert "then was steady at 15 " in said
    assert "from 33 to 60 s. Write IOPS was steady at 6 " in said


def test_numbers_are_behind_a_disclosure(visit: Visit, world: World) -> None:
    watched = visit(world.traced_run)
    table = f"{IOPS} details table >> nth=0"

    assert not watched.page.is_visible(table)
    watched.page.click(f"{IOPS} summary:text-is('Data table')")

    assert watched.page.is_visible(table)
    assert watched.page.locator(f"{IOPS} details table >> nth=0 >> tbody tr").count() == 60


def test_failure_is_said_once_and_can_be_tried_again(visit: Visit, world: World) -> None:
    watched = visit("/account/")
    watched.page.route("**/api/v1/runs/**", lambda route: route.abort())
    watched.page.goto(world.traced_run)
    notice = watched.page.wait_for_selector(f"{IOPS} .chart-notice")
    assert "The server cannot be reached." in notice.inner_text()

    watched.page.unroute("**/api/v1/runs/**")
    watched.page.click(f"{IOPS} .chart-notice button")

    watched.wait_for_charts()
    assert watched.page.query_selector_all(".chart-notice") == []


def test_nothing_moves_while_the_panels_load(visit: Visit, world: World) -> None:
    watched = visit("/account/")
    watched.page.add_init_script(
        "window.__shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => {"
        " window.__shift += entry.value; })).observe({ type: 'layout-shift', buffered: true });"
    )

    watched.page.goto(world.traced_run)
    watched.wait_for_charts()
    watched.page.focus(f"{IOPS} .chart-box")

    assert watched.page.evaluate("window.__shift") < 0.01


def test_run_page_leads_to_its_report_and_back(visit: Visit, world: World) -> None:
    watched = visit(world.traced_run)

    watched.page.get_by_role("link", name="How values were derived").click()
    watched.page.wait_for_url("**/report/")

    assert HOSTILE in watched.page.inner_text("[aria-labelledby=ignored] pre")
    assert watched.page.query_selector_all("img") == []
    watched.page.click(".page-head a[href*='/runs/']")
    watched.page.wait_for_url(f"**{world.traced_run}")


def test_report_past_its_retention_is_said_in_words(visit: Visit, world: World) -> None:
    watched = visit(f"{world.expired_run}report/")

    assert "removed after the retention period" in watched.page.inner_text(".banner")


def test_drag_in_one_panel_zooms_all_and_each_shows_the_second_of_the_pointer(
    visit: Visit, world: World
) -> None:
    watched = visit(world.traced_run)
    watched.wait_for_charts()
    page = watched.page
    page.locator(f"{IOPS} canvas").scroll_into_view_if_needed()
    area = page.locator(f"{IOPS} canvas").bounding_box()
    y = area["y"] + area["height"] / 2

    page.mouse.move(area["x"] + area["width"] * 0.3, y)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.5, y, steps=5)
    page.mouse.up()
    page.mouse.move(area["x"] + area["width"] * 0.6, y)

    assert page.locator("[data-trace] [data-zoom=reset]:visible").count() == 3
    shown = page.evaluate(_READ_TRACES)
    assert len(shown) == 3 and len({str(each) for each in shown}) == 1
    assert shown[0][1] - shown[0][0] < 30 and shown[0][0] < shown[0][2] < shown[0][1]
    page.focus(f"{LATENCY} .chart-box")
    page.keyboard.press("0")
    assert page.locator("[data-trace] [data-zoom=reset]:visible").count() == 0
    assert (watched.barriers(), watched.complaints) == ([], [])


# Of each panel: both ends of its axis, and the second that it marks.
_READ_TRACES = """() => [...document.querySelectorAll("[data-trace] canvas")].map((canvas) => {
  const chart = Chart.getChart(canvas);
  const { datasetIndex, index } = chart.getActiveElements()[0];
  return [chart.scales.x.min, chart.scales.x.max, chart.data.datasets[datasetIndex].data[index].x];
})"""
