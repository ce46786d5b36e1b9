"""The requested workload, typed and canonical: the part of a series' identity that fio reports."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.report import Group
from benchapp.fio.workload.blocksize import read_block_size
from benchapp.fio.workload.identity import list_further_options
from benchapp.fio.workload.options import is_set
from benchapp.fio.workload.sizes import parse_duration_s, parse_size

_ALIASES: Final = {"readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "timeout": "runtime"}
_SHARES: Final = {"read": 100, "randread": 100, "rw": None, "randrw": None}
_DEFAULT_SHARE: Final = 50
# Before the directions of a job whose options are unknown: it may be random or sequential.
UNKNOWN_ORDER: Final = "unknown-"
# fio 2.3 and later, which print options, have it on all systems but Windows.
_DEFAULT_ENGINE: Final = "psync"
# A run that ends at its runtime stops within a few ms of it; one that ends earlier is rarely this close.
_CUT_SHARE: Final = 0.98
# Longest texts that a column for one keeps.
_RW_LENGTH: Final = 20
_ENGINE_LENGTH: Final = 50
_BLOCK_SIZE_LENGTH: Final = 200
_FILE_SIZE_LENGTH: Final = 100
# Workloads that are kept, and the length of their options: most runs of a host repeat a few jobs.
_KEPT_MAXIMUM: Final = 1024
_KEPT_LENGTH_MAXIMUM: Final = 4096


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload, in canonical form.

    rw: fio's canonical name (readwrite is rw); without options "unknown-read", "unknown-rw"… of what it did, or "".
    block_size_bytes: None for ranges and splits, which are in block_size_text ("4096-16384",
      "4096/60:65536/40", "4096,8192" for reads and writes).
    file_size_bytes: of `size`, else `filesize`; None for a percentage (then file_size_text has it, "100%") and
      if not set.
    iodepth, is_direct: None if fio did not print these options.
    read_share_percent: 100 for reads, 0 for writes and trims, rwmixread for mixed ones; None if not known.
    is_time_based: as configured; inferred for fio before 3.39, which does not print the option without a value.
    extra: further options that change what is measured, canonical; without paths, names and reporting options.
    """

    rw: str
    block_size_bytes: int | None
    block_size_text: str
    iodepth: int | None
    numjobs: int
    file_size_bytes: int | None
    file_size_text: str
    is_direct: bool | None
    engine: str
    read_share_percent: int | None
    runtime_s: float | None
    is_time_based: bool
    extra: Mapping[str, str]


class _RequestedWorkload(NamedTuple):
    """What a workload depends on, without the results. name: only where some options are not printed."""

    options: tuple[tuple[str, str], ...]
    has_all_options: bool
    name: str
    numjobs: int
    iodepth: int | None

    @property
    def is_short(self) -> bool:
        """Return whether the workload can be kept: options are texts of any length."""
        return len(self.name) + sum(map(len, chain.from_iterable(self.options))) <= _KEPT_LENGTH_MAXIMUM


def read_workload(group: Group) -> WorkloadSpec:
    """Return the workload of a group from its effective options and, where it has none, from what it did."""
    if not group.options:
        return _read_without_options(group)
    name = "" if group.has_all_options else group.name
    asked = _RequestedWorkload(
        tuple(group.options.items()), group.has_all_options, name, group.numjobs, iodepth=group.iodepth
    )
    spec = _read_kept(asked) if asked.is_short else _read_requested(asked)
    if not spec.is_time_based and _was_cut(group, spec.runtime_s):
        return replace(spec, is_time_based=True)
    return spec


