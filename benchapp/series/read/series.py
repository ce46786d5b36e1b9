"""Series, most recent run first; their versions; what a selection of runs or changes stands for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low
from typing import Any, Final

from django.db.models import Count, QuerySet

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG
from benchapp.detection.rules.pooled_levels import POOLED_TICK
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, behind, cut_page, read_cursor
from benchapp.models import Change, Host, Level, Measurement, Run, Series
from benchapp.models.filtering import match_series
from benchapp.series.read.selected_levels import NOW, LevelRange, match_span
from benchapp.series.read.shapes import TargetRow, WorkloadRow, names_of, order_codes
from benchapp.series.read.titles import (
    describe_target,
    describe_workload,
    join_titles,
    name_place,
    name_scope,
)


def read_series_versions(series_ids: Sequence[int]) -> dict[int, str]:
    """Return the version of each series: it differs after every change of a point. Without series that have no points.

    xmin is the transaction that last wrote the row; ctid is the position of the row, which differs after each write of
    one transaction. Whoever changes a point writes the row: reparsing changes values but neither count nor times.
    One query.
    """
    rows = fetch_rows(
        "SELECT id, concat_ws('.', xmin, ctid, extract(epoch FROM last_at))"
        " FROM benchapp_series WHERE id = ANY(%s) AND last_at IS NOT NULL",
        [list(series_ids)],
    )
    return dict(rows)


@dataclass(frozen=True, slots=True)
class LatestPoint:
    """What a series last measured, and in a run of which profile."""

    run_id: int
    started_at: datetime
    error: int
    iops: float | None
    bandwidth_bytes_per_s: float | None
    latency_p99_ns: float | None
    elapsed_s: float | None
    profile: str


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A line of the list. scope: pool:NAME or host:NAME; scope_name: that NAME.

    badges: codes of its newest measurement, most severe first.
    """

    id: int
    scope: str
    scope_name: str
    is_pool: bool
    direction: str
    measurement_count: int
    first_at: datetime
    last_at: datetime
    badges: tuple[str, ...]
    target: TargetRow
    workload: WorkloadRow
    title: str
    target_title: str
    workload_title: str
    latest: LatestPoint | None

    @property
    def place(self) -> str:
        """Return host or pool, and the target if it has a name."""
        return name_place(self.scope, self.target.target_name)

    @property
    def profile(self) -> str:
        """Return the profile of the newest run; "" if it is not known."""
        return self.latest.profile if self.latest else ""


def list_series(
    match: Filter,
    *,
    badges: Sequence[str] = (),
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
    span: LevelRange = NOW,
) -> Page[SeriesRow]:
    """Return the series with measurements that match a filter, the freshest first or the stalest; two queries.

    badges: their newest measurement bears any of these; empty for all. span: with a run in it. Raises BadCursor.
    """
    cursor = read_cursor(after)
    series = with_points().filter(match_series(match), match_span(span))
    if badges:
        series = series.filter(badges__overlap=list(badges))
    rows = list(
        series.filter(behind("last_at", cursor, is_descending=not oldest_first))
        .order_by(*(("last_at", "id") if oldest_first else ("-last_at", "-id")))
        .values_list(*_COLUMNS)[: limit + 1]
    )
    items = _make_rows(rows, _read_latest(row[0] for row in rows[:limit]))
    return cut_page(items, limit, cursor_of=lambda series: Cursor(series.last_at, series.id))


def list_rows(series: QuerySet[Series], *, limit: int) -> tuple[SeriesRow, ...]:
    """Return the freshest of some series; two queries."""
    rows = list(series.order_by("-last_at", "-id").values_list(*_COLUMNS)[:limit])
    return tuple(_make_rows(rows, _read_latest(row[0] for row in rows)))


def read_rows(series_ids: Sequence[int], *, has_latest: bool = True) -> tuple[SeriesRow, ...]:
    """Return series by their ids, the freshest first; two queries. has_latest: False without the latest point; one."""
    # No series has an id that is too large for its column; the driver would fail.
    ids = [series_id for series_id in series_ids if series_id < 2**63]
    rows = fetch_rows(_READ, [ids])
    return tuple(_make_rows(rows, _read_latest(ids) if has_latest else {}))


