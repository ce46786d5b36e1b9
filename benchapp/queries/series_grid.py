"""The series of a filter in groups, sorted, a page of them with their newest values and levels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from benchapp.dimensions import name_pattern
from benchapp.grammar import Filter
from benchapp.metrics import CATALOGUE, Metric
from benchapp.queries.binary_columns import fetch_arrays
from benchapp.queries.charts.downsampling import to_us
from benchapp.queries.charts.history import name_lines
from benchapp.queries.charts.series_columns import read_table
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.incidents.series_marks import SeriesMark, rank_mark, read_series_marks
from benchapp.queries.series.levels import LevelRow, read_current_columns, read_levels
from benchapp.queries.series.series import SeriesRow, read_rows
from benchapp.queries.titles import describe_target, describe_value, order_value

SERIES_ON_A_PAGE: Final = 200
# Of each series: more would be narrower than a pixel apart.
VALUES_MAXIMUM: Final = 60
GridGroup = Literal["pattern", "layout", "host", "none"]
GridSort = Literal["change", "newest", "age", "spread", "name"]
# Dimensions of which each combination is a group.
_GROUPS: Final[Mapping[GridGroup, tuple[str, ...]]] = {
    "pattern": ("pattern", "block_size_bytes"),
    "layout": (
        *("volume_type", "volume_count", "volume_size_bytes", "provisioned_iops", "raid_level"),
        *("stripe_count", "chunk_size_bytes", "filesystem", "instance_type", "target_name"),
    ),
    "host": ("pool", "host"),
    "none": (),
}
_NAME: Final = ("pool", "host", "pattern", "block_size_bytes", "iodepth", "numjobs", "volume_count")
# Of a series that is timed as a whole.
_FALLBACK: Final = "elapsed_s"
_USUAL: Final = "iops"
_UNMARKED: Final = (3, False, 0.0)


@dataclass(frozen=True, slots=True)
class GridSeries:
    """One series. name: what it differs in from the others of its group on the page.

    level: the current one; None without a value of the metric. previous: the level before it; None for the first.
    values: the newest valid ones, at most 60, oldest first. steps: (index of the first value, index behind the last,
    median) of each level among them, oldest first.
    """

    row: SeriesRow
    name: str
    level: LevelRow | None
    previous: LevelRow | None
    mark: SeriesMark | None
    values: tuple[float, ...]
    steps: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class GridPart:
    """One group of a page. label: "" for the group "none"; total: series of the group on all pages."""

    label: str
    total: int
    series: tuple[GridSeries, ...]


@dataclass(frozen=True, slots=True)
class SeriesGrid:
    """One page. total: series of all pages; is_cut: more match than are read. marked: with an open regression.

    page: from 1; page_count: at least 1.
    """

    metric: Metric
    parts: tuple[GridPart, ...]
    total: int
    marked: int
    page: int
    page_count: int
    is_cut: bool


def read_series_grid(
    match: Filter,
    *,
    metric: str | None,
    group: GridGroup = "pattern",
    sort: GridSort = "change",
    page: int = 1,
) -> SeriesGrid:
    """Return a page of the series that match a filter, 200 each; a page behind the last gives the last.

    metric: None for IOPS, or for the elapsed time where no series has IOPS. At most 20 000 series are sorted, the most
    recently measured; three queries for those and four for a page, two more for the fallback.
    """
    name = metric or _USUAL
    table, is_cut = read_table(match, [name])
    if metric is None and table.length and not table.array(f"{name}.has_level").any():
        name = _FALLBACK
        table, is_cut = read_table(match, [name])
    marks = read_series_marks(table.array("id").tolist(), metric=name)
    groups = _rank(table, _GROUPS[group])
    order = np.lexsort((*reversed(_SORTS[sort](table, marks, name)), groups))
    page_count = max(1, -(-table.length // SERIES_ON_A_PAGE))
    shown = max(1, min(page, page_count))
    places = order[(shown - 1) * SERIES_ON_A_PAGE : shown * SERIES_ON_A_PAGE]
    totals = np.bincount(groups).tolist() if table.length else []
    return SeriesGrid(
        metric=CATALOGUE[name],
        parts=_read_parts(
            table.array("id")[places].tolist(), groups[places].tolist(), group, totals, CATALOGUE[name], marks
        ),
        total=table.length,
        marked=sum(mark.state == "open" and mark.is_regression for mark in marks.values()),
        page=shown,
        page_count=page_count,
        is_cut=is_cut,
    )


def _rank(table: SeriesTable, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each row's values among all combinations of some dimensions."""
    if not names or not table.length:
        return np.zeros(table.length, dtype=np.int64)
    columns = [table.shared(name) for name in names]
    ranks = []
    for name, column in zip(names, columns, strict=True):
        in_order = sorted(range(len(column.values)), key=lambda code: order_value(name, column.values[code]))
        place = np.empty(len(in_order), dtype=np.int64)
        place[in_order] = np.arange(len(in_order))
        ranks.append(place[column.codes])
    combined = ranks[0]
    for rank in ranks[1:]:
        combined = np.unique(combined * (int(rank.max()) + 1) + rank, return_inverse=True)[1].reshape(-1)
    return np.unique(combined, return_inverse=True)[1].reshape(-1)


_Keys = tuple[NDArray[np.generic], ...]


