"""Check an installation: `manage.py doctor`."""

import subprocess
import sys
import traceback
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandParser

from benchapp.framework.api.answers import dump_json
from benchapp.framework.readiness import Finding, FindingLevel
from benchapp.management.progress import add_data_directory
from benchapp.operation.embedded.backup import find_home
from benchapp.operation.embedded.child import PROJECT
from benchapp.operation.embedded.preflight import read_environment
from benchapp.overview.api.health import make_status_answer
from benchapp.overview.read.status import Status, read_status

# As monitoring plugins of Nagios; 3 is "unknown".
_UNKNOWN: Final = 3
_EXIT_STATUS: Final = {FindingLevel.OK: 0, FindingLevel.WARNING: 1, FindingLevel.FAILURE: 2}


class Command(BaseCommand):
    """Print what the page Status shows."""

    help = "Check the installation. Exit status: 0 nothing found, 1 warnings, 2 failures, 3 it failed itself."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        parser.add_argument("--json", action="store_true", help="print the answer of /api/v1/status")
        add_data_directory(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Do it; an exception is no finding: Python would end with 1, as for warnings."""
        try:
            return super().execute(*args, **options)
        except Exception:
            traceback.print_exc()
            sys.exit(_UNKNOWN)

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the findings; without DATABASE_URL of the running stack of `up`, with its settings."""
        home = find_home(options["data_dir"])
        if home is None:
            status = read_status()
        else:
            if (environment := read_environment(home)) is not None:
                arguments = ["doctor", *(["--json"] if options["json"] else [])]
                command = [sys.executable, "manage.py", *arguments]
                sys.exit(subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode)
            text = f"No stack runs in {home.path}, or its settings cannot be read by this user."
            remedy = f"Start it: make up DATA={home.path}"
            status = Status((Finding("stack", "away", FindingLevel.FAILURE, text, remedy),))
        if options["json"]:
            self.stdout.write(dump_json(make_status_answer(status)).decode())
        else:
            self.stdout.write(f"{status.level}: {status.summary}")
            for each in status.findings:
                self.stdout.write(
                    f"{each.level:8} {each.check}: {' '.join([each.text, each.remedy]).strip()}"
                )
        if status.level != FindingLevel.OK:
            sys.exit(_EXIT_STATUS[status.level])
