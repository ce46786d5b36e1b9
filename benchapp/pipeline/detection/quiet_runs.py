"""Quiet runs: extend the current levels of series without their histories, from the state of the last evaluation.

Of a series with a run that is evaluated in some of its metrics, the detection results of the others are extended.

A state is written with each evaluation, and valid while only newer measurements are added: whoever changes history
clears `Series.judging_resumes` with the mark for detection. A measurement that is not newer shows in the count.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
from django.conf import settings
from django.db import connection
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql
from psycopg.pq import Format

from benchapp.analysis.detection.evaluation_points import (
    EVALUATED_EVERY,
    QuietCriteria,
    Reference,
    are_quiet,
    find_evaluation_point,
    is_grid_point,
)
from benchapp.analysis.detection.growing_levels import (
    GROWING_LEVEL,
    GROWING_QUANTILE,
    grow_levels,
    grow_quantiles,
    keep_levels,
    keep_quantiles,
)
from benchapp.analysis.detection.repetitions import may_have_repetitions
from benchapp.models import METRIC_FIELDS, ChangeState, DetectionState, IncidentState
from benchapp.models.measurement import KIND_CODE
from benchapp.pipeline.detection.histories import (
    WINDOW,
    Claimed,
    StoredHistory,
    list_outside_maintenance,
    pack_columns,
)
from benchapp.pipeline.detection.levels import RECENT_MAXIMUM, CurrentValues
from benchapp.pipeline.detection.metric import METHOD
from benchapp.pipeline.detection.rows import MetricKey
from benchapp.pipeline.detection.series import JudgedLevel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Changed with the content of the state: states of another format are void.
_FORMAT: Final = 5
_SETTINGS: Final = (METHOD, _FORMAT, WINDOW, EVALUATED_EVERY, METRIC_FIELDS)
_LIVE: Final = [ChangeState.SUSPECTED.value, ChangeState.PROVISIONAL.value]

# A metric with a change that may still be withdrawn, that drifts, or whose incident may recover, is evaluated with
# every run.
_WATCHED: Final = (
    "FROM benchapp_change AS live LEFT JOIN benchapp_incident AS incident ON incident.id = live.incident_id"
    " WHERE live.state <> 'withdrawn' AND (live.state = ANY(%(live)s) OR incident.state <> %(resolved)s"
    "  OR live.evidence->>'continues' = 'true')"
    " AND live.series_id"
)
_READ_WATCHED: Final = f"SELECT DISTINCT live.series_id, live.metric {_WATCHED} = ANY(%(ids)s)"
# All measurements since the state, newest first, of which the valid ones are read. No row if there are too many, or
# others were added before it.
_READ_STATES: Final = sql.SQL(
    "SELECT state.series_id, state.content, ARRAY(SELECT DISTINCT live.metric {watched} = state.series_id), newest.*"
    " FROM benchapp_series AS series"
    " JOIN benchapp_detectionstate AS state ON state.series_id = series.id CROSS JOIN LATERAL ("
    " SELECT count(*) AS read, string_agg(timestamptz_send(started_at), ''::bytea) FILTER (WHERE is_valid) AS times,"
    " string_agg(int8send(run_id), ''::bytea) FILTER (WHERE is_valid), {columns} FROM ("
    "  SELECT started_at, run_id, error = 0 AND NOT is_excluded AS is_valid, {metrics}, {kind_code} AS kind_code"
    "  FROM benchapp_measurement"
    "  WHERE series_id = state.series_id AND started_at > state.last_at"
    "  ORDER BY started_at DESC, id DESC LIMIT %(most)s) AS measured"
    " ) AS newest WHERE series.id = ANY(%(ids)s) AND series.judging_resumes"
    " AND state.fingerprint = %(fingerprint)s AND newest.read < %(most)s"
    " AND series.measurement_count = state.measurement_count + newest.read"
).format(
    columns=pack_columns(METRIC_FIELDS, condition=" FILTER (WHERE is_valid)"),
    kind_code=sql.SQL(KIND_CODE),
    metrics=sql.SQL(", ").join(map(sql.Identifier, METRIC_FIELDS)),
    watched=sql.SQL(_WATCHED),
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
    "UPDATE benchapp_level AS stored SET to_at = timestamptz '2000-01-01 00:00Z' + fresh.to_at * interval '1 us',"
    " n = fresh.n, median = fresh.median, p10 = fresh.p10, p90 = fresh.p90, minimum = fresh.minimum,"
    " maximum = fresh.maximum, last = fresh.last,"
    " recent = array_remove((%(recent)s::float8[])[%(width)s * (place - 1) + 1 : %(width)s * place], 'NaN')"
    " FROM unnest(%(ids)s::bigint[], %(metrics)s::bigint[], %(to_at)s::bigint[],"
    " %(n)s::bigint[], %(median)s::float8[], %(p10)s::float8[], %(p90)s::float8[], %(minimum)s::float8[],"
    " %(maximum)s::float8[], %(last)s::float8[]) WITH ORDINALITY"
    " AS fresh(series_id, metric, to_at, n, median, p10, p90, minimum, maximum, last, place)"
    " WHERE stored.series_id = fresh.series_id AND stored.metric = (%(names)s::varchar[])[fresh.metric]"
    " AND stored.is_current"
)
_EXTEND_RESULTS: Final = (
    "UPDATE benchapp_detectionresult AS stored SET n = fresh.n, level = fresh.level, judged_at = %(now)s"
    " FROM unnest(%(ids)s::bigint[], %(metrics)s::bigint[], %(n)s::bigint[], %(level)s::float8[])"
    " AS fresh(series_id, metric, n, level)"
    " WHERE stored.series_id = fresh.series_id AND stored.metric = (%(names)s::varchar[])[fresh.metric]"
)
# Metrics are numbered from 1 in the statements.
_NUMBERS: Final = {metric: number for number, metric in enumerate(METRIC_FIELDS, start=1)}
# What the current level of a metric needs. recent: the newest values of the series, behind NaN if there are fewer.
_LEVEL: Final = np.dtype([("level", GROWING_LEVEL), ("recent", np.float64, (RECENT_MAXIMUM,))])
# What the detection result of a metric needs. n: its values; median: of the detected level.
_RESULT: Final = np.dtype([("n", np.int64), ("median", GROWING_QUANTILE)])


class _State(msgspec.Struct, frozen=True, array_like=True):
    """Content of a state. run_id, position: of the newest valid run. criteria: of the evaluated metrics.

    watched: metrics that were evaluated up to this run although it is no evaluation point. sums: of earlier runs
    as of `QuietCriteria.sum_ratios`. kind_code: of the newest valid run, as of `read_kind_code`; -1 if a latency has a
    level of another kind. results, levels: of the metrics that have them, in the form of _RESULT and _LEVEL.
    """

    run_id: int
    position: int
    metrics: tuple[str, ...]
    watched: tuple[str, ...]
    criteria: QuietCriteria
    sums: bytes
    kind_code: int
    result_metrics: tuple[str, ...]
    results: bytes
    level_metrics: tuple[str, ...]
    levels: bytes


_DECODER: Final = msgspec.msgpack.Decoder(_State)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is evaluated of a series.

    history: all runs that were read. ends: runs that are evaluated of each metric; the later ones are quiet. first,
    references: as of EvaluationPoint. watched: metrics that are evaluated up to the newest run although it is no
    evaluation point. They are until the next one, also if nothing watches them any longer: an evaluation of fewer runs
    than the last one would find again what that withdrew.
    """

    history: StoredHistory
    ends: Mapping[str, int]
    first: int = 0
    references: tuple[Reference | None, ...] = ()
    watched: frozenset[str] = frozenset()

    @property
    def end(self) -> int:
        """Return the runs up to the last one that is evaluated in any metric."""
        return max(self.ends.values(), default=len(self.history.times))

    @property
    def window(self) -> StoredHistory:
        """Return at most the newest 2 000 measurements up to that run, and all runs since."""
        return self._select(self.end, len(self.history.times))

    @property
    def evaluated(self) -> StoredHistory:
        """Return at most the newest 2 000 measurements up to that run."""
        return self._select(self.end, self.end)

    def select_evaluated(self, metrics: Iterable[str]) -> dict[str, StoredHistory]:
        """Return the evaluated runs of each metric, at most the newest 2 000 measurements up to the last one."""
        ends = {metric: self.ends.get(metric, self.end) for metric in metrics}
        windows = {end: self._select(end, end) for end in set(ends.values())}
        return {metric: windows[end] for metric, end in ends.items()}

    def list_quiet(self, metric: str) -> Floats:
        """Return the finite values of the runs after those that are evaluated of a metric."""
        values = self.history.values[metric][self.ends.get(metric, self.end) :]
        return values[np.isfinite(values)]

    def _select(self, end: int, until: int) -> StoredHistory:
        """Return the window that ends with `end` runs, and the runs up to `until`."""
        history = self.history
        if not end:
            return history.select(slice(until))
        first = int(np.searchsorted(history.positions, history.positions[end - 1] - WINDOW, side="right"))
        return replace(history.select(slice(first, until)), is_cut=history.is_cut or first > 0)


