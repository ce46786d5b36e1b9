"""One-line titles of workloads, targets and series: at most TITLE_MAXIMUM characters.

Pure: works on any object with the columns. Also: order and display of the values of a dimension.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from benchapp.catalog.dimensions import (
    DIMENSIONS,
    describe_pattern,
    get_filter_dimension,
    name_direction,
    name_rw,
    split_pattern,
)
from benchapp.catalog.grammar import Value
from benchapp.catalog.metrics import cut_text, format_integer, format_value, join_first, lower_label
from benchapp.fio.workload import SIZE_OPTIONS, TIME_OPTIONS, UNKNOWN_ORDER

UNKNOWN_LAYOUT: Final = "unknown layout"
# Three lines of a page. A title has texts that a document may choose, and is repeated in every list.
TITLE_MAXIMUM: Final = 300
# Of the targets of one run.
_TARGETS_NAMED: Final = 3

# Marker in a workload's options if the report does not list all of them.
_OPTIONS_UNKNOWN: Final = ("options", "not-reported")
_MIXED: Final = frozenset({"rw", "randrw", "trimwrite", "randtrimwrite", "unknown-rw"})
# Shown only if different: nearly every workload on Linux uses it.
_USUAL_ENGINE: Final = "libaio"
# The engine of shell timings.
_SHELL: Final = "shell"
# What `beside` lists, as the identity of series has it.
_BESIDE: Final = re.compile(r"(\S+) (.*?) iodepth (None|\d+) numjobs (None|\d+) × (\d+)(?:, |$)")
_ALL_BESIDE: Final = re.compile(f"(?:{_BESIDE.pattern})+")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_BINARY: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SHORT: Final = ((2**40, "T"), (2**30, "G"), (2**20, "M"), (2**10, "k"))


class TargetTitleColumns(Protocol):
    """Columns of a target's title: Target, Series or TargetRow."""

    @property
    def target_name(self) -> str | None: ...
    @property
    def volume_type(self) -> str | None: ...
    @property
    def volume_size_bytes(self) -> int | None: ...
    @property
    def volume_count(self) -> int | None: ...
    @property
    def provisioned_iops(self) -> int | None: ...
    @property
    def raid_level(self) -> str | None: ...
    @property
    def stripe_count(self) -> int | None: ...
    @property
    def chunk_size_bytes(self) -> int | None: ...
    @property
    def filesystem(self) -> str | None: ...
    @property
    def instance_type(self) -> str | None: ...


class WorkloadTitleColumns(Protocol):
    """Columns of a workload's title: Workload, Series or WorkloadRow."""

    @property
    def rw(self) -> str: ...
    @property
    def block_size_bytes(self) -> int | None: ...
    @property
    def block_size_text(self) -> str: ...
    @property
    def iodepth(self) -> int | None: ...
    @property
    def numjobs(self) -> int | None: ...
    @property
    def file_size_bytes(self) -> int | None: ...
    @property
    def file_size_text(self) -> str: ...
    @property
    def is_direct(self) -> bool | None: ...
    @property
    def engine(self) -> str: ...
    @property
    def read_share_percent(self) -> int | None: ...
    @property
    def runtime_s(self) -> float | None: ...
    @property
    def options(self) -> Mapping[str, Any]: ...


def describe_workload(workload: WorkloadTitleColumns, *, direction: str = "") -> str:
    """Return a workload in one line: "4k random read · QD 8 × 1 job · 64 MiB file".

    direction: of a series; included for mixed workloads ("70 % reads, the writes").
    """
    return cut_text(" · ".join(_format_workload(workload, direction)), TITLE_MAXIMUM)


def describe_target(target: TargetTitleColumns) -> str:
    """Return a target in one line: "ext4 on 4 × gp3 500 GiB, RAID0, chunk 64 KiB"; "unknown layout" if it is."""
    volumes = _format_volumes(target)
    storage = " on ".join(part for part in (target.filesystem or "", volumes) if part)
    parts = [part for part in (storage, *_format_striping(target)) if part]
    if target.instance_type:
        parts.append(f"on {target.instance_type}" if parts else target.instance_type)
    layout = ", ".join(parts)
    if target.target_name:
        layout = f"{target.target_name}: {layout}" if layout else target.target_name
    return cut_text(layout or UNKNOWN_LAYOUT, TITLE_MAXIMUM)


def join_titles(workload_title: str, target_title: str) -> str:
    """Return what a series measures, without its scope; an unknown layout is omitted."""
    if target_title == UNKNOWN_LAYOUT:
        return workload_title
    return cut_text(f"{workload_title} · {target_title}", TITLE_MAXIMUM)


def describe_block_size(workload: WorkloadTitleColumns) -> str:
    """Return a block size in fio syntax (4k, 1M), or the text if it is not a single number; "" if unknown."""
    if workload.block_size_bytes is None:
        return workload.block_size_text
    return format_short_size(workload.block_size_bytes)


