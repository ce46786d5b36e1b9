"""Runs on a raw block device: by reads unless the device is named twice, and never on one that is in use."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.commands.cli import build_parser
from agent.exit_codes import CannotMeasure
from agent.profiles.profile import Plan, load_profile, make_plan
from agent.running.experiment_command import STORED_OPTIONS
from agent.scheduling.timetable import Schedule
from agent.storage.device_checks import hold_device
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer
from tests.agent.sweeping.loops import OBSTACLE, make_loop, run_tool

needs_loops = pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")
READS = (
    *("--profile", "saturation", "--set", "size=4m"),
    *("--set", "iodepth_maximum=1", "--set", "jobs_maximum=1", "--set", "runtime=1"),
)


def plan_on(device: str, profile: str, **adjustments: str) -> Plan:
    plan = make_plan(load_profile(profile), adjustments)
    return Plan(plan.profile, plan.values, device=device)


def test_jobs_of_a_shared_file_open_the_device() -> None:
    jobfile = plan_on("/dev/by:path", "saturation").write_jobfile(
        engine="libaio", is_direct=True, step="a", iodepth=1, jobs=1
    )

    assert jobfile.count("filename=") == 1
    assert "\nfilename=/dev/by\\:path\n" in jobfile


def test_jobs_with_a_file_each_have_a_part_of_the_device_each() -> None:
    jobfile = plan_on("/dev/sdx", "netapp-iops", size="8m").write_jobfile(engine="libaio", is_direct=True)

    assert "[global]\nfilename=/dev/sdx\noffset_increment=8388608\nsize=8388608\n" in jobfile


@pytest.mark.parametrize(
    ("profile", "adjustments", "writes"),
    [
        ("quick", {}, True),
        ("ebs-series", {}, True),
        ("gitlab-randrw", {}, True),
        ("snia-steady", {}, True),
        ("saturation", {}, False),
        ("saturation", {"rw": "randrw"}, True),
        ("netapp-latency", {}, True),
        ("netapp-latency", {"rw": "randread"}, False),
        ("netapp-throughput", {}, False),
    ],
)
def test_profile_writes_if_any_of_its_jobs_does(
    profile: str, adjustments: dict[str, str], writes: bool
) -> None:
    assert plan_on("/dev/sdx", profile, **adjustments).writes is writes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--profile", "quick"),
            "would write to /dev/null; choose netapp-iops or saturation, which read, or add",
        ),
        (("--profile", "netapp-latency"), "add --set rw=randread, or add --destructive /dev/null to destroy"),
        (("--profile", "quick", "--destructive", "/dev/zero"), "--destructive /dev/zero: not the device"),
        (("--profile", "gitlab-smallfiles"), "profile gitlab-smallfiles measures files"),
        (("--profile", "saturation", "--directory", "/tmp"), "--directory cannot be used with --device"),
        (("--jobfile", "x.fio"), "--device cannot be used with --jobfile"),
        (("--profile", "saturation"), "/dev/null is not a block device"),
    ],
)
def test_device_is_refused(machine: Machine, options: tuple[str, ...], message: str) -> None:
    ended = machine.run("run", "--no-send", "--device", "/dev/null", *options)
    checks = {
        each["name"]: each for each in machine.run_json("check", "--device", "/dev/null", *options)["checks"]
    }

    assert (ended.returncode, machine.pending()) == (5 if "block device" in message else 2, [])
    assert message in ended.stderr
    assert (checks["device"]["ok"], message in checks["device"]["detail"]) == (False, True)


def test_destructive_run_names_its_device(machine: Machine) -> None:
    ended = machine.measure("--destructive", "/dev/sdx")

    assert "--destructive requires --device" in ended.stderr


def test_resumed_experiment_measures_what_it_measured_before() -> None:
    options = vars(build_parser().parse_args(["experiment"]))
    measured = vars(build_parser().parse_args(["schedule", "install", "--cron"]))
    beside = {"command", "config", "dry_run", "json", "quiet"}

    assert (options.keys() & measured.keys()) - beside <= STORED_OPTIONS.keys()


def test_schedule_is_on_a_device_and_in_a_directory() -> None:
    places = [Schedule("saturation", path, 21600).describe() for path in ("/dev/sdx", "/data")]

    assert places == ["saturation on /dev/sdx every 6 h", "saturation in /data every 6 h"]


@pytest.fixture
def loops(machine: Machine, tmp_path: Path) -> Iterator[list[str]]:
    """Two loop devices, on a machine with the real fio."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed; run apt install fio")
    (machine.home / "fio").unlink()
    (machine.home / "fio").symlink_to(shutil.which("fio") or "")
    devices = [make_loop(tmp_path / name, 32 * 2**20) for name in ("a.img", "b.img")]
    yield devices
    for device in devices:
        run_tool("losetup", "--detach", device)


def read_envelopes(machine: Machine) -> list[dict[str, Any]]:
    return [json.loads(gzip.decompress(path.read_bytes())) for path in machine.pending()]


