"""Detection status of each metric of each series: learning, steady, too noisy, stale."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import (
    Case,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    Value,
    When,
)
from django.db.models.functions import Greatest
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import SMALLEST_CHANGES, find_detected_metric
from benchapp.detection.rules.baselines import DRIFT_RUNS_MINIMUM
from benchapp.detection.rules.staleness import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, behind, cut_page, read_cursor
from benchapp.incidents.read.changes import SeriesName, name_series
from benchapp.models import DetectionResult, DetectionStatus, Series
from benchapp.models.filtering import match_series

# For the empty inbox: a million series have three million rows.
_COUNTED_MAXIMUM: Final = 100_000
# Of a metric without one: nothing is detected in it.
_DEFAULT_THRESHOLD: Final = 0.05


@dataclass(frozen=True, slots=True)
class StoredSpreadIncrease:
    """An increase in spread: since when, and the relative spreads before and after."""

    from_at: datetime
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class StoredTwoStates:
    """Two states between which a series alternates: medians in the base unit, share of values in the higher one.

    visits: how often the rarer one was entered since from_at.
    """

    low: float
    high: float
    high_share: float
    visits: int
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


@dataclass(frozen=True, slots=True)
class MonitoredMetric:
    """One metric of one series with its detection status."""

    series: SeriesName
    result: DetectionStatusRow


@dataclass(frozen=True, slots=True)
class DetectionStatusCounts:
    """Metrics of series by status. has_more: the count was cut off."""

    by_status: Mapping[str, int]
    has_more: bool


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
) -> Page[MonitoredMetric]:
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
    return Page(tuple(_make_row(result) for result in page.items), page.next_cursor)


def count_detection_status() -> DetectionStatusCounts:
    """Count metrics of series by status, at most 100 000; one query."""
    # PostgreSQL looks for stale series once, and not for each of their metrics.
    stale = Series.objects.filter(_match_stale(timezone.now()))
    text, values = stale.values("pk").query.sql_with_params()
    rows = fetch_rows(
        "SELECT CASE WHEN stale.id IS NULL THEN status ELSE %s END, count(*) FROM ("  # noqa: S608
        "  SELECT series_id, status FROM benchapp_detectionresult ORDER BY id LIMIT %s) AS counted"
        f" LEFT JOIN ({text}) AS stale(id) ON stale.id = series_id GROUP BY 1",
        [DetectionStatus.STALE.value, _COUNTED_MAXIMUM + 1, *values],
    )
    counts = dict(rows)
    return DetectionStatusCounts(counts, has_more=sum(counts.values()) > _COUNTED_MAXIMUM)


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


def _make_row(result: DetectionResult) -> MonitoredMetric:
    return MonitoredMetric(name_series(result.series), _make_status(result))


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
