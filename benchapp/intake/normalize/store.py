"""Write planned runs: shared rows once, in bulk; idempotent."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from benchapp.intake.normalize.plan import Plan, PlannedMeasurement, PlannedRun, PlannedTarget
from benchapp.intake.normalize.series_lookup import extend_environments, find_series, recalculate_environments
from benchapp.intake.posts.envelope import SendingAgent
from benchapp.models import (
    TARGET_FIELDS,
    WORKLOAD_FIELDS,
    DeletedRun,
    Environment,
    Measurement,
    Run,
    Series,
    Target,
    Trace,
    Workload,
)
from benchapp.models.measurement import OF_A_BRANCH, describe_branch
from benchapp.storage.write.hosts import SERIES_KEY_VERSION, series_key

_Row = TypeVar("_Row", Environment, Target, Workload, Series)
# Without exclusion, which users set: parsing again does not change it.
_RUN_COLUMNS = tuple(
    field.attname
    for field in Run._meta.local_fields
    if field.attname not in ("id", "excluded_at", "excluded_by_id", "excluded_reason")
)
_RUN_KEY = ("submission_id", "document")
# One JSON document for all rows: a fifth of the time that the ORM takes to write them (measured).
_UPSERT_RUNS = (
    f"INSERT INTO benchapp_run ({', '.join(_RUN_COLUMNS)}, excluded_reason) SELECT {', '.join(_RUN_COLUMNS)}, ''"  # noqa: S608
    f" FROM json_populate_recordset(NULL::benchapp_run, %s::json) ON CONFLICT ({', '.join(_RUN_KEY)}) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in _RUN_COLUMNS if name not in _RUN_KEY)}"
    f" RETURNING {', '.join(_RUN_KEY)}, id"
)

_OWN_COLUMNS = ("series_id", "run_id", "ordinal", "position", "started_at", "is_excluded")
_JSON_COLUMNS = ("percentiles", "missing", "badges")
_ARRAY_COLUMN = "latency_bins"
_PLAIN_COLUMNS = tuple(
    field.attname
    for field in Measurement._meta.local_fields
    if field.attname not in ("id", *_OWN_COLUMNS, *_JSON_COLUMNS, _ARRAY_COLUMN)
)
_COPIED_COLUMNS = (*_OWN_COLUMNS, *_PLAIN_COLUMNS, *_JSON_COLUMNS, _ARRAY_COLUMN)
_COPY_MEASUREMENTS = f"COPY benchapp_measurement ({', '.join(_COPIED_COLUMNS)}) FROM STDIN"

# One that a new result made due is news.
_MAKE_DUE = "judging_is_due = TRUE, is_reread = %s AND (is_reread OR NOT judging_is_due),"
_RECOUNT = (
    f"UPDATE benchapp_series SET {_MAKE_DUE}"  # noqa: S608
    " measurement_count = counted.count, first_at = counted.first_at,"
    " last_at = counted.last_at FROM ("
    "  SELECT wanted.id, count(m.id) AS count, min(m.started_at) AS first_at, max(m.started_at) AS last_at"
    "  FROM unnest(%s::bigint[]) AS wanted(id)"
    "  LEFT JOIN benchapp_measurement m ON m.series_id = wanted.id GROUP BY wanted.id) counted"
    " WHERE benchapp_series.id = counted.id"
)
# Locked in the order of ids.
_NOTE_HOSTS = (
    "WITH locked AS MATERIALIZED ("
    " SELECT id FROM benchapp_host WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE)"
    " UPDATE benchapp_host AS host SET run_count = host.run_count + noted.count,"
    " agent_version = COALESCE(NULLIF(noted.version, ''), host.agent_version),"
    # The kind of installation of an earlier version is no longer known.
    " agent_installation = CASE WHEN noted.version = '' THEN host.agent_installation ELSE noted.installation END,"
    # A result that waited in the spool has an earlier count.
    " dropped_count = GREATEST(host.dropped_count, noted.dropped_count),"
    " dropped_at = GREATEST(host.dropped_at, noted.dropped_at)"
    " FROM unnest(%(ids)s::bigint[], %(versions)s::text[], %(installations)s::text[], %(dropped_counts)s::int[],"
    " %(dropped_ats)s::timestamptz[], %(counts)s::int[])"
    " AS noted(id, version, installation, dropped_count, dropped_at, count)"
    " JOIN locked ON locked.id = noted.id WHERE host.id = noted.id"
)


# Excludes copies: runs with the host, start, jobs and totals of an earlier one, which the index measurement_by_series
# finds at once, however many copies there are. Without bytes, as published, nothing is compared. A valid run is no copy
# of a failed one, as a whole report of the one that was cut.
_EXCLUDE_COPIES = (
    "WITH copies AS ("  # noqa: S608
    " SELECT copy.run_id, first.run_id AS first_id FROM benchapp_measurement copy"
    " JOIN benchapp_run run ON run.id = copy.run_id AND run.started_at_is_known"
    " JOIN LATERAL (SELECT earlier.run_id FROM benchapp_measurement earlier"
    "  JOIN benchapp_run other ON other.id = earlier.run_id AND other.host_id = run.host_id"
    # A branch is in no level: the same result of the main line is no copy of it.
    f"  AND other.excluded_reason NOT LIKE '%%{OF_A_BRANCH}'"
    "  WHERE earlier.series_id = copy.series_id AND earlier.started_at = copy.started_at"
    "  AND earlier.run_id < copy.run_id AND earlier.ordinal = copy.ordinal AND earlier.job_name = copy.job_name"
    "  AND earlier.io_bytes = copy.io_bytes AND earlier.total_ios IS NOT DISTINCT FROM copy.total_ios"
    "  AND earlier.iops IS NOT DISTINCT FROM copy.iops AND (earlier.error = 0 OR copy.error <> 0)"
    "  ORDER BY earlier.id LIMIT 1) first ON TRUE"
    " WHERE copy.run_id = ANY(%(ids)s) GROUP BY copy.run_id, first.run_id"
    " HAVING count(*) = (SELECT count(*) FROM benchapp_measurement own WHERE own.run_id = copy.run_id)),"
    " excluded AS (UPDATE benchapp_run run SET excluded_at = %(now)s,"
    "  excluded_reason = 'copy of run ' || first_id || ': same host, start, jobs and totals'"
    "  FROM copies WHERE run.id = copies.run_id)"
    " UPDATE benchapp_measurement SET is_excluded = TRUE FROM copies"
    " WHERE benchapp_measurement.run_id = copies.run_id"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written: run ids in the order of the plans, and series with new points."""

    run_ids: tuple[int, ...]
    series_ids: tuple[int, ...]


