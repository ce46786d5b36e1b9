"""What is watched: where the judging of the metrics of series stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import (
    Case,
    Count,
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

from benchapp.analysis.charts.shift import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.grammar import Filter
from benchapp.models import Judgement, Standing
from benchapp.models.filtering import match_series
from benchapp.queries.incidents.changes import SeriesName, name_series
from benchapp.queries.pagination import Cursor, Page, behind, cut_page, read_cursor

# Counted for the words of an empty inbox: a million series have three million.
_COUNTED_MAXIMUM: Final = 100_000


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """Where the judging of one metric of a series stands, as Judgement has it."""

    metric: str
    standing: str
    n: int
    level: float | None
    spread: float | None
    least_change: float | None
    runs_needed: int | None
    baseline_from_at: datetime | None
    method: str
    judged_at: datetime


@dataclass(frozen=True, slots=True)
class WatchedRow:
    """One metric of one series that is watched."""

    series: SeriesName
    judgement: JudgementRow


@dataclass(frozen=True, slots=True)
class JudgedCounts:
    """Metrics of series by standing; has_more: there are more than were counted."""

    by_standing: Mapping[str, int]
    has_more: bool


def list_judgements(series_id: int) -> tuple[JudgementRow, ...]:
    """Return where the judging of each metric of a series stands; one query."""
    rows = Judgement.objects.annotate(seen=_find_seen(timezone.now())).filter(series_id=series_id)
    return tuple(map(_make_judgement, rows.order_by("id")))


def list_watched(
    standing: str | None, match: Filter, *, after: str | None = None, limit: int = 100
) -> Page[WatchedRow]:
    """Return what is watched, of one standing or of all, the series judged last first; one query. Raises BadCursor."""
    cursor = read_cursor(after)
    found = Judgement.objects.annotate(seen=_find_seen(timezone.now())).filter(
        match_series(match, "series__"), behind("judged_at", cursor, is_descending=True)
    )
    if standing is not None:
        found = found.filter(seen=standing)
    rows: list[Any] = list(found.select_related("series").order_by("-judged_at", "-id")[: limit + 1])
    page = cut_page(rows, limit, cursor_of=lambda judgement: Cursor(judgement.judged_at, judgement.pk))
    return Page(tuple(_make_row(judgement) for judgement in page.items), page.next_cursor)


def count_judged() -> JudgedCounts:
    """Return how many metrics of series there are of each standing, counted up to 100 000; one query."""
    counted = Judgement.objects.order_by("pk").values("pk")[: _COUNTED_MAXIMUM + 1]
    found = Judgement.objects.annotate(seen=_find_seen(timezone.now())).filter(pk__in=counted)
    counts = dict(found.values_list("seen").annotate(count=Count("pk")).order_by())
    return JudgedCounts(counts, has_more=sum(counts.values()) > _COUNTED_MAXIMUM)


def _find_seen(now: datetime) -> Case:
    """Return what stands, seen now: that a series is stale is a matter of the clock, as `is_stale` has it."""
    life = ExpressionWrapper(F("series__last_at") - F("series__first_at"), output_field=DurationField())
    intervals = Greatest(F("series__measurement_count") - 1, 1)
    usual = ExpressionWrapper(INTERVALS * life / intervals, output_field=DurationField())
    silent = ExpressionWrapper(Value(now) - F("series__last_at"), output_field=DurationField())
    is_stale = Q(series__last_at__lt=now - STALE_AFTER) & (
        Q(series__measurement_count__lt=INTERVAL_FROM) | GreaterThan(silent, usual)
    )
    return Case(When(is_stale, then=Value(Standing.STALE.value)), default=F("standing"))


def _make_row(judgement: Judgement) -> WatchedRow:
    return WatchedRow(name_series(judgement.series), _make_judgement(judgement))


def _make_judgement(judgement: Any) -> JudgementRow:
    values = {name: getattr(judgement, name) for name in _COLUMNS}
    return JudgementRow(standing=judgement.seen, **values)


_COLUMNS: Final = (
    "metric",
    "n",
    "level",
    "spread",
    "least_change",
    "runs_needed",
    "baseline_from_at",
    "method",
    "judged_at",
)
