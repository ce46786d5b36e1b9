"""The environment of a run, from recorded trees."""

from pathlib import Path

import pytest

from agent.environment.host_facts import describe_environment, find_instance_type, find_process_zone
from agent.storage.layout import Storage
from tests.agent.storage.layouts import container
from tests.agent.storage.trees import write_tree

NOTHING = Storage({}, {}, {})
CPUINFO = """processor\t: 0
model name\t: AMD EPYC  7R13 Processor
flags\t\t: fpu vme hypervisor sse

processor\t: 1
model name\t: AMD EPYC  7R13 Processor
"""


def describe(tmp_path: Path, **files: str) -> dict[str, object]:
    root = write_tree(tmp_path, {name.replace("__", "/"): text for name, text in files.items()})
    return describe_environment(NOTHING, directory="/data", root=root)


def test_machine_is_described(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
            "proc/cpuinfo": CPUINFO,
            "proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB\n",
            "usr/lib/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            "sys/devices/system/cpu/online": "0-1,4\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        },
    )
    storage = Storage(
        {},
        {"scheduler": "none", "device_model": "X", "device_firmware": "1", "device_driver": "nvme"},
        {"mount_point": "/"},
    )

    environment = describe_environment(storage, directory="/data", root=root)

    assert environment == {
        "kernel": "6.1.0-13-amd64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "cpu_model": "AMD EPYC 7R13 Processor",
        "cpu_count": 3,
        "memory_bytes": 16777216000,
        "governor": "performance",
        "virtualization": "other",
        "scheduler": "none",
        "device_model": "X",
        "device_firmware": "1",
        "device_driver": "nvme",
        "device_class": None,
        "facts": {"directory": "/data", "mount_point": "/"},
    }


def test_unreadable_files_give_unknown_values(tmp_path: Path) -> None:
    environment = describe(tmp_path)

    assert {name for name, value in environment.items() if value is not None} == {"facts"}


def test_different_governors_are_all_listed(tmp_path: Path) -> None:
    base = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    root = write_tree(tmp_path, {base.format(0): "powersave\n", base.format(1): "performance\n"})

    assert describe_environment(NOTHING, directory="/", root=root)["governor"] == "performance,powersave"


def test_processors_are_counted_without_sysfs(tmp_path: Path) -> None:
    assert describe(tmp_path, proc__cpuinfo=CPUINFO)["cpu_count"] == 2


@pytest.mark.parametrize(
    ("implementer", "part", "model"),
    [
        ("0x41", "0xd0c", "Neoverse-N1"),
        ("0x41", "0xd4f", "Neoverse-V2"),
        ("0x41", "0xd08", "Cortex-A72"),
        ("0x41", "0xfff", "0x41/0xfff"),
    ],
)
def test_arm_processor_is_named_by_implementer_and_part(
    tmp_path: Path, implementer: str, part: str, model: str
) -> None:
    cpuinfo = f"processor\t: 0\nCPU implementer\t: {implementer}\nCPU architecture: 8\nCPU part\t: {part}\n"

    assert describe(tmp_path, proc__cpuinfo=cpuinfo)["cpu_model"] == model


@pytest.mark.parametrize(
    ("files", "virtualization"),
    [
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        (
            {"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock acpi_pm\n"},
            "kvm",
        ),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n", "proc/cpuinfo": CPUINFO}, "vmware"),
        ({"sys/class/dmi/id/sys_vendor": "Dell Inc.\n", "proc/cpuinfo": CPUINFO}, "other"),
        ({"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme\n"}, "none"),
        ({"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n"}, None),
    ],
)
def test_hypervisor_is_named_if_a_source_exists(
    tmp_path: Path, files: dict[str, str], virtualization: str | None
) -> None:
    root = write_tree(tmp_path, files)

    assert describe_environment(NOTHING, directory="/", root=root)["virtualization"] == virtualization


@pytest.mark.parametrize(("vendor", "instance_type"), [("Amazon EC2", "m5.large"), ("Dell Inc.", None)])
def test_instance_type_is_read_from_dmi_on_ec2_only(
    tmp_path: Path, vendor: str, instance_type: str | None
) -> None:
    dmi = "sys/class/dmi/id"
    root = write_tree(tmp_path, {f"{dmi}/sys_vendor": f"{vendor}\n", f"{dmi}/product_name": "m5.large\n"})

    assert find_instance_type(root=root) == instance_type


