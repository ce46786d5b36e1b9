"""Matrix of an incident: its changed, unchanged and unjudged series by the two dimensions that separate them best."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from benchapp.catalog.dimensions import SERIES_DIMENSIONS, Dimension, name_pattern
from benchapp.catalog.grammar import Value
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.incidents.rules.incidents import choose_axes, determines, find_event_window
from benchapp.models import Change, ChangeState, DetectionResult, Incident, Series
from benchapp.series.read.titles import describe_setting, describe_value, name_scope, order_value

CellState = Literal["changed", "elsewhere", "unchanged", "unjudged", "missing"]
Key = tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class AffectedCell:
    """One cell of the matrix.

    state: "changed" in this incident; "elsewhere": changed at that time, in another incident or in none; "unchanged";
    "unjudged": too few runs, or not in this metric; "missing": never measured. series_id: the series shown; change: its
    columns; changed, series: how many of its series changed in this incident, and how many it has. status: "" if
    unjudged.
    """

    state: CellState
    series_id: int | None = None
    change: Mapping[str, Any] | None = None
    changed: int = 0
    series: int = 0
    status: str = ""


@dataclass(frozen=True, slots=True)
class AffectedMatrix:
    """Changed and unchanged series of the incident's hosts and pools, in one metric.

    x: None for a list, with one column. rows: one dimension; pattern and block size if one determines the other.
    metrics: all with changes and their numbers of changed series, most first. lines: a label, and a cell for each
    column. changed, judged, unjudged: counts of series. *_left_out: what does not fit; rows and columns with the most
    changes are shown. from_at: ISO, the oldest run that a change was judged by; None if unknown. is_cut: the number of
    series exceeds SERIES_MAXIMUM.
    """

    metric: Metric
    metrics: tuple[tuple[Metric, int], ...]
    x: Dimension | None
    rows: tuple[Dimension, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[AffectedCell, ...]], ...]
    changed: int
    judged: int
    unjudged: int
    rows_left_out: int
    columns_left_out: int
    changed_left_out: int
    from_at: str | None
    is_cut: bool


# Series of the incident's hosts and pools that are read, most recent first; a sweep has 320.
SERIES_MAXIMUM: Final = 2000
ROWS_MAXIMUM: Final = 24
COLUMNS_MAXIMUM: Final = 16
_CHANGES_MAXIMUM: Final = 5000
# Rows of a matrix that has one of them, and one label if one determines the other: "4k random read".
_ROWS: Final = ("pattern", "block_size_bytes")
# Possible axes in the order of preference.
_FIRST: Final = (
    *_ROWS,
    *("volume_count", "stripe_count", "iodepth", "numjobs", "file_size_bytes", "volume_type", "host"),
)
_AXES: Final = (
    *_FIRST,
    *(
        name
        for name, dimension in SERIES_DIMENSIONS.items()
        if not dimension.is_minor and name not in (*_FIRST, "pool", "rw", "direction")
    ),
)
_COLUMNS: Final = tuple(name for name in SERIES_DIMENSIONS if name not in ("host", "pool", "pattern"))

_Cell = dict[str, Any]


def read_affected_matrix(incident: Incident, *, metric: str | None = None) -> AffectedMatrix | None:
    """Return the series of an incident's hosts and pools in one metric. Four queries.

    None for fewer than two series, and if they differ in no dimension of the axes. metric: used if it has changes;
    otherwise the metric with the most changes.
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
    """Return the largest stated change of each metric of each series of an incident."""
    rows = (
        Change.objects.stated()
        .filter(incident_id=incident_id)
        .order_by("id")
        .values(*_CHANGE, "series__scope", "evidence__points_from", "evidence__interval_s")[:_CHANGES_MAXIMUM]
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
    """Builds one matrix from cells and changes."""

    def __init__(
        self,
        incident: Incident,
        metric: str,
        counts: Mapping[str, int],
        changes: Mapping[tuple[str, int], dict[str, Any]],
        cells: Sequence[_Cell],
    ) -> None:
        self.incident, self.metric, self.counts, self.cells = incident, metric, counts, cells
        self.changed = {series_id: row for (name, series_id), row in changes.items() if name == metric}
        self.from_at = min(
            (str(row["evidence__points_from"]) for row in changes.values() if row["evidence__points_from"]),
            default=None,
        )
        ids = [cell["id"] for cell in cells]
        self.statuses = dict(
            DetectionResult.objects.filter(series_id__in=ids, metric=metric).values_list(
                "series_id", "status"
            )
        )
        self.elsewhere = _read_elsewhere(
            incident, changes, [one for one in ids if one not in self.changed], metric
        )

    def fill(self, *, is_cut: bool) -> AffectedMatrix | None:
        affected = [self._is_affected(cell["id"]) for cell in self.cells]
        axes = choose_axes({name: [cell[name] for cell in self.cells] for name in _AXES}, affected)
        if not axes:
            return None
        rows, x = _arrange(axes, self.cells)
        groups: dict[tuple[Key, Key], list[_Cell]] = defaultdict(list)
        for cell in self.cells:
            groups[tuple(cell[name] for name in rows), tuple(cell[name] for name in x)].append(cell)
        row_weights, column_weights = self._weigh(groups)
        row_keys = _select_keys([row for row, _ in groups], rows, most=ROWS_MAXIMUM, weights=row_weights)
        columns = _select_keys(
            [column for _, column in groups], x, most=COLUMNS_MAXIMUM, weights=column_weights
        )
        lines = tuple(
            (
                _format_row(rows, row),
                tuple(self._make_cell(groups.get((row, column))) for column in columns),
            )
            for row in row_keys
        )
        judged = sum(cell["id"] in self.statuses or cell["id"] in self.changed for cell in self.cells)
        return AffectedMatrix(
            metric=CATALOG[self.metric],
            metrics=tuple(
                (CATALOG[name], count) for name, count in sorted(self.counts.items(), key=_order_metric)
            ),
            x=SERIES_DIMENSIONS[x[0]] if x else None,
            rows=tuple(SERIES_DIMENSIONS[name] for name in rows),
            columns=tuple(describe_value(x[0], column[0]) if x else "" for column in columns),
            lines=lines,
            changed=len(self.changed),
            judged=judged,
            unjudged=len(self.cells) - judged,
            rows_left_out=len({row for row, _ in groups}) - len(row_keys),
            columns_left_out=len({column for _, column in groups}) - len(columns),
            changed_left_out=len(self.changed) - sum(cell.changed for _, cells in lines for cell in cells),
            from_at=self.from_at,
            is_cut=is_cut,
        )

    def _is_affected(self, series_id: int) -> bool | None:
        """Return whether a series changed in this incident; None if it was not evaluated."""
        return series_id in self.changed or (False if series_id in self.statuses else None)

    def _weigh(self, groups: Mapping[tuple[Key, Key], Sequence[_Cell]]) -> tuple[Counter[Key], Counter[Key]]:
        """Return the number of changed series of each row, and of each column."""
        rows, columns = Counter[Key](), Counter[Key]()
        for (row, column), cells in groups.items():
            changed = sum(cell["id"] in self.changed for cell in cells)
            rows[row] += changed
            columns[column] += changed
        return rows, columns

    def _make_cell(self, cells: Sequence[_Cell] | None) -> AffectedCell:
        """Return one cell; of several series the one with the largest change is shown."""
        if not cells:
            return AffectedCell("missing")
        ids = [cell["id"] for cell in cells]
        rows = [self.changed.get(one) or self.elsewhere.get(one) for one in ids]
        changed = sum(one in self.changed for one in ids)
        known = [row for row in rows if row is not None and (not changed or row["series_id"] in self.changed)]
        worst = max(known, key=lambda row: abs(row["relative"]), default=None)
        judged = [one for one in ids if one in self.statuses]
        state: CellState = (
            "changed" if changed else "elsewhere" if worst else "unchanged" if judged else "unjudged"
        )
        shown = worst["series_id"] if worst else (judged or ids)[0]
        return AffectedCell(state, shown, worst, changed, len(ids), self.statuses.get(shown, ""))


def _read_elsewhere(
    incident: Incident,
    changes: Mapping[tuple[str, int], dict[str, Any]],
    series_ids: Collection[int],
    metric: str,
) -> dict[int, dict[str, Any]]:
    """Return changes of the same direction at that time that are in another incident or in none."""
    times = [row["started_at"] for row in changes.values()]
    window = find_event_window([row["evidence__interval_s"] or 0.0 for row in changes.values()])
    rows = (
        Change.objects.filter(
            series_id__in=list(series_ids),
            metric=metric,
            is_regression=incident.is_regression,
            started_at__range=(min(times) - window, max(times) + window),
        )
        .exclude(state__in=(ChangeState.WITHDRAWN, ChangeState.SUSPECTED))
        .exclude(incident_id=incident.id)
    )
    return {row["series_id"]: dict(row) for row in rows.order_by("id").values(*_CHANGE)}


def _arrange(axes: Sequence[str], cells: Sequence[_Cell]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dimensions of the rows and of the columns; a list has no columns.

    Rows are patterns or block sizes, else the dimension with more values.
    """
    names = sorted(axes, key=lambda name: (name not in _ROWS, -len({cell[name] for cell in cells})))
    row, x = names[0], tuple(names[1:])
    columns = {name: [cell[name] for cell in cells] for name in _ROWS}
    pattern, size = _ROWS
    is_one_label = row in _ROWS and (
        determines(columns[pattern], columns[size]) or determines(columns[size], columns[pattern])
    )
    return (_ROWS if is_one_label else (row,)), x


def _select_keys(keys: Sequence[Key], names: Sequence[str], *, most: int, weights: Counter[Key]) -> list[Key]:
    """Return the keys in order; if too many, those with the most changes, then the most series."""
    counts = Counter(keys)
    selected = sorted(counts, key=lambda key: (-weights[key], -counts[key]))[:most]
    return sorted(
        selected, key=lambda key: [order_value(name, value) for name, value in zip(names, key, strict=True)]
    )


def _format_row(names: Sequence[str], key: Key) -> str:
    """Return the label of a row: "4k random read", "depth 8"."""
    if names == _ROWS:
        pattern, size = key
        name = describe_value("pattern", pattern)
        return f"{describe_value('block_size_bytes', size)} {name}" if size is not None else name
    if names[0] in ("pattern", "host"):
        return describe_value(names[0], key[0])
    return describe_setting(names[0], key[0])


def _order_metric(item: tuple[str, int]) -> tuple[int, int]:
    return -item[1], list(CATALOG).index(item[0])


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
