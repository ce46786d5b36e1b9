"""Changes: all, newest first, and those of one series."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol, get_args

import numpy as np
from django.db.models import CharField, Exists, IntegerField, Q, QuerySet, Subquery, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Abs
from django.utils.dateparse import parse_datetime

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import is_latency
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.levels import Quantiles
from benchapp.detection.rules.pooled_levels import POOLED_METHOD, POOLED_TICK
from benchapp.detection.rules.recovery import find_recoveries
from benchapp.framework.read.pagination import (
    Cursor,
    Page,
    SizeCursor,
    behind,
    behind_size,
    cut_page,
    match_times,
    read_cursor,
)
from benchapp.models import Change, ChangeState, Measurement, Series, Slope, read_slope
from benchapp.models.filtering import match_changes
from benchapp.models.measurement import select_kind
from benchapp.series.read.titles import describe_target, describe_workload, name_place, name_scope

# Per chart, the newest: more marks would cover the line.
MARKS_MAXIMUM: Final = 500
# Runs of a change's evidence on each side; the detector reads 60.
SIDE_MAXIMUM: Final = 200


@dataclass(frozen=True, slots=True)
class SeriesName:
    """Identity and titles of the series of a change."""

    id: int
    scope: str
    scope_name: str
    place: str
    workload_title: str
    target_title: str
    rw: str
    direction: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change; values in the metric's base unit.

    points_from_at, points_to_at: the first and the last run of its evidence; None if unknown. recovers_from: the size
    of the regression that it ends; None if it ends none, or where that is not read.
    """

    id: int
    series: SeriesName
    metric: str
    run_id: int | None
    last_good_run_id: int | None
    started_at: datetime
    state: str
    is_regression: bool
    before_median: float
    before_n: int
    before_spread: float
    after_median: float
    after_n: int
    after_spread: float
    relative: float
    relative_low: float | None
    relative_high: float | None
    confidence: float
    method: str
    incident_id: int | None
    found_at: datetime
    updated_at: datetime
    withdrawn_at: datetime | None
    points_from_at: datetime | None
    points_to_at: datetime | None
    evidence: Mapping[str, Any]
    recovers_from: float | None = None

    @property
    def is_live(self) -> bool:
        """Return whether the change is not withdrawn."""
        return self.state != ChangeState.WITHDRAWN

    @property
    def is_drift(self) -> bool:
        """Return whether it is a gradual change rather than a new level."""
        return self.method == DRIFT_METHOD

    @property
    def is_pooled(self) -> bool:
        """Return whether the pooled level of its host or pool changed, rather than this series alone."""
        return self.method == POOLED_METHOD

    @property
    def is_young(self) -> bool:
        """Return whether its series was too young to know its noise: the usual spread of others was the prior."""
        return self.evidence.get("usual_spread") is not None

    @property
    def accepted_from_at(self) -> datetime | None:
        """Return the start of the accepted baseline it drifted from; None if it is not a drift from one."""
        return _read_time(self.evidence.get("accepted_from"))

    @property
    def slope(self) -> Slope | None:
        """Return the slope of a drift; None if it is not a drift."""
        return read_slope(self.evidence)

    @property
    def level_from_at(self) -> datetime:
        """Return when its new level begins: of a drift, the newest runs."""
        return _read_time(self.evidence.get("newest_from")) or self.started_at


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change as marked in a chart. recovers_from: the size of the regression that it ends; None if it ends none."""

    id: int
    series_id: int
    metric: str
    run_id: int | None
    at: datetime
    state: str
    is_regression: bool
    relative: float
    relative_low: float | None
    relative_high: float | None
    before_median: float
    after_median: float
    incident_id: int | None
    method: str
    recovers_from: float | None = None

    @property
    def is_drift(self) -> bool:
        """Return whether it is a gradual change rather than a new level."""
        return self.method == DRIFT_METHOD


@dataclass(frozen=True, slots=True)
class SidePoint:
    """One run before or after a change; value in the metric's base unit."""

    at: datetime
    run_id: int
    value: float


ChangeSort = Literal["-started_at", "started_at", "-size", "size"]
CHANGE_SORTS: Final[tuple[ChangeSort, ...]] = get_args(ChangeSort)


class SortedRow(Protocol):
    """What a cursor takes of a change or an incident."""

    @property
    def id(self) -> int:
        """Return the id."""

    @property
    def started_at(self) -> datetime:
        """Return the start of its first run."""

    @property
    def relative(self) -> float:
        """Return after / before - 1."""