def read_series(series_id: int) -> SeriesRow | None:
    """Return one series, None where there is none or nothing was measured yet; two queries."""
    return next(iter(read_rows([series_id])), None)


def read_relatives(series: SeriesRow) -> tuple[tuple[str, ...], dict[int, str]]:
    """Return the host of a series, or all hosts of its pool, and its other directions by id; two queries."""
    own = Series.objects.filter(pk=series.id)
    siblings = (
        with_points()
        .filter(
            scope=series.scope,
            target_id__in=own.values("target_id"),
            workload_id__in=own.values("workload_id"),
        )
        .exclude(pk=series.id)
        .order_by("direction", "id")
        .values_list("id", "direction")
    )
    return _list_hosts(series), dict(siblings)


def varies_in_depth_and_jobs(series: SeriesRow) -> bool:
    """Return whether the pattern and block size of a series were measured with several of both; one query."""
    counts: dict[str, int] = (
        with_points()
        .filter(
            scope=series.scope,
            direction=series.direction,
            rw=series.workload.rw,
            block_size_bytes=series.workload.block_size_bytes,
            target_id__in=Series.objects.filter(pk=series.id).values("target_id"),
        )
        .aggregate(*(Count(name, distinct=True) for name in ("iodepth", "numjobs")))
    )
    return min(counts.values()) > 1


def read_series_version(series_id: int) -> str | None:
    """Return text that changes whenever a point of the series does, None where there is no series; one query."""
    return read_series_versions([series_id]).get(series_id)


_PLAIN: Final = ("id", "scope", "direction", "measurement_count", "first_at", "last_at", "badges")
_COLUMNS: Final = (*_PLAIN, *names_of(TargetRow), *names_of(WorkloadRow))
_SPLIT: Final = len(_PLAIN) + len(names_of(TargetRow))
_READ: Final = (
    f"SELECT {', '.join(_COLUMNS)} FROM benchapp_series WHERE id = ANY(%s) AND last_at IS NOT NULL"  # noqa: S608
    " ORDER BY last_at DESC, id DESC"
)


def _make_rows(rows: Sequence[tuple[Any, ...]], latest: Mapping[int, LatestPoint]) -> list[SeriesRow]:
    """Return the series of these rows of _COLUMNS; many of a list have the same layout or workload."""
    targets: dict[tuple[Any, ...], tuple[TargetRow, str]] = {}
    workloads: dict[tuple[Any, ...], tuple[WorkloadRow, str]] = {}
    made = []
    for row in rows:
        series_id, scope, direction, count, first_at, last_at, badges = row[: len(_PLAIN)]
        # Options of a workload, the last column, are JSON.
        target_key, workload_key = row[len(_PLAIN) : _SPLIT], (direction, *row[_SPLIT:-1], str(row[-1]))
        if target_key not in targets:
            target = TargetRow(*target_key)
            targets[target_key] = target, describe_target(target)
        if workload_key not in workloads:
            workload = WorkloadRow(*row[_SPLIT:])
            workloads[workload_key] = workload, describe_workload(workload, direction=direction)
        (target, target_title), (workload, workload_title) = targets[target_key], workloads[workload_key]
        made.append(
            SeriesRow(
                id=series_id,
                scope=scope,
                scope_name=name_scope(scope),
                is_pool=scope.startswith("pool:"),
                direction=direction,
                measurement_count=count,
                first_at=first_at,
                last_at=last_at,
                badges=order_codes(badges),
                target=target,
                workload=workload,
                title=join_titles(workload_title, target_title),
                target_title=target_title,
                workload_title=workload_title,
                latest=latest.get(series_id),
            )
        )
    return made


def with_points() -> QuerySet[Series]:
    """Leave out what was never measured, and what lost all its points when they were read anew."""
    return Series.objects.filter(last_at__isnull=False)


def _list_hosts(series: SeriesRow) -> tuple[str, ...]:
    if not series.is_pool:
        return (series.scope_name,)
    return tuple(Host.objects.filter(pool=series.scope_name).order_by("name").values_list("name", flat=True))


