"""The cells of a scaling chart: the level of each series now or at an earlier time, its runs, ideal scaling, limits."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median, median_high
from typing import Any, Final

import numpy as np
from msgspec import structs

from benchapp.catalog.dimensions import split_pattern
from benchapp.catalog.metrics import CATALOG, PERCENTILES, format_with_unit
from benchapp.charts.read.axes import AxisValue, SeriesTable, make_axis
from benchapp.charts.read.chart import ChartCell, ChartLine, ScalingRun
from benchapp.charts.read.scaling_defaults import Axes, list_settings
from benchapp.charts.read.scaling_shapes import (
    KNOWN_LIMITS,
    WIDTH_DIMENSIONS,
    CellState,
    Limit,
    ResolvedRequest,
    ScalingFacet,
    ScalingLimit,
    ScalingMetric,
    ScalingTarget,
)
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.read.limits import KnownLimit, read_known_limits
from benchapp.incidents.read.series_status import (
    LevelValues,
    SeriesMark,
    find_worst_mark,
    read_levels_before,
    read_series_marks,
)
from benchapp.series.read.levels import (
    LevelSpan,
    read_current_columns,
    read_current_spans,
    read_host_names,
    read_level_runs,
    read_spans_before,
)
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, LevelRange, read_levels_in
from benchapp.series.read.shapes import order_codes
from benchapp.series.read.titles import describe_value, format_size

FAILED: Final = "failed-job"
# More provisioned values would clutter the chart.
_PROVISIONED_MAXIMUM: Final = 4
_SIZES_MAXIMUM: Final = 16
_KNOWN_MAXIMUM: Final = 4


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of each axis of a chart in order; (None,) without that axis. named: dimensions that cells name."""

    axes: Axes
    xs: tuple[AxisValue, ...]
    colors: tuple[AxisValue, ...]
    facets: tuple[AxisValue, ...]
    named: tuple[str, ...]


# The values of panel, color and x.
CellKey = tuple[AxisValue, AxisValue, AxisValue]


def list_cell_keys(table: SeriesTable, axes: Axes) -> list[CellKey]:
    """Return the cell of each row."""
    none: Sequence[None] = [None] * table.length
    facets = none if axes.facet is None else table.column(axes.facet)
    colors = none if axes.color is None else table.column(axes.color)
    return list(zip(facets, colors, table.column(axes.x), strict=True))


@dataclass(frozen=True, slots=True)
class SeriesLevels:
    """Levels of series by id: shown, of the earlier period, and of the throughput that a latency is plotted against.

    marks: open and accepted changes; none at an earlier time. before: the level before an open regression. runs: the
    newest of the level shown, oldest first; only if the request has them.
    """

    shown: Mapping[int, LevelValues]
    earlier: Mapping[int, LevelValues]
    overs: Mapping[int, LevelValues]
    marks: Mapping[int, SeriesMark]
    before: Mapping[int, LevelValues]
    runs: Mapping[int, tuple[ScalingRun, ...]] = field(default_factory=dict)


def fill_facets(
    table: SeriesTable, levels: SeriesLevels, grid: Grid, resolved: ResolvedRequest
) -> tuple[ScalingFacet, ...]:
    """Return the panels. table: the series of the chart, also those without a value."""
    metric = resolved.metric
    cells = _CellBuilder(table, levels, grid, metric)
    lines = _LimitBuilder(table, grid, metric)
    facets = []
    labels = _list_labels(grid.axes.facet, grid.facets, "")
    colors = list(zip(grid.colors, _list_labels(grid.axes.color, grid.colors, metric.label), strict=True))
    for facet, label in zip(grid.facets, labels, strict=True):
        rows = cells.list_rows(facet)
        facets.append(
            ScalingFacet(
                value=facet,
                label=label,
                lines=tuple(cells.make_line(facet, *color) for color in colors),
                limits=(
                    *lines.list_targets(rows, resolved.targets),
                    *lines.list_given(rows, resolved.limits),
                    *lines.list_provisioned(rows),
                    *(lines.list_known(rows) if KNOWN_LIMITS in resolved.limits else ()),
                ),
            )
        )
    return tuple(facets)


