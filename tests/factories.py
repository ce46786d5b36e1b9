"""Make rows for tests: plain functions, direct rows, no pipeline."""

import functools
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.db.models import F, Model
from django.utils import timezone

from benchapp.accounts.write.tokens import issue_token
from benchapp.corrections.merge import merge
from benchapp.detection.write.histories import lock_series, read_histories
from benchapp.detection.write.levels import store_levels
from benchapp.incidents.write.incidents import list_metric_sizes, measure_sizes
from benchapp.intake.normalize.series_lookup import recalculate_environments
from benchapp.intake.posts.submissions import pack
from benchapp.models import (
    TARGET_FIELDS,
    WORKLOAD_FIELDS,
    ApiToken,
    Attempt,
    Change,
    ChangeState,
    Correction,
    CorrectionLogEntry,
    DetectionDryRun,
    DetectionPolicy,
    DetectionPolicyLogEntry,
    DetectionResult,
    DetectionStatus,
    Environment,
    Host,
    Incident,
    IncidentEvent,
    IncidentState,
    Kind,
    Measurement,
    PlannedEvent,
    PlannedEventKind,
    Price,
    RequestPolicy,
    Role,
    Run,
    RunRequest,
    ScheduleAdoption,
    Scope,
    Series,
    Severity,
    SignedLink,
    State,
    Submission,
    Target,
    TargetMapping,
    User,
    WantedSchedule,
    Workload,
)
from tests.row_insertion import copy_rows, copy_values, insert_row

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FIO_TEXT = b'{"fio version": "fio-3.33", "jobs": []}'

# One statement for any number of series: the two of the ORM take six times the CPU time to write.
_COUNT_MEASUREMENTS = """
UPDATE benchapp_series SET measurement_count = measured.count, first_at = measured.first_at,
    last_at = measured.last_at, judging_is_due = true
FROM (
    SELECT series_id, count(*) AS count, min(started_at) AS first_at, max(started_at) AS last_at
    FROM benchapp_measurement WHERE series_id = ANY(%s) GROUP BY series_id
) AS measured
WHERE benchapp_series.id = measured.series_id
"""

_numbers = itertools.count(1)
_pack = functools.lru_cache(maxsize=8)(pack)
# Targets, workloads and environments by model and key, with the transaction and the savepoints in which they were made:
# a row exists until the innermost of these ends.
_known: dict[tuple[type[Model], bytes], tuple[Any, tuple[Any, ...]]] = {}


def make_host(name: str | None = None, **fields: Any) -> Host:
    """Make a host: host-1, host-2, …"""
    return insert_row(Host(name=name or f"host-{next(_numbers)}", **fields))


def make_token(
    scope: Scope = Scope.INGEST, *, host: Host | None = None, **fields: Any
) -> tuple[ApiToken, str]:
    """Make a token; return the row and its plain text."""
    if scope == Scope.INGEST and host is None:
        host = make_host()
    return issue_token(scope=scope, host=host, **fields)


def make_user(role: Role = Role.VIEWER, *, username: str | None = None, pools: Sequence[str] = ()) -> User:
    """Make a person without a usable password (`client.force_login` signs in)."""
    name = username or f"person-{next(_numbers)}"
    return insert_row(User(username=name, role=role, password="!", pools=list(pools)))


def make_submission(host: Host | None = None, *, body: bytes | None = FIO_TEXT, **fields: Any) -> Submission:
    """Make a stored submission; body is what was received, None where retention removed it."""
    return insert_row(_fill_submission(host or make_host(), body=body, **fields))


def make_target(**fields: Any) -> Target:
    """Make a target; what is not given is unknown."""
    return _find_or_make(Target, _key("target", fields), fields)


def make_workload(**fields: Any) -> Workload:
    """Make a workload: 4k random reads at iodepth 8, unless given otherwise."""
    values = {
        "rw": "randread",
        "block_size_bytes": 4096,
        "iodepth": 8,
        "numjobs": 1,
        "file_size_bytes": 64 * 2**20,
        "is_direct": True,
        "engine": "libaio",
        **fields,
    }
    return _find_or_make(Workload, _key("workload", values), values)


