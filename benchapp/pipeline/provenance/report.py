"""Read a run's raw output again, with the parser of today, and say how its numbers were computed: no database."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Final

from benchapp.fio import PARSER_VERSION, UnreadableOutput, read_output
from benchapp.fio.merging.directions import did_io
from benchapp.fio.merging.totals import total_up
from benchapp.fio.report import Direction, Disk, Document, Group, Job, Report, SteadyState, Total
from benchapp.fio.workload.spec import WorkloadSpec, read_workload
from benchapp.pipeline.intake.envelope import BadEnvelope, read_envelope
from benchapp.pipeline.intake.submissions import unpack
from benchapp.pipeline.normalize.measurement import measurement_columns
from benchapp.pipeline.normalize.plan import list_measured_directions
from benchapp.pipeline.normalize.validity_inputs import RunContext, read_surroundings
from benchapp.pipeline.provenance.shapes import (
    ExplainedDisk,
    ExplainedJob,
    ExplainedMeasurement,
    ExplainedNote,
    ExplainedSteadyState,
    ExplainedTotal,
    LatencyShare,
    MergedJob,
    ReportProvenance,
)
from benchapp.pipeline.provenance.values import ValueParts, explain_percentiles, explain_total, explain_values
from benchapp.pipeline.provenance.workload import explain_workload

__all__ = [
    "OPEN_BYTES_MAXIMUM",
    "PARSER_VERSION",
    "ROWS_MAXIMUM",
    "CannotExplain",
    "NoRoom",
    "explain_body",
    "explain_document",
    "explain_packed",
]

# Of each list of an explanation; 200 measurements are 1 MB of JSON.
ROWS_MAXIMUM: Final = 200
# Unpacked: more than this is explained to those only who are known here, where everybody may read.
OPEN_BYTES_MAXIMUM: Final = 8 * 2**20
# At once in this process: each may hold a web server's thread for two seconds, and 150 MB.
_ROOM_FOR: Final = 2
_ROOM: Final = BoundedSemaphore(_ROOM_FOR)

_LATENCY_OF_KIND: Final = {"clat": "completion", "lat": "total"}


class CannotExplain(Exception):
    """The parser of today finds no such document in the text; the message is a sentence for people."""


class NoRoom(Exception):
    """As many explanations as this process has room for are being made just now: try again."""


def explain_packed(
    packed: bytes, number: int, *, has_envelope: bool, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Explain what was received and is kept as gzip, as `explain_body` does, if there is room. Raises NoRoom too.

    Anybody may ask for it who may read, and the largest output takes two seconds and 150 MB.
    """
    if not _ROOM.acquire(blocking=False):
        raise NoRoom(f"{_ROOM_FOR} outputs are being explained just now: try again")
    try:
        return explain_body(unpack(packed), number, has_envelope=has_envelope, position=position, limit=limit)
    finally:
        _ROOM.release()


