"""Find installed programs, also where cron's PATH does not lead, query them, and the command of this agent."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Mapping, Protocol, Sequence

from agent.trust import require_trusted, require_trusted_tree

# cron's PATH is /usr/bin:/bin; vendors' packages of fio use /opt/fio.
DIRECTORIES = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin", "opt/fio/bin")
# Directories that are emptied at boot, or after some days.
_TEMPORARY_PREFIXES = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")  # nothing is written there  # noqa: S108
# The program of both packages, and the file that only one of them installs.
_PACKAGED = "usr/bin/bench-agent"
_LICENSES = {"deb": "usr/share/doc/bench-agent/copyright", "rpm": "usr/share/licenses/bench-agent/LICENSE"}
_IMAGES = ("docker", "podman", "kubernetes", "containerd")
_PATH = os.pathsep.join("/" + directory for directory in DIRECTORIES)


def find_program(name: str, environ: Mapping[str, str] | None = None, *, root: str = "/") -> str | None:
    """Return the path of a program, or None: searched on PATH, then in the usual directories below root.

    As root, ConfigurationError if another user could change it.
    """
    searched = (os.environ if environ is None else environ).get("PATH", "")
    usual = (os.path.join(root, directory) for directory in DIRECTORIES)
    found = shutil.which(name, path=os.pathsep.join((searched, *usual)))
    if found:
        require_trusted(found)
    return found


def find_own_command(
    argv: Sequence[str] | None = None, *, package: str | None = None, python: str | None = None
) -> tuple[str, ...]:
    """Return the command that starts this agent, with absolute paths; the arguments are for tests."""
    source = os.path.abspath(package or os.path.dirname(__file__))
    interpreter = python or sys.executable
    if os.path.isfile(os.path.dirname(source)):
        # With the interpreter: python3 on cron's PATH may be another version. The package itself is read from a
        # descriptor, whose path ends with this process.
        return (interpreter, os.path.abspath((argv or sys.argv)[0]))
    script = os.path.abspath((argv or sys.argv)[0])
    is_command = os.path.isfile(script) and os.access(script, os.X_OK)
    if is_command and os.path.basename(script).startswith("bench-agent"):
        return (script,)
    return (interpreter, os.path.join(source, "__main__.py"))


def require_trusted_interpreter() -> None:
    """As root, raise ConfigurationError if another user could change the interpreter of this process or its library."""
    require_trusted(sys.executable)
    require_trusted(os.path.dirname(os.__file__))


def require_trusted_program() -> None:
    """As root, raise ConfigurationError if another user could change this agent: its file, or those of its package."""
    require_trusted(find_own_command()[-1])
    require_trusted_tree(os.path.dirname(os.path.abspath(__file__)))


def find_temporary_path(command: Sequence[str]) -> str | None:
    """Return the part of a command in a temporary directory, or None."""
    return next((part for part in command if part.startswith(_TEMPORARY_PREFIXES)), None)


def find_installation(
    command: Sequence[str], *, container: str | None, package: str | None = None, root: str = "/"
) -> str:
    """Return how the agent of a command is installed: checkout, container, deb, rpm, wheel or zipapp.

    container: the runtime that this process is in, None outside of one; package, root: for tests.
    """
    source = os.path.abspath(package or os.path.dirname(__file__))
    if container in _IMAGES:
        return "container"
    if not os.path.isfile(os.path.dirname(source)):
        names = os.listdir(os.path.dirname(source))
        is_wheel = any(name.startswith("bench_agent-") and name.endswith(".dist-info") for name in names)
        return "wheel" if is_wheel else "checkout"
    if os.path.realpath(command[-1]) == os.path.realpath(os.path.join(root, _PACKAGED)):
        for kind, path in _LICENSES.items():
            if os.path.exists(os.path.join(root, path)):
                return kind
    return "zipapp"


class QueryTool(Protocol):
    """Run a tool and return what it prints; "" if it is missing, fails or exceeds its time limit."""

    def __call__(self, tool: str, *arguments: str) -> str: ...


def query_tool(tool: str, *arguments: str, timeout_s: float = 2.0) -> str:
    """Return what a tool prints; "" if it is missing, fails or exceeds its time limit."""
    found = find_program(tool)
    if found is None:
        return ""
    import subprocess

    try:
        answer = subprocess.run(
            [found, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": _PATH},
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else ""


def run_no_tool(tool: str, *arguments: str) -> str:
    """Run nothing: used for recorded trees, which programs of this machine cannot read."""
    return ""
