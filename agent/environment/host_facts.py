"""The environment of a run: kernel, CPU, memory, virtualization, time zone, cloud instance."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from agent.delivery.client import Client, Response
from agent.environment.control_groups import describe_limits, find_container
from agent.environment.machine_state import read_governor, read_of_cpus
from agent.storage.disk_facts import hash_identifier
from agent.storage.layout import Storage
from agent.storage.sysfs import keep_known, list_directory, read_choice, read_line, read_text

ADDRESS = ("169.254.169.254", 80)
# For all requests together: a service responds within a few milliseconds, or there is none.
LIMIT_S = 0.2
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# The same on every machine of Azure.
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_STORAGE_FIELDS = ("scheduler", "device_model", "device_firmware", "device_driver", "device_class")
_FACTS = {
    "vendor": "sys/class/dmi/id/sys_vendor",
    "product": "sys/class/dmi/id/product_name",
    "bios_version": "sys/class/dmi/id/bios_version",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "smt_active": "sys/devices/system/cpu/smt/active",
    "numa_nodes": "sys/devices/system/node/online",
    "turbo_off": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "idle_driver": "sys/devices/system/cpu/cpuidle/current_driver",
    "swappiness": "proc/sys/vm/swappiness",
    "dirty_ratio": "proc/sys/vm/dirty_ratio",
    "dirty_background_ratio": "proc/sys/vm/dirty_background_ratio",
    "dirty_bytes": "proc/sys/vm/dirty_bytes",
}
_VULNERABILITIES = "sys/devices/system/cpu/vulnerabilities"
# Only these parameters of the kernel's command line are sent; others may be confidential.
_KERNEL_PARAMETERS = re.compile(
    r"(mitigations|spectre_v2|pti|nopti|l1tf|mds|tsx|nosmt|idle|elevator|isolcpus|nohz_full|rcu_nocbs"
    r"|transparent_hugepage|numa_balancing|iommu|intel_iommu|amd_iommu|iommu\.\w+|pcie_aspm|intel_pstate|amd_pstate"
    r"|intel_idle\.\w+|processor\.\w+|nvme\.\w+|nvme_core\.\w+|scsi_mod\.\w+|dm_mod\.use_blk_mq|clocksource|tsc)(=.*)?"
)
# A guest's clock source identifies its hypervisor more reliably than the DMI vendor.
_CLOCKS = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}
_VENDORS = {
    "QEMU": "qemu",
    "VMware, Inc.": "vmware",
    "innotek GmbH": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
}
# Implementer and part of processors in servers, from the kernel's cputype.h.
_ARM_CPUS = {
    "0x41/0xd03": "Cortex-A53",
    "0x41/0xd08": "Cortex-A72",
    "0x41/0xd0b": "Cortex-A76",
    "0x41/0xd0c": "Neoverse-N1",
    "0x41/0xd40": "Neoverse-V1",
    "0x41/0xd49": "Neoverse-N2",
    "0x41/0xd4f": "Neoverse-V2",
    "0x41/0xd84": "Neoverse-V3",
    "0x41/0xd8e": "Neoverse-N3",
    "0x43/0x0af": "ThunderX2",
    "0x48/0xd01": "Kunpeng-920",
    "0xc0/0xac3": "Ampere-1",
}
_ZONE_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*/){1,2}[A-Za-z0-9_+-]+|UTC|GMT|Zulu|[A-Z][a-z]+")
_ZONE_NAME_MAXIMUM = 64


@dataclass(frozen=True)
class Instance:
    """Instance type and zone; None if unknown. provider: ec2, gcp or azure."""

    provider: str
    instance_type: str | None
    zone: str | None

    def as_facts(self) -> dict[str, str]:
        """Return facts of the environment."""
        return keep_known(**vars(self))


class _Service:
    """Requests to a metadata service until a deadline."""

    def __init__(self, address: tuple[str, int], limit_s: float) -> None:
        host, port = address
        # Without the port in the header Host, which a service may compare.
        url = f"http://{host}" if port == 80 else f"http://{host}:{port}"
        self._client = Client(url, "", timeout_s=limit_s, uses_proxy=False)
        self._deadline = time.monotonic() + limit_s

    def request(self, path: str, headers: Mapping[str, str], *, method: str = "GET") -> Response:
        """Return the response; without a status if it is late or invalid."""
        limit_s = self._deadline - time.monotonic()
        # Not JSON, which the client asks the server for: these values are words.
        return self._client.request(method, path, headers={"Accept": "*/*", **headers}, limit_s=limit_s)


def find_instance(
    *, root: str = "/", address: tuple[str, int] = ADDRESS, limit_s: float = LIMIT_S
) -> Instance | None:
    """Return the instance from EC2, Google Cloud or Azure; None if no service responds within limit_s.

    The services use one link-local address, without a router or proxy. Accounts, keys and user data, which they offer,
    too, are not stored. They do not offer volume type and provisioned IOPS.
    """
    service = _Service(address, limit_s)
    for provider in _order_providers(root):
        instance = _PROVIDERS[provider](service)
        if instance is not None:
            return instance
    return None


def _order_providers(root: str) -> tuple[str, ...]:
    """Return the services to query: the one that DMI names, all without DMI, none for other vendors.

    EC2 comes last because other clouds imitate its service.
    """
    firmware = "sys/class/dmi/id"
    vendor = read_text(root, firmware, "sys_vendor")
    if vendor == "Amazon EC2" or "amazon" in read_text(root, firmware, "bios_version"):
        return ("ec2",)
    if vendor == "Google" or read_text(root, firmware, "product_name") == "Google Compute Engine":
        return ("gcp",)
    if read_line(root, firmware, "chassis_asset_tag") == _AZURE_ASSET_TAG:
        return ("azure",)
    return () if vendor else ("gcp", "azure", "ec2")


def _ask_ec2(service: _Service) -> Instance | None:
    """Use IMDSv2: its token also excludes services that only imitate IMDSv1."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = service.request("/latest/api/token", lifetime, method="PUT")
    word = _read_text(token)
    if not re.fullmatch(r"[!-~]{1,500}", word):
        return None
    headers = {"X-aws-ec2-metadata-token": word}
    return _make_instance(
        "ec2",
        _read_word(service.request("/latest/meta-data/instance-type", headers)),
        _read_word(service.request("/latest/meta-data/placement/availability-zone", headers)),
    )


