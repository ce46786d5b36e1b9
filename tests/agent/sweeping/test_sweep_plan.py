"""The plan of a sweep."""

from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.job_state import StateDirectory, SweepState
from agent.profiles.profile import load_profile
from agent.storage.signatures import Signature
from agent.sweeping.sweep_plan import (
    SweepPlan,
    SweepRequest,
    describe_plan,
    dump_request,
    list_commands,
    load_request,
    plan_sweep,
    render_commands,
)

MIB = 2**20
DEVICES = ("/dev/sdb", "/dev/sdc", "/dev/sdd", "/dev/sde")


def plan(**changes: object) -> SweepPlan:
    values: dict[str, object] = {
        "profile": "quick",
        "parameters": {"size": ("8m", "16m"), "runtime": ("1",)},
        "devices": DEVICES,
        "stripes": (1, 4),
        "chunk_bytes": 512 * 1024,
        **changes,
    }
    request = SweepRequest(**values)  # type: ignore[arg-type]
    return plan_sweep(request, load_profile("quick"), mount_point="/mnt")


def test_stripe_is_built_once_for_all_file_sizes() -> None:
    assert [[step.label for step in each.steps] for each in plan().rounds] == [
        ["1 stripe, size=8m", "1 stripe, size=16m"],
        ["4 stripes, size=8m", "4 stripes, size=16m"],
    ]
    assert [step.number for step in plan().steps] == [1, 2, 3, 4]


def test_every_parameter_with_several_values_is_an_axis() -> None:
    found = plan(parameters={"iodepth": ("1", "4", "16"), "runtime": ("1", "2")}, stripes=(2,))

    assert [step.label for step in found.steps] == [
        "2 stripes, iodepth=1, runtime=1",
        "2 stripes, iodepth=1, runtime=2",
        "2 stripes, iodepth=4, runtime=1",
        "2 stripes, iodepth=4, runtime=2",
        "2 stripes, iodepth=16, runtime=1",
        "2 stripes, iodepth=16, runtime=2",
    ]
    assert found.steps[3].plan.values["iodepth"] == 4
    assert found.steps[3].plan.values["runtime"] == 2


def test_directories_have_no_stripes() -> None:
    found = plan(devices=(), stripes=(), directories=("/a", "/b"))

    assert [(each.directory, each.stripe) for each in found.rounds] == [("/a", None), ("/b", None)]
    assert [step.label for step in found.steps] == [
        "/a, size=8m",
        "/a, size=16m",
        "/b, size=8m",
        "/b, size=16m",
    ]
    assert found.needed_bytes == 0


def test_sweep_of_one_step_is_named_by_its_profile() -> None:
    (step,) = plan(devices=(), stripes=(), directories=("/a",), parameters={}).steps

    assert step.label == "quick"


def test_duration_includes_jobs_and_building_stripes() -> None:
    assert plan().duration_s == 4 * 4 * 1.5 + 2 * 5.0


@pytest.mark.parametrize(
    ("changes", "needed_bytes"),
    [
        # XFS needs 300 MiB, also on one device.
        ({}, 300 * MIB),
        ({"stripes": (4,)}, 75 * MIB),
        ({"raid": "btrfs", "filesystem": "btrfs", "chunk_bytes": 65536, "stripes": (4,)}, 109 * MIB),
        # (886 MiB + 64 MiB) / 0.95 = 1000 MiB, and 5 % of it as reserve.
        ({"parameters": {"size": ("886m",)}, "stripes": (1,)}, 1050 * MIB),
        ({"parameters": {"size": ("886m",)}, "stripes": (2,)}, 525 * MIB),
    ],
)
def test_devices_need_space_for_file_filesystem_and_reserve(
    changes: dict[str, object], needed_bytes: int
) -> None:
    assert plan(**changes).needed_bytes == needed_bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stripes": (5,)}, "--stripes 5: must be from 1 to 4"),
        ({"stripes": (0,)}, "--stripes 0"),
        ({"raid": "btrfs"}, "--raid btrfs cannot be combined"),
        ({"parameters": {"depth": ("1",)}}, "unknown parameter 'depth'"),
        ({"parameters": {"size": ("8x",)}}, "--set size=8x"),
        ({"parameters": {"iodepth": tuple(map(str, range(1, 600)))}}, "1198 steps; a sweep has 1 to 1000"),
    ],
)
def test_invalid_plan_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan(**changes)


