"""Read a given file sequentially from a cold cache, and report its fragmentation; the file is never written."""

from __future__ import annotations

import os
from typing import Any

from agent.exit_codes import CannotMeasure
from agent.methods.fragmentation import describe_extents, describe_filesystem_fragmentation
from agent.methods.method_context import MethodContext, MethodResult

# A link in the workspace: the file's own path may contain characters special to job files.
LINK = "bench-agent.file"
_DROP_CACHES = "/proc/sys/vm/drop_caches"


def read_in_order(context: MethodContext) -> MethodResult:
    """Drop the file from the page cache, read it once, and count its extents."""
    path = context.plan.values["file"]
    cache = _make_cold(path, drops_all=context.plan.values["drop_caches"] == "yes")
    os.symlink(path, LINK, dir_fd=context.workspace.descriptor)
    jobfile = context.write_jobfile()
    result = context.execute(jobfile, options=("--readonly",))
    # Afterwards: the tools read the filesystem's maps into memory.
    facts: dict[str, Any] = {
        "file": path,
        "cache": cache,
        **describe_extents(path),
        **describe_filesystem_fragmentation(path),
    }
    return MethodResult(result, jobfile, result.has_report, facts)


def _make_cold(path: str, *, drops_all: bool) -> str:
    """Drop the file from the page cache; return how."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMeasure(f"cannot read {path}: {error}") from None
    try:
        # Dirty pages cannot be dropped; this writes those of other programs to disk.
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass  # not supported by all filesystems; fio invalidates, too
    finally:
        os.close(descriptor)
    if not drops_all:
        return "this file's pages dropped"
    try:
        with open(_DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3\n")
    except OSError as error:
        raise CannotMeasure(f"cannot write {_DROP_CACHES}: {error}; remove drop_caches=yes") from None
    return "all of the kernel's caches dropped"
