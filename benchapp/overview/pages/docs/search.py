"""Search of the documentation: sections that have all words, best first."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.overview.pages.docs.pages import DocumentationPage, PageSection

WORDS_MAXIMUM: Final = 10
HITS_MAXIMUM: Final = 50
# Of one word: in the title of the section, in that of its page, in the text. A title says what a section is about.
_IN_SECTION: Final = 8
_IN_PAGE: Final = 4
_IN_TEXT: Final = 1
_WHOLE_WORD: Final = 2
# Characters of an excerpt before the first word found, and in all.
_BEFORE: Final = 60
_EXCERPT: Final = 220


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of an excerpt. is_match: one of the words."""

    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class DocumentationHit:
    """A section that has all words. section: "" for the text before the first heading of the page."""

    url: str
    page: str
    section: tuple[Fragment, ...]
    excerpt: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class DocumentationHits:
    """The best hits, at most HITS_MAXIMUM. count: of all sections that have all words."""

    hits: tuple[DocumentationHit, ...]
    count: int


class TooManyWords(ValueError):
    """The query has more than WORDS_MAXIMUM words."""


def search_pages(query: str, pages: Sequence[DocumentationPage]) -> DocumentationHits:
    """Return the sections that have all words of a query, each at the beginning of a word, in any case.

    Sections whose title has the words come first, then those of pages whose title has them; equal ones in the order of
    the pages. Raises TooManyWords.
    """
    words = list(dict.fromkeys(query.lower().split()))
    if len(words) > WORDS_MAXIMUM:
        raise TooManyWords(f"The search takes at most {WORDS_MAXIMUM} words; this query has {len(words)}.")
    if not words:
        return DocumentationHits((), 0)
    patterns = [re.compile(rf"(?<![a-z0-9]){re.escape(word)}", re.IGNORECASE) for word in words]
    found = [
        (score, page, section)
        for page in pages
        for section in page.sections
        if (score := _score(page, section, patterns))
    ]
    found.sort(key=lambda hit: -hit[0])
    any_word = re.compile("|".join(pattern.pattern for pattern in patterns), re.IGNORECASE)
    return DocumentationHits(
        tuple(_make_hit(page, section, any_word) for _, page, section in found[:HITS_MAXIMUM]), len(found)
    )


def _score(page: DocumentationPage, section: PageSection, patterns: Sequence[re.Pattern[str]]) -> int:
    """Return 0 unless each word is in the title of the page or in the section, and one of them in the section."""
    total, is_inside = 0, False
    for pattern in patterns:
        in_title = _score_text(pattern, section.title) * _IN_SECTION if section.level > 1 else 0
        in_section = in_title or _score_text(pattern, section.text) * _IN_TEXT
        in_page = _score_text(pattern, page.title) * _IN_PAGE
        if not in_section and not in_page:
            return 0
        is_inside = is_inside or bool(in_section)
        total += max(in_section, in_page)
    # The first section of a page stands for the page.
    return total if is_inside or section.level == 1 else 0


def _score_text(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    if found is None:
        return 0
    return _WHOLE_WORD if not text[found.end() : found.end() + 1].isalnum() else 1


def _make_hit(page: DocumentationPage, section: PageSection, words: re.Pattern[str]) -> DocumentationHit:
    url = f"{page.url}#{section.anchor}" if section.anchor else page.url
    title = split_matches(section.title, words) if section.level > 1 else ()
    return DocumentationHit(url, page.title, title, split_matches(cut_excerpt(section.text, words), words))


def cut_excerpt(text: str, words: re.Pattern[str]) -> str:
    """Return the part of a text around its first match, at word boundaries, with … where it was cut."""
    found = words.search(text)
    start = max(0, found.start() - _BEFORE) if found else 0
    if start:
        start = text.find(" ", start) + 1
    end = len(text) if len(text) - start <= _EXCERPT else text.rfind(" ", start, start + _EXCERPT)
    end = end if end > start else start + _EXCERPT
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")


def split_matches(text: str, words: re.Pattern[str]) -> tuple[Fragment, ...]:
    """Return a text in fragments, so that the template can mark the words."""
    fragments: list[Fragment] = []
    end = 0
    for found in words.finditer(text):
        if found.start() > end:
            fragments.append(Fragment(text[end : found.start()], False))
        fragments.append(Fragment(found[0], True))
        end = found.end()
    if end < len(text):
        fragments.append(Fragment(text[end:], False))
    return tuple(fragments)
