"""Parse the raw output of a run again and describe how its values are derived; without database."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from threading import BoundedSemaphore
from typing import Final

from benchapp.catalog.metrics import count_fitting
from benchapp.fio import PARSER_VERSION, UnreadableOutput, read_output
from benchapp.fio.merging.directions import did_io
from benchapp.fio.merging.jobs import total_up
from benchapp.fio.report import Direction, Disk, Document, Group, Job, Report, Total
from benchapp.fio.workload import WorkloadSpec, read_workload
from benchapp.intake.normalize.measurement import measurement_columns
from benchapp.intake.normalize.parsing_process import ParsingFailed, call_in_process
from benchapp.intake.normalize.plan import bound_options, list_measured_directions, list_mix
from benchapp.intake.normalize.validity_inputs import RunContext, read_run_context
from benchapp.intake.posts.envelope import BadEnvelope, read_envelope
from benchapp.intake.posts.submissions import unpack
from benchapp.intake.provenance.values import (
    LatencyShare,
    MeasurementProvenance,
    MergedJob,
    ReportedDisk,
    ReportedJob,
    ReportProvenance,
    TotalProvenance,
    ValueParts,
    WorkloadPart,
    derive_percentiles,
    derive_total,
    derive_values,
)

# Part of the workload → fio options that set it.
_OPTIONS: Final = {
    "rw": ("rw", "readwrite"),
    "block_size": ("bssplit", "bsrange", "blocksize_range", "bs", "blocksize"),
    "iodepth": ("iodepth",),
    "numjobs": ("numjobs",),
    "file_size": ("size", "filesize"),
    "is_direct": ("direct", "buffered"),
    "engine": ("ioengine",),
    "read_share_percent": ("rwmixread", "rwmixwrite"),
    "runtime_s": ("runtime", "timeout"),
    "time_based": ("time_based",),
}
# Parts that the parser infers from values without an option.
_INFERRED: Final = {
    "rw": "not reported; inferred from the directions with I/O",
    "block_size": "not reported; inferred as data transferred / I/Os",
    "iodepth": "not reported; inferred from latency_depth, the depth in effect",
    "numjobs": "not reported; inferred from the number of jobs in the report",
}
_HEADERS: Final = {"time": "the timed command"}


def derive_workload(group: Group, spec: WorkloadSpec, *, output_format: str) -> tuple[WorkloadPart, ...]:
    """Return the parts of a workload with their sources; further options follow by name."""
    values = {
        "rw": spec.rw or None,
        "block_size": spec.block_size_text or _format_number(spec.block_size_bytes),
        "iodepth": _format_number(spec.iodepth),
        "numjobs": _format_number(spec.numjobs),
        "file_size": spec.file_size_text or _format_number(spec.file_size_bytes),
        "is_direct": None if spec.is_direct is None else "yes" if spec.is_direct else "no",
        "engine": spec.engine or None,
        "read_share_percent": _format_number(spec.read_share_percent),
        "runtime_s": _format_number(spec.runtime_s),
        "time_based": "yes" if spec.is_time_based else "no",
    }
    parts = [
        WorkloadPart(name, value, _find_source(name, value, group, output_format))
        for name, value in values.items()
    ]
    return (
        *parts,
        *(
            WorkloadPart(name, value, _find_extra_source(name, group, output_format))
            for name, value in bound_options(spec.extra).items()
        ),
    )


def _find_source(name: str, value: str | None, group: Group, output_format: str) -> str:
    option = next((each for each in _OPTIONS[name] if each in group.options), None)
    if option is not None:
        return _describe_option(option, group, output_format)
    if name == "read_share_percent" and value in ("0", "100"):
        return "follows from rw"
    if name == "numjobs" and value is None:
        return "not reported: fio may have summed several jobs"
    if name == "numjobs" and value != "1":
        return _INFERRED[name]
    if name == "iodepth" and group.iodepth is not None and group.iodepth != 1:
        return _INFERRED[name]
    if name == "time_based" and value == "yes":
        return "not reported; inferred because it ran for its full runtime"
    if not group.options:
        return _INFERRED.get(name, "not reported") if value is not None else "not reported"
    if not group.has_all_options:
        return "not reported: the header has only some options"
    return "not set: fio's default" if value is not None else "not set"


def _find_extra_source(name: str, group: Group, output_format: str) -> str:
    if name in group.options:
        return _describe_option(name, group, output_format)
    if name in ("options", "job"):
        return "added by benchapp: without all options the job name distinguishes it from others"
    return f"from the {_name_source(output_format)}"


def _describe_option(option: str, group: Group, output_format: str) -> str:
    given = group.options[option]
    shown = option if given == "" else f"{option}={given[:200]}"
    source = "report's options" if group.has_all_options else _name_source(output_format)
    return f"{shown}, from the {source}"


def _name_source(output_format: str) -> str:
    return _HEADERS.get(
        output_format, "report's options" if output_format in ("json", "json+") else "text's header"
    ).removeprefix("the ")


def _format_number(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"


# Per list of a report; 200 measurements are 1 MB of JSON.
ROWS_MAXIMUM: Final = 200
# And characters of the options of the measurements: usual ones have a hundred.
_OPTIONS_CHARACTERS_MAXIMUM: Final = 100_000
# Of names that the output chose, as they are stored.
_NAME_LENGTH: Final = 200
# fio prints seven depths.
_LEVELS_MAXIMUM: Final = 20
# Unpacked: larger outputs are parsed only for signed-in readers.
OPEN_BYTES_MAXIMUM: Final = 8 * 2**20
# Concurrent parses per process: each takes up to two seconds, and 150 MB.
_CONCURRENT_MAXIMUM: Final = 2
_SLOTS: Final = BoundedSemaphore(_CONCURRENT_MAXIMUM)

_LATENCY_OF_KIND: Final = {"clat": "completion", "lat": "total"}


class ProvenanceUnavailable(Exception):
    """The current parser does not find the document in the text; the message is for people."""


class ProvenanceBusy(Exception):
    """This process is parsing the maximum number of outputs; try again."""


def derive_packed(
    packed: bytes, number: int, *, has_envelope: bool, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Call `derive_body` for a stored body in another process, within DOCUMENT_LIMIT_S, after which it is unavailable.

    Any reader may call it, and the largest output takes two seconds and 150 MB. Raises ProvenanceBusy if too many calls
    run at the same time.
    """
    if not _SLOTS.acquire(blocking=False):
        raise ProvenanceBusy(f"{_CONCURRENT_MAXIMUM} outputs are being parsed: try again")
    try:
        return call_in_process(
            _unpack_and_derive, packed, number, has_envelope=has_envelope, position=position, limit=limit
        )
    except ParsingFailed as error:
        raise ProvenanceUnavailable(f"{error}; the values of the run are still stored") from error
    finally:
        _SLOTS.release()


