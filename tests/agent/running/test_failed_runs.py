"""A run fails on the host if and only if it has failed on the server, in every way in which fio can fail."""

import copy
import gzip
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent.measuring import methods
from agent.measuring.fio_reports import list_reports
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import Host, Kind, Run
from tests.agent.conftest import Machine, wait_for
from tests.envelopes import read_fio
from tests.factories import make_host

pytestmark = pytest.mark.django_db
JOBS = ("randread-4k", "randwrite-4k", "read-1m", "write-1m")
SCRIPT = """#!/bin/sh
case "$1" in
  --version) echo fio-3.33; exit 0 ;;
  --enghelp) printf 'Available IO engines:\\n\\tlibaio\\n'; exit 0 ;;
esac
touch bench-agent.test
"""


def make_report(*jobs: str, error: int = 0) -> str:
    """Return fio's JSON with these jobs, the last one with this error."""
    (report,) = list_reports(read_fio("07_json.out"))
    entries = []
    for groupid, name in enumerate(jobs):
        entries.append(copy.deepcopy(report["jobs"][0]) | {"jobname": name, "groupid": groupid, "error": 0})
    entries[-1]["error"] = error
    return json.dumps({**report, "jobs": entries})


def store(host: Host, body: bytes) -> Run:
    """Store the body that the agent left in its spool, as a worker does."""
    accept_submission(IncomingSubmission(host.pk, Kind.ENVELOPE, body, UUID(json.loads(body)["id"])))
    normalize_batch()
    return Run.objects.get(submission_id=json.loads(body)["id"])


def forget_failure(body: bytes) -> bytes:
    """Return the envelope as an agent of before posts it."""
    envelope: dict[str, Any] = json.loads(body)
    del envelope["command"]["failure"]
    return json.dumps({**envelope, "id": "6f1c2a9e-0000-4000-8000-000000000001"}).encode()


def check_agreement(machine: Machine, status: int, *, is_known_of_old_agents: bool = True) -> Run:
    """Store the only result in the spool; both sides agree about it. Return the run."""
    (entry,) = machine.pending()
    body = gzip.decompress(entry.read_bytes())
    host = make_host()

    run = store(host, body)

    assert (status == 5) == run.has_failed
    assert status in (0, 5)
    assert run.measurements.filter(error=0).exists() != run.has_failed
    assert ("failed-job" in run.badges) == run.has_failed
    assert bool(run.command["failure"]) == run.has_failed
    assert store(host, forget_failure(body)).has_failed == (run.has_failed and is_known_of_old_agents)
    return run


@pytest.mark.parametrize(
    ("report", "end", "reason"),
    [
        (make_report(*JOBS), "exit 0", ""),
        (make_report(*JOBS), "echo 'fio: latency target' >&2; exit 3", "failed with status 3: fio: latency"),
        (make_report(*JOBS), "kill -9 $$", "was killed by signal 9"),
        (make_report(*JOBS), "exec sleep 60", "was stopped after the time limit of 1 s"),
        (
            make_report(*JOBS, error=28),
            "exit 0",
            "reported error 28 (No space left on device) of job write-1m",
        ),
        (
            make_report(*JOBS),
            "echo 'fio: pid=41, got signal=9' >&2",
            "one of its jobs was stopped by signal 9",
        ),
        ("fio: terminating on signal 15\n" + make_report(*JOBS), "exit 0", "was stopped by signal 15"),
    ],
)
def test_agent_and_server_agree_on_failed_runs(machine: Machine, report: str, end: str, reason: str) -> None:
    (machine.home / "report.json").write_text(report)
    (machine.home / "fio").write_text(f"{SCRIPT}cat {machine.home}/report.json\n{end}\n")

    ended = machine.measure("--no-send", *(("--time-limit", "1") if "sleep" in end else ()))

    run = check_agreement(machine, ended.returncode)
    assert reason in run.command["failure"]


