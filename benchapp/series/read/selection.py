"""What a selection of runs or changes stands for: the series of runs, and the time ranges before and after changes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low

from django.db.models import QuerySet

from benchapp.catalog.metrics import CATALOG
from benchapp.detection.rules.pooled_levels import POOLED_TICK
from benchapp.models import Change, Host, Level, Measurement, Run


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


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where and when a run took place. pool: "" without one."""

    host: str
    pool: str
    started_at: datetime


def find_run_place(run_id: int) -> RunPlace | None:
    """Return host, pool and start of a run; None if it does not exist; one query."""
    row = Run.objects.filter(pk=run_id).values_list("host__name", "host__pool", "started_at").first()
    return None if row is None else RunPlace(*row)


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
