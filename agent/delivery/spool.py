"""The spool: results on disk until the server has acknowledged them; bounded, locked, crash-safe."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Mapping

from agent.exit_codes import CannotMeasure, ConfigurationError, TryLater
from agent.files import _unlink, read_json, sync_directory, write_durably
from agent.quantities import format_size, format_time
from agent.trust import find_writer

_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f-]{36})\.json\.gz")
# Everything that the agent creates in a spool.
_DIRECTORIES = ("pending", "rejected", "running", "sweeps/mount", "sweeps", "experiments")
_FILES = (
    *("counts.json", "schedule.json", "requests.json", "adoption.json", "rejections.json", "update.json"),
    "lock",
)
# fio's output of the largest shipped profile takes 1 MiB, its envelope 10 % of that.
_ROOM_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Entry:
    """One envelope on disk; made_at by this host's clock, seconds since the epoch. reason: of a rejected one."""

    path: str
    id: str
    size_bytes: int
    made_at: float
    reason: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> bytes:
        """Return the bytes to post."""
        with open(self.path, "rb") as file:
            return file.read()


@dataclass(frozen=True)
class DroppedResults:
    """The results that were dropped above the maximum size. last_at: RFC 3339, clock of this host; None: none yet."""

    count: int
    last_at: str | None


