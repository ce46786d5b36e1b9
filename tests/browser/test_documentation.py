"""Documentation with keyboard and mouse: help of a page, search, contents, copying."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.watch import Watched
from tests.browser.world import World


def test_help_search_contents_and_copying(visit: Callable[..., Watched], world: World) -> None:
    watched = visit("/incidents/")
    page = watched.page

    page.get_by_role("link", name="Documentation", exact=True).click()
    expect(page).to_have_url(re.compile(r"/docs/incidents#the-inbox$"))
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="Verdicts").click()
    expect(page).to_have_url(re.compile(r"/docs/incidents#verdicts$"))

    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search documentation")).to_be_focused()
    page.keyboard.type("compose backup")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/docs/search\?text=compose(\+|%20)backup$"))
    expect(page.locator(".docs-hits mark").first).to_have_text(re.compile("compose|backup", re.IGNORECASE))
    page.locator(".docs-hits a[href='/docs/operations#backup-of-the-containers']").click()
    expect(page.locator("#backup-of-the-containers")).to_be_in_viewport()

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".code-line", has_text="docker compose up --build --detach").first
    block.get_by_role("button").click()
    expect(block.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == block.locator("code").inner_text()
    page.locator("h2#settings").hover()
    page.get_by_role("link", name="Link to “Settings”").click()
    expect(page).to_have_url(re.compile(r"/docs/operations#settings$"))

    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_text("On this page", exact=True).locator("visible=true").click()
    page.locator(".narrow-contents").get_by_role("link", name="Metrics").click()
    expect(page.locator("h2#metrics")).to_be_in_viewport()
    assert watched.complaints == []
