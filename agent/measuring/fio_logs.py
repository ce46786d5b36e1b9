"""fio's bandwidth, IOPS and latency logs: the options that enable them, and reading them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

# In fio's working directory, which is removed after the run.
LOG_PREFIX = "bench-agent"
_NAME = re.compile(r"bench-agent_(?:bw|iops|lat|clat|slat)(?:\.[0-9]{1,6})?\.log")
# A line of a log is about 30 bytes: an hour of one job in seconds is 0.5 MB. The server accepts 32 MiB and 200 logs.
_TOTAL_MAXIMUM = 8 * 10**6
_COUNT_MAXIMUM = 200
_MEGABYTE = 10**6
_AVERAGED_MS = 1000


@dataclass(frozen=True)
class Logs:
    """The logs by file name; problem: why they are missing."""

    logs: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


def list_log_options(fio_version: str) -> tuple[str, ...]:
    """Return the options for logs with averages over 1 s; fio writes the files when a job ends."""
    kinds = tuple(f"--write_{kind}_log={LOG_PREFIX}" for kind in ("bw", "iops", "lat"))
    # Jobs of a profile run one after the other and log times since their own start; epoch times keep their order.
    clock = ("--log_unix_epoch=1",) if re.match(r"fio-[3-9]\.", fio_version) else ()
    return (*kinds, f"--log_avg_msec={_AVERAGED_MS}", *clock)


def read_logs(directory: int) -> Logs:
    """Return the logs in fio's directory, a descriptor: all, or none with the problem."""
    try:
        names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
        total = sum(os.stat(name, dir_fd=directory).st_size for name in names)
        if not names:
            return Logs(problem="fio wrote no logs")
        if len(names) > _COUNT_MAXIMUM:
            return Logs(problem=f"fio wrote {len(names)} logs; the maximum is {_COUNT_MAXIMUM}")
        if total > _TOTAL_MAXIMUM:
            limit = f"{_TOTAL_MAXIMUM // _MEGABYTE} MB"
            return Logs(problem=f"fio's logs take {total / _MEGABYTE:.1f} MB; the maximum is {limit}")
        return Logs({name: _read(name, directory) for name in names})
    except OSError as error:
        return Logs(problem=f"cannot read fio's logs: {error}")


def _read(name: str, directory: int) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    with open(descriptor, encoding="ascii", errors="replace") as file:
        return file.read(_TOTAL_MAXIMUM)