def _list_labels(name: str | None, values: Sequence[AxisValue], alone: str) -> tuple[str, ...]:
    """Return the labels of an axis; alone: of the only value without an axis."""
    return (alone,) if name is None else make_axis(name, values).labels


class _CellBuilder:
    """Makes the lines of a chart from its series, grouped by cell."""

    def __init__(self, table: SeriesTable, levels: SeriesLevels, grid: Grid, metric: ScalingMetric) -> None:
        self._table, self._levels, self._grid, self._metric = table, levels, grid, metric
        self._ids, self._badges = table.column("id"), table.column("badges")
        self._series_ids = table.column("series_id")
        self._rows: dict[CellKey, list[int]] = defaultdict(list)
        for row, key in enumerate(list_cell_keys(table, grid.axes)):
            self._rows[key].append(row)

    def list_rows(self, facet: AxisValue) -> list[int]:
        """Return the rows of a panel."""
        return [row for (value, _, _), rows in self._rows.items() if value == facet for row in rows]

    def make_line(self, facet: AxisValue, color: AxisValue, label: str) -> ChartLine:
        """Return a line with its cells."""
        grid, metric = self._grid, self._metric
        by_x = [self._rows.get((facet, color, x), []) for x in grid.xs]
        rw, direction = self._find_pattern([row for rows in by_x for row in rows], color)
        cells = [self._make_cell(rows) for rows in by_x]
        return ChartLine(color, label, tuple(_add_ideal(cells, grid, metric)), rw, direction)

    def _make_cell(self, rows: Sequence[int]) -> ChartCell:
        if not rows:
            return ChartCell(state="missing")
        levels = self._levels
        failed = sum(FAILED in self._badges[row] for row in rows)
        valued = [row for row in rows if self._ids[row] in levels.shown]
        if not valued:
            state: CellState = "failed" if failed else "unvalued"
            series_ids = tuple(self._series_ids[row] for row in rows)
            return ChartCell(state=state, series_ids=series_ids, failed_count=failed)
        ids = tuple(self._ids[row] for row in valued)
        spread = mix_spreads([levels.shown[each] for each in ids], self._metric)
        earlier = [levels.earlier[each] for each in ids if each in levels.earlier]
        base = self._metric.base
        marks = [levels.marks[each] for each in ids if each in levels.marks]
        overs = [levels.overs[each].median for each in ids if each in levels.overs]
        return ChartCell(
            state="measured",
            **{name: getattr(spread, name) for name in ("median", "p10", "p90", "n", "last_at")},
            series_ids=tuple(self._series_ids[row] for row in valued),
            badges=order_codes(tuple({code for row in valued for code in self._badges[row]})),
            over=median([each for each in overs if each is not None]) if overs else None,
            earlier_median=mix_spreads(earlier, self._metric).median if earlier else None,
            failed_count=failed,
            mark=find_worst_mark([mark for mark in marks if mark.is_open_in(base)] or marks),
            regressed_count=sum(mark.is_worse_in(base) for mark in marks),
            before=mix_spreads([levels.before.get(each, levels.shown[each]) for each in ids], self._metric)
            if levels.before.keys() & set(ids)
            else None,
            settings=list_settings(self._table, valued, self._grid.named),
            runs=_order_runs(run for each in ids for run in levels.runs.get(each, ())),
        )

    def _find_pattern(self, rows: Sequence[int], color: AxisValue) -> tuple[str, str]:
        """Return rw and direction if the whole line has one of each, else ""."""
        name = self._grid.axes.color
        if name == "pattern" and isinstance(color, str):
            rw, direction = split_pattern(color)
            return rw, direction or ""
        if name in ("rw", "direction"):
            rws = {self._table.column("rw")[row] for row in rows}
            directions = {self._table.column("direction")[row] for row in rows}
            if len(rws) == len(directions) == 1:
                return rws.pop(), directions.pop()
        return "", ""


