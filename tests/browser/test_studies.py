"""Studies in a browser: kept from a chart page, and read by a stranger through the shared link."""

from collections.abc import Callable
from typing import Any

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World


def wait_for_pictures(page: Any) -> None:
    """Wait until every picture of a shared study is in the place that was kept for it."""
    wait_for_count(page, "[data-picture]", 0)


def wait_for_count(page: Any, selector: str, count: int) -> None:
    # Not wait_for_function: our policy forbids what it evaluates.
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(count, timeout=30_000)


def test_study_is_sound(world: World, visit: Callable[..., Watched]) -> None:
    check_everywhere(visit(world.study))


def test_list_and_forms_are_sound(world: World, visit: Callable[..., Watched]) -> None:
    for path in ("/studies/", f"{world.study}edit", "/studies/add?kind=scaling&query=x%3Diodepth&title=T"):
        check_everywhere(visit(path))


def test_shared_study_is_sound_and_asks_for_nothing_but_its_own_files(
    world: World, visit: Callable[..., Watched]
) -> None:
    watched = visit("/sign-in/", is_stranger=True)
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append("/" + request.url.split("/", 3)[3]))

    watched.page.goto(world.shared)
    wait_for_pictures(watched.page)

    # What the scripts of the pages do to a picture is done to one that came later too.
    assert watched.page.locator("[data-matrix]").first.get_attribute("role") == "grid"
    assert watched.page.locator("[data-sortable] button.sort").count() > 0
    check_everywhere(watched)
    assert [path for path in asked if not path.startswith(("/static/", world.shared))] == []
    links = watched.page.locator("a[href]").evaluate_all(
        "links => links.map((link) => link.getAttribute('href'))"
    )
    assert [link for link in links if not link.startswith("#")] == []


def test_keys_in_a_shared_picture_lead_nowhere(world: World, visit: Callable[..., Watched]) -> None:
    watched = visit(world.shared, is_stranger=True)
    wait_for_pictures(watched.page)
    watched.wait_for_charts()

    for box in watched.page.locator(".chart-box[tabindex='0']").all():
        box.focus()
        box.press("ArrowRight")
        box.press("Enter")

    assert watched.page.url.endswith(world.shared)


def test_picture_is_kept_from_its_page_and_removed(visit: Callable[..., Watched]) -> None:
    page = visit("/scaling/?q=host:db-01").page

    page.get_by_role("link", name="Save as a study").click()
    page.get_by_label("Title").fill("Kept in a browser")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".chart-box[data-drawn]")

    assert page.get_by_role("heading", level=1).inner_text() == "Kept in a browser"
    page.get_by_role("link", name="Edit").click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove this study").click()
    page.wait_for_url("**/studies/")
    assert "is removed" in page.inner_text(".banner")


def test_words_of_a_shared_study_are_there_before_its_pictures(
    world: World, visit: Callable[..., Watched]
) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    asked: list[Any] = []

    def hold_first(route: Any) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route("**/pictures/*", hold_first)

    with page.expect_request("**/pictures/1"):
        page.goto(world.shared)

    assert page.get_by_role("heading", level=1).inner_text() == "Disks of db-01"
    assert page.locator("[data-picture]").count() == 4
    # One after the other: the second is asked for when the first is there.
    assert [route.request.url.rpartition("/")[2] for route in asked] == ["1"]
    asked[0].continue_()
    wait_for_pictures(page)
    assert page.locator(".panel").count() == 4


def test_picture_that_did_not_come_is_said_and_tried_again(
    world: World, visit: Callable[..., Watched]
) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    too_much = {"status": 429, "headers": {"Retry-After": "42"}}
    page.route("**/pictures/1", lambda route: route.fulfill(**too_much))
    page.route("**/pictures/3", lambda route: route.abort())

    page.goto(world.shared)
    wait_for_count(page, "[data-picture]", 2)
    wait_for_count(page, ".chart-notice", 2)

    words = [notice.inner_text() for notice in page.locator(".chart-notice").all()]
    assert "Try again in 42 s." in words[0]
    assert "The server cannot be reached" in words[1]
    page.unroute("**/pictures/1")
    page.get_by_role("button", name="Try again").first.click()
    page.wait_for_selector("[data-scaling] .chart-box[data-drawn]")


def test_withdrawn_link_is_said_in_the_place_of_a_picture(
    world: World, visit: Callable[..., Watched]
) -> None:
    page = visit("/sign-in/", is_stranger=True).page
    gone = page.url.replace("/sign-in/", world.shared.replace("s" * 43, "x" * 43)) + "pictures/1"
    page.route("**/pictures/1", lambda route: route.continue_(url=gone))

    page.goto(world.shared)

    notice = page.wait_for_selector(".chart-notice")
    assert "it may have been withdrawn" in notice.inner_text()


def test_shared_study_is_readable_without_script(world: World, visit: Callable[..., Watched]) -> None:
    page = visit(world.shared, is_stranger=True, java_script_enabled=False).page

    page.get_by_role("link", name="Show the picture “Matrix”").click()

    assert page.get_by_role("heading", level=2).inner_text() == "Matrix"
    assert page.locator("table").count() >= 1
    page.get_by_role("link", name="the whole study").click()
    assert page.locator("[data-picture]").count() == 4