def test_facts_include_settings_that_may_explain_a_change(tmp_path: Path) -> None:
    vulnerabilities = "sys/devices/system/cpu/vulnerabilities"
    cpu = "sys/devices/system/cpu"
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/node/online": "0-1\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "proc/self/status": "Name:\tpython3\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n",
            f"{cpu}/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
            f"{cpu}/cpu0/cpufreq/scaling_max_freq": "3700000\n",
            f"{cpu}/intel_pstate/no_turbo": "1\n",
            f"{cpu}/smt/active": "1\n",
            f"{vulnerabilities}/meltdown": "Mitigation: PTI\n",
            f"{vulnerabilities}/l1tf": "Not affected\n",
            "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 mitigations=off password=sesame nvme.poll_queues=4\n",
        },
    )

    facts = describe_environment(NOTHING, directory="/data", root=root)["facts"]

    assert facts == {
        "numa_nodes": "0-1",
        "clocksource": "tsc",
        "transparent_hugepage": "madvise",
        "cpus_allowed": "0-3",
        "memory_nodes_allowed": "0",
        "frequency_driver": "intel_pstate",
        "frequency_max_khz": "3700000",
        "turbo_off": "1",
        "smt_active": "1",
        "vulnerabilities": {"meltdown": "Mitigation: PTI"},
        "kernel_parameters": "mitigations=off nvme.poll_queues=4",
        "directory": "/data",
    }


@pytest.mark.parametrize(("is_shown", "value"), [(False, "3ba3f187a03f"), (True, "0" * 32)])
def test_machine_id_is_hashed_unless_serials_are_enabled(tmp_path: Path, is_shown: bool, value: str) -> None:
    root = write_tree(tmp_path, {"etc/machine-id": "0" * 32 + "\n"})

    facts = describe_environment(NOTHING, directory="/", root=root, sends_serials=is_shown)["facts"]

    assert facts["machine_id"] == value


def test_container_and_its_limits_are_facts(tmp_path: Path) -> None:
    facts = describe_environment(NOTHING, directory="/", root=write_tree(tmp_path, *container()))["facts"]

    assert facts["container"] == "docker"
    assert facts["limits"]["cpus"] == 1.5


def test_facts_of_this_machine_are_stable() -> None:
    """The server creates an environment for each difference: it must not contain load or free memory."""
    first = describe_environment(NOTHING, directory="/")

    assert describe_environment(NOTHING, directory="/") == first


@pytest.mark.parametrize(
    ("files", "links", "zone"),
    [
        ({}, {"etc/localtime": "usr/share/zoneinfo/Europe/Berlin"}, "Europe/Berlin"),
        (
            {},
            {"etc/localtime": "usr/share/zoneinfo/posix/America/Argentina/Ushuaia"},
            "America/Argentina/Ushuaia",
        ),
        ({"etc/timezone": "Etc/UTC\n"}, {"etc/localtime": "usr/share/zoneinfo/Asia/Kolkata"}, "Asia/Kolkata"),
        ({"etc/timezone": "Asia/Kolkata\n", "etc/localtime": "TZif2"}, {}, "Asia/Kolkata"),
        ({"etc/timezone": "<script>\n"}, {"etc/localtime": "etc/other"}, None),
        ({}, {}, None),
    ],
)
def test_zone_of_the_machine_is_that_of_its_zone_file(
    tmp_path: Path, files: dict[str, str], links: dict[str, str], zone: str | None
) -> None:
    root = write_tree(tmp_path, files, links)

    facts = describe_environment(NOTHING, directory="/", root=root)["facts"]

    assert facts.get("time_zone") == zone


@pytest.mark.parametrize(
    ("value", "names", "zone"),
    [
        ("Europe/Berlin", ("CET", "CEST"), "Europe/Berlin"),
        (":/usr/share/zoneinfo/Asia/Tokyo", ("JST", "JST"), "Asia/Tokyo"),
        ("UTC", ("UTC", "UTC"), "UTC"),
        (None, ("UTC", "UTC"), "UTC"),
        (None, ("CST", "CDT"), None),
        ("CET-1CEST,M3.5.0,M10.5.0/3", ("CET", "CEST"), None),
    ],
)
def test_zone_of_the_process_is_used_if_its_name_is_a_zone(
    value: str | None, names: tuple[str, str], zone: str | None
) -> None:
    assert find_process_zone({} if value is None else {"TZ": value}, names) == zone


def test_zone_of_the_machine_overrides_that_of_the_process(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"etc/timezone": "Asia/Kolkata\n"})

    facts = describe_environment(NOTHING, directory="/", root=root, process_zone="UTC")["facts"]

    assert facts["time_zone"] == "Asia/Kolkata"
