"""The series of a filter in groups, sorted, a page of them with their newest values and levels."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.read.axes import SeriesTable
from benchapp.charts.read.history import name_lines
from benchapp.charts.read.series_columns import read_table
from benchapp.framework.read.binary_columns import CHART_S, fetch_rows, read_cached
from benchapp.incidents.read.series_status import (
    SeriesMark,
    count_open_regressions,
    rank_mark,
    read_series_marks,
)
from benchapp.models.measurement import are_same_kind, select_kind
from benchapp.series.read.levels import LevelRow, find_level_before, read_current_columns, read_levels
from benchapp.series.read.selected_levels import NOW, PAST_SERIES_MAXIMUM, LevelRange, read_levels_in
from benchapp.series.read.series import SeriesRow, read_rows
from benchapp.series.read.titles import describe_target, describe_value, order_value

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
# Behind all that `rank_mark` returns.
_UNMARKED: Final = (4.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class GridSeries:
    """One series. name: what it differs in from the others of its group on the page.

    level: the current one; None without a value of the metric. previous: the level before it; None for the first.
    values: the newest valid ones, at most 60, oldest first; times: theirs, seconds since 1970.
    steps: (index of the first value, index behind the
    last, median) of each level among them, oldest first.
    """

    row: SeriesRow
    name: str
    level: LevelRow | None
    previous: LevelRow | None
    mark: SeriesMark | None
    values: tuple[float, ...]
    times: Sequence[float]
    steps: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class GridPart:
    """One group of a page. label: "" for the group "none"; total: series of the group on all pages."""

    label: str
    total: int
    series: tuple[GridSeries, ...]


@dataclass(frozen=True, slots=True)
class SeriesGrid:
    """One page. total: series of all pages; is_cut: more match than are read. marked: with an open regression of the
    metric, or of what is detected instead; worse: of any metric.

    page: from 1; page_count: at least 1. is_thinned: more than are sorted by the spread of a past end, the others
    behind them.
    """

    metric: Metric
    parts: tuple[GridPart, ...]
    total: int
    marked: int
    worse: int
    page: int
    page_count: int
    is_cut: bool
    is_thinned: bool


def read_series_grid(
    match: Filter,
    *,
    metric: str | None,
    group: GridGroup = "pattern",
    sort: GridSort = "change",
    page: int = 1,
    span: LevelRange = NOW,
) -> SeriesGrid:
    """Return a page of the series that match a filter, 200 each; a page behind the last gives the last.

    Groups are in the order of their first series; if sorted by name, of their labels.

    metric: None for IOPS, or for the elapsed time where no series has IOPS. At most 20 000 series are sorted, the most
    recently measured. One query if the result is cached; else three more for those, four with spreads, and four for a
    page; two more for the fallback. span: series with runs in it, and their levels at its end, without marks if it is
    past: four more queries, and with spreads four more.
    """
    load = partial(_read_grid, match, metric=metric, group=group, sort=sort, page=page, span=span)
    return read_cached("grid", match, metric, group, sort, page, span, load=load, age_s=CHART_S)


def _read_grid(
    match: Filter, *, metric: str | None, group: GridGroup, sort: GridSort, page: int, span: LevelRange
) -> SeriesGrid:
    name = metric or _USUAL
    table, is_cut = read_table(match, [name], span=span)
    if metric is None and table.length and not table.array(f"{name}.has_level").any():
        name = _FALLBACK
        table, is_cut = read_table(match, [name], span=span)
    marks = {} if span.to_at else read_series_marks(table.array("series_id").tolist(), metric=name)
    groups = _rank(table, _GROUPS[group])
    keys = _sort_by_spread(table, name, span) if sort == "spread" else _SORTS[sort](table, marks)
    order = np.lexsort((*reversed(keys), _place_groups(groups, keys[: _GROUP_KEYS[sort]])))
    page_count = max(1, -(-table.length // SERIES_ON_A_PAGE))
    shown = max(1, min(page, page_count))
    places = order[(shown - 1) * SERIES_ON_A_PAGE : shown * SERIES_ON_A_PAGE]
    totals = np.bincount(groups).tolist() if table.length else []
    return SeriesGrid(
        metric=CATALOG[name],
        parts=_read_parts(
            table.array("series_id")[places].tolist(),
            groups[places].tolist(),
            group,
            totals,
            CATALOG[name],
            marks,
            span,
        ),
        total=table.length,
        marked=sum(mark.is_worse_in(name) for mark in marks.values()),
        worse=0 if span.to_at else count_open_regressions(table.array("series_id").tolist(), metric=None),
        page=shown,
        page_count=page_count,
        is_cut=is_cut,
        is_thinned=sort == "spread" and span.to_at is not None and table.length > PAST_SERIES_MAXIMUM,
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


def _place_groups(groups: NDArray[np.int64], keys: _Keys) -> NDArray[np.int64]:
    """Return for each row the place of its group: by its first row in the order of the keys, then by its values."""
    ordered = groups[np.lexsort((groups, *reversed(keys)))]
    return np.unique(ordered, return_index=True)[1][groups]


def _sort_by_change(table: SeriesTable, marks: Mapping[int, SeriesMark]) -> _Keys:
    """Open regressions by size, then open improvements, accepted and recovered changes, then the newest runs."""
    ranks = np.tile(np.array(_UNMARKED), (table.length, 1))
    for place, series_id in enumerate(table.array("series_id").tolist() if marks else ()):
        if series_id in marks:
            state, size = rank_mark(marks[series_id])
            ranks[place] = (state, not marks[series_id].is_regression, size)
    return (*ranks.T, -table.array("last_at"), _rank(table, _NAME))


def _sort_by_spread(table: SeriesTable, metric: str, span: LevelRange) -> _Keys:
    ids = table.array("series_id").tolist()
    levels = (
        read_current_columns(ids, [metric])[metric]
        if span.to_at is None
        else _read_past_columns(ids, metric, span)
    )
    spread = np.full(table.length, np.nan)
    order = np.argsort(table.array("series_id"))
    own = order[np.searchsorted(table.array("series_id"), levels["series_id"], sorter=order)]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread[own] = (levels["p90"] - levels["p10"]) / levels["median"]
    # Unknown ones last.
    return (np.where(np.isfinite(spread), -spread, np.inf), _rank(table, _NAME))


def _read_past_columns(series_ids: Sequence[int], metric: str, span: LevelRange) -> dict[str, NDArray[Any]]:
    """Return the columns of levels at a past end; those of the most recent series, others have no spread."""
    past = read_levels_in(series_ids[:PAST_SERIES_MAXIMUM], CATALOG[metric], span=span, has_recent=False)
    levels = list(past.values())
    return {
        "series_id": np.array([level.series_id for level in levels], dtype=np.int64),
        **{
            name: np.array([getattr(level, name) for level in levels], dtype=np.float64)
            for name in ("median", "p10", "p90")
        },
    }


_SORTS: Final[Mapping[GridSort, Callable[[SeriesTable, Mapping[int, SeriesMark]], _Keys]]] = {
    "change": _sort_by_change,
    "newest": lambda table, marks: (-table.array("last_at"), _rank(table, _NAME)),
    "age": lambda table, marks: (table.array("last_at"), _rank(table, _NAME)),
    "name": lambda table, marks: (_rank(table, _NAME), table.array("series_id")),
}
# How many keys of a sort order the groups too. Not the time of the last run behind changes: groups without a change
# would change places with each run.
_GROUP_KEYS: Final[Mapping[GridSort, int]] = {"change": 3, "newest": 1, "age": 1, "spread": 1, "name": 0}


def _read_parts(
    ids: list[int],
    groups: list[int],
    group: GridGroup,
    totals: Sequence[int],
    metric: Metric,
    marks: Mapping[int, SeriesMark],
    span: LevelRange,
) -> tuple[GridPart, ...]:
    """Return the groups of a page; series that were removed meanwhile are left out. Three queries, at an end seven."""
    rows = {row.id: row for row in read_rows(ids, has_latest=False)}
    levels = {
        series_id: by_metric[metric.name] for series_id, by_metric in read_levels(ids, [metric.name]).items()
    }
    if not span.is_open:
        levels = _cut_levels(levels, metric, span)
    newest = read_newest(ids, metric.name, before_at=span.to_at)
    by_group: dict[int, list[SeriesRow]] = {}
    for series_id, place in zip(ids, groups, strict=True):
        if series_id in rows:
            by_group.setdefault(place, []).append(rows[series_id])
    parts = []
    for place, members in by_group.items():
        series = []
        for row, name in zip(members, name_lines(members), strict=True):
            own, (times, values) = levels[row.id], newest[row.id]
            series.append(
                GridSeries(
                    row=row,
                    name=name,
                    level=own[-1] if own else None,
                    previous=find_level_before(own, len(own) - 1) if own else None,
                    mark=marks.get(row.id),
                    values=values,
                    times=times,
                    steps=_list_steps(times, own),
                )
            )
        parts.append(GridPart(_label(group, members[0]), totals[place], tuple(series)))
    return tuple(parts)


def _cut_levels(
    levels: Mapping[int, Sequence[LevelRow]], metric: Metric, span: LevelRange
) -> dict[int, tuple[LevelRow, ...]]:
    """Return the levels until the end of a range, the last with its runs until then; none without one there."""
    shown = read_levels_in(list(levels), metric, span=span, has_recent=False)
    found: dict[int, tuple[LevelRow, ...]] = dict.fromkeys(levels, ())
    for series_id, level in shown.items():
        begun = [row for row in levels[series_id] if row.from_at <= level.from_at]
        if not begun:
            # Detection stored other levels between the two queries.
            continue
        *earlier, last = begun
        numbers = ("n", "median", "p10", "p90", "minimum", "maximum", "last")
        ended = replace(last, to_at=level.last_at, **{name: getattr(level, name) for name in numbers})
        found[series_id] = (*earlier, ended)
    return found


def _label(group: GridGroup, row: SeriesRow) -> str:
    if group == "pattern":
        if row.workload.block_size_bytes is None:
            return row.workload_title.split(" · ")[0]
        block_size = describe_value("block_size_bytes", row.workload.block_size_bytes)
        return f"{block_size} {describe_value('pattern', name_pattern(row.workload.rw, row.direction))}"
    if group == "layout":
        return describe_target(row.target)
    return "" if group == "none" else f"{'pool ' if row.is_pool else ''}{row.scope_name}"


def read_newest(
    series_ids: Sequence[int], metric: str, *, before_at: datetime | None = None
) -> dict[int, tuple[Sequence[float], tuple[float, ...]]]:
    """Return times (seconds since 1970) and values of the newest valid runs of each series, oldest first; one query.

    Of a latency those of its newest kind.
    """
    # LATERAL: the newest few of each series by the index (series, time), however long its history is. One array of each
    # series: to sort the runs of all takes PostgreSQL as long as to find them.
    query = sql.SQL(
        "SELECT wanted.id, coalesce(found.times, '{{}}'), coalesce(found.values, '{{}}'), coalesce(found.kinds, '{{}}')"
        " FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
        " SELECT array_agg(date_part('epoch', started_at)) AS times, array_agg(value) AS values,"
        "  array_agg(kind::text) AS kinds FROM ("
        "  SELECT started_at, {metric} AS value, {kind} AS kind FROM benchapp_measurement"
        "  WHERE series_id = wanted.id AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL{until}"
        "  ORDER BY started_at DESC, id DESC LIMIT {limit}) AS newest) AS found"
    ).format(
        metric=sql.Identifier(metric),
        kind=sql.SQL(select_kind(metric)),
        limit=sql.Literal(VALUES_MAXIMUM),
        until=sql.SQL("" if before_at is None else " AND started_at < %s"),
    )
    rows = fetch_rows(query.as_string(), [list(series_ids), *([before_at] if before_at else [])])
    found: dict[int, tuple[Sequence[float], tuple[float, ...]]] = {}
    for series_id, times, values, kinds in rows:
        newest = next(filter(None, kinds), "")
        kept = [place for place, kind in enumerate(kinds) if are_same_kind(kind, newest)][::-1]
        found[series_id] = ([times[place] for place in kept], tuple(values[place] for place in kept))
    return found


def _list_steps(times: Sequence[float], levels: Sequence[LevelRow]) -> tuple[tuple[int, int, float], ...]:
    """Return the levels among the values: each from its first run to the first one of the next level."""
    starts = [bisect_left(times, level.from_at.timestamp()) for level in levels]
    return tuple(
        (first, end, level.median)
        for first, end, level in zip(starts, [*starts[1:], len(times)], levels, strict=False)
        if end > first
    )
