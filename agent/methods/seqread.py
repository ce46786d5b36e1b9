"""Read a given file in order from a cold cache, and say how it lies on the disk; it is never written to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.methods.extents import describe_extents, describe_filesystem_fragmentation

if TYPE_CHECKING:
    from agent.methods.bench import Bench, Outcome
    from agent.profiles.profiles import Plan

# A link of this name lies in the workspace: a path may hold what a job file gives a meaning.
LINK = "bench-agent.file"
_DROP_CACHES = "/proc/sys/vm/drop_caches"


def check_file(plan: Plan) -> None:
    """Raise ConfigurationError where the plan names no file, one that is too small, or may not drop caches."""
    path = plan.values["file"]
    if path is None:
        raise ConfigurationError("read which file? name it with --file")
    if not plan.values["size"]:
        raise ConfigurationError(f"--file {path}: it is smaller than one block of {plan.values['bs']} bytes")
    if plan.values["drop_caches"] == "yes" and os.geteuid() != 0:
        raise ConfigurationError("--set drop_caches=yes: only root may drop the kernel's caches")


def read_in_order(bench: Bench) -> Outcome:
    """Drop the file from the page cache, read it once, and count its extents."""
    from agent.methods.bench import Outcome

    path = bench.plan.values["file"]
    cache = _make_cold(path, drops_all=bench.plan.values["drop_caches"] == "yes")
    os.symlink(path, LINK, dir_fd=bench.workspace.descriptor)
    jobfile = bench.write_jobfile()
    result = bench.execute(jobfile, options=("--readonly",))
    # After it: to ask for extents brings the filesystem's own maps into memory.
    facts: dict[str, Any] = {
        "file": path,
        "cache": cache,
        **describe_extents(path),
        **describe_filesystem_fragmentation(path),
    }
    return Outcome(result, jobfile, result.has_report, facts)


def _make_cold(path: str, *, drops_all: bool) -> str:
    """Take the file out of the page cache; return how that was done."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMeasure(f"{path} cannot be read: {error}") from None
    try:
        # Only what is on the disk can be dropped; this puts there what another program wrote.
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass  # a filesystem may refuse both; fio's own invalidation is left
    finally:
        os.close(descriptor)
    if not drops_all:
        return "this file's pages dropped"
    try:
        with open(_DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3\n")
    except OSError as error:
        raise CannotMeasure(f"{_DROP_CACHES} cannot be written: {error}; leave out drop_caches=yes") from None
    return "all of the kernel's caches dropped"
