"""A build that fails on a regression, and the commands of the documentation: agent, API, worker and PostgreSQL."""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock
from uuid import uuid4

import pytest
import yaml

from agent.commands.cli import main
from tests.clusters import make_place
from tests.documentation import Block, Command, list_blocks, list_commands
from tests.envelopes import read_fio
from tests.servers import ROOT, Servers, wait_for
from tests.stories import vary_speed

BASELINE_RUNS = 30
HOUR = timedelta(hours=1)

FAKE_FIO = """#!/bin/sh
case "$1" in
  --version) echo fio-3.33; exit 0 ;;
  --enghelp) printf 'Available IO engines:\\n\\tlibaio\\n'; exit 0 ;;
esac
touch bench-agent.test
cat "$FIO_PRINTS"
"""
# Records how it was called, and the comment.
FAKE_PROGRAM = """#!/bin/sh
printf '%s\\n' "$@" > "$0.arguments"
cat comment.md > "$0.comment"
"""


def make_output(speed: float, *, at: datetime, seed: int, failed: bool = False) -> str:
    """Return fio's JSON of mixed reads and writes, so many times as fast, with noise of 1 %; failed: plus a job."""
    printed = read_fio("16_randrw7030_json.out")
    report = json.loads(printed[printed.index("{") :])
    chance = random.Random(seed)
    for direction in ("read", "write"):
        vary_speed(report["jobs"][0][direction], speed * (1 + chance.gauss(0, 0.01)))
    report["timestamp_ms"] = round(at.timestamp() * 1000)
    report["timestamp"] = report["timestamp_ms"] // 1000
    del report["time"]
    # The agent expects a result of each job of the profile.
    report["jobs"][0]["jobname"] = "randread-4k"
    idle = {
        "error": 0,
        "job options": {},
        **{direction: {"total_ios": 0, "io_bytes": 0} for direction in ("read", "write")},
    }
    for groupid, name in enumerate(("randwrite-4k", "read-1m", "write-1m"), 2):
        report["jobs"].append(idle | {"jobname": name, "groupid": groupid})
    if failed:
        job = copy.deepcopy(report["jobs"][0]) | {"jobname": "full", "error": 28}
        # After the others: jobs that run at the same time are part of each other's workload.
        job["job options"] = {**job.get("job options", {}), "bs": "64k", "stonewall": "1"}
        job["groupid"] = 1
        report["jobs"].append(job)
    return json.dumps(report)


