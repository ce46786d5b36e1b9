"""The file of this agent: replaced atomically, with the previous version next to it.

Running agents are not affected: they read their modules from a descriptor of the file that they were started from.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator, Sequence

from agent.exit_codes import ConfigurationError, TryLater
from agent.files import describe_user, sync_directory

# Files of packages, whose database has their digests.
_PACKAGED = "/usr/"
_LOCAL = "/usr/local/"


@dataclass(frozen=True)
class ProgramFile:
    """The one file of an installed agent. path: without symbolic links; python: the interpreter that runs it."""

    path: str
    python: str

    @property
    def previous_path(self) -> str:
        """Return where the version before the last update is."""
        return f"{self.path}.previous"

    def read(self) -> bytes:
        """Return the archive."""
        return _read(self.path)

    def read_previous(self) -> bytes:
        """Return the archive before the last update; ConfigurationError without one."""
        try:
            return _read(self.previous_path)
        except FileNotFoundError:
            raise ConfigurationError(
                f"no previous version: {self.previous_path} does not exist; an update creates it"
            ) from None

    def stage(self, content: bytes) -> str:
        """Write a candidate durably next to the program and return its path; the program is unchanged."""
        return _write_copy(self._name("candidate"), content, like=self.path)

    def activate(self, candidate: str) -> None:
        """Replace the program by a candidate, and the previous version by the program.

        At each instant, the program is complete: the old one or the new one.
        """
        previous = _write_copy(self._name("previous"), self.read(), like=self.path)
        os.replace(previous, self.previous_path)
        os.replace(candidate, self.path)
        sync_directory(os.path.dirname(self.path))

    def restore(self) -> None:
        """Rename the previous version to the program; needs no space on the disk."""
        os.replace(self.previous_path, self.path)
        sync_directory(os.path.dirname(self.path))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Own the only update of programs in this directory; TryLater if another one runs."""
        directory = os.path.dirname(self.path)
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TryLater(f"another update of {self.path} is running") from None
            # An update that was killed leaves some.
            self._remove_candidates()
            try:
                yield
            finally:
                self._remove_candidates()
        finally:
            os.close(descriptor)

    def _remove_candidates(self) -> None:
        for kind in ("candidate", "previous"):
            try:
                os.unlink(self._name(kind))
            except FileNotFoundError:
                continue

    def _name(self, kind: str) -> str:
        directory, name = os.path.split(self.path)
        return os.path.join(directory, f".{name}.{kind}")


def find_program_file(command: Sequence[str]) -> ProgramFile:
    """Return the file of the agent that a command starts; ConfigurationError if it cannot be updated."""
    path = os.path.realpath(command[-1])
    if len(command) < 2 or os.path.basename(path) == "__main__.py":
        raise ConfigurationError(
            f"{path} is not the one-file agent: update it as it was installed, with pip or git"
        )
    if path.startswith(_PACKAGED) and not path.startswith(_LOCAL):
        raise ConfigurationError(f"{path} belongs to a package: update it with the package manager")
    try:
        state = os.stat(path)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None
    if state.st_uid != os.geteuid():
        owner = describe_user(state.st_uid)
        raise ConfigurationError(f"{path} belongs to {owner}: run self-update as {owner}")
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        raise ConfigurationError(f"{os.path.dirname(path)} is not writable: {path} cannot be replaced")
    return ProgramFile(path, command[0])


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write_copy(path: str, content: bytes, *, like: str) -> str:
    """Write a file durably, with the mode and the group of another one, and return its path."""
    state = os.stat(like)
    # Not through a link that somebody else has put there.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            try:
                os.fchown(file.fileno(), -1, state.st_gid)
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
            os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
            os.fsync(file.fileno())
    except OSError:
        os.unlink(path)
        raise
    return path
