"""Levels in a time range: those that were current at its end, of series with a valid run in it.

The one function behind every page, export, answer and image with a time range and one number for each series.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from benchapp.catalog.metrics import Metric
from benchapp.detection.rules.levels import describe_values
from benchapp.framework.read.binary_columns import from_us
from benchapp.models import Measurement
from benchapp.series.read.level_runs import LevelRuns, LevelSpan, read_level_runs
from benchapp.series.read.levels import (
    MAIN_METRICS,
    CurrentLevel,
    MainLevel,
    read_begun_levels,
    read_current_levels,
)

# Charts with a past end read the runs of the levels that went on: of at most so many series.
PAST_SERIES_MAXIMUM: Final = 2000
# Of the sparkline of an earlier level, as many as of a current one.
_RECENT: Final = 20
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LevelRange:
    """A time range of charts with one number for each series. None is open.

    from_at: only series with a valid run from then on, inclusive. to_at: numbers are those of the level that was
    current then, exclusive.
    """

    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Return whether numbers are those of all current levels."""
        return self.from_at is None and self.to_at is None

    def has_run(self, last_at: datetime) -> bool:
        """Return whether the last run of a level, which ended by the end of the range, is in the range."""
        return self.from_at is None or last_at >= self.from_at


# All current levels.
NOW: Final = LevelRange()


def make_level_range(from_at: datetime | None, to_at: datetime | None) -> LevelRange:
    """Return the range with these ends; an end that is not past is open: until then the current levels are current."""
    return LevelRange(from_at, None if to_at is not None and to_at >= timezone.now() else to_at)


def match_span(span: LevelRange) -> Q:
    """Return the condition that a series has a run in a range, also one that failed."""
    matched = Q()
    if span.from_at is not None:
        matched &= Q(last_at__gte=span.from_at)
    if span.to_at is not None:
        matched &= Q(first_at__lt=span.to_at)
    if span.from_at is not None and span.to_at is not None:
        runs = Measurement.objects.filter(started_at__gte=span.from_at, started_at__lt=span.to_at)
        matched &= Q(Exists(runs.filter(series=OuterRef("pk"))))
    return matched


def read_levels_in(
    series_ids: Sequence[int], metric: Metric, *, span: LevelRange, has_recent: bool = True
) -> dict[int, CurrentLevel]:
    """Return the level of each series in a range by id, without series without one; one query, with an end four.

    The level at a past end is the stored one that had begun by then, of its runs until then. `recent` has only these,
    and nothing of a past level without has_recent. It is never stale.
    """
    if span.to_at is None:
        levels = read_current_levels(series_ids, metric)
    else:
        levels = _read_past(series_ids, metric, before_at=span.to_at, has_recent=has_recent)
    return {series_id: level for series_id, level in levels.items() if span.has_run(level.last_at)}


def read_main_levels(series_ids: Sequence[int], *, span: LevelRange = NOW) -> dict[int, MainLevel]:
    """Return the level that represents each series in a range, without series without one."""
    found: dict[int, MainLevel] = {}
    for metric in MAIN_METRICS:
        missing = [series_id for series_id in series_ids if series_id not in found]
        levels = read_levels_in(missing, metric, span=span, has_recent=False) if missing else {}
        found |= {series_id: MainLevel(metric, level) for series_id, level in levels.items()}
    return found


def _read_past(
    series_ids: Sequence[int], metric: Metric, *, before_at: datetime, has_recent: bool
) -> dict[int, CurrentLevel]:
    begun = read_begun_levels(series_ids, metric, before_at=before_at)
    ended = {series_id for series_id, level in begun.items() if level.last_at < before_at}
    runs = read_level_runs(
        {
            series_id: LevelSpan(
                series_id,
                level.from_at,
                min(level.last_at, before_at - _MICROSECOND),
                latency_kind=level.latency_kind,
            )
            for series_id, level in begun.items()
            if has_recent or series_id not in ended
        },
        metric.name,
        newest=dict.fromkeys(ended, _RECENT),
    )
    found = {series_id: replace(begun[series_id], recent=(), stale_after=_NEVER) for series_id in ended}
    for series_id, own in runs.items():
        recent = tuple(own.values[-_RECENT:].tolist())
        if series_id in ended:
            found[series_id] = replace(found[series_id], recent=recent)
        else:
            found[series_id] = _describe(begun[series_id], own, recent)
    return found


def _describe(level: CurrentLevel, runs: LevelRuns, recent: tuple[float, ...]) -> CurrentLevel:
    """Return a level that went on as it was when it had these runs."""
    own = describe_values(runs.values, 0, len(runs.values))
    return replace(
        level,
        n=own.n,
        median=own.median,
        p10=own.p10,
        p90=own.p90,
        minimum=own.minimum,
        maximum=own.maximum,
        last=own.last,
        recent=recent,
        last_at=from_us(runs.at_us[-1]),
        stale_after=_NEVER,
    )
