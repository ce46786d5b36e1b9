"""Status of series: the open or accepted change that pages show beside them, and whether each metric can be judged."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import log1p
from typing import Annotated, Any, Final, Literal

from django.db.models import Case, DurationField, ExpressionWrapper, F, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Greatest
from django.db.models.lookups import GreaterThan
from django.utils import timezone
from msgspec import Meta

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES, find_detected_metric, list_detected_metrics
from benchapp.detection.rules.baselines import DRIFT_RUNS_MINIMUM
from benchapp.detection.rules.levels import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.framework.read.binary_columns import fetch_rows, write_ids
from benchapp.framework.read.pagination import Cursor, Page, behind, cut_page, read_cursor
from benchapp.incidents.read.changes import SeriesName, name_series
from benchapp.models import (
    STATED_CHANGE,
    UNRESOLVED,
    ChangeState,
    DetectionResult,
    DetectionStatus,
    IncidentState,
    Series,
    Severity,
    Slope,
    Verdict,
    read_slope,
)
from benchapp.models.filtering import match_series

SEVERITY_ORDER: Final = (Severity.HIGH, Severity.MEDIUM, Severity.LOW)
MarkState = Literal["open", "recovered", "accepted", "muted"]
_ORDER: Final[dict[MarkState, int]] = {"open": 0, "accepted": 1, "muted": 2, "recovered": 3}
LIVE: Final = [ChangeState.PROVISIONAL.value, ChangeState.CONFIRMED.value]
_UNRESOLVED: Final = [state.value for state in UNRESOLVED]
# An open incident may have series that are back already, while others are not.
IS_OPEN: Final = "(incident.is_open AND change.evidence->>'is_back' IS DISTINCT FROM 'true')"
_READ_SERIES: Final = (
    "SELECT change.series_id, change.id, change.incident_id, change.metric, change.is_regression, change.relative,"  # noqa: S608
    " change.started_at, CASE WHEN change.method LIKE 'drift-%%' THEN change.evidence END,"
    f" {IS_OPEN}, incident.state, incident.planned_event_id"
    " FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    " WHERE (incident.state = ANY(%s) OR incident.verdict = %s AND change.metric = %s)"
    # One value, however many series.
    " AND change.series_id IN (SELECT unnest(%s::bigint[])) AND change.state = ANY(%s)"
    f" AND {STATED_CHANGE} ORDER BY change.series_id, change.started_at, change.id"
)
_OF_OPEN_REGRESSIONS: Final = (
    " FROM benchapp_change change JOIN benchapp_incident incident ON incident.id = change.incident_id"
    " JOIN benchapp_series series ON series.id = change.series_id"
    f" WHERE change.state = ANY(%s) AND change.is_regression AND {IS_OPEN} AND {STATED_CHANGE}"
)
_IN_METRICS: Final = " AND change.metric = ANY(%s) AND change.series_id IN (SELECT unnest(%s::bigint[]))"
_COUNT_REGRESSIONS: Final = f"SELECT count(DISTINCT change.series_id){_OF_OPEN_REGRESSIONS}{_IN_METRICS}"
_READ_BEFORE: Final = (
    "SELECT DISTINCT ON (level.series_id) level.series_id, level.median, level.p10, level.p90, level.n, level.to_at"  # noqa: S608
    " FROM benchapp_level level JOIN (SELECT change.series_id, min(change.started_at) AS started_at"
    f" {_OF_OPEN_REGRESSIONS}{_IN_METRICS} GROUP BY change.series_id"
    " ) AS regressed ON regressed.series_id = level.series_id"
    " WHERE level.metric = %s AND NOT level.is_current AND level.from_at < regressed.started_at"
    " ORDER BY level.series_id, level.from_at DESC"
)
_READ_SCOPES: Final = (
    "SELECT series.scope, series.id, change.id, change.incident_id, change.metric, change.is_regression,"
    " change.relative, change.started_at, incident.severity"
    f"{_OF_OPEN_REGRESSIONS} AND series.scope = ANY(%s) ORDER BY change.id"
)
_REGRESSED_SERIES: Final = f"SELECT change.series_id{_OF_OPEN_REGRESSIONS}"
REGRESSED_SCOPES: Final = f"SELECT series.scope{_OF_OPEN_REGRESSIONS}"
"""The scopes that have a mark (`read_scope_marks`); LIVE is its parameter."""


@dataclass(frozen=True, slots=True)
class SeriesMark:
    """The change of a series that matters most, of the metric shown if it has one, and its incident.

    state: "open": its incident is open; "recovered": it, or this series, is back at the level before, and not resolved;
    "accepted": a person accepted the new level as the baseline; "muted": it was an expected change.
    relative: after / before − 1. slope: of a drift.
    """

    series_id: int
    change_id: int
    incident_id: int
    metric: str
    state: MarkState
    is_regression: bool
    relative: float
    started_at: datetime
    slope: Slope | None = None

    def is_open_in(self, metric: str | None) -> bool:
        """Return whether it is an open change of a metric, or of what is detected instead; None: of any metric."""
        return self.state == "open" and (metric is None or self.metric in list_detected_metrics([metric]))

    def is_worse_in(self, metric: str | None) -> bool:
        """Return whether its series has an open regression of a metric: what pages and answers count."""
        return self.is_regression and self.is_open_in(metric)


def read_series_marks(series_ids: Sequence[int], *, metric: str | None) -> dict[int, SeriesMark]:
    """Return the mark of each series that has one, by series id; one query.

    Changes of the metric and of what is detected instead come before those of others, open regressions before open
    improvements, accepted, muted and recovered changes, later ones before earlier ones. An accepted or muted change
    marks its series until the next change of that metric. metric: None if all are alike, then by their order.
    """
    if not series_ids:
        return {}
    rows = fetch_rows(
        _READ_SERIES, [_UNRESOLVED, Verdict.EXPECTED.value, metric, write_ids(series_ids), LIVE]
    )
    detected = set(CATALOG) if metric is None else list_detected_metrics([metric])
    places = {name: place if metric is None else 0 for place, name in enumerate(CATALOG)}
    best: dict[int, tuple[tuple[bool, int, bool, int], SeriesMark]] = {}
    for series_id, change_id, incident_id, of, is_regression, relative, started_at, drift, *about in rows:
        state = _find_state(*about)
        rank = (of not in detected, _ORDER[state], state == "open" and not is_regression, places[of])
        if series_id not in best or rank <= best[series_id][0]:
            best[series_id] = (
                rank,
                SeriesMark(
                    series_id,
                    change_id,
                    incident_id,
                    of,
                    state,
                    bool(is_regression),
                    relative,
                    started_at,
                    read_slope(drift or {}),
                ),
            )
    return {series_id: mark for series_id, (_, mark) in best.items()}


def list_open_incidents(series_ids: Iterable[int], marks: Mapping[int, SeriesMark]) -> tuple[int, ...]:
    """Return the incidents of series whose mark is open, the newest first. marks: of `read_series_marks`."""
    found = {marks[each].incident_id for each in series_ids if each in marks and marks[each].state == "open"}
    return tuple(sorted(found, reverse=True))


def count_open_regressions(series_ids: Sequence[int], *, metric: str | None) -> int:
    """Return how many of these series are worse in a metric (`SeriesMark.is_worse_in`); one query."""
    if not series_ids:
        return 0
    detected = sorted(CATALOG if metric is None else list_detected_metrics([metric]))
    ((count,),) = fetch_rows(_COUNT_REGRESSIONS, [LIVE, detected, write_ids(series_ids)])
    return int(count)


def list_worse(series: QuerySet[Series], *, metric: str) -> list[SeriesMark]:
    """Return the marks of some series with an open regression of a metric, the worst first.

    Two queries, one if there are none.
    """
    regressed = RawSQL(_REGRESSED_SERIES, [LIVE])  # noqa: S611
    found = series.order_by().filter(pk__in=regressed).values_list("pk", flat=True)
    marks = read_series_marks(list(found), metric=metric).values()
    worse = [mark for mark in marks if mark.is_worse_in(metric)]
    return sorted(worse, key=lambda mark: (*rank_mark(mark), mark.series_id))


def _find_state(is_open: bool, incident_state: str, planned_event_id: int | None) -> MarkState:
    if is_open:
        return "open"
    if incident_state != IncidentState.RESOLVED:
        return "recovered"
    return "accepted" if planned_event_id is None else "muted"


@dataclass(frozen=True, slots=True)
class LevelValues:
    """The values of a level, in the metric's base unit; median: None if unknown. last_at: its last run."""

    median: float | None
    p10: float
    p90: float
    n: int
    last_at: datetime