def run_agent(arguments: Sequence[str], *, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the agent in this process, which saves the imports, on a machine whose disks are idle."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch("agent.measuring.load.OBSERVATION_S", 0.005),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        status = main(arguments)
    return subprocess.CompletedProcess(arguments, status, stdout.getvalue(), stderr.getvalue())


@dataclass
class Build:
    """A CI job on a host: a working directory, the agent, and the variables that CI sets."""

    servers: Servers
    directory: Path
    token: str
    admin_token: str
    enrollment_token: str
    public_id: str
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

    def send(self, speed: float, count: int) -> None:
        for _ in range(count):
            body = self.measure(speed).read_bytes()
            status, answer = self.servers.post("/api/v1/fio?volume_type=gp3", body, self.token)
            assert status == 202, answer

    def post(self, speed: float, count: int) -> None:
        self.send(speed, count)
        wait_for(lambda: self.servers.count("received") == 0, within_s=120, what="all runs stored")

    def gate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_agent(("gate", "--target", "volume_type=gp3", *arguments), environ=self.environ)

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
        code = (
            "from benchapp.models import Scope\n"
            "from benchapp.accounts.write.tokens import issue_enrollment_token, issue_token\n"
            "from benchapp.storage.write.hosts import issue_host_token\n"
            "print(issue_host_token('ci-1'))\n"
            "print(issue_token(scope=Scope.ADMIN)[1])\n"
            "print(issue_enrollment_token()[1])\n"
            "print(issue_token(scope=Scope.READ)[0].public_id)\n"
        )
        tokens = servers.manage("shell", "--no-imports", "-c", code).split()[-4:]
        build = Build(servers, tmp_path_factory.mktemp("build"), *tokens)
        # Before the worker starts, which then stores and judges all of them at once.
        build.send(1.0, BASELINE_RUNS)
        servers.start_worker()
        levels = (
            "SELECT count(*) FROM benchapp_level JOIN benchapp_series series ON series.id = series_id"
            " WHERE n >= 25 AND metric IN ('iops', 'latency_p99_ns') AND direction <> 'mixed'"
        )
        wait_for(lambda: servers.query(levels)[0][0] == 4, within_s=120, what="the levels of the series")
        yield build
    finally:
        servers.stop()


def test_run_that_failed_leaves_the_build_undecided(build: Build) -> None:
    code, gate = build.judge(build.measure(1.0, failed=True))

    assert (code, gate["outcome"]) == (4, "undecided")
    reasons = sorted((row["reason"], row["n"]) for row in gate["rows"] if row["outcome"] == "undecided")
    assert reasons == [("no-value", 0)] * len(gate["rows"])


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


@dataclass
class Runner:
    """A machine of the CI: a working directory, programs, and the variables that CI sets."""

    build: Build
    home: Path
    variables: dict[str, str]

    def make_environ(self, speed: float, **variables: str) -> dict[str, str]:
        """Return the variables of a job whose fio measures at this speed."""
        environ = self.build.environ | self.variables | variables
        environ |= {
            "FIO_PRINTS": str(self.build.measure(speed)),
            "BENCH_AGENT_SPOOL": str(self.home / "spool"),
        }
        return environ | {"PATH": f"{self.home / 'bin'}:{os.environ['PATH']}", "HOME": str(self.home)}

    def run(self, steps: list[str], *, speed: float, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the steps of a job as CI does: each by bash, until one fails."""
        environ = self.make_environ(speed, **variables)
        for step in steps:
            ended = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-c", step],
                cwd=self.home,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode:
                break
        return ended


def read_template(name: str) -> dict[str, Any]:
    *_, template = yaml.safe_load_all((ROOT / "docs" / "ci" / name).read_text())
    assert isinstance(template, dict)
    return template


@pytest.fixture(scope="module")
def runner(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner whose main branch was built six times."""
    home = tmp_path_factory.mktemp("runner")
    (home / "bin").mkdir()
    for name, script in (("fio", FAKE_FIO),):
        (home / "bin" / name).write_text(script)
        (home / "bin" / name).chmod(0o755)
    (home / "disk").mkdir()
    url = f"http://127.0.0.1:{build.servers.port}"
    with urllib.request.urlopen(f"{url}/agent/bench-agent.pyz") as answer:
        digest = hashlib.sha256(answer.read()).hexdigest()
    runner = Runner(
        build,
        home,
        {
            "BENCH_AGENT_URL": url,
            "BENCH_AGENT_SHA256": digest,
            "BENCH_AGENT_CONFIG": str(home / "agent.ini"),
            "BENCH_DIRECTORY": str(home / "disk"),
            "BENCH_PROFILE": "quick",
            "BENCH_BASELINE": "label.branch:main",
        },
    )
    (home / "agent.ini").write_text(f"[run]\nfio = {home}/bin/fio\n")
    disk = str(home / "disk")
    command = ("run", "--profile", "quick", "--directory", disk, "--label", "branch=main", "--no-send")
    for arguments in (*[command] * 6, ("flush",)):
        ended = run_agent(arguments, environ=runner.make_environ(1.0))
        assert ended.returncode == 0, ended.stderr
    wait_for(lambda: build.servers.count("received") == 0, within_s=120, what="all runs stored")
    # The agent's times have whole seconds; a baseline is older than the run.
    last = int(time.time())
    wait_for(lambda: int(time.time()) > last, within_s=5, what="the next second")
    return runner


class Comments(BaseHTTPRequestHandler):
    """GitHub's API of comments: a page of one comment of somebody else, then those that it received."""

    received: ClassVar[list[tuple[str, str, str]]] = []
    known: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        page = int(self.path.rpartition("=")[2])
        person = {"id": 40, "body": Comments.received and Comments.received[0][2], "user": {"type": "User"}}
        self._answer([[person], self.known][page - 1] if page < 3 else [])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.received.append((self.command, self.path, body))
        self._answer({"id": 41})

    def do_PATCH(self) -> None:
        self.do_POST()

    def _answer(self, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(200 if self.headers["Authorization"] == "Bearer secret" else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_github_action_fails_on_a_regression_and_comments(runner: Runner) -> None:
    download, measure, comment = read_template("github/action.yml")["runs"]["steps"]
    summary = runner.home / "summary.md"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Comments)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    github = {
        "GITHUB_STEP_SUMMARY": str(summary),
        "DEFAULT_BRANCH": "trunk",
        "GITHUB_REF_NAME": "trunk",
        "RUNNER_NAME": "ci-1",
        "GITHUB_REPOSITORY": "team/db",
        "GITHUB_SHA": "0123abc",
        "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
        "PULL_REQUEST": "17",
        "GH_TOKEN": "secret",
    }

    good = runner.run([download["run"], measure["run"]], speed=1.0, **github)
    bad = runner.run([download["run"], measure["run"]], speed=0.7, **github)
    commented = runner.run([comment["run"]], speed=1.0, **github)
    Comments.known = [{"id": 42, "body": Comments.received[0][2], "user": {"type": "Bot"}}]
    again = runner.run([comment["run"]], speed=1.0, **github)
    refused = runner.run([comment["run"]], speed=1.0, **github | {"GH_TOKEN": "revoked"})
    server.shutdown()
    server.server_close()

    assert (good.returncode, bad.returncode) == (0, 3), good.stderr + bad.stderr
    assert (commented.returncode, again.returncode) == (0, 0), commented.stderr + again.stderr
    # Which does not fail the build.
    assert (refused.returncode, comment["continue-on-error"]) == (1, True)
    # Series of a metric together, and each of them.
    assert [line.split(" ")[0] for line in bad.stderr.splitlines() if line.startswith("::")] == [
        "::error"
    ] * 6
    assert summary.read_text().count("### Storage benchmark: ") == 2
    assert [(method, path) for method, path, _ in Comments.received] == [
        ("POST", "/repos/team/db/issues/17/comments"),
        ("PATCH", "/repos/team/db/issues/comments/42"),
    ]
    assert {tuple(body.splitlines()[:2]) for _, _, body in Comments.received} == {
        ("<!-- benchapp ci-1 quick -->", "### Storage benchmark: regressed")
    }
    labels = (
        "SELECT DISTINCT labels->>'branch', labels->>'commit', excluded_reason FROM benchapp_run"
        " WHERE labels ? 'commit'"
    )
    assert runner.build.servers.query(labels) == [
        ("pr-17", "0123abc", "branch pr-17: the gate compares it, levels leave it out")
    ]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        # A fork may call its branch like the default one.
        ({"PULL_REQUEST": "5", "GITHUB_REF_NAME": "trunk"}, "pr-5 label.branch:main"),
        ({"PULL_REQUEST": "", "GITHUB_REF_NAME": "trunk"}, "main accepted"),
        ({"PULL_REQUEST": "", "GITHUB_REF_NAME": "topic"}, "topic label.branch:main"),
    ],
)
def test_github_action_names_branch_and_baseline(
    tmp_path: Path, variables: dict[str, str], named: str
) -> None:
    measure = read_template("github/action.yml")["runs"]["steps"][1]["run"]
    script = measure.partition("python3 ")[0] + 'echo "$branch $baseline"'

    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        env={"PATH": os.environ["PATH"], "DEFAULT_BRANCH": "trunk"} | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == named


def test_github_action_passes_values_by_variables() -> None:
    """An expression inside a script would run what a branch is named."""
    steps = read_template("github/action.yml")["runs"]["steps"]

    for step in steps:
        assert "${{" not in step["run"]
        used = set(re.findall(r"\$\{?([A-Z]\w+)|environ\['(\w+)'\]", step["run"]))
        names = {
            name for pair in used for name in pair if name and not name.startswith(("GITHUB_", "RUNNER_"))
        }
        assert names == set(step["env"]) - ({"BENCH_AGENT_TOKEN", "BENCH_AGENT_URL"} - names), step["name"]


def test_examples_of_the_documentation_use_inputs_of_the_templates() -> None:
    github, gitlab = (
        yaml.safe_load(block.text) for block in list_blocks("yaml") if block.file == "docs/clients.md"
    )
    (used,) = [step["with"] for job in github["jobs"].values() for step in job["steps"]]
    required = {
        name for name, each in read_template("github/action.yml")["inputs"].items() if "required" in each
    }
    inputs = next(yaml.safe_load_all((ROOT / "docs/ci/gitlab.yml").read_text()))["spec"]["inputs"]

    assert set(used) == required
    assert set(gitlab["include"][0]["inputs"]) == {
        name for name, each in inputs.items() if "default" not in each
    }
    for block in list_blocks("yaml"):
        assert block.file != "docs/clients.md" or len(block.text.strip().splitlines()) <= 12


def test_gitlab_template_fails_on_a_regression_and_writes_a_note(runner: Runner) -> None:
    job = read_template("gitlab.yml")["storage-benchmark"]
    gitlab = {
        "BENCH_BRANCH": "mr-5",
        "CI_COMMIT_SHA": "4567def",
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "5",
        "BENCH_NOTES_TOKEN": "secret",
    }

    good = runner.run(job["script"], speed=1.0, **gitlab)
    bad = runner.run(job["script"], speed=0.7, **gitlab)
    curl = runner.home / "bin" / "curl"
    curl.write_text(FAKE_PROGRAM)
    curl.chmod(0o755)
    noted = runner.run(job["after_script"], speed=1.0, **gitlab)
    curl.unlink()

    assert (good.returncode, bad.returncode, noted.returncode) == (0, 3, 0), good.stderr + bad.stderr
    called = (runner.home / "bin" / "curl.arguments").read_text().splitlines()
    assert called[-1] == "https://gitlab.example/api/v4/projects/7/merge_requests/5/notes"
    assert "body@comment.md" in called


def test_changed_agent_is_not_run(runner: Runner) -> None:
    job = read_template("gitlab.yml")["storage-benchmark"]
    stored = runner.build.servers.count("stored")

    ended = runner.run(job["script"], speed=1.0, BENCH_AGENT_SHA256="0" * 64)

    assert ended.returncode == 1
    assert "FAILED" in ended.stdout + ended.stderr
    assert runner.build.servers.count("stored") == stored


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
        ("iops", "regressed", True),
        ("latency_p99_ns", "regressed", True),
        ("latency_p99_ns", "regressed", True),
        ("latency_p99_ns", "regressed", True),
    ]


