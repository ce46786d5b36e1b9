"""Load of this host, and I/O of other processes on the devices under test: from /proc, before and after a run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from agent.exit_codes import TryLater
from agent.storage.sysfs import read_text

# Long enough for counters in milliseconds, short enough for every run.
OBSERVATION_S = 1.0


class TooBusy(TryLater):
    """Other processes load this host or its storage; a measurement would not be valid."""

    reason_code = "busy"


@dataclass(frozen=True)
class BusyLimits:
    """When a run is skipped. None: no limit.

    load: 1-minute load average; busy_percent: share of time in which other I/O keeps a device under test busy.
    is_quiet: a skipped run is not a failure.
    """

    load: float | None = None
    busy_percent: float | None = None
    is_quiet: bool = False


@dataclass(frozen=True)
class DeviceIo:
    """I/O on the devices under test; busy_percent: of the busiest device."""

    reads_per_s: float
    writes_per_s: float
    busy_percent: float

    def as_fact(self) -> dict[str, float]:
        """Return the fact for the envelope."""
        return {name: round(value, 1) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Observation:
    """Load and other I/O at one time; None if unknown."""

    load: float | None
    other_io: DeviceIo | None

    def as_facts(self, when: str) -> dict[str, Any]:
        """Return facts with the suffix "before" or "after"."""
        facts: dict[str, Any] = {}
        if self.load is not None:
            facts[f"load_{when}"] = self.load
        if self.other_io is not None:
            facts[f"other_io_{when}"] = self.other_io.as_fact()
        return facts


@dataclass(frozen=True)
class _Counters:
    """Counters of a device since boot; busy_ms: time with any I/O in flight."""

    reads: int
    writes: int
    busy_ms: int


def observe(disks: Sequence[str], *, root: str = "/", span_s: float | None = None) -> Observation:
    """Return the load, and the I/O of disks (kernel names) during span_s, by default OBSERVATION_S.

    Call it while the agent does no I/O, so that it measures other processes only.
    """
    before = read_counters(disks, root=root)
    if not before:
        return Observation(read_load(root=root), None)
    started = time.monotonic()
    time.sleep(OBSERVATION_S if span_s is None else span_s)
    after = read_counters(disks, root=root)
    return Observation(read_load(root=root), find_rates(before, after, elapsed_s=time.monotonic() - started))


def read_load(*, root: str = "/") -> float | None:
    """Return the 1-minute load average, None if not available."""
    try:
        return float(read_text(root, "proc/loadavg").split()[0])
    except (ValueError, IndexError):
        return None


def read_counters(disks: Sequence[str], *, root: str = "/") -> dict[str, _Counters]:
    """Return the counters of the named disks, as far as the kernel has them."""
    found = {}
    for row in map(str.split, read_text(root, "proc/diskstats").splitlines()):
        # Documentation/admin-guide/iostats.rst: number, number, name, then 11 or more counters.
        if len(row) >= 14 and row[2] in disks and all(cell.isdigit() for cell in row[3:14]):
            found[row[2]] = _Counters(reads=int(row[3]), writes=int(row[7]), busy_ms=int(row[12]))
    return found


def find_rates(
    before: Mapping[str, _Counters], after: Mapping[str, _Counters], *, elapsed_s: float
) -> DeviceIo | None:
    """Return rates between two readings, over all disks; None if a disk is missing or a counter decreased."""
    if not before or set(before) != set(after) or elapsed_s <= 0:
        return None
    reads = writes = 0
    busy_percent = 0.0
    for name, first in before.items():
        last = after[name]
        if last.reads < first.reads or last.writes < first.writes or last.busy_ms < first.busy_ms:
            return None
        reads += last.reads - first.reads
        writes += last.writes - first.writes
        busy_percent = max(busy_percent, (last.busy_ms - first.busy_ms) / 10 / elapsed_s)
    return DeviceIo(reads / elapsed_s, writes / elapsed_s, min(busy_percent, 100.0))


def check_load(limits: BusyLimits, seen: Observation) -> None:
    """Raise TooBusy if a limit is exceeded; unknown values exceed none."""
    if limits.load is not None and seen.load is not None and seen.load > limits.load:
        raise TooBusy(f"load {seen.load:.2f} exceeds the limit of {limits.load:g}; nothing was measured")
    busy = seen.other_io
    if limits.busy_percent is not None and busy is not None and busy.busy_percent > limits.busy_percent:
        raise TooBusy(
            f"other I/O keeps the storage {busy.busy_percent:.0f} % busy ({busy.reads_per_s:.0f} reads/s, "
            f"{busy.writes_per_s:.0f} writes/s), limit {limits.busy_percent:g} %; nothing was measured"
        )
