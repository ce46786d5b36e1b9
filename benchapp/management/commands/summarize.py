"""`manage.py summarize`: compute the summaries of series, here and now."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benchapp.pipeline.normalize.summaries import mark_series, summarize_due

_MARKED_AT_ONCE = 10_000


class Command(BaseCommand):
    """Do what the workers do by themselves: after an import without them, or to be sure."""

    help = "Compute the summaries of the series whose measurements changed; with --all, of every series."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --all."""
        parser.add_argument("--all", action="store_true", help="compute all anew, also where nothing changed")

    def handle(self, *args: Any, **options: Any) -> None:
        """Summarise until nothing is due; a second one beside it, or a worker, shares the work."""
        last = 0
        while options["all"] and (last := mark_series(after=last, limit=_MARKED_AT_ONCE)):
            continue
        total = 0
        while count := summarize_due():
            total += count
            self.stderr.write(f"\r{total} summarised", ending="")
        self.stderr.write("")
        self.stdout.write(f"{total} series summarised")
