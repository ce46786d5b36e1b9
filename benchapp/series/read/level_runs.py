"""The runs of a level: what its number is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
from django.db.models.expressions import RawSQL
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.grammar import Term
from benchapp.catalog.metrics import is_latency
from benchapp.detection.rules.latency_kinds import find_newest_kind
from benchapp.framework.read.binary_columns import fetch_arrays, from_us
from benchapp.models import METRIC_FIELDS, Level, Run
from benchapp.models.filtering import match_facts
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code, select_kind
from benchapp.models.planned_event_filtering import match_maintenance

# As many as a level has at most.
LEVEL_RUNS_MAXIMUM: Final = 2000
# Bounds the memory of one query: 50 bytes a row.
_ROWS_AT_ONCE: Final = 400_000
# WITH TIES: repetitions within a run have its start.
_READ: Final = sql.SQL(
    "SELECT wanted.id, m.*"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::boolean[], %s::bigint[],"
    "  %s::text[]) AS wanted(id, series_id, from_at, to_at, is_limited, newest, kind)"
    " CROSS JOIN LATERAL ("
    "  SELECT run_id, started_at, {metric} AS value, coalesce({other}, 'NaN') AS other{kind_code}"
    "  FROM benchapp_measurement AS own"
    "  WHERE own.series_id = wanted.series_id AND started_at BETWEEN wanted.from_at AND wanted.to_at"
    "  AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL{of_kind}"
    "{outside}"
    "  AND (NOT wanted.is_limited OR EXISTS (SELECT FROM unnest(%s::bigint[], %s::bigint[])"
    "   AS allowed(id, environment_id) JOIN benchapp_run ON benchapp_run.environment_id = allowed.environment_id"
    "   WHERE allowed.id = wanted.id AND benchapp_run.id = own.run_id)){condition}"
    "  ORDER BY started_at DESC FETCH FIRST (wanted.newest) ROWS WITH TIES) AS m"
)
# Left out where there is no maintenance: PostgreSQL evaluates it for each run.
_OUTSIDE_MAINTENANCE: Final = sql.SQL(
    "  AND NOT EXISTS (SELECT FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[])"
    "   AS maintenance(series_id, from_at, ends_at) WHERE maintenance.series_id = own.series_id"
    "   AND own.started_at >= maintenance.from_at AND own.started_at < maintenance.ends_at)"
)


@dataclass(frozen=True, slots=True)
class RunCondition:
    """A condition of SQL on the runs of a query, beginning with AND, and its values; empty without terms."""

    text: sql.Composable
    values: tuple[Any, ...]


def compose_run_condition(terms: Sequence[Term], column: str) -> RunCondition:
    """Return the condition that the run of a column ("m.run_id") matches terms for facts of runs."""
    if not terms:
        return RunCondition(sql.SQL(""), ())
    is_own = {"pk": RawSQL(column, ())}  # a name that the caller's query has  # noqa: S611
    matched = Run.objects.filter(match_facts(terms), **is_own).order_by().values("pk")
    text, values = matched.query.sql_with_params()
    return RunCondition(sql.SQL(" AND EXISTS ({})").format(sql.SQL(text)), tuple(values))


@dataclass(frozen=True, slots=True)
class LevelSpan:
    """The part of a series that a level has. from_at, to_at: start of its first and of its last run, both inclusive.

    environment_ids: only runs in these environments; None for all. latency_kind: only values of this kind; "" for all.
    """

    series_id: int
    from_at: datetime
    to_at: datetime
    environment_ids: tuple[int, ...] | None = None
    latency_kind: str = ""


@dataclass(frozen=True, slots=True)
class LevelRuns:
    """Runs of one level, oldest first; repetitions within a run are its median.

    values: of the metric, in its base unit; others: of another metric of the same runs, NaN where unknown, and of a
    latency where it is not of the newest kind.
    """

    run_ids: NDArray[np.int64]
    at_us: NDArray[np.int64]
    values: NDArray[np.float64]
    others: NDArray[np.float64]

    def list_times(self) -> list[datetime]:
        """Return the start of each run."""
        return [from_us(at_us) for at_us in self.at_us.tolist()]


def read_level_runs(
    spans: Mapping[int, LevelSpan],
    metric: str,
    *,
    newest: Mapping[int, int] | None = None,
    other: str = "",
    terms: Sequence[Term] = (),
) -> dict[int, LevelRuns]:
    """Return the runs of levels by their keys, without levels without runs: the runs that detection makes levels of.

    Without failed and excluded runs, those without a value, and those during maintenance. newest: number of runs to
    read of each level, at most and by default LEVEL_RUNS_MAXIMUM. other: a further metric. terms: for facts of runs,
    which they match. One query for every 400 000 rows, and those of the maintenance. Raises ValueError for an unknown
    metric.
    """
    for name in filter(None, (metric, other)):
        if name not in METRIC_FIELDS:
            raise ValueError(f"{name!r} is not a column of a measurement")
    if not spans:
        return {}
    maintenance = _list_maintenance(spans.values())
    limits = {key: min((newest or {}).get(key, LEVEL_RUNS_MAXIMUM), LEVEL_RUNS_MAXIMUM) for key in spans}
    found: dict[int, LevelRuns] = {}
    condition = compose_run_condition(terms, "own.run_id")
    for keys in _split(limits):
        found |= _read_part(
            {key: spans[key] for key in keys},
            limits,
            metric,
            other=other or metric,
            maintenance=maintenance,
            condition=condition,
        )
    return found


def read_current_spans(series_ids: Sequence[int], metric: str) -> dict[int, LevelSpan]:
    """Return the span of the current level of each series by its id, without series without a value; one query."""
    rows = Level.objects.filter(metric=metric, series_id__in=series_ids, is_current=True)
    columns = rows.values("series_id", "from_at", "to_at", "latency_kind")
    return {row["series_id"]: LevelSpan(**row) for row in columns}


def read_spans_before(series_ids: Sequence[int], metric: str, *, before_at: datetime) -> dict[int, LevelSpan]:
    """Return the span until a moment of the level that had begun before it, of each series by its id; one query."""
    begun = (
        Level.objects.filter(series_id__in=series_ids, metric=metric, from_at__lt=before_at)
        .order_by("series_id", "-from_at")
        .distinct("series_id")
    )
    return {level.series_id: _end_before(level, before_at) for level in begun}


def _end_before(level: Level, before_at: datetime) -> LevelSpan:
    to_at = level.to_at if level.to_at < before_at else before_at - timedelta(microseconds=1)
    return LevelSpan(level.series_id, level.from_at, to_at, latency_kind=level.latency_kind)


def read_host_names(runs: Iterable[LevelRuns]) -> dict[int, str]:
    """Return the name of the host of each run by its id; one query."""
    ids = [each for own in runs for each in own.run_ids.tolist()]
    return dict(Run.objects.filter(pk__in=ids).values_list("pk", "host__name"))


def _split(limits: Mapping[int, int]) -> list[list[int]]:
    """Divide the levels into parts of at most so many rows."""
    parts: list[list[int]] = []
    room = 0
    for key, limit in limits.items():
        if limit > room:
            parts.append([])
            room = _ROWS_AT_ONCE
        parts[-1].append(key)
        room -= limit
    return parts


def _list_maintenance(spans: Any) -> tuple[list[int], list[datetime], list[datetime]]:
    """Return series, start and end of the maintenance in the time of the spans."""
    spans = list(spans)
    matched = match_maintenance(
        {span.series_id for span in spans},
        from_at=min(span.from_at for span in spans),
        to_at=max(span.to_at for span in spans),
    )
    rows = [(series_id, event.from_at, event.ends_at) for series_id, own in matched.items() for event in own]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _read_part(
    spans: Mapping[int, LevelSpan],
    limits: Mapping[int, int],
    metric: str,
    *,
    other: str,
    maintenance: tuple[list[int], list[datetime], list[datetime]],
    condition: RunCondition,
) -> dict[int, LevelRuns]:
    allowed = [(key, each) for key, span in spans.items() for each in span.environment_ids or ()]
    parameters = [
        list(spans),
        [span.series_id for span in spans.values()],
        [span.from_at for span in spans.values()],
        [span.to_at for span in spans.values()],
        [span.environment_ids is not None for span in spans.values()],
        [limits[key] for key in spans],
        [span.latency_kind for span in spans.values()],
        *(maintenance if maintenance[0] else ()),
        [key for key, _ in allowed],
        [each for _, each in allowed],
        *condition.values,
    ]
    columns = {
        "id": "bigint",
        "run_id": "bigint",
        "started_at": "timestamptz",
        "value": "double precision",
        "other": "double precision",
    }
    has_kinds = other != metric and is_latency(other)
    if has_kinds:
        columns["kind_code"] = "integer"
    query = _READ.format(
        metric=sql.Identifier(metric),
        other=sql.Identifier(other),
        kind_code=sql.SQL(f", {KIND_CODE} AS kind_code" if has_kinds else ""),
        of_kind=sql.SQL(f" AND (wanted.kind = '' OR {select_kind(metric)} IN ('', wanted.kind))")
        if is_latency(metric)
        else sql.SQL(""),
        outside=_OUTSIDE_MAINTENANCE if maintenance[0] else sql.SQL(""),
        condition=condition.text,
    )
    arrays = fetch_arrays(query, parameters, columns=columns)
    # PostgreSQL takes several times as long to sort them.
    order = np.lexsort((arrays["run_id"], arrays["started_at"], arrays["id"]))
    arrays = {name: array[order] for name, array in arrays.items()}
    if has_kinds:
        keep_newest_kind(arrays, other, values="other")
    arrays = _merge_repetitions(arrays)
    if not len(arrays["id"]):
        return {}
    keys, firsts = np.unique(arrays["id"], return_index=True)
    ends = [*firsts[1:].tolist(), len(arrays["id"])]
    return {
        key: LevelRuns(
            run_ids=arrays["run_id"][first:end],
            at_us=arrays["started_at"][first:end],
            values=arrays["value"][first:end],
            others=arrays["other"][first:end],
        )
        for key, first, end in zip(keys.tolist(), firsts.tolist(), ends, strict=True)
    }


def keep_newest_kind(
    arrays: Mapping[str, NDArray[Any]], metric: str, *, ids: str = "id", values: str | None = None
) -> dict[int, str]:
    """Replace the values of a latency that are not of the newest kind of their series by NaN; return the kinds.

    arrays: started_at, kind_code, the metric's values, and the ids of the series, equal ones next to each other.
    ids, values: the names of these columns; values of None: the metric.
    """
    of_metric = arrays[values or metric]
    found: dict[int, str] = {}
    keys, firsts = np.unique(arrays[ids], return_index=True)
    bounds = pairwise([*firsts.tolist(), len(of_metric)])
    for key, (first, end) in zip(keys.tolist(), bounds, strict=True):
        codes = arrays["kind_code"][first:end]
        if (codes == codes[0]).all():
            found[key] = read_kind_code(metric, int(codes[0]))
            continue
        order = first + np.argsort(arrays["started_at"][first:end], kind="stable")
        order = order[~np.isnan(of_metric[order])]
        kinds = [read_kind_code(metric, code) for code in arrays["kind_code"][order].tolist()]
        found[key] = find_newest_kind(kinds)
        of_metric[order[[not are_same_kind(kind, found[key]) for kind in kinds]]] = np.nan
    return found


def _merge_repetitions(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Replace repetitions within a run, which are next to each other, by their median."""
    same = ("id", "started_at", "run_id")
    is_first = np.ones(len(arrays["id"]), dtype=bool)
    is_first[1:] = np.logical_or.reduce([np.diff(arrays[name]) != 0 for name in same])
    if is_first.all():
        return arrays
    firsts = np.flatnonzero(is_first)
    merged = {name: array[firsts] for name, array in arrays.items()}
    for name in ("value", "other"):
        parts = np.split(arrays[name], firsts[1:])
        merged[name] = np.array([_take_median(part) for part in parts])
    return merged


def _take_median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")
