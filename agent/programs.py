"""Find installed programs, also where cron's PATH does not lead."""

from __future__ import annotations

import os
import shutil
from typing import Mapping

# cron's PATH is /usr/bin:/bin; vendors' packages of fio use /opt/fio.
DIRECTORIES = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin", "opt/fio/bin")


def find_program(name: str, environ: Mapping[str, str] | None = None, *, root: str = "/") -> str | None:
    """Return the path of a program, or None: searched on PATH, then in the usual directories below root."""
    searched = (os.environ if environ is None else environ).get("PATH", "")
    usual = (os.path.join(root, directory) for directory in DIRECTORIES)
    return shutil.which(name, path=os.pathsep.join((searched, *usual)))
