"""Query parameters of the list of series: metric, groups, order, grid or table, page."""

from dataclasses import dataclass, field
from typing import Final, Literal

from django.http import QueryDict

from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.series_grid import GridGroup, GridSort
from benchapp.framework.pages.filter_forms import read_choice
from benchapp.framework.pages.pagination import read_page_number
from benchapp.framework.pages.time_range import AskedRange, read_time_range

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


@dataclass(frozen=True, slots=True)
class SeriesListRequest:
    """One list. metric: None for the usual one. page: from 1. errors: invalid parameters, one sentence each."""

    metric: str | None = None
    group: GridGroup = "pattern"
    sort: GridSort = "change"
    view: SeriesView = "grid"
    page: int = 1
    range: AskedRange = field(default_factory=AskedRange)
    errors: tuple[str, ...] = field(default=())


def read_series_list_request(query: QueryDict) -> SeriesListRequest:
    """Parse query parameters. Invalid ones are ignored and reported."""
    errors: list[str] = []
    metric = query.get("metric") or None
    if metric is not None and metric not in CATALOG:
        errors.append(f"{metric[:40]!r} is not a valid metric. Available: {', '.join(CATALOG)}.")
        metric = None
    return SeriesListRequest(
        metric=metric,
        group=read_choice(query, "group", GROUPS, errors),
        sort=read_choice(query, "sort", SORTS, errors),
        view=read_choice(query, "view", VIEWS, errors),
        page=read_page_number(query, errors),
        range=read_time_range(query, errors),
        errors=tuple(errors),
    )
