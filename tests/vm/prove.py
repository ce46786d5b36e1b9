"""What the agent does to real md, LVM, btrfs, cron and systemd: run by root in the machine of boot.sh, on its disks."""

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from subprocess import DEVNULL, PIPE, STDOUT

sys.path.insert(0, "/mnt")
import server

AGENT = "/usr/local/bin/bench-agent"
DISKS = ("/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde")
SPOOL = Path("/var/lib/bench-spool")
MOUNT = SPOOL / "sweeps/mount"
HAD_POWER_CUT = Path("/root/had-power-cut")
TINY = ("--profile", "quick", "--set", "runtime=1", "--set", "size=8m")
INSTALL = ("schedule", "install", "--directory", "/srv", *TINY)
TARGET = ("filesystem", "raid_level", "volume_count", "stripe_count", "chunk_size_bytes")
# What the system's own tools show of a sweep: signatures, arrays, volumes, mounts, nodes.
SHOW_LEFT = f"""udevadm settle; wipefs --noheadings {" ".join(DISKS)}; grep ^md /proc/mdstat; pvs --noheadings
grep {MOUNT} /proc/mounts; lsblk -no NAME | grep -v ^vd; find /dev/md /dev/bench-agent -mindepth 1 2>&-"""
SHOW_UNITS = "find /etc/systemd /var/lib/systemd | sort; systemctl list-units --all --no-legend bench-agent*"
failed: list[str] = []


def check(claim: str, is_true: object, seen: object) -> None:
    """Say whether a claim holds; where it does not, what was seen instead."""
    print(f"ok   {claim}" if is_true else f"FAIL {claim}\n{seen}", flush=True)
    if not is_true:
        failed.append(claim)


def begin(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True)


def shell(command: str) -> str:
    return begin("sh", "-c", command).communicate()[0]


def run_agent(claim: str, *arguments: str, status: int = 0) -> None:
    said, _ = (process := begin(AGENT, *arguments)).communicate()
    check(claim, process.returncode == status, said)


def list_sweep(raid: str, stripes: str, *arguments: str) -> tuple[str, ...]:
    layout = ("--devices", ",".join(DISKS), "--raid", raid, "--stripes", stripes)
    return ("sweep", *layout, "--yes", "--no-send", *TINY, *arguments)


def begin_sweep(*layout: str) -> subprocess.Popen[str]:
    shell(f"rm -f {SPOOL}/pending/*")
    return begin(AGENT, *list_sweep(*layout))