class _LimitBuilder:
    """Makes the limits of a panel, in its metric: the given ones and provisioned IOPS."""

    def __init__(self, table: SeriesTable, grid: Grid, metric: ScalingMetric) -> None:
        self._grid, self._metric = grid, metric
        self._keys = list_cell_keys(table, grid.axes)
        self._xs, self._volumes = table.column(grid.axes.x), table.column("volume_count")
        self._provisioned = table.column("provisioned_iops")
        self._types, self._instances = table.column("volume_type"), table.column("instance_type")
        self._block_sizes = table.column("block_size_bytes")
        self._sizes = table.column("volume_size_bytes")

    def list_given(self, rows: Sequence[int], limits: Sequence[Limit]) -> Iterator[ScalingLimit]:
        """Yield the given limits; a limit per volume is multiplied by the number of volumes."""
        counts = self._count_volumes(rows)
        for limit in (each for each in limits if each != KNOWN_LIMITS):
            values = _multiply(limit.value, counts) if limit.is_each else [limit.value] * len(counts)
            yield ScalingLimit(limit.name, tuple(values), is_given=True)

    def list_targets(self, rows: Sequence[int], targets: Sequence[ScalingTarget]) -> Iterator[ScalingLimit]:
        """Yield the targets of the metric."""
        own = [target for target in targets if target.metric == self._metric]
        limits = self.list_given(rows, [target.limit for target in own])
        for target, limit in zip(own, limits, strict=True):
            yield replace(limit, target=target)

    def list_provisioned(self, rows: Sequence[int]) -> Iterator[ScalingLimit]:
        """Yield the provisioned IOPS of the volumes if the metric is IOPS; not for more than four values.

        Each applies to the cells whose layouts all have it.
        """
        if self._metric.base != "iops":
            return
        xs = self._grid.xs
        if self._grid.axes.x == "provisioned_iops":
            products = [
                x * count if isinstance(x, int) and count else None
                for x, count in zip(xs, self._count_volumes(rows), strict=True)
            ]
            yield ScalingLimit("provisioned", tuple(products), is_given=False)
            return
        by_iops = self._group_cells(self._provisioned, rows)
        if len(by_iops) > _PROVISIONED_MAXIMUM:
            return
        times = "" if self._metric.is_per_volume else " × n"
        for iops, own in sorted(by_iops.items()):
            cells = self._find_cells(own)
            values = _multiply(iops, _keep_places(self._count_volumes(own), cells))
            name = f"provisioned: {describe_value('provisioned_iops', iops)} IOPS{times}"
            yield ScalingLimit(name, tuple(values), is_given=False, cells=cells)

    def _group_cells(self, column: Sequence[Any], rows: Sequence[int]) -> dict[Any, list[int]]:
        """Return the rows of the cells of a panel whose layouts all have the same known value, by the value."""
        cells: dict[CellKey, list[int]] = defaultdict(list)
        for row in rows:
            cells[self._keys[row]].append(row)
        found: dict[Any, list[int]] = defaultdict(list)
        for own in cells.values():
            values = {column[row] for row in own}
            if len(values) == 1 and (value := values.pop()) is not None:
                found[value] += own
        return found

    def _find_cells(self, rows: Sequence[int]) -> frozenset[tuple[AxisValue, int]]:
        """Return the cells of the rows of a panel: value of the line and index on x."""
        keys = {self._keys[row] for row in rows}
        return frozenset((color, self._grid.xs.index(x)) for _, color, x in keys)

    def list_known(self, rows: Sequence[int]) -> Iterator[ScalingLimit]:
        """Yield the published limits of the volume types and instance types, for the cells whose layouts have one type.

        At most four types of each; each in IOPS and as bandwidth, which the block size converts.
        """
        known = read_known_limits()
        for is_instance, column in ((False, self._types), (True, self._instances)):
            by_type = self._group_cells(column, rows)
            names = sorted(name for name in by_type if (is_instance, name) in known)
            for name in names[:_KNOWN_MAXIMUM]:
                limit = known[is_instance, name]
                if not limit.depends_on_size:
                    yield from self._list_of_type(limit, by_type[name])
                    continue
                by_size = self._group_cells(self._sizes, by_type[name])
                for size, own in sorted(by_size.items())[:_SIZES_MAXIMUM]:
                    yield from self._list_of_type(limit.at_size(size), own, size=f" {format_size(size)}")

    def _list_of_type(
        self, limit: KnownLimit, rows: Sequence[int], *, size: str = ""
    ) -> Iterator[ScalingLimit]:
        """Yield the limit of a type in the unit of the metric, its burst, and its other limit by the block size.

        rows: of the cells that have the type; size: of their volumes, if the limit depends on it. Of volumes the other
        limit is left out where the first one is lower at every x: it never applies.
        """
        cells, sizes = self._find_cells(rows), self._find_only(self._block_sizes, rows)
        counts = self._count_volumes_of_layouts(rows) if limit.is_instance else self._count_volumes(rows)
        # By what the limit of the type is multiplied at each x.
        factors = [
            None if not count else 1 / count if limit.is_instance else float(count)
            for count in _keep_places(counts, cells)
        ]
        start = f"instance {limit.name}" if limit.is_instance else f"{limit.name}{size}"
        times = "" if limit.is_instance or self._metric.is_per_volume else " × n"
        is_iops = self._metric.base == "iops"
        other_name = "bandwidth_bytes_per_s" if is_iops else "iops"
        native, other = getattr(limit, self._metric.base), getattr(limit, other_name)
        if native is not None:
            values = tuple(None if factor is None else native * factor for factor in factors)
            yield ScalingLimit(
                f"{start} {format_with_unit(native, self._metric)}{times}", values, is_given=True, cells=cells
            )
        if is_iops and limit.burst_iops and native and native < limit.burst_iops:
            values = tuple(None if factor is None else limit.burst_iops * factor for factor in factors)
            text = format_with_unit(limit.burst_iops, self._metric)
            yield ScalingLimit(f"{start} burst {text}{times}", values, is_given=True, cells=cells)
        if other is None:
            return
        converted = [
            None if size is None else other / size if is_iops else float(other * size) for size in sizes
        ]
        values = tuple(
            None if factor is None or value is None else value * factor
            for factor, value in zip(factors, converted, strict=True)
        )
        lowest = min((value for value in converted if value is not None), default=None)
        if not any(values) or (not limit.is_instance and native and lowest is not None and lowest >= native):
            return
        shown = sorted({size for size in sizes if size is not None})
        at = f" at {format_size(shown[0])}" if len(shown) == 1 else ""
        kind = " bandwidth" if is_iops else ""
        text = format_with_unit(other, CATALOG[other_name])
        yield ScalingLimit(f"{start}{kind} {text}{at}{times}", values, is_given=True, cells=cells)

    def _find_only(self, column: Sequence[Any], rows: Sequence[int]) -> list[Any]:
        """Return the value of a column that all rows of an x have; None where they differ, or it is unknown."""
        found = [{column[row] for row in rows if self._xs[row] == x} for x in self._grid.xs]
        return [own.pop() if len(own) == 1 else None for own in found]

    def _count_volumes_of_layouts(self, rows: Sequence[int]) -> list[int | None]:
        """Return the number of volumes at each x, for metrics per volume; 1 for others, for which it does not count."""
        if not self._metric.is_per_volume:
            return [1] * len(self._grid.xs)
        return self._find_only(self._volumes, rows)

    def _count_volumes(self, rows: Sequence[int]) -> list[int | None]:
        """Return by how much a limit per volume is multiplied at each x; None if different or unknown."""
        if self._metric.is_per_volume:
            return [1] * len(self._grid.xs)
        if self._grid.axes.x == "volume_count":
            return [x if isinstance(x, int) else None for x in self._grid.xs]
        return self._find_only(self._volumes, rows)


