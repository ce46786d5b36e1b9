"""Runs, newest first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from msgspec import Struct

from benchapp.catalog.grammar import Filter
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import (
    Cursor,
    Page,
    behind,
    by_time,
    cut_page,
    match_times,
    read_cursor,
)
from benchapp.models import Run
from benchapp.models.filtering import match_runs
from benchapp.series.read.badges import HARMLESS_CODES, order_codes
from benchapp.series.read.shapes import TargetRow, names_of
from benchapp.series.read.titles import describe_target

# A line of the list shows so many measurements; a run of 10 000 jobs shows the rest on its own page.
SUMMARIES_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None leaves out nothing.

    match: every word of it must occur in the host, pool, profile, fio version, target or labels. from_at is
    inclusive, to_at exclusive. badges: any of these; is_valid: none that casts doubt, and no job failed.
    """

    match: Filter = field(default_factory=Filter)
    profile: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None
    has_failed: bool | None = None
    badges: tuple[str, ...] | None = None
    is_valid: bool | None = None


# Not a dataclass, which takes ten times as long to make: a page has hundreds.
class MeasurementSummary(Struct, frozen=True):
    """What the list says of one measurement. missing: what is absent → stable reason code."""

    series_id: int
    job_name: str
    direction: str
    rw: str
    block_size_bytes: int | None
    block_size_text: str
    iodepth: int | None
    numjobs: int
    error: int
    iops: float | None
    bandwidth_bytes_per_s: float | None
    latency_mean_ns: float | None
    latency_p99_ns: float | None
    elapsed_s: float | None
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A line of the list. measurements: the first 8 in order; measurement_count: all of them.

    badges: codes that any measurement bears, most severe first. excluded_at: it counts in no median since then.
    """

    id: int
    host_id: int
    host_name: str
    pool: str
    profile: str
    started_at: datetime
    started_at_is_known: bool
    finished_at: datetime | None
    fio_version: str
    error: int
    is_partial: bool
    sweep_id: UUID | None
    submission_id: UUID
    excluded_at: datetime | None
    badges: tuple[str, ...]
    target: TargetRow
    target_title: str
    measurements: tuple[MeasurementSummary, ...]
    measurement_count: int

    @property
    def has_failed(self) -> bool:
        """Return whether the run failed."""
        return self.error != 0


def list_runs(
    filters: RunFilter, *, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[RunRow]:
    """Return the runs that the filters leave, the newest first or the oldest, behind the cursor.

    Four queries, and one for terms of the workload. Raises BadCursor.
    """
    cursor = read_cursor(after)
    ids = _list_ids(filters, cursor, limit=limit + 1, oldest_first=oldest_first)
    runs = _read_runs(ids, shown=ids[:limit])
    return cut_page(runs, limit, cursor_of=lambda run: Cursor(run.started_at, run.id))


def read_run_rows(ids: Sequence[int]) -> list[RunRow]:
    """Return the runs with these ids that exist, the newest first; three queries."""
    rows = _read_runs(ids, shown=ids)
    return sorted(rows, key=lambda run: (run.started_at, run.id), reverse=True)


def _list_ids(filters: RunFilter, cursor: Cursor | None, *, limit: int, oldest_first: bool) -> list[int]:
    if filters == _EVERYTHING and cursor is None:
        return [run_id for (run_id,) in fetch_rows(*_compose_everything(limit, oldest_first=oldest_first))]
    return list(_page_runs(filters, cursor, limit=limit, oldest_first=oldest_first))


def _page_runs(
    filters: RunFilter, cursor: Cursor | None, *, limit: int, oldest_first: bool
) -> QuerySet[Run, int]:
    """Return the query of the ids of a page."""
    runs = _filter_runs(filters).filter(behind("started_at", cursor, is_descending=not oldest_first))
    ordered = runs.order_by(*by_time("started_at", oldest_first=oldest_first))
    return ordered.values_list("pk", flat=True)[:limit]


@lru_cache(maxsize=8)
def _compose_everything(limit: int, *, oldest_first: bool) -> tuple[str, tuple[Any, ...]]:
    # The text depends on nothing else: to compose it takes Django ten times as long as PostgreSQL to run it.
    return _page_runs(_EVERYTHING, None, limit=limit, oldest_first=oldest_first).query.sql_with_params()


_EVERYTHING: Final = RunFilter()


# Hosts name profiles as they like; a page has all of them as choices.
_PROFILES_MAXIMUM: Final = 200


def list_profiles() -> tuple[str, ...]:
    """Return the first 200 profiles in alphabetical order; cheap over millions of runs; one query."""
    # A loose index scan, which PostgreSQL does not plan automatically: one step in run_by_folded_profile for each
    # profile, in one of its spellings.
    rows = fetch_rows(
        "WITH RECURSIVE step AS ("
        " (SELECT profile FROM benchapp_run ORDER BY upper(profile) LIMIT 1)"
        " UNION ALL"
        " SELECT (SELECT profile FROM benchapp_run WHERE upper(profile) > upper(step.profile)"
        "  ORDER BY upper(profile) LIMIT 1)"
        " FROM step WHERE step.profile IS NOT NULL)"
        " SELECT profile FROM step WHERE profile > '' LIMIT %s",
        [_PROFILES_MAXIMUM],
    )
    return tuple(row[0] for row in rows)


_RUN_COLUMNS: Final = (
    *(
        "run.id",
        "host_id",
        "host.name",
        "host.pool",
        "profile",
        "started_at",
        "started_at_is_known",
        "finished_at",
    ),
    *("fio_version", "error", "is_partial", "sweep_id", "submission_id", "excluded_at", "badges"),
)
_READ_RUNS: Final = (
    f"SELECT {', '.join((*_RUN_COLUMNS, *names_of(TargetRow, 'target.')))} FROM benchapp_run run"  # noqa: S608
    " JOIN benchapp_host host ON host.id = host_id JOIN benchapp_target target ON target.id = target_id"
    " WHERE run.id = ANY(%s)"
)
# The columns of MeasurementSummary, in order.
_READ_SUMMARIES: Final = (
    "SELECT measurement.run_id, series_id, job_name, series.direction, series.rw, series.block_size_bytes,"
    " series.block_size_text, series.iodepth, series.numjobs, error, iops, bandwidth_bytes_per_s, latency_mean_ns,"
    " latency_p99_ns, elapsed_s, missing"
    " FROM benchapp_measurement measurement JOIN benchapp_series series ON series.id = series_id"
    " WHERE run_id = ANY(%s) AND position < %s ORDER BY run_id, position"
)


def _read_runs(ids: Sequence[int], *, shown: Sequence[int]) -> list[RunRow]:
    """Return these runs in this order, those shown with their measurements."""
    rows = {row[0]: row for row in fetch_rows(_READ_RUNS, [list(ids)])}
    summaries = _read_summaries(shown)
    counts = _count_measurements(shown)
    return [
        _make_run(rows[run_id], tuple(summaries[run_id]), counts.get(run_id, 0))
        for run_id in ids
        if run_id in rows
    ]


def _make_run(row: tuple[Any, ...], summaries: tuple[MeasurementSummary, ...], count: int) -> RunRow:
    target = TargetRow(*row[len(_RUN_COLUMNS) :])
    plain, badges = row[: len(_RUN_COLUMNS) - 1], row[len(_RUN_COLUMNS) - 1]
    return RunRow(*[*plain, order_codes(badges), target, describe_target(target), summaries, count])


def _filter_runs(filters: RunFilter) -> QuerySet[Run]:
    in_range = match_times("started_at", filters.from_at, filters.to_at)
    runs = Run.objects.filter(match_runs(filters.match), in_range)
    if filters.profile is not None:
        runs = runs.filter(profile__iexact=filters.profile)
    if filters.has_failed is not None:
        runs = runs.exclude(error=0) if filters.has_failed else runs.filter(error=0)
    if filters.badges is not None:
        runs = runs.filter(badges__overlap=list(filters.badges))
    if filters.is_valid is not None:
        valid = Q(badges__contained_by=list(HARMLESS_CODES), error=0)
        runs = runs.filter(valid if filters.is_valid else ~valid)
    return runs


def _read_summaries(run_ids: Sequence[int]) -> dict[int, list[MeasurementSummary]]:
    summaries: dict[int, list[MeasurementSummary]] = defaultdict(list)
    for run_id, *columns in fetch_rows(_READ_SUMMARIES, [list(run_ids), SUMMARIES_MAXIMUM]):
        summaries[run_id].append(MeasurementSummary(*columns))
    return summaries


def _count_measurements(run_ids: Sequence[int]) -> dict[int, int]:
    rows = fetch_rows(
        "SELECT run_id, count(*) FROM benchapp_measurement WHERE run_id = ANY(%s) GROUP BY run_id",
        [list(run_ids)],
    )
    return dict(rows)
