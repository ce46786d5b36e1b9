"""The temporary directory of one run: always removed, also after a crash; checks of space, inodes and memory."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import re
from dataclasses import dataclass
from types import TracebackType
from typing import Iterable

from agent.exit_codes import CannotMeasure, ConfigurationError, StorageHangs
from agent.files import read_json, write_durably
from agent.measuring.fio import kill_orphans
from agent.profiles.parameters import Needs
from agent.quantities import format_size
from agent.storage.sysfs import read_text
from agent.trust import find_writer

_PREFIX = ".bench-agent-"
# A device that is not mounted may return later, and a clock may be wrong: the newest markers stay at any age.
_MARKERS_MAXIMUM = 20
# Reserve for other writers: 5 % of the filesystem, at most 1 GiB.
_RESERVE_SHARE = 0.05
_RESERVE_MAXIMUM = 2**30
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The parent need not be readable.
_PARENT = _DIRECTORY | getattr(os, "O_PATH", 0)
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Marker:
    """The directory of a run as recorded in the spool; inode: None until it is created."""

    directory: str
    inode: int | None


class Workspace:
    """The directory under the measured path in which fio creates its files.

    A marker in the spool is written before it is created, so that the next run cleans up after a killed one. A user who
    can write to the parent can replace the directory by a link. All operations are therefore relative to a descriptor
    that is opened once; `directory`, its path, is only used in messages.
    """

    def __init__(
        self, parent: str, spool_directory: str, *, run_id: str, trusts_parent: bool = False
    ) -> None:
        self.directory = os.path.join(os.path.realpath(parent), _PREFIX + run_id)
        self.descriptor = -1
        self.is_removed = False
        self._named_parent = None if trusts_parent else parent
        self._parent = -1
        self._marker = os.path.join(_markers_directory(spool_directory), run_id + ".json")

    def __enter__(self) -> Workspace:
        if self._named_parent is not None:
            check_path_trusted(self._named_parent)
        self._record(inode=None)
        try:
            self._make()
        except OSError as error:
            if self._parent >= 0:
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.basename(self.directory), dir_fd=self._parent)
            self._close()
            os.unlink(self._marker)
            raise CannotMeasure(f"cannot write to {os.path.dirname(self.directory)}: {error}") from None
        try:
            self._record(inode=os.fstat(self.descriptor).st_ino)
        except CannotMeasure:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StorageHangs):
            self._close()
        else:
            self._remove()

    def write_file(self, name: str, text: str) -> None:
        """Write a small file next to the test file, replacing one of the same name."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.descriptor)
            descriptor = os.open(name, os.O_WRONLY | _NEW_FILE, 0o600, dir_fd=self.descriptor)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CannotMeasure(f"cannot write {name} in {self.directory}: {error}") from None

    def has_direct_io(self) -> bool:
        """Test whether this filesystem supports O_DIRECT: some fail at open, some only at write."""
        name = "direct.probe"
        try:
            flags = os.O_RDWR | _NEW_FILE | getattr(os, "O_DIRECT", 0)
            descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
            try:
                # O_DIRECT requires aligned memory; an anonymous map is page-aligned.
                with mmap.mmap(-1, mmap.PAGESIZE) as page:
                    os.write(descriptor, page)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise CannotMeasure(f"cannot write to {self.directory}: {error}") from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.descriptor)
        return hasattr(os, "O_DIRECT")

    def _record(self, *, inode: int | None) -> None:
        try:
            write_marker(self._marker, self.directory, inode=inode)
        except OSError as error:
            raise CannotMeasure(f"cannot write {self._marker} in the spool: {error}") from None

    def _make(self) -> None:
        parent, name = os.path.split(self.directory)
        self._parent = os.open(parent, _PARENT)
        os.mkdir(name, 0o700, dir_fd=self._parent)
        self.descriptor = os.open(name, _DIRECTORY, dir_fd=self._parent)
        _check_new(self.descriptor)

    def _remove(self) -> None:
        self.is_removed = _remove_directory(
            self.descriptor, os.path.basename(self.directory), parent=self._parent
        )
        self._close()
        if self.is_removed:
            os.unlink(self._marker)

    def _close(self) -> None:
        """Close both descriptors: an open one prevents unmounting."""
        for descriptor in (self.descriptor, self._parent):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self._parent = -1


