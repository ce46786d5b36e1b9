"""What can slow the whole machine down during a run: suspend, thermal throttling, CPU quota, frequency governor."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from agent.environment.control_groups import read_throttled_s
from agent.storage.sysfs import keep_known, list_directory, read_line, read_number

_CPUS = "sys/devices/system/cpu"
# Both clocks are read one after the other; a suspend takes longer.
_SUSPEND_MINIMUM_S = 1.0


@dataclass(frozen=True)
class MachineState:
    """Counters since boot and settings at one time; None if unknown.

    suspended_s: time in suspend; throttle_events: thermal throttling of cores and packages; quota_s: time in which the
    process's control group had used up its CPU quota; governor: of all CPUs, different ones joined by commas.
    """

    suspended_s: float | None
    throttle_events: int | None
    quota_s: float | None
    governor: str | None


def read_machine_state(*, root: str = "/") -> MachineState:
    """Return the current state; from clocks, /sys and control groups."""
    return MachineState(
        _read_suspended(), _count_throttles(root), read_throttled_s(root=root), read_governor(root)
    )


def describe_interference(before: MachineState, after: MachineState) -> dict[str, Any]:
    """Return conditions of a run: what happened between two states, with zeros and "none" if nothing did.

    Zeros are recorded as well, so that a later run with another value differs from this one.
    """
    suspended_s = _subtract(after.suspended_s, before.suspended_s)
    quota_s = _subtract(after.quota_s, before.quota_s)
    if suspended_s is not None:
        suspended_s = round(suspended_s, 1) if suspended_s >= _SUSPEND_MINIMUM_S else 0
    change = "none" if before.governor == after.governor else f"{before.governor} → {after.governor}"
    return keep_known(
        suspended_s=suspended_s,
        cpu_throttle_events=_subtract(after.throttle_events, before.throttle_events),
        cpu_quota_throttled_s=None if quota_s is None else round(quota_s, 1),
        governor_change=None if before.governor is None or after.governor is None else change,
    )


def list_interference(conditions: dict[str, Any]) -> list[str]:
    """Return a sentence for each condition of describe_interference that impairs a result."""
    texts = (
        ("suspended_s", "the machine was suspended for {} s during the run; results include the wake-up"),
        (
            "cpu_throttle_events",
            "the CPU was throttled {} times during the run; check cooling and power limits",
        ),
        (
            "cpu_quota_throttled_s",
            "the CPU quota of the control group was used up for {} s; raise cpu.max or CPUQuota",
        ),
        (
            "governor_change",
            "the frequency governor changed during the run: {}; fix it, for example with cpupower",
        ),
    )
    return [
        text.format(conditions[name]) for name, text in texts if conditions.get(name) not in (None, 0, "none")
    ]


def read_governor(root: str) -> str | None:
    """Return the frequency governor of all CPUs; different ones are joined by commas."""
    return read_of_cpus(root, "scaling_governor")


def read_of_cpus(root: str, name: str) -> str | None:
    """Return a cpufreq setting of all CPUs; different values are joined by commas."""
    values = {read_line(root, _CPUS, cpu, "cpufreq", name) for cpu in _list_cpus(root)}
    return ",".join(sorted(value for value in values if value)) or None


def _list_cpus(root: str) -> list[str]:
    return [cpu for cpu in list_directory(root, _CPUS) if re.fullmatch(r"cpu\d+", cpu)]


def _read_suspended() -> float | None:
    """Return the time in suspend since boot; None on systems without both clocks."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    if boot_clock is None:
        return None
    # CLOCK_MONOTONIC stops in suspend, CLOCK_BOOTTIME does not: clock_gettime(2).
    return time.clock_gettime(boot_clock) - time.clock_gettime(time.CLOCK_MONOTONIC)


def _count_throttles(root: str) -> int | None:
    """Return the throttle events of all cores, and of the packages, which each CPU of a package counts."""
    cpus = [f"{_CPUS}/{cpu}/thermal_throttle" for cpu in _list_cpus(root)]
    cores = [count for cpu in cpus if (count := read_number(root, cpu, "core_throttle_count")) is not None]
    packages = [
        count for cpu in cpus if (count := read_number(root, cpu, "package_throttle_count")) is not None
    ]
    return sum(cores) + max(packages, default=0) if cores or packages else None


def _subtract(after: Any, before: Any) -> Any:
    """Return the increase; None if unknown or if the counter was reset."""
    return None if after is None or before is None or after < before else after - before