def _keep_places(counts: Sequence[int | None], cells: Collection[tuple[AxisValue, int]]) -> list[int | None]:
    """Return the counts at the x of these cells; None elsewhere."""
    places = {place for _, place in cells}
    return [count if place in places else None for place, count in enumerate(counts)]


def _multiply(value: float, counts: Sequence[int | None]) -> list[float | None]:
    return [value * count if count else None for count in counts]


def _order_runs(runs: Iterable[ScalingRun]) -> tuple[ScalingRun, ...]:
    return tuple(sorted(runs, key=lambda run: (run.started_at, run.run, run.series)))


def mix_spreads(spreads: Sequence[LevelValues], metric: ScalingMetric) -> LevelValues:
    """Return one spread for several series: median of their medians, lowest p10, highest p90.

    Percentiles are not averaged: of two in the middle the higher one.
    """
    if len(spreads) == 1:
        return spreads[0]
    known = [spread.median for spread in spreads if spread.median is not None]
    find_middle = median_high if metric.base in PERCENTILES else median
    return LevelValues(
        median=find_middle(known) if known else None,
        p10=min(spread.p10 for spread in spreads),
        p90=max(spread.p90 for spread in spreads),
        n=sum(spread.n for spread in spreads),
        last_at=max(spread.last_at for spread in spreads),
    )