def list_changes(
    match: Filter | None = None,
    *,
    incident: int | None = None,
    metric: str | None = None,
    state: str | None = None,
    is_regression: bool | None = None,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    sort: ChangeSort = "-started_at",
) -> Page[ChangeRow]:
    """Return changes after the cursor, newest first; two queries. Raises BadCursor.

    match: filter of their series. Withdrawn changes are listed only with state="withdrawn". None: no restriction.
    from_at inclusive, to_at exclusive: when they began. sort: size is that of the relative
    change, of a regression or an improvement.
    """
    wanted = {"incident_id": incident, "metric": metric, "state": state, "is_regression": is_regression}
    changes = Change.objects.all() if state == ChangeState.WITHDRAWN else Change.objects.stated()
    changes = changes.filter(match_changes(match or Filter()), match_times("started_at", from_at, to_at))
    changes = changes.filter(**{name: value for name, value in wanted.items() if value is not None})
    found = _sort_changes(changes, read_change_cursor(after, sort=sort), sort=sort)
    rows = _mark_recoveries(read_change_rows(found[: limit + 1]))
    return cut_page(rows, limit, cursor_of=partial(make_change_cursor, sort=sort))


def _sort_changes(
    changes: QuerySet[Change], cursor: Cursor | SizeCursor | None, *, sort: ChangeSort
) -> QuerySet[Change]:
    is_descending = sort.startswith("-")
    sign = "-" if is_descending else ""
    if sort.endswith("size"):
        beyond = behind_size(
            "abs_relative", cursor if isinstance(cursor, SizeCursor) else None, is_descending=is_descending
        )
        changes = changes.alias(abs_relative=Abs("relative"))
        return changes.filter(beyond).order_by(f"{sign}abs_relative", f"{sign}id")
    beyond = behind("started_at", cursor if isinstance(cursor, Cursor) else None, is_descending=is_descending)
    return changes.filter(beyond).order_by(f"{sign}started_at", f"{sign}id")


def read_change_cursor(after: str | None, *, sort: ChangeSort) -> Cursor | SizeCursor | None:
    """Return the cursor of a list of changes or incidents, None for the first page. Raises BadCursor."""
    if sort.endswith("size"):
        return None if after is None else SizeCursor.decode(after)
    return read_cursor(after)


def make_change_cursor(row: SortedRow, *, sort: ChangeSort) -> Cursor | SizeCursor:
    """Return the cursor of a change or an incident in an order."""
    return SizeCursor(abs(row.relative), row.id) if sort.endswith("size") else Cursor(row.started_at, row.id)


def list_changes_of(series_ids: Sequence[int], *, metrics: Sequence[str]) -> dict[int, list[ChangeMark]]:
    """Return the changes that a chart of these series marks, by time, without withdrawn ones; one query."""
    rows = (
        Change.objects.stated()
        .filter(series_id__in=list(series_ids), metric__in=list(metrics))
        .order_by("-started_at", "-id")
        .values_list(*_MARKED)[:MARKS_MAXIMUM]
    )
    marks = [ChangeMark(*row) for row in reversed(rows)]
    lines: dict[tuple[int, str], list[ChangeMark]] = defaultdict(list)
    for mark in marks:
        lines[mark.series_id, mark.metric].append(mark)
    ended = {key: ended for line in lines.values() for key, ended in find_recoveries(line).items()}
    found: dict[int, list[ChangeMark]] = {}
    for mark in marks:
        if mark.id in ended:
            mark = replace(mark, recovers_from=ended[mark.id].relative)
        found.setdefault(mark.series_id, []).append(mark)
    return found


def read_marks_version(series_ids: Sequence[int], *, metrics: Sequence[str]) -> str:
    """Return a version of the marks of these series; one query.

    The versions of the series do not cover it: a change can be assigned to another incident without a new point.
    """
    return repr(sorted(list_changes_of(series_ids, metrics=metrics).items()))


def list_changes_of_series(series_id: int, *, metric: str) -> list[ChangeRow]:
    """Return the changes of one metric of a series, newest first, with withdrawn ones, at most 500; one query."""
    changes = Change.objects.without_steps_of_drifts().filter(series_id=series_id, metric=metric)
    return read_change_rows(changes.order_by("-started_at", "-id")[:MARKS_MAXIMUM])


