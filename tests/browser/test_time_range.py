"""The time range: the same control on every page, by keyboard, and after Back."""

from collections.abc import Callable
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


@pytest.mark.parametrize(
    "path",
    [
        "/runs/?from=-7d",
        "history",
        "/compare/?a_from=-7d&b=host:db-09",
        "/hosts/db-09/?from=-7d",
        "/?from=-7d",
    ],
)
def test_range_is_chosen_typed_and_restored_after_back(visit: Visit, world: World, path: str) -> None:
    watched = visit(f"{world.history}?from=-7d" if path == "history" else path)
    page = watched.page
    control = page.locator(".time-range").first
    start = control.locator("input").first
    chosen = control.locator("[aria-current=true]")
    assert chosen.text_content() == "7 days"

    # History has it in its line of words.
    change = page.locator(".scope > .change > summary")
    for _ in change.all():
        change.click()
    # Entered, but not submitted.
    start.fill("-3d")
    control.get_by_role("link", name="90 days").click()
    page.wait_for_url("**from=-90d*")
    assert start.input_value() == "-90d"
    page.go_back()
    page.wait_for_url("**from=-7d*")
    assert start.input_value() == "-7d"

    for _ in change.all():
        change.click()
    start.fill("-30d")
    start.press("Enter")
    page.wait_for_url("**from=-30d*")
    assert chosen.text_content() == "30 days"
    assert "zone=" not in urlsplit(page.url).query
    assert "to=" not in urlsplit(page.url).query
    assert watched.complaints == []


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/scaling/?from=-30d&x=host&metric=iops", "metric", "latency_p99_ns"),
        ("/matrix/?from=-30d&x=host&metric=iops", "metric", "latency_p99_ns"),
        ("/series/?from=-30d&group=host", "group", "layout"),
        ("/?from=-30d&q=host:db-*", "q", "host:web-*"),
    ],
)
def test_back_restores_the_range_and_the_other_controls(
    visit: Visit, path: str, field: str, value: str
) -> None:
    watched = visit(path)
    page = watched.page
    form = page.locator("form[data-filter-bar]")
    control = form.locator(f"[name={field}]").first
    start = page.locator("#range-from")
    before, address = control.input_value(), page.url
    for change in page.locator(".scope > .change > summary").all():
        change.click()

    start.fill("-7d")
    if field == "q":
        # The range of the charts has its own form.
        start.press("Enter")
        page.wait_for_url("**from=-7d*")
        page.keyboard.press("f")
        control.fill(value)
    else:
        control.select_option(value)
    form.get_by_role("button", name="Apply").click()
    page.wait_for_url(lambda url: value in unquote(url) and "from=-7d" in url)
    assert (start.input_value(), control.input_value()) == ("-7d", value)
    while page.url != address:
        page.go_back()
        page.wait_for_load_state()

    assert (start.input_value(), control.input_value()) == ("-30d", before)
    assert page.locator("a", has_text="30 days").first.get_attribute("aria-current") == "true"
    assert watched.complaints == []


def test_drag_on_a_small_chart_of_a_host_selects_the_range_of_the_page(visit: Visit, world: World) -> None:
    watched = visit(world.host)
    charts = watched.page.locator(".small-charts svg")
    charts.first.scroll_into_view_if_needed()
    area = charts.first.bounding_box()
    y = area["y"] + area["height"] / 2

    watched.page.mouse.move(area["x"] + area["width"] * 0.5, y)
    lines = watched.page.locator(".cursor-line")
    shown = [(line.is_visible(), line.evaluate("one => one.style.left")) for line in lines.all()]
    watched.page.mouse.down()
    watched.page.mouse.move(area["x"] + area["width"] * 0.7, y, steps=5)
    watched.page.mouse.up()
    watched.page.wait_for_url("**from=**to=**")

    assert len(shown) == charts.count() > 1
    assert len(set(shown)) == 1 and shown[0][0]
    assert urlsplit(watched.page.url).path == world.host
    assert watched.complaints == []


def test_drag_on_a_card_of_series_selects_the_range_of_the_page(visit: Visit, world: World) -> None:
    watched = visit("/series/?q=host:db-01")
    line = watched.page.locator("svg[data-times]").first
    area = line.bounding_box()
    y = area["y"] + area["height"] / 2

    watched.page.mouse.move(area["x"] + area["width"] * 0.8, y)
    marks = watched.page.locator(".cursor-line:visible")
    assert marks.count() == 2
    watched.page.mouse.down()
    watched.page.mouse.move(area["x"] + area["width"] * 0.9, y, steps=5)
    watched.page.mouse.up()
    watched.page.wait_for_url("**from=**to=**")

    assert urlsplit(watched.page.url).path == "/series/"
    assert watched.complaints == []
