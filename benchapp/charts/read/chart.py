"""A chart as one document, built once: page, API, CSV, data table and images show what it has.

A chart has panels of lines of cells. A cell is a combination of values of the axes: a row of the API and of the CSV,
whose columns have the names of its fields; a number of the data table; a mark that Chart.js draws from the JSON in the
page and matplotlib in an image. All go over the same cells in the same order (`Chart.walk`). Title, caption and notes
are functions of the chart (`charts/texts`). In a scaling chart a line is a color, in a matrix a row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from django.utils import timezone
from msgspec import Meta, Struct

from benchapp.catalog.grammar import Filter
from benchapp.charts.read.axes import Axis, AxisValue
from benchapp.charts.read.scaling_defaults import FixedDimension, Settings
from benchapp.incidents.read.series_status import LevelValues, SeriesMark
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
    over: Annotated[float | None, Meta(description="throughput, if the latency is plotted against it")]


# Columns of rows by what they have of a mark.
_OF_MARK: Final = {
    "change_metric": "metric",
    "change_relative": "relative",
    "change_state": "state",
    "incident": "incident_id",
}


class ChartCell(Struct, frozen=True, kw_only=True):
    """One combination, its numbers in base units.

    state: "measured"; "apart": several series whose percentiles have no common median, only a range; "failed": no run
    gave a value and the newest failed; "excluded": all measurements are; "unvalued": series, but none has the metric;
    "missing": no series. n: runs of the level; 0 without one. series_ids: of a scaling chart the most recent first, of
    a matrix first the one whose level and mark are shown. mark: the open or accepted change that matters most.
    badges: codes, most severe first. settings: values of the fixed dimensions and of those in which cells differ.

    Of a scaling chart: over: the throughput, if latency is plotted against it; ideal: linear scaling from the first
    cell; efficiency: the median as a share of it; earlier_median: at the end of the earlier period; failed_count:
    series whose newest run failed; regressed_count: series with an open regression; before: the level with that before
    each open regression, for findings, None without one; runs: the newest of the n runs, oldest first, none unless
    the request has them. Of a matrix: from_at, previous, recent, stale_after: of the level.
    """

    state: Literal["measured", "apart", "failed", "excluded", "unvalued", "missing"]
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

    @property
    def is_stale(self) -> bool:
        """Return whether its series is no longer measured as often as before."""
        return self.stale_after is not None and timezone.now() > self.stale_after

    @property
    def change_columns(self) -> dict[str, Any]:
        """Return the columns of its mark; None without one."""
        return {column: getattr(self.mark, name, None) for column, name in _OF_MARK.items()}

    @property
    def is_regressed(self) -> bool:
        """Return whether a series of the cell has an open regression."""
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
