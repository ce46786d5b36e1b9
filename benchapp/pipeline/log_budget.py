"""How much of a submission's logs is read: what is too much is left out by name and refuses nothing; pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from benchapp.fio.logs import split_log_name
from benchapp.fio.report import Note

# A task has 90 s; a million lines take 3 s as fio writes them, and 6 s as nobody does (measured).
LOGS_BYTES_MAXIMUM: Final = 16 * 2**20
LOGS_LINES_MAXIMUM: Final = 1_000_000
# The first of these that fit are read: rates judge how steady a run was.
_ORDER: Final = ("iops", "bw", "lat", "clat", "slat")
_NAMES_TOLD: Final = 8


def keep_to_budget(logs: Mapping[str, str], warnings: list[Note]) -> dict[str, str]:
    """Return the logs that are read, by file name, and add a warning that names the others.

    At most LOGS_BYTES_MAXIMUM characters and LOGS_LINES_MAXIMUM lines; of each kind all or none, as a sum over some
    of the jobs would be wrong.
    """
    of_kind: dict[str, list[str]] = defaultdict(list)
    for name in sorted(logs):
        known = split_log_name(name)
        of_kind[known.kind if known else ""].append(name)
    kept: dict[str, str] = {}
    left_out: list[str] = []
    room_bytes, room_lines = LOGS_BYTES_MAXIMUM, LOGS_LINES_MAXIMUM
    for kind in sorted(of_kind, key=lambda kind: _ORDER.index(kind) if kind in _ORDER else len(_ORDER)):
        names = of_kind[kind]
        size = sum(len(logs[name]) for name in names)
        lines = sum(logs[name].count("\n") for name in names) if size <= room_bytes else 0
        if size > room_bytes or lines > room_lines:
            left_out += names
            continue
        room_bytes, room_lines = room_bytes - size, room_lines - lines
        kept |= {name: logs[name] for name in names}
    if left_out:
        warnings.append(Note("logs-too-big", "", _say_left_out(left_out)))
    return kept


def _say_left_out(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_TOLD} others" if len(names) > _NAMES_TOLD else ""
    return (
        f"not read: {', '.join(names[:_NAMES_TOLD])}{more}; of a run's logs {LOGS_BYTES_MAXIMUM // 2**20} MiB and"
        f" {LOGS_LINES_MAXIMUM} lines are read, and of each kind all or none: fio averages with --log_avg_msec=1000"
    )
