"""Run the benchmarks one after the other: `make bench`, or `python -m benchmarks stack load` for some of them.

What begins with "-" and all behind it goes to the last one: `python -m benchmarks fleet --hosts 4`.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
# Only these are benchmarks; the other modules here are their tools.
BENCHMARKS: Final = {
    "stack": "a fresh and a warm start, and the memory of the idle stack",
    "importing": "files a second of manage.py import, from the files to detected changes",
    "memory": "how far the web process grows while a thousand clients send large bodies",
    "load": "a fleet of years: intake, detection and each page and list together; memory, sizes, backup",
    "pages": "weight of the scripts; a history of 1 000 points in Chromium",
    "charts": "scaling, matrix and history over 1 million measurements in 20 000 series",
    "export": "complete lists: 100 000 and 1 million measurements as CSV, JSON, NDJSON and Parquet",
    "archive": "archives: export and import of 1 million measurements, beside COPY",
    "agent": "what the agent costs the host that it measures",
    "agent_kills": "100 agents killed at random instants; results lost or stored twice, half-written schedules",
    "reader": "fio's output into a Report, compared with the libraries alone; 100 000 damaged outputs",
    "detection": "changes found and false alarms, on histories with known truth; the time it takes",
    "significance": "how often noise causes a certain change, and how soon one series alone opens an incident",
    "gate": "builds that the gate passes and fails, without a loss and with one, by noise and runs",
    "confirmation": "hours until a regression is confirmed, and false changes, with and without additional runs",
    "evaluation": "CPU time to evaluate one more run in each of 1 000 series",
    "variability": "increases in spread and alternations between two states: found, and found without any",
    "seasons": "changes under a daily or weekly pattern, with and without a calendar profile",
    "drift": "slow decreases that are reported, and drifts without one",
    "pooled": "small changes of all series of a host; false ones without a change",
    "fleet": "a year of a fleet, or two months of a user: false incidents, and those of planted events; hours, by name",
}
# Too long to run with the others.
BY_NAME: Final = ("fleet",)


def main() -> int:
    """Run what was named, or everything; return 1 when one of them failed."""
    first = next(
        (place for place, word in enumerate(sys.argv) if place and word.startswith("-")), len(sys.argv)
    )
    options = sys.argv[first:]
    names = sys.argv[1:first] or [
        name for name in BENCHMARKS if name not in BY_NAME and (HERE / f"{name}.py").exists()
    ]
    unknown = [name for name in names if not (HERE / f"{name}.py").exists()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        print(f"\n== {name}: {BENCHMARKS.get(name, '')}", flush=True)
        started = time.monotonic()
        status = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *(options if name == names[-1] else ())],
            cwd=HERE.parent,
            check=False,
        ).returncode
        print(f"   ({time.monotonic() - started:.0f} s)", flush=True)
        if status != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
