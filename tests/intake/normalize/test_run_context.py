"""Inputs of the validity rules from the context of a run."""

from typing import Any

import pytest

from benchapp.fio.report import Document
from benchapp.intake.normalize.validity_inputs import RunContext, read_run_context
from benchapp.intake.posts.metadata import read_environment, read_target


def describe(*, environment: dict[str, Any], target: dict[str, Any] | None = None) -> RunContext:
    document = Document("json", "fio-3.36", None, None, (), ())
    return read_run_context(
        document, environment=read_environment(environment), target=read_target(target or {})
    )


@pytest.mark.parametrize(
    ("target", "environment", "storage"),
    [
        ({"filesystem": "nfs4"}, {}, "network"),
        ({"volume_type": "gp3"}, {}, "network"),
        ({"volume_type": "Premium_LRS"}, {}, "network"),
        ({}, {"device_model": "Amazon Elastic Block Store"}, "network"),
        ({"filesystem": "tmpfs"}, {}, "memory"),
        ({"filesystem": "xfs", "mount_options": "rw,dax,noatime"}, {}, "memory"),
        ({"filesystem": "xfs", "volume_type": "nvme"}, {"device_model": "Samsung 990"}, None),
    ],
)
def test_kind_of_storage_is_derived_from_layout_and_device(
    target: dict[str, str], environment: dict[str, str], storage: str | None
) -> None:
    assert describe(target=target, environment=environment).storage == storage


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"md": {"degraded": "1", "sync_action": "recover"}}, (1, "recover", "")),
        ({"md": {"degraded": "0", "sync_action": "idle"}}, (0, "", "")),
        ({"raid_state": "Degraded"}, (None, "", "degraded")),
        ({"raid_state": "optimal"}, (None, "", "")),
        ({"md": "clean", "raid_state": None}, (None, "", "")),
        ({"md": {"degraded": "many"}}, (None, "", "")),
        ({}, (None, "", "")),
    ],
)
def test_state_of_the_array_is_read_from_the_facts(facts: dict[str, Any], found: tuple[Any, ...]) -> None:
    context = describe(environment={"facts": facts})

    assert (context.members_missing, context.sync_action, context.raid_state) == found


@pytest.mark.parametrize(
    ("target", "facts", "memory_filesystem"),
    [
        ({"filesystem": "tmpfs"}, {}, "tmpfs"),
        ({"filesystem": "overlay"}, {"memory_filesystem": "ramfs"}, "ramfs"),
        ({"filesystem": "ext4"}, {"memory_filesystem": "zram0"}, "zram0"),
        ({"filesystem": "xfs"}, {"memory_filesystem": "<b>"}, ""),
        ({"filesystem": "xfs", "volume_type": "pmem"}, {}, ""),
    ],
)
def test_files_in_memory_are_found_by_filesystem_and_fact(
    target: dict[str, str], facts: dict[str, Any], memory_filesystem: str
) -> None:
    assert describe(target=target, environment={"facts": facts}).memory_filesystem == memory_filesystem


@pytest.mark.parametrize(
    ("filesystem", "facts", "cached_by"),
    [
        ("zfs", {"zfs": {"version": "2.2.7-1"}}, "ZFS (before 2.3)"),
        ("zfs", {}, "ZFS (before 2.3)"),
        ("zfs", {"zfs": {"version": "2.3.0-rc4"}}, ""),
        ("zfs", {"zfs": {"version": "3.0.1"}}, ""),
        ("fuse.sshfs", {}, "fuse.sshfs"),
        ("virtiofs", {}, "virtiofs"),
        ("ext4", {"loop": {"loop0": {"direct_io": "0"}}}, "a loop device"),
        ("ext4", {"loop": {"loop0": {"direct_io": "1"}}}, ""),
        ("ext4", {"loop": "loop0"}, ""),
        ("xfs", {"zfs": {"version": "2.1"}}, ""),
    ],
)
def test_storage_that_caches_direct_io_is_found(
    filesystem: str, facts: dict[str, Any], cached_by: str
) -> None:
    assert describe(target={"filesystem": filesystem}, environment={"facts": facts}).cached_by == cached_by


def test_load_and_other_io_are_conditions_of_the_run() -> None:
    conditions = {"load_before": "9.5", "other_io_before": {"busy_percent": "31.0"}}
    document = Document("json", "fio-3.36", None, None, (), ())

    context = read_run_context(
        document, environment=read_environment({"cpu_count": 8}), target={}, conditions=conditions
    )
    unknown = read_run_context(document, environment={}, target={}, conditions={"load_before": "high"})

    assert (context.load, context.cpu_count, context.other_io_percent) == (9.5, 8, 31.0)
    assert (unknown.load, unknown.cpu_count, unknown.other_io_percent) == (None, None, None)


@pytest.mark.parametrize(
    ("target", "sustained"),
    [
        (
            {"volume_type": "gp2", "volume_size_bytes": "100GiB", "volume_count": 1},
            [("gp2 of 100 GiB", 300.0)],
        ),
        ({"volume_type": "gp2", "volume_size_bytes": "8GiB", "volume_count": 1}, [("gp2 of 8 GiB", 100.0)]),
        (
            {"volume_type": "gp2", "volume_size_bytes": "100GiB", "volume_count": 4},
            [("gp2 of 100 GiB × 4", 1200.0)],
        ),
        (
            {"volume_type": "gp2", "volume_size_bytes": "6TiB", "volume_count": 1},
            [("gp2 of 6 TiB", 16_000.0)],
        ),
        ({"volume_type": "gp2", "volume_size_bytes": "100GiB"}, [("gp2 of 100 GiB", 300.0)]),
        ({"volume_type": "gp2", "volume_size_bytes": "100GiB", "raid_level": "raid0"}, []),
        ({"volume_type": "gp2", "volume_count": 1}, []),
        ({"volume_type": "gp3", "volume_size_bytes": "100GiB", "volume_count": 1}, []),
        ({"volume_type": "gp3", "instance_type": "t3.large"}, [("t3.large", 4000.0)]),
        ({"volume_type": "gp3", "instance_type": "T3a.nano"}, [("t3a.nano", 250.0)]),
        # Amazon publishes no baseline of t2.
        ({"volume_type": "gp3", "instance_type": "t2.large"}, []),
        ({"instance_type": "t3.large"}, []),
    ],
)
def test_sustained_rates_depend_on_size_and_number_of_volumes(
    target: dict[str, Any], sustained: list[tuple[str, float]]
) -> None:
    found = describe(target=target, environment={}).sustained

    assert [(each.name, each.iops) for each in found] == sustained
