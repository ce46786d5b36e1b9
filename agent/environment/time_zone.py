"""The time zone of this machine by its IANA name (Europe/Berlin)."""

from __future__ import annotations

import os
import re
from typing import Mapping, Sequence

from agent.storage.sysfs import read_line

_NAME = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*/){1,2}[A-Za-z0-9_+-]+|UTC|GMT|Zulu|[A-Z][a-z]+")
_LENGTH_MAXIMUM = 64


def find_time_zone(*, root: str = "/") -> str | None:
    """Return the machine's zone; None if its zone file is a copy without a name.

    The machine's zone has precedence over TZ, which may differ between a shell and cron: every other zone creates
    another environment.
    """
    try:
        link = os.readlink(os.path.join(root, "etc/localtime"))
    except OSError:
        link = ""
    return _read_path(link) or _check_name(read_line(root, "etc/timezone"))


def find_process_zone(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the zone of TZ, else UTC if `time.tzname` is UTC: other abbreviations are ambiguous."""
    value = environ.get("TZ", "").strip().lstrip(":")
    zone = _read_path(value) if value.startswith("/") else _check_name(value)
    return zone or ("UTC" if not value and set(names) == {"UTC"} else None)


def _read_path(path: str) -> str | None:
    """Return the zone of a file below zoneinfo/."""
    name = path.partition("zoneinfo/")[2]
    return _check_name(re.sub(r"^(posix|right)/", "", name))


def _check_name(name: str | None) -> str | None:
    return name if name and len(name) <= _LENGTH_MAXIMUM and _NAME.fullmatch(name) else None
