"""The context of a command: configuration, spool and console."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping

from agent import __version__
from agent.config import Config, load_config, read_token
from agent.console import Console
from agent.delivery.spool import Spool
from agent.exit_codes import ConfigurationError, ExitCode
from agent.programs import find_program, require_trusted_interpreter, require_trusted_program
from agent.trust import require_trusted

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.delivery.deliver import Delivery

# Commands that report and remove also if another user can change the program; `schedule install` checks it itself.
_REPORTING = ("check", "profiles", "schedule", "status", "uninstall")


@dataclass(frozen=True)
class Session:
    """The context of one command. clients: those that it made."""

    command: str
    config: Config
    spool: Spool
    console: Console
    clients: list[Client] = field(default_factory=list)

    def make_client(self) -> Client:
        """Return the client for the configured server; ConfigurationError without URL or token."""
        from agent.delivery.client import Client

        config = self.config
        if config.url is None:
            raise ConfigurationError(
                "no server is configured; enroll this host with `bench-agent enroll URL`"
            )
        token = read_token(config, os.environ)
        if config.ca_file:
            require_trusted(config.ca_file)
        client = Client(
            config.url, token, timeout_s=config.timeout_s, ca_file=config.ca_file, proxy=config.proxy
        )
        self.clients.append(client)
        return client

    def open_log(self, path: str | None) -> None:
        """Write all output also to the log that --log or the configuration names."""
        from agent.console import LogFile

        log = path or self.config.log
        if log:
            require_trusted(log)
            self.console.attach_log(LogFile(os.path.abspath(log)))
            self.console.record(f"bench-agent {__version__} started, process {os.getpid()}")

    def deliver(self, client: Client, *, budget_s: float, first_id: str | None = None) -> Delivery:
        """Post pending results and schedules within budget_s, then trim the spool; requires the lock.

        In this order, so that a host that was offline delivers old results before they are dropped.
        """
        from agent.delivery.deliver import deliver

        deadline = time.monotonic() + budget_s
        delivery = deliver(self.spool, client, console=self.console, budget_s=budget_s, first_id=first_id)
        if not delivery.remaining:
            from agent.delivery.deliver import send_pending_schedule

            remaining_s = deadline - time.monotonic()
            send_pending_schedule(self.spool, client, console=self.console, limit_s=remaining_s)
        delivery.remaining -= self.trim()
        if delivery.remaining:
            self.console.warn(
                f"not delivered: {delivery.problem}; results in the spool: {delivery.remaining}"
            )
        return delivery

    def trim(self) -> int:
        """Drop results that exceed the spool's maximum size, warn, and return their number."""
        dropped = self.spool.trim()
        if dropped:
            self.console.warn(
                f"the spool is larger than max_bytes in [spool]: oldest results dropped: {len(dropped)}"
            )
        return len(dropped)

    def check_paths(self, *, of_user: bool = False) -> None:
        """Raise ConfigurationError if another user could change what scheduled runs execute, write or believe.

        of_user: they are runs of another user, who has another configuration; only the program is the same.
        """
        require_trusted_program()
        require_trusted_interpreter()
        if of_user:
            return
        find_program(self.config.fio or "fio")
        if self.config.log:
            require_trusted(self.config.log)
        self.spool.require_trusted()

    def note_newer_version(self) -> None:
        """Tell a person that the server ships a newer version; cron would mail it after every run."""
        newer = [text for client in self.clients if (text := client.describe_newer())]
        if newer and self.console.is_terminal:
            self.console.note(newer[-1])

    def finish(self, code: ExitCode, document: Mapping[str, Any]) -> ExitCode:
        """Print the result as JSON if --json was given, and return the code."""
        self.console.emit({"command": self.command, "exit_code": int(code), **document})
        return code


def open_session(arguments: argparse.Namespace, console: Console, *, must_exist: bool = True) -> Session:
    """Read the configuration; the spool is not accessed yet."""
    if arguments.command not in _REPORTING:
        require_trusted_program()
        require_trusted_interpreter()
    config = load_config(arguments.config, os.environ, must_exist=must_exist)
    spool = Spool(config.spool_directory, max_bytes=config.spool_max_bytes)
    for ignored in config.ignored:
        console.note(f"{config.path}: {ignored}")
    return Session(arguments.command, config, spool, console)
