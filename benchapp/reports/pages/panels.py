"""The charts of a study: each rendered by the code of its page, or the reason why it cannot be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs, quote

from django.http import HttpRequest, QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString

from benchapp.catalog.grammar import BadFilter
from benchapp.charts.pages.comparison import BadComparison, ComparisonFigure, show_comparison
from benchapp.charts.pages.history import HistoryFigure, show_history
from benchapp.charts.pages.matrix import show_matrix
from benchapp.charts.pages.scaling_figure import ScalingFigure, show_scaling
from benchapp.charts.read.chart import BadChart
from benchapp.framework.pages.access import BadParameters
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.pages.layouts import show_layouts
from benchapp.layouts.read.prices import UnknownRegion
from benchapp.layouts.read.question import BadQuestion
from benchapp.models import PanelKind, StudyPanel

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
