"""A chart as one document, built once: page, API, CSV, data table and images show what it has.

A chart has panels of lines of cells. A cell is a combination of values of the axes: a row of the API and of the CSV,
whose columns have the names of its fields; a number of the data table; a mark that Chart.js draws from the JSON in the
page and matplotlib in an image. All go over the same cells in the same order (`Chart.walk`). Title, caption and notes
are functions of the chart (`charts/texts`). In a scaling chart a line is a color, in a matrix a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from django.utils import timezone
from msgspec import Meta, Struct

from benchapp.catalog.grammar import Filter
from benchapp.catalog.thresholds import Threshold
from benchapp.charts.read.axes import Axis, AxisValue
from benchapp.charts.read.scaling_defaults import FixedDimension, Settings
from benchapp.incidents.read.series_status import LevelValues, SeriesMark
from benchapp.models import Series, Subscription, ThresholdViolation
from benchapp.models.coverage import match_stored_filters, read_stored_threshold
from benchapp.series.read.levels import PreviousLevel


class BadChart(Exception):
    """An invalid parameter of a chart; the message has the available values."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class ScalingRun:
    """A run of a level: its value in the metric's base unit, per volume if the metric is; over: None if unknown."""

    run: int
    series: int
    host: str
    started_at: Annotated[datetime, Meta(tz=True)]
    value: Annotated[float, Meta(description="of the metric; the median of repetitions")]
    over: Annotated[float | None, Meta(description="on the x axis: throughput, or the condition of x")]


# Columns of rows by what they have of a mark.
_OF_MARK: Final = {
    "change_metric": "metric",
    "change_relative": "relative",
    "change_state": "state",
    "incident": "incident_id",
}


class ChartCell(Struct, frozen=True, kw_only=True):
    """One combination, its numbers in base units.

    state: "measured"; "failed": no run gave a value and the newest failed; "excluded": all measurements are;
    "unvalued": series, but none has the metric; "missing": no series. n: runs of the level; 0 without one. series_ids:
    of a scaling chart the most recent first, of a matrix first the one whose mark is shown. mark: the open or accepted
    change that matters most.
    badges: codes, most severe first. settings: values of the fixed dimensions and of those in which cells differ.

    Of a scaling chart: over: the throughput, if latency is plotted against it; ideal: linear scaling from the first
    cell; efficiency: a share of it; both of `steady` levels; earlier_median: at the end of the earlier period;
    failed_count: series whose newest run failed; regressed_count: worse in the metric, also of a matrix;
    before: the level with the one before each open regression, None without one; runs: the newest of the n runs,
    oldest first, none unless the request has them. Of a matrix: from_at, previous, recent, stale_after: of the level of
    the first series; worst: its host and median if it got worse and the median is of several.
    """

    state: Literal["measured", "failed", "excluded", "unvalued", "missing"]
    median: float | None = None
    p10: float | None = None
    p90: float | None = None
    n: int = 0
    last_at: datetime | None = None
    series_ids: tuple[int, ...] = ()
    mark: SeriesMark | None = None
    badges: tuple[str, ...] = ()
    settings: Settings = ()
    over: float | None = None
    ideal: float | None = None
    efficiency: float | None = None
    earlier_median: float | None = None
    failed_count: int = 0
    regressed_count: int = 0
    before: LevelValues | None = None
    runs: tuple[ScalingRun, ...] = ()
    from_at: datetime | None = None
    previous: PreviousLevel | None = None
    recent: tuple[float, ...] = ()
    stale_after: datetime | None = None
    worst: tuple[Any, float] | None = None

    @property
    def is_stale(self) -> bool:
        """Return whether its series is no longer measured as often as before."""
        return self.stale_after is not None and timezone.now() > self.stale_after

    @property
    def steady(self) -> "LevelValues | ChartCell":
        """Return the level that says how a layout scales: before an open regression, else its own.

        Ideal scaling, efficiency, findings and models use it.
        """
        return self.before or self

    @property
    def change_columns(self) -> dict[str, Any]:
        """Return the columns of its mark; None without one."""
        return {column: getattr(self.mark, name, None) for column, name in _OF_MARK.items()}

    @property
    def is_regressed(self) -> bool:
        """Return whether a series of the cell has an open regression of the metric."""
        return self.regressed_count > 0


