"""The whole way of a result, as separate processes: fio on a host, agent, API, worker, PostgreSQL, page."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.agent.sweeping.loops import OBSTACLE, run_tool
from tests.clusters import make_place
from tests.servers import ROOT, Servers, wait_for
from tests.short_fio import write_short_fio

pytestmark = [
    pytest.mark.fio,
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio"),
]


STRIPES = [1, 4]
IMAGE_BYTES = 128 * 2**20
PATTERNS_OF_4K = {"read", "write", "randread", "randwrite"}


class RunPage(HTMLParser):
    """Collects (job, direction) → metric → value from the table of a Run page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[tuple[str, str], dict[str, float | None]] = {}
        self._row: dict[str, float | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "tr":
            self._row = None
            if "data-measurement" in named:
                self._row = self.rows.setdefault((str(named["data-job"]), str(named["data-direction"])), {})
        elif tag == "td" and self._row is not None and (metric := named.get("data-metric")):
            value = named.get("title")
            self._row[metric] = float(value) if value else None


def read_independently(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, float | None]]:
    """Read fio's JSON in the plainest way: no code of ours, every direction that did I/O."""
    rows = {}
    for job in report["jobs"]:
        for direction in ("read", "write", "trim"):
            entry = job[direction]
            if entry["total_ios"] == 0:
                continue
            percentile, count = entry["clat_ns"]["percentile"], entry["clat_ns"]["N"]
            rows[job["jobname"], direction] = {
                "iops": entry["iops"],
                "bandwidth_bytes_per_s": entry["bw_bytes"],
                "latency_mean_ns": entry["lat_ns"]["mean"],
                # Ten samples must lie beyond a percentile for it to be shown.
                "latency_p50_ns": percentile["50.000000"] if count >= 20 else None,
                "latency_p95_ns": percentile["95.000000"] if count >= 200 else None,
                "latency_p99_ns": percentile["99.000000"] if count >= 1_000 else None,
                "latency_p99_9_ns": percentile["99.900000"] if count >= 10_000 else None,
                "latency_max_ns": entry["lat_ns"]["max"],
            }
    return rows


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"), cluster=migrated_cluster, environment={"BENCHAPP_PUBLIC_READ": "1"}
    )
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_web()
        servers.start_worker()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def tokens(stack: Servers) -> dict[str, str]:
    code = (
        "from benchapp.models import Scope; from benchapp.accounts.write.tokens import issue_token\n"
        "print(issue_token(scope=Scope.READ)[1])"
    )
    # Raw output needs a reader who is known.
    reader = stack.manage("shell", "--no-imports", "-c", code).splitlines()[-1]
    return {**stack.issue_tokens("wide-1", "wide-2", "wide-3", "sweeper"), "reader": reader}


def wait_for_run(stack: Servers, submission_id: str, token: str) -> dict[str, Any]:
    """Wait until a submission is settled and return its one run."""

    def read() -> Any:
        return stack.get(f"/api/v1/submissions/{submission_id}", token)[1]

    wait_for(lambda: read()["state"] != "received", within_s=120, what="the submission settled")
    answer = read()
    assert answer["state"] == "stored", answer
    (run,) = answer["runs"]
    return dict(run)


def read_page(stack: Servers, path: str) -> str:
    status, text = stack.get(path)
    assert status == 200
    return bytes(text).decode()


def short_environment(stack: Servers, token: str, home: Path) -> dict[str, str]:
    """Return the environment of an agent that finds a fio with short jobs: the way of the numbers is tested."""
    (home / "bin").mkdir()
    write_short_fio(home / "bin" / "fio")
    return os.environ | {
        "BENCH_AGENT_TOKEN": token,
        "BENCH_AGENT_URL": f"http://127.0.0.1:{stack.port}",
        "BENCH_AGENT_SPOOL": str(home / "spool"),
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
    }