def name_place(scope: str, *target_names: str | None) -> str:
    """Return host or pool, and the targets that have a name, of many the first: "db-1, /data"."""
    names = join_first(list(filter(None, target_names)), _TARGETS_NAMED)
    return f"{name_scope(scope)}, {names}" if names else name_scope(scope)


def name_scope(scope: str) -> str:
    """Return the name of the pool or host of a scope."""
    return scope.partition(":")[2]


def _format_workload(workload: WorkloadTitleColumns, direction: str) -> Iterator[str]:
    if workload.engine == _SHELL:
        yield _format_small_files(workload)
        return
    pattern = _format_pattern(workload)
    if workload.rw in _MIXED and workload.read_share_percent is not None and "trim" not in workload.rw:
        pattern += f" {workload.read_share_percent}/{100 - workload.read_share_percent}"
    if direction and workload.rw in _MIXED:
        pattern += f", {name_direction(direction)}"
    elif direction == "sync":
        pattern += ", syncs"
    if shown := f"{describe_block_size(workload)} {pattern}".strip():
        yield shown
    depth = [] if workload.iodepth is None else [f"QD {workload.iodepth}"]
    jobs = [f"{workload.numjobs} {'job' if workload.numjobs == 1 else 'jobs'}"] if workload.numjobs else []
    if depth or jobs:
        yield " × ".join([*depth, *jobs])
    if workload.file_size_bytes is not None:
        yield f"{format_size(workload.file_size_bytes)} file"
    elif workload.file_size_text:
        yield f"{workload.file_size_text} file"
    if workload.is_direct is False:
        yield "buffered"
    if workload.engine and workload.engine != _USUAL_ENGINE:
        yield workload.engine
    options = describe_options(workload)
    is_time_based = options.pop("time_based", "") == "1"
    if workload.runtime_s:
        yield f"{'' if is_time_based else '≤ '}{workload.runtime_s:g} s"
    job = options.pop("job", "") if _OPTIONS_UNKNOWN in options.items() else ""
    for name, value in sorted(options.items()):
        if (name, value) == _OPTIONS_UNKNOWN:
            unknown = "other options unknown" if workload.engine else "options unknown"
            yield f"{unknown} (job {job})" if job else unknown
        else:
            yield f"{name.replace('_', ' ')} {value}"


def describe_options(workload: WorkloadTitleColumns) -> dict[str, str]:
    """Return the further options of a workload by fio's names, values in words and units: offset is "128 MiB"."""
    is_order_known = not workload.rw.startswith(UNKNOWN_ORDER)
    return {
        name: _describe_option(name, str(value), is_order_known=is_order_known)
        for name, value in workload.options.items()
    }


def _describe_option(name: str, value: str, *, is_order_known: bool) -> str:
    if name == "beside" and _ALL_BESIDE.fullmatch(value):
        others = _BESIDE.finditer(value)
        return "; ".join(_describe_beside(*other.groups(), is_order_known=is_order_known) for other in others)
    if name in SIZE_OPTIONS:
        unit = "/s" if name.startswith("rate") else ""
        parts = value.split(",")
        return ", ".join(format_size(int(part)) + unit if _WHOLE.fullmatch(part) else part for part in parts)
    if name in TIME_OPTIONS and _DECIMAL.fullmatch(value):
        seconds = float(value)
        return f"{seconds:g} s" if seconds >= 1 else format_value(seconds * 1e9, "ns")
    return value


def _describe_beside(
    rw: str, size: str, depth: str, numjobs: str, count: str, *, is_order_known: bool
) -> str:
    # The identity has "read" for a sequential one and for one whose order is unknown.
    pattern = name_rw(rw) if is_order_known else rw
    blocks = format_short_size(int(size)) if _WHOLE.fullmatch(size) else size
    jobs = count if numjobs == "1" else f"{count} × {numjobs}"
    queue = "unknown depth" if depth == "None" else f"QD {depth}"
    number = "unknown number of jobs" if numjobs == "None" else f"{jobs} {'job' if jobs == '1' else 'jobs'}"
    return f"{pattern} {blocks}".strip() + f", {queue} ({number})"


def _format_small_files(workload: WorkloadTitleColumns) -> str:
    """Return the title of a shell timing: no depth, no block size, one job."""
    count = workload.options.get("nrfiles")
    files = f"{count} small files" if count else "small files"
    return f"{files} {'written' if workload.rw == 'write' else 'read'} by the shell"


def _format_pattern(workload: WorkloadTitleColumns) -> str:
    return name_rw(workload.rw) or "unknown pattern"


def _format_volumes(target: TargetTitleColumns) -> str:
    size = "" if target.volume_size_bytes is None else format_size(target.volume_size_bytes)
    kind = target.volume_type or ""
    if target.volume_count is None:
        return " ".join(part for part in (kind, size) if part)
    return " ".join(
        part for part in (f"{target.volume_count} ×", kind or ("" if size else "volume"), size) if part
    )


