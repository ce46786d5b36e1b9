"""How busy this host is, and how busy others keep the devices under test: from /proc, before and after a run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from agent.exit_codes import TryLater

# Long enough that a device's millisecond counters mean something, short enough for every run.
OBSERVATION_S = 1.0


class TooBusy(TryLater):
    """Others need this host or its storage just now: what was measured would be them."""


@dataclass(frozen=True)
class BusyLimits:
    """When a run is put off. None is no limit.

    load: of the last minute; busy_percent: share of time in which others' I/O keeps a device under test busy.
    is_quiet: to put a run off is no failure.
    """

    load: float | None = None
    busy_percent: float | None = None
    is_quiet: bool = False


@dataclass(frozen=True)
class DeviceIo:
    """I/O on the devices under test in a span of time; busy_percent is of the busiest."""

    reads_per_s: float
    writes_per_s: float
    busy_percent: float

    def as_fact(self) -> dict[str, float]:
        """Return what the envelope says of it."""
        return {
            "reads_per_s": round(self.reads_per_s, 1),
            "writes_per_s": round(self.writes_per_s, 1),
            "busy_percent": round(self.busy_percent, 1),
        }


@dataclass(frozen=True)
class Observation:
    """What was seen at one time; None is unknown."""

    load: float | None
    other_io: DeviceIo | None

    def as_facts(self, when: str) -> dict[str, Any]:
        """Return facts of the environment, named for when they were seen: "before" or "after"."""
        facts: dict[str, Any] = {}
        if self.load is not None:
            facts[f"load_{when}"] = self.load
        if self.other_io is not None:
            facts[f"other_io_{when}"] = self.other_io.as_fact()
        return facts


@dataclass(frozen=True)
class _Counters:
    """What a device has done since boot; busy_ms: time with any I/O in flight."""

    reads: int
    writes: int
    busy_ms: int


def observe(disks: Sequence[str], *, root: str = "/", span_s: float | None = None) -> Observation:
    """Look at the load, and at the disks (names as the kernel has them) for span_s, or OBSERVATION_S.

    Call it while nothing of our own does I/O: what is seen then is of others.
    """
    before = read_counters(disks, root=root)
    if not before:
        return Observation(read_load(root=root), None)
    started = time.monotonic()
    time.sleep(OBSERVATION_S if span_s is None else span_s)
    after = read_counters(disks, root=root)
    return Observation(read_load(root=root), find_rates(before, after, elapsed_s=time.monotonic() - started))


def read_load(*, root: str = "/") -> float | None:
    """Return the load average of the last minute, None where the system does not tell."""
    try:
        with open(os.path.join(root, "proc/loadavg"), encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def read_counters(disks: Sequence[str], *, root: str = "/") -> dict[str, _Counters]:
    """Return the counters of the named disks; of those that the kernel counts."""
    try:
        with open(os.path.join(root, "proc/diskstats"), encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return {}
    found = {}
    for row in rows:
        # Documentation/admin-guide/iostats.rst: number, number, name, then 11 or more counters.
        if len(row) >= 14 and row[2] in disks and all(cell.isdigit() for cell in row[3:14]):
            found[row[2]] = _Counters(reads=int(row[3]), writes=int(row[7]), busy_ms=int(row[12]))
    return found


def find_rates(
    before: Mapping[str, _Counters], after: Mapping[str, _Counters], *, elapsed_s: float
) -> DeviceIo | None:
    """Return what happened between two looks, over all disks; None where a disk was gone or its counters fell."""
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
    """Raise TooBusy where a limit is passed; what is unknown passes none."""
    if limits.load is not None and seen.load is not None and seen.load > limits.load:
        raise TooBusy(
            f"the load is {seen.load:.2f} and a run wants at most {limits.load:g}: nothing was measured"
        )
    busy = seen.other_io
    if limits.busy_percent is not None and busy is not None and busy.busy_percent > limits.busy_percent:
        raise TooBusy(
            f"others keep the storage {busy.busy_percent:.0f} % busy ({busy.reads_per_s:.0f} reads/s, "
            f"{busy.writes_per_s:.0f} writes/s) and a run wants at most {limits.busy_percent:g} %: nothing was measured"
        )
