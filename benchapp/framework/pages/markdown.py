"""Markdown of users as safe HTML: CommonMark with tables, without HTML and images."""

from typing import Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

# Headings h1 and h2 belong to the page.
_HEADING_SHIFT: Final = 2
_TAGS: Final = frozenset({"p", "br", "hr", "em", "strong", "code", "pre", "blockquote", "a"}) | frozenset(
    {"ul", "ol", "li", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def render_markdown(text: str, *, has_own_links: bool = True) -> SafeString:
    """Return Markdown as safe HTML; has_own_links: keep links to this server (not on shared pages)."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + _HEADING_SHIFT, 6)}"
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})

    def keep(tag: str, name: str, value: str) -> str | None:
        is_elsewhere = value.partition(":")[0].lower() in _SCHEMES
        return value if name != "href" or has_own_links or is_elsewhere else None

    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=keep,
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )
    # nh3 allows only what is listed above.
    return mark_safe(clean)  # noqa: S308