@dataclass(frozen=True, slots=True)
class ExtendedResult:
    """A detection result after quiet runs. n: values of the metric; level_n: values of its current level."""

    n: int
    level_n: int


@dataclass(frozen=True, slots=True)
class Extended:
    """Series whose new runs are all quiet, and the extended detection results of others by series and metric."""

    series_ids: frozenset[int]
    results: Mapping[MetricKey, ExtendedResult]


def plan_evaluations(
    claimed: Sequence[Claimed], histories: Mapping[int, StoredHistory]
) -> dict[int, EvaluationPlan]:
    """Return the plan of each series; its history is of the newest EVALUATION_WINDOW measurements. Two queries."""
    watched = read_watched([series.series_id for series in claimed])
    return {
        series.series_id: plan_evaluation(
            histories[series.series_id],
            series.metrics,
            smallest_changes=series.smallest_changes,
            watched=watched.get(series.series_id, frozenset()),
        )
        for series in claimed
    }


def _make_fingerprint() -> str:
    """Return what identifies the settings that a state depends on."""
    return hashlib.sha256(repr((_SETTINGS, settings.DETECTION_SEASONS)).encode()).hexdigest()


def read_watched(ids: Sequence[int]) -> dict[int, frozenset[str]]:
    """Return the metrics of these series that are evaluated with the next run; two queries."""
    with connection.cursor() as cursor:
        cursor.execute(
            _READ_WATCHED, {"ids": list(ids), "live": _LIVE, "resolved": IncidentState.RESOLVED.value}
        )
        rows = cursor.fetchall()
    states = DetectionState.objects.filter(series_id__in=ids, fingerprint=_make_fingerprint())
    found = {
        series_id: set(_DECODER.decode(content).watched)
        for series_id, content in states.values_list("series_id", "content")
    }
    for series_id, metric in rows:
        found.setdefault(series_id, set()).add(metric)
    return {series_id: frozenset(metrics) for series_id, metrics in found.items()}