def make_environment(**fields: Any) -> Environment:
    """Make an environment; what is not given is unknown."""
    return _find_or_make(Environment, _key("environment", fields), fields)


def make_run(
    host: Host | None = None,
    *,
    target: Target | None = None,
    started_at: datetime = NOON,
    submission: Submission | None = None,
    **fields: Any,
) -> Run:
    """Make a run without measurements; `make_measurement` adds them."""
    owner = host or make_host()
    Host.objects.filter(pk=owner.pk).update(run_count=F("run_count") + 1)
    return insert_row(
        _fill_run(
            submission or make_submission(owner, received_at=started_at),
            target=target or make_target(),
            environment=fields.pop("environment", None) or make_environment(kernel="6.1.0"),
            started_at=started_at,
            **{"host": owner, **fields},
        )
    )


def make_runs(
    host: Host,
    times: Sequence[datetime],
    *,
    target: Target | None = None,
    environments: Sequence[Environment] = (),
) -> list[Run]:
    """Make runs without measurements as `make_run` does, in few statements; environments: of each, or the usual."""
    layout = target or make_target()
    usual = None if environments or not times else make_environment(kernel="6.1.0")
    Host.objects.filter(pk=host.pk).update(run_count=F("run_count") + len(times))
    submissions = copy_rows(_fill_submission(host, received_at=moment) for moment in times)
    return copy_rows(
        _fill_run(
            submission,
            target=layout,
            environment=usual or environments[place],
            started_at=moment,
        )
        for place, (submission, moment) in enumerate(zip(submissions, times, strict=True))
    )


def make_series(
    values: Sequence[float | None] = (),
    *,
    host: Host | None = None,
    pool: str = "",
    target: Target | None = None,
    workload: Workload | None = None,
    direction: str = "read",
    metric: str = "iops",
    start_at: datetime = NOON,
    step: timedelta = timedelta(hours=1),
) -> Series:
    """Make a series with one run for each value of the metric, `step` apart from start_at on."""
    owner = host or make_host(pool=pool)
    layout, work = target or make_target(), workload or make_workload()
    scope = f"pool:{pool}" if pool else owner.scope
    series = insert_row(
        fill_series(scope=scope, host=owner, target=layout, workload=work, direction=direction)
    )
    if values:
        times = [start_at + index * step for index in range(len(values))]
        add_measurements(
            series, make_runs(owner, times, target=layout), [{metric: value} for value in values]
        )
        # As `note_measurements` stored them.
        series.measurement_count, series.judging_is_due = len(values), True
        series.first_at, series.last_at = min(times), max(times)
    return series


def fill_series(*, scope: str, host: Host, target: Target, workload: Workload, **fields: Any) -> Series:
    """Return a series that is not stored yet."""
    return Series(
        key=uuid4().bytes * 2,
        key_version=1,
        scope=scope,
        host=None if scope.startswith("pool:") else host,
        target=target,
        workload=workload,
        **{name: getattr(target, name) for name in TARGET_FIELDS},
        **{name: getattr(workload, name) for name in WORKLOAD_FIELDS},
        **fields,
    )


def add_measurements(series: Series, runs: Sequence[Run], values: Sequence[Mapping[str, Any]]) -> None:
    """Make the first measurement of each of these runs, with these fields, at once."""
    copy_values(
        Measurement,
        (
            {
                "run_id": run.pk,
                "series_id": series.pk,
                "started_at": run.started_at,
                "position": 0,
                "latency_kind": "clat",
                **fields,
            }
            for run, fields in zip(runs, values, strict=True)
        ),
    )
    note_measurements(series)


def add_series(values: Sequence[float | None] = (), **fields: Any) -> Series:
    """Make a series as `make_series` does, with its levels."""
    series = make_series(values, **fields)
    calculate_levels([series.pk])
    return series


