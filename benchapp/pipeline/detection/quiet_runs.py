"""Quiet runs: extend the current levels of series without their histories, from the state of the last evaluation.

A state is written with each evaluation, and valid while only newer measurements are added: whoever changes history
clears `Series.judging_resumes` with the mark for detection. A measurement that is not newer shows in the count.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from django.conf import settings
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.analysis.detection.evaluation_points import (
    EVALUATED_EVERY,
    AddedRuns,
    EvaluationPoint,
    Reference,
    are_quiet,
    find_evaluation_point,
    is_grid_point,
)
from benchapp.analysis.detection.growing_levels import (
    GrowingLevel,
    RankWindow,
    find_quantile,
    grow_level,
    keep_level,
    keep_quantile,
)
from benchapp.analysis.detection.repetitions import may_have_repetitions
from benchapp.models import METRIC_FIELDS, ChangeState, IncidentState
from benchapp.pipeline.detection.histories import (
    WINDOW,
    Claimed,
    StoredHistory,
    select_outside_maintenance,
    to_time,
    unpack_history,
)
from benchapp.pipeline.detection.levels import RECENT_MAXIMUM, CurrentValues, describe_statistics
from benchapp.pipeline.detection.metric import METHOD
from benchapp.pipeline.detection.series import JudgedLevel

Floats = NDArray[np.float64]

# Changed with the content of the state: states of another format are void.
_FORMAT: Final = 2
_SETTINGS: Final = (METHOD, _FORMAT, WINDOW, EVALUATED_EVERY, METRIC_FIELDS)
_LIVE: Final = [ChangeState.SUSPECTED.value, ChangeState.PROVISIONAL.value]

# A change that may still be withdrawn, or whose incident may recover, is evaluated with every run.
_IS_WATCHED: Final = (
    "EXISTS (SELECT 1 FROM benchapp_change AS live LEFT JOIN benchapp_incident AS incident"
    " ON incident.id = live.incident_id WHERE live.series_id = {series} AND live.state <> 'withdrawn'"
    " AND (live.state = ANY(%(live)s) OR incident.state <> %(resolved)s))"
)
_READ_WATCHED: Final = (
    f"SELECT id FROM unnest(%(ids)s::bigint[]) AS wanted(id) WHERE {_IS_WATCHED.format(series='wanted.id')}"  # noqa: S608
)
# All measurements since the state, newest first, of which the valid ones are read. No row if there are too many, or
# others were added before it.
_READ_STATES: Final = sql.SQL(
    "SELECT state.series_id, state.position, state.content, newest.* FROM benchapp_series AS series"
    " JOIN benchapp_detectionstate AS state ON state.series_id = series.id CROSS JOIN LATERAL ("
    " SELECT count(*) AS read, string_agg(timestamptz_send(started_at), ''::bytea) FILTER (WHERE is_valid) AS times,"
    " string_agg(int8send(run_id), ''::bytea) FILTER (WHERE is_valid), {columns} FROM ("
    "  SELECT started_at, run_id, error = 0 AND NOT is_excluded AS is_valid, {metrics} FROM benchapp_measurement"
    "  WHERE series_id = state.series_id AND started_at > state.last_at"
    "  ORDER BY started_at DESC, id DESC LIMIT %(most)s) AS measured"
    " ) AS newest WHERE series.id = ANY(%(ids)s) AND series.judging_resumes"
    " AND state.fingerprint = %(fingerprint)s AND newest.read < %(most)s"
    " AND series.measurement_count = state.measurement_count + newest.read"
    " AND NOT {is_watched}"
).format(
    columns=sql.SQL(", ").join(
        sql.SQL("string_agg(float8send(coalesce({}, 'NaN')), ''::bytea) FILTER (WHERE is_valid)").format(
            sql.Identifier(name)
        )
        for name in METRIC_FIELDS
    ),
    metrics=sql.SQL(", ").join(map(sql.Identifier, METRIC_FIELDS)),
    is_watched=sql.SQL(_IS_WATCHED.format(series="series.id")),
)
_WRITE_STATES: Final = (
    "INSERT INTO benchapp_detectionstate (series_id, fingerprint, measurement_count, last_at, position, content)"
    " SELECT id, %(fingerprint)s, measurement_count, last_at, position, content FROM"
    " unnest(%(ids)s::bigint[], %(positions)s::int[], %(contents)b::bytea[]) AS written(series_id, position, content)"
    " JOIN benchapp_series ON id = series_id ON CONFLICT (series_id) DO UPDATE SET fingerprint = excluded.fingerprint,"
    " measurement_count = excluded.measurement_count, last_at = excluded.last_at, position = excluded.position,"
    " content = excluded.content"
)
_EXTEND_LEVELS: Final = (
    "UPDATE benchapp_level AS stored SET to_at = fresh.to_at, n = fresh.n, median = fresh.median, p10 = fresh.p10,"
    " p90 = fresh.p90, minimum = fresh.minimum, maximum = fresh.maximum, last = fresh.last, recent = fresh.recent"
    " FROM json_to_recordset(%s::json) AS fresh(series_id bigint, metric varchar, to_at timestamptz, n int,"
    " median float8, p10 float8, p90 float8, minimum float8, maximum float8, last float8, recent float8[])"
    " WHERE stored.series_id = fresh.series_id AND stored.metric = fresh.metric AND stored.is_current"
)
_EXTEND_RESULTS: Final = (
    "UPDATE benchapp_detectionresult AS stored SET n = fresh.n, level = fresh.level, judged_at = %s"
    " FROM json_to_recordset(%s::json) AS fresh(series_id bigint, metric varchar, n int, level float8)"
    " WHERE stored.series_id = fresh.series_id AND stored.metric = fresh.metric"
)


class _MetricState(msgspec.Struct, frozen=True, array_like=True):
    """What the detection result of a metric needs. n: its values; level_n, median: of the detected level."""

    n: int
    level_n: int
    median: RankWindow


class _LevelState(msgspec.Struct, frozen=True, array_like=True):
    """What the current level of a metric needs. recent: the newest values of the series."""

    level: GrowingLevel
    recent: tuple[float, ...]


class _State(msgspec.Struct, frozen=True, array_like=True):
    """Content of a state. tail: values of `metrics` from the first run of the references on, a row for each.

    run_id, position: of the newest valid run. thresholds: of the metrics.
    """

    run_id: int
    position: int
    metrics: tuple[str, ...]
    thresholds: tuple[float, ...]
    references: tuple[Reference | None, ...]
    tail: bytes
    results: dict[str, _MetricState]
    levels: dict[str, _LevelState]


_DECODER: Final = msgspec.msgpack.Decoder(_State)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is evaluated of a series.

    history: at most the newest 2 000 measurements up to the evaluation point, and those since. end: runs that are
    evaluated; the later ones are quiet. first, references: as of EvaluationPoint.
    """

    history: StoredHistory
    end: int
    first: int = 0
    references: tuple[Reference | None, ...] = ()

    @property
    def evaluated(self) -> StoredHistory:
        """Return the runs that are evaluated."""
        return self.history.select(slice(self.end))


