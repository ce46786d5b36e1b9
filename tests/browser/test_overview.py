"""The overview in Chromium: cells of hosts by keyboard."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.watch import Watched


def test_arrows_move_between_hosts_and_enter_opens_one(visit: Callable[..., Watched]) -> None:
    watched = visit("/")
    page = watched.page
    strip = page.locator("[data-host-strip]")
    readout = page.locator("[data-strip-readout]")
    assert strip.locator("a[tabindex='0']").count() == 1

    strip.locator("a").first.focus()
    page.keyboard.press("End")
    expect(readout).to_contain_text("db-09: ▼ IOPS −15.0 % since")
    page.keyboard.press("ArrowLeft")
    expect(readout).to_contain_text("db-03: last run")
    page.keyboard.press("Enter")

    page.wait_for_url(lambda url: url.endswith("/hosts/db-03/"))
    assert watched.complaints == []