def _sort_by_change(table: SeriesTable, marks: Mapping[int, SeriesMark], metric: str) -> _Keys:
    """Open regressions by size, then open improvements, accepted and recovered changes, then the newest runs."""
    ranks = np.array(
        [_rank_change(marks.get(series_id)) for series_id in table.array("id").tolist()], dtype=np.float64
    ).reshape(-1, 3)
    return (ranks[:, 0], ranks[:, 1], ranks[:, 2], -table.array("last_at"), _rank(table, _NAME))


def _rank_change(mark: SeriesMark | None) -> tuple[int, bool, float]:
    if mark is None:
        return _UNMARKED
    state, size = rank_mark(mark)
    return state, not mark.is_regression, size


def _sort_by_spread(table: SeriesTable, marks: Mapping[int, SeriesMark], metric: str) -> _Keys:
    levels = read_current_columns(table.array("id").tolist(), metric)
    spread = np.full(table.length, np.nan)
    order = np.argsort(table.array("id"))
    own = order[np.searchsorted(table.array("id"), levels["series_id"], sorter=order)]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread[own] = (levels["p90"] - levels["p10"]) / levels["median"]
    # Unknown ones last.
    return (np.where(np.isfinite(spread), -spread, np.inf), _rank(table, _NAME))


_SORTS: Final[Mapping[GridSort, Callable[[SeriesTable, Mapping[int, SeriesMark], str], _Keys]]] = {
    "change": _sort_by_change,
    "newest": lambda table, marks, metric: (-table.array("last_at"), _rank(table, _NAME)),
    "age": lambda table, marks, metric: (table.array("last_at"), _rank(table, _NAME)),
    "spread": _sort_by_spread,
    "name": lambda table, marks, metric: (_rank(table, _NAME), table.array("id")),
}


def _read_parts(
    ids: list[int],
    groups: list[int],
    group: GridGroup,
    totals: Sequence[int],
    metric: Metric,
    marks: Mapping[int, SeriesMark],
) -> tuple[GridPart, ...]:
    """Return the groups of a page; series that were removed meanwhile are left out. Four queries."""
    rows = {row.id: row for row in read_rows(ids)}
    levels = read_levels(ids, [metric.name])
    values = _read_values(ids, metric.name)
    by_group: dict[int, list[SeriesRow]] = {}
    for series_id, place in zip(ids, groups, strict=True):
        if series_id in rows:
            by_group.setdefault(place, []).append(rows[series_id])
    parts = []
    for place, members in by_group.items():
        series = []
        for row, name in zip(members, name_lines(members), strict=True):
            times, numbers = values.get(row.id, _NOTHING)
            own = levels[row.id][metric.name]
            series.append(
                GridSeries(
                    row=row,
                    name=name,
                    level=own[-1] if own else None,
                    previous=own[-2] if len(own) > 1 else None,
                    mark=marks.get(row.id),
                    values=tuple(numbers.tolist()),
                    steps=_list_steps(times, own),
                )
            )
        parts.append(GridPart(_label(group, members[0]), totals[place], tuple(series)))
    return tuple(parts)


def _label(group: GridGroup, row: SeriesRow) -> str:
    if group == "pattern":
        if row.workload.block_size_bytes is None:
            return row.workload_title.split(" · ")[0]
        block_size = describe_value("block_size_bytes", row.workload.block_size_bytes)
        return f"{block_size} {describe_value('pattern', name_pattern(row.workload.rw, row.direction))}"
    if group == "layout":
        return describe_target(row.target)
    return "" if group == "none" else f"{'pool ' if row.is_pool else ''}{row.scope_name}"


_Values = tuple[NDArray[np.int64], NDArray[np.float64]]
_NOTHING: Final[_Values] = (np.empty(0, dtype=np.int64), np.empty(0))


def _read_values(series_ids: Sequence[int], metric: str) -> dict[int, _Values]:
    """Return times (microseconds since 1970) and values of the newest valid runs of each series; one query."""
    # LATERAL: the newest few of each series by the index (series, time), however long its history is.
    rows = sql.SQL(
        "SELECT wanted.id AS series_id, started_at, value FROM unnest(%s::bigint[]) AS wanted(id)"
        " CROSS JOIN LATERAL (SELECT m.id AS point_id, m.started_at, m.{metric} AS value"
        "  FROM benchapp_measurement m"
        "  WHERE m.series_id = wanted.id AND m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL"
        "  ORDER BY m.started_at DESC, m.id DESC LIMIT {limit}) AS newest ORDER BY wanted.id, started_at, point_id"
    ).format(metric=sql.Identifier(metric), limit=sql.Literal(VALUES_MAXIMUM))
    kinds = {"series_id": "bigint", "started_at": "timestamptz", "value": "double precision"}
    arrays = fetch_arrays(rows, [list(series_ids)], columns=kinds)
    found, firsts = np.unique(arrays["series_id"], return_index=True)
    bounds = [*firsts.tolist(), len(arrays["series_id"])]
    return {
        series_id: (arrays["started_at"][first:end], arrays["value"][first:end])
        for series_id, first, end in zip(found.tolist(), bounds, bounds[1:], strict=False)
    }


def _list_steps(times: NDArray[np.int64], levels: Sequence[LevelRow]) -> tuple[tuple[int, int, float], ...]:
    """Return the levels among the values: each from its first run to the first one of the next level."""
    if not levels:
        return ()
    starts = np.searchsorted(times, [to_us(level.from_at) for level in levels]).tolist()
    ends = [*starts[1:], len(times)]
    return tuple(
        (first, end, level.median)
        for first, end, level in zip(starts, ends, levels, strict=True)
        if end > first
    )
