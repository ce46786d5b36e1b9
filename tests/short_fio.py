"""Real fio whose jobs are short: while it measures, each of its processes takes all the CPU time that it can get."""

import shutil
from pathlib import Path


def write_short_fio(path: Path, *, runtime: str = "100ms") -> None:
    """Write a program in place of fio: runs fio with this runtime and ramp time in a job file that states some."""
    path.unlink(missing_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        "for last; do :; done\n"
        f'[ ! -f "$last" ] || sed -i -E "s/^(runtime|ramp_time)=[1-9].*/\\1={runtime}/" "$last"\n'
        f'exec {shutil.which("fio")} "$@"\n'
    )
    path.chmod(0o755)
