"""Selecting rows of a list in a browser: by mouse, by keyboard, in ranges, and without scripts."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]


def test_two_runs_are_selected_by_keyboard_and_compared(visit: Visit) -> None:
    page = visit("/runs/?host=db-01").page
    compare = page.get_by_role("button", name="Compare", exact=True)
    boxes = page.locator("[name=selected]")
    newest, second = (boxes.nth(place).get_attribute("value") for place in (0, 1))

    expect(page.locator("[data-selection]")).to_be_hidden()
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
    assert f"run {newest} on db-01 vs. run {second} on db-01" in page.inner_text("h1").replace("\xa0", " ")


def test_shift_selects_a_range_and_too_many_are_named(visit: Visit) -> None:
    page = visit("/runs/?host=db-01").page
    boxes = page.locator("[name=selected]")

    boxes.nth(0).click()
    boxes.nth(13).click(modifiers=["Shift"])

    assert page.inner_text("[data-selected]").startswith("14 selected")
    assert page.inner_text("[data-reason]") == (
        "Select two runs to compare; 14 are selected. History shows at most 12 runs."
    )
    assert page.get_by_role("button", name="History", exact=True).is_disabled()
    page.get_by_role("button", name="Clear selection").click()
    expect(page.locator("[data-selection]")).to_be_hidden()


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


def test_two_series_of_the_grid_are_compared_at_390_px(visit: Visit) -> None:
    watched = visit("/series/?q=host:db-*&sort=name&group=none", width=390)
    page = watched.page
    cards = page.locator("li.series-card")

    # Two columns: as many series fit on the screen of a phone.
    assert len({round(card.bounding_box()["x"]) for card in cards.all()[:2]}) == 2
    assert watched.overhang_px() == 0
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Clear selection").click()
    for place in (1, 0):
        cards.nth(place).locator("input").focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare", exact=True).click()

    page.wait_for_url("**/compare/?a_series=*&b_series=*&metric=iops")
    assert "vs." in page.inner_text("h1")


def test_table_has_the_series_of_the_grid(visit: Visit) -> None:
    page = visit("/series/?sort=name").page

    def list_ids() -> list[str | None]:
        return [box.get_attribute("value") for box in page.locator("[name=selected]").all()]

    ids = list_ids()
    page.get_by_role("link", name="Table", exact=True).click()
    page.wait_for_url("**/series/?sort=name&view=table")
    assert list_ids() == ids
    page.get_by_role("link", name="Spread").click()
    page.wait_for_url("**/series/?view=table&sort=spread")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Spread")


def test_changes_of_an_incident_are_compared_before_and_after(visit: Visit, world: World) -> None:
    page = visit(world.incident).page

    page.locator("[name=selected]").first.check()
    page.locator("#selection").get_by_role("button", name="Compare", exact=True).click()

    page.wait_for_url("**/compare/?series=*&a_*")
    assert page.inner_text("h1").startswith("Since ")
