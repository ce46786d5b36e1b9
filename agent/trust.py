"""Root executes, writes and believes nothing that another user can change."""

from __future__ import annotations

import os
import stat
from typing import Iterator, Sequence

from agent.exit_codes import ConfigurationError

# The limit of Linux for one path lookup.
_LINKS_MAXIMUM = 40


def require_trusted(path: str) -> None:
    """As root, raise ConfigurationError if another user can change what a path leads to."""
    found = find_writer(path) if os.geteuid() == 0 else None
    if found:
        raise ConfigurationError(found)


def require_trusted_tree(directory: str) -> None:
    """As root, raise ConfigurationError if another user can change a directory, or anything in it."""
    require_trusted(directory)
    for parent, directories, files in os.walk(directory) if os.geteuid() == 0 else ():
        for path in (os.path.join(parent, name) for name in (*directories, *files)):
            state = os.lstat(path)
            commands = _list_commands(path, state, allows_sticky=False)
            if commands:
                raise ConfigurationError(_describe(path, state, commands, path=path))
            if stat.S_ISLNK(state.st_mode):
                require_trusted(path)


def find_writer(path: str, *, is_shared: bool = False) -> str | None:
    """Return which other user can change what a path leads to, and the command to type; None without one.

    For root this is every directory and link of the path, and groups count: the mode of a directory with an access
    control list looks the same. In a sticky directory, as /tmp, nobody renames what belongs to others. For other users
    it is what the path leads to. is_shared: that may itself be a sticky directory, and need not exist.
    """
    if os.geteuid() != 0:
        return _find_writer_of_result(path)
    parts = list(_list_passed(path))
    for part in dict.fromkeys(parts):
        try:
            state = os.lstat(part)
        except OSError:
            return None if is_shared else _find_creator(part)
        allows_sticky = is_shared or part != parts[-1]
        commands = _list_commands(part, state, allows_sticky=allows_sticky)
        if commands:
            return _describe(part, state, commands, path=path)
    return None


def describe_user(uid: int) -> str:
    """Return a user by name if this machine knows it: user postgres."""
    return f"user {_name_user(uid)}"


def _name_user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _find_writer_of_result(path: str) -> str | None:
    """Return who can change a file or directory; a file may belong to anybody, who wrote it for this user."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    commands = []
    if stat.S_ISDIR(state.st_mode) and state.st_uid not in (0, os.geteuid()):
        commands.append("chown")
    if state.st_mode & stat.S_IWOTH and (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        commands.append("chmod o-w")
    return _describe(path, state, commands, path=path) if commands else None


def _list_commands(part: str, state: os.stat_result, *, allows_sticky: bool) -> list[str]:
    """Return the commands after which only root can change a part of a path; [] if this is so."""
    mode = state.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        return []
    commands = ["chown"] if state.st_uid != 0 else []
    is_sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    # Also on a read-only mount: a unit of systemd sees /etc so, where other users still write.
    if mode & 0o022 and not stat.S_ISLNK(mode) and not (is_sticky and allows_sticky):
        commands.append("chmod go-w")
    return commands


def _describe(part: str, state: os.stat_result, commands: Sequence[str], *, path: str) -> str:
    import shlex

    user = _name_user(os.geteuid())
    whole = {"chown": f"chown {'-h ' if stat.S_ISLNK(state.st_mode) else ''}{user}"}
    typed = " && ".join(f"{whole.get(command, command)} {shlex.quote(part)}" for command in commands)
    if "chown" in commands:
        reason = f"belongs to {describe_user(state.st_uid)}, who could change"
        other = ", or run bench-agent as that user"
    else:
        who = "any user" if state.st_mode & stat.S_IWOTH else "its group"
        reason = f"has mode {stat.S_IMODE(state.st_mode):04o}: {who} can change"
        other = ""
    moved = "" if part == path else f"move {path} to a directory that only {user} can change, or "
    return f"{part} {reason} what {user} uses; {moved}run `{typed}`{other}"


def _find_creator(path: str) -> str | None:
    """Return that any user could create what a path leads to, None if only root could."""
    parent = os.path.dirname(path)
    try:
        mode = os.lstat(parent).st_mode
    except OSError:
        return None
    if not mode & 0o022:
        return None
    return f"{path} does not exist, and any user could create it in {parent}; use a directory that only root can change"


def _list_passed(path: str) -> Iterator[str]:
    """Yield every directory and link in the lookup of a path, starting at the root, and what it leads to."""
    left = os.path.join(os.getcwd(), path).split("/")[::-1]
    current, links_left = "/", _LINKS_MAXIMUM
    while left:
        yield current
        name = left.pop()
        if name == "..":
            current = os.path.dirname(current)
        elif name not in ("", "."):
            current = os.path.join(current, name)
        if os.path.islink(current):
            yield current
            if not links_left:
                return  # the kernel stops here, too
            links_left -= 1
            left.extend(os.readlink(current).split("/")[::-1])
            current = "/" if left[-1] == "" else os.path.dirname(current)
    yield current
