"""Whom the servers run as: PostgreSQL refuses root, and nothing here needs it."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
# Where root puts what an unprivileged account must reach while the checkout is closed to it (a clone in /root).
SYSTEM_STATE: Final = Path("/var/lib/benchapp")


@dataclass(frozen=True)
class Account:
    """A user of this machine that the children run as."""

    name: str
    uid: int
    gid: int


def choose_account(project: Path = PROJECT) -> Account | None:
    """Return the account to drop to as root: the owner of the checkout, else nobody; None when not root."""
    if os.geteuid() != 0:
        return None
    owner = project.stat().st_uid
    if owner != 0:
        try:
            entry = pwd.getpwuid(owner)
            return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)
        except KeyError:
            pass  # a bind mount of another machine's files; initdb wants an account with a name
    entry = pwd.getpwnam("nobody")
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def can_reach(path: Path, account: Account | None) -> bool:
    """Tell whether this account can walk to a directory and into it, or read a file."""
    is_directory = path.is_dir()
    if account is None:
        return os.access(path, os.X_OK if is_directory else os.R_OK)
    probe = subprocess.run(
        ["/usr/bin/test", "-x" if is_directory else "-r", str(path)],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        cwd="/",
        check=False,
    )
    return probe.returncode == 0


def can_run_code(python: str, account: Account | None) -> bool:
    """Tell whether this account can run this interpreter with the checkout's packages."""
    if account is None:
        return True
    try:
        probe = subprocess.run(
            [python, "-c", "import django, benchapp"],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            cwd=PROJECT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except PermissionError:
        return False
    return probe.returncode == 0


def make_private_directory(path: Path, account: Account | None) -> Path:
    """Make a directory that only this account (and root) may enter."""
    path.mkdir(parents=True, exist_ok=True)
    if account is not None:
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)
    return path


def copy_where_reachable(
    sources: Mapping[str, Path], name: str, *, account: Account, state: Path = SYSTEM_STATE
) -> Path:
    """Copy files and trees (by their place in the copy) to where every account can read them, once."""
    copy = state / name
    if copy.exists():
        return copy
    make_open_directory(state)
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    for place, source in sources.items():
        target = partial / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("include", "*.a"), symlinks=True)
        else:
            shutil.copy2(source, target)
    try:
        partial.rename(copy)
    except OSError:  # another start made it meanwhile
        shutil.rmtree(partial)
    if not can_reach(copy, account):
        raise PermissionError(f"{copy} is closed to {account.name}: open its parent directories (chmod o+x)")
    return copy


def make_open_directory(path: Path) -> None:
    """Make a directory that everybody may walk through, whatever the umask."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)
