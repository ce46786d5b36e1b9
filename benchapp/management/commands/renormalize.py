"""`manage.py renormalize`: read history again with the parser of today."""

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.metrics import CATALOGUE, format_value
from benchapp.pipeline.renormalize import Difference, Outcome, renormalize, select_submissions

_SHOWN = 50


class Command(BaseCommand):
    """Report what changes between parser versions, and store it unless --dry-run."""

    help = "Read stored submissions again from their raw bodies and report every value that changes."

    def add_arguments(self, parser: CommandParser) -> None:
        """Say which submissions, and whether to store."""
        parser.add_argument("ids", nargs="*", help="submissions; all stored ones where none is named")
        parser.add_argument("--dry-run", action="store_true", help="report and change nothing")
        parser.add_argument("--only-older", action="store_true", help="leave out what this parser has read")
        parser.add_argument("--rejected", action="store_true", help="try the rejected ones too")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read, compare, report."""
        try:
            named = [UUID(text) for text in options["ids"]]
        except ValueError as error:
            raise CommandError(f"a submission's id is a UUID: {error}") from error
        ids = select_submissions(
            ids=named, only_older=options["only_older"], include_rejected=options["rejected"]
        )
        if not ids:
            self.stdout.write("nothing to read again")
            return
        total = Outcome()
        for outcome in renormalize(ids, is_dry_run=options["dry_run"]):
            _add(total, outcome)
            self.stderr.write(f"\r{total.read}/{len(ids)} read", ending="")
        self.stderr.write("")
        self._report(total, is_dry_run=options["dry_run"])

    def _report(self, total: Outcome, *, is_dry_run: bool) -> None:
        for difference in total.differences[:_SHOWN]:
            self.stdout.write(_describe(difference))
        if len(total.differences) > _SHOWN:
            self.stdout.write(f"… and {len(total.differences) - _SHOWN} values more")
        for refusal in total.refused[:_SHOWN]:
            self.stdout.write(f"{refusal.submission_id}: {refusal.code}: {refusal.reason}")
        self.stdout.write(
            f"{'would change' if is_dry_run else 'changed'}: {len(total.differences)} values; "
            f"{total.unchanged} of {total.read} submissions unchanged, {total.recovered} rejected ones readable now, "
            f"{len(total.refused)} not readable"
        )


def _add(total: Outcome, outcome: Outcome) -> None:
    total.read += outcome.read
    total.unchanged += outcome.unchanged
    total.recovered += outcome.recovered
    total.differences.extend(outcome.differences)
    total.refused.extend(outcome.refused)
    total.series_ids |= outcome.series_ids


def _describe(difference: Difference) -> str:
    before, after = (_show(difference.metric, value) for value in (difference.before, difference.after))
    label = CATALOGUE[difference.metric].label if difference.metric in CATALOGUE else difference.metric
    return f"{difference.submission_id}: {difference.where}: {label} {before} → {after}"


def _show(metric: str, value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return format_value(value, CATALOGUE[metric].unit) if metric in CATALOGUE else "none"
