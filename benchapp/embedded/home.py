"""The data directory: who holds it, what is kept in it, and where its sockets are."""

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

from benchapp.embedded.account import SystemAccount, can_reach, make_private_directory, write_private_file
from benchapp.embedded.postgres import SOCKET_PATH_LIMIT

# Not TMPDIR: that may be as long as the path that is too long.
_SHORT_DIRECTORY: Final = "/tmp"  # nosec B108
_LONGEST_SOCKET_NAME: Final = ".s.PGSQL.5432"


class AlreadyRunning(Exception):
    """Another supervisor holds the data directory."""


@dataclass(frozen=True)
class HomeState:
    """What a running supervisor says of itself, for a second one, for backup, and for its successor after a crash."""

    pid: int
    instance: str
    address: str
    socket_directory: str
    boot: str = ""
    # name → (process id, start time in ticks), to find what outlived a supervisor that was killed
    children: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Home:
    """The data directory of one stack."""

    path: Path

    @property
    def logs(self) -> Path:
        """Return where the servers log."""
        return self.path / "logs"

    @property
    def bench(self) -> Path:
        """Return where the agent puts its test file."""
        return self.path / "bench"

    @property
    def agent(self) -> Path:
        """Return where the agent of this machine keeps its results until they are stored."""
        return self.path / "agent"

    def create(self, *, is_root: bool) -> None:
        """Make the directory; as root others may walk through it, because the servers run as another user."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o711 if is_root else 0o700)
        # Written through descriptors that the supervisor opens: no other account needs to enter.
        make_private_directory(self.logs, None)

    def read_secret(self, name: str) -> str | None:
        """Return a secret kept here, or None."""
        try:
            return (self.path / name).read_text().strip() or None
        except FileNotFoundError:
            return None

    def write_secret(self, name: str, text: str) -> None:
        """Keep a secret in a file that only its owner reads."""
        write_private_file(self.path / name, text + "\n")

    def read_or_make_key(self) -> str:
        """Return the secret key of this stack, which is made once."""
        key = self.read_secret("secret-key")
        if key is None:
            key = secrets.token_urlsafe(50)
            self.write_secret("secret-key", key)
        return key

    def read_state(self) -> HomeState | None:
        """Return what the last supervisor wrote; it may be gone."""
        try:
            fields = json.loads((self.path / "up.json").read_text())
            children = {name: (pid, started) for name, (pid, started) in fields.pop("children").items()}
            return HomeState(**fields, children=children)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write_state(self, state: HomeState) -> None:
        """Say who runs here, for commands that are started beside."""
        write_private_file(self.path / "up.json", json.dumps(asdict(state)) + "\n")

    def forget_state(self) -> None:
        """Say that nobody runs here, and remove the sockets' directory."""
        state = self.read_state()
        if state is not None:
            remove_socket_directory(Path(state.socket_directory))
        (self.path / "up.json").unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory; AlreadyRunning while another does. The kernel frees it when its holder dies."""
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
            return f"another benchapp is starting (or a backup runs) in {self.path}: wait for it, or use --data-dir"
        return (
            f"benchapp runs already in {self.path}: open {state.address}, or stop it first "
            f"(Ctrl-C in its terminal, or `kill {state.pid}`). For a second one beside it, use --data-dir."
        )


def read_boot() -> str:
    """Return the id of this boot of the machine: process ids of another boot mean nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def make_socket_directory(home: Home, account: SystemAccount | None) -> Path:
    """Make the sockets' private directory: in the data directory where the path is short and open enough."""
    inside = home.path / "run"
    longest = len(os.fsencode(inside / _LONGEST_SOCKET_NAME))
    if longest <= SOCKET_PATH_LIMIT and can_reach(home.path, account):
        return make_private_directory(inside, account)
    return make_private_directory(Path(tempfile.mkdtemp(prefix="benchapp-", dir=_SHORT_DIRECTORY)), account)


def remove_socket_directory(directory: Path) -> None:
    """Remove what make_socket_directory made."""
    if directory.name == "run" or directory.name.startswith("benchapp-"):
        shutil.rmtree(directory, ignore_errors=True)
