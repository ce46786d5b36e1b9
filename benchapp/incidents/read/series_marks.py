"""Marks of series and hosts: the open or accepted change that every page shows beside them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log1p
from typing import Final, Literal

from benchapp.catalog.metrics import SMALLEST_CHANGES, list_detected_metrics
from benchapp.framework.read.binary_columns import fetch_rows, write_ids
from benchapp.models import STATED_CHANGE, UNRESOLVED, ChangeState, IncidentState, Severity, Verdict

SEVERITY_ORDER: Final = (Severity.HIGH, Severity.MEDIUM, Severity.LOW)
MarkState = Literal["open", "recovered", "accepted", "muted"]
_ORDER: Final[dict[MarkState, int]] = {"open": 0, "accepted": 1, "muted": 2, "recovered": 3}
_LIVE: Final = [ChangeState.PROVISIONAL.value, ChangeState.CONFIRMED.value]
_UNRESOLVED: Final = [state.value for state in UNRESOLVED]
# An open incident may have series that are back already, while others are not.
_IS_OPEN: Final = "(incident.is_open AND change.evidence->>'is_back' IS DISTINCT FROM 'true')"
_READ_SERIES: Final = (
    "SELECT change.series_id, change.id, change.incident_id, change.metric, change.is_regression, change.relative,"  # noqa: S608
    f" change.started_at, {_IS_OPEN}, incident.state, incident.planned_event_id"
    " FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    " WHERE (incident.state = ANY(%s) OR incident.verdict = %s AND change.metric = %s)"
    # One value, however many series.
    " AND change.series_id IN (SELECT unnest(%s::bigint[])) AND change.state = ANY(%s)"
    f" AND {STATED_CHANGE} ORDER BY change.series_id, change.started_at, change.id"
)
_COUNT_REGRESSIONS: Final = (
    "SELECT count(DISTINCT change.series_id)"  # noqa: S608
    " FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    f" WHERE {_IS_OPEN} AND change.metric = %s AND change.is_regression AND change.state = ANY(%s)"
    " AND change.series_id IN (SELECT unnest(%s::bigint[]))"
)
_READ_BEFORE: Final = (
    "SELECT DISTINCT ON (level.series_id) level.series_id, level.median, level.p10, level.p90, level.n, level.to_at"  # noqa: S608
    " FROM benchapp_level level JOIN (SELECT change.series_id, min(change.started_at) AS started_at"
    "  FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    f"  WHERE {_IS_OPEN} AND {STATED_CHANGE} AND change.is_regression AND change.state = ANY(%s)"
    "  AND change.metric = ANY(%s)"
    "  AND change.series_id IN (SELECT unnest(%s::bigint[])) GROUP BY change.series_id"
    " ) AS regressed ON regressed.series_id = level.series_id"
    " WHERE level.metric = %s AND NOT level.is_current AND level.from_at < regressed.started_at"
    " ORDER BY level.series_id, level.from_at DESC"
)
_READ_SCOPES: Final = (
    "SELECT series.scope, series.id, change.id, change.incident_id, change.metric, change.is_regression,"  # noqa: S608
    " change.relative, change.started_at, incident.severity"
    " FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    " JOIN benchapp_series series ON series.id = change.series_id"
    " WHERE series.scope = ANY(%s) AND change.state = ANY(%s) AND change.is_regression"
    f" AND {_IS_OPEN} AND {STATED_CHANGE} ORDER BY change.id"
)


@dataclass(frozen=True, slots=True)
class SeriesMark:
    """The change of a series that matters most, of the metric shown if it has one, and its incident.

    state: "open": its incident is open; "recovered": it, or this series, is back at the level before, and not resolved;
    "accepted": a person accepted the new level as the baseline; "muted": it was an expected change.
    relative: after / before − 1.
    """

    series_id: int
    change_id: int
    incident_id: int
    metric: str
    state: MarkState
    is_regression: bool
    relative: float
    started_at: datetime


def read_series_marks(series_ids: Sequence[int], *, metric: str) -> dict[int, SeriesMark]:
    """Return the mark of each series that has one, by series id; one query.

    Changes of the metric come before those of others, open ones before accepted, muted and recovered ones, later ones
    before earlier ones. An accepted or muted change marks its series until the next change of that metric.
    """
    if not series_ids:
        return {}
    rows = fetch_rows(
        _READ_SERIES, [_UNRESOLVED, Verdict.EXPECTED.value, metric, write_ids(series_ids), _LIVE]
    )
    best: dict[int, tuple[tuple[int, int], SeriesMark]] = {}
    for series_id, change_id, incident_id, of, is_regression, relative, started_at, *about in rows:
        state = _find_state(*about)
        rank = (int(of != metric), _ORDER[state])
        if series_id not in best or rank <= best[series_id][0]:
            best[series_id] = (
                rank,
                SeriesMark(
                    series_id, change_id, incident_id, of, state, bool(is_regression), relative, started_at
                ),
            )
    return {series_id: mark for series_id, (_, mark) in best.items()}


def list_open_incidents(series_ids: Iterable[int], marks: Mapping[int, SeriesMark]) -> tuple[int, ...]:
    """Return the incidents of series whose mark is open, the newest first. marks: of `read_series_marks`."""
    found = {marks[each].incident_id for each in series_ids if each in marks and marks[each].state == "open"}
    return tuple(sorted(found, reverse=True))


def count_open_regressions(series_ids: Sequence[int], *, metric: str) -> int:
    """Return how many of these series have an open regression of this metric; one query."""
    if not series_ids:
        return 0
    ((count,),) = fetch_rows(_COUNT_REGRESSIONS, [metric, _LIVE, write_ids(series_ids)])
    return int(count)


def _find_state(is_open: bool, incident_state: str, planned_event_id: int | None) -> MarkState:
    if is_open:
        return "open"
    if incident_state != IncidentState.RESOLVED:
        return "recovered"
    return "accepted" if planned_event_id is None else "muted"


@dataclass(frozen=True, slots=True)
class LevelBefore:
    """The level of a series before its open regressions, in the metric's base unit. last_at: its last run."""

    median: float
    p10: float
    p90: float
    n: int
    last_at: datetime


