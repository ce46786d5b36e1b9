"""Snapshots of studies: charts as images, summaries and tables as they were; rendered once and stored."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import nh3
from django.db import connection, transaction
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from benchapp.charts.images.frame import THEMES, WIDTH_DEFAULT, ImageOptions, Theme, TooManyPixels
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import without_preferences
from benchapp.models import FrozenPanel, PanelKind, Study, StudyPanel
from benchapp.reports.pages.panel_image import draw_panel
from benchapp.reports.pages.panels import ShownStudyPanel, find_page, make_panel, name_panel

# Sharp on screens with two pixels for each CSS pixel.
_SCALE: Final = 2
_DATA: Final[Mapping[str, str]] = {
    PanelKind.SCALING: "reports/panels/_scaling_data.html",
    PanelKind.MATRIX: "reports/panels/_matrix_data.html",
    PanelKind.HISTORY: "reports/panels/_history_data.html",
    PanelKind.COMPARE: "reports/panels/_comparison_data.html",
    PanelKind.LAYOUTS: "reports/panels/_layouts_data.html",
}
_TAGS: Final = frozenset(
    {"a", "b", "br", "caption", "col", "colgroup", "details", "div", "em", "li", "ol", "p", "span", "strong"}
) | frozenset({"summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"})
_ATTRIBUTES: Final = {
    "*": {"aria-hidden", "aria-label", "class", "data-value", "id", "role", "tabindex", "title"},
    "a": {"href"},
    "col": {"span"},
    "colgroup": {"span"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}
# Width and height begin the first chunk of a PNG, behind its 8 bytes of signature, its length and its name.
_PNG_SIZE: Final = slice(16, 24)


def freeze_panels(request: HttpRequest, study: Study) -> list[FrozenPanel]:
    """Return the charts of a study with the current numbers, all of one moment, as visitors see them.

    Raises TooManyDrawings.
    """
    with without_preferences(), _read_one_moment():
        return [_freeze(request, panel, place) for place, panel in enumerate(study.charts, start=1)]


def show_frozen_panels(
    study: Study, *, link_image: Callable[[int, Theme], str], has_links: bool
) -> list[ShownStudyPanel]:
    """Return the panels of a study with a snapshot; texts are the current ones, numbers those of the snapshot.

    link_image: the address of an image by its place in the snapshot. has_links: False for a shared study.
    """
    return [
        _show_frozen(panel, frozen, place, link_image=link_image, has_links=has_links)
        for place, (panel, frozen) in enumerate(zip(study.charts, study.frozen_charts, strict=True), start=1)
    ]


def _show_frozen(
    panel: StudyPanel,
    frozen: FrozenPanel | None,
    place: int,
    *,
    link_image: Callable[[int, Theme], str],
    has_links: bool,
) -> ShownStudyPanel:
    text = render_markdown(panel.text, has_own_links=has_links)
    page_url = find_page(panel) if has_links else ""
    if frozen is None:
        problem = "It is not in the snapshot: it was added or changed later."
        return ShownStudyPanel(place, panel.kind, name_panel(panel), text, page_url, problem=problem)
    title = panel.title or frozen.title
    figure = {
        "content": _sanitize(frozen.content),
        "light_url": link_image(frozen.place, "light"),
        "dark_url": link_image(frozen.place, "dark"),
        "alt": frozen.title,
        "width": frozen.width,
        "height": frozen.height,
    }
    return ShownStudyPanel(
        place, panel.kind, title, text, page_url, "reports/panels/_snapshot.html", figure, is_frozen=True
    )


def _freeze(request: HttpRequest, panel: StudyPanel, place: int) -> FrozenPanel:
    untitled = StudyPanel(panel.kind, panel.query)
    shown = make_panel(request, untitled, place, has_links=False)
    content = format_html("<p>{}</p>", shown.problem) if shown.problem else ""
    if shown.template:
        content += render_to_string(_DATA[panel.kind], {"figure": shown.figure, "place": place})
    images: dict[str, bytes] = {theme: _draw(panel, theme) for theme in THEMES}
    width, height = struct.unpack(">II", images["light"][_PNG_SIZE])
    return FrozenPanel(
        kind=panel.kind,
        query=panel.query,
        title=shown.title,
        content=_sanitize(content),
        width=WIDTH_DEFAULT,
        height=height * WIDTH_DEFAULT // width,
        images=images,
    )


def _draw(panel: StudyPanel, theme: Theme) -> bytes:
    try:
        return draw_panel(panel, ImageOptions("png", scale=_SCALE, theme=theme, has_incidents=False))
    except TooManyPixels:
        return draw_panel(panel, ImageOptions("png", theme=theme, has_incidents=False))


@contextmanager
def _read_one_moment() -> Iterator[None]:
    """Read within one snapshot of PostgreSQL: image, summary and table of a chart must not differ by a new run."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _sanitize(html: str) -> SafeString:
    """Return the HTML of a snapshot with links within its page only, and nothing that is executed."""

    def keep(tag: str, name: str, value: str) -> str | None:
        return value if name != "href" or value.startswith("#") else None

    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=keep,
        link_rel=None,
    )
    # nh3 allows only what is listed above.
    return mark_safe(clean)  # noqa: S308