def read_levels_before(marks: Mapping[int, SeriesMark], *, metric: str) -> dict[int, LevelValues]:
    """Return the level of a metric before its open regressions, by series id; one query, none without an open mark.

    marks: of `read_series_marks`. Of a series whose runs are a single level, as of a drift, there is none.
    """
    regressed = [mark.series_id for mark in marks.values() if mark.is_worse_in(metric)]
    if not regressed:
        return {}
    detected = sorted(list_detected_metrics([metric]))
    rows = fetch_rows(_READ_BEFORE, [LIVE, detected, write_ids(regressed), metric])
    return {series_id: LevelValues(*level) for series_id, *level in rows}


def find_worst_mark(marks: Iterable[SeriesMark]) -> SeriesMark | None:
    """Return the mark that matters most: open before accepted and recovered, then the largest change."""
    return min(marks, key=rank_mark, default=None)


def rank_mark(mark: SeriesMark) -> tuple[int, float]:
    """Return the sort key of a mark: open before accepted (1) and recovered (2), then the largest change."""
    return _ORDER[mark.state], -measure_size(mark)


@dataclass(frozen=True, slots=True)
class ScopeMark:
    """The open regressions of a host or pool.

    largest: of its changes; incident_ids: newest first; severity: the highest of these incidents; series_count: of its
    own series, with changes.
    """

    largest: SeriesMark
    incident_ids: tuple[int, ...]
    severity: Severity
    series_count: int


