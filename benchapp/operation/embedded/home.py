"""The data directory: lock, secrets, state, and socket directory."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.child import (
    SystemAccount,
    can_reach,
    create_private_directory,
    write_private_file,
)
from benchapp.operation.embedded.servers import SOCKET_PATH_LIMIT

# Not TMPDIR, which may be too long as well.
_SHORT_DIRECTORY: Final = "/tmp"  # noqa: S108
_LONGEST_SOCKET_NAME: Final = ".s.PGSQL.5432"


class AlreadyRunning(Exception):
    """Another supervisor uses the data directory."""


@dataclass(frozen=True)
class HomeState:
    """State of a running supervisor, for a second one, for commands, and for the next start after a crash.

    address: for requests of this machine; host: that the web server listens on.
    """

    pid: int
    instance: str
    address: str
    socket_directory: str
    boot: str = ""
    host: str = "127.0.0.1"
    # name → (process id, start time in ticks), to find children of a killed supervisor
    children: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Home:
    """The data directory of one stack."""

    path: Path

    @property
    def logs(self) -> Path:
        """Return the directory of log files."""
        return self.path / "logs"

    @property
    def bench(self) -> Path:
        """Return the directory of the agent's test file."""
        return self.path / "bench"

    @property
    def agent(self) -> Path:
        """Return the directory of the local agent's configuration and spool."""
        return self.path / "agent"

    def create(self, *, is_root: bool) -> None:
        """Create the directory; as root with mode 0711, because the servers run as another user."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o711 if is_root else 0o700)
        # Logs are opened by the supervisor: no other account needs access.
        create_private_directory(self.logs, None)

    def read_secret(self, name: str) -> str | None:
        """Return a stored secret, or None."""
        try:
            return (self.path / name).read_text().strip() or None
        except FileNotFoundError:
            return None

    def write_secret(self, name: str, text: str) -> None:
        """Store a secret in a file with mode 0600."""
        write_private_file(self.path / name, text + "\n")

    def read_or_create_key(self) -> str:
        """Return the secret key of this stack; it is created once."""
        key = self.read_secret("secret-key")
        if key is None:
            key = secrets.token_urlsafe(50)
            self.write_secret("secret-key", key)
        return key

    def read_state(self) -> HomeState | None:
        """Return the state that the last supervisor wrote, or None; the supervisor may have ended."""
        try:
            fields = json.loads((self.path / "up.json").read_text())
            children = {name: (pid, started) for name, (pid, started) in fields.pop("children").items()}
            return HomeState(**fields, children=children)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write_state(self, state: HomeState) -> None:
        """Write the state for other commands."""
        write_private_file(self.path / "up.json", json.dumps(asdict(state)) + "\n")

    def remove_state(self) -> None:
        """Remove the state and the socket directory."""
        state = self.read_state()
        if state is not None:
            remove_socket_directory(Path(state.socket_directory))
        (self.path / "up.json").unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory; AlreadyRunning if it is locked. The kernel releases the lock when the process ends."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(self._describe_holder()) from None
            yield
        finally:
            os.close(descriptor)

    def _describe_holder(self) -> str:
        state = self.read_state()
        if state is None:
            return (
                f"another benchapp is starting, or a backup is running, in {self.path}; "
                "wait, or use another --data-dir"
            )
        return (
            f"benchapp is already running in {self.path}: open {state.address}, or stop it "
            f"(Ctrl-C in its terminal, or `kill {state.pid}`). For a second instance, use another --data-dir."
        )


def read_boot() -> str:
    """Return the boot id of the machine: process ids of another boot are meaningless."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def create_socket_directory(home: Home, account: SystemAccount | None) -> Path:
    """Create the private socket directory, inside the data directory if its path is short and accessible enough."""
    inside = home.path / "run"
    longest = len(os.fsencode(inside / _LONGEST_SOCKET_NAME))
    if longest <= SOCKET_PATH_LIMIT and can_reach(home.path, account):
        return create_private_directory(inside, account)
    return create_private_directory(Path(tempfile.mkdtemp(prefix="benchapp-", dir=_SHORT_DIRECTORY)), account)


def remove_socket_directory(directory: Path) -> None:
    """Remove a directory of create_socket_directory."""
    if directory.name == "run" or directory.name.startswith("benchapp-"):
        shutil.rmtree(directory, ignore_errors=True)
