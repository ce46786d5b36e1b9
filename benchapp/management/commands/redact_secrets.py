"""`manage.py redact_secrets`: remove keys, passwords and tokens that earlier versions stored."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benchapp.intake.posts.stored_secrets import CLEANERS, clean_rows


class Command(BaseCommand):
    """Report the number of rows with secrets, and remove the secrets unless --dry-run."""

    help = "Remove secrets from stored results: bodies, commands, labels, options, layouts and environments."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("--dry-run", action="store_true", help="count only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Clean and report."""
        cleaned = clean_rows(is_dry_run=options["dry_run"])
        for name in CLEANERS:
            self.stdout.write(f"{name}: {cleaned.counts[name]}")
        verb = "would be removed" if options["dry_run"] else "removed"
        self.stdout.write(f"secrets {verb} from {cleaned.counts.total()} rows")
        if cleaned.kept_apart:
            self.stdout.write(
                f"series beside an equal one without the secret: {cleaned.kept_apart}; their runs stay apart"
            )
