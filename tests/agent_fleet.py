"""A small fleet whose envelopes the agent's own code makes: from trees of /proc and /sys to the stored series."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from agent.delivery.envelope import check_labels, make_envelope, pack_envelope, read_target
from agent.environment.host_facts import describe_environment, find_instance_type
from agent.measuring.fio import FioResult
from agent.storage.layout import describe_storage
from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import Host, Scope, State, Submission
from tests.agent.storage.trees import raid0, write_tree
from tests.envelopes import read_fio
from tests.factories import NOON
from tests.intake.api.test_posts import post

# Options of a job as fio prints them, which is as the job files of the agent write them.
Job = Mapping[str, str]
_CPUINFO = "processor\t: {number}\nmodel name\t: Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz\n\n"
# A machine with 64 GiB: the kernel's own part is not in MemTotal.
_EC2 = {
    "proc/cpuinfo": "".join(_CPUINFO.format(number=number) for number in range(16)),
    "proc/meminfo": "MemTotal:       65006856 kB\nMemFree:        60000000 kB\n",
    "proc/sys/kernel/osrelease": "6.1.0-23-cloud-amd64\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "m5.4xlarge\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc acpi_pm\n",
    **{
        f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor": "performance\n"
        for number in range(16)
    },
}
_PCI = "sys/devices/pci0000:00/0000:00:1d.0"
_BARE = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7543 32-Core Processor\nflags\t\t: fpu vme\n\n"
    * 8,
    "proc/meminfo": "MemTotal:       131811112 kB\n",
    "proc/sys/kernel/osrelease": "5.15.0-118-generic\n",
    "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
    "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
    "sys/class/dmi/id/product_name": "PowerEdge R6525\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    **{f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor": "powersave\n" for number in range(8)},
    f"{_PCI}/nvme/nvme0/nvme0n1/size": f"{3840 * 10**9 // 512}\n",
    f"{_PCI}/nvme/nvme0/nvme0n1/queue/scheduler": "[mq-deadline] none\n",
    f"{_PCI}/nvme/nvme0/model": "Samsung SSD 990 PRO 4TB                 \n",
    f"{_PCI}/nvme/nvme0/firmware_rev": "GXA7801Q\n",
    "sys/bus/pci/drivers/nvme/module/version": "1.0\n",
    "proc/self/mountinfo": "40 27 259:0 / /mnt/fast rw,noatime - ext4 /dev/nvme0n1 rw\n",
}
_BARE_LINKS = {
    "sys/dev/block/259:0": f"{_PCI}/nvme/nvme0/nvme0n1",
    f"{_PCI}/nvme/nvme0/nvme0n1/device": f"{_PCI}/nvme/nvme0",
    f"{_PCI}/driver": "sys/bus/pci/drivers/nvme",
}


@dataclass(frozen=True)
class Machine:
    """A host as the agent finds it: an EC2 instance with a RAID0 array of that many volumes; 0: bare metal.

    target, labels: as --target and --label give them. files, links: replace those of its tree.
    """

    name: str
    volumes: int
    pool: str = ""
    target: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    profile: str = "quick"
    sweep: str | None = None


def send_run(machine: Machine, jobs: Sequence[Job], *, root: Path) -> None:
    """Post one run of a machine as its agent does, and store it."""
    host, _ = Host.objects.get_or_create(name=machine.name, defaults={"pool": machine.pool})
    array, links = raid0(machine.volumes) if machine.volumes else ({}, _BARE_LINKS)
    files = {**(_EC2 if machine.volumes else _BARE), **array, **machine.files}
    tree = write_tree(root / str(uuid4()), files, {**links, **machine.links})
    directory = "/data/bench" if machine.volumes else "/mnt/fast"
    storage = describe_storage(directory, root=tree)
    found = {name: value for name, value in storage.target.items() if value is not None}
    started_at = NOON.timestamp()
    envelope = make_envelope(
        str(uuid4()),
        FioResult(("fio", "quick.fio"), 0, None, _print_report(jobs), "", started_at, started_at + 60, None),
        profile=machine.profile,
        jobfile="[global]\n",
        target={**found, "instance_type": find_instance_type(root=tree), **read_target(machine.target)},
        targets=[],
        labels=check_labels(machine.labels),
        environment=describe_environment(storage, directory=directory, root=tree, process_zone="UTC"),
        sweep=machine.sweep,
        parameters={},
    )
    answer = post(gzip.decompress(pack_envelope(envelope)), issue_token(scope=Scope.INGEST, host=host)[1])
    assert answer.status == 202
    normalize_batch()
    assert not Submission.objects.exclude(state=State.STORED).values_list("reason", flat=True)


def _print_report(jobs: Sequence[Job]) -> str:
    """Return fio's JSON with a job for each; its numbers are those of a real run of 70 % reads."""
    printed = read_fio("16_randrw7030_json.out")
    report = json.loads(printed[printed.index("{") :])
    (real,) = report["jobs"]
    report["jobs"] = []
    for number, options in enumerate(jobs):
        silent = [name for name in ("read", "write") if not options["rw"].endswith((name, "rw"))]
        own = {"jobname": f"job{number}", "groupid": number, "job options": dict(options)}
        report["jobs"].append({**real, **own, **dict.fromkeys(silent, real["trim"])})
    report["timestamp_ms"] = round(NOON.timestamp() * 1000) + 60_000
    report["timestamp"] = report["timestamp_ms"] // 1000
    del report["time"]
    return json.dumps(report)
