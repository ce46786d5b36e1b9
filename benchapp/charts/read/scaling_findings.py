"""The findings of a scaling chart, the knees of its curves, and the models of how they scale."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Final

import numpy as np

from benchapp.catalog.grammar import Value
from benchapp.charts.read.axes import GROUP, Axis
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.scaling_shapes import WIDTH_DIMENSIONS, ScalingChart, ScalingLimit
from benchapp.charts.rules.findings import (
    AtLimit,
    Cliff,
    ContrastFinding,
    Curve,
    CurvePlace,
    CurvePoint,
    Finding,
    LimitFinding,
    estimate_error,
    find_at_limit,
    find_cliffs,
    find_contrast,
    find_extremes,
    find_knee,
    list_places,
    read_curve,
)
from benchapp.charts.rules.scaling_models import (
    NoModel,
    Prediction,
    RefusalCode,
    ScalingModel,
    WidthValue,
    fit_scaling,
)
from benchapp.series.rules import Dependence, fit_dependence

# A difference between patterns is expected.
_PATTERNS: Final = ("pattern", "rw", "direction")
_PAIR: Final = 2
_REPEATED: Final = ("host", "pool")
_BAND_POINTS: Final = 40


def find_findings(chart: ScalingChart) -> tuple[Finding, ...]:
    """Return the findings of a chart: cliffs, contrasts, each curve, then curves at a limit."""
    if chart.over is not None:
        return ()
    curves = {
        (row, column): _make_curve(chart, row, column)
        for row, facet in enumerate(chart.panels)
        for column in range(len(facet.lines))
    }
    cliffs = sorted(_list_cliffs(chart, curves), key=lambda cliff: cliff.share)
    contrasts = _list_contrasts(chart, curves, cliffs)
    if not chart.x.dimension.is_number:
        shown = () if chart.x.name in _PATTERNS else curves.values()
        extremes = (find_extremes(curve) for curve in shown)
        return (*cliffs, *contrasts, *(found for found in extremes if found is not None))
    read = [finding for curve in curves.values() if (finding := read_curve(curve)) is not None]
    return (*cliffs, *contrasts, *read, *_list_at_limits(chart, curves))


@dataclass(frozen=True, slots=True)
class TargetReach:
    """Which values of one curve reach a target. reached, missed: places on x. target: of its panel."""

    target: ScalingLimit
    facet: int
    line: int
    reached: tuple[int, ...]
    missed: tuple[int, ...]


def find_reach(chart: ScalingChart) -> tuple[TargetReach, ...]:
    """Return which values reach the targets of the chart's metric, by target, panel and line."""
    found = [
        _measure_reach(limit, line, TargetReach(limit, row, column, (), ()))
        for row, facet in enumerate(chart.panels)
        for limit in facet.limits
        if limit.target is not None
        for column, line in enumerate(facet.lines)
    ]
    order = [target.name for target in chart.targets]
    return tuple(
        sorted(
            (each for each in found if each.reached or each.missed),
            key=lambda each: order.index(each.target.name),
        )
    )


def _measure_reach(limit: ScalingLimit, line: ChartLine, reach: TargetReach) -> TargetReach:
    places = [
        place for place, cell in enumerate(line.cells) if is_target_reached(limit, cell, place) is not None
    ]
    reached = tuple(place for place in places if is_target_reached(limit, line.cells[place], place))
    return replace(reach, reached=reached, missed=tuple(place for place in places if place not in reached))


def is_target_reached(limit: ScalingLimit, cell: ChartCell, place: int) -> bool | None:
    """Return whether a value reaches a target; None if it is not a target, or either is unknown."""
    wanted = limit.values[place]
    if limit.target is None or cell.median is None or wanted is None:
        return None
    return limit.target.is_reached(cell.median, wanted)


def find_bends(chart: ScalingChart) -> list[tuple[int, int, int | None]]:
    """Return facet, line and knee of each line with two points or more, if latency is plotted against throughput.

    The knee is an index on x; None if the line has none.
    """
    bends: list[tuple[int, int, int | None]] = []
    if chart.over is None or chart.is_by_condition:
        return bends
    for row, facet in enumerate(chart.panels):
        for column, line in enumerate(facet.lines):
            places = [
                place
                for place, cell in enumerate(line.cells)
                if cell.median is not None and cell.over is not None
            ]
            knee = find_knee(
                [line.cells[place].over or 0.0 for place in places],
                [line.cells[place].median or 0.0 for place in places],
            )
            if len(places) > 1:
                bends.append((row, column, None if knee is None else places[knee]))
    return bends


