"""`manage.py summarize`: calculate the summaries of series."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benchapp.pipeline.normalize.summaries import mark_series, summarize_due

_MARKED_AT_ONCE = 10_000


class Command(BaseCommand):
    """For imports without workers, which do this automatically."""

    help = "Calculate summaries of series with changed measurements; with --all, of all series."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --all."""
        parser.add_argument("--all", action="store_true", help="recalculate all summaries")

    def handle(self, *args: Any, **options: Any) -> None:
        """Summarize until nothing is due; can run at the same time as workers."""
        last = 0
        while options["all"] and (last := mark_series(after=last, limit=_MARKED_AT_ONCE)):
            continue
        total = 0
        while count := summarize_due():
            total += count
            self.stderr.write(f"\r{total} summarized", ending="")
        self.stderr.write("")
        self.stdout.write(f"{total} series summarized")