def _mark_recoveries(rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    """Return the rows with what those end that are recoveries; one query, none without an improvement."""
    improved = {row.series.id for row in rows if not row.is_regression and row.incident_id is None}
    if not improved:
        return list(rows)
    others = Change.objects.filter(series_id__in=improved, metric__in={row.metric for row in rows})
    ended = find_ended(read_change_rows(others))
    return [replace(row, recovers_from=ended[row.id].relative) if row.id in ended else row for row in rows]


def find_ended(rows: Iterable[ChangeRow]) -> dict[int, ChangeRow]:
    """Return the improvements that end a regression among these changes, by id, each with that regression."""
    lines: dict[tuple[int, str], list[ChangeRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.started_at, row.id)):
        if row.is_live:
            lines[row.series.id, row.metric].append(row)
    return {key: ended for line in lines.values() for key, ended in find_recoveries(line).items()}


def summarize_side(points: Sequence[SidePoint]) -> Quantiles | None:
    """Return median and spread of one side of a change; None without runs."""
    if not points:
        return None
    low, median, high = np.percentile([point.value for point in points], [10, 50, 90]).tolist()
    return Quantiles(median, low, high, len(points))


def read_sides(change: ChangeRow) -> tuple[list[SidePoint], list[SidePoint]]:
    """Return the valid runs of a change's evidence before and after it, at most 200 on each side; one query.

    The sides of a drift are the runs of the level before its slope, and of the newest level. Of a latency only runs of
    the kind of the first run of the change count.
    """
    counted = Measurement.objects.filter(
        series_id=change.series.id, error=0, is_excluded=False, **{f"{change.metric}__isnull": False}
    )
    if is_latency(change.metric) and change.run_id is not None:
        kind = RawSQL(select_kind(change.metric), (), output_field=CharField())  # constants  # noqa: S611
        own = counted.annotate(kind=kind).filter(run_id=change.run_id).values("kind")[:1]
        is_same = Q(kind__in=["", Subquery(own)]) | ~Exists(own)
        counted = counted.alias(kind=kind).filter(is_same)
    rows = counted.values_list("started_at", "run_id", change.metric)
    # Drifts and pooled changes start up to 2 µs after their run.
    first_at = change.started_at - POOLED_TICK
    before = rows.filter(started_at__lt=first_at)
    after = rows.filter(started_at__gte=change.level_from_at if change.is_drift else first_at)
    if change.points_from_at is not None:
        before = before.filter(started_at__gte=change.points_from_at)
    if change.points_to_at is not None:
        after = after.filter(started_at__lte=change.points_to_at)
    before = before.order_by("-started_at", "-id")[:SIDE_MAXIMUM]
    after = after.order_by("started_at", "id")[:SIDE_MAXIMUM]
    of_before = before.annotate(side=Value(0, IntegerField()))
    both = sorted(of_before.union(after.annotate(side=Value(1, IntegerField())), all=True))
    on_before, on_after = ([SidePoint(*point) for *point, side in both if side == place] for place in (0, 1))
    return on_before, on_after


def read_change_rows(changes: QuerySet[Change]) -> list[ChangeRow]:
    """Return changes with their series; one query."""
    return [make_change_row(change) for change in changes.select_related("series")]


def make_change_row(change: Change) -> ChangeRow:
    """Return a change as a row; its series must be prefetched."""
    evidence: dict[str, Any] = change.evidence
    return ChangeRow(
        series=name_series(change.series),
        points_from_at=_read_time(evidence.get("points_from")),
        points_to_at=_read_time(evidence.get("points_to")),
        **{name: getattr(change, name) for name in _COPIED},
    )


def read_series_names(series_ids: Collection[int]) -> dict[int, SeriesName]:
    """Return identity and titles of these series, by id; one query, none without ids."""
    if not series_ids:
        return {}
    return {series.pk: name_series(series) for series in Series.objects.filter(pk__in=series_ids)}


def name_series(series: Series) -> SeriesName:
    """Return identity and titles of a series."""
    return SeriesName(
        id=series.pk,
        scope=series.scope,
        scope_name=name_scope(series.scope),
        place=name_place(series.scope, series.target_name),
        workload_title=describe_workload(series, direction=series.direction),
        target_title=describe_target(series),
        rw=series.rw,
        direction=series.direction,
    )


_COPIED: Final = (
    "id",
    "metric",
    "run_id",
    "last_good_run_id",
    "started_at",
    "state",
    "is_regression",
    "before_median",
    "before_n",
    "before_spread",
    "after_median",
    "after_n",
    "after_spread",
    "relative",
    "relative_low",
    "relative_high",
    "confidence",
    "method",
    "incident_id",
    "found_at",
    "updated_at",
    "withdrawn_at",
    "evidence",
)
_MARKED: Final = (
    "id",
    "series_id",
    "metric",
    "run_id",
    "started_at",
    "state",
    "is_regression",
    "relative",
    "relative_low",
    "relative_high",
    "before_median",
    "after_median",
    "incident_id",
    "method",
)


def _read_time(text: object) -> datetime | None:
    return parse_datetime(text) if isinstance(text, str) else None