def plan_evaluations(
    claimed: Sequence[Claimed], histories: Mapping[int, StoredHistory]
) -> dict[int, EvaluationPlan]:
    """Return the plan of each series; its history is of the newest EVALUATION_WINDOW measurements. One query."""
    watched = read_watched([series.series_id for series in claimed])
    return {
        series.series_id: plan_evaluation(
            histories[series.series_id],
            series.metrics,
            smallest_changes=series.smallest_changes,
            is_watched=series.series_id in watched,
        )
        for series in claimed
    }


def _make_fingerprint() -> str:
    """Return what identifies the settings that a state depends on."""
    return hashlib.sha256(repr((_SETTINGS, settings.DETECTION_SEASONS)).encode()).hexdigest()


def read_watched(ids: Sequence[int]) -> set[int]:
    """Return the series that are evaluated with every run."""
    with connection.cursor() as cursor:
        cursor.execute(
            _READ_WATCHED, {"ids": list(ids), "live": _LIVE, "resolved": IncidentState.RESOLVED.value}
        )
        return {series_id for (series_id,) in cursor.fetchall()}


def plan_evaluation(
    history: StoredHistory, metrics: Sequence[str], *, smallest_changes: Sequence[float], is_watched: bool
) -> EvaluationPlan:
    """Return which runs are evaluated. smallest_changes: of the metrics; is_watched: up to the newest one."""
    count = len(history.times)
    point = EvaluationPoint(count, count, ())
    if count and not is_watched and not history.has_repetitions:
        found = find_evaluation_point(
            np.stack([history.values[metric] for metric in metrics]),
            history.positions,
            smallest_changes=smallest_changes,
        )
        if not may_have_repetitions(history.times[: found.end]):
            point = found
    if not count:
        return EvaluationPlan(history, 0)
    # The window of the evaluation, also for the quiet runs after it.
    skipped = int(np.searchsorted(history.positions, history.positions[point.end - 1] - WINDOW, side="right"))
    if skipped:
        history = replace(history.select(slice(skipped, None)), is_cut=True)
    return EvaluationPlan(history, point.end - skipped, max(point.first - skipped, 0), point.references)


