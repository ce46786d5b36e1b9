"""The values of a scaling chart: panels, lines, cells, limits; its parameters and its metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import log2
from typing import Annotated, Any, Final, Literal

from django.utils import timezone
from msgspec import Meta

from benchapp.catalog.dimensions import CONDITIONS, DIMENSIONS
from benchapp.catalog.grammar import Filter, Value
from benchapp.catalog.metrics import CATALOG, METRIC_WORDS, Metric, Unit
from benchapp.charts.read.axes import (
    GROUP,
    GROUPS_MAXIMUM,
    Axis,
    AxisValue,
    GroupCount,
    SeriesGroup,
    add_axis_value,
)
from benchapp.charts.read.chart import Chart, ChartLine, ChartPanel, list_options, option
from benchapp.series.read.selected_levels import NOW, LevelRange

LIMITS_MAXIMUM: Final = 8
TARGETS_MAXIMUM: Final = 8
METRICS_MAXIMUM: Final = 3
# Axes along which throughput scales.
WIDTH_DIMENSIONS: Final = ("volume_count", "stripe_count")
PREDICTED_MAXIMUM: Final = 8
WIDTH_MAXIMUM: Final = 10_000
COMPARE_DAYS_MAXIMUM: Final = 3650
# More dots cover each other in a bar; 5 000 in all panels and metrics are 60 KB of the compressed page.
CELL_RUNS_MAXIMUM: Final = 200
CHART_RUNS_MAXIMUM: Final = 5000
_NAME_MAXIMUM: Final = 60
_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)
_VALUE: Final = re.compile(
    r"(?P<number>\d{1,12}(?:\.\d{1,6})?)\s*(?P<unit>[A-Za-zµ/]{0,6})\s*(?P<each>\*\s*+n)?", re.IGNORECASE
)
_UNITS: Final[dict[str, dict[str, float]]] = {
    "operations/s": {"": 1.0, "iops": 1.0, "k": 1e3, "kiops": 1e3, "m": 1e6},
    "bytes/s": {
        "": 1.0,
        "b/s": 1.0,
        "kb/s": 1e3,
        "mb/s": 1e6,
        "gb/s": 1e9,
        "kib/s": 2.0**10,
        "mib/s": 2.0**20,
        "gib/s": 2.0**30,
    },
    "ns": {"": 1.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "s": {"": 1.0, "s": 1.0, "ms": 1e-3},
}
_LIMITED_UNITS: Final = ("operations/s", "bytes/s")
_EXAMPLES: Final = {
    "operations/s": "16000, 2000*n",
    "bytes/s": "125MB/s, 125MB/s*n",
    "ns": "1ms, 500us",
    "s": "10s",
}


class BadLimit(Exception):
    """A limit or target that cannot be parsed; the message has the format."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A named limit in the metric's base unit; is_each: per volume, n volumes have n times the value."""

    name: str
    value: float
    is_each: bool
    text: str


# Instead of NAME:VALUE: the published limits of the volume types and instance types of the chart.
KNOWN_LIMITS: Final = Limit("known", 0.0, is_each=False, text="known")


def parse_limit(text: str, unit: Unit) -> Limit:
    """Read "NAME:VALUE", where VALUE may have a unit of the metric and "*n" for each volume; "known" is KNOWN_LIMITS.

    Raises BadLimit.
    """
    if text.strip().lower() == KNOWN_LIMITS.text:
        if unit not in _LIMITED_UNITS:
            raise BadLimit("published limits are known of IOPS and bandwidth only")
        return KNOWN_LIMITS
    name, colon, value = text.rpartition(":")
    name = " ".join(name.replace("\x00", "").split())
    match = _VALUE.fullmatch(value.strip())
    units = _UNITS.get(unit, {"": 1.0})
    if not colon or not name or match is None:
        raise BadLimit(
            f"limit {text[:60]!r} is not NAME:VALUE; write it as limit:{_EXAMPLES.get(unit, '100')}"
        )
    return _make_limit("limit", name, match, units=units, text=text)


def _make_limit(
    kind: str, name: str, match: re.Match[str], *, units: Mapping[str, float], text: str
) -> Limit:
    if len(name) > _NAME_MAXIMUM:
        raise BadLimit(f"the name of {kind} {name[:40]!r}… is longer than {_NAME_MAXIMUM} characters")
    factor = units.get(match["unit"].lower())
    if factor is None:
        known = ", ".join(each for each in units if each)
        raise BadLimit(f"{kind} {name!r}: {match['unit']!r} is not a unit of this metric; available: {known}")
    return Limit(name, float(match["number"]) * factor, is_each=bool(match["each"]), text=text)