def check_path_trusted(directory: str) -> None:
    """As root, raise ConfigurationError if another user can rename or replace a part of a path."""
    found = find_writer(directory, is_shared=True) if os.geteuid() == 0 else None
    if found:
        raise ConfigurationError(f"{found}, or accept the risk with --trust-directory")


def _check_new(descriptor: int) -> None:
    """Raise OSError unless a directory is as mkdir created it: empty, own, and private.

    The owner is compared with that of a new file: NFS maps root to nobody, FAT has one owner for all.
    """
    name = "owner.probe"
    probe = os.open(name, os.O_WRONLY | _NEW_FILE, 0o600, dir_fd=descriptor)
    try:
        os.unlink(name, dir_fd=descriptor)
        is_ours = os.fstat(probe).st_uid == os.fstat(descriptor).st_uid
    finally:
        os.close(probe)
    if is_ours:
        with contextlib.suppress(OSError):  # a filesystem without modes
            os.fchmod(descriptor, 0o700)
    if not is_ours or os.listdir(descriptor):
        raise OSError(errno.EEXIST, "another user replaced the directory of the run")


def check_free_space(directory: str, needed_bytes: int, *, reserve_bytes: int | None) -> None:
    """Raise CannotMeasure if the test file would not leave the reserve free; None: 5 %, at most 1 GiB."""
    try:
        state = os.statvfs(directory)
    except OSError as error:
        raise CannotMeasure(f"cannot measure in {directory}: {error}") from None
    free_bytes = state.f_bavail * state.f_frsize
    default = min(int(state.f_blocks * state.f_frsize * _RESERVE_SHARE), _RESERVE_MAXIMUM)
    reserve = default if reserve_bytes is None else reserve_bytes
    if free_bytes - needed_bytes < reserve:
        raise CannotMeasure(
            f"not enough space: {directory} has {format_size(free_bytes)} free, the test file needs "
            f"{format_size(needed_bytes)} and {format_size(reserve)} must remain free; nothing was written",
            reason_code="no-space",
        )


def clean_leftovers(spool_directory: str) -> list[str]:
    """Remove the directories of killed runs and return messages about them; requires the lock.

    StorageHangs if an orphaned fio cannot be killed.
    """
    markers = _markers_directory(spool_directory)
    notes, left = [], []
    for name in sorted(os.listdir(markers)):
        path = os.path.join(markers, name)
        marker = read_marker(path)
        if marker is None or name.startswith("."):
            os.unlink(path)
            continue
        kill_orphans(marker.directory)
        problem = _remove_leftover(marker)
        if problem is None:
            os.unlink(path)
            notes.append(f"removed {marker.directory} of a killed run")
            continue
        if problem:
            notes.append(f"cannot remove {marker.directory} of a killed run: {problem}")
        left.append(path)
    for path in sorted(left, key=os.path.getmtime)[:-_MARKERS_MAXIMUM]:
        os.unlink(path)
    return notes


def list_leftovers(spool_directory: str) -> list[str]:
    """Return the directories that killed runs of this spool left."""
    markers = os.path.join(spool_directory, "running")
    names = sorted(os.listdir(markers)) if os.path.isdir(markers) else []
    found = [read_marker(os.path.join(markers, name)) for name in names]
    return [marker.directory for marker in found if marker is not None and os.path.lexists(marker.directory)]


def list_workspaces(parents: Iterable[str]) -> list[str]:
    """Return the directories of runs, ended or not, in measured directories."""
    return sorted(
        os.path.join(os.path.realpath(parent), name)
        for parent in parents
        if os.path.isdir(parent)
        for name in os.listdir(parent)
        if name.startswith(_PREFIX)
    )


def write_marker(path: str, directory: str, *, inode: int | None) -> None:
    """Record durably the directory of a run, and its inode once it exists."""
    write_durably(path, json.dumps({"directory": directory, "inode": inode}).encode())


