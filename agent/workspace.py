"""The directory of one run: made fresh, always removed, and found again after a crash."""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import stat
import time
from types import TracebackType

from agent.outcome import CannotMeasure, ConfigurationError, StorageHangs
from agent.quantities import format_size
from agent.survivors import end_workers

_PREFIX = ".bench-agent-"
# A device that is not mounted now may be back later; its marker is kept as long.
_MARKER_AGE_MAXIMUM_S = 30 * 86400
# What others may write meanwhile: 5 % of the filesystem, but no more than 1 GiB of a large one.
_RESERVE_SHARE = 0.05
_RESERVE_MAXIMUM = 2**30


class Workspace:
    """A directory of our own under the path to measure; all that fio makes lies in it.

    A marker in the spool names it before it exists, so that a run that was killed is cleaned up by the next one.
    """

    def __init__(self, parent: str, spool_directory: str, *, run_id: str) -> None:
        self.directory = os.path.join(os.path.realpath(parent), _PREFIX + run_id)
        self.is_removed = False
        self._marker = os.path.join(_markers_directory(spool_directory), run_id + ".json")

    def __enter__(self) -> Workspace:
        try:
            write_marker(self._marker, self.directory)
        except OSError as error:
            raise CannotMeasure(f"the spool cannot be written, {self._marker}: {error}") from None
        try:
            os.mkdir(self.directory, 0o700)
        except OSError as error:
            os.unlink(self._marker)
            raise CannotMeasure(
                f"nothing can be written in {os.path.dirname(self.directory)}: {error}"
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StorageHangs):
            return
        self.is_removed = remove_workspace(self.directory)
        if self.is_removed:
            os.unlink(self._marker)

    def write_file(self, name: str, text: str) -> None:
        """Write a small file beside the test file."""
        try:
            with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CannotMeasure(f"{name} cannot be written in {self.directory}: {error}") from None

    def has_direct_io(self) -> bool:
        """Try whether this filesystem does O_DIRECT: some refuse the open, some only the write."""
        path = os.path.join(self.directory, "direct.probe")
        try:
            descriptor = os.open(
                path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_DIRECT", 0), 0o600
            )
            try:
                # O_DIRECT wants aligned memory; an anonymous map is whole pages.
                with mmap.mmap(-1, mmap.PAGESIZE) as page:
                    os.write(descriptor, page)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise CannotMeasure(f"nothing can be written in {self.directory}: {error}") from None
        finally:
            if os.path.exists(path):
                os.unlink(path)
        return hasattr(os, "O_DIRECT")


def check_free_space(directory: str, needed_bytes: int, *, reserve_bytes: int | None) -> None:
    """Raise CannotMeasure where the test file would not leave the reserve free; the default reserve is small."""
    try:
        state = os.statvfs(directory)
    except OSError as error:
        raise CannotMeasure(f"{directory} cannot be measured: {error}") from None
    free_bytes = state.f_bavail * state.f_frsize
    default = min(int(state.f_blocks * state.f_frsize * _RESERVE_SHARE), _RESERVE_MAXIMUM)
    reserve = default if reserve_bytes is None else reserve_bytes
    if free_bytes - needed_bytes < reserve:
        raise CannotMeasure(
            f"{directory} has {format_size(free_bytes)} free; the test file takes {format_size(needed_bytes)} and "
            f"{format_size(reserve)} must stay free: nothing was written"
        )


def clean_leftovers(spool_directory: str) -> list[str]:
    """Remove what runs left that were killed; return the directories that were found. Call it under the lock.

    StorageHangs where an fio of theirs cannot be ended.
    """
    markers = _markers_directory(spool_directory)
    found = []
    for name in sorted(os.listdir(markers)):
        path = os.path.join(markers, name)
        directory = read_marker(path)
        if directory is None:
            os.unlink(path)
        elif os.path.isdir(directory):
            found.append(directory)
            end_workers(directory)
            if remove_workspace(directory):
                os.unlink(path)
        elif time.time() - os.stat(path).st_mtime > _MARKER_AGE_MAXIMUM_S:
            os.unlink(path)
    return found


def write_marker(path: str, directory: str) -> None:
    """Note durably which directory is about to be made."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"directory": directory}, file)
        file.flush()
        os.fsync(file.fileno())


def read_marker(path: str) -> str | None:
    """Return the directory that a marker names; None for a torn one, which was written before its directory."""
    try:
        with open(path, encoding="utf-8") as file:
            directory = json.load(file)["directory"]
    except (ValueError, KeyError, TypeError):
        return None
    is_ours = isinstance(directory, str) and os.path.basename(directory).startswith(_PREFIX)
    return directory if is_ours else None


def remove_workspace(directory: str) -> bool:
    """Remove a run's directory and say whether it is gone; never follows a link."""
    try:
        if stat.S_ISDIR(os.lstat(directory).st_mode):
            shutil.rmtree(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _markers_directory(spool_directory: str) -> str:
    path = os.path.join(spool_directory, "running")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the spool {spool_directory} cannot be used: {error}") from None
    return path
