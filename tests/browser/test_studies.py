"""Studies in a browser: kept from a chart page, and read by a stranger through the shared link."""

from collections.abc import Callable

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World


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

    check_everywhere(watched)
    assert [path for path in asked if not path.startswith(("/static/", world.shared))] == []
    links = watched.page.locator("a[href]").evaluate_all(
        "links => links.map((link) => link.getAttribute('href'))"
    )
    assert [link for link in links if not link.startswith("#")] == []


def test_keys_in_a_shared_picture_lead_nowhere(world: World, visit: Callable[..., Watched]) -> None:
    watched = visit(world.shared, is_stranger=True)
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