def read_levels_before(marks: Mapping[int, SeriesMark], *, metric: str) -> dict[int, LevelBefore]:
    """Return the level of a metric before its open regressions, by series id; one query, none without an open mark.

    marks: of `read_series_marks`. Of a series whose runs are a single level, as of a drift, there is none.
    """
    regressed = [mark.series_id for mark in marks.values() if mark.state == "open" and mark.is_regression]
    if not regressed:
        return {}
    detected = sorted(list_detected_metrics([metric]))
    rows = fetch_rows(_READ_BEFORE, [_LIVE, detected, write_ids(regressed), metric])
    return {series_id: LevelBefore(*level) for series_id, *level in rows}


def find_worst_mark(marks: Iterable[SeriesMark]) -> SeriesMark | None:
    """Return the mark that matters most: open before accepted and recovered, then the largest change."""
    return min(marks, key=rank_mark, default=None)


def rank_mark(mark: SeriesMark) -> tuple[int, float]:
    """Return the sort key of a mark: open before accepted (1) and recovered (2), then the largest change."""
    return _ORDER[mark.state], -measure_size(mark)


@dataclass(frozen=True, slots=True)
class ScopeMark:
    """The open regressions of a host or pool.

    largest: of its changes; incident_ids: newest first; severity: the highest of these incidents.
    """

    largest: SeriesMark
    incident_ids: tuple[int, ...]
    severity: Severity


def read_scope_marks(scopes: Sequence[str]) -> dict[str, ScopeMark]:
    """Return the mark of each scope, pool:NAME or host:NAME, with an open regression; one query."""
    if not scopes:
        return {}
    rows = fetch_rows(_READ_SCOPES, [list(scopes), _LIVE])
    found: dict[str, list[SeriesMark]] = {}
    severities: dict[str, list[Severity]] = {}
    for (
        scope,
        series_id,
        change_id,
        incident_id,
        metric,
        is_regression,
        relative,
        started_at,
        severity,
    ) in rows:
        mark = SeriesMark(
            series_id, change_id, incident_id, metric, "open", is_regression, relative, started_at
        )
        found.setdefault(scope, []).append(mark)
        severities.setdefault(scope, []).append(Severity(severity))
    return {
        scope: ScopeMark(
            largest,
            tuple(sorted({mark.incident_id for mark in marks}, reverse=True)),
            min(severities[scope], key=SEVERITY_ORDER.index),
        )
        for scope, marks in found.items()
        if (largest := find_worst_mark(marks))
    }


def measure_size(mark: SeriesMark) -> float:
    """Return the size in multiples of the metric's threshold; half counts as much as double."""
    return abs(log1p(max(mark.relative, -0.999))) / log1p(SMALLEST_CHANGES[mark.metric])
