"""Update the summary of each series: its current values, for charts over many series without a scan.

Whoever changes measurements marks their series (`summary_is_due`) in the same transaction; this step computes the
summary anew from the newest measurements, so that nothing drifts, whatever came late, went away or was excluded.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import orjson
from django.db import connection, transaction
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.analysis.detection.level_summary import SPARKLINE_COUNT, LevelCounts, summarize_levels
from benchapp.models import METRIC_FIELDS, Series

# Half a quarter of daily runs: long enough for a p10 and p90 to mean something, short enough to follow a new level.
WINDOW: Final = 100
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)

_CLAIM: Final = (
    "SELECT id FROM benchapp_series WHERE summary_is_due ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED"
)
_LOCK: Final = "SELECT id FROM benchapp_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
# The newest of each series as two-dimensional data: times, then a row of doubles for each metric, in PostgreSQL's
# binary form. 600 series of 100 measurements take a tenth of what percentile_cont in SQL takes (measured). The inner
# query's order is that in which the aggregates get their rows.
_READ_WINDOWS: Final = sql.SQL(
    "SELECT wanted.id, newest.* FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    " SELECT string_agg(timestamptz_send(started_at), ''::bytea) AS times, {columns} FROM ("
    "  SELECT started_at, {metrics} FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND error = 0 AND NOT is_excluded"
    "  ORDER BY started_at DESC, id DESC LIMIT {window}) AS measured"
    " ) AS newest WHERE newest.times IS NOT NULL"
).format(
    columns=sql.SQL(", ").join(
        sql.SQL("string_agg(float8send(coalesce({}, 'NaN')), ''::bytea)").format(sql.Identifier(name))
        for name in METRIC_FIELDS
    ),
    metrics=sql.SQL(", ").join(map(sql.Identifier, METRIC_FIELDS)),
    window=sql.Literal(WINDOW),
)
_COLUMNS: Final = {
    "series_id": "bigint",
    "metric": "varchar",
    "n": "int",
    "median": "float8",
    "p10": "float8",
    "p90": "float8",
    "minimum": "float8",
    "maximum": "float8",
    "last": "float8",
    "recent_median": "float8",
    "baseline_median": "float8",
    "recent": "float8[]",
    "first_at": "timestamptz",
    "last_at": "timestamptz",
}
# What a Standings has under the same name.
_PLAIN: Final = [
    name for name in _COLUMNS if name not in ("series_id", "metric", "recent", "first_at", "last_at")
]
_VALUES: Final = [name for name in _COLUMNS if name not in ("series_id", "metric")]
# One document for all rows: arrays of 5 000 values each take psycopg four times as long to write out (measured).
_FRESH: Final = (
    f"json_to_recordset(%s::json) AS fresh({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})"
)
# Rows that say what they said are not written again: reading history anew changes few. (Names of our own columns.)
_UPSERT: Final = (
    f"INSERT INTO benchapp_seriessummary AS kept ({', '.join(_COLUMNS)}) SELECT {', '.join(_COLUMNS)}"  # nosec B608
    f" FROM {_FRESH} ON CONFLICT (metric, series_id)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _VALUES)}"
    f" WHERE ({', '.join(f'kept.{name}' for name in _VALUES)})"
    f" IS DISTINCT FROM ({', '.join(f'excluded.{name}' for name in _VALUES)})"
)
_DELETE_OTHERS: Final = (
    "DELETE FROM benchapp_seriessummary AS kept WHERE series_id = ANY(%s) AND NOT EXISTS ("
    " SELECT 1 FROM unnest(%s::bigint[], %s::varchar[]) AS fresh(series_id, metric)"
    " WHERE fresh.series_id = kept.series_id AND fresh.metric = kept.metric)"
)


def has_due() -> bool:
    """Say whether the summary of any series waits to be computed."""
    return Series.objects.filter(summary_is_due=True).exists()


def summarize_due(*, limit: int = 500) -> int:
    """Compute the summaries that are due, of up to `limit` series, and return of how many; 0 where none is left.

    Two at once take different series and never wait for each other. Who stores measurements of one of these waits
    for this transaction's lock, or is skipped by it; either way the series is due again once that commits.
    """
    return _summarize(_CLAIM, limit)


def summarize_series(ids: Sequence[int]) -> int:
    """Compute the summaries of these series, due or not, and return of how many there are."""
    return _summarize(_LOCK, list(ids))


def mark_series(*, after: int, limit: int) -> int:
    """Mark the next `limit` series behind this id as due; return the last one's id, or 0 where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH marked AS ("
            # ARRAY: chosen once. As a join it may be asked for each row, and what it marked it would not choose again.
            " UPDATE benchapp_series SET summary_is_due = TRUE WHERE id = ANY (ARRAY("
            "  SELECT id FROM benchapp_series WHERE id > %s ORDER BY id LIMIT %s FOR NO KEY UPDATE)) RETURNING id"
            ") SELECT coalesce(max(id), 0) FROM marked",
            [after, limit],
        )
        return int(cursor.fetchone()[0])