def store_plans(plans: Sequence[Plan], *, is_reread: bool = False) -> Stored:
    """Write the runs and measurements of these plans; call inside a transaction.

    An existing run (same submission and document) keeps its id; its values and measurements are replaced. is_reread:
    history is read again, so that changes in it are no news.
    """
    deleted = _list_deleted(plans) if is_reread else set()
    runs = [
        run for plan in plans for run in plan.runs if (run.source.submission_id, run.document) not in deleted
    ]
    if not runs:
        return Stored((), ())
    targets = _find_or_create(Target, {each.key: dict(each.fields) for each in _list_targets(runs)})
    environments = _find_or_create(Environment, {run.environment_key: dict(run.environment) for run in runs})
    earlier = _count_runs(plans)
    run_ids = _store_runs(runs, targets, environments)
    _exclude_branches(runs, run_ids)
    surplus = _find_surplus(plans)
    replaced = remove_measurements([*run_ids, *surplus])
    Run.objects.filter(pk__in=surplus).delete()
    series = _find_or_create_series(runs, targets, replaced=replaced)
    _store_measurements(runs, run_ids, series)
    _store_traces(runs, run_ids)
    _refresh_series(runs, series, replaced, is_reread=is_reread)
    _refresh_environments(runs, series, environments, replaced=replaced)
    if not is_reread:
        _exclude_copies(run_ids)
    _note_hosts(plans, runs, earlier)
    return Stored(tuple(run_ids), tuple(sorted(set(series.values()))))


def _list_deleted(plans: Sequence[Plan]) -> set[tuple[UUID, int]]:
    """Return submission and document of the runs of these plans that people deleted."""
    rows = DeletedRun.objects.filter(submission_id__in=[plan.source.submission_id for plan in plans])
    return set(rows.values_list("submission_id", "document"))


def _find_or_create(model: type[_Row], wanted: Mapping[bytes, Mapping[str, Any]]) -> dict[bytes, int]:
    """Return the row id of each key and create missing rows; in the order of keys, to avoid deadlocks."""
    known = _find(model, wanted)
    new = sorted(set(wanted) - set(known))
    if new:
        model._default_manager.bulk_create(
            [model(key=key, **wanted[key]) for key in new], ignore_conflicts=True
        )
        known |= _find(model, new)
    return known


def _find(model: type[_Row], keys: Iterable[bytes]) -> dict[bytes, int]:
    rows = model._default_manager.filter(key__in=list(keys)).values_list("key", "pk")
    return {bytes(key): pk for key, pk in rows}


