"""The list of series: text is escaped in every card and row."""

from types import SimpleNamespace

import pytest
from django.template import Context, Template

from benchapp.framework.pages.series_marks import ShownMark
from benchapp.series.pages.series_list import ShownPart
from tests.factories import NOON
from tests.pages import Page

HOSTILE = "<script src='\"&'>"


def make_shown(*, has_level: bool = True, is_pool: bool = False) -> SimpleNamespace:
    row = SimpleNamespace(
        id=7,
        scope_name=HOSTILE,
        is_pool=is_pool,
        title=HOSTILE,
        workload_title=HOSTILE,
        target_title=HOSTILE,
        measurement_count=1200,
        last_at=NOON,
        badges=(HOSTILE,),
    )
    texts = dict.fromkeys(("level", "spread", "spread_title", "previous"), HOSTILE if has_level else "")
    return SimpleNamespace(
        row=row,
        name=HOSTILE,
        level_raw=1.5 if has_level else None,
        age=HOSTILE,
        url=HOSTILE,
        kind="worse",
        mark=ShownMark(HOSTILE, HOSTILE, "worse", HOSTILE) if has_level else None,
        chart=dict.fromkeys(("box", "line", "earlier", "current"), HOSTILE) if has_level else None,
        times=HOSTILE,
        is_failed=not has_level,
        **texts,
    )


def render(tag: str, *series: SimpleNamespace, label: str = HOSTILE) -> Page:
    template = Template(f"{{% load rows %}}{{% {tag} part %}}")
    part = ShownPart(label, "", series)
    return Page(SimpleNamespace(content=template.render(Context({"part": part})).encode()))


def test_text_of_a_card_is_escaped() -> None:
    page = render("series_cards", make_shown())

    assert not page.has("script")
    # Name, level, mark, spread, age.
    assert page.words.count(HOSTILE) == 5
    assert page.links == [HOSTILE, HOSTILE]
    titles = [named["title"] for _, named in page.tags if "title" in named]
    assert titles == [f"{HOSTILE} · {HOSTILE}", HOSTILE, HOSTILE, HOSTILE]
    assert [named["d"] for _, named in page.tags if "d" in named] == [HOSTILE] * 3
    assert [named["aria-label"] for tag, named in page.tags if tag == "input"] == [
        f"Select {HOSTILE}, {HOSTILE}"
    ]


@pytest.mark.parametrize("is_pool", [True, False])
def test_text_of_a_row_is_escaped(is_pool: bool) -> None:
    page = render("series_rows", make_shown(is_pool=is_pool))

    assert not page.has("script")
    # Host or pool, workload, layout, level, mark, spread, badge.
    assert page.words.count(HOSTILE) == 7
    assert (f"pool {HOSTILE}" in page.words) == is_pool
    assert f"1.5, {HOSTILE}" in [named.get("title") for _, named in page.tags]
    assert "1\u202f200" in page.words


@pytest.mark.parametrize("tag", ["series_cards", "series_rows"])
def test_series_without_values_says_so(tag: str) -> None:
    page = render(tag, make_shown(has_level=False), label="")

    assert "no values" in page.words
    assert "failed" in page.words
    assert not page.has("path")
    assert [named["aria-label"] for name, named in page.tags if name == "input"] == [f"Select {HOSTILE}"]
