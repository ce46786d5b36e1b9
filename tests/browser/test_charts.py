"""The charts: drawn from the API or from their table, walked by keys, saved as a picture, honest when they fail."""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.watch import Watched
from tests.browser.world import HOSTILE, World

Visit = Callable[..., Watched]
PNG = b"\x89PNG\r\n\x1a\n"


def readout(watched: Watched) -> str:
    return str(watched.page.inner_text(".chart-readout")).replace("\u202f", " ").replace("\u00a0", " ")


def test_arrows_walk_the_runs_and_enter_opens_one(visit: Visit, world: World) -> None:
    watched = visit(world.history)
    watched.wait_for_charts()

    watched.page.focus(".chart-box")
    assert readout(watched).startswith("Run 30 of 30, ")
    watched.page.keyboard.press("ArrowLeft")
    assert re.match(r"Run 29 of 30, \d+ \w+ \d{4} \d\d:\d\d UTC · \d\d \d{3} IOPS · [+−±]", readout(watched))
    watched.page.keyboard.press("Home")
    assert readout(watched).startswith("Run 1 of 30, ")
    watched.page.keyboard.press("End")
    watched.page.keyboard.press("Enter")

    watched.page.wait_for_url(f"**{world.run}")


def test_readout_is_spoken_to_screen_readers(visit: Visit, world: World) -> None:
    watched = visit(world.history)

    assert watched.page.get_attribute(".chart-readout", "aria-live") == "polite"
    assert watched.page.get_attribute(".chart-box", "aria-label") == (
        "History of IOPS; arrow keys move along the runs, Enter opens one, plus and minus zoom, 0 shows all"
    )


def test_failed_run_is_told_as_failed(visit: Visit, world: World) -> None:
    watched = visit(world.history)
    watched.wait_for_charts()
    watched.page.focus(".chart-box")

    for _ in range(9):
        watched.page.keyboard.press("ArrowLeft")

    assert readout(watched).startswith("Run 21 of 30, ")
    assert "failed; " in readout(watched)


def test_click_on_a_mark_opens_its_run(visit: Visit, world: World) -> None:
    watched = visit(world.history)
    watched.wait_for_charts()
    area = watched.page.locator(".chart-box canvas").first.bounding_box()

    watched.page.mouse.click(area["x"] + area["width"] - 72, area["y"] + area["height"] / 2)

    watched.page.wait_for_url("**/runs/*/")


def test_metric_chooser_changes_chart_words_and_table(visit: Visit, world: World) -> None:
    watched = visit(world.history)

    watched.page.locator(".scope summary", has_text="IOPS").click()
    watched.page.get_by_role("link", name="p99", exact=True).click()
    watched.page.wait_for_url("**metric=latency_p99_ns**")
    watched.wait_for_charts()

    assert "p99 latency" in watched.page.inner_text("h1").replace("\xa0", " ")
    assert watched.page.text_content(".scope [aria-current=true] >> nth=0") == "p99"
    assert "p99 latency" in watched.page.inner_text("[data-follows=numbers] thead")


def test_log_axis_is_offered_where_the_range_is_wide(visit: Visit, world: World) -> None:
    narrow = visit(world.history)
    narrow.wait_for_charts()
    wide = visit(f"{world.history}?metric=latency_p99_ns")
    wide.wait_for_charts()

    assert not narrow.page.is_visible("[data-log-offer]")
    wide.page.click("[data-log-offer]")
    wide.page.wait_for_url("**scale=log**")
    wide.wait_for_charts()


def test_percentiles_are_walked_by_keys(visit: Visit, world: World) -> None:
    watched = visit(world.run)
    watched.wait_for_charts()

    watched.page.focus(".chart-box")

    assert readout(watched) == "randwrite · 99.99 % of the I/Os within 727 µs"


def test_menus_of_a_chart_open_and_close_by_keys(visit: Visit, world: World) -> None:
    watched = visit(world.history, permissions=["clipboard-read", "clipboard-write"])
    watched.wait_for_charts()
    page = watched.page

    page.focus("summary:text-is('Save')")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "Name of the view"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Save"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()

    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert page.locator("details.menu[open]").count() == 1
    assert [
        each.inner_text() for each in page.locator("details.menu[open] .menu-list > :is(button, a)").all()
    ][1:] == [
        "PNG",
        "Copy image link",
        "Copy as Markdown",
        "Copy to embed (HTML)",
        "CSV",
    ]
    assert "curl" in page.inner_text("details.menu[open] code")
    assert (watched.barriers(), watched.overhang_px(), watched.complaints) == ([], 0, [])