def _ask_gcp(service: _Service) -> Instance | None:
    """Responses are projects/NUMBER/machineTypes/TYPE; the customer's number is removed."""
    words = []
    for name in ("machine-type", "zone"):
        response = service.request(f"/computeMetadata/v1/instance/{name}", {"Metadata-Flavor": "Google"})
        is_google = response.headers.get("metadata-flavor") == "Google"
        words.append(_read_word(response) if is_google else None)
        if words[0] is None:
            return None
    return _make_instance("gcp", *words)


def _ask_azure(service: _Service) -> Instance | None:
    path = "/metadata/instance/compute?api-version=2021-02-01&format=json"
    response = service.request(path, {"Metadata": "true"})
    document = (response.body if response.status == 200 else None) or {}
    location, zone = _check_word(document.get("location")), _check_word(document.get("zone"))
    return _make_instance(
        "azure", _check_word(document.get("vmSize")), f"{location}-{zone}" if location and zone else location
    )


_PROVIDERS: Mapping[str, Callable[[_Service], Instance | None]] = {
    "ec2": _ask_ec2,
    "gcp": _ask_gcp,
    "azure": _ask_azure,
}


def _make_instance(provider: str, instance_type: str | None, zone: str | None) -> Instance | None:
    return Instance(provider, instance_type, zone) if instance_type else None


def _read_text(response: Response) -> str:
    return response.content.decode("utf-8", "replace").strip() if response.status == 200 else ""


def _read_word(response: Response) -> str | None:
    """Return the last part of the path in the response; None for anything else, such as a portal's page."""
    return _check_word(_read_text(response).rpartition("/")[2])


def _check_word(text: Any) -> str | None:
    return text if isinstance(text, str) and _WORD.fullmatch(text) else None


def describe_environment(
    storage: Storage,
    *,
    directory: str,
    root: str = "/",
    sends_serials: bool = False,
    process_zone: str | None = None,
) -> dict[str, Any]:
    """Return the environment for the envelope; it contains nothing that varies between runs of an unchanged host.

    process_zone: time zone of this process, used if the machine's zone has no name.
    """
    cpuinfo = read_text(root, "proc/cpuinfo")
    time_zone = find_time_zone(root=root) or process_zone
    return {
        "kernel": read_line(root, "proc/sys/kernel/osrelease"),
        "os": _read_os(root),
        "cpu_model": _read_field(cpuinfo, "model name") or _name_arm_cpu(cpuinfo),
        "cpu_count": _count_cpus(root, cpuinfo),
        "memory_bytes": _read_memory(root),
        "governor": read_governor(root),
        "virtualization": _find_virtualization(root, cpuinfo),
        **{name: storage.environment.get(name) for name in _STORAGE_FIELDS},
        "facts": {
            **_collect_facts(root, sends_serials=sends_serials),
            **({"time_zone": time_zone} if time_zone else {}),
            "directory": directory,
            **storage.facts,
        },
    }


def find_instance_type(*, root: str = "/") -> str | None:
    """Return the instance type where the firmware names it, as EC2's Nitro does; None everywhere else."""
    if read_line(root, _FACTS["vendor"]) == "Amazon EC2":
        return read_line(root, _FACTS["product"])
    return None


