"""Preferences of an account: every time of a page is in one zone, also that of the browser."""

import re
from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]
SHOWN = re.compile(r"\d+ \w+ \d{4} \d\d:\d\d (UTC\S*)")


def save(page: Page, *, zone: str, units: str) -> None:
    page.goto("/account/")
    page.get_by_label("Time zone").select_option(zone)
    page.get_by_label("Units of throughput").select_option(units)
    page.get_by_role("button", name="Save preferences").click()
    page.wait_for_selector("text=Preferences saved.")


def test_charts_tables_and_sentences_are_in_the_zone_and_units_of_the_account(
    visit: Visit, world: World
) -> None:
    watched = visit("/account/", timezone_id="Asia/Kolkata")
    page = watched.page
    try:
        save(page, zone="browser", units="binary")

        assert page.evaluate("document.documentElement.dataset.timeZone").startswith("Asia/")

        page.goto(f"{world.history}?metric=bandwidth_bytes_per_s")
        watched.wait_for_charts()
        page.locator(".chart-box.main").focus()
        readout = page.inner_text(".chart-readout")
        assert SHOWN.findall(readout) == ["UTC+5:30"]
        assert "iB/s" in readout
        assert set(SHOWN.findall(page.inner_text("main"))) == {"UTC+5:30"}
        assert re.search(r"Started \(Asia/\w+\)", page.inner_text("main"), re.IGNORECASE)
        assert page.locator("[data-zone-choice] option").first.inner_text().startswith("Asia/")
        assert not re.search(r"\d [kMG]B/s", page.inner_text("main"))
    finally:
        save(page, zone="", units="si")
    assert watched.complaints == []