class Spool:
    """The spool directory: pending/ and rejected/ contain envelopes, running/ markers of runs, lock the lock.

    Writing requires the lock; reading does not.
    """

    def __init__(self, directory: str, *, max_bytes: int) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._pending = os.path.join(directory, "pending")
        self._rejected = os.path.join(directory, "rejected")
        self._counts = os.path.join(directory, "counts.json")
        self._rejections = os.path.join(directory, "rejections.json")

    def prepare(self) -> None:
        """Create the directories; ConfigurationError without permission, or if another user can write to them."""
        self.require_trusted()
        try:
            for path in (self.directory, self._pending, self._rejected):
                os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot use the spool {self.directory}: {error}") from None
        # Another user may have created it meanwhile.
        self.require_trusted()
        if not os.access(self._pending, os.W_OK | os.X_OK):
            raise ConfigurationError(f"the spool {self.directory} is not writable by this user")

    def require_trusted(self) -> None:
        """Raise ConfigurationError if another user can write to the spool, or replace it."""
        found = self.describe_writer()
        if found:
            raise ConfigurationError(f"cannot use the spool {self.directory}: {found}")

    def describe_writer(self) -> str | None:
        """Return which other user can write to the spool, and the remedy; None without one.

        That user could replace results, and the commands of an experiment that is resumed.
        """
        if not os.path.exists(self.directory):
            return find_writer(self.directory, is_shared=True)
        for name in ("", *(each for each in _DIRECTORIES if "/" not in each)):
            found = find_writer(os.path.join(self.directory, name).rstrip("/"))
            if found:
                return found
        return None

    @contextmanager
    def lock(self, *, patience_s: float = 0.0) -> Iterator[None]:
        """Own the lock of this spool; TryLater if another agent owns it for longer than patience_s.

        The kernel releases it when the process ends.
        """
        self.prepare()
        try:
            descriptor = os.open(
                os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise ConfigurationError(f"cannot use the spool {self.directory}: {error}") from None
        try:
            if not _wait_for_lock(descriptor, patience_s):
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                raise TryLater(f"another bench-agent is running (process {holder or 'unknown'})")
            _note_holder(descriptor)
            self._remove_torn_files()
            yield
        finally:
            os.close(descriptor)

    def find_holder(self) -> int | None:
        """Return the process that owns the lock, or None."""
        try:
            descriptor = os.open(os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if _try_lock(descriptor):
                return None
            text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            return int(text) if text.isdigit() else 0
        finally:
            os.close(descriptor)

    def check_room(self) -> None:
        """Raise CannotMeasure if a result could not be stored: hours of measuring would be lost."""
        try:
            state = os.statvfs(self.directory)
        except OSError as error:
            raise CannotMeasure(f"cannot use the spool {self.directory}: {error}") from None
        free_bytes = state.f_bavail * state.f_frsize
        if free_bytes < _ROOM_BYTES:
            raise CannotMeasure(
                f"the spool {self.directory} has {format_size(free_bytes)} free, a result needs up to "
                f"{format_size(_ROOM_BYTES)}; free some space, or deliver pending results with `bench-agent flush`"
            )

    def add(self, envelope_id: str, packed: bytes) -> Entry:
        """Store an envelope durably: after this returns, a power failure does not lose it."""
        stamp = format_time(time.time()).replace("-", "").replace(":", "")
        path = os.path.join(self._pending, f"{stamp}-{envelope_id}.json.gz")
        write_durably(path, packed)
        return Entry(path, envelope_id, len(packed), time.time())

    def remove_all(self) -> bool:
        """Remove the spool's own files and directories; return whether the directory is gone.

        Nothing else in it is removed, and nothing below a mount point.
        """
        for name in _DIRECTORIES:
            path = os.path.join(self.directory, name)
            for file in os.listdir(path) if os.path.isdir(path) and not os.path.ismount(path) else ():
                if os.path.isfile(os.path.join(path, file)):
                    _unlink(os.path.join(path, file))
            _remove_empty(path)
        for name in _FILES:
            _unlink(os.path.join(self.directory, name))
        return _remove_empty(self.directory)

    def pending(self) -> list[Entry]:
        """Return pending envelopes, oldest first."""
        return _list_entries(self._pending)

    def rejected(self) -> list[Entry]:
        """Return rejected envelopes, oldest first."""
        entries = _list_entries(self._rejected)
        return [replace(entry, reason=_read_json(_reason_path(entry.path))) for entry in entries]

    def remove(self, entry: Entry) -> None:
        """Remove an envelope that the server has acknowledged."""
        _unlink(entry.path)

    def reject(self, entry: Entry, reason: Mapping[str, Any]) -> None:
        """Move an envelope to rejected/. The reason is written first, so that none lacks it."""
        path = os.path.join(self._rejected, os.path.basename(entry.path))
        text = json.dumps({**reason, "rejected_at": format_time(time.time())}, indent=1)
        write_durably(_reason_path(path), text.encode())
        os.rename(entry.path, path)
        sync_directory(self._rejected)

    def restore_rejected(self) -> int:
        """Move rejected envelopes back to pending/ and return their number; used after a fix of the server."""
        rejected = self.rejected()
        for refused in rejected:
            os.rename(refused.path, os.path.join(self._pending, os.path.basename(refused.path)))
            _unlink(_reason_path(refused.path))
        return len(rejected)

    def trim(self) -> list[Entry]:
        """Drop envelopes that exceed the maximum size, oldest first; pending and rejected separately.

        Returns those dropped from pending, which are counted as lost. No age: clocks can be wrong by months.
        """
        for refused in self._find_surplus(self.rejected()):
            _unlink(refused.path)
            _unlink(_reason_path(refused.path))
        dropped = self._find_surplus(self.pending())
        for entry in dropped:
            _unlink(entry.path)
        if dropped:
            counts = {
                "dropped": self.read_dropped().count + len(dropped),
                "last_dropped_at": format_time(time.time()),
            }
            write_durably(self._counts, json.dumps(counts).encode())
        return dropped

    def read_dropped(self) -> DroppedResults:
        """Return which results were dropped since the spool exists."""
        counts = _read_json(self._counts)
        count, last_at = counts.get("dropped"), counts.get("last_dropped_at")
        if not isinstance(count, int) or not isinstance(last_at, str):
            return DroppedResults(0, None)
        return DroppedResults(count, last_at)

    def read_rejections(self) -> dict[str, Any]:
        """Return what the last delivery learned about results that the server rejected later; {} for nothing."""
        return _read_json(self._rejections)

    def keep_rejections(self, rejections: Mapping[str, Any] | None) -> bool:
        """Store what a delivery learned, None for nothing; return whether a rejection is newer than those known."""
        known = self.read_rejections()
        if rejections is None:
            _unlink(self._rejections)
            return False
        if rejections != known:
            # On a full disk the next delivery tells it again.
            with suppress(OSError):
                write_durably(self._rejections, json.dumps(rejections).encode())
        return str(rejections["received_at"]) > str(known.get("received_at", ""))

    def _find_surplus(self, entries: list[Entry]) -> list[Entry]:
        """Return the oldest entries to drop; the newest always stays."""
        total_bytes = sum(entry.size_bytes for entry in entries)
        surplus = []
        for entry in entries[:-1]:
            if total_bytes > self._max_bytes:
                surplus.append(entry)
                total_bytes -= entry.size_bytes
        return surplus

    def _remove_torn_files(self) -> None:
        """Remove files that a killed process left incomplete."""
        for directory in (self._pending, self._rejected, self.directory):
            for name in os.listdir(directory):
                if name.startswith(".new-"):
                    _unlink(os.path.join(directory, name))


def describe_rejections(rejections: Mapping[str, Any]) -> str:
    """Return what `Spool.read_rejections` returned as text."""
    return (
        f"the server rejected {rejections['count']} of the results received since {rejections['since']}, the last "
        f"of {rejections['received_at']}: {rejections['detail']}; {rejections['page']}"
    )


def _wait_for_lock(descriptor: int, patience_s: float) -> bool:
    """Try for at least 0.5 s: `status` and a process that is being killed own the lock briefly."""
    deadline = time.monotonic() + max(patience_s, 0.5)
    pause_s = 0.05
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 5.0) if patience_s else pause_s
    return True


def _note_holder(descriptor: int) -> None:
    """Write the owner of the lock into it; errors are ignored, so that `flush` works on a full disk."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        return


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _list_entries(directory: str) -> list[Entry]:
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(f"cannot read the spool: {error}") from None
    found = [_find_entry(os.path.join(directory, name)) for name in names]
    return [entry for entry in found if entry is not None]


def _find_entry(path: str) -> Entry | None:
    """Return the entry at path; None if it is not an envelope, or was just delivered."""
    match = _NAME.fullmatch(os.path.basename(path))
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return Entry(path, match.group(2), state.st_size, state.st_mtime) if match else None


def _reason_path(path: str) -> str:
    return path[: -len(".json.gz")] + ".reason.json"


def _read_json(path: str) -> dict[str, Any]:
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _remove_empty(path: str) -> bool:
    """Remove an empty directory; return whether it does not exist afterwards."""
    try:
        os.rmdir(path)
    except OSError:
        return not os.path.lexists(path)
    return True
