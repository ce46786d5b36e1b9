"""One job of fio's text: its block of lines and its header."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.runtime import RUNTIME_IN_US, correct_runtime
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import INTEGER_MAXIMUM, read_amount, read_count, read_errno
from benchapp.fio.report import PRINTED_DIRECTIONS, Direction, DirectionName, Job, SteadyState
from benchapp.fio.text_report.direction import Issued, JobFacts, build_direction, count_issued, read_issued
from benchapp.fio.text_report.draft import JobDraft
from benchapp.fio.text_report.figures import MODERN, read_figure
from benchapp.fio.text_report.header import Header
from benchapp.fio.text_report.latency import read_text_shares
from benchapp.fio.value_sources import IDLE
from benchapp.fio.version import Version
from benchapp.fio.workload.options import AGGREGATE, list_directions_asked

_DEPTH_LENGTH_MAXIMUM: Final = 1000
_PERCENT: Final = r"(\d{1,12}+(?:\.\d{1,9}+)?)%"
_CPU: Final = re.compile(
    rf": usr= *+{_PERCENT}, sys= *+{_PERCENT}, ctx=(\d{{1,20}}+), majf=(\d{{1,20}}+), minf=(\d{{1,20}}+)",
    re.ASCII,
)
_DEPTH: Final = re.compile(r"((?:>=)?[0-9]{1,3}+)= *+([0-9]{1,9}+(?:\.[0-9]{1,9}+)?)%")
_LATENCY_GOAL: Final = re.compile(
    r": target=([\d.]{1,19}+)([num]?s|), window=([\d.]{1,19}+)([num]?s|), percentile=([\d.]{1,12}+)%, "
    r"depth=(\d{1,10}+)",
    re.ASCII,
)
_UNITS_US: Final = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
_STEADY_STATE: Final = re.compile(
    r": attained=(yes|no), bw=([^ ,(]{1,30}+)[^=]{0,40}, iops=([^,]{1,30}+),(?: lat=[^,]{1,40},)? "
    r"(bw|iops|lat) {1,2}(slope|mean dev)=([^\s,]{1,30})"
)
_DESCRIPTION: Final = re.compile(r": \[(.*)\]\s*+$", re.DOTALL)
_RW: Final[tuple[DirectionName, ...]] = ("read", "write", "trim")
# From here latency_target is printed in ns.
_TARGET_IN_NS: Final[Version] = (3, 3, 0)
_NO_SIZES: Final = (None, None, None)


def build_job(
    draft: JobDraft,
    header: Header | None,
    *,
    index: int,
    options: Mapping[str, str],
    version: Version,
    where: str,
    notes: Notes,
) -> Job:
    """Return a job; its options are those that the header prints."""
    where = f"{where}, job {index} ({draft.name})"
    facts = _collect_facts(draft, header, version, where=where)
    if draft.complaint:
        notes.add("job-error", where, f"this job failed with error {draft.error}: {draft.complaint}")
    lines = draft.lines
    goal = _LATENCY_GOAL.match(lines.get("latency", ""))
    user, system, switches, major_faults, minor_faults = _read_processor(lines.get("cpu", ""))
    description = _DESCRIPTION.match(lines.get("Description", ""))
    job = Job(
        index=index,
        name=draft.name,
        groupid=draft.groupid,
        hostname=draft.hostname,
        error=read_errno(draft.error),
        clones=min(draft.clones, INTEGER_MAXIMUM),
        options={**options, **_read_goal(goal, version)} if goal and options else options,
        directions=_build_directions(draft, facts, options, notes),
        description=description[1] if description else None,
        cpu_user_percent=user,
        cpu_system_percent=system,
        context_switches=switches,
        major_faults=major_faults,
        minor_faults=minor_faults,
        depth=_read_depth(lines.get("IO", "")[:_DEPTH_LENGTH_MAXIMUM]),
        depth_submitted=_read_depth(lines.get("submit", "")[:_DEPTH_LENGTH_MAXIMUM]),
        depth_completed=_read_depth(lines.get("complete", "")[:_DEPTH_LENGTH_MAXIMUM]),
        latency_shares=read_text_shares(draft.shares),
        iodepth=min(int(goal[6]), INTEGER_MAXIMUM) or None if goal else None,
        steady_state=_read_steady_state(lines.get("steadystate", "")),
        is_aggregate=draft.name == AGGREGATE,
        has_all_options=False,
    )
    corrected = correct_runtime(job, version)
    if corrected is not None:
        notes.add("runtime-in-us", where, RUNTIME_IN_US)
    return corrected or job


def _collect_facts(draft: JobDraft, header: Header | None, version: Version, *, where: str) -> JobFacts:
    return JobFacts(
        version=version,
        clones=draft.clones,
        # A count that was cut off is another number.
        issued=read_issued(draft.lines["issued"]) if draft.is_whole else Issued(),
        block_sizes=header.block_sizes if header else _NO_SIZES,
        is_whole=draft.is_whole,
        where=where,
    )


def _read_processor(text: str) -> tuple[float | None, float | None, int | None, int | None, int | None]:
    """Read "usr=2.04%, sys=3.25%, ctx=120561, majf=0, minf=58"."""
    match = _CPU.match(text)
    if match is None:
        return (None,) * 5
    switches, major, minor = (read_count(int(count)) for count in match.groups()[2:])
    return float(match[1]), float(match[2]), switches, major, minor


def _build_directions(
    draft: JobDraft, facts: JobFacts, options: Mapping[str, str], notes: Notes
) -> tuple[Direction, ...]:
    """Return the printed directions, and those that were requested or issued but not printed."""
    built: dict[DirectionName, Direction] = {}
    for lines in draft.directions:
        direction = build_direction(lines, facts, notes)
        if direction is not None:
            # Of another job, whose first line is missing.
            built.setdefault(direction.name, direction)
    if "mixed" not in built:
        asked = list_directions_asked(options)
        for name in _RW:
            if name in built:
                continue
            issued = count_issued(facts.issued.total, name)
            if issued or name in asked:
                built[name] = _make_unprinted(name, issued, is_whole=facts.is_whole)
    elif "read" in built or "write" in built or "trim" in built:
        built["mixed"] = _fix_mixed(built["mixed"], [built[name] for name in _RW if name in built])
    return tuple(built[name] for name in PRINTED_DIRECTIONS if name in built)


def _make_unprinted(name: DirectionName, issued: int | None, *, is_whole: bool) -> Direction:
    """Return a direction that fio does not print, as it has no I/O, or whose lines are missing."""
    reason = "not-reported" if issued or not is_whole else "no-io"
    missing = dict.fromkeys(IDLE, reason)
    if not is_whole:
        missing["total_ios"] = reason
    if reason == "not-reported":
        missing |= dict.fromkeys(("io_bytes", "runtime_s"), reason)
        return Direction(name, None, issued, None, None, None, missing=missing)
    return Direction(name, 0, 0, None, None, None, missing=missing)


def _fix_mixed(mixed: Direction, parts: Sequence[Direction]) -> Direction:
    """Add up the values that fio before 3.39 prints as IOPS=0, BW=0 under unified_rw_reporting=both."""
    sizes = [part.io_bytes for part in parts]
    if mixed.io_bytes or not mixed.total_ios or not mixed.runtime_s or None in sizes:
        return mixed
    io_bytes = sum(size or 0 for size in sizes)
    source = "sum of read, write and trim; fio before 3.39 prints 0"
    sources = dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s"), source)
    return replace(
        mixed,
        io_bytes=read_count(io_bytes),
        iops=read_amount(mixed.total_ios / mixed.runtime_s),
        bandwidth_bytes_per_s=read_amount(io_bytes / mixed.runtime_s),
        sources={**mixed.sources, **sources},
    )


# Most jobs keep one depth all along, so that few of these lines differ.
@lru_cache(maxsize=1024)
def _read_depth(text: str) -> Mapping[str, float]:
    return {level: float(share) for level, share in _DEPTH.findall(text)}


def _read_goal(goal: re.Match[str], version: Version) -> Mapping[str, str]:
    """Return the options of latency_target, which fio prints for every job, with a target of 0 where unused."""
    # fio names units since 3.42.
    target_us = _read_goal_us(goal[1], goal[2] or ("ns" if version >= _TARGET_IN_NS else "us"))
    window_us = _read_goal_us(goal[3], goal[4] or "us")
    if not target_us or window_us is None:
        return {}
    return {
        "latency_target": f"{target_us}us",
        "latency_window": f"{window_us}us",
        "latency_percentile": goal[5].rstrip("0").rstrip("."),
    }


def _read_goal_us(text: str, unit: str) -> int | None:
    try:
        return int(round(float(text) * _UNITS_US[unit], 3))
    except ValueError:
        return None


def _read_steady_state(text: str) -> SteadyState | None:
    """Read "attained=yes, bw=105MiB/s (107MB/s), iops=26.9k, bw mean dev=5.712%"; the figure in brackets is wrong."""
    match = _STEADY_STATE.match(text)
    if match is None:
        return None
    attained, bandwidth, iops, what, how, deviation = match.groups()
    rate, count = read_figure(bandwidth, MODERN), read_figure(iops, MODERN)
    return SteadyState(
        criterion=f"{what}_slope" if how == "slope" else what,
        is_attained=attained == "yes",
        deviation=deviation,
        iops=None if count is None else float(count.value),
        bandwidth_bytes_per_s=None if rate is None else float(rate.value),
    )