def _add_ideal(cells: Sequence[ChartCell], grid: Grid, metric: ScalingMetric) -> Iterator[ChartCell]:
    """Yield the cells with linear scaling from the first, for throughput over volumes or stripes."""
    first = next(
        (place for place, cell in enumerate(cells) if cell.steady.median and isinstance(grid.xs[place], int)),
        None,
    )
    if first is None or not metric.is_throughput or grid.axes.x not in WIDTH_DIMENSIONS:
        yield from cells
        return
    base, least = cells[first].steady.median or 0.0, grid.xs[first]
    for cell, x in zip(cells, grid.xs, strict=True):
        if not isinstance(x, int) or not isinstance(least, int) or not least:
            yield cell
            continue
        ideal = base * (1 if metric.is_per_volume else x / least)
        level = cell.steady.median
        yield structs.replace(cell, ideal=ideal, efficiency=None if level is None else level / ideal)


def read_series_levels(resolved: ResolvedRequest, table: SeriesTable) -> SeriesLevels:
    """Return the levels of the series of a table; two queries, four for each of a past end and the earlier period.

    One more with an open regression.
    """
    span, earlier_at = resolved.request.span, resolved.earlier_at
    marks = {} if span.to_at else _read_marks(table, resolved.metric.base)
    return SeriesLevels(
        shown=read_spreads(table, resolved.metric, span),
        earlier={}
        if earlier_at is None
        else read_spreads(table, resolved.metric, LevelRange(to_at=earlier_at)),
        overs={} if resolved.over is None else read_spreads(table, resolved.over, span),
        marks=marks,
        before=_read_before(table, resolved.metric, marks),
    )


def _read_before(
    table: SeriesTable, metric: ScalingMetric, marks: Mapping[int, SeriesMark]
) -> Mapping[int, LevelValues]:
    """Return the levels before open regressions; none of groups of runs, which are shown as they are."""
    if table.group_levels is not None:
        return {}
    levels = _list_spreads(read_levels_before(marks, metric=metric.base))
    return _divide_all(table, levels) if metric.is_per_volume else levels


def _read_marks(table: SeriesTable, metric: str) -> Mapping[int, SeriesMark]:
    """Return the marks by id; of groups of runs only of those in the current level."""
    marks = read_series_marks(table.column("series_id"), metric=metric)
    if table.group_levels is None:
        return marks
    levels = table.group_levels[metric]
    rows = zip(table.column("id"), table.column("series_id"), strict=True)
    return {
        number: marks[series_id]
        for number, series_id in rows
        if series_id in marks and number in levels and levels[number].is_current
    }


