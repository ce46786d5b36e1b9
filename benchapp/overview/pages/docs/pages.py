"""Documentation pages with their sections, from the Markdown of docs/: what contents list and search finds.

The files are part of the product, and are still treated as text: HTML in them is escaped, and a link has one of the
schemes that markdown-it accepts.
"""

import re
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

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

    A section begins at a heading with an id, at a `<div id>`, whose title is its `<dt>`, or at a `<tr id>`, whose title
    is its first cell.
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
        elif tag in ("div", "tr") and anchor:
            self.drafts.append(_Draft(ENTRY_LEVEL, anchor))
        elif tag in ("dt", "td") and self.drafts[-1].level == ENTRY_LEVEL and not self.drafts[-1].title:
            self._in_title = True
        elif tag == "button" or attributes.get("class") == "heading-link":
            self._skipped = tag
        if tag == "br":
            self.drafts[-1].text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""
        if tag in _HEADINGS or tag in ("dt", "td"):
            self._in_title = False
        if tag in _BLOCKS:
            self.drafts[-1].text.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            draft = self.drafts[-1]
            (draft.title if self._in_title else draft.text).append(data)


BASE_PATH: Final = "/docs/"
API_REFERENCE_PATH: Final = f"{BASE_PATH}api/reference"
# The page of `/docs/` itself; code hosts show the file with the folder.
INDEX_NAME: Final = "README"

Env = MutableMapping[str, Any]
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")
_IS_EXTERNAL: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
# Output and diagrams: read, not pasted.
_NOT_COPIED: Final = frozenset({"", "text"})


def render_page(text: str, *, titles: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a file of docs/ as HTML. Raises ValueError if it does not begin with a heading of level 1.

    titles: file name → title; a link whose text is the name of a file shows the title, as pages have no file names.
    """
    tokens = _MARKDOWN.parse(text)
    if len(tokens) < 3 or tokens[0].type != "heading_open" or tokens[0].tag != "h1":
        raise ValueError("the page does not begin with a heading of level 1")
    title = read_plain_text(tokens[1])
    env = {"anchors": Counter(), "codes": 0, "tables": 0, "heading": title, "titles": titles or {}}
    html = _MARKDOWN.renderer.render(_drop_empty_heads(tokens[3:]), _MARKDOWN.options, env)
    # The renderer escapes all text.
    return {"title": title, "html": mark_safe(html)}  # noqa: S308


def render_sentence(text: str) -> SafeString:
    """Return one line of Markdown as HTML: code, emphasis and links."""
    html: str = _MARKDOWN.renderInline(text, {"titles": {}})
    return mark_safe(html)  # noqa: S308


def parse_markdown(text: str) -> list[Token]:
    """Return the tokens of a file of docs/."""
    return _MARKDOWN.parse(text)


def read_plain_text(inline: Token) -> str:
    """Return the text of an inline token without marks."""
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def make_anchor(title: str) -> str:
    """Return the anchor of a heading as code hosts make it: lower case, words joined by hyphens, no punctuation."""
    return _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")


def resolve_link(href: str) -> str:
    """Return a link of a file of docs/ as a link of the product.

    Pages lose `.md`; other files of docs/ are served as they are.
    """
    path, hash_mark, anchor = href.partition("#")
    if not path or _IS_EXTERNAL.match(href):
        return href
    name = path.removesuffix(".md")
    if name == path:
        return f"{BASE_PATH}files/{path}"
    return f"{BASE_PATH}{'' if name == INDEX_NAME else name}{hash_mark}{anchor}"


def _drop_empty_heads(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without the heads of tables that have no names of columns: Markdown has no other way."""
    found: list[Token] = []
    head: list[Token] | None = None
    for token in tokens:
        if token.type == "thead_open":
            head = []
        (found if head is None else head).append(token)
        if token.type == "thead_close" and head is not None:
            if any(each.type == "inline" and each.content for each in head):
                found += head
            head = None
    return found


def _open_heading(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    env["heading"] = read_plain_text(tokens[index + 1])
    anchor = make_anchor(env["heading"])
    repeated = env["anchors"][anchor]
    env["anchors"][anchor] += 1
    tokens[index].meta["anchor"] = tokens[index + 2].meta["anchor"] = (
        f"{anchor}-{repeated}" if repeated else anchor
    )
    return format_html('<{} id="{}">', tokens[index].tag, tokens[index].meta["anchor"])


def _close_heading(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    return format_html(
        ' <a class="heading-link" href="#{}" aria-label="Link to “{}”">#</a></{}>\n',
        tokens[index].meta["anchor"],
        read_plain_text(tokens[index - 1]),
        tokens[index].tag,
    )


def _write_code(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    env["codes"] += 1
    token = tokens[index]
    language = token.info.strip()
    return write_code_block(
        token.content.rstrip("\n"), code_id=f"code-{env['codes']}", is_copied=language not in _NOT_COPIED
    )


def write_code_block(code: str, *, code_id: str, is_copied: bool = True) -> SafeString:
    """Return a block of code. is_copied: with a copy button; frame.js reads the text of code_id."""
    button = (
        format_html('<button type="button" data-copy="{}" aria-label="Copy the code">Copy</button>', code_id)
        if is_copied
        else ""
    )
    return format_html(
        '<div class="code-line"><pre tabindex="0"><code id="{}">{}</code></pre>{}</div>\n',
        code_id,
        code,
        button,
    )


def _open_table(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    # A table of Markdown has no caption: its name is the heading above it, with a number, as names are unique.
    env["tables"] += 1
    env["has_terms"] = tokens[index + 4].content == "term"
    return format_html(
        '<div class="table-box" tabindex="0" role="region" aria-label="Table {}: {}"><table>\n',
        env["tables"],
        env["heading"],
    )


def _close_table(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    return "</table></div>\n"


def _open_row(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    if not env["has_terms"] or tokens[index + 1].tag == "th":
        return "<tr>\n"
    return format_html('<tr id="{}">\n', make_anchor(read_plain_text(tokens[index + 2])))


def _open_cell(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    # Markdown's alignment is an inline style, which the content security policy of pages forbids.
    css = ' class="number"' if "right" in str(tokens[index].attrs.get("style", "")) else ""
    return f"<{tokens[index].tag}{css}>"


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    href = str(tokens[index].attrs.get("href", ""))
    if tokens[index + 1].content == href.partition("#")[0]:
        tokens[index + 1].content = env["titles"].get(tokens[index + 1].content, tokens[index + 1].content)
    rel = ' rel="noopener noreferrer"' if _IS_EXTERNAL.match(href) else ""
    return f'<a href="{escape(resolve_link(href))}"{rel}>'


def _write_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Env
) -> str:
    source = resolve_link(str(tokens[index].attrs.get("src", "")))
    return format_html('<img src="{}" alt="{}" loading="lazy">', source, tokens[index].content)


def _make_markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    rules = {
        "heading_open": _open_heading,
        "heading_close": _close_heading,
        "fence": _write_code,
        "code_block": _write_code,
        "table_open": _open_table,
        "table_close": _close_table,
        "tr_open": _open_row,
        "th_open": _open_cell,
        "td_open": _open_cell,
        "link_open": _open_link,
        "image": _write_image,
    }
    for name, rule in rules.items():
        markdown.add_render_rule(name, rule)
    return markdown


_MARKDOWN: Final = _make_markdown()
