"""The pages of the documentation: docs/*.md, the API reference, and the lists of badges and error codes.

Files are read once per process: an installation gets others with another version.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from django.conf import settings
from django.template.loader import render_to_string

from benchapp.framework.pages.number_columns import ALSO_ANSWERED, REJECTED
from benchapp.intake.normalize.missing_reasons import MISSING
from benchapp.overview.pages.docs.api_reference import read_reference
from benchapp.overview.pages.docs.markdown_pages import (
    API_REFERENCE_PATH,
    BASE_PATH,
    INDEX_NAME,
    parse_markdown,
    read_plain_text,
    render_page,
    resolve_link,
)
from benchapp.overview.pages.docs.pages import DocumentationPage, make_page
from benchapp.series.pages.run_tables import BADGES

DIRECTORY: Final[Path] = settings.BASE_DIR / "docs"
# Files that pages link to: screenshots, templates of CI, dashboards.
FILE_TYPES: Final = {
    ".json": "application/json",
    ".png": "image/png",
    ".yaml": "text/plain; charset=utf-8",
    ".yml": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page in the list of all pages."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Pages under one heading."""

    title: str
    links: tuple[PageLink, ...]


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
    return make_page(f"{BASE_PATH}{name}", page.title, page.html)


def read_reference_page(name: str) -> DocumentationPage | None:
    """Return a page of the API reference: of a tag, "types", or "" for all operations; None if there is none."""
    return read_reference().get(name)


@cache
def list_pages() -> tuple[DocumentationPage, ...]:
    """Return all pages in the order of list_groups(), those that it does not list at the end."""
    names = ["", "badges", "errors", *sorted(name.removesuffix(".md") for name in _read_titles())]
    pages = [page for page in map(read_page, names) if page]
    pages += read_reference().values()
    urls = [link.url for group in list_groups() for link in group.links]
    return tuple(sorted(pages, key=lambda page: urls.index(page.url) if page.url in urls else len(urls)))


@cache
def list_groups() -> tuple[PageGroup, ...]:
    """Return the list of all pages: headings of level 2 of docs/README.md with the first link of each entry."""
    tokens = parse_markdown((DIRECTORY / f"{INDEX_NAME}.md").read_text(encoding="utf-8"))
    found: list[tuple[str, list[PageLink]]] = []
    for before, token in pairwise(tokens):
        if token.type != "inline":
            continue
        links = [each for each in token.children or () if each.type == "link_open"]
        if before.type == "heading_open" and before.tag == "h2":
            found.append((read_plain_text(token), []))
        elif found and before.level and links:
            title = read_plain_text(token).partition(":")[0]
            found[-1][1].append(PageLink(title, resolve_link(str(links[0].attrs["href"]))))
    lists = (
        PageLink("API reference", API_REFERENCE_PATH),
        PageLink("Badges", f"{BASE_PATH}badges"),
        PageLink("Error codes", f"{BASE_PATH}errors"),
    )
    return (*(PageGroup(title, tuple(links)) for title, links in found), PageGroup("Lists", lists))


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