@dataclass(frozen=True, slots=True)
class ScalingMetric:
    """A metric of a chart. base: the metric of the catalog that it is calculated from, in the same unit.

    is_per_volume: divided by the number of volumes.
    """

    name: str
    base: str
    label: str
    unit: Unit
    better: Literal["higher", "lower"]
    is_per_volume: bool = False

    @property
    def is_throughput(self) -> bool:
        """Return whether it is expected to grow with the number of volumes."""
        return self.unit in ("operations/s", "bytes/s")

    @property
    def can_scale(self) -> bool:
        """Return whether n volumes would ideally have n times the value of one."""
        return self.is_throughput and not self.is_per_volume


def _take(metric: Metric) -> ScalingMetric:
    return ScalingMetric(metric.name, metric.name, metric.label, metric.unit, metric.better)


SCALING_METRICS: Final[dict[str, ScalingMetric]] = {
    **{name: _take(metric) for name, metric in CATALOG.items()},
    "iops_per_volume": ScalingMetric(
        "iops_per_volume", "iops", "IOPS per volume", "operations/s", "higher", is_per_volume=True
    ),
    "bandwidth_per_volume": ScalingMetric(
        "bandwidth_per_volume",
        "bandwidth_bytes_per_s",
        "Bandwidth per volume",
        "bytes/s",
        "higher",
        is_per_volume=True,
    ),
}


@dataclass(frozen=True, slots=True)
class ScalingTarget:
    """A value that a metric should reach: at least it, or at most it if lower is better."""

    metric: ScalingMetric
    limit: Limit

    @property
    def name(self) -> str:
        """Return the name that the reader gave."""
        return self.limit.name

    def is_reached(self, value: float, target: float) -> bool:
        """Return whether a value reaches the target at its x."""
        return value >= target if self.metric.better == "higher" else value <= target


def find_metric(name: str) -> ScalingMetric | None:
    """Return the metric with a name or short name; None if unknown."""
    return SCALING_METRICS.get(METRIC_WORDS.get(name, name))


def parse_target(text: str) -> ScalingTarget:
    """Read "METRIC:VALUE:NAME", VALUE as of `parse_limit`. Raises BadLimit."""
    parts = [part.strip() for part in text.replace("\x00", "").split(":", 2)]
    if len(parts) < 3 or not parts[2]:
        raise BadLimit(f"target {text[:60]!r} is not METRIC:VALUE:NAME; write it as iops:16000:Provisioned")
    metric, name = find_metric(parts[0]), " ".join(parts[2].split())
    if metric is None:
        raise BadLimit(
            f"target {name[:60]!r}: {parts[0][:40]!r} is not a valid metric; available: {', '.join(SCALING_METRICS)}"
        )
    match = _VALUE.fullmatch(parts[1])
    if match is None:
        raise BadLimit(
            f"target {name[:60]!r}: {parts[1][:40]!r} is not a value of {metric.name}; examples:"
            f" {_EXAMPLES.get(metric.unit, '100')}"
        )
    units = _UNITS.get(metric.unit, {"": 1.0})
    return ScalingTarget(metric, _make_limit("target", name, match, units=units, text=text))


# Metrics that a latency can be plotted against.
THROUGHPUTS: Final = ("iops", "bandwidth_bytes_per_s")