def plan_evaluation(
    history: StoredHistory,
    metrics: Sequence[str],
    *,
    smallest_changes: Sequence[float],
    watched: frozenset[str],
) -> EvaluationPlan:
    """Return which runs are evaluated. smallest_changes: of the metrics; watched: to be evaluated with every run."""
    count = len(history.times)
    every_run = EvaluationPlan(history, dict.fromkeys(metrics, count), watched=watched)
    if not count or history.has_repetitions:
        return every_run
    point = find_evaluation_point(
        np.stack([history.values[metric] for metric in metrics]),
        history.positions,
        smallest_changes=smallest_changes,
    )
    ends = dict(zip(metrics, point.ends, strict=True))
    watched = frozenset(metric for metric in watched if ends.get(metric) != count)
    ends |= dict.fromkeys(watched, count)
    if may_have_repetitions(history.times[: max(ends.values())]):
        return every_run
    return EvaluationPlan(history, ends, point.first, point.references, watched)


def write_states(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    judged: Mapping[MetricKey, JudgedLevel],
    *,
    extended: Mapping[MetricKey, ExtendedResult],
    levels: Mapping[int, Mapping[str, CurrentValues]],
) -> list[int]:
    """Write the states of these series, whose rows are locked; return those that have one.

    judged, extended: results by series and metric; levels: by series.
    """
    kept = [series for series in claimed if plans[series.series_id].references]
    results: list[dict[str, JudgedLevel]] = []
    for series in kept:
        history = plans[series.series_id].history
        results.append({})
        for metric in METRIC_FIELDS:
            key = (series.series_id, metric)
            if key in judged:
                results[-1][metric] = judged[key]
            elif key in extended:
                results[-1][metric] = _take_level(history.values[metric], extended[key])
    current = [levels[series.series_id] for series in kept]
    packed_results = _pack_results([known for of in results for known in of.values()])
    packed_levels = _pack_levels([known for of in current for known in of.values()])
    ids, positions, contents = [], [], []
    first_result = first_level = 0
    for series, of_results, of_levels in zip(kept, results, current, strict=True):
        plan = plans[series.series_id]
        history = plan.history
        criteria = QuietCriteria(plan.references, tuple(series.smallest_changes))
        measured = np.stack([history.values[metric][plan.first :] for metric in series.metrics])
        end_result, end_level = first_result + len(of_results), first_level + len(of_levels)
        state = _State(
            run_id=int(history.run_ids[-1]),
            position=int(history.positions[-1]),
            metrics=series.metrics,
            watched=tuple(sorted(plan.watched)),
            criteria=criteria,
            sums=criteria.sum_ratios(measured).tobytes(),
            kind_code=history.kind_code,
            result_metrics=tuple(of_results),
            results=packed_results[first_result:end_result].tobytes(),
            level_metrics=tuple(of_levels),
            levels=packed_levels[first_level:end_level].tobytes(),
        )
        first_result, first_level = end_result, end_level
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


