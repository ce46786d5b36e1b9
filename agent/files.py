"""Replace files atomically, and read JSON."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any

# A sweep of 1 000 steps with 30 results each takes 12 MB.
JSON_MAXIMUM_BYTES = 64 * 2**20
# Files are small: no process takes so long to write one.
_ABANDONED_AFTER_S = 3600


def read_json(path: str, *, maximum_bytes: int = JSON_MAXIMUM_BYTES) -> Any:
    """Return the JSON document in a regular file; OSError if it cannot be read, ValueError if it is damaged."""
    # Opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(maximum_bytes + 1)
    if not content:
        raise ValueError("it is empty")
    if len(content) > maximum_bytes:
        raise ValueError(f"it has more than {maximum_bytes} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None


def write_durably(path: str, content: bytes) -> None:
    """Write atomically and durably: new file, fsync, rename, fsync of the directory."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, ".new-" + name)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        _unlink(temporary)  # an incomplete file would only use up disk space
        raise
    sync_directory(directory)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def replace_file(path: str, text: str, *, mode: int) -> None:
    """Replace a file atomically, following symbolic links; a reader sees the old file or the new one."""
    path = os.path.realpath(path)
    directory, name = os.path.split(path)
    # cron and systemd ignore names that start with a dot.
    temporary = os.path.join(directory, f".{name}.new-{os.getpid()}")
    _remove_abandoned(directory, f".{name}.new-", own=temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _remove_abandoned(directory: str, prefix: str, *, own: str) -> None:
    """Remove files that killed processes left: of this process id, which containers use again, and old ones."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name.startswith(prefix) and (path == own or _is_old(path)):
            _unlink(path)


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime > _ABANDONED_AFTER_S
    except FileNotFoundError:
        return False  # its process has renamed it
