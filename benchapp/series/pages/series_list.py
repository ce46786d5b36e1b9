"""List of series: a grid of sparklines, or the same as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, Final, Literal

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    format_count,
    format_integer,
    format_percent,
    format_with_unit,
    lower_label,
)
from benchapp.charts.read.scaling_cells import FAILED
from benchapp.charts.read.series_grid import (
    GridGroup,
    GridPart,
    GridSeries,
    GridSort,
    SeriesGrid,
    read_series_grid,
)
from benchapp.charts.texts.levels import describe_level_range, describe_past_limit
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import (
    explain_empty,
    keep_query,
    make_filter_bar,
    read_choice,
    settle_filter,
)
from benchapp.framework.pages.list_entries import read_page_number
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.series_marks import ShownMark, make_level_sparkline, show_mark
from benchapp.framework.pages.time_range import read_time_range
from benchapp.framework.times import format_age, format_day
from benchapp.series.read.dimension_values import has_series
from benchapp.series.read.levels import LevelRow
from benchapp.series.read.selected_levels import LevelRange
from benchapp.series.read.series import SeriesRow

SeriesView = Literal["grid", "table"]
GROUPS: Final[dict[GridGroup, str]] = {
    "pattern": "Pattern",
    "layout": "Layout",
    "host": "Host or pool",
    "none": "None",
}
SORTS: Final[dict[GridSort, str]] = {
    "change": "Largest open change",
    "newest": "Last run, newest first",
    "age": "Last run, oldest first",
    "spread": "Largest spread",
    "name": "Name",
}
VIEWS: Final[dict[SeriesView, str]] = {"grid": "Grid", "table": "Table"}


def read_series_list_request(query: QueryDict) -> dict[str, Any]:
    """Parse query parameters. Invalid ones are ignored and reported."""
    errors: list[str] = []
    metric = query.get("metric") or None
    if metric is not None and metric not in CATALOG:
        errors.append(f"{metric[:40]!r} is not a valid metric. Available: {', '.join(CATALOG)}.")
        metric = None
    return {
        "metric": metric,
        "group": read_choice(query, "group", GROUPS, errors),
        "sort": read_choice(query, "sort", SORTS, errors),
        "view": read_choice(query, "view", VIEWS, errors),
        "page": read_page_number(query, errors),
        "range": read_time_range(query, errors),
        "errors": tuple(errors),
    }


@dataclass(frozen=True, slots=True)
class ShownSeries:
    """One series of the grid or table. level, spread: "" without a value. kind: of its mark, "" without one.

    previous: of the level before the current one, as text; "" for the first level.
    """

    row: SeriesRow
    name: str
    level: str
    level_raw: float | None
    spread: str
    spread_title: str
    previous: str
    age: str
    mark: ShownMark | None
    kind: str
    chart: dict[str, str] | None
    times: str
    url: str
    is_failed: bool


@dataclass(frozen=True, slots=True)
class ShownPart:
    """One group. count: "36 series", or "20 of 36 series" where the others are on other pages."""

    label: str
    count: str
    series: Sequence[ShownSeries]

    @property
    def has_values(self) -> bool:
        """Return whether one of its series has a value of the metric."""
        return any(each.level for each in self.series)


@require_safe
@may_read
def series_list(request: HttpRequest) -> HttpResponse:
    """Show the series that match the filters, in groups, with the newest values, level and change of each."""
    asked = read_series_list_request(request.GET)
    bar = make_filter_bar(
        request,
        keep=("view",),
        fields="series/_series_fields.html",
        has_metric=True,
        leaves_out_sample=True,
    )
    span, errors = asked["range"].levels, list(asked["errors"])
    if span.to_at is not None and bar.filter.fact_terms:
        errors.append(f"To: not together with {bar.filter.fact_terms[0].dimension}, a fact of runs.")
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    grid = read_series_grid(
        bar.read,
        metric=asked["metric"],
        group=asked["group"],
        sort=asked["sort"],
        page=asked["page"],
        span=span,
    )
    context = {
        **_list_choices(request, asked, grid),
        "title": _format_title(grid, span),
        "range": describe_level_range(span),
        "limit": describe_past_limit("sorted by spread") if grid.is_thinned else "",
        "bar": bar,
        "asked": asked,
        "metric": grid.metric,
        "grid": grid,
        "parts": [_show_part(part, grid.metric) for part in grid.parts],
        "is_filtering": bool(bar.text) or not span.is_open,
        "excluded": () if grid.total else explain_empty(bar, has_series),
        "selection_kind": KINDS["series"],
        "steps": None if grid.total else list_first_steps(make_base_url(request)),
    }
    return render(request, "series/series_list.html", context)


def _list_choices(request: HttpRequest, asked: dict[str, Any], grid: SeriesGrid) -> dict[str, Any]:
    """Return the choices of the form, and the links to other views, orders and pages."""
    page = grid.page
    return {
        "words": [
            ("", grid.metric.label, "series-metric"),
            ("grouped by", lower_label(GROUPS[asked["group"]]), "series-group"),
            ("sorted by", lower_label(SORTS[asked["sort"]]), "series-sort"),
        ],
        "metrics": list(CATALOG.values()),
        "groups": GROUPS.items(),
        "sorts": SORTS.items(),
        "views": [
            (label, keep_query(request.GET, view=None if name == "grid" else name), name == asked["view"])
            for name, label in VIEWS.items()
        ],
        "sort_urls": {
            name: keep_query(request.GET, sort=None if name == "change" else name, page=None)
            for name in SORTS
        },
        "previous_url": _link_page(request, page - 1) if page > 1 else None,
        "next_url": _link_page(request, page + 1) if page < grid.page_count else None,
    }


def _link_page(request: HttpRequest, page: int) -> str:
    return keep_query(request.GET, page=None if page == 1 else str(page))


def _show_part(part: GridPart, metric: Metric) -> ShownPart:
    count = format_count(part.total, "series")
    if len(part.series) < part.total:
        count = f"{format_integer(len(part.series))} of {count}"
    now, path = timezone.now(), reverse("series_list")
    return ShownPart(part.label, count, [_show_series(series, metric, now, path) for series in part.series])


def _show_series(series: GridSeries, metric: Metric, now: datetime, path: str) -> ShownSeries:
    level = series.level
    mark = show_mark(series.mark, metric=metric.name, now=now)
    return ShownSeries(
        row=series.row,
        name=series.name,
        level=format_with_unit(level.median, metric) if level else "",
        level_raw=level.median if level else None,
        spread="" if level is None or level.spread is None else format_percent(level.spread),
        spread_title=_describe_spread(level, metric),
        previous=_describe_previous(series.previous, metric),
        age=_format_ago(level.to_at if level else series.row.last_at, now),
        mark=mark,
        kind=mark.kind if mark else "",
        chart=make_level_sparkline(series.values, series.steps),
        times=_write_times(series.times),
        url=f"{path}{series.row.id}/?metric={metric.name}",
        is_failed=FAILED in series.row.badges,
    )


def _write_times(times: Sequence[float]) -> str:
    """Return the minute of the first time since 1970, and the steps to the next ones with their counts: "1440x59"."""
    minutes = [int(time // 60) for time in times]
    steps = groupby(after - before for before, after in pairwise(minutes))
    return " ".join([*map(str, minutes[:1]), *(f"{step}x{len(list(each))}" for step, each in steps)])


def _format_ago(at: datetime, now: datetime) -> str:
    age = format_age(at, now=now)
    return age if age == "now" else f"{age} ago"


def _describe_spread(level: LevelRow | None, metric: Metric) -> str:
    if level is None:
        return ""
    low, high = (format_with_unit(value, metric) for value in (level.p10, level.p90))
    return f"p10 {low}, p90 {high}, {format_count(level.n, 'run')} of the current level"


def _describe_previous(level: LevelRow | None, metric: Metric) -> str:
    if level is None:
        return ""
    return f"was {format_with_unit(level.median, metric)} until {format_day(level.to_at)}"


def _format_title(grid: SeriesGrid, span: LevelRange) -> str:
    """Return how many series match, how many have an open regression, and how many of these in the metric shown."""
    if not grid.total:
        return "No series"
    count = format_count(grid.total, "most recently measured series" if grid.is_cut else "series")
    if span.to_at:
        return count
    if not grid.worse:
        return f"{count}, none with an open regression"
    shown = "" if grid.marked == grid.worse else f", {format_integer(grid.marked)} in {grid.metric.label}"
    return f"{count}, {format_integer(grid.worse)} with an open regression{shown}"