def read_marker(path: str) -> Marker | None:
    """Return a marker; None for an incomplete one, which was written before its directory."""
    try:
        document = read_json(path)
        directory, inode = document["directory"], document.get("inode")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    is_ours = isinstance(directory, str) and os.path.basename(directory).startswith(_PREFIX)
    return Marker(directory, inode if isinstance(inode, int) else None) if is_ours else None


def _remove_leftover(marker: Marker) -> str | None:
    """Remove the directory of a killed run: None on success, "" if it does not exist, else the reason.

    Only the directory that the run created: another user may have replaced it by a directory or link.
    """
    parent, name = os.path.split(marker.directory)
    try:
        parent_descriptor = os.open(parent, _PARENT)
    except OSError:
        return ""  # not mounted
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent_descriptor)
        try:
            state = os.fstat(descriptor)
            # Without an inode the run was killed before it wrote anything.
            is_ours = state.st_uid == os.geteuid() if marker.inode is None else state.st_ino == marker.inode
            if not is_ours:
                return "it was replaced by another directory"
            is_removed = _remove_directory(descriptor, name, parent=parent_descriptor)
            return None if is_removed else "its content cannot be removed"
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(parent_descriptor)


def _remove_directory(descriptor: int, name: str, *, parent: int) -> bool:
    """Remove a run's directory by descriptor, and its name in parent; return whether it succeeded.

    shutil.rmtree accepts a descriptor since Python 3.11 only.
    """
    try:
        _empty(descriptor)
        # If the directory was renamed, this fails or removes an empty directory: both are harmless.
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _empty(descriptor: int) -> None:
    """Remove everything in a directory without following links."""
    with os.scandir(descriptor) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        if not is_directory:
            os.unlink(name, dir_fd=descriptor)
            continue
        child = os.open(name, _DIRECTORY, dir_fd=descriptor)
        try:
            _empty(child)
        finally:
            os.close(child)
        os.rmdir(name, dir_fd=descriptor)


def _markers_directory(spool_directory: str) -> str:
    path = os.path.join(spool_directory, "running")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot use the spool {spool_directory}: {error}") from None
    return path


def check_resources(directory: str, needs: Needs, *, reserve_bytes: int | None) -> None:
    """Raise CannotMeasure if space, inodes or memory are not sufficient for a run."""
    if needs.space_bytes:
        check_free_space(directory, needs.space_bytes, reserve_bytes=reserve_bytes)
        _check_inodes(directory, needs.files)
    free_bytes = find_free_memory()
    if free_bytes is not None and needs.memory_bytes > free_bytes:
        raise CannotMeasure(
            f"not enough memory: jobs and buffers need {format_size(needs.memory_bytes)}, "
            f"{format_size(free_bytes)} are free; use fewer jobs, smaller blocks or a lower iodepth"
        )


def find_free_memory(*, root: str = "/") -> int | None:
    """Return the bytes available to a new process: of the machine or of the control group, whichever is less."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", read_text(root, "proc/meminfo"), re.MULTILINE)
    free = [int(match.group(1)) * 1024] if match else []
    group = re.search(r"^0::/(.*)$", read_text(root, "proc/self/cgroup"), re.MULTILINE)
    if group:
        directory = os.path.join(root, "sys/fs/cgroup", group.group(1))
        limit, used = (read_text(directory, name) for name in ("memory.max", "memory.current"))
        if limit.isdigit() and used.isdigit():
            free.append(max(int(limit) - int(used) + _count_inactive(directory), 0))
    return min(free, default=None)


def _count_inactive(directory: str) -> int:
    """Return the bytes of cached files, which count as used but can be reclaimed."""
    match = re.search(r"^inactive_file (\d+)$", read_text(directory, "memory.stat"), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _check_inodes(directory: str, needed: int) -> None:
    state = os.statvfs(directory)
    # Filesystems that allocate inodes dynamically report 0 of 0.
    if state.f_files and state.f_favail < needed:
        raise CannotMeasure(
            f"not enough inodes: {directory} has {state.f_favail} free, {needed} are needed; delete files, "
            "or measure in another directory"
        )