def _collect_facts(root: str, *, sends_serials: bool) -> dict[str, Any]:
    machine_id = read_line(root, "etc/machine-id")
    status = read_text(root, "proc/self/status")
    return keep_known(
        **{name: read_line(root, path) for name, path in _FACTS.items()},
        transparent_hugepage=read_choice(root, "sys/kernel/mm/transparent_hugepage/enabled"),
        frequency_driver=read_of_cpus(root, "scaling_driver"),
        frequency_max_khz=read_of_cpus(root, "scaling_max_freq"),
        cpus_allowed=_read_field(status, "Cpus_allowed_list"),
        memory_nodes_allowed=_read_field(status, "Mems_allowed_list"),
        vulnerabilities=_read_vulnerabilities(root) or None,
        kernel_parameters=_read_parameters(root) or None,
        machine_id=hash_identifier("machine_id", machine_id, is_plain=sends_serials) if machine_id else None,
        container=find_container(root=root),
        **describe_limits(root=root),
    )


def _read_os(root: str) -> str | None:
    for path in _OS_RELEASE:
        match = re.search(r"^PRETTY_NAME=(.*)$", read_text(root, path), re.MULTILINE)
        if match:
            return match.group(1).strip().strip("\"'") or None
    return None


def _read_field(text: str, name: str) -> str | None:
    """Return a field of /proc/cpuinfo or /proc/self/status."""
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return re.sub(r"\s+", " ", match.group(1)).strip() if match else None


def _name_arm_cpu(cpuinfo: str) -> str | None:
    """Return the name of an ARM processor by its printed numbers: Neoverse-N1; 0x41/0xfff if unknown."""
    implementer, part = (_read_field(cpuinfo, f"CPU {name}") for name in ("implementer", "part"))
    number = f"{implementer}/{part}"
    return _ARM_CPUS.get(number, number) if implementer and part else None


def _count_cpus(root: str, cpuinfo: str) -> int | None:
    online = read_line(root, "sys/devices/system/cpu/online")
    if online and re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", online):
        ranges = [part.partition("-") for part in online.split(",")]
        return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
    return len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)) or None


def _read_memory(root: str) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", read_text(root, "proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _read_vulnerabilities(root: str) -> dict[str, str]:
    """Return the mitigation of each vulnerability of this CPU, without those that do not affect it."""
    states = {
        name: read_line(root, _VULNERABILITIES, name) for name in list_directory(root, _VULNERABILITIES)
    }
    return {name: value for name, value in states.items() if value not in (None, "Not affected")}


def _read_parameters(root: str) -> str:
    words = read_text(root, "proc/cmdline").split()
    return " ".join(word for word in words if _KERNEL_PARAMETERS.fullmatch(word))


def _find_virtualization(root: str, cpuinfo: str) -> str | None:
    """Return the hypervisor, "none" on bare metal, "other" for an unknown one, None if it cannot be detected."""
    hypervisor = read_line(root, "sys/hypervisor/type")
    if hypervisor:
        return hypervisor
    clocks = read_text(root, "sys/devices/system/clocksource/clocksource0/available_clocksource").split()
    named = next((_CLOCKS[clock] for clock in clocks if clock in _CLOCKS), None)
    vendor = _VENDORS.get(read_line(root, _FACTS["vendor"]) or "")
    if named or vendor:
        return named or vendor
    flags = _read_field(cpuinfo, "flags")
    if flags is None:
        return None  # not x86: no such flag
    return "other" if "hypervisor" in flags.split() else "none"


def find_time_zone(*, root: str = "/") -> str | None:
    """Return the machine's zone; None if its zone file is a copy without a name.

    The machine's zone has precedence over TZ, which may differ between a shell and cron: every other zone creates
    another environment.
    """
    try:
        link = os.readlink(os.path.join(root, "etc/localtime"))
    except OSError:
        link = ""
    return _read_zone_path(link) or _check_zone_name(read_line(root, "etc/timezone"))


def find_process_zone(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the zone of TZ, else UTC if `time.tzname` is UTC: other abbreviations are ambiguous."""
    value = environ.get("TZ", "").strip().lstrip(":")
    zone = _read_zone_path(value) if value.startswith("/") else _check_zone_name(value)
    return zone or ("UTC" if not value and set(names) == {"UTC"} else None)


def _read_zone_path(path: str) -> str | None:
    """Return the zone of a file below zoneinfo/."""
    name = path.partition("zoneinfo/")[2]
    return _check_zone_name(re.sub(r"^(posix|right)/", "", name))


def _check_zone_name(name: str | None) -> str | None:
    return name if name and len(name) <= _ZONE_NAME_MAXIMUM and _ZONE_NAME.fullmatch(name) else None
