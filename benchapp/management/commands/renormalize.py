"""`manage.py renormalize`: parse stored submissions again with the current parser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.catalog.metrics import CATALOG, format_value
from benchapp.intake.normalize.batch import ImportRunning, Rejection
from benchapp.intake.normalize.reparse import (
    ReparseDifference,
    ReparseOutcome,
    count_emptied,
    renormalize,
    select_submissions,
)
from benchapp.judge import detect_and_notify
from benchapp.models import Series
from benchapp.series.read.titles import describe_workload

_SHOWN = 50


class Command(BaseCommand):
    """Report what changes between parser versions, and store it unless --dry-run."""

    help = "Parse the raw bodies of stored submissions again and report changed values."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("ids", nargs="*", help="submission ids (default: all stored)")
        parser.add_argument("--dry-run", action="store_true", help="report only")
        parser.add_argument(
            "--only-older", action="store_true", help="skip submissions parsed by the current version"
        )
        parser.add_argument("--rejected", action="store_true", help="include rejected submissions")

    def handle(self, *args: Any, **options: Any) -> None:
        """Parse, compare, report."""
        try:
            named = [UUID(text) for text in options["ids"]]
        except ValueError as error:
            raise CommandError(f"not a valid submission id (UUID): {error}") from error
        ids = select_submissions(
            ids=named, only_older=options["only_older"], include_rejected=options["rejected"]
        )
        if not ids:
            self.stdout.write("no submissions to parse")
            return
        total = _Total()
        try:
            for outcome in renormalize(ids, is_dry_run=options["dry_run"]):
                total.add(outcome)
                self.stderr.write(f"\r{total.read}/{len(ids)} read", ending="")
        except ImportRunning as error:
            raise CommandError(
                f"{error}; {total.read} of {len(ids)} submissions were read, run the command again after it"
            ) from error
        finally:
            self.stderr.write("")
        while not options["dry_run"] and detect_and_notify().series_ids:
            continue
        self._report(total, is_dry_run=options["dry_run"])

    def _report(self, total: "_Total", *, is_dry_run: bool) -> None:
        for difference in total.differences:
            self.stdout.write(_describe(difference))
        if total.changed > len(total.differences):
            self.stdout.write(f"… and {total.changed - len(total.differences)} more values")
        for refusal in total.refusals:
            self.stdout.write(f"{refusal.submission_id}: {refusal.code}: {refusal.reason}")
        self.stdout.write(
            f"{'would change' if is_dry_run else 'changed'}: {total.changed} values; "
            f"{total.unchanged} of {total.read} submissions unchanged, {total.recovered} rejected ones now readable, "
            f"{total.refused} not readable"
        )
        self._report_names(total.names, is_dry_run=is_dry_run)
        if emptied := count_emptied(total.lost, is_dry_run=is_dry_run):
            would = "would have" if is_dry_run else "have"
            self.stdout.write(f"series that {would} no points left and are removed from lists: {emptied}")

    def _report_names(self, names: Mapping[int, Sequence[str]], *, is_dry_run: bool) -> None:
        """Report the series that go on under the name of their target, and those that several targets had mixed."""
        if not names:
            return
        split = {series_id: each for series_id, each in names.items() if len(each) > 1}
        would = "would be" if is_dry_run else "are"
        self.stdout.write(
            f"series that {would} named by their target: {len(names)}; split, as they mixed targets: {len(split)}"
        )
        series = Series.objects.in_bulk(sorted(split)[:_SHOWN])
        for series_id, row in series.items():
            title = describe_workload(row, direction=row.direction)
            self.stdout.write(f"series {series_id}, {row.scope}, {title}: {', '.join(split[series_id])}")
        if len(split) > len(series):
            self.stdout.write(f"… and {len(split) - len(series)} more series")


@dataclass(slots=True)
class _Total:
    """Sum of all batches; only the first differences and refusals are stored, to limit memory."""

    read: int = 0
    unchanged: int = 0
    recovered: int = 0
    changed: int = 0
    refused: int = 0
    differences: list[ReparseDifference] = field(default_factory=list)
    refusals: list[Rejection] = field(default_factory=list)
    lost: Counter[int] = field(default_factory=Counter)
    names: dict[int, list[str]] = field(default_factory=dict)

    def add(self, outcome: ReparseOutcome) -> None:
        """Add one batch."""
        self.read += outcome.read
        self.unchanged += outcome.unchanged
        self.recovered += outcome.recovered
        self.changed += len(outcome.differences)
        self.refused += len(outcome.rejected)
        self.differences += outcome.differences[: _SHOWN - len(self.differences)]
        self.refusals += outcome.rejected[: _SHOWN - len(self.refusals)]
        for series_id, count in outcome.lost.items():
            self.lost[series_id] += count
        for series_id, names in outcome.names.items():
            self.names[series_id] = list(dict.fromkeys([*self.names.get(series_id, ()), *names]))


def _describe(difference: ReparseDifference) -> str:
    name = difference.name
    label = CATALOG[name].label if name in CATALOG else f"changed: {name}"
    before, after = (_show(name, value) for value in (difference.before, difference.after))
    return f"{difference.submission_id}: {difference.where}: {label} {before} → {after}"


def _show(name: str, value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    if name in CATALOG:
        return format_value(value, CATALOG[name].unit)
    return "none" if value is None else f"{value:.15g}"
