"""The matrix under the keys of a reader."""

from collections.abc import Callable
from typing import Any

from tests.browser.watch import Watched

Visit = Callable[..., Watched]
# Two rows (random read, random write) over hosts.
PATH = "/matrix/?x=host&rows=pattern&facet=none&q=host:db-01,db-02 pattern:rand*"


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent").split(":")[0])


def test_keys_move_between_the_cells(visit: Visit) -> None:
    watched = visit(PATH)
    page = watched.page
    page.locator("[data-matrix] [data-cell]").first.focus()
    places = [focused(page)]

    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Home", "End", "Control+Home"):
        page.keyboard.press(key)
        places.append(focused(page))

    first, right, down, down_left = places[0], places[1], places[3], places[4]
    assert places == [first, right, right, down, down_left, down, first]
    assert len({first, right, down, down_left}) == 4
    assert watched.complaints == []


def test_one_cell_is_in_the_order_of_tab(visit: Visit) -> None:
    page = visit(PATH).page

    page.keyboard.press("f")
    assert page.locator("[data-matrix] [data-cell][tabindex='0']").count() == 1
    page.locator("[data-matrix] [data-cell]").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("[data-matrix] [data-cell][tabindex='0']").count() == 1


def test_enter_opens_the_history_of_a_cell(visit: Visit) -> None:
    page = visit("/matrix/?q=host:db-01").page

    page.locator("[data-matrix] a[data-cell]").first.focus()
    page.keyboard.press("Enter")

    page.wait_for_url("**/series/*/?metric=iops")


def test_matrix_scrolls_in_its_own_box_with_its_rows_in_sight(visit: Visit) -> None:
    watched = visit(PATH, width=390)
    page = watched.page
    box, head = page.locator(".matrix-box").first, page.locator(".matrix tbody th").first

    box.evaluate("box => { box.scrollLeft = 400; }")

    assert watched.overhang_px() == 0
    assert abs(head.bounding_box()["x"] - box.bounding_box()["x"]) <= 1
