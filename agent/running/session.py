"""What every command starts from: the configuration, the spool, and a way to speak."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping

from agent.config import Config, load_config, read_token
from agent.console import Console
from agent.delivery.spool import Spool
from agent.exit_codes import ConfigurationError, ExitCode

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.delivery.delivery import Delivery


@dataclass(frozen=True)
class Session:
    """One command at work."""

    command: str
    config: Config
    spool: Spool
    console: Console

    def make_client(self) -> Client:
        """Return the client for the configured server; ConfigurationError where address or token is missing."""
        from agent.delivery.client import Client

        if self.config.url is None:
            raise ConfigurationError("no server is configured: enrol this host with `bench-agent enroll URL`")
        token = read_token(self.config, os.environ)
        return Client(self.config.url, token, timeout_s=self.config.timeout_s, ca_file=self.config.ca_file)

    def deliver(self, client: Client, *, budget_s: float, first_id: str | None = None) -> Delivery:
        """Post what is in the spool, and what the server is yet to know, then trim; call it under the lock.

        In this order, as a host that was off for long brings what is old before that is dropped.
        """
        from agent.delivery.delivery import deliver

        delivery = deliver(self.spool, client, console=self.console, budget_s=budget_s, first_id=first_id)
        if delivery.verdict == ExitCode.OK:
            from agent.delivery.report_schedule import send_kept

            send_kept(self.spool, client, console=self.console)
        delivery.remaining -= self.trim()
        if delivery.remaining:
            self.console.warn(f"{delivery.remaining} of the spool not delivered: {delivery.problem}")
        return delivery

    def trim(self) -> int:
        """Drop what the spool may not hold any longer, say so, and return how many results that were."""
        dropped = self.spool.trim()
        if dropped:
            self.console.warn(
                f"{len(dropped)} old results were dropped: see max_bytes and max_age of [spool]"
            )
        return len(dropped)

    def finish(self, code: ExitCode, document: Mapping[str, Any]) -> ExitCode:
        """Print the outcome as JSON where that was asked for, and return the code."""
        self.console.emit({"command": self.command, "exit_code": int(code), **document})
        return code


def open_session(arguments: argparse.Namespace, console: Console, *, must_exist: bool = True) -> Session:
    """Read the configuration; the spool is not touched yet."""
    config = load_config(arguments.config, os.environ, must_exist=must_exist)
    spool = Spool(config.spool_directory, max_bytes=config.spool_max_bytes, max_age_s=config.spool_max_age_s)
    return Session(arguments.command, config, spool, console)
