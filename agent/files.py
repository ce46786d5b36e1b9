"""Replace files atomically, and describe their owner."""

from __future__ import annotations

import os


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


def describe_user(uid: int) -> str:
    """Return a user by name if this machine knows it: user postgres."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
