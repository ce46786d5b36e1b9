"""Start a server that ends with its supervisor, under an account that is not root, and stop it."""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypedDict

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


_PR_SET_PDEATHSIG: Final = 1
_PAUSE_S: Final = 0.02
LOG_TAIL_LINES: Final = 15


class ServerFailed(Exception):
    """A server did not start, or ended; the message contains the end of its log."""


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    account: SystemAccount | None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a server in its own session, with output appended to the log.

    The kernel sends it `death_signal` when the calling thread ends, so call this from the main thread.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_log(log) as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            umask=0o077,
            preexec_fn=die_with_parent(death_signal),
            **identity(account),
        )


def open_log(log: Path) -> BinaryIO:
    """Open a log for appending with mode 0600, also if it existed with another mode."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def run_tool(
    argv: Sequence[str],
    *,
    account: SystemAccount | None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a short command as this account and return the completed process, without checking its status."""
    return subprocess.run(
        list(argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=env,
        cwd="/",
        timeout=timeout_s,
        # Only the supervisor handles Ctrl-C: an interrupted initdb would print another error.
        start_new_session=True,
        check=False,
        **identity(account),
    )


def stop(
    process: subprocess.Popen[bytes],
    *,
    ask: signal.Signals = signal.SIGTERM,
    patience_s: float = 20,
    kill_signal: signal.Signals = signal.SIGKILL,
    is_urgent: Callable[[], bool] = lambda: False,
) -> int:
    """Send a server `ask`, then `kill_signal` after patience_s or if urgent; return its exit status.

    Remaining processes of its session are killed.
    """
    if process.poll() is None:
        process.send_signal(ask)
    deadline = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < deadline and not is_urgent():
        time.sleep(_PAUSE_S)
    if process.poll() is None:
        process.send_signal(kill_signal)
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    kill_session(process.pid)
    return status


def kill_session(leader_pid: int) -> None:
    """Kill the remaining processes of a child's process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal.SIGKILL)


def wait_until(
    is_ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    *,
    name: str,
    log: Path,
    timeout_s: float,
) -> None:
    """Wait until the server is ready; ServerFailed, with the end of its log, if it ends or takes too long."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended with status {process.returncode}\n{read_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} was not ready within {timeout_s:.0f} s\n{read_tail(log)}")
        time.sleep(_PAUSE_S)


def read_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log, indented, below its path."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return f"  (no log at {log})"
    return "\n".join([f"  the end of {log}:", *(f"  | {line}" for line in text.splitlines()[-lines:])])


def die_with_parent(death_signal: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """Return a preexec function that ends the child when this process ends; None outside of Linux."""
    if not sys.platform.startswith("linux"):
        return None
    # Loaded before the fork: in the child, another thread's lock could block it forever.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def prepare() -> None:
        # After setuid, which clears it. The next line detects a parent that ended before.
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class Identity(TypedDict):
    """Arguments of Popen that change the user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


def identity(account: SystemAccount | None) -> Identity:
    """Return Popen's arguments to run as this account."""
    if account is None:
        return {"user": None, "group": None, "extra_groups": None}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}
