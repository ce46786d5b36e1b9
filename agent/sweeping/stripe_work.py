"""Make a stripe and take it away for real; what is there is looked up, so a killed sweep is no special case."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Callable, Iterable, Sequence

from agent.exit_codes import CannotMeasure, Interrupted
from agent.measuring.fio import StopSignals, make_mortal
from agent.storage.mounts import find_mount
from agent.storage.sysfs import list_directory
from agent.sweeping.signatures import Signature, read_signatures
from agent.sweeping.stripes import NAME, VOLUME, Found, Stripe, build_commands, is_ours, undo_commands

# cron's PATH has no sbin.
_EXTRA_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
_POLL_INTERVAL_S = 0.05
_TERMINATION_S = 10.0
_OUTPUT_MAXIMUM = 4000
# udev looks into whatever was just closed, and holds it for a moment.
_BUSY_S = 10.0
_BUSY_PAUSE_S = 0.2
# It also makes the links by which arrays are named. mdadm waits 5 s for it; `udevadm settle` would wait 120 s.
_NAMED_S = 120.0


class ToolFailed(CannotMeasure):
    """A command of the system ended otherwise than well."""


@dataclass(frozen=True)
class Remains:
    """What could not be put back: why, and the commands to do by hand; both empty where all is bare again."""

    problems: tuple[str, ...] = ()
    by_hand: tuple[tuple[str, ...], ...] = ()

    def describe(self) -> str:
        """Return it in words, the commands a line each."""
        lines = [*self.problems, *(f"  {shlex.join(argv)}" for argv in self.by_hand)]
        return "not everything could be put back; do by hand:\n" + "\n".join(lines)


def find_tool(name: str) -> str | None:
    """Return the path of a program, also where PATH has no sbin; None where it is missing."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":" + _EXTRA_PATH)


