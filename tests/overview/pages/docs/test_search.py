"""Search of the documentation."""

import pytest
from django.utils.safestring import mark_safe

from benchapp.overview.pages.docs.pages import API_REFERENCE_PATH, make_page
from benchapp.overview.pages.docs.views import HITS_MAXIMUM, list_pages, search_pages

PAGES = [
    make_page(
        "/docs/a",
        "Filters",
        mark_safe(
            "<p>Select series.</p><h2 id='n'>Negation</h2><p>A minus before volume_count excludes.</p>"
        ),
    ),
    make_page(
        "/docs/b",
        "Runs",
        mark_safe(f"<h2 id='f'>Filter of runs</h2><p>{'word ' * 60}volume types {'tail ' * 60}</p>"),
    ),
]


def list_urls(query: str) -> list[str]:
    return [hit["url"] for hit in search_pages(query, PAGES)["hits"]]


def test_section_has_all_words_at_their_beginning_in_any_case() -> None:
    assert list_urls("VOLUME") == ["/docs/a#n", "/docs/b#f"]
    assert list_urls("volume minus") == ["/docs/a#n"]
    assert list_urls("count") == ["/docs/a#n"]
    assert list_urls("olume") == []


def test_title_of_a_section_counts_more_than_that_of_the_page_and_the_text() -> None:
    assert list_urls("filter") == ["/docs/a", "/docs/b#f"]
    assert list_urls("runs")[0] == "/docs/b"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("rename a host", "/docs/hosts#names-rename-merge-split"),
        ("compare hosts", "/docs/comparing"),
        ("token", "/docs/api#tokens"),
        ("host names", "/docs/hosts#names-rename-merge-split"),
        ("error codes", "/docs/errors"),
        ("tokens", "/docs/api#tokens"),
    ],
)
def test_documents_come_before_the_reference_and_titles_before_texts(query: str, first: str) -> None:
    hits = search_pages(query, list_pages())["hits"]

    assert hits[0]["url"].startswith(first)
    assert [hit["url"] for hit in hits if hit["url"].partition("#")[0] == API_REFERENCE_PATH] == []


def test_word_is_found_with_other_endings() -> None:
    assert list_urls("excluding") == list_urls("excludes") == list_urls("exclude") == ["/docs/a#n"]


def test_title_of_the_page_completes_words_of_a_section() -> None:
    assert list_urls("filters minus") == ["/docs/a#n"]


def test_excerpt_is_around_the_word_and_marks_it() -> None:
    (hit,) = search_pages("types", PAGES)["hits"]
    text = "".join(part["text"] for part in hit["excerpt"])

    assert [part["text"] for part in hit["excerpt"] if part["is_match"]] == ["types"]
    assert text.startswith("… ")
    assert text.endswith(" …")
    assert len(text) < 240


def test_characters_of_patterns_are_words() -> None:
    assert list_urls("(") == []
    assert list_urls(".*") == []


def test_small_words_are_not_searched_for() -> None:
    assert search_pages("  ", PAGES)["count"] == 0
    assert list_urls("how do I select the series") == ["/docs/a"]
    assert list_urls("the") == []


def test_count_is_of_all_hits_also_beyond_the_limit() -> None:
    html = "".join(f"<h2 id='s{n}'>Part {n}</h2>" for n in range(HITS_MAXIMUM + 5))

    found = search_pages("part", [make_page("/docs/c", "Long", mark_safe(html))])

    assert (len(found["hits"]), found["count"]) == (HITS_MAXIMUM, HITS_MAXIMUM + 5)