_ROUND_TRIP: Final = "storage_round_trip_s"


@dataclass(frozen=True, slots=True)
class CurveDependence:
    """The runs of one curve by a condition. low, high: of the condition. fit: None of few runs or a single value.

    below_round_trip: runs with a latency below the round-trip time, which no request that reaches the server can have;
    None for other conditions and metrics. is_cut: older runs are left out.
    """

    facet: int
    line: int
    n: int
    low: float
    high: float
    fit: Dependence | None
    below_round_trip: int | None
    is_cut: bool


def find_dependences(chart: ScalingChart) -> tuple[CurveDependence, ...]:
    """Return the slope of each curve with runs; () unless x is a condition."""
    if not chart.is_by_condition:
        return ()
    is_bounded = chart.x.name == _ROUND_TRIP and chart.metric.unit == "ns"
    found = []
    for row, facet in enumerate(chart.panels):
        for column, line in enumerate(facet.lines):
            runs = [run for cell in line.cells for run in cell.runs]
            if not runs:
                continue
            x = np.array([run.over for run in runs], dtype=np.float64)
            y = np.array([run.value for run in runs], dtype=np.float64)
            found.append(
                CurveDependence(
                    facet=row,
                    line=column,
                    n=len(runs),
                    low=float(x.min()),
                    high=float(x.max()),
                    fit=fit_dependence(x, y),
                    below_round_trip=int((y < x).sum()) if is_bounded else None,
                    is_cut=(facet.value, line.value) in chart.cut_curves,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WidthShare:
    """What a width reaches of the highest throughput, as a share."""

    width: int
    share: float


@dataclass(frozen=True, slots=True)
class CurveModel:
    """How the throughput of one line scales. model: None if it is refused, with the code and the reason.

    shares: of the highest throughput, by width, where the model has a peak in its range. predictions: of the widths
    that were asked for and that the model covers; outside: the others.
    """

    facet: int
    line: int
    model: ScalingModel | None
    code: RefusalCode | None = None
    reason: str = ""
    shares: tuple[WidthShare, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    outside: tuple[int, ...] = ()

    def list_widths(self) -> list[int]:
        """Return the widths to draw, to the largest measured or predicted: all, or forty evenly on a log axis."""
        if self.model is None:
            return []
        first, last = (
            self.model.counts[0],
            max([self.model.counts[-1], *(each.width for each in self.predictions)]),
        )
        if last - first < _BAND_POINTS:
            return list(range(first, last + 1))
        step = log2(last / first) / (_BAND_POINTS - 1)
        return sorted({round(first * 2 ** (place * step)) for place in range(_BAND_POINTS)})


def find_models(chart: ScalingChart) -> tuple[CurveModel, ...]:
    """Return the model of each line with a value; () unless the request has models and the metric can scale.

    About 4 ms for each line.
    """
    if not (chart.request.has_models and chart.metric.can_scale):
        return ()
    return tuple(
        _fit_line(chart, row, column)
        for row, facet in enumerate(chart.panels)
        for column, line in enumerate(facet.lines)
        if any(cell.median is not None for cell in line.cells)
    )


def _fit_line(chart: ScalingChart, row: int, column: int) -> CurveModel:
    points = [
        WidthValue(int(point.count), point.value, point.error)
        for point in _make_curve(chart, row, column).points
        if point.count is not None
    ]
    try:
        model = fit_scaling(points)
    except NoModel as refusal:
        return CurveModel(row, column, None, refusal.code, str(refusal), outside=chart.request.predicted)
    inside = [width for width in chart.request.predicted if model.covers(width)]
    shares = ((width, model.find_share(width)) for width in model.counts)
    return CurveModel(
        row,
        column,
        model,
        shares=tuple(WidthShare(width, share) for width, share in shares if share is not None),
        predictions=tuple(model.predict(width) for width in inside),
        outside=tuple(width for width in chart.request.predicted if width not in inside),
    )


def _make_curve(chart: ScalingChart, row: int, column: int) -> Curve:
    is_count = chart.x.name in WIDTH_DIMENSIONS and chart.metric.can_scale
    points = []
    for place, (x, cell) in enumerate(
        zip(chart.x.values, chart.panels[row].lines[column].cells, strict=True)
    ):
        level = cell.steady
        if level.median is not None and level.p10 is not None and level.p90 is not None:
            count = float(x) if is_count and isinstance(x, int | float) else None
            error = estimate_error(level.p10, level.p90, level.n)
            points.append(CurvePoint(CurvePlace(row, column, place), level.median, count, error))
    return Curve(tuple(points), chart.metric.better == "higher")


def list_replaced(chart: ScalingChart, finding: Finding) -> tuple[int, ...]:
    """Return the places on x where a finding uses the level before an open regression, in order."""
    places = list_places(finding)
    if not isinstance(finding, Cliff | ContrastFinding):
        # The finding of a curve rests on all its values.
        return list_replaced_in(chart.panels[places[0].facet].lines[places[0].line])
    replaced = {
        place.x for place in places if chart.panels[place.facet].lines[place.line].cells[place.x].before
    }
    return tuple(sorted(replaced))


def list_confounded(chart: ScalingChart, finding: Finding) -> tuple[str, ...]:
    """Return the dimensions, other than the axes, with several known values among the series of a finding.

    Hosts are repetitions; groups of series differ on purpose.
    """
    if GROUP in (chart.x.name, chart.color and chart.color.name, chart.facet and chart.facet.name):
        return ()
    places = list_places(finding)
    cells = [chart.panels[place.facet].lines[place.line].cells[place.x] for place in places]
    if not isinstance(finding, Cliff | ContrastFinding):
        # The finding of a curve rests on all its values.
        cells = [*chart.panels[places[0].facet].lines[places[0].line].cells]
    found: dict[str, set[tuple[Value | None, ...]]] = defaultdict(set)
    for name, values in (setting for cell in cells if cell.n for setting in cell.settings):
        if values != (None,):
            found[name].add(values)
    return tuple(name for name in chart.varying if name not in _REPEATED and len(found[name]) > 1)


def list_replaced_in(line: ChartLine) -> tuple[int, ...]:
    """Return the places on x of a line that has the level before an open regression there."""
    return tuple(place for place, cell in enumerate(line.cells) if cell.before)


def _list_cliffs(chart: ScalingChart, curves: dict[tuple[int, int], Curve]) -> Iterator[Cliff]:
    rows, columns = range(len(chart.panels)), range(len(chart.panels[0].lines))
    if _is_ordered(chart.facet):
        for column in columns:
            yield from find_cliffs([curves[row, column] for row in rows], is_facet=True)
    if _is_ordered(chart.color):
        for row in rows:
            yield from find_cliffs([curves[row, column] for column in columns], is_facet=False)


def _list_contrasts(
    chart: ScalingChart, curves: dict[tuple[int, int], Curve], cliffs: Sequence[Cliff]
) -> Iterator[ContrastFinding]:
    """Yield the contrast of two panels or two lines without a cliff; not for more than two."""
    rows, columns = len(chart.panels), len(chart.panels[0].lines)
    pairs = [((0, column), (1, column)) for column in range(columns)] if rows == _PAIR else []
    if columns == _PAIR and chart.color is not None and chart.color.name not in _PATTERNS:
        pairs += [((row, 0), (row, 1)) for row in range(rows)]
    described = {(cliff.value.place.facet, cliff.value.place.line) for cliff in cliffs}
    for one, other in pairs:
        found = None if other in described else find_contrast(curves[one], curves[other])
        if found is not None:
            yield found


def _is_ordered(axis: Axis | None) -> bool:
    return axis is not None and axis.dimension.is_number


def _list_at_limits(chart: ScalingChart, curves: dict[tuple[int, int], Curve]) -> Iterator[AtLimit]:
    for row, facet in enumerate(chart.panels):
        for limit in facet.limits:
            if limit.target is not None:
                continue
            for column, line in enumerate(facet.lines):
                values = tuple(limit.find_value(line, place) for place in range(len(limit.values)))
                found = find_at_limit(curves[row, column], LimitFinding(row, limit.name, values))
                if found is not None:
                    yield found
