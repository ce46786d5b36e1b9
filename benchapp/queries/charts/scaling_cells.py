"""The cells of a chart from its series, with linear scaling and limits."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from benchapp.dimensions import split_pattern
from benchapp.grammar import Value
from benchapp.queries.badges import order_codes
from benchapp.queries.charts.scaling_defaults import Axes
from benchapp.queries.charts.scaling_shapes import (
    CellState,
    Limit,
    ScalingFacet,
    ScalingLimit,
    ScalingLine,
    ScalingMetric,
    ScalingPoint,
    ScalingSpread,
)
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.titles import describe_value

FAILED: Final = "failed-job"
# More provisioned values would clutter the chart.
_PROVISIONED_MAXIMUM: Final = 4
_COUNTS: Final = ("volume_count", "stripe_count")


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of each axis of a chart in order; (None,) without that axis."""

    axes: Axes
    xs: tuple[Value | None, ...]
    colors: tuple[Value | None, ...]
    facets: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class CurrentLevels:
    """Levels of series by id: shown, of the earlier period, and of the throughput that a latency is plotted against."""

    shown: Mapping[int, ScalingSpread]
    earlier: Mapping[int, ScalingSpread]
    overs: Mapping[int, ScalingSpread]


_Key = tuple[Value | None, Value | None, Value | None]


def fill_facets(
    table: SeriesTable,
    levels: CurrentLevels,
    grid: Grid,
    *,
    metric: ScalingMetric,
    limits: Sequence[Limit],
) -> tuple[ScalingFacet, ...]:
    """Return the panels. table: the series of the chart, also those without a value."""
    by_cell = _group(table, grid.axes)
    facets = []
    for value in grid.facets:
        lines = tuple(
            _make_line(table, by_cell, levels, grid=grid, facet=value, color=color, metric=metric)
            for color in grid.colors
        )
        rows = [place for (facet, _, _), places in by_cell.items() if facet == value for place in places]
        facet_limits = tuple(_list_limits(table, rows, grid, metric=metric, limits=limits))
        label = "" if grid.axes.facet is None else describe_value(grid.axes.facet, value)
        facets.append(ScalingFacet(value, label, lines, facet_limits))
    return tuple(facets)


def mix_spreads(spreads: Sequence[ScalingSpread], metric: ScalingMetric) -> ScalingSpread:
    """Return one spread for several series: median of their medians, lowest p10, highest p90.

    Without a median if the metric is a percentile.
    """
    if len(spreads) == 1:
        return spreads[0]
    known = [spread.median for spread in spreads if spread.median is not None]
    return ScalingSpread(
        median=median(known) if metric.may_mix and known else None,
        p10=min(spread.p10 for spread in spreads),
        p90=max(spread.p90 for spread in spreads),
        n=sum(spread.n for spread in spreads),
        last_at=max(spread.last_at for spread in spreads),
    )


def _group(table: SeriesTable, axes: Axes) -> dict[_Key, list[int]]:
    none: Sequence[None] = [None] * table.length
    facets = none if axes.facet is None else table.column(axes.facet)
    colors = none if axes.color is None else table.column(axes.color)
    groups: dict[_Key, list[int]] = defaultdict(list)
    for place, key in enumerate(zip(facets, colors, table.column(axes.x), strict=True)):
        groups[key].append(place)
    return groups


def _make_line(
    table: SeriesTable,
    by_cell: Mapping[_Key, list[int]],
    levels: CurrentLevels,
    *,
    grid: Grid,
    facet: Value | None,
    color: Value | None,
    metric: ScalingMetric,
) -> ScalingLine:
    cells = [_make_cell(table, by_cell.get((facet, color, x), []), levels, metric) for x in grid.xs]
    rows = [place for x in grid.xs for place in by_cell.get((facet, color, x), [])]
    rw, direction = _find_meaning(table, rows, grid.axes, color)
    label = metric.label if grid.axes.color is None else describe_value(grid.axes.color, color)
    return ScalingLine(color, label, rw, direction, tuple(_add_ideal(cells, grid, metric)))


def _find_meaning(
    table: SeriesTable, rows: Sequence[int], axes: Axes, color: Value | None
) -> tuple[str, str]:
    """Return rw and direction if the whole line has one of each, else ""."""
    if axes.color == "pattern" and isinstance(color, str):
        rw, direction = split_pattern(color)
        return rw, direction or ""
    if axes.color in ("rw", "direction"):
        rws = {table.column("rw")[place] for place in rows}
        directions = {table.column("direction")[place] for place in rows}
        if len(rws) == len(directions) == 1:
            return rws.pop(), directions.pop()
    return "", ""