def _read_requested(asked: _RequestedWorkload) -> WorkloadSpec:
    options = {_ALIASES.get(name, name): value for name, value in asked.options}
    kb_base = 1000 if options.get("kb_base") == "1000" else 1024
    extra = list_further_options(options, kb_base=kb_base)
    if not asked.has_all_options:
        extra |= {"options": "not-reported", "job": asked.name}
    rw, modifier = _read_rw(options)
    if modifier:
        extra["rw_modifier"] = modifier
    block_size = read_block_size(options, rw, kb_base=kb_base)
    size_text = options.get("size") or options.get("filesize") or ""
    size_bytes = parse_size(size_text, kb_base=kb_base)
    return WorkloadSpec(
        rw=fit_text(rw, _RW_LENGTH),
        block_size_bytes=block_size.size_bytes,
        block_size_text=fit_text(block_size.text, _BLOCK_SIZE_LENGTH),
        iodepth=_read_iodepth(options, asked.iodepth),
        numjobs=asked.numjobs,
        file_size_bytes=size_bytes,
        file_size_text=""
        if size_bytes is not None
        else fit_text(size_text.strip().lower(), _FILE_SIZE_LENGTH),
        is_direct=_is_direct(options, has_all=asked.has_all_options),
        engine=fit_text(options.get("ioengine", "").strip() or _DEFAULT_ENGINE, _ENGINE_LENGTH),
        read_share_percent=_read_share(options, rw, has_all=asked.has_all_options),
        runtime_s=parse_duration_s(options.get("runtime", "")) or None,
        is_time_based=is_set(options, "time_based"),
        extra=dict(sorted(extra.items())),
    )


_read_kept = lru_cache(maxsize=_KEPT_MAXIMUM)(_read_requested)


def _read_rw(options: Mapping[str, str]) -> tuple[str, str]:
    """Return kind and modifier of "randrw:8", which does 8 I/Os before it seeks."""
    kind, _, modifier = options.get("rw", "read").strip().lower().partition(":")
    kind = {"readwrite": "rw", "": "read"}.get(kind, kind)
    return kind, modifier


def _read_iodepth(options: Mapping[str, str], in_effect: int | None) -> int:
    depth = parse_size(options.get("iodepth", "")) or in_effect or 1
    return min(depth, INTEGER_MAXIMUM)


def _is_direct(options: Mapping[str, str], *, has_all: bool) -> bool | None:
    if not has_all and not options.keys() & {"direct", "buffered"}:
        return None
    return is_set(options, "direct") or options.get("buffered", "").strip() == "0"


def _read_share(options: Mapping[str, str], rw: str, *, has_all: bool) -> int | None:
    share = _SHARES.get(rw, 0)
    if share is not None:
        return share
    reads, writes = parse_size(options.get("rwmixread", "")), parse_size(options.get("rwmixwrite", ""))
    if reads is None and writes is not None:
        reads = 100 - writes
    if reads is None:
        return _DEFAULT_SHARE if has_all else None
    return reads if 0 <= reads <= 100 else None


def _was_cut(group: Group, runtime_s: float | None) -> bool:
    if not runtime_s:
        return False
    return any((direction.runtime_s or 0) >= runtime_s * _CUT_SHARE for direction in group.directions)


def fit_text(text: str, length: int) -> str:
    """Return a text of at most `length` characters; of a longer one its beginning and a digest: still unique."""
    if len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: length - len(digest) - 1]}…{digest}"


def _read_without_options(group: Group) -> WorkloadSpec:
    """Return what can be seen of a job whose options fio did not print; its name keeps it apart from others."""
    done = {
        direction.name: direction
        for direction in group.directions
        if direction.name in ("read", "write", "trim", "mixed") and direction.io_bytes
    }
    rw = "rw" if len(done) > 1 or "mixed" in done else next(iter(done), "")
    sizes = {
        direction.io_bytes / direction.total_ios
        for direction in done.values()
        if direction.io_bytes and direction.total_ios
    }
    size = sizes.pop() if len(sizes) == 1 else 0.0
    return WorkloadSpec(
        rw=f"{UNKNOWN_ORDER}{rw}" if rw else "",
        block_size_bytes=int(size) if size and size.is_integer() else None,
        block_size_text="",
        iodepth=None if group.iodepth is None else min(group.iodepth, INTEGER_MAXIMUM),
        numjobs=group.numjobs,
        file_size_bytes=None,
        file_size_text="",
        is_direct=None,
        engine="",
        read_share_percent=_SHARES.get(rw, 0) if rw else None,
        runtime_s=None,
        is_time_based=False,
        extra={"options": "not-reported", "job": group.name},
    )
