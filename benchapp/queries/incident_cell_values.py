"""The values of the matrix of an incident's cells."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from benchapp.dimensions import Dimension
from benchapp.grammar import Value
from benchapp.metrics import Metric

CellState = Literal["moved", "apart", "unmoved", "unjudged", "missing"]
Key = tuple[Value | None, ...]
# What began within a day of an incident moved with it, as far as one can see.
TOGETHER: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class MovedLevel:
    """The change that a cell shows, as Change has it."""

    id: int
    series_id: int
    metric: str
    state: str
    is_regression: bool
    relative: float
    started_at: datetime
    incident_id: int | None


@dataclass(frozen=True, slots=True)
class OneCell:
    """One place of the matrix.

    state: "moved" with the incident; "apart": at that time, in another incident or none yet; "unmoved"; "unjudged": too
    few runs, or not in this metric; "missing": never measured. series_id: of the series that is shown; moved, series:
    how many of its series moved with the incident, and how many it has. standing: "" where it is not judged.
    """

    state: CellState
    series_id: int | None = None
    level: MovedLevel | None = None
    moved: int = 0
    series: int = 0
    standing: str = ""


@dataclass(frozen=True, slots=True)
class CellLine:
    """A row, a cell for each column."""

    label: str
    cells: tuple[OneCell, ...]


@dataclass(frozen=True, slots=True)
class MovedMetric:
    """A metric in which levels moved, and of how many series."""

    metric: Metric
    count: int


@dataclass(frozen=True, slots=True)
class CellMatrix:
    """What moved of what is measured there, in one metric.

    metrics: all in which something moved, the most first. moved, judged, unjudged: series of the incident's hosts and
    pools. *_left_out: what has no room; rows and columns that hold the most that moved are kept. from_at: ISO, of the
    oldest run that a change was judged by; None where that is not kept. is_cut: more series than are looked at.
    """

    metric: Metric
    metrics: tuple[MovedMetric, ...]
    x: Dimension
    rows: tuple[Dimension, ...]
    columns: tuple[str, ...]
    lines: tuple[CellLine, ...]
    moved: int
    judged: int
    unjudged: int
    rows_left_out: int
    columns_left_out: int
    moved_left_out: int
    from_at: str | None
    is_cut: bool
