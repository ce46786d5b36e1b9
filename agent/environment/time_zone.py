"""Which zone this machine tells its time in, as IANA names it (Europe/Berlin)."""

from __future__ import annotations

import os
import re
from typing import Mapping, Sequence

from agent.storage.sysfs import read_line

_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*/){1,2}[A-Za-z0-9_+-]+|UTC|GMT|Zulu|[A-Z][a-z]+")
_LENGTH_MAXIMUM = 64


def find_time_zone(*, root: str = "/") -> str | None:
    """Return the zone that the machine is set to; None where its zone file is a copy without a name.

    The machine before the process: TZ may be another in a person's shell than under cron, and each zone that is told
    makes another environment.
    """
    try:
        aim = os.readlink(os.path.join(root, "etc/localtime"))
    except OSError:
        aim = ""
    return _read_path(aim) or _check_name(read_line(root, "etc/timezone"))


def find_process_zone(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the zone of TZ, else UTC where `time.tzname` says so: other abbreviations mean several zones each."""
    told = environ.get("TZ", "").strip().lstrip(":")
    zone = _read_path(told) if told.startswith("/") else _check_name(told)
    return zone or ("UTC" if not told and set(names) == {"UTC"} else None)


def _read_path(path: str) -> str | None:
    """Return the zone of a file below a directory zoneinfo."""
    name = path.partition("zoneinfo/")[2]
    return _check_name(re.sub(r"^(posix|right)/", "", name))


def _check_name(name: str | None) -> str | None:
    return name if name and len(name) <= _LENGTH_MAXIMUM and _NAME.fullmatch(name) else None
