"""Runs: newest first, and one with all details and what its series measured before it: percentiles and levels."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone
from msgspec import Struct

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import JUDGED_METRICS, PERCENTILES, count_fitting
from benchapp.fio.merging.directions import is_saturated
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
from benchapp.models import SWEEP_CONDITIONS, DeletedRun, Measurement, Run, Target
from benchapp.models.filtering import match_runs
from benchapp.models.measurement import are_same_kind, find_kind
from benchapp.series.read.shapes import (
    HARMLESS_CODES,
    TargetRow,
    names_of,
    order_codes,
)
from benchapp.series.read.titles import describe_target
from benchapp.series.rules import INTERVAL_FROM
from benchapp.series.validity.rules import is_too_few

# A line of the list shows so many measurements; a run of 10 000 jobs shows the rest on its own page.
SUMMARIES_MAXIMUM: Final = 4


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
    numjobs: int | None
    target_name: str | None
    error: int
    iops: float | None
    bandwidth_bytes_per_s: float | None
    latency_mean_ns: float | None
    latency_p99_ns: float | None
    elapsed_s: float | None
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A line of the list. measurements: the first 4 in order; measurement_count: all of them.

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


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is. remaining_s: as its agent estimated, negative if it takes longer."""

    id: UUID
    step: int
    steps: int
    remaining_s: float


_REMAINING_MAXIMUM_S: Final = 86_400 * 365


def read_sweep_progress(run: RunRow) -> SweepProgress | None:
    """Return how far the sweep of the newest run of a host is; None if it has ended. No query without a sweep.

    One that takes more than twice as long as estimated counts as ended: its agent was stopped.
    """
    if run.sweep_id is None or run.finished_at is None:
        return None
    conditions = Run.objects.values_list("command__conditions", flat=True).get(pk=run.id) or {}
    step, steps, left_s = (conditions.get(name) for name in SWEEP_CONDITIONS)
    if not (type(step) is type(steps) is type(left_s) is int) or not 0 < step < steps:
        return None
    remaining_s = left_s - (timezone.now() - run.finished_at).total_seconds()
    if not -left_s <= remaining_s <= _REMAINING_MAXIMUM_S:
        return None
    return SweepProgress(run.sweep_id, step, steps, remaining_s)


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
    " series.block_size_text, series.iodepth, series.numjobs, series.target_name, error, iops, bandwidth_bytes_per_s,"
    " latency_mean_ns, latency_p99_ns, elapsed_s, missing"
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


def describe_missing_run(run_id: int) -> str:
    """Return why there is no run with this id: it was deleted, or never existed; one query."""
    deleted = DeletedRun.objects.select_related("correction").filter(pk=run_id).first()
    if deleted is None:
        return f"Run {run_id} does not exist. The link may be from another server."
    deletion = deleted.correction
    if deletion.is_over:
        return f"Run {run_id} was deleted for good: {deletion.reason}."
    return f"Run {run_id} was deleted: {deletion.reason}. An admin can restore it on the page Corrections."


