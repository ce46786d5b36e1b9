"""Tables on a phone: three columns of each are whole without scrolling, or all where it has fewer."""

from collections.abc import Callable

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

# Of the longest row of each table: its label, and how many of its cells are shown, and within the box.
_MEASURE = """() => [...document.querySelectorAll("main .table-box")].filter((box) => box.offsetParent).map((box) => {
  const right = Math.min(innerWidth, box.getBoundingClientRect().right) + 1;
  const rows = [...box.querySelectorAll("tbody tr")].sort((a, b) => b.cells.length - a.cells.length);
  const cells = [...rows[0].cells].filter((cell) => cell.offsetParent && !cell.classList.contains("select"));
  const whole = cells.filter((cell) => cell.getBoundingClientRect().right <= right);
  return [box.getAttribute("aria-label"), cells.length, whole.length];
})"""


@pytest.mark.parametrize(
    "path",
    (
        *(
            "/",
            "/series/?view=table",
            "/runs/",
            "{run}",
            "/incidents/?tab=all",
            "{incident}",
            "/incidents/health/",
        ),
        *("/hosts/", "/hosts/db-09/", "/uploads/", "/requests/", "/maintenance/", "/studies/", "/audit/"),
        *("/corrections/", "/policies/"),
    ),
)
def test_three_columns_are_whole(path: str, world: World, visit: Callable[..., Watched]) -> None:
    page = visit(path.format_map(vars(world)), width=390).page
    page.evaluate("for (const fold of document.querySelectorAll('main details.fold')) fold.open = true")

    tables = page.evaluate(_MEASURE)

    assert [table for table in tables if table[2] < min(3, table[1])] == []