@pytest.mark.parametrize("report", [make_report(*JOBS[:2]), make_report(*JOBS)[:-400]])
def test_agent_and_server_agree_on_jobs_without_a_report(machine: Machine, report: str) -> None:
    (machine.home / "report.json").write_text(report)
    (machine.home / "fio").write_text(f"{SCRIPT}cat {machine.home}/report.json\n")

    ended = machine.measure("--no-send")

    is_cut = not report.endswith("}")
    run = check_agreement(machine, ended.returncode, is_known_of_old_agents=is_cut)
    assert (ended.returncode, run.error) == (5, -1)
    assert "reported no result of job" in run.command["failure"]


def test_small_files_that_were_stopped_have_failed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(name: str, directory: int) -> None:
        raise methods._Stopped("stopped after the time limit of 1 s")

    monkeypatch.setattr(methods, "read_file", stop)

    ended = machine.run(
        "run", "--profile", "gitlab-smallfiles", "--directory", str(machine.directory), "--no-send"
    )

    check_agreement(machine, ended.returncode)


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
class TestRealFio:
    """The real fio: it fails in its own words."""

    @pytest.fixture
    def host(self, machine: Machine) -> Machine:
        (machine.home / "fio").unlink()
        (machine.home / "fio").symlink_to(shutil.which("fio") or "")
        return machine

    def start(self, host: Machine, *options: str) -> subprocess.Popen[str]:
        return host.start(
            *("run", "--profile", "quick", "--directory", str(host.directory), "--no-send"),
            *("--set", "size=4m", "--set", "runtime=2", *options),
        )

    def test_run_that_succeeds_is_valid(self, host: Machine) -> None:
        process = self.start(host, "--set", "runtime=1")
        process.communicate(timeout=120)

        assert check_agreement(host, process.returncode).has_failed is False

    def test_time_limit_cuts_a_run(self, host: Machine) -> None:
        process = self.start(host, "--time-limit", "2")
        process.communicate(timeout=120)

        assert "time limit of 2 s" in check_agreement(host, process.returncode).command["failure"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signal_ends_fio(self, host: Machine, number: signal.Signals) -> None:
        process = self.start(host)
        fio = find_fio(process.pid)
        wait_for_cpu(find_fio(fio))
        os.kill(fio, number)
        process.communicate(timeout=120)

        assert check_agreement(host, process.returncode).has_failed

    def test_job_is_killed_as_by_the_oom_killer(self, host: Machine) -> None:
        process = self.start(host)
        job = find_fio(find_fio(process.pid))
        wait_for_cpu(job)
        os.kill(job, signal.SIGKILL)
        process.communicate(timeout=120)

        assert process.returncode == 5
        # fio 3.33 sometimes aborts afterwards, before its report or after it.
        if host.pending():
            assert "signal" in check_agreement(host, process.returncode).command["failure"]

    @pytest.mark.parametrize("options", ["", "continue_on_error=all"])
    def test_job_has_an_error(self, host: Machine, tmp_path: Path, options: str) -> None:
        jobfile = tmp_path / "own.fio"
        jobfile.write_text(
            "[global]\nsize=1m\nbs=4k\nioengine=psync\nruntime=1\n[good]\nrw=write\nfilename=a\n"
            f"[bad]\nstonewall\nrw=read\nverify=crc32c\nfilename=a\n{options}\n"
        )
        ended = host.run("run", "--jobfile", str(jobfile), "--directory", str(host.directory), "--no-send")

        assert check_agreement(host, ended.returncode).error == 84


def find_fio(parent: int) -> int:
    """Wait for a child that runs fio with a job file: of fio itself, one of its jobs."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    return wait_for(
        lambda: [
            int(child)
            for child in children.read_text().split()
            if "bench-agent.fio" in Path(f"/proc/{child}/cmdline").read_text()
        ]
    )[0]


def wait_for_cpu(job: int) -> None:
    """Wait until a job has used CPU time: fio may hang on a signal while its jobs start."""
    fields = Path(f"/proc/{job}/stat")
    wait_for(lambda: sum(map(int, fields.read_text().rpartition(")")[2].split()[11:13])) >= 5)