def _take_level(values: Floats, result: ExtendedResult) -> JudgedLevel:
    finite = values[np.isfinite(values)]
    return JudgedLevel(result.n, finite[len(finite) - result.level_n :])


def _pack_results(known: Sequence[JudgedLevel]) -> NDArray[np.void]:
    packed = np.zeros(len(known), _RESULT)
    packed["n"] = [level.n for level in known]
    packed["median"] = keep_quantiles([level.values for level in known], 0.5)
    return packed


def _pack_levels(current: Sequence[CurrentValues]) -> NDArray[np.void]:
    packed = np.zeros(len(current), _LEVEL)
    packed["level"] = keep_levels([known.level for known in current])
    packed["recent"] = np.nan
    for row, known in zip(packed["recent"], current, strict=True):
        row[RECENT_MAXIMUM - len(known.recent) :] = known.recent
    return packed


@dataclass(frozen=True, slots=True)
class _AddedRuns:
    """Series with equally many valid runs since their states: a row for each, a column for each run, oldest first.

    watched: metrics that are evaluated whether the runs are quiet or not. positions: as of StoredHistory. values: by
    series, metric and run.
    """

    ids: tuple[int, ...]
    states: tuple[_State, ...]
    watched: tuple[frozenset[str], ...]
    times: Integers
    positions: Integers
    values: Floats

    def select(self, rows: Sequence[int], runs: slice | NDArray[np.bool_] = slice(None)) -> "_AddedRuns":
        """Return some of the series, and of the runs."""
        return _AddedRuns(
            tuple(self.ids[row] for row in rows),
            tuple(self.states[row] for row in rows),
            tuple(self.watched[row] for row in rows),
            self.times[rows][:, runs],
            self.positions[rows][:, runs],
            self.values[rows][:, :, runs],
        )


def extend_quiet_series(claimed: Sequence[Claimed], *, now: datetime) -> Extended:
    """Extend the levels and results of those series whose new runs are all quiet, and the quiet results of others.

    Their rows must be locked. Three queries, and one for each filter of a maintenance window in the time of the runs.
    """
    quiet, results = [], []
    for added in _divide_alike(_read_added(claimed)):
        is_quiet = _list_quiet(added)
        if rows := np.flatnonzero(is_quiet.all(axis=1)).tolist():
            quiet.append(added.select(rows))
        results.append(_grow_results(added, is_quiet))
    if quiet:
        _extend_levels(quiet)
    if results:
        _extend_results(results, now)
    series_ids = frozenset(series_id for added in quiet for series_id in added.ids)
    return Extended(series_ids, _list_extended(results, apart_from=series_ids))


