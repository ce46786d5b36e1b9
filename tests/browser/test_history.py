"""Histories: zoomed by dragging, by keys and on the strip; linked, told, and the same again from their address."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


def open_history(visit: Visit, path: str, **options: object) -> Watched:
    watched = visit(path, **options)
    watched.page.wait_for_selector("[data-history][data-ready]")
    return watched


def readout(watched: Watched) -> str:
    return (
        str(watched.page.inner_text(".chart-readout >> nth=0")).replace("\u202f", " ").replace("\u00a0", " ")
    )


def span_of(watched: Watched) -> tuple[datetime, datetime]:
    query = parse_qs(urlsplit(watched.page.url).query)
    first, last = (datetime.fromisoformat(query[name][0]) for name in ("from", "to"))
    return first.astimezone(UTC), last.astimezone(UTC)


def drag(watched: Watched, selector: str, start: float, end: float) -> None:
    watched.page.locator(selector).first.scroll_into_view_if_needed()
    area = watched.page.locator(selector).first.bounding_box()
    y = area["y"] + area["height"] / 2
    watched.page.mouse.move(area["x"] + area["width"] * start, y)
    watched.page.mouse.down()
    watched.page.mouse.move(area["x"] + area["width"] * end, y, steps=5)
    watched.page.mouse.up()


def test_drag_zooms_and_the_address_shows_the_same(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)

    drag(watched, ".chart-box canvas", 0.4, 0.6)
    watched.page.wait_for_url("**from=**to=**")
    first, last = span_of(watched)
    watched.page.focus(".chart-box")
    watched.page.keyboard.press("End")
    told = readout(watched)
    again = open_history(visit, watched.page.url)
    again.page.focus(".chart-box")

    assert 3 <= (last - first).days <= 12
    assert re.match(r"Run \d+ of [3-9], ", told)
    assert readout(again) == told
    assert watched.complaints == []


def test_words_and_table_follow_the_zoom(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    whole = watched.page.locator("[data-follows=numbers] tbody tr").count()

    drag(watched, ".chart-box canvas", 0.4, 0.6)

    expect(watched.page.locator("[data-follows=numbers] tbody tr")).not_to_have_count(whole)
    assert "Selected time range: " in watched.page.inner_text("[data-follows=summary]")


def test_whole_history_comes_back(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    drag(watched, ".chart-box canvas", 0.4, 0.6)
    watched.page.wait_for_url("**from=**")

    watched.page.get_by_role("button", name="Show all").click()

    watched.page.wait_for_url(lambda url: "from=" not in url)
    watched.page.focus(".chart-box")
    assert readout(watched).startswith("Run 30 of 30, ")
    assert not watched.page.is_visible("[data-zoom=reset]")


def test_whole_history_comes_back_of_a_page_that_was_opened_zoomed(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    drag(watched, ".chart-box canvas", 0.4, 0.6)
    watched.page.wait_for_url("**from=**")
    again = open_history(visit, watched.page.url)

    again.page.get_by_role("button", name="Show all").click()

    again.page.focus(".chart-box")
    assert readout(again).startswith("Run 30 of 30, ")


def test_keys_zoom_around_the_run_and_show_all_again(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    watched.page.focus(".chart-box")

    watched.page.keyboard.press("+")
    watched.page.keyboard.press("+")
    watched.page.keyboard.press("ArrowLeft")
    zoomed = readout(watched)
    watched.page.keyboard.press("0")
    watched.page.keyboard.press("End")

    assert int(re.match(r"Run \d+ of (\d+)", zoomed)[1]) < 12
    assert readout(watched).startswith("Run 30 of 30, ")


def test_handles_of_the_strip_are_moved_by_keys(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    handle = watched.page.get_by_role("slider", name="Start of the visible range")

    handle.focus()
    for _ in range(3):
        watched.page.keyboard.press("Shift+ArrowRight")
    watched.page.wait_for_url("**from=**")

    assert handle.get_attribute("aria-valuenow") == "30"
    assert re.fullmatch(r"\d+ \w+ \d{4} \d\d:\d\d UTC", handle.get_attribute("aria-valuetext"))


def test_window_of_the_strip_is_dragged(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    window = watched.page.locator("[data-window]")

    drag(watched, "[data-overview]", 0.3, 0.5)
    before = window.bounding_box()
    drag(watched, "[data-overview]", 0.4, 0.6)
    after = window.bounding_box()

    assert after["x"] - before["x"] > 100
    assert abs(after["width"] - before["width"]) < 2
    watched.page.wait_for_url("**from=**to=**")


def test_cursor_is_on_all_panels_and_told_with_their_values(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)

    watched.page.focus(".chart-box")

    tip = watched.page.inner_text("[data-tip]")
    assert "Bandwidth: " in tip
    assert "p99 latency: " in tip


def test_time_is_told_in_the_reader_s_own_zone(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history, timezone_id="Asia/Kolkata")

    watched.page.select_option("[data-zone-choice]", "own")
    watched.page.focus(".chart-box")

    assert "UTC+5:30" in readout(watched)
    assert "tz=own" in watched.page.url


def test_zone_of_a_host_that_told_none_is_the_reader_s_and_that_is_said(visit: Visit, world: World) -> None:
    watched = open_history(visit, f"{world.history}?tz=host", timezone_id="Asia/Kolkata")

    watched.page.focus(".chart-box")

    assert "UTC+5:30" in readout(watched)
    assert watched.page.locator("[data-zone-choice]").input_value() == "own"
    assert "no host reported its time zone" in watched.page.inner_text("[data-history]")


def test_several_series_are_walked_line_by_line(visit: Visit, world: World) -> None:
    watched = open_history(visit, "/history/?q=host:db-01 bs:4k")
    watched.page.focus(".chart-box")
    first = readout(watched).split(" · ")[0]

    watched.page.keyboard.press("ArrowDown")

    assert {first, readout(watched).split(" · ")[0]} == {"random read", "random write"}
    assert watched.complaints == []


def test_fan_is_drawn_and_walked_by_keys(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)

    watched.page.locator("[data-latency=fan] .chart-box").scroll_into_view_if_needed()
    watched.page.wait_for_selector("[data-latency=fan] .chart-box[data-drawn]")
    watched.page.focus("[data-latency=fan] .chart-box")

    words = watched.page.inner_text("[data-latency=fan] .chart-readout")
    assert "p50 198 µs" in words
    assert watched.complaints == []


def test_fan_s_table_follows_the_zoom(visit: Visit, world: World) -> None:
    watched = open_history(visit, world.history)
    rows = watched.page.locator("[data-follows=fan-table] tbody tr")

    assert rows.count() == 29
    drag(watched, ".chart-box canvas", 0.4, 0.6)

    expect(rows).not_to_have_count(29)
    assert watched.barriers() == []


def test_run_before_is_in_the_legend_and_told_with_its_points(visit: Visit, world: World) -> None:
    watched = visit(world.run)
    watched.wait_for_charts()
    watched.page.focus(".chart-box")

    watched.page.keyboard.press("Home")

    told = watched.page.inner_text(".chart-readout >> nth=0")
    assert re.match(r"randread, previous run \d+ · 1 % of the I/Os within 87.6\sµs", told)
    assert re.search(r"randread, previous run \d+", watched.page.inner_text("[data-legend]"))
    assert watched.complaints == []


def test_steps_below_the_threshold_and_increases_in_spread_are_drawn_and_explained(
    visit: Callable[..., Watched], world: World
) -> None:
    def add_step(route: Any) -> None:
        answer = route.fetch()
        start, text, end = re.split(
            r'(?<=id="history-document" type="application/json">)(.*?)(?=</script>)', answer.text()
        )
        document = json.loads(text)
        (line,) = document["lines"]
        points = document["points"]
        line["small_steps"] = [
            {
                "at": points[15]["started_at"],
                "relative": -0.03,
                "before": 33_500.0,
                "after": 32_500.0,
                "from_at": points[0]["started_at"],
                "to_at": points[-1]["started_at"],
            }
        ]
        line["spread_increases"] = [
            {"metric": "iops", "from_at": points[15]["started_at"], "before": 0.02, "after": 0.06}
        ]
        route.fulfill(response=answer, body=start + json.dumps(document) + end)

    watched = visit("/hosts/", width=1440)
    page = watched.page
    page.route(f"**{world.history}", add_step)
    page.goto(world.history)
    watched.wait_for_charts()
    main = page.locator(".chart-box.main")
    main.focus()
    main.press("Home")
    for _ in range(15):
        main.press("ArrowRight")

    expect(page.locator("[data-small-steps]")).to_be_visible()
    expect(page.locator("[data-spread-increases]")).to_be_visible()
    readout = page.locator(".chart-readout").first
    expect(readout).to_contain_text("step of −3.0 %, below the threshold: not reported")
    expect(readout).to_contain_text("standard deviation 6.0 %, before 2.0 %")


def test_page_asks_for_no_data_until_it_is_zoomed(visit: Visit, world: World) -> None:
    watched = visit("/account/")
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))

    watched.page.goto(f"{world.history}?from=-20d")
    watched.page.wait_for_selector("[data-history][data-ready]")

    assert not [url for url in asked if "/api/v1/history" in url]


def test_drag_on_percentiles_zooms_the_history_and_a_line_marks_the_place_in_all(
    visit: Visit, world: World
) -> None:
    watched = open_history(visit, world.history)
    watched.wait_for_charts()

    drag(watched, "[data-latency=fan] canvas", 0.4, 0.6)
    watched.page.wait_for_url("**from=**to=**")

    assert 3 <= (span_of(watched)[1] - span_of(watched)[0]).days <= 12
    watched.page.focus(".chart-box")
    expect(watched.page.locator("[data-latency=fan] .cursor-line")).to_be_visible()
    expect(watched.page.locator("[data-history] .cursor-line")).to_have_count(3)
    assert watched.complaints == []
