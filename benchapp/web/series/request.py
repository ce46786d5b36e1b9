"""Query parameters of the list of series: metric, groups, order, grid or table, page."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from django.http import QueryDict

from benchapp.metrics import CATALOG
from benchapp.queries.series_grid import GridGroup, GridSort
from benchapp.web.site.time_range import AskedRange, read_time_range

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
_PAGE_DIGITS: Final = 6
T = TypeVar("T", bound=str)


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
    page = query.get("page") or "1"
    if not (page.isascii() and page.isdigit() and len(page) <= _PAGE_DIGITS and int(page)):
        errors.append(f"{page[:40]!r} is not a valid page number.")
        page = "1"
    return SeriesListRequest(
        metric=metric,
        group=_read_choice(query, "group", GROUPS, errors),
        sort=_read_choice(query, "sort", SORTS, errors),
        view=_read_choice(query, "view", VIEWS, errors),
        page=int(page),
        range=read_time_range(query, errors),
        errors=tuple(errors),
    )


def _read_choice(query: QueryDict, name: str, choices: dict[T, str], errors: list[str]) -> T:
    """Return the value of a parameter; the first one by default."""
    first = next(iter(choices))
    given = query.get(name) or first
    if given not in choices:
        errors.append(f"{given[:40]!r} is not a valid {name}. Valid: {', '.join(choices)}.")
        return first
    return given
