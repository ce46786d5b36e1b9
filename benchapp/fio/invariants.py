"""What must hold between the values of a report; a violation is a warning, never a wrong number without a word."""

from typing import Final

from msgspec.structs import replace

from benchapp.fio.notes import Notes
from benchapp.fio.report import Direction, Document, Group, Job
from benchapp.fio.workload.sizes import parse_duration_s, parse_size

# Little's law: on average IOPS × latency I/Os are in flight, at most the queue depth of all jobs. Latency counts from
# before the submission, and a wrong unit is off by a thousand.
_IN_FLIGHT_MAXIMUM: Final = 4
# Text rounds to three digits, and 2.x averages over another time than the run time.
_RATE_WITHIN: Final = 1.5
# Below this a run is too short for its rates.
_RUNTIME_MINIMUM_S: Final = 0.1


def check_document(document: Document, *, where: str, notes: Notes) -> Document:
    """Return the document, marked as partial if a value of it contradicts others, with a warning for each."""
    if document.format == "time":
        return document
    _note_hints(document, where, notes)
    faults = [
        (code, f"{where}, {group.name}", message)
        for group in document.groups
        if not group.error
        for code, message in _list_faults(
            group, is_partial=document.is_partial, is_text=not document.has_precise_values
        )
    ]
    for code, place, message in faults:
        notes.add(code, place, message)
    return replace(document, is_partial=True, has_faults=not document.is_partial) if faults else document


def _note_hints(document: Document, where: str, notes: Notes) -> None:
    """Warn of jobs that did nothing beside others, and of options that fio reads otherwise than meant."""
    jobs = {job.index: job for job in document.jobs}
    for group in document.groups:
        clones = [jobs[index] for index in group.jobs if index in jobs]
        idle = [job for job in clones if not job.error and _is_idle(job)]
        place = f"{where}, {group.name}"
        if 0 < len(idle) < len(clones) and not document.is_partial:
            message = f"{len(idle)} of {len(clones)} entries of this job did no I/O"
            notes.add("idle-jobs", place, f"{message}: was the job given several times on the command line?")
        ramp_s = parse_duration_s(group.options.get("ramp_time", "")) or 0
        runtime_s = parse_duration_s(group.options.get("runtime", "")) or 0
        if 0 < runtime_s < ramp_s:
            message = f"ramp_time ({ramp_s:g} s) is longer than runtime ({runtime_s:g} s)"
            notes.add("ramp-exceeds-runtime", place, f"{message}: fio may measure a moment only")


def _is_idle(job: Job) -> bool:
    return all(direction.total_ios == 0 and not direction.io_bytes for direction in job.directions)


def _list_faults(group: Group, *, is_partial: bool, is_text: bool) -> list[tuple[str, str]]:
    faults = (
        [] if group.directions or is_partial else [("values-missing", "no values of this job could be read")]
    )
    in_flight = 0.0
    for direction in group.directions:
        faults += _list_faults_of_direction(direction, is_partial=is_partial, is_text=is_text)
        if direction.name != "mixed":
            in_flight += _count_in_flight(direction)
    depth = parse_size(group.options.get("iodepth", "1")) or 1
    if "rw" in group.options and in_flight > depth * group.numjobs * _IN_FLIGHT_MAXIMUM:
        message = f"IOPS × latency is {in_flight:.0f} I/Os in flight, but the queue depth is {depth * group.numjobs}"
        faults.append(("latency-contradicts-depth", f"{message}: one of them has another unit"))
    return faults


def _list_faults_of_direction(
    direction: Direction, *, is_partial: bool, is_text: bool
) -> list[tuple[str, str]]:
    faults = []
    runtime_s = direction.runtime_s or 0
    is_unread = direction.iops is None and direction.missing.get("iops") == "not-reported"
    if direction.total_ios and is_unread and direction.name != "sync" and not is_partial:
        message = f"{direction.name}: {direction.total_ios} I/Os were counted, but their rates are missing"
        faults.append(("values-missing", message))
    unreadable = [name for name, reason in direction.missing.items() if reason == "out-of-range"]
    if unreadable and is_text:
        faults.append(("values-missing", f"{direction.name}: {', '.join(unreadable)} cannot be read"))
    if direction.total_ios and direction.iops is not None and runtime_s >= _RUNTIME_MINIMUM_S:
        expected = direction.total_ios / runtime_s
        if abs(direction.iops - expected) > (_RATE_WITHIN - 1) * expected + 1:
            message = f"{direction.iops:.4g} IOPS, but I/Os / run time {expected:.4g}"
            faults.append(("rate-contradicts-counts", f"{direction.name}: {message}"))
    if direction.io_bytes and direction.bandwidth_bytes_per_s and runtime_s >= _RUNTIME_MINIMUM_S:
        expected = direction.io_bytes / runtime_s
        if not 1 / _RATE_WITHIN <= direction.bandwidth_bytes_per_s / expected <= _RATE_WITHIN:
            message = f"bandwidth {direction.bandwidth_bytes_per_s:.4g} B/s, but bytes / run time {expected:.4g} B/s"
            faults.append(("rate-contradicts-bytes", f"{direction.name}: {message}"))
    return faults


def _count_in_flight(direction: Direction) -> float:
    latency = direction.total or direction.completion
    if latency is None or latency.mean_ns is None or direction.iops is None:
        return 0.0
    return direction.iops * latency.mean_ns / 1e9