def _format_striping(target: TargetTitleColumns) -> Iterator[str]:
    if target.provisioned_iops is not None:
        yield f"{target.provisioned_iops} IOPS provisioned"
    # "none" is known, but not shown: a single volume is not striped.
    if target.raid_level and target.raid_level != "none":
        yield _format_raid(target.raid_level)
    if target.stripe_count is not None and (target.stripe_count, target.volume_count) != (1, 1):
        yield f"{target.stripe_count} {'stripe' if target.stripe_count == 1 else 'stripes'}"
    if target.chunk_size_bytes is not None:
        yield f"chunk {format_size(target.chunk_size_bytes)}"


def _format_raid(level: str) -> str:
    if level.isdigit():
        return f"RAID{level}"
    return level.upper() if level.lower().startswith("raid") else level


def format_size(size_bytes: int) -> str:
    """Format a size: "64 MiB"."""
    return _format_size(size_bytes, _BINARY, separator=" ")


def format_short_size(size_bytes: int) -> str:
    """Format a size in fio syntax: "4k"."""
    return _format_size(size_bytes, _SHORT, separator="")


def _format_size(size_bytes: int, units: tuple[tuple[int, str], ...], *, separator: str) -> str:
    """Format a size exactly in up to four digits (1536 KiB), else in the largest unit with one decimal (465.7 GiB)."""
    for factor, unit in units:
        if size_bytes % factor == 0 and 0 < size_bytes // factor < 10_000:
            return f"{size_bytes // factor}{separator}{unit}"
    for factor, unit in units:
        if size_bytes >= max(factor, 10_000):
            return f"{size_bytes / factor:.1f}{separator}{unit}"
    return f"{size_bytes} B" if separator else str(size_bytes)


UNKNOWN: Final = "unknown"
# Order of patterns: sequential before random, reads before writes.
_ORDER: Final = (
    *("read", "write", "rw", "readwrite", "randread", "randwrite", "randrw"),
    *("unknown-read", "unknown-write", "unknown-rw"),
)
_FLAGS: Final = {"is_direct": ("buffered", "direct")}
# Singular and plural of what is counted.
_COUNTED: Final = {
    "volume_count": ("volume", "volumes"),
    "stripe_count": ("stripe", "stripes"),
    "numjobs": ("job", "jobs"),
}
_BEFORE: Final = {"iodepth": "QD"}
_AFTER: Final = {
    "file_size_bytes": "files",
    "volume_size_bytes": "volumes",
    "block_size_bytes": "blocks",
    "chunk_size_bytes": "chunks",
}


def describe_value(name: str, value: Value | None) -> str:
    """Format a value of a dimension for an axis or a header: "5 GiB", "4k", "random read", "16"."""
    if value is None or value == "":
        return UNKNOWN
    if name in ("pattern", "rw"):
        return describe_pattern(str(value))
    kind = get_filter_dimension(name).kind
    if kind == "flag":
        return _FLAGS.get(name, ("no", "yes"))[bool(value)]
    if name == "block_size_bytes":
        return format_short_size(int(value))
    if kind == "size":
        return format_size(int(value))
    if kind == "seconds":
        return f"{value:g} s"
    if kind == "percent":
        return f"{value:g} %"
    return str(value) if isinstance(value, str) or kind == "text" else format_integer(value)


def describe_setting(name: str, value: Value | None) -> str:
    """Format a value of a dimension for use without a header: "5 GiB files", "16 volumes", "host db-01"."""
    shown = describe_value(name, value)
    if shown == UNKNOWN:
        return f"unknown {lower_label(DIMENSIONS[name].label)}"
    if name in _COUNTED:
        return f"{shown} {_COUNTED[name][value != 1]}"
    if name in _AFTER:
        return f"{shown} {_AFTER[name]}"
    if name == "provisioned_iops":
        return f"{shown} IOPS provisioned"
    if name == "is_direct":
        return f"{shown} I/O"
    if name == "raid_level":
        return "no RAID" if value == "none" else _format_raid(str(value))
    if name in ("host", "pool"):
        return f"{name} {shown}"
    return f"{_BEFORE[name]} {shown}" if name in _BEFORE else shown


def order_value(name: str, value: Value | None) -> tuple[Any, ...]:
    """Return the sort key of a value: numbers by size, patterns in their fixed order, unknown last."""
    if value is None or value == "":
        return (2, 0, "")
    if name in ("pattern", "rw"):
        rw = split_pattern(str(value))[0]
        return (0, _ORDER.index(rw) if rw in _ORDER else len(_ORDER), str(value))
    return (0, 0, str(value)) if get_filter_dimension(name).kind == "text" else (0, value, "")
