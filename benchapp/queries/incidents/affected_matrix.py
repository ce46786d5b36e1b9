"""The cells of an incident as a matrix: patterns × what varies; what moved, what did not, what is not judged.

The values of the matrix of an incident's cells.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from benchapp.dimensions import DIMENSIONS, Dimension, name_pattern
from benchapp.grammar import Value
from benchapp.metrics import CATALOGUE, Metric
from benchapp.models import Change, ChangeState, Judgement, Series
from benchapp.queries.incidents.shapes import IncidentRow
from benchapp.queries.titles import describe_setting, describe_value, name_scope, order_value

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


# Series of the incident's hosts and pools that are looked at, the freshest first; a sweep has 320.
SERIES_MAXIMUM: Final = 2000
ROWS_MAXIMUM: Final = 24
COLUMNS_MAXIMUM: Final = 16
_CHANGES_MAXIMUM: Final = 5000
_ROWS: Final = ("pattern", "block_size_bytes")
# What people look along, as in the matrix of a filter, and then what may make rows of its own.
_FIRST_X: Final = ("volume_count", "stripe_count", "iodepth", "numjobs", "file_size_bytes", "volume_type")
_OTHERS: Final = tuple(
    name
    for name, dimension in DIMENSIONS.items()
    if not dimension.is_minor and name not in (*_ROWS, *_FIRST_X, "host", "pool", "rw", "direction")
)
_COLUMNS: Final = tuple(name for name in DIMENSIONS if name not in ("host", "pool", "pattern"))

_Cell = dict[str, Any]


def read_cell_matrix(incident: IncidentRow, *, metric: str | None = None) -> CellMatrix | None:
    """Return the cells of an incident's hosts and pools in one metric; None where there is one cell alone, or none.

    metric: one in which some level moved; else that in which the most did. Four queries.
    """
    changes = _read_changes(incident.id)
    counts = Counter(name for name, _ in changes)
    if not counts:
        return None
    shown = (
        metric
        if metric is not None and metric in counts
        else max(counts, key=lambda name: (counts[name], name == "iops", name))
    )
    scopes = sorted({change["series__scope"] for change in changes.values()})
    cells = _read_cells(scopes)
    if len(cells) < 2:
        return None
    return _AffectedMatrixBuilder(incident, shown, counts, changes, cells[:SERIES_MAXIMUM]).fill(
        is_cut=len(cells) > SERIES_MAXIMUM
    )


def _read_changes(incident_id: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the furthest live change of each metric of each series of an incident."""
    rows = (
        Change.objects.filter(incident_id=incident_id)
        .exclude(state=ChangeState.WITHDRAWN)
        .order_by("id")
        .values(*_CHANGE, "series__scope", "evidence__points_from")[:_CHANGES_MAXIMUM]
    )
    ordered = sorted(rows, key=lambda row: abs(row["relative"]))
    return {(row["metric"], row["series_id"]): dict(row) for row in ordered}


def _read_cells(scopes: Sequence[str]) -> list[_Cell]:
    rows = (
        Series.objects.filter(scope__in=scopes).order_by("-last_at", "-id").values("id", "scope", *_COLUMNS)
    )
    return [
        {**row, "pattern": name_pattern(row["rw"], row["direction"]), "host": name_scope(row["scope"])}
        for row in rows[: SERIES_MAXIMUM + 1]
    ]


class _AffectedMatrixBuilder:
    """One matrix on its way: its cells, what moved of them, and along what they are laid out."""

    def __init__(
        self,
        incident: IncidentRow,
        metric: str,
        counts: Mapping[str, int],
        changes: Mapping[tuple[str, int], dict[str, Any]],
        cells: Sequence[_Cell],
    ) -> None:
        self.incident, self.metric, self.counts, self.cells = incident, metric, counts, cells
        self.moved = {series_id: row for (name, series_id), row in changes.items() if name == metric}
        self.from_at = min(
            (str(row["evidence__points_from"]) for row in changes.values() if row["evidence__points_from"]),
            default=None,
        )
        ids = [cell["id"] for cell in cells]
        self.standings = dict(
            Judgement.objects.filter(series_id__in=ids, metric=metric).values_list("series_id", "standing")
        )
        self.apart = _read_apart(incident, changes, [one for one in ids if one not in self.moved], metric)

    def fill(self, *, is_cut: bool) -> CellMatrix:
        x = _choose_x(self.cells, [str(one.get("dimension")) for one in self.incident.explained_by])
        rows = _choose_rows(self.cells, x)
        groups: dict[tuple[Key, Key], list[_Cell]] = defaultdict(list)
        for cell in self.cells:
            groups[tuple(cell[name] for name in rows), (cell[x],)].append(cell)
        weights = self._weigh(groups)
        row_keys = _keep([row for row, _ in groups], rows, most=ROWS_MAXIMUM, weights=weights)
        columns = _keep([column for _, column in groups], (x,), most=COLUMNS_MAXIMUM, weights=weights)
        lines = tuple(
            CellLine(
                _say_row(rows, row), tuple(self._make_cell(groups.get((row, column))) for column in columns)
            )
            for row in row_keys
        )
        judged = sum(cell["id"] in self.standings or cell["id"] in self.moved for cell in self.cells)
        return CellMatrix(
            metric=CATALOGUE[self.metric],
            metrics=tuple(
                MovedMetric(CATALOGUE[name], count)
                for name, count in sorted(self.counts.items(), key=_order_metric)
            ),
            x=DIMENSIONS[x],
            rows=tuple(DIMENSIONS[name] for name in rows),
            columns=tuple(describe_value(x, column[0]) for column in columns),
            lines=lines,
            moved=len(self.moved),
            judged=judged,
            unjudged=len(self.cells) - judged,
            rows_left_out=len({row for row, _ in groups}) - len(row_keys),
            columns_left_out=len({column for _, column in groups}) - len(columns),
            moved_left_out=len(self.moved) - sum(cell.moved for line in lines for cell in line.cells),
            from_at=self.from_at,
            is_cut=is_cut,
        )

    def _weigh(self, groups: Mapping[tuple[Key, Key], Sequence[_Cell]]) -> Counter[Key]:
        """Return how many moved cells each row and each column holds."""
        weights: Counter[Key] = Counter()
        for (row, column), cells in groups.items():
            moved = sum(cell["id"] in self.moved for cell in cells)
            weights[row] += moved
            weights[column] += moved
        return weights

    def _make_cell(self, cells: Sequence[_Cell] | None) -> OneCell:
        """Return one place of the matrix; of several series that of the furthest change is shown."""
        if not cells:
            return OneCell("missing")
        ids = [cell["id"] for cell in cells]
        rows = [self.moved.get(one) or self.apart.get(one) for one in ids]
        moved = sum(one in self.moved for one in ids)
        known = [row for row in rows if row is not None and (not moved or row["series_id"] in self.moved)]
        worst = max(known, key=lambda row: abs(row["relative"]), default=None)
        judged = [one for one in ids if one in self.standings]
        state: CellState = "moved" if moved else "apart" if worst else "unmoved" if judged else "unjudged"
        shown = worst["series_id"] if worst else (judged or ids)[0]
        level = MovedLevel(**{name: worst[name] for name in _CHANGE}) if worst else None
        return OneCell(state, shown, level, moved, len(ids), self.standings.get(shown, ""))


