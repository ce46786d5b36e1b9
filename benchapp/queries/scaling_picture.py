"""The values of a scaling picture: panels of lines of cells, and what was left out of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from benchapp.dimensions import Dimension
from benchapp.grammar import Filter, Value
from benchapp.queries.scaling_ceilings import Limit
from benchapp.queries.scaling_choice import Held
from benchapp.queries.scaling_metrics import ScalingMetric

CellState = Literal["measured", "apart", "failed", "unvalued", "missing"]


class BadPicture(Exception):
    """A picture that cannot be drawn as asked for; parameter names what is wrong, the message what there is."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Spread:
    """What some measurements stand at, in the metric's base unit. median: None where it would mix percentiles."""

    median: float | None
    p10: float
    p90: float
    n: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a picture.

    state: "measured"; "apart": several series whose percentiles have no common median, only a range; "failed": all of
    it failed; "unvalued": series, but none has the metric; "missing": no series. series_ids: the freshest first.
    over: the throughput here, where latency is drawn over it. ideal: what as many times the first would be;
    efficiency: the share of it that was reached. ghost: the same at an earlier moment. failed_count: series whose
    newest run failed.
    """

    state: CellState
    spread: Spread | None = None
    series_ids: tuple[int, ...] = ()
    badges: tuple[str, ...] = ()
    over: float | None = None
    ideal: float | None = None
    efficiency: float | None = None
    ghost: Spread | None = None
    failed_count: int = 0

    @property
    def value(self) -> float | None:
        """Return the median; None where there is none."""
        return self.spread.median if self.spread else None


@dataclass(frozen=True, slots=True)
class Line:
    """The cells of one colour in one panel, one for each x. rw, direction: where they are one, for its fixed colour."""

    value: Value | None
    label: str
    rw: str
    direction: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit at each x; None where it is not known there. is_given: somebody named it, else it is provisioned."""

    name: str
    values: tuple[float | None, ...]
    is_given: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """One panel. lines: one for each colour of the picture, in its order."""

    value: Value | None
    label: str
    lines: tuple[Line, ...]
    ceilings: tuple[Ceiling, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension and the values of it that are shown, in order."""

    dimension: Dimension
    values: tuple[Value | None, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What is shown and what is not, in series. cells, filled: places of the picture, and those with a value.

    beside: fit the filter but not what is held still. beyond: of colours or panels past the most that are drawn.
    """

    shown: int = 0
    unvalued: int = 0
    failed: int = 0
    unknown_x: int = 0
    beside: int = 0
    beyond: int = 0
    cells: int = 0
    filled: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that a scaling page, its table and its API answer show.

    filter: as it was given; shown_filter: with what is held still. mixed: dimensions of which some cell has several
    values. fixed: those of which all that is shown has one known value. as_of, ghost_at: exclusive.
    is_cut: more series fit than are looked at. is_thinned: more than are looked at in the past.
    """

    filter: Filter
    shown_filter: Filter
    metric: ScalingMetric
    over: ScalingMetric | None
    x: Axis
    colour: Axis | None
    facet: Axis | None
    facets: tuple[Facet, ...]
    held: tuple[Held, ...]
    fixed: tuple[tuple[str, Value], ...]
    mixed: tuple[str, ...]
    free: tuple[str, ...]
    limits: tuple[Limit, ...]
    counts: Counts
    as_of: datetime | None = None
    ghost_at: datetime | None = None
    is_cut: bool = False
    is_thinned: bool = False

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to draw."""
        return not self.counts.filled

    def walk(self) -> Iterator[tuple[Facet, Line, int, Cell]]:
        """Give every cell with its panel, its line and its place on x."""
        for facet in self.facets:
            for line in facet.lines:
                for place, cell in enumerate(line.cells):
                    yield facet, line, place, cell
