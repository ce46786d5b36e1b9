"""Containers and their limits, from recorded trees of both versions of control groups."""

from pathlib import Path

import pytest

from agent.environment.control_groups import describe_limits, find_container
from tests.agent.storage.layouts import container
from tests.agent.storage.trees import disk, join, write_tree

SECOND = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = (
    "31 30 0:27 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 30 0:29 {root} /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
    "34 30 0:30 {root} /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
)
FIRST_GROUPS = "11:cpu,cpuacct:{path}\n5:memory:{path}\n4:blkio:{path}\n1:name=systemd:{path}\n"


def limits(tmp_path: Path, files: dict[str, str]) -> dict[str, object]:
    return describe_limits(root=write_tree(tmp_path, files)).get("limits", {})


def test_limits_of_a_docker_container_are_read(tmp_path: Path) -> None:
    files, links = join(container(), disk("nvme0n1", "259:0"))
    root = write_tree(tmp_path, files, links)

    assert find_container(root=root) == "docker"
    assert describe_limits(root=root) == {
        "limits": {"cpus": 1.5, "memory_bytes": 4294967296, "io": {"nvme0n1": "rbps=104857600 riops=5000"}}
    }


def test_lowest_limit_of_all_parent_groups_counts(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/system.slice"
    files = {
        "proc/self/mountinfo": SECOND,
        "proc/self/cgroup": "0::/system.slice/bench.service\n",
        f"{base}/cpu.max": "200000 100000\n",
        f"{base}/memory.max": "1073741824\n",
        f"{base}/io.max": "8:0 rbps=100 wbps=max riops=max wiops=7\n",
        f"{base}/bench.service/cpu.max": "max 100000\n",
        f"{base}/bench.service/memory.max": "max\n",
        f"{base}/bench.service/memory.high": "2147483648\n",
        f"{base}/bench.service/io.max": "8:0 rbps=200 wbps=max riops=max wiops=5\n",
    }

    assert limits(tmp_path, files) == {
        "cpus": 2.0,
        "memory_bytes": 1073741824,
        "io": {"8:0": "rbps=100 wiops=5"},
    }


@pytest.mark.parametrize(("root", "below"), [("/", "docker/0abc/"), ("/docker/0abc", "")])
def test_version_1_is_read_inside_and_outside_of_a_container(tmp_path: Path, root: str, below: str) -> None:
    """In a container the group's own directory is mounted, while /proc contains its path on the machine."""
    base = "sys/fs/cgroup"
    files = {
        "proc/self/mountinfo": FIRST.format(root=root),
        "proc/self/cgroup": FIRST_GROUPS.format(path="/docker/0abc"),
        f"{base}/cpu,cpuacct/{below}cpu.cfs_quota_us": "50000\n",
        f"{base}/cpu,cpuacct/{below}cpu.cfs_period_us": "100000\n",
        f"{base}/memory/{below}memory.limit_in_bytes": "536870912\n",
        f"{base}/blkio/{below}blkio.throttle.read_iops_device": "8:0 500\n",
        f"{base}/blkio/{below}blkio.throttle.write_bps_device": "8:0 1048576\n",
    }

    assert limits(tmp_path, files) == {
        "cpus": 0.5,
        "memory_bytes": 536870912,
        "io": {"8:0": "riops=500 wbps=1048576"},
    }


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/\n"},
        {"proc/self/cgroup": "nonsense\n", "proc/self/mountinfo": SECOND},
        {
            "proc/self/cgroup": "0::/x\n",
            "proc/self/mountinfo": SECOND,
            "sys/fs/cgroup/x/cpu.max": "max 100000\n",
        },
        {"proc/self/cgroup": "0::/x\n", "proc/self/mountinfo": SECOND, "sys/fs/cgroup/x/cpu.max": "1 0\n"},
        {
            "proc/self/mountinfo": FIRST.format(root="/"),
            "proc/self/cgroup": FIRST_GROUPS.format(path="/"),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    ],
)
def test_groups_without_limits_give_no_facts(tmp_path: Path, files: dict[str, str]) -> None:
    assert limits(tmp_path, files) == {}


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, None),
        ({"run/systemd/container": "systemd-nspawn\n", ".dockerenv": ""}, "systemd-nspawn"),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/secrets/kubernetes.io/serviceaccount/namespace": "x"}, "kubernetes"),
        ({"proc/self/cgroup": "5:memory:/kubepods/burstable/pod1/2\n"}, "kubernetes"),
        ({"proc/self/cgroup": "5:memory:/docker/0abc\n"}, "docker"),
        ({"proc/self/cgroup": "0::/system.slice/docker-0abc.scope\n"}, "docker"),
        ({"proc/self/cgroup": "0::/machine.slice/libpod-0abc.scope\n"}, "podman"),
        ({"proc/self/cgroup": "0::/lxc.payload.box/x\n"}, "lxc"),
        ({"proc/self/cgroup": "0::/system.slice/docker.service\n"}, None),
        ({"proc/self/cgroup": "0::/user.slice/user-0.slice\n"}, None),
    ],
)
def test_container_is_named_if_a_source_exists(
    tmp_path: Path, files: dict[str, str], kind: str | None
) -> None:
    assert find_container(root=write_tree(tmp_path, files)) == kind


@pytest.mark.parametrize(("pid", "kind"), [("4026531836", None), ("4026532250", "docker")])
def test_machine_installed_from_a_container_image_is_not_a_container(
    tmp_path: Path, pid: str, kind: str | None
) -> None:
    root = write_tree(tmp_path, {".dockerenv": "", "proc/self/ns/x": ""})
    for name, number in (("pid", pid), ("ipc", "4026531839"), ("uts", "4026531838")):
        (tmp_path / "proc/self/ns" / name).symlink_to(f"{name}:[{number}]")

    assert find_container(root=root) == kind
