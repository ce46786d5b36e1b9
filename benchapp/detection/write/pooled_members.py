"""Members of pooled levels: the series of hosts and pools with their thresholds and newest runs, in few queries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import Window
from django.db.models.functions import RowNumber
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.catalog.metrics import list_judged_metrics
from benchapp.detection.rules.pooled_levels import MEMBERS_MINIMUM, SLOTS_MINIMUM
from benchapp.detection.write.histories import (
    Floats,
    Integers,
    StoredHistory,
    list_outside_maintenance,
    merge_within_runs,
    pack_columns,
    select_newest,
    separate_kinds,
)
from benchapp.models import Series
from benchapp.models.coverage import read_thresholds
from benchapp.models.measurement import KIND_CODE

Indices = NDArray[np.intp]

# Series of a host or pool that are pooled, the first ones by id: 20 MB.
MEMBERS_MAXIMUM: Final = 2000
# Dimensions whose values have pooled levels.
_DIMENSIONS: Final = ("volume_type", "stripe_count")
_TIMES: Final = ("first_at", "last_at", "measurement_count")
# Multiple of the window that is read together, so that a few missing runs do not matter.
_SLOTS_TOGETHER: Final = 1.03
# Smallest mean interval of the runs of a member, as share of the usual interval of its host. Members with more frequent
# runs, of which only the newest count, are read one by one.
_INTERVAL_SHARE: Final = 0.5
# Runs of a sweep are stored together, so that each page is read once for all members. An index scan reads a page for
# each run: 27 000 instead of 1 000 for 200 members.
_READ_TOGETHER: Final = sql.SQL(
    "SELECT string_agg(int8send(series_id), ''::bytea), string_agg(timestamptz_send(started_at), ''::bytea),"
    " string_agg(int8send(run_id), ''::bytea), {columns} FROM benchapp_measurement"
    " WHERE series_id = ANY(%(ids)s) AND started_at >= %(since)s AND error = 0 AND NOT is_excluded"
)
# Without the number of earlier runs, which takes as long as the newest ones (240 runs of a series).
_READ_EACH: Final = sql.SQL(
    "SELECT wanted.id, newest.* FROM unnest(%(ids)s::bigint[]) AS wanted(id)"
    " CROSS JOIN LATERAL ({newest}) AS newest WHERE newest.times IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class PooledMember:
    """One series of a scope. values: of its dimensions, as text, by name; thresholds: of its metrics.

    first_at: start of its first run; interval_s: mean interval of its runs.
    """

    series_id: int
    metrics: tuple[str, ...]
    values: Mapping[str, str]
    thresholds: Mapping[str, float]
    first_at: datetime
    interval_s: float


@dataclass(frozen=True, slots=True)
class PooledGroup:
    """The members of one pooled level, by their numbers. dimension, value: "" for all series of the scope."""

    dimension: str
    value: str
    members: Indices


@dataclass(frozen=True, slots=True)
class MemberHistories:
    """The newest valid runs of series, one series after the other, each oldest first; repetitions are their median.

    members: the number of the series of each run, from 0. times: µs since 2000. values: by metric, NaN where unknown;
    of a latency only those of its newest kind. kind_codes: as of StoredHistory.
    """

    members: Indices
    times: Integers
    run_ids: Integers
    values: Mapping[str, Floats]
    kind_codes: Integers

    def select(self, selected: NDArray[np.bool_]) -> "MemberHistories":
        """Return these runs only."""
        return MemberHistories(
            self.members[selected],
            self.times[selected],
            self.run_ids[selected],
            {name: values[selected] for name, values in self.values.items()},
            self.kind_codes[selected],
        )

    def take_members(self, first: int, end: int) -> "MemberHistories":
        """Return the series from a number up to before another; their numbers begin at 0."""
        runs = slice(*np.searchsorted(self.members, [first, end]).tolist())
        return MemberHistories(
            self.members[runs] - first,
            self.times[runs],
            self.run_ids[runs],
            {name: values[runs] for name, values in self.values.items()},
            self.kind_codes[runs],
        )


def read_members(scopes: Sequence[str]) -> dict[str, list[PooledMember]]:
    """Return the members of each scope by id; one query, and those of `read_thresholds`."""
    found = Series.objects.filter(scope__in=scopes, measurement_count__gte=SLOTS_MINIMUM)
    first = found.annotate(place=Window(RowNumber(), partition_by="scope", order_by="id"))
    first = first.filter(place__lte=MEMBERS_MAXIMUM).order_by("id")
    rows = list(first.values("scope", "id", "block_size_bytes", *_TIMES, *_DIMENSIONS))
    thresholds = read_thresholds([row["id"] for row in rows])
    members: dict[str, list[PooledMember]] = {scope: [] for scope in scopes}
    for row in rows:
        members[row["scope"]].append(
            PooledMember(
                row["id"],
                list_judged_metrics(has_one_block_size=row["block_size_bytes"] is not None),
                {name: str(row[name]) for name in _DIMENSIONS if row[name] is not None},
                thresholds[row["id"]],
                row["first_at"],
                (row["last_at"] - row["first_at"]).total_seconds() / (row["measurement_count"] - 1),
            )
        )
    return members


def list_groups(members: Sequence[PooledMember]) -> Iterator[PooledGroup]:
    """Yield all members, and those of each value of a dimension that enough of them have, but not all."""
    yield PooledGroup("", "", np.arange(len(members)))
    for name in _DIMENSIONS:
        values = np.array([member.values.get(name, "") for member in members])
        for value in sorted(set(values.tolist()) - {""}):
            numbers = np.flatnonzero(values == value)
            if MEMBERS_MINIMUM <= len(numbers) < len(members):
                yield PooledGroup(name, value, numbers)


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """The time from which the runs of a member are read together with those of others. is_whole: none are earlier."""

    at: datetime
    is_whole: bool


def choose_read_from(
    members: Sequence[PooledMember], *, evaluated_to_at: datetime, interval_s: float, window: int
) -> dict[int, ReadFrom]:
    """Return from when on the members of a scope are read together, by series; without those with too frequent runs.

    evaluated_to_at, interval_s: as of `PooledEvaluation`. window: slots.
    """
    at = evaluated_to_at - timedelta(seconds=_SLOTS_TOGETHER * window * interval_s)
    return {
        member.series_id: ReadFrom(at, is_whole=member.first_at >= at)
        for member in members
        if member.interval_s >= _INTERVAL_SHARE * interval_s
    }


def read_member_histories(
    ids: Sequence[int],
    *,
    window: int,
    metrics: tuple[str, ...],
    read_from: Mapping[int, ReadFrom] = MappingProxyType({}),
) -> MemberHistories:
    """Return the newest runs of series, numbered in this order, without those during their maintenance.

    window: measurements of a series. metrics: those that are read. read_from: of series that may be read together; the
    result does not depend on it. One query for each time, one for the series of which this did not find all runs, and
    one for each filter of a maintenance window in their time.
    """
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        together = _read_together(cursor, metrics, read_from)
        series, counts = np.unique(together.ids, return_counts=True)
        found = dict(zip(series.tolist(), counts.tolist(), strict=True))
        # Simultaneous runs are in the order of their measurements' ids, which are not read here.
        is_simultaneous = (np.diff(together.ids) == 0) & (np.diff(together.times) == 0)
        simultaneous = set(together.ids[1:][is_simultaneous].tolist())
        left = [
            series_id
            for series_id in ids
            if (of := read_from.get(series_id)) is None
            or series_id in simultaneous
            or not (of.is_whole or found.get(series_id, 0) >= window)
        ]
        if left:
            together = _join(
                [
                    together.select(~np.isin(together.ids, left)),
                    _read_each(cursor, left, window=window, metrics=metrics),
                ]
            )
    outside = _leave_maintenance(_number_members(together, ids, window=window), ids)
    return _merge_repetitions(_leave_earlier_kinds(outside))


@dataclass(frozen=True, slots=True)
class _MemberRuns:
    """Runs of several series, as MemberHistories; the runs of each series oldest first. ids: of the series."""

    ids: Integers
    times: Integers
    run_ids: Integers
    values: Mapping[str, Floats]
    kind_codes: Integers

    def select(self, selected: NDArray[np.bool_] | Indices) -> "_MemberRuns":
        """Return these runs only, by flags or indices."""
        return _MemberRuns(
            self.ids[selected],
            self.times[selected],
            self.run_ids[selected],
            {name: values[selected] for name, values in self.values.items()},
            self.kind_codes[selected],
        )


def _read_together(
    cursor: PsycopgCursor[Any], metrics: tuple[str, ...], read_from: Mapping[int, ReadFrom]
) -> _MemberRuns:
    """Return the runs of series from these times on."""
    ids: dict[datetime, list[int]] = {}
    for series_id, of in read_from.items():
        ids.setdefault(of.at, []).append(series_id)
    if ids:
        # To start parallel workers takes as long as such a statement.
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    rows = [
        row
        for at, wanted in ids.items()
        for row in cursor.execute(_compose_read_together(metrics), {"ids": wanted, "since": at})
        if row[0] is not None
    ]
    if ids:
        cursor.execute("SET LOCAL max_parallel_workers_per_gather TO DEFAULT")
    series, times, run_ids, *values, codes = (
        _unpack([row[column] for row in rows]) for column in range(len(metrics) + 4)
    )
    runs = _MemberRuns(
        series.astype(np.int64),
        times.astype(np.int64),
        run_ids.astype(np.int64),
        {name: of.view(">f8").astype(np.float64) for name, of in zip(metrics, values, strict=True)},
        codes.view(">f8").astype(np.int64),
    )
    # From the order in which they are stored, which is nearly that of time.
    return runs.select(np.lexsort((runs.times, runs.ids)))


def _read_each(
    cursor: PsycopgCursor[Any], ids: Sequence[int], *, window: int, metrics: tuple[str, ...]
) -> _MemberRuns:
    """Return the newest runs of each of these series."""
    rows = cursor.execute(_compose_read_each(metrics), {"ids": ids, "window": window}).fetchall()
    series, counts, times, run_ids, *values, codes = (
        [row[column] for row in rows] for column in range(len(metrics) + 5)
    )
    # Read newest first, reversed to the order of time.
    return _MemberRuns(
        np.repeat(np.array(series, np.int64), counts)[::-1],
        _unpack(times)[::-1].astype(np.int64),
        _unpack(run_ids)[::-1].astype(np.int64),
        {
            name: _unpack(packed)[::-1].view(">f8").astype(np.float64)
            for name, packed in zip(metrics, values, strict=True)
        },
        _unpack(codes)[::-1].view(">f8").astype(np.int64),
    )


@cache
def _compose_read_together(metrics: tuple[str, ...]) -> sql.Composed:
    return _READ_TOGETHER.format(columns=pack_columns(metrics, kind_code=KIND_CODE))


@cache
def _compose_read_each(metrics: tuple[str, ...]) -> sql.Composed:
    return _READ_EACH.format(newest=select_newest(metrics))


def _unpack(packed: Sequence[bytes]) -> NDArray[np.generic]:
    """Return values of 8 bytes of all rows."""
    return np.frombuffer(b"".join(packed), ">i8")


def _join(parts: Sequence[_MemberRuns]) -> _MemberRuns:
    return _MemberRuns(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.run_ids for part in parts]),
        {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
        np.concatenate([part.kind_codes for part in parts]),
    )


def _number_members(runs: _MemberRuns, ids: Sequence[int], *, window: int) -> MemberHistories:
    """Return the newest runs of each series, one series after the other in the order of these ids."""
    by_id = np.argsort(ids)
    numbers = by_id[np.searchsorted(np.array(ids, np.int64), runs.ids, sorter=by_id)]
    order = np.argsort(numbers, kind="stable")
    members = numbers[order]
    newer = np.cumsum(np.bincount(members, minlength=len(ids)))[members] - np.arange(1, len(members) + 1)
    is_kept = newer < window
    runs = runs.select(order[is_kept])
    return MemberHistories(members[is_kept], runs.times, runs.run_ids, runs.values, runs.kind_codes)


def _leave_earlier_kinds(histories: MemberHistories) -> MemberHistories:
    """Omit the values of a latency that are not of the newest kind of their member."""
    members, codes = histories.members, histories.kind_codes
    is_other = (members[1:] == members[:-1]) & (codes[1:] != codes[:-1])
    for member in np.unique(members[1:][is_other]).tolist():
        runs = slice(*np.searchsorted(members, [member, member + 1]).tolist())
        of_member = {name: values[runs] for name, values in histories.values.items()}
        times, run_ids = histories.times[runs], histories.run_ids[runs]
        history = StoredHistory(times, run_ids, np.arange(len(times)), of_member, kind_codes=codes[runs])
        for name, values in separate_kinds(history).values.items():
            histories.values[name][runs] = values
    return histories


def _merge_repetitions(histories: MemberHistories) -> MemberHistories:
    """Replace repetitions within a run by their median."""
    members, run_ids = histories.members, histories.run_ids
    is_possible = (members[1:] == members[:-1]) & (run_ids[1:] <= run_ids[:-1])
    is_kept = np.ones(len(members), np.bool_)
    for member in np.unique(members[1:][is_possible]).tolist():
        runs = np.arange(*np.searchsorted(members, [member, member + 1]).tolist())
        of_member = {name: values[runs] for name, values in histories.values.items()}
        merged = merge_within_runs(StoredHistory(histories.times[runs], run_ids[runs], runs, of_member))
        is_kept[runs] = np.isin(runs, merged.positions)
        for name, values in merged.values.items():
            histories.values[name][merged.positions] = values
    return histories if is_kept.all() else histories.select(is_kept)


def _leave_maintenance(histories: MemberHistories, ids: Sequence[int]) -> MemberHistories:
    """Omit the runs during maintenance of their series."""
    bounds = np.searchsorted(histories.members, np.arange(len(ids) + 1)).tolist()
    times = {
        series_id: histories.times[bounds[number] : bounds[number + 1]]
        for number, series_id in enumerate(ids)
    }
    numbers = {series_id: number for number, series_id in enumerate(ids)}
    is_kept = np.ones(len(histories.members), np.bool_)
    for series_id, is_outside in list_outside_maintenance(times):
        number = numbers[series_id]
        is_kept[bounds[number] : bounds[number + 1]] = is_outside
    return histories if is_kept.all() else histories.select(is_kept)