def read_spreads(table: SeriesTable, metric: ScalingMetric, span: LevelRange) -> Mapping[int, LevelValues]:
    """Return the level of a metric in a range by series, per volume if the metric is."""
    if span.to_at is None:
        current = _read_current(table, metric.base)
        levels = {number: level for number, level in current.items() if span.has_run(level.last_at)}
    else:
        ids = table.column("id")[:PAST_SERIES_MAXIMUM]
        levels = _list_spreads(read_levels_in(ids, CATALOG[metric.base], span=span, has_recent=False))
    return _divide_all(table, levels) if metric.is_per_volume else levels


def _list_spreads(levels: Mapping[int, Any]) -> dict[int, LevelValues]:
    """Return what a cell has of each level."""
    return {
        number: LevelValues(level.median, level.p10, level.p90, level.n, level.last_at)
        for number, level in levels.items()
    }


def _divide_all(table: SeriesTable, levels: Mapping[int, LevelValues]) -> Mapping[int, LevelValues]:
    counts = dict(zip(table.column("id"), table.column("volume_count"), strict=True))
    return {series_id: _divide(level, counts[series_id]) for series_id, level in levels.items()}


def _read_current(table: SeriesTable, metric: str) -> Mapping[int, LevelValues]:
    if table.group_levels is not None:
        groups, own = table.group_levels[metric], set(table.column("id"))
        return _list_spreads({number: group.level for number, group in groups.items() if number in own})
    columns = read_current_columns(table.column("id"), [metric])[metric]
    numbers = zip(
        *(columns[name].tolist() for name in ("series_id", "median", "p10", "p90", "n", "to_at")), strict=True
    )
    return {
        series_id: LevelValues(median, p10, p90, n, from_us(to_us))
        for series_id, median, p10, p90, n, to_us in numbers
    }


def read_runs(
    resolved: ResolvedRequest, table: SeriesTable, *, cells: Mapping[int, object], maximum: int
) -> Mapping[int, tuple[ScalingRun, ...]]:
    """Return the newest runs of the level of each series, oldest first.

    cells: the cell of each series with a value, by id. maximum: runs of each cell, shared equally by its series; of
    those beyond it the most recent ones have a run each. Four queries, and those of the maintenance.
    """
    metric = resolved.metric
    counts = Counter(cells.values())
    taken: Counter[object] = Counter()
    newest: dict[int, int] = {}
    # The table is in the order of time, most recent first.
    for number in table.column("id"):
        if number in cells and taken[cells[number]] < maximum:
            taken[cells[number]] += 1
            newest[number] = max(1, maximum // counts[cells[number]])
    spans = _read_spans(resolved, table)
    other = resolved.over.base if resolved.over else ""
    found = read_level_runs(
        {number: spans[number] for number in newest if number in spans},
        metric.base,
        newest=newest,
        other=other,
        terms=resolved.request.filter.run_terms,
    )
    names = read_host_names(found.values())
    divisors = (
        dict(zip(table.column("id"), table.column("volume_count"), strict=True))
        if metric.is_per_volume
        else {}
    )
    return {
        number: tuple(
            ScalingRun(
                run=run_id,
                series=spans[number].series_id,
                host=names[run_id],
                started_at=started_at,
                value=value / divisors.get(number, 1),
                over=None if not other or np.isnan(over) else over,
            )
            for run_id, started_at, value, over in zip(
                runs.run_ids.tolist(),
                runs.list_times(),
                runs.values.tolist(),
                runs.others.tolist(),
                strict=True,
            )
        )
        for number, runs in found.items()
    }


def _read_spans(resolved: ResolvedRequest, table: SeriesTable) -> Mapping[int, LevelSpan]:
    """Return the span of the level shown of each series by id; one query, of groups of runs none."""
    metric, ids = resolved.metric.base, table.column("id")
    if (before_at := resolved.request.span.to_at) is not None:
        return read_spans_before(list(ids)[:PAST_SERIES_MAXIMUM], metric, before_at=before_at)
    if table.group_levels is None:
        return read_current_spans(list(ids), metric)
    return {number: group.span for number, group in table.group_levels[metric].items()}


def _divide(level: LevelValues, count: int) -> LevelValues:
    median = None if level.median is None else level.median / count
    return LevelValues(median, level.p10 / count, level.p90 / count, level.n, level.last_at)
