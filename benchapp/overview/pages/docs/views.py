"""Documentation pages, their search, and the files that they link to; public, as they have no data.

Files are read once per process: an installation gets others with another version.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from benchapp.framework.pages.live import answer_once
from benchapp.framework.pages.number_columns import ALSO_ANSWERED, REJECTED
from benchapp.intake.normalize.measurement import MISSING
from benchapp.overview.pages.docs.api_reference import read_reference
from benchapp.overview.pages.docs.pages import (
    API_REFERENCE_PATH,
    BASE_PATH,
    ENTRY_LEVEL,
    INDEX_NAME,
    DocumentationPage,
    PageSection,
    make_page,
    parse_markdown,
    read_plain_text,
    render_page,
    resolve_link,
)
from benchapp.series.pages.run_tables import BADGES

DIRECTORY: Final[Path] = settings.BASE_DIR / "docs"
# Files that pages link to: screenshots, templates of CI, dashboards.
FILE_TYPES: Final = {
    ".json": "application/json",
    ".png": "image/png",
    ".yaml": "text/plain; charset=utf-8",
    ".yml": "text/plain; charset=utf-8",
}


@cache
def read_page(name: str) -> DocumentationPage | None:
    """Return a page by the last part of its URL, "" for the first page; None if there is none."""
    if name == "badges":
        html = render_to_string("overview/docs/_badges.html", {"badges": BADGES.items()})
        return make_page(f"{BASE_PATH}{name}", "Badges", html)
    if name == "errors":
        context = {"rejected": REJECTED.items(), "missing": MISSING.items(), "also_answered": ALSO_ANSWERED}
        html = render_to_string("overview/docs/_error_codes.html", context)
        return make_page(f"{BASE_PATH}{name}", "Error codes", html)
    file_name = f"{name or INDEX_NAME}.md"
    titles = _read_titles()
    if file_name not in titles or name == INDEX_NAME:
        return None
    page = render_page((DIRECTORY / file_name).read_text(encoding="utf-8"), titles=titles)
    return make_page(f"{BASE_PATH}{name}", page["title"], page["html"])


def read_reference_page(name: str) -> DocumentationPage | None:
    """Return a page of the API reference: of a tag, "types", or "" for all operations; None if there is none."""
    return read_reference().get(name)


@cache
def list_pages() -> tuple[DocumentationPage, ...]:
    """Return all pages in the order of list_groups(), those that it does not list at the end."""
    names = ["", "badges", "errors", *sorted(name.removesuffix(".md") for name in _read_titles())]
    pages = [page for page in map(read_page, names) if page]
    pages += read_reference().values()
    urls = [link["url"] for group in list_groups() for link in group["links"]]
    return tuple(sorted(pages, key=lambda page: urls.index(page.url) if page.url in urls else len(urls)))


@cache
def list_groups() -> tuple[dict[str, Any], ...]:
    """Return the list of all pages: headings of level 2 of docs/README.md with the first link of each entry."""
    tokens = parse_markdown((DIRECTORY / f"{INDEX_NAME}.md").read_text(encoding="utf-8"))
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for before, token in pairwise(tokens):
        if token.type != "inline":
            continue
        links = [each for each in token.children or () if each.type == "link_open"]
        if before.type == "heading_open" and before.tag == "h2":
            found.append((read_plain_text(token), []))
        elif found and before.level and links:
            title = read_plain_text(token).partition(":")[0]
            found[-1][1].append({"title": title, "url": resolve_link(str(links[0].attrs["href"]))})
    lists = (
        {"title": "API reference", "url": API_REFERENCE_PATH},
        {"title": "Badges", "url": f"{BASE_PATH}badges"},
        {"title": "Error codes", "url": f"{BASE_PATH}errors"},
    )
    return (
        *({"title": title, "links": tuple(links)} for title, links in found),
        {"title": "Lists", "links": lists},
    )


@cache
def list_files() -> dict[str, Path]:
    """Return the files that pages may link to, by their path below docs/."""
    return {
        path.relative_to(DIRECTORY).as_posix(): path
        for path in sorted(DIRECTORY.rglob("*"))
        if path.suffix in FILE_TYPES and path.is_file()
    }


@cache
def _read_titles() -> dict[str, str]:
    """Return file name → title, the first line, of all Markdown files of docs/."""
    return {
        path.name: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for path in sorted(DIRECTORY.glob("*.md"))
    }


HITS_MAXIMUM: Final = 50
# Of one word: in the title of the section, in that of its page, in the text. A title says what a section is about.
_IN_SECTION: Final = 8
_IN_PAGE: Final = 4
_IN_TEXT: Final = 1
_WHOLE_WORD: Final = 2
# Characters of an excerpt before the first word found, and in all.
_BEFORE: Final = 60
_EXCERPT: Final = 220


# Of questions: they are not searched for.
SMALL_WORD: Final = re.compile(
    "a|all|an|and|any|anything|are|at|can|did|do|does|down|everything|find|for|gets?|getting|got|had|has|have|how|i|in|is"
    "|it|list|me|my|of|on|show|something|than|the|there|to|up|us|was|we|were|what|when|where|which|who|why|with",
    re.IGNORECASE,
)


# "compare" finds "Comparing", "tokens" finds "token".
_ENDINGS: Final = "(?:ing|ed|es|e|s)"
_ENDING: Final = re.compile(rf"(?<=\w{{4}}){_ENDINGS}$|(?<=\w{{3}})s$")


def drop_small_words(text: str) -> str:
    """Return a text without small words; as it is if it has no others."""
    return " ".join(word for word in text.split() if not SMALL_WORD.fullmatch(word)) or text


def search_pages(query: str, pages: Sequence[DocumentationPage]) -> dict[str, Any]:
    """Return the sections that have all words of a query but the small ones, each at the beginning of a word, whatever
    its ending.

    Sections whose title has the words come first, then those of pages whose title has them; equal ones in the order of
    the pages, all before codes and the API reference. Its list of all operations repeats the other pages.
    """
    words = list(dict.fromkeys(drop_small_words(query.lower()).split()))
    if not words:
        return {"hits": (), "count": 0}
    patterns = [
        re.compile(rf"(?<![a-z0-9]){re.escape(_ENDING.sub('', word))}{_ENDINGS}?", re.IGNORECASE)
        for word in words
    ]
    found = [
        (score, page, section)
        for page in pages
        if page.url != API_REFERENCE_PATH
        for section in page.sections
        if (score := _score(page, section, patterns))
    ]
    found.sort(key=lambda hit: (_is_listed(hit[1], hit[2]), -hit[0]))
    any_word = re.compile("|".join(pattern.pattern for pattern in patterns), re.IGNORECASE)
    return {
        "hits": tuple(_make_hit(page, section, any_word) for _, page, section in found[:HITS_MAXIMUM]),
        "count": len(found),
    }


def _is_listed(page: DocumentationPage, section: PageSection) -> bool:
    """Return whether it is an operation or a type of the API, an error code or a badge: what few people search for."""
    is_code = section.level == ENTRY_LEVEL and page.url in (f"{BASE_PATH}badges", f"{BASE_PATH}errors")
    return is_code or page.url.startswith(API_REFERENCE_PATH)


def _score(page: DocumentationPage, section: PageSection, patterns: Sequence[re.Pattern[str]]) -> int:
    """Return 0 unless each word is in the title of the page or in the section, and one of them in the section."""
    total, is_inside = 0, False
    for pattern in patterns:
        in_title = _score_text(pattern, section.title) * _IN_SECTION
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


def _make_hit(page: DocumentationPage, section: PageSection, words: re.Pattern[str]) -> dict[str, Any]:
    url = f"{page.url}#{section.anchor}" if section.anchor else page.url
    title = split_matches(section.title, words) if section.level > 1 else ()
    return {
        "url": url,
        "page": page.title,
        "section": title,
        "excerpt": split_matches(cut_excerpt(section.text, words), words),
    }


def cut_excerpt(text: str, words: re.Pattern[str]) -> str:
    """Return the part of a text around its first match, at word boundaries, with … where it was cut."""
    found = words.search(text)
    start = max(0, found.start() - _BEFORE) if found else 0
    if start:
        start = text.find(" ", start) + 1
    end = len(text) if len(text) - start <= _EXCERPT else text.rfind(" ", start, start + _EXCERPT)
    end = end if end > start else start + _EXCERPT
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")


def split_matches(text: str, words: re.Pattern[str]) -> tuple[dict[str, Any], ...]:
    """Return a text in fragments, so that the template can mark the words."""
    fragments: list[dict[str, Any]] = []
    end = 0
    for found in words.finditer(text):
        if found.start() > end:
            fragments.append({"text": text[end : found.start()], "is_match": False})
        fragments.append({"text": found[0], "is_match": True})
        end = found.end()
    if end < len(text):
        fragments.append({"text": text[end:], "is_match": False})
    return tuple(fragments)


@require_safe
def documentation_page(request: HttpRequest, page_name: str = "") -> HttpResponseBase:
    """Show a page of docs/, or the list of badges or error codes; without a name the list of all pages."""
    page = read_page(page_name)
    if page is None:
        raise Http404(f"there is no documentation page {page_name!r}")
    return _answer_page(request, page)


@require_safe
def api_reference(request: HttpRequest, tag: str = "") -> HttpResponseBase:
    """Show the operations of a tag, the types of bodies, or without a tag the list of all operations."""
    page = read_reference_page(tag)
    if page is None:
        raise Http404(f"the API has no operations with the tag {tag!r}")
    return _answer_page(request, page)


@require_safe
def documentation_file(request: HttpRequest, file_name: str) -> HttpResponseBase:
    """Send a file that pages link to: a screenshot, a template of CI."""
    file = list_files().get(file_name)
    if file is None:
        raise Http404(f"there is no file {file_name!r} in the documentation")
    return answer_privately(request, HttpResponse(file.read_bytes(), content_type=FILE_TYPES[file.suffix]))


def _answer_page(request: HttpRequest, page: DocumentationPage) -> HttpResponseBase:
    return answer_privately(
        request, render(request, "overview/docs/page.html", {"page": page, "groups": list_groups()})
    )


def answer_privately(request: HttpRequest, response: HttpResponse) -> HttpResponseBase:
    """Return the response with an ETag, or 304 if the browser of this visitor has it."""
    answer = answer_once(request, response)
    if "ETag" in answer.headers:
        answer.headers["Cache-Control"] = "private, no-cache"
    return answer
