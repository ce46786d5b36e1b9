"""Studies in a browser: saved from a chart page, read by the shared link."""

from collections.abc import Callable
from typing import Any

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World


def wait_for_shared_charts(page: Any) -> None:
    """Wait until all charts of a shared study are loaded."""
    wait_for_count(page, "[data-deferred]", 0)


def wait_for_count(page: Any, selector: str, count: int) -> None:
    # Not wait_for_function: our policy forbids what it evaluates.
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(count, timeout=30_000)


def test_study_is_sound(world: World, visit: Callable[..., Watched]) -> None:
    check_everywhere(visit(world.study))


def test_list_and_forms_are_sound(world: World, visit: Callable[..., Watched]) -> None:
    for path in ("/studies/", f"{world.study}edit", "/studies/add?kind=scaling&query=x%3Diodepth&title=T"):
        check_everywhere(visit(path))


def test_shared_study_requests_only_its_own_files(world: World, visit: Callable[..., Watched]) -> None:
    watched = visit("/sign-in/", is_stranger=True)
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append("/" + request.url.split("/", 3)[3]))

    watched.page.goto(world.shared)
    wait_for_shared_charts(watched.page)

    # The scripts of the pages also start charts that were loaded later.
    assert watched.page.locator("[data-matrix]").first.get_attribute("role") == "grid"
    assert watched.page.locator("[data-sortable] button.sort").count() > 0
    check_everywhere(watched)
    assert [path for path in asked if not path.startswith(("/static/", world.shared))] == []
    links = watched.page.locator("a[href]").evaluate_all(
        "links => links.map((link) => link.getAttribute('href'))"
    )
    images = [f"{world.shared}charts/{place}.png" for place in range(1, 6)]
    assert [link for link in links if not link.startswith("#")] == images


def test_keys_in_a_shared_chart_open_no_page(world: World, visit: Callable[..., Watched]) -> None:
    watched = visit(world.shared, is_stranger=True)
    wait_for_shared_charts(watched.page)
    watched.wait_for_charts()

    for box in watched.page.locator(".chart-box[tabindex='0']").all():
        box.focus()
        box.press("ArrowRight")
        box.press("Enter")

    assert watched.page.url.endswith(world.shared)


def test_chart_is_saved_as_a_study_and_deleted(visit: Callable[..., Watched]) -> None:
    page = visit("/scaling/?q=host:db-01").page

    page.click("summary:text-is('Save')")
    page.get_by_role("link", name="Save as a report").click()
    page.get_by_label("Title").fill("Kept in a browser")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".chart-box[data-drawn]")

    assert page.get_by_role("heading", level=1).inner_text() == "Kept in a browser"
    table = page.get_by_role("table")
    assert table.count() == 0
    page.get_by_text("Data table").click()
    assert table.count() == 1
    page.get_by_role("button", name="Take snapshot").click()
    page.get_by_role("link", name="Show live data").wait_for()
    (image,) = [each for each in page.locator(".frozen-chart img").all() if each.is_visible()]
    assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 2400
    assert table.count() == 0
    page.emulate_media(media="print")
    assert table.count() == 1
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Edit").click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/studies/")
    assert "deleted" in page.inner_text(".banner")


def test_text_of_a_shared_study_comes_before_its_charts(world: World, visit: Callable[..., Watched]) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    asked: list[Any] = []

    def hold_first(route: Any) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route("**/shared/*/charts/*", hold_first)

    with page.expect_request("**/shared/*/charts/1"):
        page.goto(world.shared)

    assert page.get_by_role("heading", level=1).inner_text() == "Disks of db-01"
    assert page.locator("[data-deferred]").count() == 5
    # One after the other: the second is asked for when the first is there.
    assert [route.request.url.rpartition("/")[2] for route in asked] == ["1"]
    asked[0].continue_()
    wait_for_shared_charts(page)
    assert page.locator(".panel").count() == 5


def test_chart_that_fails_to_load_is_reported_and_retried(
    world: World, visit: Callable[..., Watched]
) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    too_much = {"status": 429, "headers": {"Retry-After": "42"}}
    page.route("**/shared/*/charts/1", lambda route: route.fulfill(**too_much))
    page.route("**/shared/*/charts/3", lambda route: route.abort())

    page.goto(world.shared)
    wait_for_count(page, "[data-deferred]", 2)
    wait_for_count(page, ".chart-notice", 2)

    words = [notice.inner_text() for notice in page.locator(".chart-notice").all()]
    assert "Try again in 42 s." in words[0]
    assert "The server cannot be reached" in words[1]
    page.unroute("**/shared/*/charts/1")
    page.get_by_role("button", name="Try again").first.click()
    page.wait_for_selector("[data-scaling] .chart-box[data-drawn]")


def test_revoked_link_is_reported_in_place_of_the_chart(world: World, visit: Callable[..., Watched]) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    gone = page.url.replace("/sign-in/", world.shared.replace("s" * 43, "x" * 43)) + "charts/1"
    page.route("**/shared/*/charts/1", lambda route: route.continue_(url=gone))

    page.goto(world.shared)

    notice = page.wait_for_selector(".chart-notice")
    assert "link may have been revoked" in notice.inner_text()


def test_shared_study_is_readable_without_script(world: World, visit: Callable[..., Watched]) -> None:
    page = visit(world.shared, is_stranger=True, java_script_enabled=False).page

    page.get_by_role("link", name="Show chart “Matrix”").click()

    assert page.get_by_role("heading", level=2).inner_text() == "Matrix"
    assert page.locator("table").count() >= 1
    page.get_by_role("link", name="Whole report").click()
    assert page.locator("[data-deferred]").count() == 5


def test_study_is_presented_by_keys(world: World, visit: Callable[..., Watched]) -> None:
    watched = visit(world.study)
    page = watched.page
    top = "document.querySelectorAll('.panel')[{}].getBoundingClientRect().top"

    page.get_by_role("button", name="Present").click()
    page.wait_for_selector(".presenting")
    assert page.locator("header.bar").is_hidden()
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('h1')).fontSize)") >= 28
    page.keyboard.press("ArrowRight")
    assert abs(page.evaluate(top.format(0))) < 2
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")
    assert abs(page.evaluate(top.format(0))) < 2
    assert (watched.complaints, watched.violations()) == ([], [])
    page.keyboard.press("Escape")

    page.wait_for_selector("html:not(.presenting)")
    assert page.locator("header.bar").is_visible()