def _unpack_and_derive(
    packed: bytes, number: int, *, has_envelope: bool, position: int, limit: int
) -> ReportProvenance:
    return derive_body(unpack(packed), number, has_envelope=has_envelope, position=position, limit=limit)


def derive_body(
    body: bytes, number: int, *, has_envelope: bool, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Return the provenance of one document of a body (envelope or bare output). Raises ProvenanceUnavailable."""
    try:
        output = read_envelope(body).fio_output.encode() if has_envelope else body
        report = read_output(output)
    except (BadEnvelope, UnreadableOutput) as error:
        raise ProvenanceUnavailable(
            f"parser version {PARSER_VERSION} finds no report in the upload: {error}"
        ) from error
    if number >= len(report.documents):
        raise ProvenanceUnavailable(
            f"parser version {PARSER_VERSION} finds {len(report.documents)} reports in the upload, and this run is"
            f" number {number + 1}: run manage.py renormalize"
        )
    return derive_document(report, number, position=position, limit=limit)


def derive_document(
    report: Report, number: int, *, position: int = 0, limit: int = ROWS_MAXIMUM
) -> ReportProvenance:
    """Return the provenance of one document: measurements in the order of the run's table, totals, jobs, disks.

    Each list has at most `limit` entries from `position`, fewer if the options of the measurements are long.
    """
    document = report.documents[number]
    measured = list(_list_measured(document))
    totals = list(_list_totals(document))
    options = [sum(map(len, chain(*group.options.items()))) for group, _ in measured[position:][:limit]]
    fitting = count_fitting(options, _OPTIONS_CHARACTERS_MAXIMUM)
    limit = fitting if fitting < len(options) else limit
    lengths = (len(measured), len(totals), len(document.jobs), len(document.disks))
    shown = slice(position, position + limit)
    return ReportProvenance(
        format=document.format,
        format_version=document.format_version,
        has_precise_values=document.has_precise_values,
        is_partial=document.is_partial,
        fio_version=_name(document.fio_version),
        parser_version=report.parser_version,
        documents=len(report.documents),
        document=number,
        started_at=document.started_at,
        finished_at=document.finished_at,
        measurement_count=len(measured),
        position=position,
        next_position=position + limit if position + limit < max(lengths) else None,
        measurements=tuple(_derive_measurements(document, measured[shown], position=position)),
        totals=tuple(_derive_total(document, *total) for total in totals[shown]),
        jobs=tuple(_copy_job(job, document.format) for job in document.jobs[shown]),
        disks=tuple(_copy_disk(disk) for disk in document.disks[shown]),
        warnings=tuple(report.warnings),
        messages=report.messages,
    )


@dataclass(frozen=True, slots=True)
class _DocumentContext:
    """Common to all measurements of a document. jobs: by index."""

    document: Document
    jobs: Mapping[int, Job]
    context: RunContext


def _list_measured(document: Document) -> Iterator[tuple[Group, Direction]]:
    """Yield group and direction of each measurement, in the order of the run's table."""
    for group in document.groups:
        # The configured rw counts only if a job failed before its first I/O.
        rw = read_workload(group).rw if group.error else ""
        for direction in list_measured_directions(group, rw):
            yield group, direction


def _derive_measurements(
    document: Document, measured: Sequence[tuple[Group, Direction]], *, position: int
) -> Iterator[MeasurementProvenance]:
    common = _DocumentContext(
        document,
        {job.index: job for job in document.jobs},
        # Only badges depend on these, and the badges shown are the stored ones.
        read_run_context(document, environment={}, target={}),
    )
    for at, (group, direction) in enumerate(measured, position):
        yield _derive_measurement(common, group, direction, spec=read_workload(group), position=at)


def _derive_measurement(
    common: _DocumentContext, group: Group, direction: Direction, *, spec: WorkloadSpec, position: int
) -> MeasurementProvenance:
    jobs = [common.jobs[index] for index in group.jobs if index in common.jobs]
    clones = [_count_clones(job, common.document.format) for job in jobs]
    parts = _list_parts(group, jobs, direction, output_format=common.document.format)
    values = measurement_columns(common.context, group, direction, spec=spec)
    kind = values["latency_kind"]
    latency = getattr(direction, _LATENCY_OF_KIND[kind]) if kind else None
    return MeasurementProvenance(
        position=position,
        job_name=_name(group.name),
        hostname=group.hostname and _name(group.hostname),
        groupid=group.groupid,
        direction=direction.name,
        error=group.error,
        numjobs=group.numjobs,
        job_count=None if None in clones else sum(filter(None, clones)),
        jobs=tuple(
            MergedJob(job.index, _name(job.name), job.hostname and _name(job.hostname), count)
            for job, count in zip(jobs[:ROWS_MAXIMUM], clones, strict=False)
        ),
        workload=derive_workload(group, spec, output_format=common.document.format),
        values=derive_values(direction, parts, kind=kind, values=values, missing=values["missing"]),
        percentiles=derive_percentiles(direction, parts, kind=kind, latency=latency),
    )


def _list_parts(group: Group, jobs: Sequence[Job], direction: Direction, *, output_format: str) -> ValueParts:
    """Return the parts of a group's direction; clones without I/O are omitted, as in merging."""
    if direction.name not in [printed.name for printed in group.directions]:
        return ValueParts(list_mix(group.directions), "directions")
    pairs = [(job, part) for job in jobs for part in job.directions if part.name == direction.name]
    active = [pair for pair in pairs if did_io(pair[1])] or pairs[:1]
    clones = _count_clones(active[0][0], output_format) if len(active) == 1 else 1
    return ValueParts(tuple(part for _, part in active), "entries", clones)


def _count_clones(job: Job, output_format: str) -> int | None:
    """Return how many jobs fio summed into an entry, None if unknown: text prints their number."""
    return None if job.may_hide_jobs and output_format != "normal" else job.clones


def _list_totals(document: Document) -> Iterator[tuple[Total, Direction]]:
    """Yield the totals of concurrent jobs, unless equal to the direction of a single job."""
    for total in total_up(document.groups):
        for direction in total.directions:
            if len(total.groups) > 1 or direction.name == "total":
                yield total, direction


def _derive_total(document: Document, total: Total, direction: Direction) -> TotalProvenance:
    groups = [document.groups[index] for index in total.groups]
    return TotalProvenance(
        groupid=total.groupid,
        job_names=tuple(_name(group.name) for group in groups[:ROWS_MAXIMUM]),
        direction=direction.name,
        values=derive_total(direction, _list_summands(groups, total.directions, direction)),
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


def _name(text: str) -> str:
    return text[:_NAME_LENGTH]


def _copy_job(job: Job, output_format: str) -> ReportedJob:
    return ReportedJob(
        index=job.index,
        name=_name(job.name),
        hostname=job.hostname and _name(job.hostname),
        groupid=job.groupid,
        clones=_count_clones(job, output_format),
        error=job.error,
        is_aggregate=job.is_aggregate,
        cpu_user_percent=job.cpu_user_percent,
        cpu_system_percent=job.cpu_system_percent,
        context_switches=job.context_switches,
        depth=dict(islice(job.depth.items(), _LEVELS_MAXIMUM)),
        latency_shares=tuple(LatencyShare(below_ns, percent) for below_ns, percent in job.latency_shares),
        steady_state=job.steady_state,
    )


def _copy_disk(disk: Disk) -> ReportedDisk:
    return ReportedDisk(
        name=_name(disk.name),
        is_member=disk.is_member,
        read_ios=disk.read_ios,
        write_ios=disk.write_ios,
        read_busy_s=disk.read_busy_s,
        write_busy_s=disk.write_busy_s,
        utilisation_percent=disk.utilisation_percent,
    )
