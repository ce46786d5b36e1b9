"""The matrix under the keys of a reader."""

import csv
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_cell_of_several_series_opens_their_histories_side_by_side(visit: Visit) -> None:
    page = visit("/matrix/?q=host:db-01+pattern:rand*&x=host&rows=volume_count&facet=none").page
    cell = page.locator("a[data-cell]", has_text="2 series").first

    cell.focus()
    page.keyboard.press("Enter")

    page.wait_for_url("**/history/?series=*,*&metric=iops")
    assert "2 series" in page.inner_text(".page-head").replace("\xa0", " ")


_READ_PIXELS = """async (base64) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${base64}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const paper = [...data.slice(0, 3)];
  let inked = 0;
  for (let place = 0; place < data.length; place += 4) {
    inked += Math.abs(data[place] - paper[0]) > 60;
  }
  return { width: canvas.width, height: canvas.height, paper, inked };
}"""


@pytest.mark.parametrize(("scheme", "paper"), [("light", [252, 252, 251]), ("dark", [21, 24, 27])])
def test_matrix_is_saved_as_a_picture_in_the_theme_of_the_page(
    scheme: str, paper: list[int], visit: Visit, tmp_path: Path
) -> None:
    watched = visit(PATH, color_scheme=scheme)
    page = watched.page

    page.click("summary:text-is('Share')")
    with page.expect_download() as download:
        page.click("[data-image]")
    download.value.save_as(tmp_path / "matrix.png")

    picture = page.evaluate(_READ_PIXELS, b64encode((tmp_path / "matrix.png").read_bytes()).decode())
    assert download.value.suggested_filename == "matrix-iops-over-host.png"
    assert picture["paper"] == paper
    # At two pixels for one.
    assert picture["width"] == 2 * 1200
    assert picture["inked"] > 5_000
    assert (watched.complaints, watched.violations()) == ([], [])


def test_matrix_has_its_caption_and_the_same_numbers_as_csv(visit: Visit) -> None:
    page = visit(PATH).page

    page.click("summary:text-is('Share')")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()

    assert "is better" in page.inner_text("figcaption")
    header = next(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert header[:4] == ["pattern", "host", "state", "series"]