def make_measurement(run: Run, series: Series | None = None, **fields: Any) -> Measurement:
    """Make a measurement and keep its series' count and times, as the pipeline does."""
    line = series or make_series(host=run.host, target=run.target)
    values: dict[str, Any] = {"position": run.measurements.count(), "latency_kind": "clat", **fields}
    measurement = insert_row(Measurement(run=run, series=line, started_at=run.started_at, **values))
    note_measurements(line)
    return measurement


def make_points(series: Series, run: Run, times: Sequence[datetime], **fields: Any) -> list[Measurement]:
    """Make many measurements of one run at once, at these times; a field that is callable is asked for each index."""
    first = Measurement.objects.filter(run=run, series=series).count()
    rows = copy_rows(
        Measurement(
            series=series,
            run=run,
            ordinal=first + index,
            position=first + index,
            started_at=moment,
            **{name: value(index) if callable(value) else value for name, value in fields.items()},
        )
        for index, moment in enumerate(times)
    )
    note_measurements(series)
    return rows


def note_measurements(*series: Series) -> None:
    """Bring the series' counts, times and environments up to date and mark them, as the pipeline does."""
    ids = [one.pk for one in series]
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_MEASUREMENTS, [ids])
    recalculate_environments(ids)


def calculate_levels(series_ids: Sequence[int] | None = None) -> None:
    """Store the levels of these series, by default of all, by the changes that are stored; detects none."""
    ids = Series.objects.values_list("pk", flat=True) if series_ids is None else series_ids
    with transaction.atomic():
        claimed = lock_series(list(ids))
        store_levels(
            read_histories([series.series_id for series in claimed]),
            {series.series_id: series.metrics for series in claimed},
        )
        # As detection does: whoever caches a series sees by its row that it has changed.
        Series.objects.filter(pk__in=[series.series_id for series in claimed]).update(judging_is_due=False)


def make_measured_volumes() -> None:
    """Make reads of db-1 over one, two and four volumes: 1 000, 1 900 and 3 123 IOPS."""
    host = make_host("db-1")
    for count, iops in ((1, 1000.0), (2, 1900.0), (4, 3123.0)):
        make_series([iops], host=host, target=make_target(volume_count=count), workload=make_workload())
    calculate_levels()


def make_incident(*, changes: Sequence[Change] = (), **fields: Any) -> Incident:
    """Make an incident, new and of medium severity unless given otherwise, with its event "opened"."""
    sizes = measure_sizes(changes)
    values = {
        "scope": changes[0].series.scope if changes else "host:db-7",
        "title": "db-7: IOPS −15 % in 1 of 4 series",
        "state": IncidentState.NEW,
        "severity": Severity.MEDIUM,
        "is_regression": True,
        "started_at": min((change.started_at for change in changes), default=NOON),
        "metric": sizes[0].metric if sizes else "",
        "relative": sizes[0].relative if sizes else -0.15,
        "metric_sizes": list_metric_sizes(sizes),
        "change_count": len(changes),
        "opened_at": NOON,
        "updated_at": NOON,
        **fields,
    }
    incident = insert_row(Incident(**values))
    insert_row(IncidentEvent(incident=incident, at=values["opened_at"], kind="opened"))
    Change.objects.filter(pk__in=[change.pk for change in changes]).update(incident=incident)
    return incident


def make_request_policy(host: Host, **policy: Any) -> RequestPolicy:
    """Let a host allow the profile quick in /data, with a runtime of 4 to 30 s, unless given otherwise."""
    values = {
        "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
        "directories": ["/data"],
        "per_day": 4,
        "quiet_hours": [],
        **policy,
    }
    return RequestPolicy.objects.create(host=host, policy=values, polled_at=timezone.now())


def make_wanted_schedule(**fields: Any) -> WantedSchedule:
    """Want the profile quick every six hours in /data of hosts without a pool, unless given otherwise."""
    return WantedSchedule.objects.create(
        **{"profile": "quick", "directory": "/data", "every_s": 21600, **fields}
    )


