"""The tools that tests over real loop devices call."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# /usr/sbin is not on the PATH of ordinary users.
SBIN = "/usr/sbin:/sbin:/usr/bin:/bin"


def run_tool(*argv: str) -> str:
    ended = subprocess.run(
        argv, check=False, capture_output=True, text=True, env={**os.environ, "PATH": SBIN}
    )
    if ended.returncode and "Operation not permitted" in ended.stderr:
        pytest.skip(f"this machine does not let us: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def make_loop(image: Path, size_bytes: int, *options: str) -> str:
    """Return a new loop device over a sparse file."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    return run_tool("losetup", "--find", "--show", *options, str(image))


def find_obstacle() -> str | None:
    """Return why this machine cannot create a btrfs over loop devices; None if it can."""
    if os.geteuid() != 0:
        return "only root makes and mounts filesystems"
    for tool, package in (("mkfs.btrfs", "btrfs-progs"), ("mkfs.ext4", "e2fsprogs"), ("losetup", "mount")):
        if shutil.which(tool, path=SBIN) is None:
            return f"{tool} is not installed: apt install {package}"
    if shutil.which("modprobe", path=SBIN):
        subprocess.run(["modprobe", "--quiet", "-a", "btrfs", "loop"], check=False, env={"PATH": SBIN})
    if "\tbtrfs\n" not in Path("/proc/filesystems").read_text():
        return "this kernel has no btrfs"
    return None if Path("/dev/loop-control").exists() else "this machine has no loop devices"


OBSTACLE = find_obstacle()
