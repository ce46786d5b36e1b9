"""A build that fails on a regression: fio's output, the agent's gate, API, worker and PostgreSQL as processes."""

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import make_place
from tests.envelopes import read_fio
from tests.servers import ROOT, Servers, wait_for
from tests.test_regression_story import vary_speed

BASELINE_RUNS = 30
HOUR = timedelta(hours=1)


def make_output(speed: float, *, at: datetime, seed: int, failed: bool = False) -> str:
    """Return fio's JSON of mixed reads and writes, so many times as fast, with noise of 1 %; failed: plus a job."""
    printed = read_fio("16_randrw7030_json.out")
    report = json.loads(printed[printed.index("{") :])
    chance = random.Random(seed)
    for direction in ("read", "write"):
        vary_speed(report, direction, speed * (1 + chance.gauss(0, 0.01)))
    report["timestamp_ms"] = round(at.timestamp() * 1000)
    report["timestamp"] = report["timestamp_ms"] // 1000
    del report["time"]
    if failed:
        job = copy.deepcopy(report["jobs"][0]) | {"jobname": "full", "error": 28}
        # After the others: jobs that run at the same time are part of each other's workload.
        job["job options"] = {**job.get("job options", {}), "bs": "64k", "stonewall": "1"}
        job["groupid"] = 1
        report["jobs"].append(job)
    return json.dumps(report)


@dataclass
class Build:
    """A CI job on a host: a working directory, the agent, and the variables that CI sets."""

    servers: Servers
    directory: Path
    token: str
    admin_token: str
    # Runs are an hour apart, the first of them long ago.
    now: datetime = datetime.now(UTC) - 200 * HOUR
    runs: int = 0

    @property
    def environ(self) -> dict[str, str]:
        return os.environ | {
            "BENCH_AGENT_URL": f"http://127.0.0.1:{self.servers.port}",
            "BENCH_AGENT_TOKEN": self.token,
            "BENCH_AGENT_SPOOL": str(self.directory / "spool"),
            "HOME": str(self.directory),
        }

    def measure(self, speed: float, *, failed: bool = False) -> Path:
        """Write what fio printed an hour after the last run."""
        self.runs += 1
        path = self.directory / f"fio-{self.runs}.json"
        path.write_text(make_output(speed, at=self.now + self.runs * HOUR, seed=self.runs, failed=failed))
        return path

    def post(self, speed: float, count: int) -> None:
        for _ in range(count):
            body = self.measure(speed).read_bytes()
            status, answer = self.servers.post("/api/v1/fio?volume_type=gp3", body, self.token)
            assert status == 202, answer
        wait_for(lambda: self.servers.count("received") == 0, within_s=120, what="all runs stored")

    def gate(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agent", "gate", "--target", "volume_type=gp3", *arguments],
            cwd=ROOT,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def judge(self, *outputs: Path) -> tuple[int, dict[str, Any]]:
        """Return exit code and answer for files of one build."""
        ended = self.gate(*map(str, outputs), "--json")
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)["gate"]


@pytest.fixture(scope="module")
def build(migrated_cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_web()
        servers.start_worker()
        code = (
            "from benchapp.models import Scope\n"
            "from benchapp.pipeline.access.tokens import issue_token\n"
            "from benchapp.pipeline.hosts import issue_host_token\n"
            "print(issue_host_token('ci-1'))\n"
            "print(issue_token(scope=Scope.ADMIN)[1])\n"
        )
        token, admin_token = servers.manage("shell", "--no-imports", "-c", code).split()[-2:]
        build = Build(servers, tmp_path_factory.mktemp("build"), token, admin_token)
        build.post(1.0, BASELINE_RUNS)
        levels = "SELECT count(*) FROM benchapp_level WHERE n >= 25 AND metric IN ('iops', 'latency_p99_ns')"
        wait_for(lambda: servers.query(levels)[0][0] == 4, within_s=120, what="the levels of the series")
        yield build
    finally:
        servers.stop()


def test_job_that_failed_leaves_the_build_undecided(build: Build) -> None:
    code, gate = build.judge(build.measure(1.0, failed=True))

    assert (code, gate["outcome"]) == (4, "undecided")
    reasons = sorted((row["reason"], row["n"]) for row in gate["rows"] if row["outcome"] == "undecided")
    assert reasons == [("no-value", 0)] * 4
    assert [row["outcome"] for row in gate["rows"]].count("passed") == 4


def test_further_runs_of_a_build_count(build: Build) -> None:
    outputs = [build.measure(1.0) for _ in range(3)]

    code, gate = build.judge(*outputs)
    repeated = build.judge(*outputs)

    assert (code, len(gate["runs"]), {row["n"] for row in gate["rows"]}) == (0, 3, {3})
    assert repeated == (code, gate)


def test_stated_baseline_and_table(build: Build) -> None:
    ended = build.gate(str(build.measure(1.0)), "--baseline", "label.branch:none", "--metric", "iops")

    header, *rows, summary = ended.stdout.splitlines()
    assert ended.returncode == 4
    assert header.split() == ["series", "metric", "value", "baseline", "ratio", "limit", "verdict"]
    assert [row.endswith("undecided: no baseline") for row in rows] == [True, True]
    assert summary.startswith(f"undecided: 2 undecided; http://127.0.0.1:{build.servers.port}/runs/")


def test_wrong_baseline_is_named_before_anything_is_stored(build: Build) -> None:
    stored = build.servers.count("stored")

    ended = build.gate(str(build.measure(1.0)), "--baseline", "main")

    assert ended.returncode == 2
    assert "'main' is not a baseline; valid: accepted" in ended.stderr
    assert build.servers.count("stored") == stored


def test_regression_fails_every_build_until_a_person_accepts_the_level(build: Build) -> None:
    """The last test here: it changes the baseline."""
    good = build.judge(build.measure(1.0))
    first_bad = build.judge(build.measure(0.7))
    build.post(0.7, 20)
    incidents = "SELECT id FROM benchapp_incident"
    wait_for(lambda: len(build.servers.query(incidents)) == 1, within_s=120, what="the incident")
    still_bad = build.judge(build.measure(0.7))
    ((incident,),) = build.servers.query(incidents)
    status, answer = build.servers.request(
        "POST", f"/api/v1/incidents/{incident}/baseline", body=b"{}", token=build.admin_token
    )
    assert status == 201, answer
    accepted = build.judge(build.measure(0.7))

    assert [code for code, _ in (good, first_bad, still_bad, accepted)] == [0, 3, 3, 0]
    rows = still_bad[1]["rows"]
    assert sorted((row["metric"], row["outcome"], row["baseline_n"] >= BASELINE_RUNS) for row in rows) == [
        ("iops", "regressed", True),
        ("iops", "regressed", True),
        ("latency_p99_ns", "regressed", True),
        ("latency_p99_ns", "regressed", True),
    ]