@needs_loops
def test_two_drives_of_a_host_are_two_targets(machine: Machine, loops: list[str]) -> None:
    for device in loops:
        ended = machine.run("run", "--no-send", "--device", device, *READS)
        assert ended.returncode == 0, ended.stderr

    targets = [envelope["targets"] for envelope in read_envelopes(machine)]
    assert [[opened["path"] for opened in each] for each in targets] == [[device] for device in loops]
    assert [each[0]["device"]["kernel_name"] for each in targets] == [Path(device).name for device in loops]
    assert [each[0]["mount_point"] for each in targets] == [None, None]
    assert "--readonly" in read_envelopes(machine)[0]["command"]["argv"]


@needs_loops
def test_read_run_leaves_the_data_of_the_device(machine: Machine, loops: list[str], tmp_path: Path) -> None:
    run_tool("mkfs.ext4", "-q", loops[0])
    before = (tmp_path / "a.img").read_bytes()

    ended = machine.run("run", "--no-send", "--device", loops[0], *READS)

    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "a.img").read_bytes() == before


@needs_loops
def test_destructive_run_writes_and_says_what_it_destroys(machine: Machine, loops: list[str]) -> None:
    run_tool("mkfs.ext4", "-q", loops[0])
    options = ("--profile", "quick", "--set", "runtime=1", "--set", "size=4m", "--destructive", loops[0])

    ended = machine.run("run", "--no-send", "--device", loops[0], *options)

    assert f"{loops[0]}: destroys ext4 at byte 1080" in ended.stderr
    (envelope,) = read_envelopes(machine)
    report = json.loads(envelope["fio_output"][envelope["fio_output"].index("{") :])
    assert [job["write"]["iops"] > 0 for job in report["jobs"]] == [False, True, False, True]


@needs_loops
def test_check_says_whether_a_run_on_the_device_would_start(
    machine: Machine, loops: list[str], tmp_path: Path
) -> None:
    run_tool("mkfs.ext4", "-q", loops[0])
    before = (tmp_path / "a.img").read_bytes()
    small = machine.run("check", "--device", loops[0])
    reads = machine.run("check", "--device", loops[0], "--file-size", "4m")
    writes = machine.run("check", "--device", loops[0], "--destructive", loops[0], "--set", "size=4m")
    after = (tmp_path / "a.img").read_bytes()
    run_tool("mount", loops[0], str(machine.directory))
    mounted = machine.run("check", "--device", loops[0], *READS)
    run_tool("umount", str(machine.directory))

    assert (
        f"FAILED   device        {loops[0]} has 32 MiB, the profile needs 1 GiB; see --file-size"
        in small.stdout
    )
    assert f"ok       device        {loops[0]} has 32 MiB; profile saturation only reads it" in reads.stdout
    assert f"ok       device        {loops[0]} has 32 MiB; profile quick writes to it" in writes.stdout
    assert f"{loops[0]}: destroys ext4 at byte 1080" in writes.stderr
    assert f"FAILED   device        {loops[0]} is mounted at {machine.directory}" in mounted.stdout
    assert after == before


@needs_loops
@pytest.mark.parametrize("options", [(), ("--destructive",)])
def test_mounted_or_small_device_is_refused(
    machine: Machine, loops: list[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    run_tool("mkfs.ext4", "-q", loops[0])
    (tmp_path / "mounted").mkdir()
    run_tool("mount", loops[0], str(tmp_path / "mounted"))
    try:
        repeated = [*options, *[loops[0] for _ in options]]
        mounted = machine.run("run", "--no-send", "--device", loops[0], *READS, *repeated)
    finally:
        run_tool("umount", str(tmp_path / "mounted"))
    small = machine.run("run", "--no-send", "--device", loops[1], *READS, "--set", "size=64m")

    assert f"{loops[0]} is mounted at {tmp_path}/mounted" in mounted.stderr
    assert f"{loops[1]} has 32 MiB, the profile needs 64 MiB; see --file-size" in small.stderr
    assert machine.pending() == []


@needs_loops
def test_attempt_on_a_device_names_it_as_runs_do(
    host: Machine, server: HostileServer, loops: list[str]
) -> None:
    host.run("run", "--device", loops[0], *READS, "--set", "size=64m")

    stored = server.read_stored()
    assert (stored["target_name"], stored["kernel_name"]) == (Path(loops[0]).name,) * 2


@needs_loops
def test_device_cannot_be_mounted_while_it_is_measured(loops: list[str], tmp_path: Path) -> None:
    run_tool("mkfs.ext4", "-q", loops[0])
    mount = ["mount", loops[0], str(tmp_path)]

    with hold_device(loops[0]):
        during = subprocess.run(mount, capture_output=True, text=True, check=False)
        with pytest.raises(CannotMeasure, match="Device or resource busy"), hold_device(loops[0]):
            pass
    after = subprocess.run(mount, capture_output=True, text=True, check=False)
    run_tool("umount", str(tmp_path))

    assert (during.returncode == 0, after.returncode) == (False, 0), during.stderr + after.stderr


@needs_loops
def test_scheduled_device_is_named_by_its_link(
    machine: Machine, loops: list[str], table: Path, tmp_path: Path
) -> None:
    link = tmp_path / "by-id"
    link.symlink_to(loops[0])

    ended = machine.run(*("schedule", "install", "--cron", "--every", "6h", "--device", str(link)), *READS)

    assert ended.returncode == 0, ended.stderr
    assert f" --device {link} " in table.read_text()
    assert f"saturation in {link} every 6 h" in ended.stdout
    assert "--directory" not in table.read_text()
