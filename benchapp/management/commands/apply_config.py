"""`manage.py apply_config`: make the configuration equal to a YAML file."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.framework.queue import wake_notify, wake_up
from benchapp.framework.write.audit import write_from_command
from benchapp.management.progress import add_data_directory, use_database
from benchapp.models import User
from benchapp.operation.configuration.document import BadConfiguration
from benchapp.operation.configuration.plan import (
    Step,
    StepAction,
    apply_configuration,
    count_steps,
    describe_step,
)

_BYTES_MAXIMUM: Final = 16 * 2**20


class Command(BaseCommand):
    """Print what is created, changed and removed; all of it is written, or nothing."""

    help = "Apply a file of export_config in one transaction. Applying it again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        add = parser.add_argument
        add("file", metavar="FILE", help="YAML; - for standard input")
        add("--dry-run", action="store_true", help="print what would change, and write nothing")
        add("--prune", action="store_true", help="remove what the lists of the file do not have")
        add(
            "--author",
            metavar="NAME",
            help="account that is responsible for the changes, in the audit record",
        )
        add_data_directory(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply; exit status 1 with every error of the file."""
        text, is_dry_run = _read_file(options["file"]), options["dry_run"]
        try:
            with (
                use_database(options["data_dir"], failed="nothing was changed"),
                _without_log_lines(is_dry_run),
            ):
                author = _find_author(options["author"])
                with write_from_command("apply_config", author=author):
                    steps = apply_configuration(
                        text, prune=options["prune"], dry_run=is_dry_run, author=author
                    )
        except BadConfiguration as error:
            count = len(error.faults)
            head = f"{options['file']}: {count} {'error' if count == 1 else 'errors'}; nothing was changed"
            raise CommandError("\n  ".join([head, *map(str, error.faults)])) from error
        self.stdout.write("\n".join(describe_steps(steps, is_dry_run=is_dry_run)))
        if not is_dry_run and any(step.action not in _WITHOUT_WRITE for step in steps):
            wake_up()
            wake_notify()


_WITHOUT_WRITE: Final = (StepAction.UNCHANGED, StepAction.KEPT)


def describe_steps(steps: Sequence[Step], *, is_dry_run: bool) -> list[str]:
    """Return the lines of the report: the steps, and their number."""
    counts = count_steps(steps)
    kept = counts.pop(StepAction.KEPT)
    summary = ", ".join(f"{count} {action.value}" for action, count in counts.items())
    lines = [line for step in steps for line in describe_step(step)]
    lines.append(f"Dry run, nothing was written: {summary}" if is_dry_run else summary)
    if kept:
        lines.append(f"{kept} not in the file: kept, --prune removes them")
    return lines


def _read_file(name: str) -> str:
    try:
        content = sys.stdin.buffer.read(_BYTES_MAXIMUM + 1) if name == "-" else Path(name).read_bytes()
        if len(content) > _BYTES_MAXIMUM:
            raise CommandError(f"{name} is larger than {_BYTES_MAXIMUM // 2**20} MiB")
        return content.decode()
    except OSError as error:
        raise CommandError(str(error)) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is not valid UTF-8 at byte {error.start}; save it as UTF-8") from error


def _find_author(name: str | None) -> User | None:
    if name is None:
        return None
    author = User.objects.filter(username=name, is_active=True).first()
    if author is None:
        raise CommandError(f"--author: there is no active account {name}")
    return author


@contextmanager
def _without_log_lines(is_dry_run: bool) -> Iterator[None]:
    """Drop the log lines of a dry run, which report writes that are rolled back."""
    earlier = logging.root.manager.disable
    if is_dry_run:
        logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(earlier)