def explain_body(
    body: bytes, number: int, *, has_envelope: bool, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Explain document `number` of what was received: an agent's envelope, or bare output. Raises CannotExplain."""
    try:
        output = read_envelope(body).fio_output.encode() if has_envelope else body
        report = read_output(output)
    except (BadEnvelope, UnreadableOutput) as error:
        raise CannotExplain(
            f"parser {PARSER_VERSION} finds no report in what was received: {error}"
        ) from error
    if number >= len(report.documents):
        raise CannotExplain(
            f"parser {PARSER_VERSION} finds {len(report.documents)} reports in what was received, and this run is"
            f" number {number + 1}: manage.py renormalize puts that right"
        )
    return explain_document(report, number, position=position, limit=limit)


def explain_document(
    report: Report, number: int, *, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Explain one document of a report: its measurements in the order of the run's table, totals, jobs, the rest.

    Of measurements, totals, jobs and disks those `limit` that begin at `position`; the others cost next to nothing.
    """
    document = report.documents[number]
    places = list(_list_places(document))
    totals = list(_list_totals(document))
    lengths = (len(places), len(totals), len(document.jobs), len(document.disks))
    shown = slice(position, position + limit)
    return ReportProvenance(
        format=document.format,
        format_version=document.format_version,
        has_precise_values=document.has_precise_values,
        is_partial=document.is_partial,
        fio_version=document.fio_version,
        parser_version=report.parser_version,
        documents=len(report.documents),
        document=number,
        started_at=document.started_at,
        finished_at=document.finished_at,
        measurement_count=len(places),
        position=position,
        next_position=position + limit if position + limit < max(lengths) else None,
        measurements=tuple(_explain_measurements(document, places[shown], position=position)),
        totals=tuple(_explain_total(document, *total) for total in totals[shown]),
        jobs=tuple(_explain_job(job) for job in document.jobs[shown]),
        disks=tuple(_explain_disk(disk) for disk in document.disks[shown]),
        warnings=tuple(ExplainedNote(note.code, note.where, note.message) for note in report.warnings),
        messages=report.messages,
    )


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all measurements of a document share; jobs: by their index."""

    document: Document
    jobs: Mapping[int, Job]
    surroundings: RunContext


def _list_places(document: Document) -> Iterator[tuple[Group, Direction]]:
    """Give the measurements of a document in the order of the run's table."""
    for group in document.groups:
        # What was asked for counts only where a job failed before it did anything.
        rw = read_workload(group).rw if group.error else ""
        for direction in list_measured_directions(group, rw):
            yield group, direction


def _explain_measurements(
    document: Document, places: Sequence[tuple[Group, Direction]], *, position: int
) -> Iterator[ExplainedMeasurement]:
    setting = _Setting(
        document,
        {job.index: job for job in document.jobs},
        # Only the badges depend on these, and those that count are stored with the run.
        read_surroundings(document, environment={}, target={}),
    )
    for at, (group, direction) in enumerate(places, position):
        yield _explain_measurement(setting, group, direction, spec=read_workload(group), position=at)


def _explain_measurement(
    setting: _Setting, group: Group, direction: Direction, *, spec: WorkloadSpec, position: int
) -> ExplainedMeasurement:
    jobs = [setting.jobs[index] for index in group.jobs if index in setting.jobs]
    parts = _list_parts(jobs, direction)
    values = measurement_columns(setting.surroundings, group, direction, spec=spec)
    kind = values["latency_kind"]
    latency = getattr(direction, _LATENCY_OF_KIND[kind]) if kind else None
    return ExplainedMeasurement(
        position=position,
        job_name=group.name,
        hostname=group.hostname,
        groupid=group.groupid,
        direction=direction.name,
        error=group.error,
        numjobs=group.numjobs,
        job_count=sum(job.clones for job in jobs),
        jobs=tuple(MergedJob(job.index, job.name, job.hostname, job.clones) for job in jobs[:ROWS_MAXIMUM]),
        workload=explain_workload(group, spec, format=setting.document.format),
        values=explain_values(direction, parts, kind=kind, values=values, missing=values["missing"]),
        percentiles=explain_percentiles(direction, parts, kind=kind, latency=latency),
    )


def _list_parts(jobs: Sequence[Job], direction: Direction) -> ValueParts:
    """Return what a group's direction was made of: as in the roll-up, a clone that did no I/O adds nothing."""
    pairs = [(job, part) for job in jobs for part in job.directions if part.name == direction.name]
    active = [pair for pair in pairs if did_io(pair[1])] or pairs[:1]
    clones = active[0][0].clones if len(active) == 1 else 1
    return ValueParts(tuple(part for _, part in active), "entries", clones)


def _list_totals(document: Document) -> Iterator[tuple[Total, Direction]]:
    """Give the totals of what ran together, where that is more than one job's own direction."""
    for total in total_up(document.groups):
        for direction in total.directions:
            if len(total.groups) > 1 or direction.name == "total":
                yield total, direction


def _explain_total(document: Document, total: Total, direction: Direction) -> ExplainedTotal:
    groups = [document.groups[index] for index in total.groups]
    return ExplainedTotal(
        groupid=total.groupid,
        job_names=tuple(group.name for group in groups[:ROWS_MAXIMUM]),
        direction=direction.name,
        values=explain_total(direction, _list_summands(groups, total.directions, direction)),
    )


def _list_summands(
    groups: Sequence[Group], directions: Sequence[Direction], direction: Direction
) -> ValueParts:
    if direction.name == "total":
        return ValueParts(
            tuple(part for part in directions if part.name in ("read", "write", "trim")), "directions"
        )
    same = (part for group in groups for part in group.directions if part.name == direction.name)
    return ValueParts(tuple(part for part in same if did_io(part)), "jobs")


def _explain_job(job: Job) -> ExplainedJob:
    return ExplainedJob(
        index=job.index,
        name=job.name,
        hostname=job.hostname,
        groupid=job.groupid,
        clones=job.clones,
        error=job.error,
        is_aggregate=job.is_aggregate,
        cpu_user_percent=job.cpu_user_percent,
        cpu_system_percent=job.cpu_system_percent,
        context_switches=job.context_switches,
        depth=dict(job.depth),
        latency_shares=tuple(LatencyShare(below_ns, percent) for below_ns, percent in job.latency_shares),
        steady_state=None if job.steady_state is None else _explain_steady_state(job.steady_state),
    )


def _explain_steady_state(state: SteadyState) -> ExplainedSteadyState:
    return ExplainedSteadyState(
        criterion=state.criterion,
        is_attained=state.is_attained,
        duration_s=state.duration_s,
        deviation=state.deviation,
        iops=state.iops,
        bandwidth_bytes_per_s=state.bandwidth_bytes_per_s,
    )


def _explain_disk(disk: Disk) -> ExplainedDisk:
    return ExplainedDisk(
        name=disk.name,
        is_member=disk.is_member,
        read_ios=disk.read_ios,
        write_ios=disk.write_ios,
        read_busy_s=disk.read_busy_s,
        write_busy_s=disk.write_busy_s,
        utilisation_percent=disk.utilisation_percent,
    )
