"""What the agent costs the host that it measures: start-up, memory, its own CPU while fio runs.

    python -m benchmarks.agent

The one-file agent as it is downloaded, beside an interpreter that does nothing. The run is the shipped profile
`quick` with fio at work in a temporary directory; the agent's CPU is its process alone, without fio.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchapp.agent_archive import build_agent_archive

ROOT: Final = Path(__file__).parent.parent
STARTS: Final = 15


def main() -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory(prefix="bb-") as name:
        place = Path(name)
        program = _build(place / "bench-agent.pyz")
        print(f"{'':52}{'measured':>12}{'aim':>10}")
        _measure_start(program)
        _measure_run(program, place)


def _build(program: Path) -> Path:
    program.write_bytes(build_agent_archive(ROOT / "agent"))
    return program


def _measure_start(program: Path) -> None:
    bare = [_time([sys.executable, "-c", "pass"]) for _ in range(STARTS)]
    version = [_time([sys.executable, str(program), "version"]) for _ in range(STARTS)]
    status = [_time([sys.executable, str(program), "status"]) for _ in range(STARTS)]
    _print("an interpreter that does nothing", f"{statistics.median(bare) * 1000:.0f} ms", "")
    _print("bench-agent version, from the one file", f"{statistics.median(version) * 1000:.0f} ms", "150 ms")
    _print("  least", f"{min(version) * 1000:.0f} ms", "")
    _print("bench-agent status", f"{statistics.median(status) * 1000:.0f} ms", "")


def _time(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=_environment(None))
    return time.perf_counter() - started


def _measure_run(program: Path, place: Path) -> None:
    command = [sys.executable, str(program), "run", "--profile", "quick", "--directory", str(place)]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--set", "size=16m", "--no-send", "--quiet"],
        env=_environment(place / "spool"),
        stdout=subprocess.DEVNULL,
    )
    peak_kib = 0
    own_s = 0.0
    during: list[tuple[float, float]] = []
    while process.poll() is None:
        status = _read_status(process.pid)
        if status:
            peak_kib, own_s = max(peak_kib, status[0]), status[1]
            if _has_child(process.pid):
                during.append((time.perf_counter(), own_s))
        time.sleep(0.1)
    elapsed_s = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"the run ended with status {process.returncode}")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    _print("run of the profile quick", f"{elapsed_s:.1f} s", "")
    _print("  most memory of the agent", f"{peak_kib / 1024:.1f} MiB", "40 MiB")
    (first_at, before_s), (last_at, after_s) = during[0], during[-1]
    share = (after_s - before_s) / (last_at - first_at)
    _print(f"  its own CPU in the {last_at - first_at:.0f} s while fio ran", f"{share:.2%}", "1 %")
    _print("  its own CPU, start and end included", f"{own_s:.2f} s", "")
    _print("  CPU of all that was started here", f"{children.ru_utime + children.ru_stime:.1f} s", "")


def _read_status(pid: int) -> tuple[int, float] | None:
    """Return the resident set in KiB and the CPU seconds of one process, its children left out."""
    try:
        memory = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    resident = next((line.split()[1] for line in memory.splitlines() if line.startswith("VmHWM")), "0")
    return int(resident), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _has_child(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())
    except OSError:
        return False


def _environment(spool: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_AGENT_")}
    return {**kept, "BENCH_AGENT_SPOOL": str(spool)} if spool else kept


def _print(what: str, value: str, aim: str) -> None:
    print(f"{what:52}{value:>12}{aim:>10}", flush=True)


if __name__ == "__main__":
    main()
