"""The comparison in a browser: ratios drawn, walked by keys, led to their line."""

from collections.abc import Callable

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched

PATTERNS = "/compare/?a=rw:randread+host:db-01&b=rw:randwrite+host:db-01"


def test_page_is_sound(visit: Callable[..., Watched]) -> None:
    check_everywhere(visit(PATTERNS))


def test_keys_walk_the_lines_and_enter_goes_to_the_table(visit: Callable[..., Watched]) -> None:
    watched = visit(PATTERNS)
    watched.wait_for_charts()
    page = watched.page

    page.focus(".chart-box")
    page.keyboard.press("Home")
    assert page.inner_text(".chart-readout").startswith("Line 1: ")
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "compare-line-1"


def test_page_without_a_choice_is_sound(visit: Callable[..., Watched]) -> None:
    watched = visit("/compare/")

    check_everywhere(watched)
    watched.page.get_by_role("link", name="Last 7 days").click()
    assert "vs." in watched.page.inner_text("h1")
