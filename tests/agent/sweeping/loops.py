"""The tools that tests over real loop devices call."""

import os
import subprocess

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
