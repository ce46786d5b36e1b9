"""Start all services on this machine: `manage.py up`."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benchapp.operation.embedded.child import PROJECT
from benchapp.operation.embedded.command import add_arguments


class Command(BaseCommand):
    """Run the supervisor in a process without Django."""

    help = "Start PostgreSQL, broker, web and worker on this machine, and run one benchmark."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Replace this process: its settings are not those of the stack, and Django takes 60 MiB."""
        arguments = sys.argv[sys.argv.index("up") + 1 :]
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]),
        }
        os.execve(sys.executable, [sys.executable, "-m", "benchapp.operation.embedded", *arguments], environ)
