"""Histories: the newest valid values of many series in one query."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.catalog.metrics import CATALOG, is_latency, list_judged_metrics
from benchapp.detection.rules.evaluation_points import EVALUATED_EVERY, YOUNG_RUNS
from benchapp.detection.rules.levels import KindSection, divide_kinds
from benchapp.models import REREAD
from benchapp.models.coverage import match_maintenance, read_thresholds
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Measurements of a series that are evaluated: five years of daily runs. Earlier changes are not updated.
WINDOW: Final = 2000
# Measurements that are read for an evaluation: those that are evaluated, and quiet ones since.
EVALUATION_WINDOW: Final = WINDOW + EVALUATED_EVERY - 1
# Measurements of a batch: 90 bytes each, so 36 MB at most.
_BATCH_POINTS: Final = 400_000
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_CLAIMED: Final = (
    "SELECT id, scope, block_size_bytes IS NOT NULL, measurement_count, is_reread FROM benchapp_series"
)
# Not while a mapping of names moves their measurements: half of a series has other changes.
_CLAIM: Final = (
    f"{_CLAIMED} WHERE judging_is_due AND scope <> ALL(ARRAY("  # noqa: S608
    " SELECT DISTINCT CASE host.pool WHEN '' THEN 'host:' || host.name ELSE 'pool:' || host.pool END"
    " FROM benchapp_submission submission JOIN benchapp_host host ON host.id = submission.host_id"
    f" WHERE submission.state = 'stored' AND submission.body IS NOT NULL AND submission.parser_version = {REREAD}))"
    " ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED"
)
_LOCK: Final = f"{_CLAIMED} WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
# Newest first, in PostgreSQL's binary form: a tenth of the time of percentile_cont over the same rows (measured).
_SELECT_NEWEST: Final = sql.SQL(
    "SELECT count(*) AS read, string_agg(timestamptz_send(started_at), ''::bytea) AS times,"
    " string_agg(int8send(run_id), ''::bytea), {columns} FROM ("
    "  SELECT started_at, run_id, {metrics}, {kind_code} AS kind_code FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND error = 0 AND NOT is_excluded AND started_at >= coalesce("
    "   (SELECT max(day) + 1 FROM benchapp_dailypoint WHERE series_id = wanted.id), '-infinity')"
    "   ::timestamp AT TIME ZONE 'UTC'"
    "  ORDER BY started_at DESC, id DESC LIMIT %(window)s) AS measured"
)


def select_newest(metrics: Iterable[str]) -> sql.Composed:
    """Return the query for the newest valid measurements of `wanted.id`, at most `window`; none before daily points.

    Columns: read, their number; times; ids of runs; each metric; codes of the kinds of latency; null without any.
    """
    names = list(metrics)
    return _SELECT_NEWEST.format(
        columns=pack_columns(names),
        metrics=sql.SQL(", ").join(map(sql.Identifier, names)),
        kind_code=sql.SQL(KIND_CODE),
    )


def pack_columns(metrics: Iterable[str], *, kind_code: str = "kind_code") -> sql.Composed:
    """Return the values of each metric as one value of 8 bytes for each measurement, NaN where unknown; then the codes.

    kind_code: SQL of the code of a measurement's kinds of latency.
    """
    values = [sql.SQL("coalesce({}, 'NaN')").format(sql.Identifier(name)) for name in metrics]
    return sql.SQL(", ").join(
        sql.SQL("string_agg(float8send({}), ''::bytea)").format(value)
        for value in (*values, sql.SQL(kind_code))
    )


_READ: Final = sql.SQL(
    "SELECT wanted.id, CASE WHEN newest.read < %(window)s THEN newest.read ELSE ("
    " SELECT count(*) FROM benchapp_measurement WHERE series_id = wanted.id AND error = 0 AND NOT is_excluded"
    ") END + coalesce((SELECT sum(n) FROM benchapp_dailypoint WHERE series_id = wanted.id), 0)::bigint, newest.*"
    " FROM unnest(%(ids)s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ({newest}) AS newest"
    " WHERE newest.times IS NOT NULL"
).format(newest=select_newest(tuple(CATALOG)))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A series that is evaluated now, its row locked. metrics: those that are evaluated.

    thresholds: smallest change of each metric, relative, by its policies. is_reread: only its history was read again.
    """

    series_id: int
    scope: str
    metrics: tuple[str, ...]
    thresholds: Mapping[str, float]
    is_reread: bool

    @property
    def smallest_changes(self) -> list[float]:
        """Return the threshold of each of its metrics."""
        return [self.thresholds[metric] for metric in self.metrics]


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The valid runs of one series, oldest first; repetitions within one run are its median.

    times: µs since 2000. positions: among the valid runs of the series, from 1. values: by metric, NaN where unknown.
    Of a latency only those of its newest kind. is_cut: older runs exist that were not read. has_repetitions: within
    runs. kind_codes: of the runs, as of `read_kind_code`. kinds: of the values of a latency, "" if unknown. earlier:
    values of latencies before their newest kind, oldest first.
    """

    times: Integers
    run_ids: Integers
    positions: Integers
    values: Mapping[str, Floats]
    is_cut: bool = False
    has_repetitions: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, tuple["KindValues", ...]] = field(default_factory=dict)
    kind_codes: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def is_young(self) -> bool:
        """Return whether there are too few runs to know the noise."""
        return 0 < len(self.times) < YOUNG_RUNS

    def select(self, selected: NDArray[np.bool_ | np.int64] | slice) -> "StoredHistory":
        """Return the history of these runs only, by flags, indices or a slice."""
        return replace(
            self,
            times=self.times[selected],
            run_ids=self.run_ids[selected],
            positions=self.positions[selected],
            values={name: values[selected] for name, values in self.values.items()},
            kind_codes=self.kind_codes[selected] if len(self.kind_codes) else self.kind_codes,
            earlier={
                name: tuple(replace(each, values=each.values[selected]) for each in sections)
                for name, sections in self.earlier.items()
            },
        )

    def count_other_kind(self, metric: str) -> int:
        """Return the number of runs with another kind of a latency than its values."""
        kind = self.kinds.get(metric, "")
        codes = self.kind_codes.tolist() if kind else []
        return sum(not are_same_kind(read_kind_code(metric, code), kind) for code in codes)

    def find_kind_start(self, metric: str) -> int | None:
        """Return when the kind of a latency began that its values have; None if no other kind came before."""
        if metric not in self.earlier:
            return None
        known = np.flatnonzero(np.isfinite(self.values[metric]))
        return int(self.times[known[0]]) if len(known) else None

    def list_arrays(self) -> list[Floats]:
        """Return the values of all metrics and kinds."""
        return [*self.values.values(), *(each.values for own in self.earlier.values() for each in own)]


@dataclass(frozen=True, slots=True)
class KindValues:
    """The values of a latency of one kind, NaN for other runs."""

    kind: str
    values: Floats


EMPTY: Final = StoredHistory(
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    {name: np.zeros(0) for name in CATALOG},
)


def claim_due(limit: int) -> list[Claimed]:
    """Lock up to `limit` series that are due, except those locked by another process, and beyond one batch."""
    return _claim(_CLAIM, [limit])


def lock_series(ids: Sequence[int]) -> list[Claimed]:
    """Lock these series, waiting for them; series beyond the measurements of one batch are omitted."""
    return _claim(_LOCK, [list(ids)])


def _claim(statement: str, parameters: Sequence[int | list[int]]) -> list[Claimed]:
    rows: list[tuple[Any, ...]] = []
    points = 0
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        for row in cursor.fetchall():
            points += min(row[3], WINDOW)
            if rows and points > _BATCH_POINTS:
                break
            rows.append(row)
    thresholds = read_thresholds([row[0] for row in rows])
    return [
        Claimed(
            series_id,
            scope,
            list_judged_metrics(has_one_block_size=has_one_block_size),
            thresholds[series_id],
            is_reread,
        )
        for series_id, scope, has_one_block_size, _, is_reread in rows
    ]


def read_histories(
    ids: Sequence[int], *, window: int = WINDOW, until_at: datetime | None = None
) -> dict[int, StoredHistory]:
    """Return the histories of series by id, without the runs of their maintenance; empty without valid runs.

    window: measurements of a series, the newest; until_at: only those of them that started before. One query, and one
    for each filter of a maintenance window in their time.
    """
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        rows = cursor.execute(_READ, {"ids": list(ids), "window": window}).fetchall()
    histories = select_outside_maintenance(
        {row[0]: _unpack_history(row[3:], first_position=row[1] - row[2] + 1) for row in rows}
    )
    if until_at is not None:
        until = to_microseconds(until_at)
        histories = {key: history.select(history.times < until) for key, history in histories.items()}
    # Last: what was measured during maintenance decides no kind.
    merged = {key: merge_within_runs(separate_kinds(history)) for key, history in histories.items()}
    return {series_id: merged.get(series_id, EMPTY) for series_id in ids}


def select_outside_maintenance(histories: Mapping[int, StoredHistory]) -> dict[int, StoredHistory]:
    """Return these histories without the runs during maintenance of their series."""
    selected = dict(
        list_outside_maintenance({series_id: history.times for series_id, history in histories.items()})
    )
    return {
        series_id: history.select(selected[series_id]) if series_id in selected else history
        for series_id, history in histories.items()
    }


def to_time(microseconds: int) -> datetime:
    """Return the time of µs since 2000."""
    return _POSTGRES_EPOCH + timedelta(microseconds=int(microseconds))


def to_microseconds(moment: datetime) -> int:
    """Return a time as µs since 2000."""
    return (moment - _POSTGRES_EPOCH) // _MICROSECOND


def _unpack_history(packed: Sequence[Any], *, first_position: int) -> StoredHistory:
    """Return a history of all kinds from its packed columns, newest first: times, runs, metrics, codes of kinds.

    first_position: the position of its first run.
    """
    if packed[0] is None:
        return EMPTY
    moments, run_ids, *values = packed
    # Read newest first; reversed to the order of time.
    columns = np.frombuffer(b"".join(values), ">f8").astype(np.float64).reshape(len(values), -1)[:, ::-1]
    return StoredHistory(
        times=np.frombuffer(moments, ">i8").astype(np.int64)[::-1],
        run_ids=np.frombuffer(run_ids, ">i8").astype(np.int64)[::-1],
        positions=np.arange(first_position, first_position + len(moments) // 8),
        values=dict(zip(CATALOG, columns[:-1], strict=True)),
        is_cut=first_position > 1,
        kind_codes=columns[-1].astype(np.int64),
    )


def separate_kinds(history: StoredHistory) -> StoredHistory:
    """Return a history of the newest kind of each latency, with the values of kinds before it apart."""
    codes = history.kind_codes
    latencies = [name for name in history.values if is_latency(name)]
    if not len(codes):
        return history
    if (codes == codes[0]).all():
        return replace(history, kinds={name: read_kind_code(name, int(codes[0])) for name in latencies})
    values, kinds, earlier = dict(history.values), {}, {}
    for name in latencies:
        own = np.array([read_kind_code(name, code) for code in codes.tolist()])
        *before, newest = divide_kinds(own, history.times, np.isfinite(values[name])) or [
            KindSection("", codes < 0)
        ]
        kinds[name] = newest.kind
        if before:
            earlier[name] = tuple(
                KindValues(each.kind, np.where(each.is_member, values[name], np.nan)) for each in before
            )
        values[name] = np.where(newest.is_member, values[name], np.nan)
    return replace(history, values=values, kinds=kinds, earlier=earlier)


def merge_within_runs(history: StoredHistory) -> StoredHistory:
    """Replace repetitions within a run by their median: a level consists of runs."""
    run_ids = history.run_ids
    # Nearly always ascending, which takes a fifth of the time to find out.
    if (run_ids[1:] > run_ids[:-1]).all() or len(np.unique(run_ids)) == len(run_ids):
        return history
    both = np.stack([history.times, history.run_ids])
    runs, first, place = np.unique(both, axis=1, return_index=True, return_inverse=True)
    selected = np.sort(first)
    merged = replace(history.select(selected), has_repetitions=True)
    for values, of_runs in zip(history.list_arrays(), merged.list_arrays(), strict=True):
        medians = np.array([_take_median(values[place == number]) for number in range(runs.shape[1])])
        # From the order of ids to that of time.
        of_runs[:] = medians[place[selected]]
    return merged


def _take_median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def list_outside_maintenance(times: Mapping[int, Integers]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield the series with runs during their maintenance, and for each of their runs whether it is outside of it.

    times: of the runs of each series, µs since 2000, ascending.
    """
    present = [of for of in times.values() if len(of)]
    if not present:
        return
    first = to_time(min(int(of[0]) for of in present))
    last = to_time(max(int(of[-1]) for of in present))
    matched = match_maintenance(times, from_at=first, to_at=last)
    for series_id, planned_events in matched.items():
        of = times[series_id]
        is_inside = np.zeros(len(of), dtype=bool)
        for planned_event in planned_events:
            is_inside |= (of >= to_microseconds(planned_event.from_at)) & (
                of < to_microseconds(planned_event.ends_at)
            )
        if is_inside.any():
            yield series_id, ~is_inside
