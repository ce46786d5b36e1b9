"""The ways through the pages: come in, look, switch, change, go out."""

import re
from collections.abc import Callable
from typing import Any

from tests.browser.watch import Watched
from tests.browser.world import PASSWORD, World

Visit = Callable[..., Watched]
PAPER = {"light": "rgb(252, 252, 251)", "dark": "rgb(21, 24, 27)"}


def paper_of(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))


def test_stranger_signs_in_goes_on_and_out(visit: Visit, world: World) -> None:
    page = visit("/hosts/", is_stranger=True).page
    page.get_by_label("User name").fill(world.admin)
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    assert "Wrong user name or password" in page.inner_text("[role=alert]")

    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/hosts/")
    page.click("details.menu > summary")
    page.get_by_role("button", name="Sign out").click()

    page.wait_for_url("**/sign-in/")
    assert "You are signed out." in page.inner_text("main")


def test_setup_link_creates_an_admin_who_is_signed_in(visit: Visit, world: World) -> None:
    page = visit(world.invitation, is_stranger=True).page
    page.get_by_label("User name").fill("grace")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()

    page.wait_for_url(re.compile(r"://[^/]+/$"))
    assert "Welcome, grace. Your role is admin." in page.inner_text("main")
    page.goto("/people/")
    assert page.locator("table tbody tr", has_text="grace").count() == 1


def test_theme_switch_is_kept_and_does_not_flash(visit: Visit, world: World) -> None:
    watched = visit(world.history, color_scheme="light")
    page = watched.page
    watched.wait_for_charts()
    assert paper_of(page) == PAPER["light"]

    with page.expect_response("**/account/theme"):
        page.get_by_role("button", name="Switch to the dark theme").click()
    assert paper_of(page) == PAPER["dark"]
    # What the first paint will have is decided before the body exists.
    page.add_init_script(
        "new MutationObserver((_, observer) => { if (document.body) { observer.disconnect();"
        " window.__first = getComputedStyle(document.documentElement).backgroundColor; } })"
        ".observe(document, { childList: true, subtree: true });"
    )
    page.reload()
    assert page.evaluate("window.__first") == PAPER["dark"]

    with page.expect_response("**/account/theme") as saved:
        page.get_by_role("button", name="Switch to the light theme").click()
    assert paper_of(page) == PAPER["light"]
    # That of the system again, whose changes the pages follow.
    assert saved.value.json() == {"theme": "system"}


def test_filter_makes_a_short_address(visit: Visit) -> None:
    page = visit("/runs/").page

    page.locator(".scope > .change > summary").click()
    page.get_by_label("Profile", exact=True).select_option("quick")
    page.get_by_role("button", name="Apply").click()

    page.wait_for_url("**/runs/?profile=quick")
    assert page.get_by_label("Profile", exact=True).input_value() == "quick"


def test_rejected_upload_is_tried_again_by_its_button(visit: Visit, world: World) -> None:
    page = visit("/uploads/?state=rejected").page

    page.get_by_role("button", name="Retry", exact=True).first.click()
    page.wait_for_url("**/uploads/*/")
    assert "Queued again." in page.inner_text("main")

    page.goto("/uploads/")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Retry all").click()
    page.wait_for_url("**/uploads/")
    assert "1 submission queued again" in page.inner_text("main")


def test_token_is_shown_once_and_its_button_copies_it(visit: Visit, world: World) -> None:
    watched = visit(f"{world.host}settings/", permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    page.get_by_label("Label", exact=True).fill("spare")
    page.get_by_role("button", name="Create token").click()

    secret = page.inner_text("#one-time-secret-value")
    page.locator(".banner [data-copy]").first.click()
    page.wait_for_selector("text=copied")

    assert secret.startswith("bench_")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.reload()
    assert secret not in page.content()


def test_link_to_the_image_of_a_chart_is_copied_and_read_without_a_session(
    visit: Visit, world: World
) -> None:
    watched = visit(world.history, permissions=["clipboard-read", "clipboard-write"])
    watched.wait_for_charts()
    page = watched.page

    page.click("summary:text-is('Share')")
    page.get_by_role("button", name="Copy image link").first.click()
    page.get_by_role("button", name="Copied, valid for 90 days").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    copied = {}
    for name in ("Copy as Markdown", "Copy to embed (HTML)"):
        button = page.get_by_role("button", name=name).element_handle()
        button.click()
        button.wait_for_element_state("stable")
        page.wait_for_function("each => each.textContent.startsWith('Copied')", arg=button)
        copied[name] = page.evaluate("navigator.clipboard.readText()")

    stranger = page.context.browser.new_context()
    answer = stranger.request.get(link)
    found = (answer.status, answer.headers["content-type"], answer.body()[:4])
    stranger.close()
    assert "/api/v1/charts/history.png?" in link
    assert found == (200, "image/png", b"\x89PNG")
    title = page.inner_text("h1")
    assert copied["Copy as Markdown"].startswith(f"[![{title}](http")
    assert copied["Copy to embed (HTML)"].endswith(f'" alt="{title}"></a>')


def test_question_before_what_cannot_be_undone_can_be_declined(visit: Visit, world: World) -> None:
    page = visit(f"{world.host}settings/").page
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))

    page.get_by_role("button", name="Retire host").click()

    assert asked == ["Retire db-01? Its history is kept; its tokens stop working."]
    assert "retired" not in page.inner_text("h1")


def test_keyboard_reaches_the_content_past_the_bar(visit: Visit) -> None:
    page = visit("/runs/").page

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "content"


def test_paper_is_white_on_paper(visit: Visit, world: World) -> None:
    page = visit(world.run, color_scheme="dark").page

    page.emulate_media(media="print", color_scheme="dark")

    assert paper_of(page) == PAPER["light"]
    assert not page.is_visible("header.bar")