@transaction.atomic
def _summarize(choose: str, which: int | list[int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(choose, [which])
        ids = [series_id for (series_id,) in cursor.fetchall()]
        if not ids:
            return 0
        # A statement of its own, behind the locks: it sees all that was committed before they were taken.
        rows = list(_make_rows(_read_windows(ids)))
        kept = [row["series_id"] for row in rows], [row["metric"] for row in rows]
        cursor.execute(_DELETE_OTHERS, [ids, *kept])
        cursor.execute(_UPSERT, [orjson.dumps(rows).decode()])
        cursor.execute("UPDATE benchapp_series SET summary_is_due = FALSE WHERE id = ANY(%s)", [ids])
    return len(ids)


def _read_windows(ids: Sequence[int]) -> list[tuple[Any, ...]]:
    """Fetch in binary, which Django's cursor does not."""
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        return cursor.execute(_READ_WINDOWS, [list(ids)]).fetchall()


def _make_rows(windows: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Give a row of SeriesSummary for each metric of each series that has a value; NaN is null in JSON."""
    values = np.full((len(windows), len(METRIC_FIELDS), WINDOW), np.nan)
    times = np.zeros((len(windows), WINDOW), dtype=np.int64)
    for place, (_, moments, *packed) in enumerate(windows):
        count = len(moments) // times.itemsize
        times[place, :count] = np.frombuffer(moments, ">i8")
        values[place, :, :count] = np.frombuffer(b"".join(packed), ">f8").reshape(-1, count)
    # Without this, one infinite value that got through would keep its whole batch from ever being summarised.
    values[np.isinf(values)] = np.nan
    series, metrics = np.nonzero((~np.isnan(values)).any(axis=2))
    standings = summarize_levels(values[series, metrics])
    columns = {
        "series_id": [windows[place][0] for place in series.tolist()],
        "metric": [METRIC_FIELDS[place] for place in metrics.tolist()],
        **{name: getattr(standings, name).tolist() for name in _PLAIN},
        "recent": _list_recent(standings),
        "first_at": _read_times(times[series, standings.first_place]),
        "last_at": _read_times(times[series, standings.last_place]),
    }
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _list_recent(standings: LevelCounts) -> list[list[float]]:
    """Return the values of each sparkline in the order of time."""
    counts = np.minimum(standings.n, SPARKLINE_COUNT).tolist()
    rows = standings.newest[:, :SPARKLINE_COUNT].tolist()
    return [row[:count][::-1] for row, count in zip(rows, counts, strict=True)]


def _read_times(microseconds: NDArray[np.int64]) -> list[datetime]:
    return [_POSTGRES_EPOCH + timedelta(microseconds=count) for count in microseconds.tolist()]
