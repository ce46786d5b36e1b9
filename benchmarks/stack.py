"""How long `make up` takes and what the idle stack costs, beside what the project has promised.

    python -m benchmarks.stack

Fresh: a copy of this checkout in an empty directory, with its own virtual environment; packages come from uv's cache
if they were downloaded before. Memory: PSS (each process's share of shared pages), after pages were read, at rest.
Starts and memory are those of that copy: packages of the development environment, which libraries import where they
find them, would add 12 MiB.
"""

import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
WARM_STARTS: Final = 5
REST_S: Final = 15
_OURS: Final = ("BENCHAPP_", "BENCH_AGENT_", "DJANGO_")


@dataclass(frozen=True)
class Started:
    """A stack that has come up: its process, its address, and how long that took."""

    process: subprocess.Popen[str]
    url: str
    ready_s: float


def main() -> None:
    """Measure and print the table."""
    place = Path(tempfile.mkdtemp(prefix="bb-", dir="/tmp"))
    place.chmod(0o711)
    print(f"{'':44}{'measured':>12}{'aim':>10}")
    try:
        _measure_fresh_checkout(place / "checkout")
        _measure_starts(place / "checkout", place / "var")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measure_fresh_checkout(checkout: Path) -> None:
    checkout.mkdir()
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    started = time.perf_counter()
    done = subprocess.run(
        ["make", "up", f"PORT={_find_free_port()}", "UP_ARGS=--exit-after-run"],
        cwd=checkout,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed_s = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"make up failed:\n{done.stdout}{done.stderr}")
    run = re.search(r"Ready after ([\d.]+) s", done.stdout)
    assert run is not None, done.stdout
    _print("fresh checkout: make up to the chart and stop", f"{elapsed_s:.1f} s", "90 s")
    _print("  of which the stack, with a new cluster", f"{float(run[1]):.1f} s", "")


def _measure_starts(checkout: Path, data: Path) -> None:
    with _up(checkout, data) as first:
        _print("first start (packages there): page ready", f"{first.ready_s:.1f} s", "")
    warm, stopped = [], []
    for number in range(WARM_STARTS):
        with _up(checkout, data) as started:
            warm.append(started.ready_s)
            if number == WARM_STARTS - 1:
                _measure_memory(started)
            before = time.perf_counter()
        stopped.append(time.perf_counter() - before)
    _print(f"warm start: page ready, median of {WARM_STARTS}", f"{statistics.median(warm):.1f} s", "6 s")
    _print("  worst", f"{max(warm):.1f} s", "")
    _print("stop, median", f"{statistics.median(stopped):.1f} s", "")


def _measure_memory(started: Started) -> None:
    for path in ("/runs/", "/hosts/", "/series/", "/uploads/", "/readyz"):
        with urllib.request.urlopen(started.url + path, timeout=30) as answer:
            answer.read()
    time.sleep(REST_S)
    shares: dict[str, float] = {}
    for pid in _list_tree(started.process.pid):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        shares[_name(command)] = shares.get(_name(command), 0) + _read_pss_mib(pid)
    _print("memory of the idle stack (PSS)", f"{sum(shares.values()):.0f} MiB", "300 MiB")
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        _print(f"  {name}", f"{share:.0f} MiB", "")


@contextmanager
def _up(checkout: Path, data: Path) -> Iterator[Started]:
    port = _find_free_port()
    url = f"http://127.0.0.1:{port}"
    begun = time.perf_counter()
    process = subprocess.Popen(
        [
            *(".venv/bin/python", "-m", "benchapp.operation.embedded"),
            *("--data-dir", str(data), "--port", str(port), "--no-run"),
        ],
        cwd=checkout,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("Ready after"):
            break
    else:
        raise SystemExit(f"up failed:\n{said}")
    with urllib.request.urlopen(f"{url}/runs/", timeout=30) as answer:
        answer.read()
    try:
        yield Started(process, url, time.perf_counter() - begun)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _list_tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    tree, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        tree.append(pid)
        waiting += children.get(pid, [])
    return tree


def _read_pss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found[1]) / 1024 if found else 0.0


def _name(command: str) -> str:
    for mark, name in (
        ("granian", "web"),
        ("embedded.worker", "worker and beat"),
        ("valkey", "Valkey"),
        ("postgres", "PostgreSQL"),
        ("benchapp.operation.embedded", "supervisor"),
    ):
        if mark in command:
            return name
    return command[:30]


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS)
        and name not in ("DATABASE_URL", "BROKER_URL", "VIRTUAL_ENV", "PYTHONPATH")
    }


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _print(label: str, measured: str, aim: str) -> None:
    print(f"{label:44}{measured:>12}{aim:>10}", flush=True)


if __name__ == "__main__":
    main()