def _read_apart(
    incident: IncidentRow,
    changes: Mapping[tuple[str, int], dict[str, Any]],
    series_ids: Collection[int],
    metric: str,
) -> dict[int, dict[str, Any]]:
    """Return what moved the same way at that time, and is in another incident, or in none yet."""
    times = [row["started_at"] for row in changes.values()]
    rows = (
        Change.objects.filter(
            series_id__in=list(series_ids),
            metric=metric,
            is_regression=incident.is_regression,
            started_at__range=(min(times) - TOGETHER, max(times) + TOGETHER),
        )
        .exclude(state__in=(ChangeState.WITHDRAWN, ChangeState.SUSPECTED))
        .exclude(incident_id=incident.id)
    )
    return {row["series_id"]: dict(row) for row in rows.order_by("id").values(*_CHANGE)}


def _choose_x(cells: Sequence[_Cell], explained: Sequence[str]) -> str:
    """Return what to look along: several hosts, what explains the incident, else the first that varies."""
    wanted = ["host", *(name for name in explained if name in (*_FIRST_X, *_OTHERS)), *_FIRST_X, *_OTHERS]
    varying = (name for name in wanted if len({cell[name] for cell in cells} - {None, ""}) > 1)
    return next(varying, "volume_count")


def _choose_rows(cells: Sequence[_Cell], x: str) -> tuple[str, ...]:
    """Return pattern and block size, and what else tells the series of a cell apart, while the rows are few."""
    names = list(_ROWS)
    places = _list_places(cells, names, x)
    for name in (*_FIRST_X, *_OTHERS, "host"):
        if len(places) == len(cells):
            break
        finer = _list_places(cells, [*names, name], x)
        # What goes with x anyway, as stripes do with volumes, makes rows and tells nothing apart.
        if name != x and len(finer) > len(places) and len({row for row, _ in finer}) <= ROWS_MAXIMUM:
            names.append(name)
            places = finer
    return tuple(names)


def _list_places(cells: Sequence[_Cell], names: Sequence[str], x: str) -> set[tuple[Key, Value | None]]:
    """Return the places of a matrix that hold any cell: row and column."""
    return {(tuple(cell[name] for name in names), cell[x]) for cell in cells}


def _keep(keys: Sequence[Key], names: Sequence[str], *, most: int, weights: Counter[Key]) -> list[Key]:
    """Return the keys in order; of too many those that hold the most that moved, then the most series."""
    counts = Counter(keys)
    kept = sorted(counts, key=lambda key: (-weights[key], -counts[key]))[:most]
    return sorted(
        kept, key=lambda key: [order_value(name, value) for name, value in zip(names, key, strict=True)]
    )


def _say_row(names: Sequence[str], key: Key) -> str:
    """Say a row: "4k random read", "4k random read, depth 8"."""
    pattern, size, *rest = key
    said = describe_value("pattern", pattern)
    words = f"{describe_value('block_size_bytes', size)} {said}" if size is not None else said
    settings = (describe_setting(name, value) for name, value in zip(names[2:], rest, strict=True))
    return ", ".join([words, *settings])


def _order_metric(item: tuple[str, int]) -> tuple[int, int]:
    return -item[1], list(CATALOGUE).index(item[0])


_CHANGE: Final = (
    "id",
    "series_id",
    "metric",
    "state",
    "is_regression",
    "relative",
    "started_at",
    "incident_id",
)
