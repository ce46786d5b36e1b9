"""Convert one submission to database rows: pure, no database."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from benchapp.analysis.validity.badges import sort_codes
from benchapp.fio import PARSER_VERSION, UnreadableOutput, read_output
from benchapp.fio.report import Direction, Document, Group, Note, Report
from benchapp.fio.workload.spec import WorkloadSpec, read_workload
from benchapp.pipeline.identity import key_of, series_key
from benchapp.pipeline.normalize.measurement import measurement_columns
from benchapp.pipeline.normalize.sender_context import (
    SenderContext,
    SubmissionSource,
    Unstorable,
    explain_unreadable,
    parse_context,
)
from benchapp.pipeline.normalize.traces import PlannedTrace, RunTraces, parse_traces
from benchapp.pipeline.normalize.validity_inputs import RunContext, read_run_context

_CLOCK_TOLERANCE: Final = timedelta(days=1)
_OLDEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
# More loads at once than this are told by a digest: 20 000 jobs that each name the others would fill the memory.
_NEIGHBOURS_NAMED: Final = 8
# The recipe's loop is from 0 to 1000; its limit says nothing about another number of files.
_SMALL_FILES: Final = ("gitlab-smallfiles", "1001")
_MEASURED: Final = ("read", "write", "trim", "mixed", "sync")


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

    source: SubmissionSource
    document: int
    target_key: bytes
    target: Mapping[str, Any]
    environment_key: bytes
    environment: Mapping[str, Any]
    values: Mapping[str, Any]
    measurements: tuple[PlannedMeasurement, ...]
    traces: tuple[PlannedTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one submission becomes."""

    source: SubmissionSource
    runs: tuple[PlannedRun, ...]
    agent_version: str


def plan_submission(source: SubmissionSource) -> Plan:
    """Read a submission's body and return its rows; Unstorable with the reason where there are none."""
    said = parse_context(source)
    try:
        report = read_output(said.output)
    except UnreadableOutput as error:
        raise Unstorable(error.code, explain_unreadable(error, said.command)) from error
    course = parse_traces(said.logs, report)
    runs = tuple(
        _plan_run(source, said, report, number, course=course) for number in range(len(report.documents))
    )
    return Plan(source, runs, said.agent_version)


def _plan_run(
    source: SubmissionSource, said: SenderContext, report: Report, number: int, *, course: RunTraces
) -> PlannedRun:
    document = report.documents[number]
    environment = {**said.environment, "fio_version": document.fio_version[:100] or None}
    target_key = key_of(said.target)
    started_at, is_known = _read_start(source, said, document)
    finished_at = document.finished_at or said.finished_at
    errors = [job.error for job in document.jobs if job.error]
    context = read_run_context(document, environment=environment, target=said.target)
    measurements = tuple(
        _plan_measurements(source.scope, target_key, document, context=context, course=course)
    )
    values = {
        "profile": said.profile or _find_profile(document),
        "sweep_id": said.sweep_id,
        "labels": dict(said.labels),
        "started_at": started_at,
        "started_at_is_known": is_known,
        "finished_at": finished_at if finished_at and finished_at >= started_at else None,
        "format": document.format,
        "fio_version": document.fio_version[:100],
        "command": {**said.command, **({"conditions": said.conditions} if said.conditions else {})},
        "error": errors[0] if errors else 0,
        "is_partial": document.is_partial,
        "warnings": [_plain_note(note) for note in (*report.warnings, *course.warnings)],
        "badges": _unite_badges(measurements, has_failed=bool(errors)),
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
        measurements=measurements,
        traces=course.traces,
    )


def _find_profile(document: Document) -> str:
    """Return the profile of a document that says by itself which it is, for a sender who named none."""
    name, files = _SMALL_FILES
    is_recipe = all(group.options.get("nrfiles", files) == files for group in document.groups)
    return name if document.format == "time" and is_recipe else ""


def _unite_badges(measurements: Sequence[PlannedMeasurement], *, has_failed: bool) -> list[str]:
    """Return the codes that any measurement bears; a job may fail and measure nothing that would bear one."""
    codes = [badge["code"] for measurement in measurements for badge in measurement.values["badges"]]
    return sort_codes([*codes, "failed-job"] if has_failed else codes)


def _read_start(source: SubmissionSource, said: SenderContext, document: Document) -> tuple[datetime, bool]:
    """Prefer fio's own word to the sender's; a clock that is days off orders nothing, so ours stands in."""
    for moment in (document.started_at, said.started_at, document.finished_at):
        if moment is not None and _OLDEST <= moment <= source.received_at + _CLOCK_TOLERANCE:
            return moment, True
    return source.received_at, False


def _plan_measurements(
    scope: str, target_key: bytes, document: Document, *, context: RunContext, course: RunTraces
) -> Iterator[PlannedMeasurement]:
    repetitions: Counter[bytes] = Counter()
    specs = [read_workload(group) for group in document.groups]
    company = _find_company(document, specs)
    for group, spec in zip(document.groups, specs, strict=True):
        workload = _workload_fields(group, spec, company[group.groupid, group.hostname])
        workload_key = key_of(workload)
        for direction in list_measured_directions(group, spec.rw):
            key = series_key(
                scope=scope, target_key=target_key, workload_key=workload_key, direction=direction.name
            )
            yield PlannedMeasurement(
                series_key=key,
                workload_key=workload_key,
                workload=workload,
                direction=direction.name,
                ordinal=repetitions[key],
                values=measurement_columns(
                    context,
                    group,
                    direction,
                    spec=spec,
                    steadiness=course.find_steadiness(group, direction.name),
                ),
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


def list_measured_directions(group: Group, rw: str) -> tuple[Direction, ...]:
    """Return the directions that did I/O; of a failed group without any, those that it was asked for."""
    active = tuple(
        direction
        for direction in group.directions
        if direction.name in _MEASURED
        and (direction.total_ios or direction.io_bytes or direction.elapsed_s is not None)
    )
    if active or not group.error:
        return active
    wanted = [name for name in ("read", "write", "trim") if name in rw] or ["read", "write"]
    return tuple(
        Direction(name, None, None, None, None, None, missing={"all": "job-failed"})  # type: ignore[arg-type]
        for name in wanted
    )


def _plain_note(note: Note) -> dict[str, str]:
    return {"code": note.code, "where": note.where, "message": note.message}
