"""A simulated machine with devices, arrays, volume groups and mounts, which can be killed at any time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from agent import job_state
from agent.exit_codes import CannotMeasure
from agent.files import write_durably
from agent.results import ResultRow
from agent.running.measure import RunRequest, SpooledRun
from agent.running.session import Session
from agent.storage.device_checks import Device
from agent.storage.signatures import Content, Signature

# Imported before anything is replaced: otherwise the replacement would be restored.
from agent.sweeping import sweep_command, sweep_run
from agent.sweeping.stripe_commands import ARRAY, NAME, Stripe, StripeState, is_ours
from agent.sweeping.sweep_run import ToolFailed
from tests.agent.conftest import Machine

GIB = 2**30


class Killed(BaseException):
    """kill -9: the process ends without cleanup."""


class Kernel:
    """A simulation of the tools of a sweep.

    dies_at: the event, from 1, at which the process is killed; is_done: whether that event still takes effect.
    refuses: the program that fails.
    """

    def __init__(self, *devices: str) -> None:
        self.held: dict[str, list[Signature]] = {device: [] for device in devices}
        self.written = dict.fromkeys(devices, 0)
        self.array: tuple[str, ...] = ()
        self.group: tuple[str, ...] = ()
        self.volume: list[Signature] = []
        self.mounted: str | None = None
        self.events = 0
        self.dies_at: int | None = None
        self.is_done = False
        self.is_dead = False
        self.refuses = ""
        self.commands: list[str] = []
        self.measured: list[tuple[str, dict[str, Any]]] = []
        self.failure: Callable[[RunRequest], str | None] = lambda request: None

    @property
    def is_clean(self) -> bool:
        return not (self.array or self.group or self.mounted or any(self.held.values()))

    def happen(self, effect: Callable[[], Any]) -> Any:
        """Do something, and be killed before or after it if planned."""
        if self.is_dead:
            raise Killed
        self.events += 1
        is_last = self.events == self.dies_at
        if is_last and not self.is_done:
            self.is_dead = True
            raise Killed
        outcome = effect()
        if is_last:
            self.is_dead = True
            raise Killed
        return outcome

    def run_tool(self, argv: Sequence[str], **_: object) -> str:
        self.happen(lambda: self._run(argv))
        return ""

    def _run(self, argv: Sequence[str]) -> None:
        self.commands.append(" ".join(argv))
        if argv[0] == self.refuses:
            raise ToolFailed(f"{argv[0]} ended with status 1: it will not")
        getattr(self, "_" + argv[0].replace(".", "_"))(argv)
        for device in (*self.array, *self.group, *(word for word in argv if word in self.held)):
            # Zeroing an empty device changes nothing.
            if self.written[device] or argv[0] not in ("wipefs", "dd"):
                self.write_data(device)

    def write_data(self, device: str) -> None:
        """Change the data on a device, except for its signatures."""
        self.written[device] += 1

    def read_content(self, device: str) -> Content:
        count = self.written[device]
        return Content(8192, f"{device} after {count}") if count else Content(None, device)

    def _mdadm(self, argv: Sequence[str]) -> None:
        devices = tuple(word for word in argv if word in self.held)
        if argv[1] == "--create":
            assert not any(self.held[device] for device in devices)
            self.array = devices
            for device in devices:
                self.held[device] = [Signature("md 1.2", 4096, f"box:{NAME}")]
        elif argv[1] == "--stop":
            assert self.mounted is None
            self.array = ()
        else:
            assert not self.array
            for device in devices:
                self.held[device] = []

    def _pvcreate(self, argv: Sequence[str]) -> None:
        for device in argv[2:]:
            assert not self.held[device]
            self.held[device] = [Signature("LVM2", 512)]

    def _vgcreate(self, argv: Sequence[str]) -> None:
        self.group = tuple(argv[3:])
        for device in self.group:
            self.held[device] = [Signature("LVM2", 512, NAME)]

    def _lvcreate(self, argv: Sequence[str]) -> None:
        assert self.group

    def _vgremove(self, argv: Sequence[str]) -> None:
        assert self.mounted is None
        for device in self.group:
            self.held[device] = [Signature("LVM2", 512)]
        self.group, self.volume = (), []

    def _pvremove(self, argv: Sequence[str]) -> None:
        assert not self.group
        for device in argv[2:]:
            self.held[device] = []

    def _mkfs_xfs(self, argv: Sequence[str]) -> None:
        if argv[-1] in self.held:
            self.held[argv[-1]] = [Signature("XFS", 0, NAME)]
        else:
            self.volume = [Signature("XFS", 0, NAME)]

    def _mkfs_btrfs(self, argv: Sequence[str]) -> None:
        for device in argv[9:]:
            copies = [Signature("btrfs", 65600, NAME), Signature("btrfs copy", 67108928, NAME)]
            self.held[device] = copies

    def _mount(self, argv: Sequence[str]) -> None:
        self.mounted = argv[-1]

    def _umount(self, argv: Sequence[str]) -> None:
        assert self.mounted == argv[-1]
        self.mounted = None

    def _wipefs(self, argv: Sequence[str]) -> None:
        for device in argv[2:]:
            if device in self.held:
                self.held[device] = [
                    # The label remains.
                    replace(each, name="LVM") if each.name == "LVM2" else each
                    for each in self.held[device]
                    if each.name in ("btrfs copy", "LVM2")
                ]
            else:
                self.volume = []

    def _dd(self, argv: Sequence[str]) -> None:
        self.held[argv[2].partition("=")[2]] = []

    def inspect_stripe(self, stripe: Stripe) -> StripeState:
        held = [
            (device, tuple(found))
            for device, found in self.held.items()
            if found and all(map(is_ours, found))
        ]
        volumes = (ARRAY,) if self.array else ("/dev/bench-agent/stripe",) if self.group else ()
        return StripeState(
            is_mounted=self.mounted is not None,
            volumes=volumes if self.volume else (),
            arrays=(ARRAY,) if self.array else (),
            has_group=bool(self.group),
            signatures=tuple(held),
        )

    def find_foreign(self, stripe: Stripe) -> list[str]:
        return [
            f"{device} contains {each.describe()}, which was not written by the sweep"
            for device in stripe.devices
            for each in self.held[device]
            if not is_ours(each)
        ]

    def inspect_device(self, path: str) -> Device:
        if path not in self.held:
            return Device(path, "", 0, ("does not exist",))
        uses = ("is in use by md127",) if path in self.array or path in self.group else ()
        return Device(path, f"/sys/{path}", GIB, uses, tuple(self.held[path]), self.read_content(path))

    def measure(self, request: RunRequest, session: Session) -> SpooledRun:
        """Store a result, as a real run does; from then on it must not be lost."""
        assert self.mounted == request.directory
        assert request.run_id is not None
        failure = self.failure(request)
        if failure == "nothing":
            raise CannotMeasure("fio printed nothing")
        entry = self.happen(lambda: session.spool.add(str(request.run_id), b"x"))
        self.measured.append((str(request.run_id), dict(request.known)))
        results = [
            ResultRow("randread-4k read", "read", 0, {"iops": 1000.0 * request.known["stripe_count"] ** 0.9})
        ]
        return SpooledRun(entry, 1 if failure else 0, failure, results=results)

    def write_durably(self, path: str, content: bytes) -> None:
        self.happen(lambda: write_durably(path, content))


@contextmanager
def boot(kernel: Kernel) -> Iterator[None]:
    """Run the sweeps of this process on the simulated kernel."""
    places = {
        sweep_run: (
            "run_tool",
            "inspect_stripe",
            "find_foreign",
            "inspect_device",
            "measure",
            "read_content",
        ),
        sweep_command: ("inspect_device",),
        job_state: ("write_durably",),
    }
    with ExitStack() as stack:
        for module, names in places.items():
            for name in names:
                stack.enter_context(mock.patch.object(module, name, getattr(kernel, name)))
        for name in ("sweep_run.wait_until_free", "sweep_run.wait_until_named", "sweep_command.find_fio"):
            stack.enter_context(mock.patch(f"agent.sweeping.{name}"))
        stack.enter_context(mock.patch("agent.sweeping.sweep_run._BUSY_S", 0.0))
        stack.enter_context(mock.patch("agent.sweeping.sweep_run._BUSY_PAUSE_S", 0.0))
        stack.enter_context(
            mock.patch("agent.sweeping.sweep_command.find_program", lambda name: f"/sbin/{name}")
        )
        if os.geteuid() != 0:
            # Root would refuse the files of the user who runs the tests.
            stack.enter_context(mock.patch("agent.trust._list_passed", return_value=()))
        stack.enter_context(mock.patch("os.geteuid", lambda: 0))
        stack.enter_context(mock.patch("os.fsync"))  # hundreds of kills, none of them a power failure
        yield


DEVICES = ("/dev/a", "/dev/b")
EXT4 = Signature("ext4", 1080, "backup")
SWEEP = ("sweep", "--devices", ",".join(DEVICES), "--profile", "quick", "--no-send")
# Two runs on one device, then two on both.
SIZES = ("--file-sizes", "8m,16m", "--yes")


def run_sweep(machine: Machine, kernel: Kernel, *arguments: str) -> Any:
    with boot(kernel):
        return machine.run(*SWEEP, *arguments)


def kill_sweep(machine: Machine, kernel: Kernel, *arguments: str, at: int) -> None:
    """Run a sweep that is killed at an event, from 1."""
    kernel.dies_at = at
    with pytest.raises(Killed):
        run_sweep(machine, kernel, *arguments)
    kernel.is_dead = False


def state(machine: Machine) -> dict[str, Any]:
    (path,) = (machine.spool / "sweeps").glob("*.json")
    return json.loads(path.read_text())


def step_states(machine: Machine) -> list[str]:
    return [step["state"] for step in state(machine)["steps"]]


def spooled(machine: Machine) -> set[str]:
    return {path.name.partition("-")[2][:36] for path in machine.pending()}
