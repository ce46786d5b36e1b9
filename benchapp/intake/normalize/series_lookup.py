"""Series of planned runs: find or create them within the budget of a host, and their environments."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection

from benchapp.fio.json.report import NUMJOBS_LISTED
from benchapp.fio.numbers import parse_version
from benchapp.intake.normalize.plan import Plan, PlannedMeasurement, PlannedRun
from benchapp.models import Host, Series
from benchapp.storage.write.hosts import series_key

PlannedSeries = Mapping[bytes, tuple[PlannedRun, PlannedMeasurement]]


@dataclass(frozen=True, slots=True)
class FoundSeries:
    """Ids by planned key; a key in neither is a new series.

    ids: existing series. continued: series of the same storage without this name, each for the first key that comes,
    and those of the number of jobs seen, where it is unknown now.
    """

    ids: dict[bytes, int]
    continued: dict[bytes, int]

    def find(self, key: bytes) -> int | None:
        """Return the series that gets the measurement of a key; None for a new one."""
        return self.ids.get(key) or self.continued.get(key)


def list_planned(plans: Iterable[Plan]) -> dict[bytes, tuple[PlannedRun, PlannedMeasurement]]:
    """Return what is planned by the key of its series, in order."""
    return {each.series_key: (run, each) for plan in plans for run in plan.runs for each in run.measurements}


def find_series(planned: PlannedSeries) -> FoundSeries:
    """Return the series of planned measurements; one query, up to five if any is not known by its key."""
    ids = _find_keys(planned)
    left = {key: each for key, each in planned.items() if key not in ids}
    if not left:
        return FoundSeries(ids, {})
    ids |= _find_renamed({key: (run, each, each.workload_key) for key, (run, each) in left.items()})
    left = {key: each for key, each in left.items() if key not in ids}
    former_keys = {
        key: list(_list_former_keys(run, each, each.workload_key, each.target.former_keys))
        for key, (run, each) in left.items()
    }
    former = _find_keys(set().union(*former_keys.values()))
    continued: dict[bytes, int] = {}
    taken: set[int] = set()
    for key, candidates in former_keys.items():
        series_id = next((former[each] for each in candidates if each in former), None)
        if series_id is not None and series_id not in taken:
            continued[key] = series_id
            taken.add(series_id)
    taken.update(ids.values())
    for key, series_id in _find_counted(left).items():
        if key not in continued and series_id not in taken:
            continued[key] = series_id
            taken.add(series_id)
    return FoundSeries(ids, continued)


def _find_keys(keys: Iterable[bytes]) -> dict[bytes, int]:
    rows = Series.objects.filter(key__in=list(keys)).values_list("key", "pk")
    return {bytes(key): pk for key, pk in rows}


def _list_former_keys(
    run: PlannedRun, measurement: PlannedMeasurement, workload_key: bytes, target_keys: Iterable[bytes]
) -> Iterator[bytes]:
    for target_key in target_keys:
        yield series_key(
            scope=run.source.scope,
            target_key=target_key,
            workload_key=workload_key,
            direction=measurement.direction,
        )


def _find_counted(planned: PlannedSeries) -> dict[bytes, int]:
    """Return the series of the number of jobs seen, where it is unknown, if all of their runs hide it."""
    counted = {
        key: (run, each, each.former_workload_key)
        for key, (run, each) in planned.items()
        if each.former_workload_key
    }
    if not counted:
        return {}
    former_keys = {
        key: list(_list_former_keys(run, each, workload_key, (each.target.key, *each.target.former_keys)))
        for key, (run, each, workload_key) in counted.items()
    }
    former = _find_keys(set().union(*former_keys.values()))
    found = _find_renamed(counted)
    for key, candidates in former_keys.items():
        if ids := [former[each] for each in candidates if each in former]:
            found[key] = ids[0]
    stating = _find_stating_numjobs(set(found.values()))
    return {key: series_id for key, series_id in found.items() if series_id not in stating}


# The first parser version that has it as unknown.
_UNKNOWN_SINCE: Final = 10
# Left out: runs of an older parser in which fio summed jobs or printed no options. Terse may have it from a text.
_FORMATS: Final = (
    "SELECT DISTINCT measurement.series_id, run.format, run.fio_version, run.parser_version >= %s"
    """ OR run.warnings @> '[{"code": "same-run-other-format"}]' AND run.format = 'terse'"""
    " FROM benchapp_measurement AS measurement JOIN benchapp_run AS run ON run.id = measurement.run_id"
    " WHERE measurement.series_id = ANY(%s) AND (run.parser_version >= %s"
    """ OR NOT run.warnings @> '[{"code": "group-of-different-jobs"}]'"""
    """ AND NOT run.warnings @> '[{"code": "options-not-reported"}]')"""
)


def _find_stating_numjobs(series_ids: Collection[int]) -> set[int]:
    """Return the series of a known number of jobs: a current parser found it, or the format of a run tells it."""
    if not series_ids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_FORMATS, [_UNKNOWN_SINCE, list(series_ids), _UNKNOWN_SINCE])
        return {
            series_id
            for series_id, output_format, fio_version, is_known in cursor.fetchall()
            if is_known
            or not (output_format == "terse" or output_format.startswith("json"))
            or (output_format != "terse" and parse_version(fio_version) >= NUMJOBS_LISTED)
        }


def _find_renamed(planned: Mapping[bytes, tuple[PlannedRun, PlannedMeasurement, bytes]]) -> dict[bytes, int]:
    """Return the series that go on although their target has another name; keys: of their workloads."""
    wanted: dict[tuple[str, bytes, str], list[tuple[str, bytes]]] = defaultdict(list)
    for key, (run, each, workload_key) in planned.items():
        wanted[run.source.scope, workload_key, each.direction].append((each.target.key.hex(), key))
    rows = Series.objects.filter(
        scope__in={scope for scope, *_ in wanted},
        workload__key__in={workload_key for _, workload_key, _ in wanted},
        former_targets__overlap=[target_key for pairs in wanted.values() for target_key, _ in pairs],
    )
    columns = ("pk", "scope", "workload__key", "direction", "former_targets")
    found: dict[bytes, int] = {}
    for pk, scope, workload_key, direction, former_targets in rows.order_by("pk").values_list(*columns):
        for target_key, key in wanted.get((scope, bytes(workload_key), direction), ()):
            if target_key in former_targets:
                found.setdefault(key, pk)
    return found


_COUNT = (
    "UPDATE benchapp_host AS host SET new_series_on = %(day)s, new_series_count = added.count"
    " + CASE WHEN host.new_series_on = %(day)s THEN host.new_series_count ELSE 0 END"
    " FROM unnest(%(ids)s::bigint[], %(counts)s::int[]) AS added(id, count) WHERE host.id = added.id"
)


def judge_new_series(plans: Sequence[Plan], *, now: datetime) -> tuple[dict[int, int], dict[UUID, str]]:
    """Return which plans would exceed the budget of their host; two queries, one if no series is new.

    The number of new series of the plans that may be stored, by host; and the reason of the others, by submission.
        Reads without a lock: concurrent workers may exceed a budget by what each stores in one batch.
    """
    keys = [set(list_planned([plan])) for plan in plans]
    found = find_series(list_planned(plans))
    known = {*found.ids, *found.continued}
    if all(of_plan <= known for of_plan in keys):
        return {}, {}
    hosts = Host.objects.in_bulk({plan.source.host_id for plan in plans})
    used = {host_id: host.count_new_series(now) for host_id, host in hosts.items()}
    added: Counter[int] = Counter()
    refused: dict[UUID, str] = {}
    for plan, of_plan in zip(plans, keys, strict=True):
        new, host_id = of_plan - known, plan.source.host_id
        left = max(0, settings.HOST_NEW_SERIES_PER_DAY - used[host_id] - added[host_id])
        if len(new) > left:
            refused[plan.source.submission_id] = _describe(len(new), left)
            continue
        known |= new
        added[host_id] += len(new)
    return {host_id: count for host_id, count in added.items() if count}, refused


def count_new_series(added: Mapping[int, int], *, now: datetime) -> None:
    """Add these numbers to the hosts. Call it in the transaction that stored the series, which has locked the hosts."""
    if added:
        with connection.cursor() as cursor:
            values: dict[str, Any] = {
                "day": now.astimezone(UTC).date(),
                "ids": list(added),
                "counts": list(added.values()),
            }
            cursor.execute(_COUNT, values)


def _describe(count: int, left: int) -> str:
    return (
        f"the result has {count} new series; this host may add {left} more until midnight UTC"
        f" ({settings.HOST_NEW_SERIES_PER_DAY} per day, BENCHAPP_HOST_NEW_SERIES_PER_DAY). Each combination of layout,"
        " workload and direction is a series: check for options that differ in every run"
    )


# Unchanged rows are not written again.
_EXTEND: Final = (
    "INSERT INTO benchapp_seriesenvironment AS stored (series_id, environment_id, first_at, last_at)"
    " SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])"
    " ON CONFLICT (series_id, environment_id) DO UPDATE SET"
    " first_at = LEAST(stored.first_at, excluded.first_at), last_at = GREATEST(stored.last_at, excluded.last_at)"
    " WHERE excluded.first_at < stored.first_at OR excluded.last_at > stored.last_at"
)
_READ: Final = (
    "INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)"
    " SELECT m.series_id, run.environment_id, min(m.started_at), max(m.started_at)"
    " FROM benchapp_measurement m JOIN benchapp_run run ON run.id = m.run_id"
    " WHERE m.series_id = ANY(%s) GROUP BY m.series_id, run.environment_id"
)


def extend_environments(times: Mapping[tuple[int, int], Collection[datetime]]) -> None:
    """Add runs of series, whose rows are locked: their starts by (series id, environment id); one statement."""
    if not times:
        return
    keys = sorted(times)
    with connection.cursor() as cursor:
        cursor.execute(
            _EXTEND,
            [
                [series_id for series_id, _ in keys],
                [environment_id for _, environment_id in keys],
                [min(times[key]) for key in keys],
                [max(times[key]) for key in keys],
            ],
        )


def recalculate_environments(series_ids: Collection[int]) -> None:
    """Read the environments of series, whose rows are locked, from all of their runs; two statements."""
    if not series_ids:
        return
    ids = sorted(series_ids)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM benchapp_seriesenvironment WHERE series_id = ANY(%s)", [ids])
        cursor.execute(_READ, [ids])