def run_tool(argv: Sequence[str], *, stop: StopSignals | None, tick: Callable[[], None]) -> str:
    """Run a command to its end and return what it said; ToolFailed where it failed.

    A signal in stop ends it and raises Interrupted; without stop it runs to its end whatever comes.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    for name in [name for name in environment if name.startswith("BENCH_AGENT_")]:
        del environment[name]  # no tool needs the token
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                executable=find_tool(argv[0]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=make_mortal(),
            )
        except OSError as error:
            raise ToolFailed(f"{argv[0]} cannot be started: {error}") from None
        _wait_for(process, stop, tick)
        output.seek(0)
        said = output.read(_OUTPUT_MAXIMUM).decode("utf-8", "replace").strip()
    if stop is not None and stop.received is not None:
        raise Interrupted(f"stopped at {shlex.join(argv)}", stop.received)
    if process.returncode != 0:
        raise ToolFailed(f"{shlex.join(argv)} ended with status {process.returncode}: {said or 'no words'}")
    return said


def raise_stripe(stripe: Stripe, *, stop: StopSignals, tick: Callable[[], None]) -> None:
    """Make and mount the stripe over bare devices; CannotMeasure where that fails, with what it left in place."""
    wait_until_free(stripe.devices)
    os.makedirs(stripe.mount_point, mode=0o700, exist_ok=True)
    for argv in build_commands(stripe):
        if argv[0].startswith("mkfs"):
            wait_until_named(stripe.volume, stop=stop, tick=tick)
        run_tool(argv, stop=stop, tick=tick)


def take_down(stripe: Stripe, *, tick: Callable[[], None]) -> Remains:
    """Take away what there is of the stripe, in reverse order; touch nothing that a sweep did not write.

    Signals do not stop it. What fails is tried again for a while: who just closed a device may hold it a moment.
    """
    tried: tuple[tuple[str, ...], ...] = ()
    problem: str | None = None
    deadline = 0.0
    while True:
        commands = undo_commands(stripe, look_at(stripe))
        if not commands:
            return Remains(tuple(find_foreign(stripe)))
        if commands != tried:
            tried, deadline = commands, time.monotonic() + _BUSY_S
        elif time.monotonic() > deadline:
            return Remains((problem or "it is there again whenever it is taken away",), commands)
        problem = _run_all(commands, tick)
        if problem:
            time.sleep(_BUSY_PAUSE_S)


def look_at(stripe: Stripe) -> Found:
    """Return what there is of the stripe that a sweep made; a device that holds anything else as well is left out."""
    read = {device: _read(device) for device in stripe.devices}
    held = [(device, found) for device, found in read.items() if found and all(map(is_ours, found))]
    members = [device for device, found in held if any(each.name.startswith("md ") for each in found)]
    arrays = find_arrays(members)
    has_group = stripe.layer == "lvm" and _has_group()
    volumes = (*arrays, *([VOLUME] if has_group else []))
    mount = find_mount(stripe.mount_point)
    return Found(
        is_mounted=mount is not None and mount.mount_point == stripe.mount_point,
        volumes=tuple(volume for volume in volumes if _read(volume)),
        arrays=arrays,
        has_group=has_group,
        signatures=tuple(held),
    )


def find_foreign(stripe: Stripe) -> list[str]:
    """Return what lies on the devices that no sweep wrote, or why that cannot be told, in words."""
    foreign = []
    for device in stripe.devices:
        try:
            found = read_signatures(device)
        except OSError as error:
            foreign.append(f"{device} cannot be read: {error.strerror}")
            continue
        foreign.extend(
            f"{device} holds {signature.describe()}, which the sweep did not write"
            for signature in found
            if not is_ours(signature)
        )
    return foreign


def find_arrays(members: Iterable[str], *, root: str = "/") -> tuple[str, ...]:
    """Return the md arrays that consist of these devices only, under whatever number they were started."""
    blocks = os.path.join(root, "sys/class/block")
    names = {os.path.basename(os.path.realpath(member)) for member in members}
    holders = {holder for name in names for holder in list_directory(os.path.join(blocks, name, "holders"))}
    return tuple(
        f"/dev/{holder}"
        for holder in sorted(holders)
        # Not by its level: of an array that udev assembles from part of its members, the kernel knows none yet.
        if os.path.isdir(os.path.join(blocks, holder, "md"))
        and names.issuperset(list_directory(os.path.join(blocks, holder, "slaves")))
    )


def wait_until_free(devices: Iterable[str]) -> None:
    """Wait until the kernel gives each device exclusively; CannotMeasure where it does not."""
    deadline = time.monotonic() + _BUSY_S
    for device in devices:
        while True:
            try:
                os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise CannotMeasure(f"{device} is in use: {error.strerror}") from None
            time.sleep(_BUSY_PAUSE_S)


def wait_until_named(volume: str, *, stop: StopSignals, tick: Callable[[], None]) -> None:
    """Wait until udev has named what was just made; CannotMeasure where it does not, Interrupted at a signal."""
    deadline = time.monotonic() + _NAMED_S
    while not os.path.exists(volume):
        if stop.received is not None:
            raise Interrupted(f"stopped before there was {volume}", stop.received)
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{volume} was made and is not there: does udev work?")
        tick()
        time.sleep(_POLL_INTERVAL_S)


def _wait_for(process: subprocess.Popen[bytes], stop: StopSignals | None, tick: Callable[[], None]) -> None:
    pause_s = _POLL_INTERVAL_S / 16
    while process.poll() is None:
        if stop is not None and stop.received is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_TERMINATION_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return
        tick()
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_S)


def _run_all(commands: Sequence[Sequence[str]], tick: Callable[[], None]) -> str | None:
    """Run until one fails, whose complaint is returned: what comes after it needs it."""
    for argv in commands:
        try:
            run_tool(argv, stop=None, tick=tick)
        except ToolFailed as error:
            return str(error)
    return None


def _read(device: str) -> tuple[Signature, ...]:
    """Return what a device holds; nothing where it has died, so that what lies on top of it still goes."""
    try:
        return read_signatures(device)
    except OSError:
        return ()


def _has_group() -> bool:
    try:
        run_tool(("vgs", "--noheadings", NAME), stop=None, tick=lambda: None)
    except ToolFailed:
        return False
    return True
