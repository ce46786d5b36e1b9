"""Run the agent once against the stack, as cron would."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.account import (
    PROJECT,
    SystemAccount,
    create_private_directory,
    write_private_file,
)
from benchapp.operation.embedded.child import die_with_parent, identity
from benchapp.operation.embedded.home import Home

# For the first run: the worker reacts to a task within a second, the sweep task runs every 10 s.
WAIT_S: Final = 60
_CONFIGURATION: Final = """\
; Written by `up` at every start. To run the agent manually:
;   python -m agent run --config {path}
[server]
url = {url}
token_file = agent.token
[spool]
directory = spool
[run]
directory = {directory}
profile = {profile}
"""


@dataclass
class AgentRun:
    """One run of the agent; `status` and `pages` are set at its end."""

    home: Home
    url: str
    token: str
    profile: str
    adjustments: tuple[str, ...]
    account: SystemAccount | None
    environ: Mapping[str, str]
    status: int = 0
    pages: tuple[str, ...] = ()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the agent; progress goes to the terminal, the JSON result to this process."""
        self._configure()
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "agent", "run", "--profile", self.profile),
                *("--directory", str(self.home.bench), "--wait", str(WAIT_S), "--json"),
                *[part for adjustment in self.adjustments for part in ("--set", adjustment)],
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            env={**_remove_server_variables(self.environ), "BENCH_AGENT_CONFIG": str(self._path)},
            # Not in the terminal's process group: the supervisor forwards Ctrl-C once.
            start_new_session=True,
            preexec_fn=die_with_parent(),
            **identity(self.account),
        )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the agent, or terminate it, and remove its working directory."""
        if process.poll() is None:
            process.terminate()
        outcome, _ = process.communicate()
        self.status = process.returncode
        self.pages = read_pages(outcome)
        shutil.rmtree(self.home.bench, ignore_errors=True)

    @property
    def _path(self) -> Path:
        return self.home.agent / "agent.ini"

    def _configure(self) -> None:
        create_private_directory(self.home.bench, self.account)
        create_private_directory(self.home.agent, self.account)
        write_private_file(self.home.agent / "agent.token", self.token + "\n", self.account)
        configuration = _CONFIGURATION.format(
            path=self._path, url=self.url, directory=self.home.bench, profile=self.profile
        )
        write_private_file(self._path, configuration, self.account)


def read_pages(outcome: bytes) -> tuple[str, ...]:
    """Return the addresses of the pages that the agent's JSON names; () if it was stopped before."""
    try:
        return tuple(str(page) for page in json.loads(outcome)["pages"])
    except (ValueError, KeyError, TypeError):
        return ()


def _remove_server_variables(environ: Mapping[str, str]) -> dict[str, str]:
    # The agent is a client: it needs neither database URL nor secret key.
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(("BENCHAPP_", "BENCH_AGENT_", "DJANGO_", "DATABASE_", "BROKER_"))
    }