RECORDED = """\
# wipe
wipefs --all /dev/sdb
dd if=/dev/zero of=/dev/sdb bs=512 seek=2 count=1 conv=notrunc,fsync status=none
# build xfs on /dev/sdb
mkfs.xfs -f -q -L bench-agent /dev/sdb
mount -t xfs -o noatime /dev/sdb /mnt
# step 1 of 2: 1 stripe, about 6 s
bench-agent run --profile quick --directory /mnt --set size=8m --set runtime=1 --target stripe_count=1 \
--target volume_count=1 --target filesystem=xfs --target volume_type=gp3 --label 'Ticket=a b'
# remove xfs on /dev/sdb
umount /mnt
wipefs --all /dev/sdb
# build xfs on mdadm RAID0 of 2, chunk 512 KiB
mdadm --create /dev/md/bench-agent --run --level=0 --raid-devices=2 --chunk=512K --metadata=1.2 /dev/sdb /dev/sdc
mkfs.xfs -f -q -L bench-agent /dev/md/bench-agent
mount -t xfs -o noatime /dev/md/bench-agent /mnt
# step 2 of 2: 2 stripes, about 6 s
bench-agent run --profile quick --directory /mnt --set size=8m --set runtime=1 --target raid_level=raid0 \
--target stripe_count=2 --target chunk_size_bytes=524288 --target volume_count=2 --target filesystem=xfs \
--target volume_type=gp3 --label 'Ticket=a b'
# remove xfs on mdadm RAID0 of 2, chunk 512 KiB
umount /mnt
wipefs --all /dev/md/bench-agent
mdadm --stop /dev/md/bench-agent
mdadm --zero-superblock /dev/sdb /dev/sdc
"""


def test_commands_of_a_sweep_match_the_expected_list() -> None:
    found = plan(
        stripes=(1, 2),
        parameters={"size": ("8m",), "runtime": ("1",)},
        target={"volume_type": "gp3"},
        labels={"Ticket": "a b"},
    )
    signatures = [("/dev/sdb", [Signature("ext4", 1080, "old")])]

    lines = render_commands(list_commands(found, size_bytes=2**30, signatures=signatures))

    assert "\n".join(lines) + "\n" == RECORDED


def test_finished_steps_are_not_listed() -> None:
    titles = [title for title, _ in list_commands(plan(), size_bytes=2**30, over={1, 2, 3})]

    assert titles == [
        "build xfs on mdadm RAID0 of 4, chunk 512 KiB",
        "step 4 of 4: 4 stripes, size=16m, about 6 s",
        "remove xfs on mdadm RAID0 of 4, chunk 512 KiB",
    ]


def test_plan_is_described() -> None:
    assert describe_plan(plan(raid="lvm")).splitlines() == [
        "4 steps of quick, about 34 s; largest test file: 16 MiB",
        "  xfs on /dev/sdb: 1 stripe, size=8m; 1 stripe, size=16m",
        "  xfs on lvm RAID0 of 4, chunk 512 KiB: 4 stripes, size=8m; 4 stripes, size=16m",
    ]


def test_request_is_restored_from_a_file(tmp_path: Path) -> None:
    request = plan(target={"volume_type": "gp3"}, labels={"a": "b"}, wiped=("/dev/sdb",)).request
    states = StateDirectory(SweepState, str(tmp_path))
    sizes = dict.fromkeys(request.devices, 2**30)
    states.create("x", request=dump_request(request), steps=[], sizes=sizes, approved_contents={}, round=None)

    assert load_request(states.load("x", option="--resume")) == request
