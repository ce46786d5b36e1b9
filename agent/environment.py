"""What may explain a change: kernel, CPU, memory, virtualisation; from /proc, /sys and /etc/os-release only."""

from __future__ import annotations

import os
import re
from typing import Any

from agent.layout import Storage, read_line, read_text

_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_FACTS = {
    "vendor": "sys/class/dmi/id/sys_vendor",
    "product": "sys/class/dmi/id/product_name",
    "bios_version": "sys/class/dmi/id/bios_version",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "smt_active": "sys/devices/system/cpu/smt/active",
    "numa_nodes": "sys/devices/system/node/online",
    "transparent_hugepage": "sys/kernel/mm/transparent_hugepage/enabled",
    "container": "run/systemd/container",
}
# A guest's clock names its hypervisor more surely than the vendor of its mainboard.
_CLOCKS = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}
_VENDORS = {
    "QEMU": "qemu",
    "VMware, Inc.": "vmware",
    "innotek GmbH": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
}


def describe_environment(storage: Storage, *, directory: str, root: str = "/") -> dict[str, Any]:
    """Return the environment as the envelope holds it; nothing in it changes from run to run by itself."""
    cpuinfo = read_text(root, "proc/cpuinfo")
    facts = {name: value for name, path in _FACTS.items() if (value := read_line(root, path)) is not None}
    return {
        "kernel": read_line(root, "proc/sys/kernel/osrelease"),
        "os": _read_os(root),
        "cpu_model": _read_cpu_field(cpuinfo, "model name"),
        "cpu_count": _count_cpus(root, cpuinfo),
        "memory_bytes": _read_memory(root),
        "governor": _read_governor(root),
        "virtualization": _find_virtualization(root, cpuinfo),
        **{name: storage.environment.get(name) for name in ("scheduler", "device_model", "device_firmware")},
        "facts": {**facts, "directory": directory, **storage.facts},
    }


def find_instance_type(*, root: str = "/") -> str | None:
    """Return the instance type where the firmware names it, as EC2's Nitro does; None everywhere else."""
    if read_line(root, _FACTS["vendor"]) == "Amazon EC2":
        return read_line(root, _FACTS["product"])
    return None


def _read_os(root: str) -> str | None:
    for path in _OS_RELEASE:
        match = re.search(r"^PRETTY_NAME=(.*)$", read_text(root, path), re.MULTILINE)
        if match:
            return match.group(1).strip().strip("\"'") or None
    return None


def _read_cpu_field(cpuinfo: str, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return re.sub(r"\s+", " ", match.group(1)).strip() if match else None


def _count_cpus(root: str, cpuinfo: str) -> int | None:
    online = read_line(root, "sys/devices/system/cpu/online")
    if online and re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", online):
        ranges = [part.partition("-") for part in online.split(",")]
        return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
    return len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)) or None


def _read_memory(root: str) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", read_text(root, "proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _read_governor(root: str) -> str | None:
    """Return the governor that all CPUs have, or all of them where they differ."""
    directory = os.path.join(root, "sys/devices/system/cpu")
    try:
        cpus = [name for name in os.listdir(directory) if re.fullmatch(r"cpu\d+", name)]
    except OSError:
        return None
    governors = {read_line(directory, cpu, "cpufreq/scaling_governor") for cpu in cpus}
    return ",".join(sorted(governor for governor in governors if governor)) or None


def _find_virtualization(root: str, cpuinfo: str) -> str | None:
    """Return the hypervisor, "none" on bare metal, "other" where there is one of no name, None where unknown."""
    hypervisor = read_line(root, "sys/hypervisor/type")
    if hypervisor:
        return hypervisor
    clocks = read_text(root, "sys/devices/system/clocksource/clocksource0/available_clocksource").split()
    named = next((_CLOCKS[clock] for clock in clocks if clock in _CLOCKS), None)
    vendor = _VENDORS.get(read_line(root, _FACTS["vendor"]) or "")
    if named or vendor:
        return named or vendor
    flags = _read_cpu_field(cpuinfo, "flags")
    if flags is None:
        return None  # not x86: nothing here tells
    return "other" if "hypervisor" in flags.split() else "none"