def read_scope_marks(scopes: Sequence[str]) -> dict[str, ScopeMark]:
    """Return the mark of each scope, pool:NAME or host:NAME, with an open regression; one query."""
    if not scopes:
        return {}
    rows = fetch_rows(_READ_SCOPES, [LIVE, list(scopes)])
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
            len({mark.series_id for mark in marks}),
        )
        for scope, marks in found.items()
        if (largest := find_worst_mark(marks))
    }


def measure_size(mark: SeriesMark) -> float:
    """Return the size in multiples of the metric's threshold; half counts as much as double."""
    return abs(log1p(max(mark.relative, -0.999))) / log1p(SMALLEST_CHANGES[mark.metric])


# For the empty inbox: a million series have three million rows.
COUNTED_MAXIMUM: Final = 100_000
# Of a metric without one: nothing is detected in it.
_DEFAULT_THRESHOLD: Final = 0.05


@dataclass(frozen=True, slots=True)
class StoredSpreadIncrease:
    """An increase in spread: since when, and the relative spreads before and after."""

    from_at: Annotated[datetime, Meta(description="first run that varies more")]
    before: Annotated[float, Meta(description="relative standard deviation")]
    after: float


@dataclass(frozen=True, slots=True)
class StoredTwoStates:
    """Two states between which a series alternates: medians in the base unit, share of values in the higher one.

    visits: how often the rarer one was entered since from_at.
    """

    low: Annotated[float, Meta(description="median of the lower state, in the base unit of the metric")]
    high: float
    high_share: Annotated[float, Meta(description="of the runs, 0 to 1")]
    visits: Annotated[int, Meta(description="how often the rarer state was entered")]
    from_at: datetime


@dataclass(frozen=True, slots=True)
class DetectionStatusRow:
    """Detection status of one metric of a series. seasons: factors that are removed, 24 by hour, 7 by weekday.

    threshold: smallest change that is reported, relative. drift_runs: from which drifts are judged.
    """

    metric: str
    status: str
    n: int
    spread: float | None
    smallest_detectable_change: float | None
    runs_needed: int | None
    baseline_from_at: datetime | None
    method: str
    judged_at: datetime
    threshold: float
    spread_increase: StoredSpreadIncrease | None = None
    two_states: StoredTwoStates | None = None
    seasons: Mapping[str, Sequence[float]] = field(default_factory=dict)
    drift_runs: int = DRIFT_RUNS_MINIMUM


def list_detection_statuses(series_id: int) -> tuple[DetectionStatusRow, ...]:
    """Return the detection status of each metric of a series; one query."""
    rows = DetectionResult.objects.annotate(current=_current_status(timezone.now())).filter(
        series_id=series_id
    )
    return tuple(map(_make_status, rows.order_by("id")))


def list_variability(series_ids: Collection[int]) -> dict[int, tuple[DetectionStatusRow, ...]]:
    """Return the metrics of these series with an increase in spread or two states, by series id; one query."""
    found = DetectionResult.objects.annotate(current=_current_status(timezone.now())).filter(
        Q(spread_increase__isnull=False) | Q(two_states__isnull=False), series__in=series_ids
    )
    rows: dict[int, list[DetectionStatusRow]] = {}
    for result in found.order_by("series_id", "id"):
        rows.setdefault(result.series_id, []).append(_make_status(result))
    return {series_id: tuple(of) for series_id, of in rows.items()}