def test_picture_is_sharp_and_carries_its_words(visit: Visit, world: World, tmp_path: Path) -> None:
    watched = visit(world.history)
    watched.wait_for_charts()

    watched.page.click("summary:text-is('Share')")
    with watched.page.expect_download() as download:
        watched.page.click("[data-image]")
    download.value.save_as(tmp_path / "chart.png")

    picture = (tmp_path / "chart.png").read_bytes()
    assert download.value.suggested_filename.endswith("-iops.png")
    assert picture.startswith(PNG)
    assert struct.unpack(">II", picture[16:24]) == (2400, 1260)
    assert watched.violations() == []


def test_picture_has_the_range_of_a_zoom_and_the_page_in_its_footer(visit: Visit, world: World) -> None:
    watched = visit(world.history, color_scheme="dark")
    watched.wait_for_charts()
    page = watched.page

    page.focus(".chart-box")
    page.keyboard.press("End")
    page.keyboard.press("+")
    page.wait_for_url(re.compile("from=.*T"))
    page.wait_for_selector("[data-image][href*='from=']", state="attached")
    page.click("summary:text-is('Share')")
    with page.expect_download():
        page.click("[data-image]")

    query = parse_qs(urlsplit(page.get_attribute("[data-image]", "href")).query)
    assert query["page"] == [
        page.evaluate("document.querySelector('link[rel=canonical]')?.href ?? location.href")
    ]
    assert (query["theme"], query["scale_factor"]) == (["dark"], ["2"])


def test_span_without_runs_draws_words_instead(visit: Visit, world: World) -> None:
    watched = visit(f"{world.history}?from=2031-01-01")

    assert (
        "No runs in this time range"
        in watched.page.wait_for_selector(".chart-notice:has-text('No runs')").inner_text()
    )


def test_nothing_moves_while_the_chart_loads(visit: Visit, world: World) -> None:
    watched = visit("/account/")
    watched.page.add_init_script(
        "window.__shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => {"
        " window.__shift += entry.value; })).observe({ type: 'layout-shift', buffered: true });"
    )

    watched.page.goto(world.history)
    watched.wait_for_charts()
    watched.page.focus(".chart-box")

    assert watched.page.evaluate("window.__shift") < 0.01


def test_names_that_are_html_stay_words_in_page_and_chart(visit: Visit, world: World) -> None:
    for path in (world.hostile_run, world.hostile_series, "/runs/", "/series/", "/hosts/"):
        watched = visit(path)
        watched.wait_for_charts()
        for box in watched.page.query_selector_all(".chart-box"):
            box.focus()

        assert watched.page.query_selector_all("img") == []
        assert watched.page.title() != "owned"
        assert HOSTILE in watched.page.inner_text("body").replace("\u00a0", " ")
        assert watched.complaints == []
        assert watched.violations() == []


def test_page_has_its_numbers_without_javascript(visit: Visit, world: World) -> None:
    watched = visit(world.history, java_script_enabled=False)

    assert watched.page.locator("[data-follows=numbers] tbody tr").count() == 30
    assert "The table below has the same values" in watched.page.inner_text("main noscript")


@pytest.mark.parametrize(
    "path",
    ["/history/", "/experiment/?q=host:db-01&a=rw:randread&b=rw:randwrite&from=2020-01-01", "{run}"],
    ids=["histories", "experiment", "run"],
)
def test_charts_of_a_turned_phone_are_those_of_a_narrow_one(visit: Visit, world: World, path: str) -> None:
    """Labels, ticks and legend depend on the width, which changes after the page has opened."""
    turned = visit(path.format_map(vars(world)))
    turned.wait_for_charts()
    turned.page.set_viewport_size({"width": 390, "height": 900})

    narrow = visit(path.format_map(vars(world)), width=390)

    assert _read_charts(turned) == _read_charts(narrow)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "path",
    [
        "/history/?q=host:db-01",
        "{traced_run}",
        "/scaling/?q=host:db-01&x=volume_count&color=pattern&draw=lines",
    ],
    ids=["history", "run", "scaling"],
)
def test_a_name_hides_its_line_and_shows_it_again_by_keys(
    visit: Visit, world: World, path: str, width: int
) -> None:
    watched = visit(path.format_map(vars(world)), width=width)
    watched.wait_for_charts()
    name = watched.page.locator(".line-name:visible").first
    before = _read_charts(watched)

    name.click()

    assert name.get_attribute("aria-pressed") == "false"
    assert _read_charts(watched) != before
    assert (watched.barriers(), watched.complaints) == ([], [])
    watched.page.keyboard.press("Enter")
    watched.page.mouse.move(0, 0)
    assert watched.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert _read_charts(watched) == before


def _read_charts(watched: Watched) -> list[Any]:
    """Return the pixels of each chart, and whether its legend is shown."""
    watched.wait_for_charts()
    return list(
        watched.page.evaluate("""() => [...document.querySelectorAll("figure .chart-box canvas")].map((canvas) => {
          const legend = canvas.closest("figure").querySelector("[data-legend]");
          return [canvas.width, canvas.height, canvas.toDataURL(), legend?.hidden];
        })""")
    )
