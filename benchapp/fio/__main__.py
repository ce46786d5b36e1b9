"""Read outputs of fio from the command line: python -m benchapp.fio FILE… (or standard input)."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.logs import Log, UnreadableLog, is_latency_in_ns, read_log, split_log_name
from benchapp.fio.merging.jobs import add_totals
from benchapp.fio.numbers import UNKNOWN_VERSION, Version, parse_version
from benchapp.fio.report import Report

_USAGE = (
    "usage: python -m benchapp.fio [FILE…]   (- or no FILE: standard input; NAME_bw.1.log and the like: logs)"
)


def main(names: Sequence[str]) -> int:
    """Print the report of each file as one line of JSON, then each log; return 1 if any could not be read."""
    if any(name in ("-h", "--help") for name in names):
        print(_USAGE)
        return 0
    logs = [name for name in names if split_log_name(Path(name).name) is not None]
    versions: set[Version] = set()
    failed = False
    for name in [name for name in names if name not in logs] or ([] if logs else ["-"]):
        report = _read_report(name)
        if report is None:
            failed = True
            continue
        versions.update(parse_version(document.fio_version) for document in report.documents)
        _print_line(report)
    version = _choose_version(versions)
    for name in logs:
        log = _read_log(name, version)
        if log is None:
            failed = True
            continue
        _print_line(_describe_log(name, log))
    return 1 if failed else 0


def _read_report(name: str) -> Report | None:
    try:
        output = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return add_totals(read_output(output))
    except UnreadableOutput as error:
        _complain(name, f"{error.seen or 'unknown format'}: {error.code}: {error.detail}")
    except OSError as error:
        _complain(name, error.strerror or str(error))
    return None


def _read_log(name: str, version: Version) -> Log | None:
    try:
        return read_log(name, Path(name).read_bytes(), version=version)
    except UnreadableLog as error:
        _complain(name, f"log: {error.code}: {error.detail}")
    except OSError as error:
        _complain(name, error.strerror or str(error))
    return None


def _choose_version(versions: set[Version]) -> Version:
    """Return the fio version of the logs; unknown if no output has one or their units of latencies differ."""
    known = versions - {UNKNOWN_VERSION}
    return max(known) if known == versions and len({*map(is_latency_in_ns, known)}) == 1 else UNKNOWN_VERSION


def _describe_log(name: str, log: Log) -> dict[str, Any]:
    directions = {
        direction: {
            "at_s": values.at_s.tolist(),
            "values": values.values.tolist(),
            "block_bytes": values.block_bytes.tolist(),
            "maximums": values.maximums.tolist(),
        }
        for direction, values in log.directions.items()
    }
    return {
        "log": name,
        "kind": log.kind,
        "job": log.job,
        "is_windowed": log.is_windowed,
        "began_at_ms": log.began_at_ms,
        "is_cut": log.is_cut,
        "directions": directions,
    }


def _complain(name: str, reason: str) -> None:
    print(f"{name}: {reason}", file=sys.stderr)


def _print_line(content: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(content) + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