# Both the reason of a metric that is withheld and the code of the badge.
FEW_SAMPLES: Final = "few-samples"
SATURATED: Final = "saturated"
# Measurements on a page of a run, and in an answer of the API.
MEASUREMENTS_SHOWN: Final = 200
# And characters of the options of their workloads: a usual measurement has a hundred.
_OPTIONS_CHARACTERS_MAXIMUM: Final = 100_000
# Percentiles in a table: fio prints at most 20, but every job may have its own.
_PERCENTS_MAXIMUM: Final = 60


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run, with host, target, environment, and submission without its body.

    measurements: of its measurement_count, from `position` on. target_names: of its target, else of all its
    measurements. previous_run_id, next_run_id: of the same host and profile, by time.
    """

    row: Run
    target_title: str
    target_names: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    position: int
    measurement_count: int
    previous_run_id: int | None
    next_run_id: int | None

    @property
    def next_position(self) -> int | None:
        """Return the position of the first measurement that follows these, None at the end."""
        end = self.position + len(self.measurements)
        return end if self.measurements and end < self.measurement_count else None


def read_run(run_id: int, *, position: int = 0, limit: int | None = MEASUREMENTS_SHOWN) -> RunDetail | None:
    """Return a run with its measurements in the order of its table, None where there is none; four queries.

    At most `limit` measurements from `position` on, fewer if their options are long; None: all. A fifth query counts
    the measurements if there are more.
    """
    runs: QuerySet[Any] = Run.objects.select_related(
        "host", "target", "environment", "submission", "excluded_by"
    )
    unread = ("submission__body", "submission__digest", "submission__parameters", "excluded_by__password")
    has_body = ExpressionWrapper(Q(submission__body__isnull=False), BooleanField())
    run = runs.defer(*unread).annotate(has_body=has_body).filter(pk=run_id).first()
    if run is None:
        return None
    previous_id, next_id = _find_neighbors(run)
    rows = Measurement.objects.filter(run_id=run_id)
    measurements = list_measurements(rows, position=position, limit=limit)
    is_whole = not position and (limit is None or len(measurements) < limit)
    count = len(measurements) if is_whole else rows.count()
    if limit is not None:
        lengths = (sum(map(len, chain(*row.series.options.items()))) for row in measurements)
        measurements = measurements[: count_fitting(lengths, _OPTIONS_CHARACTERS_MAXIMUM)]
    return RunDetail(
        row=run,
        target_title=describe_target(run.target),
        target_names=_list_target_names(
            run.target, rows, measurements if len(measurements) == count else None
        ),
        measurements=measurements,
        position=position,
        measurement_count=count,
        previous_run_id=previous_id,
        next_run_id=next_id,
    )


def _list_target_names(
    target: Target, rows: QuerySet[Measurement], measurements: Sequence[Measurement] | None
) -> tuple[str, ...]:
    """Return the names of a run's targets; one query if it has no common name and not all measurements are read."""
    if target.target_name:
        return (target.target_name,)
    if measurements is None:
        names = set(rows.values_list("series__target_name", flat=True))
    else:
        names = {measurement.series.target_name for measurement in measurements}
    return tuple(sorted(filter(None, names)))


def list_measurements(
    measurements: QuerySet[Measurement], *, position: int = 0, limit: int | None = None
) -> tuple[Measurement, ...]:
    """Return measurements with their series, in the order of the run's table; one query.

    At most `limit` from `position` on; None: all.
    """
    rows = measurements.select_related("series").defer("latency_bins").order_by("position", "id")
    return tuple(rows[position : None if limit is None else position + limit])


def name_measurements(measurements: Sequence[Measurement]) -> list[str]:
    """Return a short unique name for each measurement, with direction or number if needed."""
    several = len({measurement.job_name for measurement in measurements}) < len(measurements)
    names = [
        f"{measurement.job_name or measurement.series.rw}{f' · {measurement.series.direction}' if several else ''}"
        for measurement in measurements
    ]
    counts, numbers = Counter(names), Counter[str]()
    unique = []
    for name in names:
        numbers[name] += 1
        unique.append(f"{name} #{numbers[name]}" if counts[name] > 1 else name)
    return unique


def find_withheld(measurement: Measurement, percent: float) -> str:
    """Return why a percentile (0 to 100) is withheld, as a code of `missing`; "" if it is not.

    Too few samples never contradict the metrics: what is below a known one is known, what is beyond a withheld one is
    not.
    """
    value = measurement.percentile_values.get(percent)
    if value is None or any(
        percent <= at and getattr(measurement, metric) is not None for metric, at in PERCENTILES.items()
    ):
        return ""
    withheld = (at for metric, at in PERCENTILES.items() if measurement.missing.get(metric) == FEW_SAMPLES)
    if any(percent >= at for at in withheld) or is_too_few(_count_samples(measurement), percent):
        return FEW_SAMPLES
    return SATURATED if is_saturated(value) else ""


def _count_samples(measurement: Measurement) -> int | None:
    """Return the number of samples in the badge; without the badge, the I/Os."""
    badges = (badge for badge in measurement.badges if badge["code"] == FEW_SAMPLES)
    count = next((badge["numbers"].get("samples") for badge in badges), None)
    return measurement.total_ios if count is None else int(count)


def list_percents(measurements: Iterable[Measurement]) -> tuple[list[float], int]:
    """Return the percentiles of a table, ascending: at most 60, the most common; and how many are left out."""
    counts = Counter(percent for row in measurements for percent in row.percentile_values)
    shown = [percent for percent, _ in counts.most_common(_PERCENTS_MAXIMUM)]
    return sorted(shown), len(counts) - len(shown)


