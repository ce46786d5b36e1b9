"""The time range: the same control on every page, by keyboard, and after Back."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


@pytest.mark.parametrize("path", ["/runs/?from=-7d", "history", "/compare/?a_from=-7d&b=host:db-09"])
def test_range_is_chosen_typed_and_restored_after_back(visit: Visit, world: World, path: str) -> None:
    watched = visit(f"{world.history}?from=-7d" if path == "history" else path)
    page = watched.page
    control = page.get_by_role("group", name="time range").first
    start = control.locator("input").first
    assert control.get_by_role("link", name="7 days").get_attribute("aria-current") == "true"

    # Entered, but not submitted.
    start.fill("-3d")
    control.get_by_role("link", name="90 days").click()
    page.wait_for_url("**from=-90d*")
    assert start.input_value() == "-90d"
    page.go_back()
    page.wait_for_url("**from=-7d*")
    assert start.input_value() == "-7d"

    start.fill("-30d")
    start.press("Enter")
    page.wait_for_url("**from=-30d*")
    assert control.get_by_role("link", name="30 days").get_attribute("aria-current") == "true"
    assert "zone=" not in urlsplit(page.url).query
    assert "to=" not in urlsplit(page.url).query
    assert watched.complaints == []
