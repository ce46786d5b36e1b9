"""Turn one submission into the rows that it becomes: pure, no database."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from benchapp.fio import PARSER_VERSION, UnreadableOutput, read_output
from benchapp.fio.report import Direction, Document, Group, Latency, Note, Report
from benchapp.fio.workload import WorkloadSpec, read_workload
from benchapp.metrics import PERCENTILES
from benchapp.models import Kind
from benchapp.pipeline.envelope import BadEnvelope, read_envelope
from benchapp.pipeline.identity import key_of, series_key
from benchapp.pipeline.layout import read_environment, read_target

_CLOCK_TOLERANCE: Final = timedelta(days=1)
_OLDEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
# More loads at once than this are told by a digest: 20 000 jobs that each name the others would fill the memory.
_NEIGHBOURS_NAMED: Final = 8
_MEASURED: Final = ("read", "write", "trim", "mixed", "sync")


class Unstorable(Exception):
    """A submission that cannot become runs, now or on another try; `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Source:
    """A submission as the plan needs it: scope is the host's, body the exact bytes received."""

    submission_id: UUID
    host_id: int
    scope: str
    kind: str
    body: bytes
    parameters: Mapping[str, Any]
    received_at: datetime


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One row of Measurement: its series by key, the series' own fields, and the row's."""

    series_key: bytes
    workload_key: bytes
    workload: Mapping[str, Any]
    direction: str
    ordinal: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One row of Run with its measurements; target and environment by key and fields."""

    source: Source
    document: int
    target_key: bytes
    target: Mapping[str, Any]
    environment_key: bytes
    environment: Mapping[str, Any]
    values: Mapping[str, Any]
    measurements: tuple[PlannedMeasurement, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """What the sender said around fio's output, whichever door it came through."""

    output: bytes
    profile: str
    started_at: datetime | None
    finished_at: datetime | None
    target: Mapping[str, Any]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]
    command: Mapping[str, Any]
    sweep_id: UUID | None
    agent_version: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one submission becomes."""

    source: Source
    runs: tuple[PlannedRun, ...]
    agent_version: str


def plan_submission(source: Source) -> Plan:
    """Read a submission's body and return its rows; Unstorable with the reason where there are none."""
    said = _read_said(source)
    try:
        report = read_output(said.output)
    except UnreadableOutput as error:
        raise Unstorable(error.code, _explain_unreadable(error, said.command)) from error
    runs = tuple(
        _plan_run(source, said, report, number, document) for number, document in enumerate(report.documents)
    )
    return Plan(source, runs, said.agent_version)


def _read_said(source: Source) -> _Said:
    if source.kind == Kind.ENVELOPE:
        try:
            envelope = read_envelope(source.body)
        except BadEnvelope as error:
            raise Unstorable(error.code, str(error)) from error
        return _Said(
            output=envelope.fio_output.encode(),
            profile=envelope.profile,
            started_at=envelope.started_at,
            finished_at=envelope.finished_at,
            target=envelope.target,
            labels=envelope.labels,
            environment=envelope.environment,
            command=envelope.command,
            sweep_id=envelope.sweep_id,
            agent_version=envelope.agent_version,
        )
    parameters = source.parameters
    started_at = parameters.get("started_at")
    return _Said(
        output=source.body,
        profile=parameters.get("profile") or "",
        started_at=datetime.fromisoformat(started_at) if started_at else None,
        finished_at=None,
        target=parameters.get("target") or read_target({}),
        labels=parameters.get("labels") or {},
        environment=parameters.get("environment") or read_environment({}),
        command={},
        sweep_id=None,
        agent_version="",
    )


def _explain_unreadable(error: UnreadableOutput, command: Mapping[str, Any]) -> str:
    parts = [error.detail]
    if command.get("signal"):
        parts.append(f"fio was ended by signal {command['signal']}")
    elif command.get("exit_status"):
        parts.append(f"fio exited with status {command['exit_status']}")
    complaint = str(command.get("stderr") or "").strip()
    if complaint:
        parts.append(f"fio said: {complaint.splitlines()[-1][:500]}")
    return "; ".join(parts)


def _plan_run(source: Source, said: _Said, report: Report, number: int, document: Document) -> PlannedRun:
    environment = {**said.environment, "fio_version": document.fio_version[:100] or None}
    target_key = key_of(said.target)
    started_at, is_known = _read_start(source, said, document)
    finished_at = document.finished_at or said.finished_at
    errors = [job.error for job in document.jobs if job.error]
    values = {
        "profile": said.profile,
        "sweep_id": said.sweep_id,
        "labels": dict(said.labels),
        "started_at": started_at,
        "started_at_is_known": is_known,
        "finished_at": finished_at if finished_at and finished_at >= started_at else None,
        "format": document.format,
        "fio_version": document.fio_version[:100],
        "command": dict(said.command),
        "error": errors[0] if errors else 0,
        "is_partial": document.is_partial,
        "warnings": [_plain_note(note) for note in report.warnings],
        "parser_version": PARSER_VERSION,
    }
    return PlannedRun(
        source=source,
        document=number,
        target_key=target_key,
        target=said.target,
        environment_key=key_of(environment),
        environment=environment,
        values=values,
        measurements=tuple(_plan_measurements(source.scope, target_key, document)),
    )


def _read_start(source: Source, said: _Said, document: Document) -> tuple[datetime, bool]:
    """Prefer fio's own word to the sender's; a clock that is days off orders nothing, so ours stands in."""
    for moment in (document.started_at, said.started_at, document.finished_at):
        if moment is not None and _OLDEST <= moment <= source.received_at + _CLOCK_TOLERANCE:
            return moment, True
    return source.received_at, False


def _plan_measurements(scope: str, target_key: bytes, document: Document) -> Iterator[PlannedMeasurement]:
    repetitions: Counter[bytes] = Counter()
    specs = [read_workload(group) for group in document.groups]
    company = _find_company(document, specs)
    for group, spec in zip(document.groups, specs, strict=True):
        workload = _workload_fields(group, spec, company[group.groupid, group.hostname])
        workload_key = key_of(workload)
        for direction in _active_directions(group, spec.rw):
            key = series_key(
                scope=scope, target_key=target_key, workload_key=workload_key, direction=direction.name
            )
            yield PlannedMeasurement(
                series_key=key,
                workload_key=workload_key,
                workload=workload,
                direction=direction.name,
                ordinal=repetitions[key],
                values=_measured_values(group, direction),
            )
            repetitions[key] += 1


def _workload_fields(group: Group, spec: WorkloadSpec, company: Counter[str]) -> dict[str, Any]:
    options = dict(spec.extra)
    if group.options.get("time_based") in ("1", ""):
        # As asked for: whether a run was cut by its runtime as seen depends on its speed.
        options["time_based"] = "1"
    if company.total() > 1:
        # What ran beside it took its share: such a measurement compares only with its like.
        options["beside"] = _describe_neighbours(company, _describe_load(spec))
    return {
        "rw": spec.rw,
        "block_size_bytes": spec.block_size_bytes,
        "block_size_text": spec.block_size_text,
        "iodepth": spec.iodepth,
        "numjobs": spec.numjobs,
        "file_size_bytes": spec.file_size_bytes,
        "file_size_text": spec.file_size_text,
        "is_direct": spec.is_direct,
        "engine": spec.engine,
        "read_share_percent": spec.read_share_percent,
        "runtime_s": spec.runtime_s,
        "options": options,
    }


def _find_company(
    document: Document, specs: Sequence[WorkloadSpec]
) -> dict[tuple[int, str | None], Counter[str]]:
    """Return what ran together: of each group of fio and host, how often each load."""
    company: dict[tuple[int, str | None], Counter[str]] = defaultdict(Counter)
    for group, spec in zip(document.groups, specs, strict=True):
        company[group.groupid, group.hostname][_describe_load(spec)] += 1
    return company


def _describe_load(spec: WorkloadSpec) -> str:
    size = spec.block_size_bytes if spec.block_size_bytes is not None else spec.block_size_text
    return f"{spec.rw} {size} iodepth {spec.iodepth} numjobs {spec.numjobs}"


def _describe_neighbours(company: Counter[str], own: str) -> str:
    """Name the loads beside one's own; of many, their number and a digest, so that the text stays short."""
    if len(company) > _NEIGHBOURS_NAMED:
        digest = hashlib.sha256("\n".join(f"{load} × {company[load]}" for load in sorted(company)).encode())
        return f"{company.total() - 1} others of {digest.hexdigest()[:16]}"
    counts = {load: count - (load == own) for load, count in sorted(company.items())}
    return ", ".join(f"{load} × {count}" for load, count in counts.items() if count)


def _active_directions(group: Group, rw: str) -> tuple[Direction, ...]:
    """Return the directions that did I/O; of a failed group without any, those that it was asked for."""
    active = tuple(
        direction
        for direction in group.directions
        if direction.name in _MEASURED and (direction.total_ios or direction.io_bytes)
    )
    if active or not group.error:
        return active
    wanted = [name for name in ("read", "write", "trim") if name in rw] or ["read", "write"]
    return tuple(
        Direction(name, None, None, None, None, None, missing={"all": "job-failed"})  # type: ignore[arg-type]
        for name in wanted
    )


def _measured_values(group: Group, direction: Direction) -> dict[str, Any]:
    kind, latency = _choose_latency(direction)
    percentiles = dict(latency.percentiles) if latency else {}
    values: dict[str, Any] = {
        "job_name": group.name[:200],
        "error": group.error,
        "iops": direction.iops,
        "bandwidth_bytes_per_s": direction.bandwidth_bytes_per_s,
        "latency_kind": kind,
        "latency_mean_ns": latency.mean_ns if latency else None,
        "latency_stddev_ns": latency.stddev_ns if latency else None,
        "latency_max_ns": latency.maximum_ns if latency else None,
        "total_ios": direction.total_ios,
        "io_bytes": direction.io_bytes,
        "runtime_s": direction.runtime_s,
        "clones": len(group.jobs),
        "percentiles": {f"{percent:.10g}": value for percent, value in percentiles.items()},
        "missing": dict(direction.missing),
    }
    for metric, percent in PERCENTILES.items():
        values[metric] = percentiles.get(percent)
    return values


def _choose_latency(direction: Direction) -> tuple[str, Latency | None]:
    """Take mean, maximum and percentiles from one distribution: clat, unless only lat has what is asked."""
    completion, total = direction.completion, direction.total
    if completion is not None and (completion.percentiles or total is None or not total.percentiles):
        return "clat", completion
    if total is not None:
        return "lat", total
    return "", None


def _plain_note(note: Note) -> dict[str, str]:
    return {"code": note.code, "where": note.where, "message": note.message}
