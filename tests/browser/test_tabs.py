"""Tabs that are used again: empty, and only if nothing but the page in them was changed."""

from typing import Any

import pytest

from tests.browser.tabs import Tabs
from tests.browser.watch import Watched, watch


def open_tab(tabs: Tabs, path: str = "/sign-in/") -> Watched:
    watched = watch(tabs.open([], width=1440, color_scheme="light"))
    watched.page.goto(path)
    return watched


def test_tab_is_used_again_without_what_the_page_before_has_kept(tabs: Tabs) -> None:
    first = open_tab(tabs)
    first.page.evaluate(
        "localStorage.setItem('a', '1'); sessionStorage.setItem('a', '1'); console.error('an error');"
    )
    first.page.emulate_media(media="print")
    tabs.close()

    again = open_tab(tabs)

    assert again.page is first.page
    assert again.complaints == []
    assert again.page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert again.page.evaluate("matchMedia('print').matches") is False
    tabs.close()


def test_second_tab_of_a_test_is_another_one(tabs: Tabs) -> None:
    first, second = open_tab(tabs), open_tab(tabs)
    tabs.close()

    assert first.page is not second.page
    assert [each.page.is_closed() for each in (first, second)] == [False, True]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("route", ("**/nowhere", lambda route: route.abort())),
        ("add_init_script", ("window.changed = true",)),
        ("on", ("dialog", lambda dialog: dialog.accept())),
    ],
)
def test_tab_that_was_changed_is_closed(tabs: Tabs, method: str, arguments: tuple[Any, ...]) -> None:
    watched = open_tab(tabs)

    getattr(watched.page, method)(*arguments)
    tabs.close()

    assert watched.page.is_closed()
