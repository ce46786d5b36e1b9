"""The values of a matrix: panels of rows of cells, what was left out of them, and why cells are empty."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from benchapp.catalog.dimensions import Dimension
from benchapp.catalog.grammar import Filter, Value
from benchapp.catalog.metrics import Metric
from benchapp.charts.read.axes import Axis
from benchapp.charts.read.scaling_defaults import FixedDimension, Settings
from benchapp.incidents.read.series_status import SeriesMark
from benchapp.series.read.levels import CurrentLevel
from benchapp.series.read.selected_levels import NOW, LevelRange

CellState = Literal["measured", "failed", "excluded", "unvalued", "missing"]
STATES: Final[tuple[CellState, ...]] = ("measured", "failed", "excluded", "unvalued", "missing")
Key = tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One combination.

    state: "measured"; "failed": its newest run failed and no run gave a value; "excluded": all measurements are
    excluded; "unvalued": measured without this metric; "missing": not measured. series_ids: first the one whose level
    has the newest run, then the most recent; level and mark are those of the first. badges: codes of its newest
    measurement; of a group of runs of their newest one.
    """

    state: CellState
    series_ids: tuple[int, ...] = ()
    level: CurrentLevel | None = None
    mark: SeriesMark | None = None
    badges: tuple[str, ...] = ()
    settings: Settings = ()


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The cells of one row in one panel, one for each x; values: of the matrix's row dimensions."""

    values: Key
    label: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class MatrixPanel:
    """One of the small multiples; values: of the matrix's facets, none where there are none."""

    values: Key
    label: str
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True)
class Omitted:
    """What is not shown: values of each axis past the maximum, series hidden by the fixed dimensions.

    unknown_x: series with unknown x.
    """

    rows: int
    columns: int
    panels: int
    hidden_by_fixed: int
    hidden_regressions: Annotated[
        int, Meta(description="of the hidden series, those with an open regression of the metric")
    ]
    unknown_x: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """The data of the matrix page, its CSV and its API response.

    filter: as it was given; shown_filter: with what is fixed. varying: dimensions in which cells differ beside
    the axes. mixed: dimensions that have several values in some cell. latency_kinds: of a latency, in how many series
    it is of each kind. is_cut: more series match than are read. is_thinned: more than are compared in cells with
    several, as of a past end.
    """

    filter: Filter
    shown_filter: Filter
    metric: Metric
    x: Axis
    rows: tuple[Dimension, ...]
    facets: tuple[Dimension, ...]
    panels: tuple[MatrixPanel, ...]
    fixed: tuple[FixedDimension, ...]
    varying: tuple[str, ...]
    mixed: tuple[str, ...]
    omitted: Omitted
    latency_kinds: Mapping[str, int]
    is_cut: bool
    is_thinned: bool
    span: LevelRange = NOW

    def walk(self) -> Iterator[tuple[MatrixPanel, MatrixRow, int, MatrixCell]]:
        """Give every cell with its panel, its row and its place on x."""
        for panel in self.panels:
            for row in panel.rows:
                for place, cell in enumerate(row.cells):
                    yield panel, row, place, cell

    def count(self, state: CellState) -> int:
        """Return how many cells are in a state."""
        return sum(cell.state == state for _, _, _, cell in self.walk())

    @property
    def shown_count(self) -> int:
        """Return how many series the cells have."""
        return sum(len(cell.series_ids) for _, _, _, cell in self.walk())

    @property
    def size(self) -> int:
        """Return how many cells there are."""
        return sum(len(row.cells) for panel in self.panels for row in panel.rows)