def wait_for(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 300  # an emulated processor takes its time
    while not (is_there := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_there


def is_alive(program: str) -> bool:
    return bool(shell(f"pgrep --exact {program}"))


def is_measuring() -> bool:
    return MOUNT.is_mount() and is_alive("fio")


def read_spool() -> list[dict]:
    paths = sorted(SPOOL.glob("pending/*.json.gz"))  # a name begins with the time
    return [json.loads(gzip.decompress(path.read_bytes())) for path in paths]


def check_bare(after: str) -> None:
    left = shell(SHOW_LEFT)
    check(f"{after}: all is bare", not left.strip(), left)


def prove_sweep(raid: str, filesystem: str, chunk_kib: int, look: str, fact: str) -> None:
    """Sweep over 1, 2 and 4 disks; look: the tool that shows a stripe; fact: what it must say of the last."""
    sweep = begin_sweep(raid, "1,2,4", "--fs", filesystem, "--chunk", f"{chunk_kib}k")
    wait_for(lambda: sweep.poll() is not None or (len(read_spool()) == 2 and is_measuring()))
    told = " ".join(shell(look).split())
    check(f"{raid}: {look.split()[0]} tells {fact}", fact in told, told)
    check(f"{raid}: sweep works", "3 of 3 steps worked" in (said := sweep.communicate()[0]), said)
    measured = [tuple(envelope["target"][name] for name in TARGET) for envelope in read_spool()]
    wanted = [(filesystem, "raid0", count, count, chunk_kib * 1024) for count in (2, 4)]
    check(f"{raid}: the agent tells the same", measured[1:] == wanted, measured)
    check_bare(f"{raid}, swept")


def prove_resume(raid: str, program: str, number: Signals) -> None:
    """Send a signal to a sweep while a program of it works, and go on with it."""
    scene = f"{raid}, {number.name} at {program}"
    sweep = begin_sweep(raid, "2")
    wait_for(is_measuring if program == "fio" else lambda: is_alive(program))
    sweep.send_signal(number)
    said, _ = sweep.communicate()
    if number != SIGKILL:
        check(f"{scene}: ends with {128 + number}", sweep.returncode == 128 + number, said)
        check_bare(scene)
    finish(scene)


def finish(scene: str) -> None:
    run_agent(f"{scene}: goes on", "sweep", "--resume", "last", "--no-send")
    check(f"{scene}: has one result", len(read_spool()) == 1, read_spool())
    check_bare(f"{scene}, resumed")


def cut_power() -> None:
    """End this machine in the middle of a step, as if by the plug; it boots again by itself."""
    begin_sweep("mdadm", "4")
    wait_for(is_measuring)
    shell(f"touch {HAD_POWER_CUT}; sync; echo b >/proc/sysrq-trigger")


def prove_wipe() -> None:
    shell(f"vgcreate --yes data {DISKS[0]}")
    run_agent("a volume group is refused", *list_sweep("mdadm", "1"), status=2)
    run_agent("a volume group is wiped", *list_sweep("mdadm", "1", "--wipe", DISKS[0]))
    check_bare("wiped")


def prove_cron(sink: server.HostileServer) -> None:
    shell("echo '0 5 * * * true' | crontab -")
    run_agent("cron: installs", *INSTALL, "--cron", "--every", "1m")
    check("cron: a run comes by itself", wait_for(lambda: sink.stored), shell("journalctl --unit cron"))
    run_agent("cron: removes", "schedule", "remove")
    check("cron: the crontab is as before", (table := shell("crontab -l")) == "0 5 * * * true\n", table)
    wait_for(lambda: not is_alive("fio"))


def prove_systemd(sink: server.HostileServer) -> None:
    before, count = shell(SHOW_UNITS), len(sink.stored)
    run_agent("systemd: installs", *INSTALL, "--systemd", "--every", "6h")
    verdict = shell("systemd-analyze verify /etc/systemd/system/bench-agent-*")
    check("systemd: the units are right", not verdict, verdict)
    timers = shell("systemctl list-timers --no-pager")
    check("systemd: the timer waits", "bench-agent-quick.timer" in timers, timers)
    said = shell("systemctl start bench-agent-quick.service; journalctl --unit bench-agent-quick")
    check("systemd: the service makes a run", len(sink.stored) > count, said)
    run_agent("systemd: removes", "schedule", "remove")
    check("systemd: nothing is left", shell(SHOW_UNITS) == before, shell(SHOW_UNITS))


def prove_all() -> None:
    finish("mdadm, power cut")
    prove_sweep("mdadm", "xfs", 512, "mdadm --detail /dev/md/bench-agent", "Raid Devices : 4")
    prove_sweep("lvm", "ext4", 64, "lvs -o segtype,stripes,stripe_size", "striped 4 64.00k")
    prove_sweep("btrfs", "btrfs", 64, f"btrfs filesystem df {MOUNT}", "Data, RAID0")
    prove_resume("mdadm", "mdadm", SIGTERM)
    prove_resume("mdadm", "fio", SIGKILL)
    prove_resume("lvm", "lvcreate", SIGKILL)
    prove_resume("btrfs", "fio", SIGINT)
    prove_wipe()
    sink = server.HostileServer()
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    shell(f"umask 77; echo {server.TOKEN} >/root/token")
    lines = ("[server]", f"url = {sink.url}", "token_file = /root/token", "[spool]", f"directory = {SPOOL}")
    Path("/etc/bench-agent.ini").write_text("\n".join(lines))
    prove_cron(sink)
    prove_systemd(sink)
    print(f"{len(failed)} failed" if failed else "all is proven", flush=True)


if __name__ == "__main__":
    os.environ.update(LC_ALL="C", BENCH_AGENT_SPOOL=str(SPOOL))
    shell(f"install /mnt/bench-agent.pyz {AGENT}")
    prove_all() if HAD_POWER_CUT.exists() else cut_power()