_DIMENSION: Final = (
    "a dimension, or up to three separated by commas, or group; chosen if not given; available:"
    f" {', '.join(DIMENSIONS)}"
)
# A parameter value instead of a dimension: one color, one panel.
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class ScalingRequest:
    """The options of a chart; None: not given, chosen by the chart. Each is declared here only.

    x, color, facet, metric: with a leading comma, the automatic one and the named ones. free: dimensions not to fix.
    compare_days: also the levels so many days before the end of the range `span`; bounds: the range as in the address.
    groups: without an axis "group" they are the first axis that is not given. predicted: none without has_models.
    draw, scale, is_ideal: how it is drawn; without effect on the values.
    """

    filter: Filter
    x: str | None = option(
        "x", "axis", help=f"{_DIMENSION}; or a condition, to show single runs: {', '.join(CONDITIONS)}"
    )
    metric: str | None = option(
        "metric",
        "axis",
        help=f"one metric, or up to three separated by commas; available: {', '.join(SCALING_METRICS)}",
    )
    color: str | None = option("color", "axis", help=f"as x, or {NONE}; chosen if not given")
    facet: str | None = option("facet", "text", help=f"as x, or {NONE}, the default")
    over: str | None = option(
        "over", "choice", choices=THROUGHPUTS, help="plot a latency against this throughput"
    )
    free: tuple[str, ...] = option(
        "any", "names", length=400, help="dimensions not to fix, separated by commas; * for all"
    )
    span: LevelRange = NOW
    bounds: tuple[tuple[str, str], ...] = ()
    draw: str | None = option(
        "draw", "choice", choices=("bars", "lines"), is_display=True, label="Style", usual="Auto"
    )
    scale: str | None = option(
        "scale", "choice", choices=("linear", "log"), is_display=True, label="Y axis", usual="Linear"
    )
    is_ideal: bool = option("ideal", "flag", is_display=True, label="Linear scaling line")
    has_runs: bool = option(
        "runs",
        "flag",
        help="also the runs of each cell; CSV and NDJSON then have a row for each run",
        label="Show runs",
    )
    has_models: bool = option(
        "model",
        "flag",
        help="also the scaling model of each curve, JSON only; x volume_count or stripe_count, a throughput",
        label="Scaling model",
    )
    predicted: tuple[int, ...] = option(
        "predict",
        "numbers",
        length=60,
        maximum=WIDTH_MAXIMUM,
        noun="width",
        count=PREDICTED_MAXIMUM,
        help=f"with model=1: up to {PREDICTED_MAXIMUM} widths to predict, separated by commas",
    )
    compare_days: int | None = option(
        "compare_days",
        "number",
        maximum=COMPARE_DAYS_MAXIMUM,
        noun="number of days",
        help="also the levels this many days before the end of the time range",
        label="Compare with N days earlier",
        usual="30",
    )
    limits: tuple[str, ...] = option(
        "limit",
        "texts",
        length=200,
        count=LIMITS_MAXIMUM,
        help="NAME:VALUE of a limit, or known for published limits; does not change the values",
    )
    targets: tuple[str, ...] = option(
        "target",
        "texts",
        length=200,
        count=TARGETS_MAXIMUM,
        help="METRIC:VALUE:NAME of a value to reach, as iops:16000:Provisioned",
    )
    groups: tuple[str, ...] = option(
        "group",
        "texts",
        length=2100,
        count=GROUPS_MAXIMUM,
        help=f"NAME=FILTER of a group, values of the axis {GROUP}",
    )

    @property
    def is_log(self) -> bool:
        """Return whether the value axis is logarithmic."""
        return self.scale == "log"


# By their fields of the request.
OPTIONS: Final = list_options(ScalingRequest)


def list_display(request: ScalingRequest) -> dict[str, Any]:
    """Return how the chart is drawn, by parameter: the options without effect on the values."""
    return {each.parameter: getattr(request, name) for name, each in OPTIONS.items() if each.is_display}


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A valid request for one metric, with its limits, groups and targets.

    over: None without a throughput axis. metrics: all of the request.
    """

    request: ScalingRequest
    metric: ScalingMetric
    over: ScalingMetric | None
    limits: tuple[Limit, ...]
    groups: tuple[SeriesGroup, ...] = ()
    targets: tuple[ScalingTarget, ...] = ()
    metrics: tuple[ScalingMetric, ...] = ()

    @property
    def earlier_at(self) -> datetime | None:
        """Return the time of the earlier period, not before the first day of the calendar; None without one."""
        if self.request.compare_days is None:
            return None
        period = timedelta(days=self.request.compare_days)
        shown_at = self.request.span.to_at or timezone.now()
        return max(shown_at - _FIRST_MOMENT, period) - period + _FIRST_MOMENT


CellState = Literal["measured", "failed", "unvalued", "missing"]


@dataclass(frozen=True, slots=True)
class ScalingLimit:
    """A limit at each x; None if unknown there. is_given: a parameter of the chart, else provisioned IOPS.

    target: what it is the value of, if it is a target rather than a limit. cells: those that it applies to, as value
    of the line and index on x; None: all.
    """

    name: str
    values: tuple[float | None, ...]
    is_given: bool
    target: ScalingTarget | None = None
    cells: frozenset[tuple[AxisValue, int]] | None = None

    def find_value(self, line: ChartLine, place: int) -> float | None:
        """Return the limit of a cell; None if it is unknown or does not apply to the cell."""
        does_apply = self.cells is None or (line.value, place) in self.cells
        return self.values[place] if does_apply else None


class ScalingFacet(ChartPanel, frozen=True):
    """One panel, with its limits."""

    limits: tuple[ScalingLimit, ...] = ()

    def find_lowest_limit(self, line: ChartLine, place: int) -> ScalingLimit | None:
        """Return the limit that applies to a cell: the lowest one, targets aside; None without one."""
        known = [
            (value, number)
            for number, limit in enumerate(self.limits)
            if limit.target is None and (value := limit.find_value(line, place)) is not None
        ]
        return self.limits[min(known)[1]] if known else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of series that are shown and not shown. cells, filled: combinations, and those with a value.

    hidden_by_fixed: match the filter but not the fixed dimensions. omitted: past the maximum of colors or panels.
    ungrouped: match the filter but no group.
    """

    shown: int
    unvalued: int
    failed: int
    unknown_x: int
    hidden_by_fixed: int
    omitted: int
    ungrouped: Annotated[int, Meta(description="series with a value in no group")]
    cells: int
    filled: int

    @property
    def left_out(self) -> int:
        """Return how many series with a value or a failure are not shown."""
        return (
            self.unvalued
            + self.failed
            + self.unknown_x
            + self.hidden_by_fixed
            + self.omitted
            + self.ungrouped
        )


