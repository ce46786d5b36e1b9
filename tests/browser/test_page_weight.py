"""What a page costs a browser with an empty cache, and where its chart begins on a phone."""

import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.watch import Watched
from tests.browser.world import World

MOST_REQUESTS = 12
MOST_KB = 150
MOST_KB_OF_RUNS = 60
CHART_PAGES = {
    "scaling": "/scaling/?q=host:db-*",
    "matrix": "/matrix/",
    "history": "/history/?q=host:db-09",
    "series": "{history}",
    "run with traces": "{traced_run}",
    "comparison": "/compare/?a=host:db-01&b=host:db-02",
}
_COUNT = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map((entry) => [entry.name, entry.transferSize])"""


@pytest.fixture
def cold(browser: Any, server: str, signed_in: Any) -> Iterator[Callable[..., list[tuple[str, int]]]]:
    """Open a page with an empty cache; return what was transferred: URLs and bytes, with headers."""
    contexts = []

    def open_page(path: str) -> list[tuple[str, int]]:
        contexts.append(browser.new_context(base_url=server, storage_state=signed_in))
        page = contexts[-1].new_page()
        page.goto(path, wait_until="networkidle")
        Watched(page).wait_for_charts()
        return [(url, size) for url, size in page.evaluate(_COUNT)]

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("path", CHART_PAGES.values(), ids=CHART_PAGES)
def test_chart_page_is_light(path: str, cold: Callable[..., list[tuple[str, int]]], world: World) -> None:
    transferred = cold(path.format_map(vars(world)))
    scripts = [url for url, _ in transferred if url.endswith(".js")]

    assert len(transferred) <= MOST_REQUESTS, transferred
    assert sum(size for _, size in transferred) <= MOST_KB * 1000, transferred
    assert len(scripts) <= 5
    assert all(size > 0 for _, size in transferred), "a cached file is not counted"


def test_runs_page_is_light(cold: Callable[..., list[tuple[str, int]]], world: World) -> None:
    transferred = cold("/runs/")

    assert sum(size for _, size in transferred) <= MOST_KB_OF_RUNS * 1000, transferred


def test_static_files_are_kept_by_browsers_for_ever(
    cold: Callable[..., list[tuple[str, int]]], server: str
) -> None:
    files = [url for url, _ in cold("/matrix/") if "/static/" in url]

    headers = [urllib.request.urlopen(url).headers for url in files]

    assert len(files) >= 5
    assert {answer["Cache-Control"] for answer in headers} == {"max-age=315360000, public, immutable"}


@pytest.mark.parametrize(("width", "limit"), [(390, 300), (1440, 250)])
@pytest.mark.parametrize("path", [CHART_PAGES[name] for name in ("scaling", "matrix", "history", "series")])
def test_chart_starts_at_the_top_of_the_page(
    path: str, width: int, limit: int, visit: Callable[..., Watched], world: World
) -> None:
    watched = visit(path.format_map(vars(world)), width=width)
    watched.wait_for_charts()

    top = watched.page.evaluate(
        "document.querySelector('.chart-box, .matrix').getBoundingClientRect().top + scrollY"
    )

    assert top <= limit


def test_fields_of_a_chart_are_shown_on_request(visit: Callable[..., Watched]) -> None:
    page = visit("/scaling/?q=host:db-*", width=390).page

    assert not page.get_by_label("X axis", exact=True).is_visible()
    page.locator(".scope > .change > summary").press("Enter")
    assert page.get_by_label("X axis", exact=True).is_visible()
    assert not page.get_by_label("Panels", exact=True).is_visible()
    page.get_by_text("More", exact=True).click()
    assert page.get_by_label("Panels", exact=True).is_visible()


def test_word_of_a_list_opens_its_field(visit: Callable[..., Watched]) -> None:
    page = visit("/series/", width=390).page

    page.locator("[data-field=series-sort]").click()

    assert page.evaluate("document.activeElement.id") == "series-sort"


@pytest.mark.parametrize("path", ["/scaling/?q=host:db-*", "/hosts/", "/history/?q=host:db-*"])
def test_name_of_a_row_stays_in_sight_on_a_phone(path: str, visit: Callable[..., Watched]) -> None:
    page = visit(path, width=390).page

    lefts = page.evaluate("""() => [...document.querySelectorAll("tbody th[scope=row]")].map((name) => {
      const box = name.closest(".table-box");
      box.scrollLeft = box.scrollWidth;
      return name.getBoundingClientRect().left - box.getBoundingClientRect().left;
    })""")

    assert lefts
    assert all(left >= 0 for left in lefts), lefts
