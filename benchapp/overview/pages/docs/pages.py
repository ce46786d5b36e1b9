"""A documentation page and its sections: what the list of contents links to and what the search finds."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

from django.utils.safestring import SafeString

# Level of an entry of a list of codes: below every heading, not in the list of contents.
ENTRY_LEVEL: Final = 7
_HEADINGS: Final = frozenset({"h2", "h3", "h4"})
# Ends of lines. Other tags are within a word or a sentence.
_BLOCKS: Final = _HEADINGS | frozenset(
    {"p", "li", "pre", "tr", "th", "td", "dt", "dd", "div", "summary", "br"}
)
_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading, or an entry of a list, with the text up to the next one.

    level: 1 before the first heading, 2 to 4 for h2 to h4, ENTRY_LEVEL for an entry. anchor: "" at the top of the page.
    """

    level: int
    anchor: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class DocumentationPage:
    """One page. html: what follows the heading of level 1, which is the title."""

    url: str
    title: str
    html: SafeString
    sections: tuple[PageSection, ...]

    @property
    def contents(self) -> tuple[PageSection, ...]:
        """Return the sections that the list of contents links to: h2 and h3."""
        return tuple(each for each in self.sections if each.level in (2, 3))

    @property
    def anchors(self) -> frozenset[str]:
        """Return the anchors of all headings and entries."""
        return frozenset(each.anchor for each in self.sections if each.anchor)


def make_page(url: str, title: str, html: SafeString) -> DocumentationPage:
    """Return a page with its sections."""
    return DocumentationPage(url, title, html, split_sections(title, html))


def split_sections(title: str, html: str) -> tuple[PageSection, ...]:
    """Return the sections of a page in order. title: of the page, and so of the text before the first heading.

    A section begins at a heading with an id, or at a `<div id>` whose title is its `<dt>`.
    """
    reader = _SectionReader(title)
    reader.feed(html)
    reader.close()
    return tuple(
        PageSection(draft.level, draft.anchor, _join(draft.title), _join(draft.text))
        for draft in reader.drafts
    )


def _join(parts: list[str]) -> str:
    return _SPACE.sub(" ", "".join(parts)).strip()


@dataclass
class _Draft:
    level: int
    anchor: str
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _SectionReader(HTMLParser):
    def __init__(self, title: str) -> None:
        super().__init__()
        self.drafts = [_Draft(1, "", [title])]
        self._in_title = False
        # Tag whose text belongs to the page, not to its words: buttons, links to a heading.
        self._skipped = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        anchor = attributes.get("id")
        if tag in _HEADINGS and anchor:
            self.drafts.append(_Draft(int(tag[1]), anchor))
            self._in_title = True
        elif tag == "div" and anchor:
            self.drafts.append(_Draft(ENTRY_LEVEL, anchor))
        elif tag == "dt" and self.drafts[-1].level == ENTRY_LEVEL:
            self._in_title = True
        elif tag == "button" or attributes.get("class") == "heading-link":
            self._skipped = tag
        if tag == "br":
            self.drafts[-1].text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""
        if tag in _HEADINGS or tag == "dt":
            self._in_title = False
        if tag in _BLOCKS:
            self.drafts[-1].text.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            draft = self.drafts[-1]
            (draft.title if self._in_title else draft.text).append(data)