def _list_targets(runs: Sequence[PlannedRun]) -> Iterator[PlannedTarget]:
    for run in runs:
        yield run.target
        yield from (measurement.target for measurement in run.measurements)


def _find_or_create_series(
    runs: Sequence[PlannedRun], targets: Mapping[bytes, int], *, replaced: Collection[int]
) -> dict[bytes, int]:
    """Return the series of each key: an existing one, one that goes on under the name that is known now, or a new one.

    replaced: series of removed measurements, which are locked later.
    """
    planned = {measurement.series_key: (run, measurement) for run in runs for measurement in run.measurements}
    found = find_series(planned)
    if found.continued:
        # All rows that this transaction locks, in the order of ids; then as others left them.
        locked = {*found.ids.values(), *found.continued.values(), *replaced}
        list(Series.objects.select_for_update().filter(pk__in=locked).order_by("pk").values_list("pk"))
        # Again: one that went on under a name that an older agent has may go on once more.
        while (found := find_series(planned)).continued and locked.issuperset(found.continued.values()):
            workloads = _find_or_create_workloads(planned[key][1] for key in found.continued)
            for key, series_id in found.continued.items():
                _continue_series(series_id, planned[key][1], targets, workloads)
    missing = {key: planned[key] for key in planned if key not in found.ids}
    if not missing:
        return found.ids
    workloads = _find_or_create_workloads(measurement for _, measurement in missing.values())
    made = _find_or_create(
        Series,
        {
            key: _series_fields(run, measurement, targets, workloads)
            for key, (run, measurement) in missing.items()
        },
    )
    return found.ids | made


def _find_or_create_workloads(measurements: Iterable[PlannedMeasurement]) -> dict[bytes, int]:
    return _find_or_create(Workload, {each.workload_key: each.workload for each in measurements})


def _continue_series(
    series_id: int,
    measurement: PlannedMeasurement,
    targets: Mapping[bytes, int],
    workloads: Mapping[bytes, int],
) -> None:
    """Give a series target and workload as they are known now; its id, changes, verdicts, notes and pins stay."""
    series = Series.objects.select_related("target").get(pk=series_id)
    former_key = bytes(series.target.key)
    values: dict[str, Any] = {
        "workload_id": workloads[measurement.workload_key],
        **{field: measurement.workload[field] for field in WORKLOAD_FIELDS},
    }
    target_key = measurement.target.key
    if target_key.hex() in series.former_targets:
        target_key = former_key
    elif target_key != former_key:
        if former_key not in measurement.target.mapping_keys:
            values["former_targets"] = [*series.former_targets, former_key.hex()]
        values["target_id"] = targets[target_key]
        values |= {field: measurement.target.fields[field] for field in TARGET_FIELDS}
    values["key"] = series_key(
        scope=series.scope,
        target_key=target_key,
        workload_key=measurement.workload_key,
        direction=series.direction,
    )
    Series.objects.filter(pk=series_id).update(**values)


def _series_fields(
    run: PlannedRun,
    measurement: PlannedMeasurement,
    targets: Mapping[bytes, int],
    workloads: Mapping[bytes, int],
) -> dict[str, Any]:
    scope = run.source.scope
    return {
        "key_version": SERIES_KEY_VERSION,
        "scope": scope,
        "host_id": run.source.host_id if scope.startswith("host:") else None,
        "target_id": targets[measurement.target.key],
        "workload_id": workloads[measurement.workload_key],
        "direction": measurement.direction,
        **{field: measurement.target.fields[field] for field in TARGET_FIELDS},
        **{field: measurement.workload[field] for field in WORKLOAD_FIELDS},
    }


def _store_runs(
    runs: Sequence[PlannedRun], targets: Mapping[bytes, int], environments: Mapping[bytes, int]
) -> list[int]:
    """Insert or update the runs and return their ids."""
    rows = [
        {
            "submission_id": run.source.submission_id,
            "document": run.document,
            "host_id": run.source.host_id,
            "target_id": targets[run.target.key],
            "environment_id": environments[run.environment_key],
            **run.values,
        }
        for run in runs
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT_RUNS, [orjson.dumps(rows).decode()])
        ids = {(submission_id, document): run_id for submission_id, document, run_id in cursor.fetchall()}
    return [ids[run.source.submission_id, run.document] for run in runs]


def _count_runs(plans: Sequence[Plan]) -> Counter[int]:
    """Return how many runs these submissions already have, by host."""
    ids = [plan.source.submission_id for plan in plans]
    return Counter(Run.objects.filter(submission_id__in=ids).values_list("host_id", flat=True))


