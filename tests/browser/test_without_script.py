"""The pages of charts where scripts do not run: the numbers are there, and nothing is offered that does nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

Visit = Callable[..., Watched]
PAGES = {
    "chart of the overview": "/overview/charts/regressions/",
    "scaling": "/scaling/?q=host:db-01",
    "matrix": "/matrix/?q=host:db-01",
    "history": "{history}",
    "histories": "/history/?q=host:db-01",
    "run": "{run}",
    "comparison": "/compare/?q=host:db-01&a=rw:randread&b=rw:randwrite",
    "study": "{study}",
}
CAPTIONED = ("history", "scaling", "run")
# What does nothing without a script: buttons that send no form, what drags, draws or changes a drawing, hints at keys.
DEAD = "button:not([type=submit]), [role=slider], [role=application], [data-drawing], canvas, main :disabled, kbd"


def list_seen(page: Any, selector: str) -> list[str]:
    """Return the beginning of what is visible of some elements."""
    found = [one for one in page.locator(selector).all() if one.is_visible()]
    return [one.evaluate("one => one.outerHTML.slice(0, 120)") for one in found]


@pytest.mark.parametrize("name", PAGES)
def test_page_offers_nothing_dead_and_has_its_numbers_and_links_to_them(
    name: str, visit: Visit, world: World
) -> None:
    page = visit(PAGES[name].format_map(vars(world)), java_script_enabled=False).page

    for menu in page.locator("main details.menu > summary").all():
        menu.click()
    assert list_seen(page, DEAD) == []
    assert page.locator("main td:visible").count() >= 2
    assert page.locator("main h1:visible").count() == 1
    links = [
        link.get_attribute("href") for link in page.get_by_role("link", name="CSV").all() if link.is_visible()
    ]
    assert links
    for link in links:
        answer = page.request.get(link)
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, "text/csv")
    if name in CAPTIONED:
        check_caption(page)


def check_caption(page: Any) -> None:
    """Fail where the caption does not say in words what is not drawn."""
    assert page.locator("figcaption").first.is_visible()
    words = page.locator("noscript p").first
    assert words.is_visible()
    assert words.inner_text().startswith("The chart needs JavaScript. The table")