def make_schedule_adoption(host: Host, **fields: Any) -> ScheduleAdoption:
    """Let a host adopt the profile quick in /data, unless given otherwise."""
    policy = {
        "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
        "directories": ["/data"],
        "per_day": 24,
        "quiet_hours": [],
    }
    values = {"is_allowed": True, "policy": policy, "reported_at": timezone.now(), **fields}
    return ScheduleAdoption.objects.create(host=host, **values)


def make_attempt(host: Host | None = None, **fields: Any) -> Attempt:
    """Make a run that was skipped, as its agent reported it."""
    usual = {"sender_id": uuid4(), "profile": "quick", "target_name": "/data", "started_at": NOON}
    why = {"reason_code": "busy", "reason": "load 9 exceeds the limit of 4"}
    return Attempt.objects.create(host=host or make_host(), **{**usual, **why, **fields})


def make_run_request(host: Host, **fields: Any) -> RunRequest:
    """Make a pending request of the profile quick in /data that expires in a day, unless given otherwise."""
    now = timezone.now()
    values = {"profile": "quick", "directory": "/data", "created_at": now, **fields}
    return RunRequest.objects.create(
        id=values.pop("id", None) or uuid4(), host=host, **{"expires_at": now + timedelta(days=1), **values}
    )


def make_planned_event(**fields: Any) -> PlannedEvent:
    """Make a maintenance of host db-7 from noon for four hours, unless given otherwise."""
    values = {
        "kind": PlannedEventKind.MAINTENANCE,
        "filter": "host:db-7",
        "from_at": NOON,
        "to_at": NOON + timedelta(hours=4),
        "reason": "new disks",
        **fields,
    }
    return PlannedEvent.objects.create(**values)


def make_correction(**fields: Any) -> Correction:
    """Make a relabeling of the runs of host db-7, which a worker has not begun."""
    values = {
        "kind": "relabeling",
        "changes": {"volume_type": "gp3"},
        "filter": "host:db-7",
        "reason": "trial",
        "run_count": 1,
        "last_run_id": 1,
        **fields,
    }
    correction = Correction.objects.create(**values)
    CorrectionLogEntry.objects.create(correction=correction, at=correction.created_at, action="created")
    return correction


def make_spare_hosts() -> None:
    """Make hosts to rename, merge and split: spare-1, into which spare-2 was merged, and spare-3."""
    for number in (1, 2, 3):
        make_host(f"spare-{number}")
    merge("spare-2", "spare-1")


def make_detection_policy(**fields: Any) -> DetectionPolicy:
    """Make a policy for IOPS of host db-7: 10 %, unless given otherwise."""
    values = {
        "metric": "iops",
        "smallest_change": 0.1,
        "filter": "host:db-7",
        "reason": "noisy",
        **fields,
    }
    policy = DetectionPolicy.objects.create(**values)
    DetectionPolicyLogEntry.objects.create(policy=policy, at=policy.created_at, action="created")
    return policy


def make_dry_run(**fields: Any) -> DetectionDryRun:
    """Make a running dry run of IOPS from 2 % on, without series."""
    values = {
        "metric": "iops",
        "smallest_change": 0.02,
        "from_at": NOON - timedelta(days=90),
        **fields,
    }
    return DetectionDryRun.objects.create(**values)


def make_price(**fields: Any) -> Price:
    """Make the price of gp3: 0.08 per GiB; 0.005 per IOPS above 3 000, 0.04 per MiB/s above 125."""
    values = {
        "volume_type": "" if "instance_type" in fields else "gp3",
        "currency": "USD",
        "valid_from": date(2026, 1, 1),
        **({} if "instance_type" in fields or "volume_type" in fields else GP3_AMOUNTS),
        **fields,
    }
    return Price.objects.create(**values)


def make_target_mapping(**fields: Any) -> TargetMapping:
    """Make a mapping of a pattern to a target name, of a host."""
    values = {"scope": "host:db-7", "pattern": "/mnt/run-*", "target_name": "data", **fields}
    return TargetMapping.objects.create(**values)


