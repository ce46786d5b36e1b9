"""The real fio, for short."""

import json
import shutil
import time
from typing import Any

import pytest

from tests.agent.conftest import Machine, wait_for
from tests.agent.server import HostileServer

pytestmark = [
    pytest.mark.fio,
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio"),
]
SHORT = ("--set", "runtime=1", "--set", "size=8m")


@pytest.fixture
def real_host(host: Machine) -> Machine:
    (host.home / "fio").unlink()
    (host.home / "fio").symlink_to(shutil.which("fio") or "")
    return host


def test_quick_measures_all_its_jobs(real_host: Machine, server: HostileServer) -> None:
    ended = real_host.measure(*SHORT, "--wait", "60")

    assert (ended.returncode, ended.stdout) == (0, f"{server.url}/runs/5/\n")
    (body,) = server.stored.values()
    envelope: dict[str, Any] = json.loads(body)
    report = json.loads(envelope["fio_output"][envelope["fio_output"].index("{") :])
    jobs = {job["jobname"]: job for job in report["jobs"]}
    assert list(jobs) == ["randread-4k", "randwrite-4k", "read-1m", "write-1m"]
    assert all(job["error"] == 0 for job in jobs.values())
    assert report["global options"]["runtime"] == "1"
    assert all(jobs[name]["read"]["iops"] > 0 for name in ("randread-4k", "read-1m"))
    assert all(jobs[name]["write"]["iops"] > 0 for name in ("randwrite-4k", "write-1m"))
    assert jobs["randread-4k"]["read"]["clat_ns"]["bins"]
    assert real_host.leftovers() == []


def test_interrupted_run_leaves_no_file(real_host: Machine, server: HostileServer) -> None:
    process = real_host.start(
        "run", "--profile", "quick", "--directory", str(real_host.directory), "--set", "size=8m"
    )
    wait_for(lambda: list(real_host.directory.glob("*/bench-agent.test")))
    time.sleep(0.3)

    process.terminate()
    process.communicate(timeout=60)

    assert process.returncode == 143
    assert (real_host.leftovers(), real_host.pending(), server.seen) == ([], [], [])