def _make_cell(
    table: SeriesTable, places: Sequence[int], levels: CurrentLevels, metric: ScalingMetric
) -> ScalingPoint:
    if not places:
        return ScalingPoint("missing")
    ids, badges = table.column("id"), table.column("badges")
    failed = sum(FAILED in badges[place] for place in places)
    valued = [place for place in places if ids[place] in levels.shown]
    if not valued:
        state: CellState = "failed" if failed else "unvalued"
        return ScalingPoint(state, series_ids=tuple(ids[place] for place in places), failed_count=failed)
    spread = mix_spreads([levels.shown[ids[place]] for place in valued], metric)
    earlier = [levels.earlier[ids[place]] for place in valued if ids[place] in levels.earlier]
    overs = [levels.overs[ids[place]].median for place in valued if ids[place] in levels.overs]
    return ScalingPoint(
        state="apart" if spread.median is None else "measured",
        spread=spread,
        series_ids=tuple(ids[place] for place in valued),
        badges=order_codes(tuple({code for place in valued for code in badges[place]})),
        over=median([each for each in overs if each is not None]) if overs else None,
        earlier=mix_spreads(earlier, metric) if earlier else None,
        failed_count=failed,
    )


def _add_ideal(cells: Sequence[ScalingPoint], grid: Grid, metric: ScalingMetric) -> Iterator[ScalingPoint]:
    """Yield the cells with linear scaling from the first, for throughput over volumes or stripes."""
    first = next(
        (place for place, cell in enumerate(cells) if cell.value and isinstance(grid.xs[place], int)), None
    )
    if first is None or not metric.is_throughput or grid.axes.x not in _COUNTS:
        yield from cells
        return
    base, least = cells[first].value or 0.0, grid.xs[first]
    for cell, x in zip(cells, grid.xs, strict=True):
        if not isinstance(x, int) or not isinstance(least, int) or not least:
            yield cell
            continue
        ideal = base * (1 if metric.is_per_volume else x / least)
        yield replace(cell, ideal=ideal, efficiency=None if cell.value is None else cell.value / ideal)


def _list_limits(
    table: SeriesTable, rows: Sequence[int], grid: Grid, *, metric: ScalingMetric, limits: Sequence[Limit]
) -> Iterator[ScalingLimit]:
    volumes = [_find_volumes(table, rows, grid, x) for x in grid.xs]
    for limit in limits:
        is_each = limit.is_each and not metric.is_per_volume
        values = [(count and limit.value * count) if is_each else limit.value for count in volumes]
        yield ScalingLimit(limit.name, tuple(values), is_given=True)
    if metric.base == "iops":
        yield from _list_provisioned(table, rows, grid, volumes=volumes, metric=metric)


def _list_provisioned(
    table: SeriesTable,
    rows: Sequence[int],
    grid: Grid,
    *,
    volumes: Sequence[int | None],
    metric: ScalingMetric,
) -> Iterator[ScalingLimit]:
    provisioned, xs = table.column("provisioned_iops"), table.column(grid.axes.x)
    known = sorted({provisioned[place] for place in rows} - {None})
    if grid.axes.x == "provisioned_iops":
        factors = [1 if metric.is_per_volume else count for count in volumes]
        values = [
            x * count if isinstance(x, int) and count else None
            for x, count in zip(grid.xs, factors, strict=True)
        ]
        yield ScalingLimit("provisioned", tuple(values), is_given=False)
    elif len(known) <= _PROVISIONED_MAXIMUM:
        for each in known:
            having = {xs[place] for place in rows if provisioned[place] == each}
            factors = [1 if metric.is_per_volume else count for count in volumes]
            values = [
                each * count if x in having and count else None
                for x, count in zip(grid.xs, factors, strict=True)
            ]
            times = "" if metric.is_per_volume else " × n"
            yield ScalingLimit(
                f"provisioned: {describe_value('provisioned_iops', each)} IOPS{times}",
                tuple(values),
                is_given=False,
            )


def _find_volumes(table: SeriesTable, rows: Sequence[int], grid: Grid, x: Value | None) -> int | None:
    """Return the number of volumes of all series at an x; None if different or unknown."""
    if grid.axes.x == "volume_count":
        return x if isinstance(x, int) else None
    xs, counts = table.column(grid.axes.x), table.column("volume_count")
    found = {counts[place] for place in rows if xs[place] == x}
    return found.pop() if len(found) == 1 else None