def make_signed_link(**fields: Any) -> SignedLink:
    """Make a link to the status badge of all series, until a month from now."""
    now = timezone.now()
    values = {"url": "/api/v1/status-badge", "created_at": now, "expires_at": now + timedelta(days=30)}
    return SignedLink.objects.create(**values | fields)


GP3_AMOUNTS = {
    "per_gib_month": 0.08,
    "per_iops_month": 0.005,
    "included_iops": 3000,
    "per_mib_s_month": 0.04,
    "included_mib_s": 125,
}


def make_change(
    series: Series, *, at: datetime | None = None, before: float = 1000.0, after: float = 850.0, **fields: Any
) -> Change:
    """Make a confirmed change of IOPS at the series' run of this moment (its last one), from 20 runs to 8."""
    moment = at or series.last_at or NOON
    relative = after / before - 1
    runs = Run.objects.filter(measurements__series=series)
    values = {
        "metric": "iops",
        "run": runs.filter(started_at=moment).first(),
        "last_good_run": runs.filter(started_at__lt=moment).order_by("-started_at").first(),
        "started_at": moment,
        "state": ChangeState.CONFIRMED,
        "is_regression": relative < 0,
        "before_median": before,
        "before_n": 20,
        "before_spread": before / 100,
        "after_median": after,
        "after_n": 8,
        "after_spread": after / 100,
        "relative": relative,
        "relative_low": relative - 0.02,
        "relative_high": relative + 0.02,
        "confidence": 0.9999,
        "method": "changepoints-v1",
        "found_at": moment,
        "updated_at": moment,
        **fields,
    }
    return insert_row(Change(series=series, **values))


def make_detection_result(
    series: Series, status: DetectionStatus = DetectionStatus.STEADY, **fields: Any
) -> DetectionResult:
    """Make what stands of the judging of a series' IOPS."""
    values = {"metric": "iops", "n": 30, "method": "changepoints-v1", "judged_at": NOON, **fields}
    return DetectionResult.objects.create(series=series, status=status, **values)


def make_submission_id(number: int) -> UUID:
    """Return a UUID that a reader can tell from others."""
    return UUID(int=number)


def _fill_submission(host: Host, *, body: bytes | None = FIO_TEXT, **fields: Any) -> Submission:
    values: dict[str, Any] = {
        "id": uuid4(),
        "kind": Kind.FIO,
        "received_at": NOON,
        "state": State.STORED,
        "settled_at": NOON,
        "parser_version": 1,
        **fields,
    }
    if values["state"] == State.RECEIVED:
        values["settled_at"] = values["parser_version"] = None
    if values["state"] == State.REJECTED:
        values = {"reason_code": "output-empty", "reason": "no fio report found", **values}
    return Submission(
        host=host,
        body=None if body is None else _pack(body),
        body_bytes=len(body or b""),
        digest=hashlib.sha256(body or b"").digest(),
        **values,
    )


def _fill_run(submission: Submission, **fields: Any) -> Run:
    values = {
        "document": 0,
        "profile": "quick",
        "format": "json",
        "fio_version": "fio-3.33",
        "parser_version": 1,
        "host": submission.host,
        **fields,
    }
    return Run(submission=submission, **values)


def _find_or_make(model: type[Any], key: bytes, fields: dict[str, Any]) -> Any:
    # Tests do not make the same row at the same time: no savepoint, as `get_or_create` has.
    blocks = tuple(connection.atomic_blocks)
    known, made_in = _known.get((model, key), (None, ()))
    if made_in and blocks[: len(made_in)] == made_in:
        return known
    row = model.objects.filter(key=key).first() or insert_row(model(key=key, **fields))
    _known[model, key] = row, blocks
    return row


def _key(kind: str, fields: dict[str, Any]) -> bytes:
    return hashlib.sha256(f"{kind}{sorted(fields.items())!r}".encode()).digest()