class ChartLine(Struct, frozen=True):
    """The cells of one line in one panel, one for each x; value: of color, or of the row dimensions.

    rw, direction: if unique, for its fixed color.
    """

    value: AxisValue
    label: str
    cells: tuple[ChartCell, ...]
    rw: str = ""
    direction: str = ""

    @property
    def is_missing(self) -> bool:
        """Return whether no cell has a series."""
        return all(cell.state == "missing" for cell in self.cells)


class ChartPanel(Struct, frozen=True):
    """One of the small multiples; value: of the panels' dimensions. lines: the same ones in each panel."""

    value: AxisValue
    label: str
    lines: tuple[ChartLine, ...]


Panel = TypeVar("Panel", bound=ChartPanel)


class Chart(Struct, Generic[Panel], frozen=True, kw_only=True):
    """What all charts have.

    shown_filter: with the fixed dimensions as terms. varying: dimensions in which cells differ beside the axes; mixed:
    those with several values in some cell. latency_kinds: of a latency, in how many series it is of each kind. is_cut:
    more series match than are read. is_thinned: more than are read, of a matrix compared, for an earlier time.
    """

    shown_filter: Filter
    x: Axis
    panels: tuple[Panel, ...]
    fixed: tuple[FixedDimension, ...]
    varying: tuple[str, ...]
    mixed: tuple[str, ...]
    latency_kinds: Mapping[str, int] = {}
    is_cut: bool = False
    is_thinned: bool = False

    def walk(self) -> Iterator[tuple[Panel, ChartLine, int, ChartCell]]:
        """Yield every cell with its panel, its line and its index on x."""
        for panel in self.panels:
            for line in panel.lines:
                for place, cell in enumerate(line.cells):
                    yield panel, line, place, cell

    @property
    def cells(self) -> list[ChartCell]:
        """Return the cells of all panels."""
        return [cell for *_, cell in self.walk()]


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of a request is a parameter of an address.

    kind: "axis": names, each with a field in the form; "names": separated by commas; "texts": the parameter occurs
    several times; "number", "numbers": from 1 to the maximum; "flag": "1". is_display: without effect on the values.
    length: of a text; count: of numbers and texts; noun: what errors call a number. label: of its field among the
    options of the form, "" without one; usual: shown there if it is not given.
    """

    parameter: str
    kind: Literal["axis", "text", "names", "texts", "choice", "number", "numbers", "flag"]
    help: str = "display only"
    is_display: bool = False
    choices: tuple[str, ...] = ()
    length: int = 120
    maximum: int = 0
    count: int = 0
    noun: str = "number"
    label: str = ""
    usual: str = ""

    @property
    def offers(self) -> list[tuple[str, str]]:
        """Return values and texts of a field to choose from, the usual one first."""
        named = [(value, value.capitalize()) for value in self.choices]
        return [("", self.usual), *(each for each in named if each[1] != self.usual)]

    def read(self, texts: Sequence[str]) -> Any:
        """Return the value of the texts of an address. Raises ValueError."""
        text = texts[-1] if texts else ""
        match self.kind:
            case "axis":
                return _join(texts)
            case "names":
                return tuple(name for each in texts for name in each.split(",") if name)
            case "texts":
                return tuple(each for each in texts if each.strip())
            case "flag":
                return text == "1"
            case "numbers":
                return self._read_numbers(text)
            case "number" if text and not self._is_number(text):
                raise ValueError(f"{text[:40]!r} is not a {self.noun} from 1 to {self.maximum}")
            case "number":
                return int(text) if text else None
            case "choice" if text and text not in self.choices:
                raise ValueError(f"{text[:40]!r} is not valid; available: {', '.join(self.choices)}")
        return text or None

    def write(self, value: Any) -> list[str]:
        """Return the texts of a value in an address; none if it is not given."""
        if self.kind == "texts":
            return list(value)
        if self.kind in ("names", "numbers"):
            value = ",".join(map(str, value))
        return ["1" if value is True else str(value)] if value else []

    def _is_number(self, text: str) -> bool:
        is_short = len(text) <= len(str(self.maximum))
        return is_short and text.isascii() and text.isdigit() and 0 < int(text) <= self.maximum

    def _read_numbers(self, text: str) -> tuple[int, ...]:
        """Return numbers in ascending order."""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if len(parts) > self.count:
            raise ValueError(f"{len(parts)} {self.noun}s given, at most {self.count} allowed")
        for part in parts:
            if not self._is_number(part):
                raise ValueError(f"{part[:20]!r} is not a {self.noun} from 1 to {self.maximum}; write 6,12")
        return tuple(sorted({int(part) for part in parts}))


_NONE: Mapping[str, Any] = {"flag": False, "names": (), "texts": (), "numbers": ()}


def option(parameter: str, kind: Any, **more: Any) -> Any:
    """Return a field of a request that is an option; not given by default."""
    return field(default=_NONE.get(kind), metadata={"option": Option(parameter, kind, **more)})


def list_options(request: type) -> dict[str, Option]:
    """Return the options of a kind of request, by the names of their fields."""
    return {each.name: each.metadata["option"] for each in fields(request) if "option" in each.metadata}


def _join(texts: Sequence[str]) -> str | None:
    """Return the axis of the fields of a form: the first one, empty if automatic, and those combined with it."""
    first, *others = texts or [""]
    if first == "none":
        return first
    return ",".join([first, *(name.removeprefix(",") for name in others if name)]) or None


@dataclass(frozen=True, slots=True)
class ChartThreshold:
    """A threshold of a metric of a chart. series_ids: of the chart that it concerns, ascending.

    violated: those that violate it, with the start of the first run of the violation.
    """

    threshold: Threshold
    series_ids: tuple[int, ...]
    violated: Mapping[int, datetime]


def list_chart_thresholds(
    owner_id: int | None, series_ids: Sequence[int], metrics: Sequence[str]
) -> list[ChartThreshold]:
    """Return the thresholds of a user's subscriptions for these series and metrics, by metric and value.

    owner_id: None for a reader without an account, who has none. One query; if there are any, also those of
    `match_stored_filters` and one more.
    """
    if owner_id is None or not series_ids:
        return []
    rows = Subscription.objects.filter(owner_id=owner_id).exclude(thresholds=[]).order_by("pk")
    asked = [
        (pk, filter, threshold)
        for pk, filter, texts in rows.values_list("pk", "filter", "thresholds")
        for threshold in map(read_stored_threshold, texts)
        if threshold is not None and threshold.metric in metrics
    ]
    if not asked:
        return []
    matched = match_stored_filters(
        [filter for _, filter, _ in asked], Series.objects.filter(pk__in=series_ids)
    )
    concerned: dict[Threshold, set[int]] = {}
    for _, filter, threshold in asked:
        concerned.setdefault(threshold, set()).update(matched[filter])
    violated: dict[str, dict[int, datetime]] = {}
    violations = ThresholdViolation.objects.filter(
        subscription_id__in={pk for pk, _, _ in asked}, series_id__in=series_ids
    )
    for text, series_id, since_at in violations.values_list("threshold", "series_id", "since_at"):
        known = violated.setdefault(text, {})
        known[series_id] = min(since_at, known.get(series_id, since_at))
    found = [
        ChartThreshold(threshold, tuple(sorted(ids)), violated.get(threshold.text, {}))
        for threshold, ids in concerned.items()
        if ids
    ]
    return sorted(
        found,
        key=lambda each: (metrics.index(each.threshold.metric), each.threshold.limit, each.threshold.text),
    )
