"""The account of the servers: PostgreSQL does not run as root, and no server needs root."""

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[3]
# For files that an unprivileged account needs if it cannot access the checkout (a clone in /root).
SYSTEM_STATE: Final = Path("/var/lib/benchapp")
# Not nobody: other services with that account could read the database's files.
SYSTEM_ACCOUNT: Final = "benchapp"


class NoAccount(Exception):
    """No account is available for the servers."""


@dataclass(frozen=True)
class SystemAccount:
    """A user of this machine as which the servers run."""

    name: str
    uid: int
    gid: int


def choose_account(
    project: Path = PROJECT, name: str = SYSTEM_ACCOUNT, *, report: Callable[[str], None] = lambda line: None
) -> SystemAccount | None:
    """Return the account of the servers: None (the current one) if not root, else the owner of the checkout.

    If that is root, the system account `name`, which is created if missing; NoAccount if that fails.
    """
    if os.geteuid() != 0:
        return None
    owner = project.stat().st_uid
    if owner != 0:
        # initdb needs an account with a name, which a bind mount of another machine's files may lack.
        with contextlib.suppress(KeyError):
            return _to_account(pwd.getpwuid(owner))
    with contextlib.suppress(KeyError):
        return _to_account(pwd.getpwnam(name))
    return _create_account(name, report)


def _create_account(name: str, report: Callable[[str], None]) -> SystemAccount:
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise NoAccount(
            f"account {name} does not exist and useradd is missing; create the account, or start as another user"
        )
    report(f"Creating the system account {name} for the servers (remove it with: userdel {name})")
    created = subprocess.run(
        [
            *(program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
            *("--shell", "/usr/sbin/nologin", "--comment", "benchapp servers", name),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return _to_account(pwd.getpwnam(name))  # also if another start created it at the same time
    except KeyError:
        raise NoAccount(
            f"cannot create account {name}: {created.stderr.strip()}. Create it, or start as another user"
        ) from None


def _to_account(entry: pwd.struct_passwd) -> SystemAccount:
    return SystemAccount(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def can_reach(path: Path, account: SystemAccount | None) -> bool:
    """Return whether this account can enter a directory or read a file."""
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


def can_run_code(python: str, account: SystemAccount | None) -> bool:
    """Return whether this account can run this interpreter with the checkout's packages."""
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


def find_inaccessible_part(path: Path, account: SystemAccount) -> Path | None:
    """Return the first part of a path, or of its target, that this account cannot access, or None."""
    for place in (path.absolute(), path.resolve()):
        for part in (*reversed(place.parents), place):
            if not can_reach(part, account):
                return part
    return None


def create_private_directory(path: Path, account: SystemAccount | None) -> Path:
    """Create a directory that only this account (and root) can enter, and give it the ownership of its content."""
    path.mkdir(parents=True, exist_ok=True)
    if account is not None:
        # Earlier starts may have used another account.
        for folder, _, names in os.walk(path):
            for part in (Path(folder), *(Path(folder, name) for name in names)):
                with contextlib.suppress(FileNotFoundError):
                    if part.lstat().st_uid != account.uid:
                        os.chown(part, account.uid, account.gid, follow_symlinks=False)
    path.chmod(0o700)
    return path


def write_private_file(path: Path, text: str, account: SystemAccount | None = None) -> None:
    """Write a file durably and atomically with mode 0600, owned by this account or the current one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    # O_EXCL does not follow a link that the directory's owner may have created.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        if account is not None:
            os.fchown(file.fileno(), account.uid, account.gid)
    partial.replace(path)


def copy_where_reachable(
    sources: Mapping[str, Path], name: str, *, account: SystemAccount, state: Path = SYSTEM_STATE
) -> Path:
    """Copy files and trees (keys: paths in the copy) to a public directory, once."""
    copy = state / name
    if copy.exists():
        return copy
    create_public_directory(state)
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
    except OSError:  # another start created it meanwhile
        shutil.rmtree(partial)
    if not can_reach(copy, account):
        raise PermissionError(f"{account.name} cannot access {copy}; run chmod o+x on its parent directories")
    return copy


def create_public_directory(path: Path) -> None:
    """Create a directory with mode 0755 regardless of the umask."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)