def _read_latest(series_ids: Iterable[int]) -> dict[int, LatestPoint]:
    # LATERAL: one step into the index (series, time) for each series, however long its history is.
    rows = fetch_rows(
        "SELECT wanted.id, last.*, run.profile FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
        " SELECT run_id, started_at, error, iops, bandwidth_bytes_per_s, latency_p99_ns, elapsed_s"
        " FROM benchapp_measurement WHERE series_id = wanted.id"
        " ORDER BY started_at DESC, id DESC LIMIT 1) AS last JOIN benchapp_run run ON run.id = last.run_id",
        [list(series_ids)],
    )
    return {series_id: LatestPoint(*point) for series_id, *point in rows}


@dataclass(frozen=True, slots=True)
class ChangeRanges:
    """The time ranges before and after some changes.

    series_ids: largest change first. metrics: in the order of the catalog; main_metric: of the largest change.
    first_at, last_at: start of the earliest and of the latest change, of drifts the median start of their newest
    levels: "before" ends at first_at, "after" begins at last_at. before_from_at, after_to_at: where another level of
    one of these series begins; None if open.
    """

    series_ids: tuple[int, ...]
    metrics: tuple[str, ...]
    main_metric: str
    first_at: datetime
    last_at: datetime
    before_from_at: datetime | None
    after_to_at: datetime | None


def list_series_of_runs(run_ids: Sequence[int]) -> list[int]:
    """Return the series that these runs measured, in the order of the runs; one query."""
    rows = Measurement.objects.filter(run_id__in=list(run_ids)).order_by("position", "id")
    found = sorted(rows.values_list("run_id", "series_id"), key=lambda row: run_ids.index(row[0]))
    return list(dict.fromkeys(series_id for _, series_id in found))


def find_run_place(run_id: int) -> tuple[str, str, datetime] | None:
    """Return host, pool ("" without one) and start of a run; None if it does not exist; one query."""
    return Run.objects.filter(pk=run_id).values_list("host__name", "host__pool", "started_at").first()


def read_pools(host_names: Sequence[str]) -> dict[str, str]:
    """Return the pool of each of these hosts that exists, by name; "" without one; one query."""
    return dict(Host.objects.filter(name__in=list(host_names)).values_list("name", "pool"))


def read_ranges_of_changes(change_ids: Sequence[int]) -> ChangeRanges | None:
    """Return the ranges before and after these changes; None if there is none of them; two queries."""
    return _read_ranges(Change.objects.filter(pk__in=list(change_ids)))


def read_ranges_of_incident(incident_id: int) -> ChangeRanges | None:
    """Return the ranges before and after the changes of an incident; None without changes; two queries."""
    return _read_ranges(Change.objects.stated().filter(incident_id=incident_id))


def _read_ranges(changes: QuerySet[Change]) -> ChangeRanges | None:
    columns = changes.only("series_id", "metric", "started_at", "relative", "evidence")
    rows = sorted(columns, key=lambda row: (-abs(row.relative), row.series_id, row.metric))
    if not rows:
        return None
    starts_at, levels_from_at = [row.started_at for row in rows], [row.level_from_at for row in rows]
    # The newest levels of drifts begin five runs ago, in series that are measured one after the other.
    first_at, last_at = min(starts_at), max(*starts_at, median_low(levels_from_at))
    starts = _list_level_starts({(row.series_id, row.metric) for row in rows})
    metrics = {row.metric for row in rows}
    return ChangeRanges(
        series_ids=tuple(dict.fromkeys(row.series_id for row in rows)),
        metrics=tuple(name for name in CATALOG if name in metrics),
        main_metric=rows[0].metric,
        first_at=first_at,
        last_at=last_at,
        before_from_at=max((at for at in starts if at < first_at - POOLED_TICK), default=None),
        after_to_at=min((at for at in starts if at > max(last_at, *levels_from_at)), default=None),
    )


def _list_level_starts(pairs: Collection[tuple[int, str]]) -> list[datetime]:
    """Return where the levels of these series and metrics begin."""
    rows = Level.objects.filter(
        series_id__in={series_id for series_id, _ in pairs}, metric__in={metric for _, metric in pairs}
    ).values_list("series_id", "metric", "from_at")
    return [from_at for series_id, metric, from_at in rows if (series_id, metric) in pairs]
