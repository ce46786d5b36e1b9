"""Rows of changes and detection status: read and written in bulk."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from django.db import connection

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.models import Change, ChangeState, Judgement

Row = dict[str, Any]

_COLUMNS: Final = {
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
CHANGE_FIELDS: Final = (*_COLUMNS, "series_id", "metric", "incident_id", "found_at")
_VALUES: Final = [name for name in _COLUMNS if name != "id"]
# Names of our own columns.
_UPDATE: Final = (
    f"UPDATE benchapp_change AS stored SET {', '.join(f'{name} = fresh.{name}' for name in _VALUES)}"  # nosec B608
    f" FROM json_to_recordset(%s::json) AS fresh({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})"
    " WHERE stored.id = fresh.id"
)
_JUDGED: Final = {
    "series_id": "bigint",
    "metric": "varchar",
    "standing": "varchar",
    "n": "int",
    "level": "float8",
    "spread": "float8",
    "least_change": "float8",
    "runs_needed": "int",
    "method": "varchar",
    "judged_at": "timestamptz",
}
_JUDGED_VALUES: Final = [name for name in _JUDGED if name not in ("series_id", "metric")]
# An accepted baseline (baseline_from_at) is not changed.
_JUDGE: Final = (
    f"INSERT INTO benchapp_judgement ({', '.join(_JUDGED)}) SELECT {', '.join(_JUDGED)}"  # nosec B608
    f" FROM json_to_recordset(%s::json) AS fresh({', '.join(f'{name} {kind}' for name, kind in _JUDGED.items())})"
    " ON CONFLICT (series_id, metric)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _JUDGED_VALUES)}"
)


def read_changes(series_ids: Sequence[int]) -> dict[tuple[int, str], list[Row]]:
    """Return all changes of these series by series and metric, oldest row first, withdrawn ones too.

    Without drifts, which are evaluated separately (pipeline/detection/drift.py).
    """
    known: dict[tuple[int, str], list[Row]] = {}
    found = Change.objects.filter(series_id__in=series_ids).exclude(method=DRIFT_METHOD)
    rows = found.order_by("id").values(*CHANGE_FIELDS)
    for row in rows:
        known.setdefault((row["series_id"], row["metric"]), []).append(dict(row))
    return known


def read_baselines(series_ids: Sequence[int]) -> dict[tuple[int, str], datetime]:
    """Return the start of the accepted baselines, by series and metric."""
    rows = Judgement.objects.filter(series_id__in=series_ids, baseline_from_at__isnull=False)
    return {
        (series_id, metric): moment
        for series_id, metric, moment in rows.values_list("series_id", "metric", "baseline_from_at")
        if moment is not None
    }


def update_changes(rows: Sequence[Row]) -> None:
    """Update rows, withdrawn ones first, since another row may take their start."""
    for part in (_pick(rows, is_withdrawn=True), _pick(rows, is_withdrawn=False)):
        if part:
            with connection.cursor() as cursor:
                cursor.execute(_UPDATE, [orjson.dumps(part).decode()])


def insert_changes(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    """Insert rows and return their ids."""
    made = Change.objects.bulk_create([Change(**row) for row in rows])
    return [change.pk for change in made]


def upsert_judgements(rows: Sequence[Row], series_ids: Sequence[int]) -> None:
    """Write the detection status of these series; delete that of metrics without values and baseline."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM benchapp_judgement AS stored WHERE series_id = ANY(%s) AND baseline_from_at IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM unnest(%s::bigint[], %s::varchar[]) AS fresh(series_id, metric)"
            "  WHERE fresh.series_id = stored.series_id AND fresh.metric = stored.metric)",
            [list(series_ids), [row["series_id"] for row in rows], [row["metric"] for row in rows]],
        )
        if rows:
            cursor.execute(_JUDGE, [orjson.dumps(rows).decode()])


def _pick(rows: Sequence[Row], *, is_withdrawn: bool) -> list[Row]:
    return [
        {name: row[name] for name in _COLUMNS}
        for row in rows
        if (row["state"] == ChangeState.WITHDRAWN) == is_withdrawn
    ]
