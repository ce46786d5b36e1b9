"""Checks, dry run and confirmation of a sweep before it writes, on a simulated machine."""

import json
from unittest import mock

import pytest

from agent.storage.signatures import Signature
from tests.agent.conftest import Machine, Terminal
from tests.agent.sweeping.kernel import DEVICES, EXT4, SIZES, SWEEP, Kernel, boot, run_sweep


def test_device_with_data_is_refused(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.held["/dev/b"] = [EXT4, Signature("md 1.2", 4096, "box:data")]

    ended = run_sweep(machine, kernel, *SIZES)

    assert ended.returncode == 2
    assert (
        "/dev/b contains ext4 “backup” at byte 1080, md 1.2 “box:data” at byte 4096; to destroy it, add --wipe /dev/b"
        in ended.stderr
    )
    assert (kernel.commands, kernel.held["/dev/b"][0]) == ([], EXT4)


def test_wipe_applies_to_the_named_devices_only(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.held.update({"/dev/a": [EXT4], "/dev/b": [EXT4]})

    ended = run_sweep(machine, kernel, "--wipe", "/dev/b", *SIZES)

    assert ended.returncode == 2
    assert "/dev/a contains ext4" in ended.stderr
    assert "/dev/b" not in ended.stderr
    assert kernel.commands == []


def test_device_in_use_is_refused_also_with_wipe(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.array = ("/dev/a",)

    ended = run_sweep(machine, kernel, "--wipe", "/dev/a", *SIZES)

    assert ended.returncode == 2
    assert "/dev/a is in use by md127" in ended.stderr


def test_yes_is_required_without_a_terminal(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    ended = run_sweep(machine, kernel, "--file-sizes", "8m")

    assert ended.returncode == 2
    assert (
        "a sweep destroys all data on its devices; confirm with --yes if there is no terminal" in ended.stderr
    )
    assert kernel.commands == []


def test_dry_run_prints_commands_and_does_nothing(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    ended = run_sweep(machine, kernel, "--stripes", "2", "--dry-run", "--file-sizes", "8m")

    assert ended.returncode == 0
    assert "\nmkfs.xfs -f -q -L bench-agent /dev/md/bench-agent\n" in ended.stdout
    assert (kernel.commands, machine.spool.exists()) == ([], False)


def test_dry_run_lists_objections(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.held["/dev/b"] = [EXT4]

    ended = run_sweep(machine, kernel, "--dry-run", "--json")

    assert ended.returncode == 2
    document = json.loads(ended.stdout)
    assert document["objections"] == [
        "/dev/b contains ext4 “backup” at byte 1080; to destroy it, add --wipe /dev/b"
    ]
    assert document["commands"][0]["title"] == "build xfs on /dev/a"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "set either --devices or --directories"),
        (["--devices", "/dev/a", "--directories", "/tmp"], "set either --devices or --directories"),
        (["--devices", "/dev/a,"], "--devices /dev/a,: empty value"),
        (["--devices", "/dev/a,/dev/a"], "--devices /dev/a,/dev/a: duplicate value /dev/a"),
        (["--devices", "/dev/a", "--chunk", "big"], "--chunk: 'big' is not a valid size"),
        (["--devices", "/dev/a", "--stripes", "two"], "--stripes: 'two' is not a whole number"),
        (["--devices", "/dev/a", "--wipe", "/dev/c"], "--wipe /dev/c: not one of --devices"),
        (["--directories", "/nonexistent"], "--directories /nonexistent: not a directory"),
        (["--directories", "/tmp", "--raid", "lvm"], "--raid requires --devices"),
        (
            ["--directories", "/tmp", "--set", "size=1m", "--file-sizes", "2m"],
            "size=1m: already set by --file-sizes",
        ),
        (["--directories", "/tmp", "--set", "iodepth=0"], "--set iodepth=0: must be at least 1"),
        (["--directories", "/tmp", "--target", "x=1"], "unknown target field 'x'; available: name, "),
        (["--resume", "last", "--devices", "/dev/a"], "--resume continues as planned; leave out --devices"),
        (["--resume", "1234"], "--resume 1234: unknown sweep; available: none"),
    ],
)
def test_invalid_sweep_is_refused_first(machine: Machine, arguments: list[str], message: str) -> None:
    profile = [] if "--resume" in arguments else ["--profile", "quick"]
    kernel = Kernel("/dev/a")

    with boot(kernel):
        ended = machine.run("sweep", *profile, "--yes", *arguments)

    assert ended.returncode == 2
    assert message in ended.stderr
    assert kernel.commands == []


def test_missing_tools_are_listed_with_their_packages(machine: Machine) -> None:
    with (
        boot(Kernel(*DEVICES)),
        mock.patch(
            "agent.sweeping.sweep_command.find_program",
            lambda name: None if name[:2] in ("mk", "md") else name,
        ),
    ):
        ended = machine.run(*SWEEP, *SIZES)

    assert ended.returncode == 2
    assert "missing: mkfs.xfs, mdadm; install for example with apt install mdadm xfsprogs" in ended.stderr


def test_other_users_than_root_are_refused(machine: Machine) -> None:
    with boot(Kernel(*DEVICES)), mock.patch("os.geteuid", lambda: 1000):
        ended = machine.run(*SWEEP, *SIZES)

    assert ended.returncode == 2
    assert "run it as root" in ended.stderr


def test_directory_without_space_is_refused_before_the_first_step(machine: Machine) -> None:
    ended = machine.run(
        "sweep", "--directories", str(machine.directory), "--profile", "quick", "--file-sizes", "8m,4p"
    )

    assert ended.returncode == 5
    assert "nothing was written" in ended.stderr
    assert not (machine.spool / "sweeps").exists()


def test_data_written_after_the_confirmation_is_not_lost(machine: Machine) -> None:
    """Another process creates a filesystem before the plan is confirmed."""
    kernel = Kernel(*DEVICES)

    def answer() -> str:
        kernel.held["/dev/a"] = [EXT4]
        return "yes\n"

    with boot(kernel):
        ended = machine.run(*SWEEP, "--file-sizes", "8m", stdin=mock.Mock(**{"readline.side_effect": answer}))

    assert ended.returncode == 2
    assert "/dev/a contains ext4 “backup”" in ended.stderr
    assert kernel.held["/dev/a"] == [EXT4]


@pytest.mark.parametrize(("answer", "status"), [("yes\n", 0), ("y\n", 2), ("\n", 2), ("", 2)])
def test_confirmation_is_read_from_the_terminal(machine: Machine, answer: str, status: int) -> None:
    kernel = Kernel(*DEVICES)

    with boot(kernel):
        ended = machine.run(*SWEEP, "--file-sizes", "8m", stdin=Terminal(answer))

    assert ended.returncode == status
    assert "all data on /dev/a, /dev/b will be destroyed; type yes to start: " in ended.stderr
    assert bool(kernel.commands) is (status == 0)