def read_spreads_version(series_ids: Collection[int]) -> str:
    """Return a version of the increases in spread of these series; one query.

    The versions of the series do not cover it: an increase is found after its runs are stored.
    """
    found = DetectionResult.objects.filter(spread_increase__isnull=False, series__in=series_ids)
    return repr(list(found.order_by("id").values_list("id", "spread_increase")))


def select_detected(rows: Sequence[DetectionStatusRow], metric: str) -> DetectionStatusRow | None:
    """Return the row of a series that has the findings of a metric; None without any.

    rows: of a series, as of `list_variability`. Of metrics that are one signal only one is evaluated.
    """
    detected = find_detected_metric(metric, [row.metric for row in rows])
    return next((row for row in rows if row.metric == detected), None)


def list_detection_status(
    status: str,
    match: Filter,
    *,
    within: Q | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Page[tuple[SeriesName, DetectionStatusRow]]:
    """Return metrics of series with one status, or any (""), last evaluated first; one query. Raises BadCursor.

    within: a condition of Series, as a run in a time range.
    """
    cursor = read_cursor(after)
    found = DetectionResult.objects.annotate(current=_current_status(timezone.now())).filter(
        match_series(match, "series__"), behind("judged_at", cursor, is_descending=True)
    )
    if within:
        found = found.filter(series__in=Series.objects.filter(within).values("pk"))
    if status:
        found = found.filter(current=status)
    rows: list[Any] = list(found.select_related("series").order_by("-judged_at", "-id")[: limit + 1])
    page = cut_page(rows, limit, cursor_of=lambda result: Cursor(result.judged_at, result.pk))
    items = tuple((name_series(result.series), _make_status(result)) for result in page.items)
    return Page(items, page.next_cursor)


def count_detection_status() -> dict[str, int]:
    """Count metrics of series by status; more than COUNTED_MAXIMUM in all if the count was cut off; one query."""
    # PostgreSQL looks for stale series once, and not for each of their metrics.
    stale = Series.objects.filter(_match_stale(timezone.now()))
    text, values = stale.values("pk").query.sql_with_params()
    rows = fetch_rows(
        "SELECT CASE WHEN stale.id IS NULL THEN status ELSE %s END, count(*) FROM ("  # noqa: S608
        "  SELECT series_id, status FROM benchapp_detectionresult ORDER BY id LIMIT %s) AS counted"
        f" LEFT JOIN ({text}) AS stale(id) ON stale.id = series_id GROUP BY 1",
        [DetectionStatus.STALE.value, COUNTED_MAXIMUM + 1, *values],
    )
    return dict(rows)


def _current_status(now: datetime) -> Case:
    """Return the status as of now: a series becomes stale with time alone."""
    stale = When(_match_stale(now, "series__"), then=Value(DetectionStatus.STALE.value))
    return Case(stale, default=F("status"))


def _match_stale(now: datetime, prefix: str = "") -> Q:
    """Return the condition on Series of the rule of `is_stale`; prefix: the path to it from another model."""
    last_at, first_at = F(f"{prefix}last_at"), F(f"{prefix}first_at")
    life = ExpressionWrapper(last_at - first_at, output_field=DurationField())
    intervals = Greatest(F(f"{prefix}measurement_count") - 1, 1)
    usual = ExpressionWrapper(INTERVALS * life / intervals, output_field=DurationField())
    silent = ExpressionWrapper(Value(now) - last_at, output_field=DurationField())
    return Q(**{f"{prefix}last_at__lt": now - STALE_AFTER}) & (
        Q(**{f"{prefix}measurement_count__lt": INTERVAL_FROM}) | Q(GreaterThan(silent, usual))
    )


def _make_status(result: Any) -> DetectionStatusRow:
    values = {name: getattr(result, name) for name in _COLUMNS}
    increase, states = map(_read_times, (result.spread_increase, result.two_states))
    return DetectionStatusRow(
        status=result.current,
        spread_increase=StoredSpreadIncrease(**increase) if increase else None,
        two_states=StoredTwoStates(**states) if states else None,
        threshold=result.smallest_change or SMALLEST_CHANGES.get(result.metric, _DEFAULT_THRESHOLD),
        **values,
    )


def _read_times(stored: dict[str, Any] | None) -> dict[str, Any] | None:
    return stored and {**stored, "from_at": datetime.fromisoformat(stored["from_at"])}


_COLUMNS: Final = (
    "metric",
    "n",
    "spread",
    "smallest_detectable_change",
    "runs_needed",
    "baseline_from_at",
    "method",
    "judged_at",
    "seasons",
)
