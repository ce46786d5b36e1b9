"""The pages of charts on paper: light, without controls, nothing cut off."""

import re
from collections.abc import Callable

import pytest

from tests.browser.test_without_script import PAGES, list_seen
from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]
# A4 without its margins of 12 mm, at 96 pixels an inch.
PAPER_WIDTH_PX = 703
CONTROLS = "button, input, select, textarea, nav, [role=slider], .chart-readout, a.button"
_FIND_WIDER = """(most) => [...document.querySelectorAll("main :is(table, figure, canvas, pre, p, li)")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > most + 1)
  .map((one) => `${one.tagName} ${one.className} ${one.getBoundingClientRect().right}`)"""
# Boxes of the page that lie over the one before.
_FIND_OVERLAPS = """() => [...document.querySelectorAll(".page, .section, .split, .chart")].flatMap((box) => {
  const parts = [...box.children].filter((one) => one.checkVisibility() && getComputedStyle(one).float === "none");
  return parts.slice(1)
    .filter((one, place) => one.getBoundingClientRect().top < parts[place].getBoundingClientRect().bottom - 1)
    .map((one) => `${one.tagName} ${one.className}`);
})"""
_COUNT_COLORS = """(wanted) => {
  const canvas = document.querySelector(".chart-box canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return wanted.map(([red, green, blue]) => {
    let count = 0;
    for (let place = 0; place < data.length; place += 4) {
      count += data[place] === red && data[place + 1] === green && data[place + 2] === blue && data[place + 3] === 255;
    }
    return count;
  });
}"""
LIGHT_INK, DARK_INK = [29, 32, 33], [230, 230, 227]


def print_page(visit: Visit, path: str) -> Watched:
    """Open a page in the dark theme, as wide as paper, as it goes to the printer."""
    watched = visit(path, width=PAPER_WIDTH_PX, color_scheme="dark")
    watched.wait_for_charts()
    watched.page.emulate_media(media="print", color_scheme="dark")
    return watched


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_page_is_whole_on_few_sheets_and_without_controls(path: str, visit: Visit, world: World) -> None:
    watched = print_page(visit, path.format_map(vars(world)))
    page = watched.page

    seen = list_seen(page, CONTROLS)

    # Heads of columns, what changed and the names of lines are buttons, and words of the picture.
    words = ('class="sort"', "change-tick", "line-name")
    assert [one for one in seen if not any(word in one for word in words)] == []
    assert page.evaluate(_FIND_WIDER, PAPER_WIDTH_PX) == []
    assert page.evaluate(_FIND_OVERLAPS) == []
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 32, 33)"

    document = page.pdf(format="A4")

    assert document.startswith(b"%PDF-")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 5
    assert watched.complaints == []


def test_drawing_is_drawn_anew_in_light_colors(visit: Visit, world: World) -> None:
    watched = visit("/scaling/?q=host:db-01", color_scheme="dark")
    watched.wait_for_charts()
    screen = watched.page.evaluate(_COUNT_COLORS, [LIGHT_INK, DARK_INK])

    watched.page.emulate_media(media="print", color_scheme="dark")
    # The style changes at once, the chart with the event of the media query, which comes with the next frame.
    watched.page.wait_for_function(f"(wanted) => ({_COUNT_COLORS})(wanted)[0] > 0", arg=[LIGHT_INK, DARK_INK])
    paper = watched.page.evaluate(_COUNT_COLORS, [LIGHT_INK, DARK_INK])

    assert screen[0] == 0
    assert screen[1] > 0
    assert paper[0] > 0
    assert paper[1] == 0