def _find_surplus(plans: Sequence[Plan]) -> list[int]:
    """Return runs of these submissions that an earlier parser version found and the current one does not."""
    kept = {plan.source.submission_id: len(plan.runs) for plan in plans}
    known = Run.objects.filter(submission_id__in=kept, document__gte=min(kept.values()))
    return [
        run_id
        for run_id, submission_id, document in known.values_list("pk", "submission_id", "document")
        if document >= kept[submission_id]
    ]


def remove_measurements(run_ids: Sequence[int]) -> set[int]:
    """Delete the stored measurements of these runs; return their series."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM benchapp_measurement WHERE run_id = ANY(%s) RETURNING series_id",
            [list(run_ids)],
        )
        return {series_id for (series_id,) in cursor.fetchall()}


def _store_measurements(
    runs: Sequence[PlannedRun], run_ids: Sequence[int], series: Mapping[bytes, int]
) -> None:
    """COPY the rows, which halves the cost of the whole step: the ORM quotes 28 values per row."""
    excluded = set(Run.objects.filter(pk__in=run_ids, excluded_at__isnull=False).values_list("pk", flat=True))
    with connection.cursor() as cursor, cursor.copy(_COPY_MEASUREMENTS) as copy:
        for run, run_id in zip(runs, run_ids, strict=True):
            repetitions: Counter[int] = Counter()
            for position, measurement in enumerate(run.measurements):
                values, series_id = measurement.values, series[measurement.series_key]
                copy.write_row(
                    (
                        series_id,
                        run_id,
                        repetitions[series_id],
                        position,
                        run.values["started_at"],
                        run_id in excluded,
                        *(values[name] for name in _PLAIN_COLUMNS),
                        *(orjson.dumps(values[name]).decode() for name in _JSON_COLUMNS),
                        _write_array(values[_ARRAY_COLUMN]),
                    )
                )
                repetitions[series_id] += 1


def _write_array(numbers: Sequence[int] | None) -> str | None:
    """Return an array literal; psycopg's conversion takes longer than the rest of the row (measured)."""
    return None if numbers is None else f"{{{orjson.dumps(numbers).decode()[1:-1]}}}"


def _store_traces(runs: Sequence[PlannedRun], run_ids: Sequence[int]) -> None:
    """Replace the traces of these runs."""
    Trace.objects.filter(run__in=run_ids).delete()
    traces = [
        Trace(run_id=run_id, **trace)
        for run, run_id in zip(runs, run_ids, strict=True)
        for trace in run.traces
    ]
    if traces:
        Trace.objects.bulk_create(traces)


def _refresh_series(
    runs: Sequence[PlannedRun], series: Mapping[bytes, int], replaced: set[int], *, is_reread: bool
) -> None:
    """Update count, first, last and badges of these series: incrementally, or recalculated if points were deleted."""
    times: dict[int, list[Any]] = defaultdict(list)
    newest: dict[int, tuple[datetime, PlannedMeasurement]] = {}
    for run in runs:
        started_at = run.values["started_at"]
        for measurement in run.measurements:
            series_id = series[measurement.series_key]
            times[series_id].append(started_at)
            # Of one time, the last one that is stored.
            if series_id not in newest or started_at >= newest[series_id][0]:
                newest[series_id] = (started_at, measurement)
    added = sorted((series_id, moments) for series_id, moments in times.items() if series_id not in replaced)
    touched = sorted({*times, *replaced})
    # Locked in the order of ids, to avoid deadlocks between writers that share series.
    locked = Series.objects.select_for_update().filter(pk__in=touched).order_by("pk")
    # If the newest of these measurements has the badges of the series, it keeps them, even if it has a newer one.
    other_badges = [
        series_id
        for series_id, badges in locked.values_list("pk", "badges")
        if series_id in replaced or _list_codes(newest[series_id][1]) != set(badges)
    ]
    with connection.cursor() as cursor:
        if added:
            cursor.execute(
                f"UPDATE benchapp_series SET {_MAKE_DUE}"  # noqa: S608
                " measurement_count = measurement_count + fresh.count,"
                " first_at = LEAST(benchapp_series.first_at, fresh.first_at),"
                " last_at = GREATEST(benchapp_series.last_at, fresh.last_at)"
                " FROM unnest(%s::bigint[], %s::int[], %s::timestamptz[], %s::timestamptz[])"
                "  AS fresh(id, count, first_at, last_at)"
                " WHERE benchapp_series.id = fresh.id",
                [
                    is_reread,
                    [series_id for series_id, _ in added],
                    [len(moments) for _, moments in added],
                    [min(moments) for _, moments in added],
                    [max(moments) for _, moments in added],
                ],
            )
        if replaced:
            cursor.execute(_RECOUNT, [is_reread, sorted(replaced)])
        if other_badges:
            _refresh_badges(cursor, other_badges)


