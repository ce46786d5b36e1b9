"""Rows of changes and detection status: read and written in bulk."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

import orjson
from django.db import connection
from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from benchapp.catalog.metrics import USUAL_SPREADS
from benchapp.detection.changepoints.estimates import ShiftLevel
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.models import Change, ChangeState, DetectionResult

# State transitions of a change that are stored.
TRANSITIONS_MAXIMUM: Final = 20
# Series id and metric.
MetricKey = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """A row of `Change`, with the units and bounds of its columns. id: None until it is inserted."""

    id: int | None = None
    series_id: int
    metric: str
    run_id: int | None
    started_at: datetime
    last_good_run_id: int | None
    state: ChangeState
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
    evidence: dict[str, Any]
    incident_id: int | None = None
    found_at: datetime
    updated_at: datetime
    withdrawn_at: datetime | None = None

    @property
    def before(self) -> ShiftLevel:
        """Return the level before the change."""
        return ShiftLevel(self.before_median, self.before_spread, self.before_n)

    @property
    def after(self) -> ShiftLevel:
        """Return the level after the change."""
        return ShiftLevel(self.after_median, self.after_spread, self.after_n)


_CHANGE_FIELDS: Final = tuple(field.name for field in fields(ChangeRecord))
# Columns that an update writes, and the id, by their types in PostgreSQL.
_UPDATED: Final = {
    "id": "bigint",
    "run_id": "bigint",
    "started_at": "timestamptz",
    "last_good_run_id": "bigint",
    "state": "varchar",
    "is_regression": "boolean",
    "before_median": "float8",
    "before_n": "int",
    "before_spread": "float8",
    "after_median": "float8",
    "after_n": "int",
    "after_spread": "float8",
    "relative": "float8",
    "relative_low": "float8",
    "relative_high": "float8",
    "confidence": "float8",
    "method": "varchar",
    "evidence": "jsonb",
    "updated_at": "timestamptz",
    "withdrawn_at": "timestamptz",
}
# Names of our own columns.
_UPDATE_CHANGES: Final = (
    "UPDATE benchapp_change AS stored"  # noqa: S608
    f" SET {', '.join(f'{name} = updated.{name}' for name in _UPDATED if name != 'id')}"
    f" FROM json_to_recordset(%s::json) AS updated({', '.join(f'{name} {kind}' for name, kind in _UPDATED.items())})"
    " WHERE stored.id = updated.id"
)
# Bounded by series of the workload, not by its results: a workload may have a million series.
_READ_USUAL_SPREADS: Final = (
    "WITH young AS (SELECT id, workload_id FROM benchapp_series WHERE id = ANY(%s)), comparable AS MATERIALIZED ("
    " SELECT workload_id, result.series_id, result.metric, result.spread"
    " FROM (SELECT DISTINCT workload_id FROM young) AS wanted CROSS JOIN LATERAL ("
    "  SELECT id FROM benchapp_series WHERE workload_id = wanted.workload_id ORDER BY id LIMIT 200) AS first"
    " JOIN benchapp_detectionresult AS result ON result.series_id = first.id"
    " WHERE result.status <> 'learning' AND result.spread IS NOT NULL)"
    " SELECT young.id, metric, percentile_cont(0.5) WITHIN GROUP (ORDER BY spread)"
    " FROM young JOIN comparable USING (workload_id) WHERE series_id <> young.id"
    " GROUP BY 1, 2 HAVING count(*) >= 5"
)
_STATUS: Final = {
    "series_id": "bigint",
    "metric": "varchar",
    "status": "varchar",
    "n": "int",
    "spread": "float8",
    "smallest_detectable_change": "float8",
    "runs_needed": "int",
    "spread_increase": "jsonb",
    "two_states": "jsonb",
    "seasons": "jsonb",
    "smallest_change": "float8",
    "method": "varchar",
    "judged_at": "timestamptz",
    "evaluated_to_at": "timestamptz",
    "input_hash": "bigint",
}
# An accepted baseline (baseline_from_at) is not changed.
_UPSERT_STATUSES: Final = (
    f"INSERT INTO benchapp_detectionresult ({', '.join(_STATUS)}) SELECT {', '.join(_STATUS)}"  # noqa: S608
    f" FROM json_to_recordset(%s::json) AS updated({', '.join(f'{name} {kind}' for name, kind in _STATUS.items())})"
    " ON CONFLICT (series_id, metric) DO UPDATE"
    f" SET {', '.join(f'{name} = excluded.{name}' for name in _STATUS if name not in ('series_id', 'metric'))}"
)
_UPDATE_COUNTS: Final = (
    "UPDATE benchapp_detectionresult AS stored SET n = counted.n, judged_at = %s"
    " FROM unnest(%s::bigint[], %s::varchar[], %s::int[]) AS counted(series_id, metric, n)"
    " WHERE (stored.series_id, stored.metric) = (counted.series_id, counted.metric)"
)


def read_changes(series_ids: Sequence[int]) -> dict[MetricKey, list[ChangeRecord]]:
    """Return all changes of these series by series and metric, oldest row first, withdrawn ones too.

    Without drifts and pooled changes, which are evaluated separately (drift.py and pooled.py).
    """
    stored: dict[MetricKey, list[ChangeRecord]] = {}
    changes = Change.objects.filter(series_id__in=series_ids)
    for record in _read_records(changes.exclude(method__in=(DRIFT_METHOD, POOLED_METHOD))):
        stored.setdefault((record.series_id, record.metric), []).append(record)
    return stored


def read_pooled_changes(series_ids: Sequence[int], *, since: datetime) -> list[ChangeRecord]:
    """Return the live pooled changes of these series that began at a time or later, oldest row first."""
    # As one value: of hundreds Django writes each into the query.
    is_of_series = RawSQL(
        "benchapp_change.series_id = ANY(%s)", [list(series_ids)], output_field=BooleanField()
    )
    changes = Change.objects.filter(is_of_series, method=POOLED_METHOD, started_at__gte=since)
    return _read_records(changes.exclude(state=ChangeState.WITHDRAWN))


def _read_records(changes: QuerySet[Change]) -> list[ChangeRecord]:
    return [
        ChangeRecord(**{**row, "state": ChangeState(row["state"])})
        for row in changes.order_by("id").values(*_CHANGE_FIELDS)
    ]


def read_baselines(series_ids: Sequence[int]) -> dict[MetricKey, datetime]:
    """Return the start of the accepted baselines, by series and metric."""
    rows = DetectionResult.objects.filter(series_id__in=series_ids, baseline_from_at__isnull=False)
    return {
        (series_id, metric): from_at
        for series_id, metric, from_at in rows.values_list("series_id", "metric", "baseline_from_at")
        if from_at is not None
    }


def read_results(series_ids: Sequence[int]) -> dict[MetricKey, DetectionResult]:
    """Return what an evaluation reads of the stored results of these series, by series and metric."""
    rows = DetectionResult.objects.filter(series_id__in=series_ids)
    read = rows.only("series_id", "metric", "baseline_from_at", "evaluated_to_at", "input_hash")
    return {(result.series_id, result.metric): result for result in read}


def read_usual_spreads(series_ids: Sequence[int]) -> dict[MetricKey, float]:
    """Return the usual relative spread of each metric of these series: the median of series with the same workload.

    Of the first 200 series of the workload, those that are no longer learning; for fewer than 5 that of the catalog.
    One query.
    """
    if not series_ids:
        return {}
    usual = {
        (series_id, metric): spread for series_id in series_ids for metric, spread in USUAL_SPREADS.items()
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ_USUAL_SPREADS, [list(series_ids)])
        return usual | {(series_id, metric): spread for series_id, metric, spread in cursor.fetchall()}


def update_changes(records: Sequence[ChangeRecord]) -> None:
    """Update rows, withdrawn ones first, since another row may take their start."""
    withdrawn = [record for record in records if record.state == ChangeState.WITHDRAWN]
    live = [record for record in records if record.state != ChangeState.WITHDRAWN]
    for part in (withdrawn, live):
        if part:
            with connection.cursor() as cursor:
                cursor.execute(_UPDATE_CHANGES, [orjson.dumps(part).decode()])


def insert_changes(records: Iterable[ChangeRecord]) -> list[int]:
    """Insert rows and return their ids."""
    created = Change.objects.bulk_create(
        [Change(**{name: getattr(record, name) for name in _CHANGE_FIELDS}) for record in records]
    )
    return [change.pk for change in created]


def upsert_statuses(results: Sequence[DetectionResult], series_ids: Sequence[int]) -> None:
    """Write the detection status of these series; delete rows of metrics without values and baseline."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM benchapp_detectionresult AS stored WHERE series_id = ANY(%s) AND baseline_from_at IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM unnest(%s::bigint[], %s::varchar[]) AS updated(series_id, metric)"
            "  WHERE updated.series_id = stored.series_id AND updated.metric = stored.metric)",
            [
                list(series_ids),
                [result.series_id for result in results],
                [result.metric for result in results],
            ],
        )
        if results:
            rows = [{name: getattr(result, name) for name in _STATUS} for result in results]
            cursor.execute(_UPSERT_STATUSES, [orjson.dumps(rows).decode()])


def update_counts(counts: Mapping[MetricKey, int], *, now: datetime) -> None:
    """Write the number of valid runs of metrics that are not evaluated again."""
    if counts:
        ids, metrics = zip(*counts, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_UPDATE_COUNTS, [now, list(ids), list(metrics), list(counts.values())])
