"""Selecting rows of a list in a browser: by mouse, by keyboard, in ranges, and without scripts."""

from collections.abc import Callable

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched

Visit = Callable[..., Watched]


def test_two_runs_are_selected_by_keyboard_and_compared(visit: Visit) -> None:
    page = visit("/runs/?host=db-01").page
    compare = page.get_by_role("button", name="Compare", exact=True)
    boxes = page.locator("[name=selected]")
    newest, second = (boxes.nth(place).get_attribute("value") for place in (0, 1))

    assert compare.is_disabled()
    assert page.inner_text("[data-reason]") == "Compare takes two runs."
    boxes.nth(1).focus()
    page.keyboard.press("Space")
    assert page.inner_text("[data-selected]") == f"1 selected; baseline: run {second} on db-01"
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    assert page.inner_text("[data-selected]") == f"2 selected; baseline: run {second} on db-01"
    compare.focus()
    page.keyboard.press("Enter")

    # The first one selected is the baseline, not the first one of the list.
    page.wait_for_url(f"**/compare/?a_run={second}&b_run={newest}")
    assert f"run {newest} on db-01 vs. run {second} on db-01" in page.inner_text("h1")


def test_shift_selects_a_range_and_too_many_are_named(visit: Visit) -> None:
    page = visit("/runs/?host=db-01").page
    boxes = page.locator("[name=selected]")

    boxes.nth(0).click()
    boxes.nth(13).click(modifiers=["Shift"])

    assert page.inner_text("[data-selected]").startswith("14 selected")
    assert page.inner_text("[data-reason]") == (
        "Compare takes two runs; 14 are selected. History shows at most 12 runs."
    )
    assert page.get_by_role("button", name="History", exact=True).is_disabled()
    page.get_by_role("button", name="Clear selection").click()
    assert page.inner_text("[data-selected]") == "0 selected"


def test_all_rows_of_the_page_are_selected_at_once(visit: Visit) -> None:
    page = visit("/runs/?host=db-01").page
    every = page.get_by_label("Select all runs on this page")

    every.click()
    count = page.locator("[name=selected]:checked").count()

    assert count == page.locator("[name=selected]").count() > 2
    page.locator("[name=selected]").first.click()
    assert every.evaluate("box => box.indeterminate")


def test_page_with_a_selection_is_sound(visit: Visit) -> None:
    watched = visit("/runs/")
    watched.page.locator("[name=selected]").first.click()

    check_everywhere(watched)


def test_selection_works_without_scripts(visit: Visit) -> None:
    page = visit("/runs/?host=db-01", java_script_enabled=False).page
    boxes = page.locator("[name=selected]")

    boxes.nth(0).check()
    page.get_by_role("button", name="History", exact=True).click()

    page.wait_for_url("**/history/?series=*")