def write_states(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    judged: Mapping[tuple[int, str], JudgedLevel],
    *,
    levels: Mapping[int, Mapping[str, CurrentValues]],
) -> list[int]:
    """Write the states of these series, whose rows are locked; return those that have one."""
    ids, positions, contents = [], [], []
    for series in claimed:
        plan = plans[series.series_id]
        if not plan.references:
            continue
        history = plan.history
        state = _State(
            run_id=int(history.run_ids[-1]),
            position=int(history.positions[-1]),
            metrics=series.metrics,
            thresholds=tuple(series.smallest_changes),
            references=plan.references,
            tail=np.stack([history.values[metric][plan.first :] for metric in series.metrics]).tobytes(),
            results={
                metric: _MetricState(known.n, len(known.values), keep_quantile(np.sort(known.values), 0.5))
                for metric in METRIC_FIELDS
                if (known := judged.get((series.series_id, metric)))
            },
            levels={
                metric: _LevelState(keep_level(current.level), tuple(current.recent))
                for metric, current in levels[series.series_id].items()
            },
        )
        ids.append(series.series_id)
        positions.append(state.position)
        contents.append(msgspec.msgpack.encode(state))
    if ids:
        with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
            cursor.execute(
                _WRITE_STATES,
                {
                    "fingerprint": _make_fingerprint(),
                    "ids": ids,
                    "positions": positions,
                    "contents": contents,
                },
            )
    return ids


def extend_quiet_series(claimed: Sequence[Claimed], *, now: datetime) -> frozenset[int]:
    """Extend the levels and results of those series whose new runs are all quiet; return their ids.

    Their rows must be locked. Three queries, and one for each filter of a maintenance window in the time of the runs.
    """
    states = _read_states([series.series_id for series in claimed])
    wanted = {series.series_id: (series.metrics, tuple(series.smallest_changes)) for series in claimed}
    added = select_outside_maintenance({series_id: state[1] for series_id, state in states.items()})
    quiet = _select_quiet(
        {
            series_id: (state, added[series_id])
            for series_id, (state, _) in states.items()
            if (state.metrics, state.thresholds) == wanted[series_id]
        }
    )
    levels = [
        row for series_id, (state, runs) in quiet.items() for row in _list_levels(series_id, state, runs)
    ]
    results = [
        row for series_id, (state, runs) in quiet.items() for row in _list_results(series_id, state, runs)
    ]
    if quiet:
        with connection.cursor() as cursor:
            cursor.execute(_EXTEND_LEVELS, [orjson.dumps(levels).decode()])
            cursor.execute(_EXTEND_RESULTS, [now, orjson.dumps(results).decode()])
    return frozenset(quiet)


def _read_states(ids: Sequence[int]) -> dict[int, tuple[_State, StoredHistory]]:
    """Return the valid states of these series with the valid runs since."""
    parameters = {
        "ids": ids,
        "fingerprint": _make_fingerprint(),
        "most": EVALUATED_EVERY,
        "live": _LIVE,
        "resolved": IncidentState.RESOLVED.value,
    }
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        rows = cursor.execute(_READ_STATES, parameters).fetchall()
    return {
        series_id: (_DECODER.decode(content), unpack_history(columns, first_position=position + 1))
        for series_id, position, content, _, *columns in rows
    }


def _select_quiet(
    states: Mapping[int, tuple[_State, StoredHistory]],
) -> dict[int, tuple[_State, StoredHistory]]:
    """Return the series none of whose runs since the state is an evaluation point."""
    possible = {series_id: each for series_id, each in states.items() if not _has_grid_point(*each)}
    quiet = are_quiet([_join_runs(*each) for each in possible.values()])
    return {
        series_id: possible[series_id]
        for series_id, is_quiet in zip(possible, quiet, strict=True)
        if is_quiet
    }


def _has_grid_point(state: _State, added: StoredHistory) -> bool:
    """Return whether one of the runs since the state is evaluated whatever its values are."""
    if not len(added.times):
        return False
    if added.has_repetitions or state.run_id in added.run_ids:
        return True
    positions = [state.position, *added.positions.tolist()]
    return any(is_grid_point(new, old) for old, new in pairwise(positions))


def _join_runs(state: _State, added: StoredHistory) -> AddedRuns:
    """Return the values of the state and those since."""
    tail = np.frombuffer(state.tail).reshape(len(state.metrics), -1)
    values = np.concatenate([tail, np.stack([added.values[metric] for metric in state.metrics])], axis=1)
    return AddedRuns(values, state.references, tail.shape[1], state.thresholds)


def _list_levels(series_id: int, state: _State, added: StoredHistory) -> Iterator[dict[str, Any]]:
    for metric, known in state.levels.items():
        is_known = np.isfinite(added.values[metric])
        values = added.values[metric][is_known].tolist()
        if values:
            level = grow_level(known.level, values)
            yield {
                "series_id": series_id,
                "metric": metric,
                "to_at": to_time(int(added.times[is_known][-1])),
                **describe_statistics(level),
                "recent": [*known.recent, *values][-RECENT_MAXIMUM:],
            }


def _list_results(series_id: int, state: _State, added: StoredHistory) -> Iterator[dict[str, Any]]:
    for metric, known in state.results.items():
        values = added.values[metric]
        finite = values[np.isfinite(values)].tolist()
        yield {
            "series_id": series_id,
            "metric": metric,
            "n": known.n + len(finite),
            "level": find_quantile(known.median, 0.5, n=known.level_n, added=finite),
        }