def _exclude_branches(runs: Sequence[PlannedRun], run_ids: Sequence[int]) -> None:
    """Exclude runs of branches from levels, and include those whose label was corrected.

    What a person excluded or included stays.
    """
    wanted = {
        run_id: describe_branch(run.values["labels"]) for run, run_id in zip(runs, run_ids, strict=True)
    }
    known = Run.objects.filter(
        pk__in=run_ids, excluded_reason__endswith=OF_A_BRANCH, excluded_at__isnull=False
    )
    of_branches = dict(known.values_list("pk", "excluded_reason"))
    for run_id, reason in wanted.items():
        if run_id in of_branches and reason != of_branches[run_id]:
            Run.objects.filter(pk=run_id).update(
                excluded_reason=reason, excluded_at=timezone.now() if reason else None
            )
        elif reason:
            new = Run.objects.filter(pk=run_id, excluded_reason="")
            new.update(excluded_at=timezone.now(), excluded_reason=reason)


def _exclude_copies(run_ids: Sequence[int]) -> None:
    """Exclude runs that are copies of earlier ones; their series are locked, so that two copies see each other."""
    with connection.cursor() as cursor:
        cursor.execute(_EXCLUDE_COPIES, {"ids": list(run_ids), "now": timezone.now()})


def _list_codes(measurement: PlannedMeasurement) -> set[str]:
    return {badge["code"] for badge in measurement.values["badges"]}


def recalculate_series(series_ids: Sequence[int]) -> None:
    """Recalculate count, first, last, badges and environments of series from all of their points, and mark them.

    Call inside a transaction. For whoever adds or removes points without a plan.
    """
    ids = sorted(series_ids)
    list(Series.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT, [False, ids])
        _refresh_badges(cursor, ids)
    recalculate_environments(ids)


def _refresh_environments(
    runs: Sequence[PlannedRun],
    series: Mapping[bytes, int],
    environments: Mapping[bytes, int],
    *,
    replaced: set[int],
) -> None:
    """Update the environments of these series: incrementally, or recalculated if points were deleted."""
    times: dict[tuple[int, int], set[Any]] = defaultdict(set)
    for run in runs:
        for series_id in {series[measurement.series_key] for measurement in run.measurements} - replaced:
            times[series_id, environments[run.environment_key]].add(run.values["started_at"])
    extend_environments(times)
    recalculate_environments(replaced)


def _refresh_badges(cursor: CursorWrapper, series_ids: Sequence[int]) -> None:
    """Set the badges of each series to those of its newest measurement, which need not be the one just stored."""
    cursor.execute(
        "UPDATE benchapp_series SET badges = newest.codes FROM ("
        "  SELECT wanted.id, ARRAY("
        "   SELECT DISTINCT badge->>'code' FROM jsonb_array_elements(last.badges) AS badge ORDER BY 1"
        "  )::varchar[] AS codes FROM unnest(%s::bigint[]) AS wanted(id) LEFT JOIN LATERAL ("
        "   SELECT badges FROM benchapp_measurement WHERE series_id = wanted.id"
        "   ORDER BY started_at DESC, id DESC LIMIT 1) AS last ON TRUE) AS newest"
        " WHERE benchapp_series.id = newest.id AND benchapp_series.badges <> newest.codes",
        [list(series_ids)],
    )


def _note_hosts(plans: Sequence[Plan], runs: Sequence[PlannedRun], earlier: Counter[int]) -> None:
    """Update agent and number of runs of these hosts; earlier: runs that were stored before."""
    agents: dict[int, SendingAgent] = {}
    for plan in sorted(plans, key=lambda plan: plan.source.received_at):
        agents[plan.source.host_id] = plan.agent
    counts = Counter(run.source.host_id for run in runs)
    ids = sorted(agents)
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE_HOSTS,
            {
                "ids": ids,
                "versions": [agents[host_id].version for host_id in ids],
                "installations": [agents[host_id].installation for host_id in ids],
                "dropped_counts": [agents[host_id].dropped_count for host_id in ids],
                "dropped_ats": [agents[host_id].dropped_at for host_id in ids],
                "counts": [counts[host_id] - earlier[host_id] for host_id in ids],
            },
        )
