"""Members of pooled levels: the series of hosts and pools with their thresholds and newest runs, in few queries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Final

import numpy as np
from django.db import connection
from django.db.models import Window
from django.db.models.functions import RowNumber
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.analysis.detection.pooled_levels import MEMBERS_MINIMUM, SLOTS_MINIMUM
from benchapp.metrics import list_judged_metrics
from benchapp.models import Series
from benchapp.models.policies.thresholds import read_thresholds
from benchapp.pipeline.detection.histories import (
    Floats,
    Integers,
    StoredHistory,
    list_outside_maintenance,
    merge_within_runs,
    select_newest,
)

Indices = NDArray[np.intp]

# Series of a host or pool that are pooled, the first ones by id: 20 MB.
MEMBERS_MAXIMUM: Final = 2000
# Dimensions whose values have pooled levels.
_DIMENSIONS: Final = ("volume_type", "stripe_count")
# Without the number of earlier runs, which takes as long as the newest ones (240 runs of a series).
_READ: Final = sql.SQL(
    "SELECT wanted.number, newest.* FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS wanted(id, number)"
    " CROSS JOIN LATERAL ({newest}) AS newest WHERE newest.times IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class PooledMember:
    """One series of a scope. values: of its dimensions, as text, by name; thresholds: of its metrics."""

    series_id: int
    metrics: tuple[str, ...]
    values: Mapping[str, str]
    thresholds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PooledGroup:
    """The members of one pooled level, by their numbers. dimension, value: "" for all series of the scope."""

    dimension: str
    value: str
    members: Indices


@dataclass(frozen=True, slots=True)
class MemberHistories:
    """The newest valid runs of series, one series after the other, each oldest first; repetitions are their median.

    members: the number of the series of each run, from 0. times: µs since 2000. values: by metric, NaN where unknown.
    """

    members: Indices
    times: Integers
    run_ids: Integers
    values: Mapping[str, Floats]

    def select(self, selected: NDArray[np.bool_]) -> "MemberHistories":
        """Return these runs only."""
        return MemberHistories(
            self.members[selected],
            self.times[selected],
            self.run_ids[selected],
            {name: values[selected] for name, values in self.values.items()},
        )

    def take_members(self, first: int, end: int) -> "MemberHistories":
        """Return the series from a number up to before another; their numbers begin at 0."""
        runs = slice(*np.searchsorted(self.members, [first, end]).tolist())
        return MemberHistories(
            self.members[runs] - first,
            self.times[runs],
            self.run_ids[runs],
            {name: values[runs] for name, values in self.values.items()},
        )


def read_members(scopes: Sequence[str]) -> dict[str, list[PooledMember]]:
    """Return the members of each scope by id; one query, and those of `read_thresholds`."""
    found = Series.objects.filter(scope__in=scopes, measurement_count__gte=SLOTS_MINIMUM)
    first = found.annotate(place=Window(RowNumber(), partition_by="scope", order_by="id"))
    first = first.filter(place__lte=MEMBERS_MAXIMUM).order_by("id")
    rows = list(first.values("scope", "id", "block_size_bytes", *_DIMENSIONS))
    thresholds = read_thresholds([row["id"] for row in rows])
    members: dict[str, list[PooledMember]] = {scope: [] for scope in scopes}
    for row in rows:
        members[row["scope"]].append(
            PooledMember(
                row["id"],
                list_judged_metrics(has_one_block_size=row["block_size_bytes"] is not None),
                {name: str(row[name]) for name in _DIMENSIONS if row[name] is not None},
                thresholds[row["id"]],
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


def read_member_histories(ids: Sequence[int], *, window: int, metrics: tuple[str, ...]) -> MemberHistories:
    """Return the newest runs of series, numbered in this order, without those during their maintenance.

    window: measurements of a series. metrics: those that are read. One query, and one for each filter of a maintenance
    window in their time.
    """
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        rows = cursor.execute(_compose_read(metrics), {"ids": list(ids), "window": window}).fetchall()
    rows.sort(key=itemgetter(0), reverse=True)
    numbers, counts, times, run_ids, *values = (
        [row[column] for row in rows] for column in range(len(metrics) + 4)
    )
    histories = MemberHistories(
        np.repeat(np.array(numbers, np.intp) - 1, counts)[::-1],
        _unpack(times, ">i8").astype(np.int64),
        _unpack(run_ids, ">i8").astype(np.int64),
        {
            name: _unpack(packed, ">f8").astype(np.float64)
            for name, packed in zip(metrics, values, strict=True)
        },
    )
    return _leave_maintenance(_merge_repetitions(histories), ids)


@cache
def _compose_read(metrics: tuple[str, ...]) -> sql.Composed:
    return _READ.format(newest=select_newest(metrics))


def _unpack(packed: Sequence[bytes], dtype: str) -> NDArray[np.generic]:
    """Return the values of all series. Read newest first, the last series first; reversed to the order of time."""
    return np.frombuffer(b"".join(packed), dtype)[::-1]


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