def test_numbers_of_a_run_by_the_agent_stand_on_its_page_as_fio_printed_them(
    stack: Servers, tokens: dict[str, str], tmp_path: Path
) -> None:
    token = tokens["wide-1"]
    directory = tmp_path / "bench"
    directory.mkdir()

    options = [
        "--profile",
        "quick",
        "--directory",
        str(directory),
        "--wait",
        "120",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "agent", "run", *options],
        cwd=ROOT,
        env=short_environment(stack, token, tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    run = wait_for_run(stack, said["id"], token)
    _, envelope = stack.get(f"/api/v1/runs/{run['id']}/output", tokens["reader"])
    printed = json.loads(envelope["fio_output"][envelope["fio_output"].index("{") :])
    assert RunPage(read_page(stack, run["page"])).rows == read_independently(printed)
    assert list(directory.iterdir()) == []
    assert list((tmp_path / "spool").rglob("*.json*")) == []


def test_agent_learns_that_the_server_rejected_a_result_that_it_had_received(
    stack: Servers, tokens: dict[str, str], tmp_path: Path
) -> None:
    token = tokens["wide-3"]
    environment = short_environment(stack, token, tmp_path)

    def run_agent(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agent", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    measure = ("run", "--profile", "gitlab-smallfiles", "--directory", str(tmp_path))
    run_agent(*measure, "--no-send")
    (spooled,) = (tmp_path / "spool" / "pending").glob("2*.json.gz")
    envelope = json.loads(gzip.decompress(spooled.read_bytes())) | {"fio_output": "out of memory"}
    spooled.write_bytes(gzip.compress(json.dumps(envelope).encode()))
    delivered = run_agent("flush")
    address = f"/api/v1/submissions/{envelope['id']}"
    wait_for(lambda: stack.get(address, token)[1]["state"] == "rejected", within_s=120, what="rejected")

    told, again, status = run_agent(*measure), run_agent(*measure), run_agent("status")

    text = f"http://127.0.0.1:{stack.port}/uploads/{envelope['id']}/"
    assert (delivered.returncode, told.returncode, again.returncode) == (0, 6, 0), told.stderr
    assert (text in told.stderr, text in again.stderr, text in status.stdout) == (True, False, True)


def test_numbers_posted_by_curl_stand_on_their_page_and_their_series_has_a_chart(
    stack: Servers, tokens: dict[str, str], tmp_path: Path
) -> None:
    token = tokens["wide-2"]
    job = [
        "--name=seq",
        "--rw=readwrite",
        "--bs=16k",
        "--size=8m",
        "--ioengine=psync",
        "--output-format=json",
    ]
    printed = subprocess.run(
        ["fio", f"--directory={tmp_path}", *job], capture_output=True, check=True, timeout=60
    ).stdout

    status, answer = stack.post("/api/v1/fio?volume_type=gp3&volume_count=4&profile=by-hand", printed, token)

    assert status == 202
    run = wait_for_run(stack, answer["id"], token)
    page = read_page(stack, run["page"])
    rows = RunPage(page).rows
    total = rows.pop(("seq", "mixed"))
    assert rows == read_independently(json.loads(printed))
    assert total["iops"] == pytest.approx(sum(row["iops"] for row in rows.values()))
    assert "gp3" in page
    series = stack.get("/api/v1/series?host=wide-2")[1]["series"]
    assert {one["direction"] for one in series} == {"read", "write", "mixed"}
    (reads,) = (one for one in series if one["direction"] == "read")
    points = stack.get(f"/api/v1/series/{reads['id']}/points?metrics=iops")[1]["points"]
    expected = json.loads(printed)["jobs"][0]["read"]["iops"]
    assert [point["iops"] for point in points] == [expected]
    assert "<canvas" in read_page(stack, f"/series/{reads['id']}/")


def test_agent_that_the_server_offers_runs_from_one_file(stack: Servers, tmp_path: Path) -> None:
    _, archive = stack.get("/agent/bench-agent.pyz")
    (tmp_path / "bench-agent.pyz").write_bytes(archive)

    done = subprocess.run(
        [sys.executable, str(tmp_path / "bench-agent.pyz"), "version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[list[str]]:
    attached: list[str] = []
    for number in range(max(STRIPES)):
        image = tmp_path / f"image{number}"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        attached.append(run_tool("losetup", "--find", "--show", str(image)))
    yield attached
    for loop in attached:
        run_tool("losetup", "--detach", loop)


def sweep(stack: Servers, token: str, *, loops: list[str], home: Path) -> None:
    layout = ["--devices", ",".join(loops), "--stripes", ",".join(map(str, STRIPES)), "--raid", "btrfs"]
    settings = ("jobs=1", "jobs_large=1")
    tiny = ["--profile", "ebs-series", "--file-sizes", "8m", *(f"--set={each}" for each in settings)]
    ended = subprocess.run(
        [sys.executable, "-m", "agent", "sweep", *layout, *tiny, "--yes"],
        cwd=ROOT,
        env=short_environment(stack, token, home),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def read_printed(stack: Servers, reader: str) -> dict[int, dict[str, float]]:
    """Return the IOPS that fio printed: stripes → job name → value, in the plainest way."""
    printed = {}
    for run in stack.get("/api/v1/runs?host=sweeper&limit=100")[1]["runs"]:
        envelope = stack.get(f"/api/v1/runs/{run['id']}/output", reader)[1]
        report = json.loads(envelope["fio_output"][envelope["fio_output"].index("{") :])
        printed[envelope["target"]["stripe_count"]] = {
            job["jobname"]: max(job[direction]["iops"] for direction in ("read", "write"))
            for job in report["jobs"]
        }
    return printed


def read_chart(stack: Servers) -> dict[str, Any]:
    """Return the chart that nobody had to choose anything for."""
    return dict(stack.get("/api/v1/scaling?q=host:sweeper+bs:4k")[1])


@pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")
def test_sweep_becomes_the_scaling_chart_that_fio_printed(
    stack: Servers, tokens: dict[str, str], loops: list[str], tmp_path: Path
) -> None:
    sweep(stack, tokens["sweeper"], loops=loops, home=tmp_path)
    wait_for(
        lambda: len(read_chart(stack)["cells"]) == len(STRIPES) * len(PATTERNS_OF_4K),
        within_s=120,
        what="all runs stored and summarized",
    )

    chart = read_chart(stack)

    assert (chart["x"], chart["color"]) == ("volume_count", "pattern")
    printed = read_printed(stack, tokens["reader"])
    assert sorted(printed) == STRIPES
    assert {(int(cell["x"]), cell["color"]): cell["median"] for cell in chart["cells"]} == {
        (stripes, pattern): printed[stripes][f"{pattern}-4k"]
        for stripes in STRIPES
        for pattern in PATTERNS_OF_4K
    }
    status, page = stack.get("/scaling/?q=host:sweeper+bs:4k")
    assert status == 200
    assert "data-scaling" in bytes(page).decode()