# Those of manage.py are run by tests/test_docs.py; schedules, sweeps and uninstall by the tests of the agent.
RUN_HERE = ("curl ", "echo ", "fio ", "jq ", "bench-agent ", "bench-agent.pyz ", "benchapp.fio")
# A host enrolls once: with the archive. Containers: tests/containers.py; can_store needs beat: tests/test_readiness.py.
NOT_RUN_HERE = (
    " schedule ",
    " sweep ",
    " uninstall",
    "bench-agent enroll",
    "docker ",
    "can_store",
    " --device ",
)
# Values of the reader: other hosts, ids and directories.
EXAMPLES = re.compile(r"https://(?:SERVER|bench\.example(?:\.com)?)(?=[/\" ]|$)")
PANDAS = """
import csv, io, urllib.request
def _fetch(url, storage_options):
    with urllib.request.urlopen(urllib.request.Request(url.replace(" ", "%20"), headers=storage_options)) as answer:
        return answer.read()
class pandas:
    @staticmethod
    def read_csv(url, storage_options):
        return list(csv.DictReader(_fetch(url, storage_options).decode().splitlines()))
    @staticmethod
    def read_parquet(url, storage_options):
        import pyarrow.parquet
        return pyarrow.parquet.read_table(io.BytesIO(_fetch(url, storage_options))).to_pylist()
"""


