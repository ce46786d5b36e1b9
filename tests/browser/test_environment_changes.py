"""From an upgrade to the affected host: by the overview in two clicks, and from a tick of a history."""

from collections.abc import Callable
from typing import Any

from tests.browser.watch import Watched
from tests.browser.world import World

COMPARISON = "/compare/?a=kernel:5.15.0&b=kernel:6.1.0"


def test_host_that_is_slower_after_an_upgrade_is_two_clicks_from_the_overview(
    visit: Callable[..., Watched],
) -> None:
    watched = visit("/")

    watched.page.get_by_role("link", name="kernel 5.15.0 → 6.1.0").click()
    watched.page.wait_for_url(f"**{COMPARISON}")

    summary = watched.page.get_by_role("heading", name="Summary").locator("xpath=..")
    assert "on db-09" in summary.inner_text()
    assert "worse" in watched.page.locator("h1").inner_text()
    watched.wait_for_charts()
    assert watched.barriers() == []
    assert watched.complaints == []


def test_tick_of_a_history_leads_to_the_comparison_on_all_hosts(
    visit: Callable[..., Watched], world: World
) -> None:
    watched = visit(world.moved_series)
    watched.wait_for_charts()
    tick: Any = watched.page.locator(".change-tick").first

    tick.press("Enter")
    link = watched.page.locator(".chart-readout a").first

    assert link.inner_text() == "Before / after on all hosts (kernel)"
    assert link.evaluate("link => link === document.activeElement")
    link.press("Enter")
    watched.page.wait_for_url(f"**{COMPARISON}")
