"""The search dialog: keys, pointer, focus, groups, recent pages, errors."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.watch import Watched

Visit = Callable[..., Watched]


def options_of(page: Any) -> Any:
    return page.locator(".palette [role=option]")


def test_keys_open_select_and_follow_a_result(visit: Visit) -> None:
    watched = visit("/runs/")
    page = watched.page
    search = page.get_by_role("combobox", name="Search")

    page.keyboard.press("/")
    expect(search).to_be_focused()
    # The pages, without an active one: Enter searches for what is typed.
    expect(options_of(page).first).to_be_visible()
    assert search.get_attribute("aria-activedescendant") is None
    page.keyboard.type("db-01")
    expect(page.locator(".palette-head").first).to_have_text("Hosts")
    assert search.get_attribute("aria-activedescendant") == "palette-option-0"
    page.keyboard.press("End")
    last = options_of(page).count() - 1
    assert search.get_attribute("aria-activedescendant") == f"palette-option-{last}"
    page.keyboard.press("ArrowDown")
    assert options_of(page).first.get_attribute("aria-selected") == "true"
    assert watched.barriers() == []
    page.keyboard.press("Escape")
    expect(page.locator(".palette")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(search).to_be_focused()
    page.keyboard.press("Home")
    with page.context.expect_page() as opened:
        page.keyboard.press("Control+Enter")
    opened.value.close()
    page.keyboard.press("Enter")
    page.wait_for_url("**/hosts/db-01/")
    assert watched.complaints == []


def test_pointer_opens_a_filter_and_focus_returns(visit: Visit) -> None:
    watched = visit("/hosts/", width=390, color_scheme="dark")
    page = watched.page
    button = page.get_by_role("button", name="Search")

    button.click()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    button.click()
    page.get_by_role("combobox", name="Search").fill("random read at least 1 volume")
    expect(page.locator(".palette-head").first).to_have_text("Filter: Pattern randread; Volumes ≥ 1")
    assert watched.barriers(of_looks=True) == []
    assert watched.overhang_px() == 0
    options_of(page).first.click()
    page.wait_for_url("**/series/?q=pattern%3Arandread+volume_count%3A%3E%3D1")
    # The page before is offered again.
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".palette-head").first).to_have_text("Recent pages")
    assert "Hosts" in options_of(page).first.inner_text()


def test_misspelled_text_and_a_lost_connection_are_reported(visit: Visit) -> None:
    page = visit("/studies/").page
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("radnom read")
    expect(page.locator(".palette-head").first).to_have_text("Did you mean")
    expect(options_of(page).first).to_contain_text("random read")

    page.context.set_offline(True)
    page.get_by_role("combobox", name="Search").fill("db")

    expect(page.locator(".palette-status")).to_contain_text("The server cannot be reached")
    page.context.set_offline(False)


def test_search_page_works_without_script(visit: Visit) -> None:
    page = visit("/hosts/", java_script_enabled=False).page

    page.get_by_role("searchbox", name="Search").fill("db-01")
    page.keyboard.press("Enter")

    page.wait_for_url("**/search/?text=db-01")
    assert page.get_by_role("heading", name="Hosts").is_visible()
    assert page.locator("main a[href='/hosts/db-01/']").is_visible()
