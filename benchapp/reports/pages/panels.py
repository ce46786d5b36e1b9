"""Panels of studies: as a page, a snapshot and an image shows them."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs, quote

import nh3
from django.db import connection, transaction
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from benchapp.catalog.grammar import BadFilter, parse_filter, write_filter
from benchapp.charts.images.chart import draw_chart
from benchapp.charts.images.comparison import draw_comparison
from benchapp.charts.images.frame import THEMES, WIDTH_DEFAULT, ImageOptions, Theme, draw_image
from benchapp.charts.images.history import PANELS_MAXIMUM, draw_history
from benchapp.charts.pages.comparison import BadComparison, ComparisonFigure, show_comparison
from benchapp.charts.pages.history import HistoryFigure, read_asked_history, show_history
from benchapp.charts.pages.matrix import read_asked_matrix, show_matrix
from benchapp.charts.pages.scaling_figure import ScalingFigure, read_request, show_scaling
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling import read_scaling
from benchapp.framework.pages.access import BadParameters, require_valid
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import make_base_url, without_preferences
from benchapp.layouts.image import draw_layouts
from benchapp.layouts.pages.layouts import show_layouts
from benchapp.layouts.read.prices import UnknownRegion
from benchapp.layouts.read.question import BadQuestion, read_question
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.models import FrozenPanel, PanelKind, Study, StudyPanel

_PAGES: Final = {
    PanelKind.SCALING: "scaling",
    PanelKind.MATRIX: "matrix",
    PanelKind.HISTORY: "history",
    PanelKind.COMPARE: "compare",
    PanelKind.LAYOUTS: "layouts",
}


@dataclass(frozen=True, slots=True)
class ShownStudyPanel:
    """One chart. template: its fragment, "" if it cannot be rendered. figure: the context of the fragment.

    page_url: its own page; "" on shared pages. problem: why it, or one of its parameters, cannot be shown. is_frozen:
    whether it is of a snapshot, and needs no script.
    """

    place: int
    kind: str
    title: str
    text: SafeString
    page_url: str
    template: str = ""
    figure: Any = None
    problem: str = ""
    is_frozen: bool = False


def make_panels(
    request: HttpRequest, panels: Sequence[StudyPanel], *, has_links: bool
) -> list[ShownStudyPanel]:
    """Return the panels in order with current data; has_links: False for a shared study."""
    return [
        make_panel(request, panel, place, has_links=has_links) for place, panel in enumerate(panels, start=1)
    ]


def read_panel_query(text: str) -> str:
    """Return the query string of a chart, given that or the whole address, without the cursor of a list."""
    path, mark, behind = text.strip().partition("?")
    query = behind if mark and (not path or path.startswith(("/", "http://", "https://"))) else text
    return "&".join(part for part in query.split("&") if part and "after" not in parse_qs(part))


def list_kinds(panels: Sequence[ShownStudyPanel]) -> list[str]:
    """Return the distinct kinds of the rendered panels, which determine scripts and styles of the page."""
    return sorted({panel.kind for panel in panels if panel.template and not panel.is_frozen})


def find_page(panel: StudyPanel) -> str:
    """Return the address of the page of a panel; "" if this server has none."""
    try:
        path = reverse(_PAGES[PanelKind(panel.kind)])
    except (NoReverseMatch, ValueError):
        return ""
    return f"{path}?{quote(panel.query, safe='=&%+:,*./;-_~!()')}" if panel.query else path


def make_panel(request: HttpRequest, panel: StudyPanel, place: int, *, has_links: bool) -> ShownStudyPanel:
    """Return one panel with current data; place: its position in the study, from 1."""
    page_url = find_page(panel) if has_links else ""
    text = render_markdown(panel.text, has_own_links=has_links)
    render = _RENDERERS.get(panel.kind)
    if render is None:
        problem = "Open its page to see it." if page_url else "It has its own page."
        return ShownStudyPanel(place, panel.kind, name_panel(panel), text, page_url, problem=problem)
    template, title, figure, problem = render(request, panel, place, has_links)
    return ShownStudyPanel(place, panel.kind, panel.title or title, text, page_url, template, figure, problem)


def name_panel(panel: StudyPanel) -> str:
    """Return the name of a panel that is not rendered yet: its title, else its kind."""
    kind = str(PanelKind(panel.kind).label) if panel.kind in PanelKind.values else panel.kind
    return panel.title or kind


def _show_scaling(
    request: HttpRequest, panel: StudyPanel, place: int, has_links: bool
) -> tuple[str, str, ScalingFigure | None, str]:
    try:
        base_url = make_base_url(request)
        figure = show_scaling(
            QueryDict(panel.query), key=f"panel-{place}", base_url=base_url, has_links=has_links
        )
    except (BadParameters, BadChart) as error:
        return "", name_panel(panel), None, f"{error}."
    return "reports/panels/_scaling.html", figure.title, figure, ""


def _show_history(
    request: HttpRequest, panel: StudyPanel, place: int, has_links: bool
) -> tuple[str, str, HistoryFigure | None, str]:
    try:
        figure = show_history(QueryDict(panel.query), key=f"panel-{place}", base_url=make_base_url(request))
    except (BadParameters, BadFilter) as error:
        return "", name_panel(panel), None, f"{error}."
    shown = figure if has_links else _close_history(figure)
    return "reports/panels/_history.html", figure.title, shown, ""


def _show_matrix(
    request: HttpRequest, panel: StudyPanel, place: int, has_links: bool
) -> tuple[str, str, dict[str, Any] | None, str]:
    try:
        figure = show_matrix(QueryDict(panel.query), has_links=has_links)
    except (BadParameters, BadFilter, BadChart) as error:
        return "", name_panel(panel), None, f"{error}."
    return "reports/panels/_matrix.html", figure["title"], figure, ""


def _show_comparison(
    request: HttpRequest, panel: StudyPanel, place: int, has_links: bool
) -> tuple[str, str, ComparisonFigure | None, str]:
    try:
        figure = show_comparison(QueryDict(panel.query), key=f"panel-{place}", has_links=has_links)
    except BadComparison as error:
        return "", name_panel(panel), None, str(error)
    return "reports/panels/_comparison.html", figure.title, figure, ""


def _show_layouts(
    request: HttpRequest, panel: StudyPanel, place: int, has_links: bool
) -> tuple[str, str, dict[str, Any] | None, str]:
    try:
        figure = show_layouts(QueryDict(panel.query), key=f"panel-{place}", has_links=has_links)
    except UnknownRegion as error:
        # Readers of a shared link do not get the names of the other regions.
        return "", name_panel(panel), None, f"{error if has_links else error.summary}."
    except (BadFilter, BadQuestion) as error:
        return "", name_panel(panel), None, f"{error}."
    return "reports/panels/_layouts.html", figure["title"], figure, ""


def _close_history(figure: HistoryFigure) -> HistoryFigure:
    """Return the figure without links to series and incidents."""
    document = figure.document or {}
    lines = [
        {
            **line,
            "url": "",
            "page": "",
            "changes": [{**change, "incident": None, "page": None} for change in line["changes"]],
        }
        for line in document.get("lines", [])
    ]
    return replace(
        figure, document={**document, "lines": lines}, url="", csv_url="", image_url="", api_line=""
    )


# Kind → renderer: template, title, context of the template, and what is wrong with the address.
_Renderer = Callable[[HttpRequest, StudyPanel, int, bool], tuple[str, str, Any, str]]
_RENDERERS: Final[Mapping[str, _Renderer]] = {
    PanelKind.SCALING: _show_scaling,
    PanelKind.MATRIX: _show_matrix,
    PanelKind.HISTORY: _show_history,
    PanelKind.COMPARE: _show_comparison,
    PanelKind.LAYOUTS: _show_layouts,
}
RENDERED_KINDS: Final = frozenset(_RENDERERS)


def draw_panel(panel: StudyPanel, options: ImageOptions) -> bytes:
    """Return the image of a chart with current data; of one that cannot be rendered, with the reason.

    Raises TooManyDrawings.
    """
    draw = _IMAGES.get(panel.kind)
    try:
        if draw is None:
            raise BadFilter("this version cannot render this kind of chart")
        return draw(QueryDict(panel.query), options)
    except (BadParameters, BadFilter, BadChart, BadComparison, BadQuestion) as problem:
        text = f"Chart not available: {str(problem).rstrip('.')}."
        return draw_image(
            options,
            title=panel.title,
            foot=(),
            draw=lambda canvas, box: canvas.write_message(box, text),
        )


def _draw_history(query: QueryDict, options: ImageOptions) -> bytes:
    asked, chosen, history = read_asked_history(query, metrics_maximum=PANELS_MAXIMUM)
    filter = "" if asked.ids is not None else query.get("q", "").strip()
    return draw_history(history, chosen, options, filter=filter, is_log=asked.is_log)


def _draw_scaling(query: QueryDict, options: ImageOptions) -> bytes:
    request, errors = read_request(query)
    require_valid(errors)
    return draw_chart(read_scaling(request), options)


def _draw_matrix(query: QueryDict, options: ImageOptions) -> bytes:
    return draw_chart(read_asked_matrix(query)[0], options)


def _draw_layouts(query: QueryDict, options: ImageOptions) -> bytes:
    try:
        ranking = rank_layouts(read_question(query))
    except UnknownRegion as problem:
        raise BadQuestion(problem.summary) from problem
    return draw_layouts(ranking, options)


def _draw_comparison(query: QueryDict, options: ImageOptions) -> bytes:
    figure = show_comparison(query, key="image", has_links=False)
    common = write_filter(parse_filter(query.get("q", "")))
    return draw_comparison(figure.found, figure.names, options, common=common)


_IMAGES: Final[Mapping[str, Callable[[QueryDict, ImageOptions], bytes]]] = {
    PanelKind.SCALING: _draw_scaling,
    PanelKind.MATRIX: _draw_matrix,
    PanelKind.HISTORY: _draw_history,
    PanelKind.COMPARE: _draw_comparison,
    PanelKind.LAYOUTS: _draw_layouts,
}


def make_sharp(theme: Theme, address: str = "") -> ImageOptions:
    """Return how a chart of a study is drawn for visitors: with two pixels for each CSS pixel, without incidents."""
    return ImageOptions("png", scale=2, theme=theme, address=address, has_incidents=False)


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
    images: dict[str, bytes] = {theme: draw_panel(panel, make_sharp(theme)) for theme in THEMES}
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
