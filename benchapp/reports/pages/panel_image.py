"""The image of a chart of a study, for previews of its shared link."""

from collections.abc import Callable, Mapping
from typing import Final

from django.http import QueryDict

from benchapp.catalog.grammar import BadFilter, parse_filter, write_filter
from benchapp.charts.images.chart import draw_chart
from benchapp.charts.images.comparison import draw_comparison
from benchapp.charts.images.frame import ImageOptions, draw_image
from benchapp.charts.images.history import PANELS_MAXIMUM, draw_history
from benchapp.charts.pages.comparison import BadComparison, show_comparison
from benchapp.charts.pages.history import read_asked_history
from benchapp.charts.pages.matrix import read_asked_matrix
from benchapp.charts.pages.scaling_figure import read_request
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling import read_scaling
from benchapp.framework.pages.access import BadParameters, require_valid
from benchapp.layouts.image import draw_layouts
from benchapp.layouts.read.prices import UnknownRegion
from benchapp.layouts.read.question import BadQuestion, read_question
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.models import PanelKind, StudyPanel


def draw_panel(panel: StudyPanel, options: ImageOptions) -> bytes:
    """Return the image of a chart with current data; of one that cannot be rendered, with the reason.

    Raises TooManyDrawings.
    """
    draw = _RENDERERS.get(panel.kind)
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


_RENDERERS: Final[Mapping[str, Callable[[QueryDict, ImageOptions], bytes]]] = {
    PanelKind.SCALING: _draw_scaling,
    PanelKind.MATRIX: _draw_matrix,
    PanelKind.HISTORY: _draw_history,
    PanelKind.COMPARE: _draw_comparison,
    PanelKind.LAYOUTS: _draw_layouts,
}