@pytest.fixture
def reader(build: Build, tmp_path: Path) -> dict[str, str]:
    """The shell of somebody who reads the documentation: files, programs and variables of its commands."""
    (tmp_path / "bin").mkdir()
    for name, script in (
        ("fio", FAKE_FIO),
        ("bench-agent", f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m agent "$@"\n'),
        ("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n'),
    ):
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "results").mkdir()
    output = build.measure(1.0)
    for name in ("fio.json", "run.json"):
        (tmp_path / name).write_bytes(output.read_bytes())
    (tmp_path / "run_bw.1.log").write_text("1000, 33415, 0, 0, 0\n")
    envelope = {
        "schema": "benchapp-envelope/1",
        "id": str(uuid4()),
        "kind": "fio",
        "fio_output": output.read_text(),
    }
    (tmp_path / "results" / "a.json").write_text(json.dumps(envelope))
    return os.environ | {
        "BENCHAPP_URL": f"http://127.0.0.1:{build.servers.port}",
        "BENCHAPP_TOKEN": build.admin_token,
        "TOKEN": build.admin_token,
        "PUBLIC_ID": build.public_id,
        "BENCH_AGENT_CONFIG": str(tmp_path / "agent.ini"),
        "BENCH_AGENT_ENROLL_TOKEN": build.enrollment_token,
        "BENCH_AGENT_SPOOL": str(tmp_path / "spool"),
        "FIO_PRINTS": str(output),
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }


def list_commands_to_run() -> list[Command]:
    return [
        command
        for block in list_blocks("sh")
        # tests/test_cookbook.py compares the answers.
        if block.file != "docs/clients.md"
        for command in list_commands(block)
        if any(program in f"{' '.join(command.parts[0])} " for program in RUN_HERE if command.parts)
        or "benchapp.fio" in command.text
        if not any(word in command.text for word in NOT_RUN_HERE)
    ]


def test_commands_of_the_documentation_run(build: Build, reader: dict[str, str], tmp_path: Path) -> None:
    url, home = reader["BENCHAPP_URL"], Path(reader["HOME"])
    with urllib.request.urlopen(f"{url}/agent/bench-agent.pyz") as answer:
        digest = hashlib.sha256(answer.read()).hexdigest()
    (series, run) = build.servers.query("SELECT min(series_id), max(run_id) FROM benchapp_measurement")[0]
    failed, ended = [], set()
    for command in list_commands_to_run():
        text = (
            EXAMPLES.sub(url, command.text)
            .replace("SHA256 ", f"{digest} ")
            .replace(" /data", f" {home}/data")
        )
        text = text.replace("series/12/", f"series/{series}/").replace("series=12&", f"series={series}&")
        text = text.replace("runs/7/", f"runs/{run}/").partition("   #")[0].strip()
        text = text.replace(".venv/bin/python", f"PYTHONPATH={ROOT} {sys.executable}")
        if text in ended:
            continue
        ended.add(text)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=home,
            # Results are posted with the token of a host.
            env=reader | ({"TOKEN": build.token, "BENCHAPP_TOKEN": build.token} if "@-" in text else {}),
            capture_output=True,
            text=True,
            timeout=60,
        )
        # The gate and jq -e end by the outcome: no baseline is undecided.
        codes = {0, 4} if " gate " in text else {0, 1} if "jq -e" in text else {0}
        if done.returncode not in codes or ("/api/" in text and " -o " not in text and not done.stdout):
            failed.append((str(command), text, done.returncode, done.stdout[-300:], done.stderr[-300:]))

    assert failed == [], "\n".join(map(str, failed))
    assert len(ended) > 20


@pytest.mark.parametrize("block", [each for each in list_blocks("python") if "pandas" in each.text], ids=str)
def test_tables_are_read_as_documented(block: Block, build: Build) -> None:
    (series,) = build.servers.query("SELECT min(series_id) FROM benchapp_measurement")[0]
    names = {"server": f"http://127.0.0.1:{build.servers.port}", "token": build.admin_token}
    exec(PANDAS, names)

    # A stand-in for pandas, which is no dependency.
    rows = eval(
        block.text.replace("series/12/", f"series/{series}/").replace("host:db-*", "host:ci-*").strip(), names
    )

    assert len(rows) >= BASELINE_RUNS
    assert {"started_at", "iops"} <= set(rows[0])
