"""Taking a run out of medians and back, with the keyboard."""

from collections.abc import Callable

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_editor_excludes_a_run_and_puts_it_back_by_keyboard(
    visit: Visit, world: World, theme: str, width: int
) -> None:
    watched = visit(world.failed_run, color_scheme=theme, width=width)
    page = watched.page
    page.locator("details.exclusion > summary").press("Enter")
    page.get_by_label("Reason").fill("a backup ran")
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    page.get_by_label("Reason").press("Enter")

    page.wait_for_selector(".banner:has-text('a backup ran')")
    assert "by ada on" in page.inner_text(".banner:has-text('Excluded')")
    assert (watched.barriers(), watched.overhang_px(), watched.violations()) == ([], 0, [])
    page.get_by_role("button", name="Include run").press("Enter")

    page.wait_for_selector(".banner:has-text('is included in medians again')")
    assert page.locator("#exclusion-reason").input_value() == "a backup ran"