def _find_neighbors(run: Run) -> tuple[int | None, int | None]:
    place = Cursor(run.started_at, run.pk)
    others = Run.objects.filter(host_id=run.host_id, profile=run.profile).values_list("id", flat=True)
    earlier = others.filter(behind("started_at", place, is_descending=True)).order_by("-started_at", "-id")
    later = others.filter(behind("started_at", place, is_descending=False)).order_by("started_at", "id")
    return earlier.first(), later.first()


# Of each series, how many measurements back a good one is looked for.
LOOKED_AT: Final = 50
# By the index measurement_by_series; of several repetitions in a run the one with the same ordinal.
_BEFORE: Final = """
    SELECT good.id FROM benchapp_measurement own CROSS JOIN LATERAL (
      SELECT id FROM (
        SELECT id, started_at, ordinal, error, is_excluded FROM benchapp_measurement earlier
        WHERE earlier.series_id = own.series_id AND earlier.run_id <> own.run_id
          AND (earlier.started_at, earlier.id) < (own.started_at, own.id)
        ORDER BY started_at DESC, id DESC LIMIT %s
      ) AS newest
      WHERE error = 0 AND NOT is_excluded AND ordinal = own.ordinal ORDER BY started_at DESC, id DESC LIMIT 1
    ) AS good
    WHERE own.id = ANY(%s)
"""


def read_before(run: RunDetail) -> dict[int, Measurement]:
    """Return the last good measurement before each of these that has percentiles, by the id of the run's; one query.

    Good: fio reported no error, and nobody excluded it. Left out where there is none among the 50 before, where it has
    no percentiles, and where they are of another kind of latency. No query where the run has no percentiles.
    """
    own = {(row.series_id, row.ordinal): row for row in run.measurements if row.percentiles}
    if not own:
        return {}
    ids = [row.id for row in own.values()]
    before = RawSQL(_BEFORE, [LOOKED_AT, ids])  # a constant of this file; the values are parameters  # noqa: S611
    found = list_measurements(Measurement.objects.filter(pk__in=before))
    pairs = [(own[row.series_id, row.ordinal], row) for row in found]
    return {
        after.id: before
        for after, before in pairs
        if before.percentiles and before.latency_kind == after.latency_kind
    }


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """A value of a run and the level of its series in the same metric, in its base unit.

    The level: the newest that began before the run. n: its runs, this one included once changes have been detected.
    change: value / median - 1, None for a median of 0. is_usual: whether the value is from p10 to p90 of the level,
    None for a level of fewer than INTERVAL_FROM runs.
    """

    metric: str
    n: int
    median: float
    p10: float
    p90: float
    change: float | None
    is_usual: bool | None


# By the index level_is_unique.
_LEVELS_BEFORE: Final = (
    "SELECT DISTINCT ON (series_id, metric) series_id, metric, latency_kind, n, median, p10, p90 FROM benchapp_level"
    " WHERE series_id = ANY(%s) AND metric = ANY(%s) AND from_at < %s"
    " ORDER BY series_id, metric, from_at DESC"
)


def compare_to_levels(run: RunDetail) -> dict[int, tuple[LevelComparison, ...]]:
    """Return how the values of a run compare to the levels of its series, by measurement; one query.

    In the metrics in which changes are detected. Left out: failed measurements, of an excluded run all, values that
    are unknown, series without a level before the run, and levels of another kind of latency.
    """
    valid = [] if run.row.excluded_at else [row for row in run.measurements if not row.error]
    series_ids = list({row.series_id for row in valid})
    rows = fetch_rows(_LEVELS_BEFORE, [series_ids, list(JUDGED_METRICS), run.row.started_at]) if valid else []
    levels = {(series_id, metric): (kind, values) for series_id, metric, kind, *values in rows}
    return {
        row.id: tuple(
            _compare_to_level(metric, value, *level)
            for metric in JUDGED_METRICS
            if (value := getattr(row, metric)) is not None and (row.series_id, metric) in levels
            for kind, level in [levels[row.series_id, metric]]
            if are_same_kind(kind, find_kind(metric, latency_kind=row.latency_kind, missing=row.missing))
        )
        for row in valid
    }


def _compare_to_level(
    metric: str, value: float, n: int, median: float, p10: float, p90: float
) -> LevelComparison:
    return LevelComparison(
        metric=metric,
        n=n,
        median=median,
        p10=p10,
        p90=p90,
        change=value / median - 1 if median else None,
        is_usual=p10 <= value <= p90 if n >= INTERVAL_FROM else None,
    )
