"""Incidents by keyboard and without script; changes marked on histories."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.test_every_page import check_everywhere
from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]
PAGES = [
    "/incidents/",
    "/incidents/?tab=all",
    "/incidents/?tab=resolved",
    "/incidents/health/?status=steady",
    "{incident}",
    "{incident}baseline/",
    "{moved_series}",
]


@pytest.mark.parametrize("path", PAGES)
def test_page_is_sound(path: str, visit: Visit, world: World) -> None:
    check_everywhere(visit(path.format_map(vars(world))))


def focused(watched: Watched) -> str:
    return str(watched.page.evaluate("document.activeElement.closest('tr')?.innerText ?? ''"))


def test_j_and_k_move_between_rows_and_o_opens_an_incident(visit: Visit, world: World) -> None:
    watched = visit("/incidents/?q=host:db-09")
    page = watched.page

    page.keyboard.press("j")
    assert "db-09" in focused(watched)
    page.keyboard.press("k")
    page.keyboard.press("o")

    page.wait_for_url(f"**{world.incident}")
    expect(page.locator("h1")).to_contain_text("4k random read IOPS of db-09 down 15 %")


def test_incident_is_triaged_and_undone_by_keys_alone(visit: Visit, world: World) -> None:
    watched = visit("/incidents/?q=host:db-09")
    page = watched.page
    state = page.locator("tbody .state").first

    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(state).to_have_text("acknowledged")
    assert "#at-incident-" in page.url
    expect(page.locator("tbody [data-open]")).to_be_focused()
    page.keyboard.press("e")
    expect(page.locator("details.verdicts button").first).to_be_focused()
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    page.keyboard.press("2")
    expect(page.get_by_text("is resolved.")).to_be_visible()
    expect(page.locator("tbody .state")).to_have_count(0)
    for _ in range(2):
        page.keyboard.press("u")
        expect(page.get_by_text("is restored.")).to_be_visible()
        page.wait_for_load_state()

    expect(state).to_have_text("new")
    assert (watched.complaints, watched.violations()) == ([], [])


def test_snoozed_one_leaves_the_inbox_until_it_is_undone(visit: Visit, world: World) -> None:
    page = visit("/incidents/?q=host:db-09").page

    page.keyboard.press("j")
    page.keyboard.press("n")
    expect(page.get_by_role("link", name="Snoozed 1")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(0)
    page.keyboard.press("u")

    expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize(("path", "theme"), [("/incidents/", "light"), ("{incident}", "dark")])
def test_question_mark_shows_the_shortcuts(path: str, theme: str, visit: Visit, world: World) -> None:
    watched = visit(path.format_map(vars(world)), color_scheme=theme, width=390)
    page = watched.page

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()


def test_shortcuts_are_off_while_typing(visit: Visit, world: World) -> None:
    page = visit(world.incident).page

    page.get_by_label("Comment").fill("")
    page.get_by_label("Comment").press_sequentially("an ?")

    assert page.get_by_label("Comment").input_value() == "an ?"
    expect(page.locator("h1 ~ .status-line .state").first).to_have_text("new")


def test_selected_incidents_are_triaged_and_undone_by_keys_alone(visit: Visit, world: World) -> None:
    watched = visit("/incidents/", width=390)
    page = watched.page
    states = page.locator("tbody .state:first-child")
    bar = page.get_by_role("form", name="Selected incidents")
    before = states.all_inner_texts()
    expect(bar).to_be_hidden()

    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(bar.locator("output")).to_have_text("2 selected")
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    page.keyboard.press("e")
    expect(bar.get_by_label("Verdict")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 incidents: resolved.")).to_be_visible()
    expect(states).to_have_count(len(before) - 2)
    page.keyboard.press("u")

    expect(page.get_by_text("2 incidents: restored.")).to_be_visible()
    assert states.all_inner_texts() == before
    assert (watched.complaints, watched.violations()) == ([], [])


def test_all_incidents_of_the_page_are_selected_and_cleared(visit: Visit, world: World) -> None:
    page = visit("/incidents/").page
    boxes = page.locator("tbody input[name=incident]")
    count = boxes.count()

    page.get_by_label("Select all incidents on this page").press("Space")
    expect(page.locator("[data-selected]")).to_have_text(f"{count} selected")
    page.keyboard.press("Escape")
    expect(page.locator("#bulk")).to_be_hidden()
    boxes.first.click()
    boxes.last.click(modifiers=["Shift"])

    expect(page.locator("[data-selected]")).to_have_text(f"{count} selected")


def test_everything_works_without_script(visit: Visit, world: World) -> None:
    page = visit("/incidents/?q=host:db-09", java_script_enabled=False).page

    page.locator("tbody").get_by_role("button", name="Acknowledge").click()
    assert page.locator("tbody .state").first.inner_text() == "acknowledged"
    page.get_by_role("button", name="Undo").click()
    assert page.locator("tbody .state").first.inner_text() == "new"
    page.locator("tbody [name=incident]").check()
    page.get_by_role("form", name="Selected incidents").get_by_role("button", name="Acknowledge").click()
    assert page.locator("tbody .state").first.inner_text() == "acknowledged"
    page.get_by_role("button", name="Undo").click()

    assert page.locator("tbody .state").first.inner_text() == "new"


def test_arrow_keys_move_in_the_affected_matrix_and_enter_opens_a_series(visit: Visit, world: World) -> None:
    watched = visit(world.incident)
    page = watched.page
    cells = page.locator(".affected [data-cell]")
    expect(cells).to_have_count(3)
    expect(page.get_by_role("heading", name="3 of 3 series changed in IOPS")).to_be_visible()

    cells.first.focus()
    page.keyboard.press("ArrowDown")
    assert str(page.evaluate("document.activeElement.innerText")).startswith("QD 8:")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url("**/series/*/?metric=iops*")

    assert watched.complaints == []


def test_affected_series_are_sorted_by_a_click_on_a_header(visit: Visit, world: World) -> None:
    watched = visit(world.incident, width=800)
    page = watched.page
    first = page.locator(".level-changes tbody tr").first
    head = page.locator(".level-changes th", has_text="Before")

    page.get_by_role("link", name="Before").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(first).to_contain_text("QD 32")
    page.get_by_role("link", name="Before").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(first).to_contain_text("QD 1 ")

    assert (watched.barriers(), watched.overhang_px(), watched.complaints) == ([], 0, [])


def test_new_baseline_is_previewed_accepted_and_undone_by_keyboard(visit: Visit, world: World) -> None:
    watched = visit(world.incident)
    page = watched.page

    page.get_by_role("link", name="Accept as new baseline").press("Enter")
    page.wait_for_url("**/baseline/")
    expect(page.get_by_text("3 levels of 3 series become baselines")).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("▼ −15 %")
    page.get_by_role("checkbox").first.press("Space")
    page.get_by_role("button", name="Preview selection").press("Enter")
    expect(page.get_by_text("2 levels of 2 series become baselines")).to_be_visible()
    expect(page.get_by_role("checkbox").first).not_to_be_checked()
    assert (watched.barriers(), watched.overhang_px()) == ([], 0)
    page.get_by_label("Reason").fill("smaller volumes")
    page.get_by_label("Reason").press("Enter")

    page.wait_for_url(f"**{world.incident}")
    expect(page.locator(".status-line .state").first).to_have_text("resolved: expected")
    expect(page.locator(".timeline")).to_contain_text("2 levels of 2 series: smaller volumes")
    page.keyboard.press("u")
    expect(page.locator(".status-line .state").first).to_have_text("new")
    assert (watched.complaints, watched.violations()) == ([], [])


def test_history_readout_names_the_change(visit: Visit, world: World) -> None:
    watched = visit(world.moved_series)
    page = watched.page
    page.wait_for_selector("[data-history][data-ready]")

    page.focus(".chart-box.main")
    page.keyboard.press("End")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")

    readout = page.inner_text(".chart-readout >> nth=0")
    assert re.search(r"▼ regression −15 % \(−17 to −13 %\), confirmed: start of a new level", readout)
