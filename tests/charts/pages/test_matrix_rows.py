"""Rows of a matrix: text is escaped in every cell."""

from types import SimpleNamespace
from typing import Any

from django.template import Context, Template

from benchapp.framework.pages.series_marks import ShownMark
from tests.factories import NOON
from tests.pages import Page

HOSTILE = "<script src='\"&'>"


def make_shown(*, has_level: bool, url: str) -> dict[str, Any]:
    texts = ("title", "value", "line", "age", "where", "settings", "reason", "long_reason")
    return {
        "cell": SimpleNamespace(
            n=12 * has_level, is_stale=True, last_at=NOON, series_ids=(1, 2), badges=(HOSTILE,)
        ),
        "mark": ShownMark(HOSTILE, HOSTILE, "worse", HOSTILE) if has_level else None,
        "url": url,
        **dict.fromkeys(texts, HOSTILE),
    }


def render(*cells: dict[str, Any]) -> Page:
    tag = Template("{% load rows %}{% matrix_rows rows %}")
    return Page(SimpleNamespace(content=tag.render(Context({"rows": [(HOSTILE, cells)]})).encode()))


def test_text_of_each_cell_is_escaped() -> None:
    page = render(make_shown(has_level=True, url=HOSTILE))

    assert not page.has("script")
    # Row; place, value, age, badge, mark.
    assert page.words.count(HOSTILE) == 1 + 6
    assert page.links == [HOSTILE, HOSTILE]
    assert {named["points"] for _, named in page.tags if "points" in named} == {HOSTILE}
    assert "stale · n 12" in page.words
    assert "2 series" in page.words


def test_text_of_a_cell_without_a_level_is_escaped() -> None:
    page = render(make_shown(has_level=False, url=HOSTILE), make_shown(has_level=False, url=""))

    assert not page.has("script")
    # Row; place and reason of both.
    assert page.words.count(HOSTILE) == 1 + 4
    assert page.links == [HOSTILE]


def test_cell_without_links_has_a_mark_without_one() -> None:
    page = render(make_shown(has_level=True, url=""))

    assert not any("href" in named for _, named in page.tags)
    assert [tag for tag, named in page.tags if named.get("class") == "series-mark worse"] == ["span"]