class ScalingChart(Chart[ScalingFacet], frozen=True, kw_only=True):
    """One metric by one dimension, with the charts of further metrics.

    common: dimensions with one known value in all series of the chart. groups: in order. targets: of all metrics; those
    of `metric` are limits of the panels. earlier_at: exclusive. metrics: of the request; more: charts of the further
    ones, with equal axes. cell_runs_maximum: of a cell; None without runs.
    cut_curves: by a condition, panel and color of those with older runs, which are left out.
    """

    request: ScalingRequest
    metric: ScalingMetric
    over: ScalingMetric | None
    color: Axis | None
    facet: Axis | None
    common: tuple[tuple[str, Value], ...]
    limits: tuple[Limit, ...]
    counts: Counts
    groups: tuple[GroupCount, ...] = ()
    targets: tuple[ScalingTarget, ...] = ()
    earlier_at: datetime | None = None
    metrics: tuple[ScalingMetric, ...] = ()
    more: tuple["ScalingChart", ...] = ()
    cell_runs_maximum: int | None = None
    cut_curves: frozenset[tuple[AxisValue, AxisValue]] = frozenset()

    @property
    def stack(self) -> tuple["ScalingChart", ...]:
        """Return the charts of all metrics, this one first."""
        return (self, *self.more)

    @property
    def is_curve(self) -> bool:
        """Return whether the values of x are places on an axis of numbers: sizes, depths, and widths with models.

        A curve has two values or more.
        """
        is_line = any(
            sum(cell.n > 0 for cell in line.cells) > 1 for each in self.panels for line in each.lines
        )
        return self.request.has_models or (self.x.dimension.is_continuous and is_line)

    @property
    def draw_mode(self) -> Literal["bars", "lines", "points"]:
        """Return whether it has bars or lines: as asked; without it, lines for sizes, depths and scaling models.

        Points of a condition.
        """
        if self.is_by_condition:
            return "points"
        is_asked = self.request.draw is not None
        return "lines" if self.request.draw == "lines" or (self.is_curve and not is_asked) else "bars"

    @property
    def is_by_condition(self) -> bool:
        """Return whether x is a condition of single runs; `over` is it then, too."""
        return self.x.name in CONDITIONS

    @property
    def positions(self) -> list[float]:
        """Return the place of each x: as of the axis, logarithmic for widths with models."""
        widths = [value for value in self.x.values if isinstance(value, int) and value > 0]
        if not self.request.has_models or len(widths) != len(self.x.values):
            return self.x.positions
        return [log2(width) for width in widths]

    @property
    def is_empty(self) -> bool:
        """Return whether no cell has a value, of any metric."""
        return not any(chart.counts.filled for chart in self.stack)

    def add_value(self, filter: Filter, axis: Axis, value: AxisValue) -> Filter:
        """Return the filter of the series at a value of an axis; of a group, also those that an earlier group took."""
        if axis.name in CONDITIONS:
            return filter
        if axis.name != GROUP:
            return add_axis_value(filter, axis.name, value)
        own = next(count.group.filter for count in self.groups if count.group.name == value)
        return Filter((*filter.terms, *own.terms), (*filter.words, *own.words))