def _read_added(claimed: Sequence[Claimed]) -> list[_AddedRuns]:
    """Return the series with a valid state, whose runs since are no repetitions, and of the kinds of latency before."""
    parameters = {
        "ids": [series.series_id for series in claimed],
        "fingerprint": _make_fingerprint(),
        "most": EVALUATED_EVERY,
        "live": _LIVE,
        "resolved": IncidentState.RESOLVED.value,
    }
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        cursor.format = Format.BINARY
        rows = cursor.execute(_READ_STATES, parameters).fetchall()
    wanted = {series.series_id: (series.metrics, tuple(series.smallest_changes)) for series in claimed}
    alike: dict[int, list[tuple[int, _State, frozenset[str], Sequence[bytes]]]] = {}
    for series_id, content, watched, _, *columns in rows:
        state = _DECODER.decode(content)
        if (state.metrics, state.criteria.smallest_changes) == wanted[series_id]:
            row = (series_id, state, frozenset((*watched, *state.watched)), columns)
            alike.setdefault(len(columns[0] or b"") // 8, []).append(row)
    return [_unpack_added(count, of) for count, of in alike.items()]


def _unpack_added(
    count: int, rows: Sequence[tuple[int, _State, frozenset[str], Sequence[bytes]]]
) -> _AddedRuns:
    """Return series with so many runs from their packed columns, newest first: times, runs, metrics, codes of kinds."""
    ids, states, watched, columns = zip(*rows, strict=True)
    packed = np.frombuffer(b"".join(chain.from_iterable(columns)) if count else b"", ">i8")
    # Read newest first; reversed to the order of time.
    packed = packed.reshape(len(rows), 3 + len(METRIC_FIELDS), count)[:, :, ::-1]
    run_ids = packed[:, 1].astype(np.int64)
    known = np.concatenate([[[state.run_id] for state in states], run_ids], axis=1)
    is_repeated = (np.diff(np.sort(known, axis=1), axis=1) == 0).any(axis=1)
    added = _AddedRuns(
        ids,
        states,
        watched,
        packed[:, 0].astype(np.int64),
        np.array([[state.position] for state in states]) + np.arange(1, count + 1),
        np.ascontiguousarray(packed[:, 2:-1]).view(">f8").astype(np.float64),
    )
    codes = np.ascontiguousarray(packed[:, -1]).view(">f8")
    is_of_kind = (codes == [[state.kind_code] for state in states]).all(axis=1)
    return added.select(np.flatnonzero(~is_repeated & is_of_kind).tolist())


def _divide_alike(batches: Sequence[_AddedRuns]) -> Iterator[_AddedRuns]:
    """Yield the series without the runs during their maintenance, divided into those that can be checked together.

    These have references of the same metrics, and equally many sums.
    """
    times = {
        series_id: row for added in batches for series_id, row in zip(added.ids, added.times, strict=True)
    }
    outside = dict(list_outside_maintenance(times))
    for added in batches:
        everything = np.ones(added.times.shape[1], np.bool_)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for row, (series_id, state) in enumerate(zip(added.ids, added.states, strict=True)):
            runs = outside.get(series_id, everything).tobytes()
            key = (runs, state.metrics, tuple(state.criteria.known), len(state.sums))
            alike.setdefault(key, []).append(row)
        for (runs, *_), rows in alike.items():
            yield added.select(rows, np.frombuffer(runs, np.bool_))


def _list_quiet(added: _AddedRuns) -> NDArray[np.bool_]:
    """Return for each series and evaluated metric whether no run since the state is evaluated."""
    states = added.states
    criteria = [state.criteria for state in states]
    metrics = [_NUMBERS[metric] - 1 for metric in states[0].metrics]
    sums = np.frombuffer(b"".join(state.sums for state in states))
    known = len(criteria[0].known)
    is_quiet = are_quiet(
        criteria,
        sums.reshape(len(states), known, sums.size // max(len(states) * known, 1)),
        added.values[:, metrics],
    )
    newest = added.positions[:, -1:].max(axis=1, initial=0).tolist()
    for row, (state, position) in enumerate(zip(states, newest, strict=True)):
        watched = added.watched[row]
        # A change in a metric that is no longer evaluated is watched, too.
        if is_grid_point(position, state.position) or not watched.issubset(state.metrics):
            is_quiet[row] = False
        elif watched:
            is_quiet[row] &= [metric not in watched for metric in state.metrics]
    return is_quiet


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of metrics that are extended. owners: row of the series; numbers: of the metrics, from 1; values: added."""

    ids: Integers
    owners: Integers
    numbers: Integers
    values: Floats


def _list_rows(added: _AddedRuns, metrics: Sequence[tuple[str, ...]]) -> _Rows:
    """Return a row for each of the metrics of each series."""
    owners = np.repeat(np.arange(len(metrics)), [len(of) for of in metrics])
    numbers = np.array([_NUMBERS[metric] for of in metrics for metric in of], np.int64)
    return _Rows(np.array(added.ids, np.int64)[owners], owners, numbers, added.values[owners, numbers - 1])


def _extend_levels(batches: Sequence[_AddedRuns]) -> None:
    columns = [_grow_levels(added) for added in batches if added.times.shape[1]]
    if columns:
        with connection.cursor() as cursor:
            cursor.execute(
                _EXTEND_LEVELS,
                {"names": list(METRIC_FIELDS), "width": RECENT_MAXIMUM, **_join_columns(columns)},
            )


def _grow_levels(added: _AddedRuns) -> dict[str, NDArray[Any]]:
    """Return the columns of the current levels that have more values now."""
    rows = _list_rows(added, [state.level_metrics for state in added.states])
    levels = np.frombuffer(b"".join(state.levels for state in added.states), _LEVEL)
    is_grown = np.isfinite(rows.values).any(axis=1)
    levels, values = levels[is_grown], rows.values[is_grown]
    grown = grow_levels(levels["level"], values)
    newest = values.shape[1] - 1 - np.isfinite(values)[:, ::-1].argmax(axis=1)
    recent = np.concatenate([levels["recent"], values], axis=1)
    # Unknown values first.
    order = np.argsort(np.isfinite(recent), axis=1, kind="stable")
    return {
        "ids": rows.ids[is_grown],
        "metrics": rows.numbers[is_grown],
        "to_at": added.times[rows.owners[is_grown], newest],
        **{field.name: getattr(grown, field.name) for field in fields(grown)},
        "recent": np.take_along_axis(recent, order, axis=1)[:, -RECENT_MAXIMUM:].ravel(),
    }


def _extend_results(columns: Sequence[Mapping[str, NDArray[Any]]], now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_EXTEND_RESULTS, {"names": list(METRIC_FIELDS), "now": now, **_join_columns(columns)})


def _grow_results(added: _AddedRuns, is_quiet: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Return the columns of the detection results, and the values of their levels.

    is_quiet: as of `_list_quiet`. Metrics that are no longer evaluated are extended with all others of the series.
    """
    rows = _list_rows(added, [state.result_metrics for state in added.states])
    is_extended = np.repeat(is_quiet.all(axis=1, keepdims=True), len(METRIC_FIELDS) + 1, axis=1)
    is_extended[:, [_NUMBERS[metric] for metric in added.states[0].metrics]] = is_quiet
    selected = is_extended[rows.owners, rows.numbers]
    values = rows.values[selected]
    results = np.frombuffer(b"".join(state.results for state in added.states), _RESULT)[selected]
    counts = np.count_nonzero(np.isfinite(values), axis=1)
    return {
        "ids": rows.ids[selected],
        "metrics": rows.numbers[selected],
        "n": results["n"] + counts,
        "level_n": results["median"]["n"] + counts,
        "level": grow_quantiles(results["median"], 0.5, values),
    }


def _list_extended(
    columns: Sequence[Mapping[str, NDArray[Any]]], *, apart_from: Collection[int]
) -> dict[MetricKey, ExtendedResult]:
    """Return the extended results of other series."""
    return {
        (series_id, METRIC_FIELDS[number - 1]): ExtendedResult(n, level_n)
        for part in columns
        for series_id, number, n, level_n in zip(
            *(part[name].tolist() for name in ("ids", "metrics", "n", "level_n")), strict=True
        )
        if series_id not in apart_from
    }


def _join_columns(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, str]:
    """Return arrays as PostgreSQL writes them: psycopg takes several times as long for lists."""
    return {
        name: f"{{{','.join(map(repr, np.concatenate([part[name] for part in parts]).tolist()))}}}"
        for name in parts[0]
    }
