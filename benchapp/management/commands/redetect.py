"""`manage.py redetect`: detect changes again with the current method."""

from collections import Counter
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.catalog.grammar import BadFilter
from benchapp.catalog.metrics import CATALOG
from benchapp.detection.changepoints.detector import VERSION
from benchapp.framework.times import format_utc_moment
from benchapp.judge import Transition, redetect, select_series
from benchapp.models import Change, ChangeState

_SHOWN: Final = 50


class Command(BaseCommand):
    """Report new, changed and withdrawn changes, and store them unless --dry-run."""

    help = "Run detection again and report new, confirmed and withdrawn changes. Sends no notifications."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("q", nargs="?", default="", help="a filter as in the filter bar: host:db-* bs:4k")
        parser.add_argument("--dry-run", action="store_true", help="report only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Detect, compare, report."""
        try:
            ids = select_series(options["q"])
        except BadFilter as error:
            raise CommandError(str(error)) from error
        before = Change.objects.filter(series_id__in=ids).exclude(state=ChangeState.WITHDRAWN).count()
        transitions: list[Transition] = []
        outcomes: Counter[str] = Counter()
        series_count = incident_count = 0
        for judged in redetect(ids, is_dry_run=options["dry_run"]):
            series_count += len(judged.series_ids)
            incident_count += len(judged.incident_ids)
            outcomes.update(_name(each) for each in judged.transitions)
            transitions += judged.transitions[: _SHOWN - len(transitions)]
            self.stderr.write(f"\r{series_count}/{len(ids)} series checked", ending="")
        self.stderr.write("")
        for transition in transitions:
            self.stdout.write(_describe(transition))
        if (total := sum(outcomes.values())) > len(transitions):
            self.stdout.write(f"… and {total - len(transitions)} more")
        self._sum_up(
            before, outcomes, incident_count, series_count=series_count, is_dry_run=options["dry_run"]
        )

    def _sum_up(
        self, before: int, outcomes: Counter[str], incident_count: int, *, series_count: int, is_dry_run: bool
    ) -> None:
        changed = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())) or "nothing"
        after = before + sum(count * _EFFECT.get(name, 0) for name, count in outcomes.items())
        self.stdout.write(
            f"{'would change' if is_dry_run else 'changed'}: {changed}; {before} changes before, {after} after,"
            f" {incident_count} incidents changed; {series_count} series checked with {VERSION}"
        )


# What an outcome does to the number of changes that are not withdrawn.
_EFFECT: Final = {"new": 1, "withdrawn": -1, "back": 1}


def _name(transition: Transition) -> str:
    if transition.before is None:
        return "new"
    if transition.before == ChangeState.WITHDRAWN:
        return "back"
    return transition.after.value


def _describe(transition: Transition) -> str:
    label = CATALOG[transition.metric].label
    before = transition.before.value if transition.before else "new"
    return (
        f"series {transition.series_id}: {label} {transition.relative:+.1%} from"
        f" {format_utc_moment(transition.started_at)}: {before} → {transition.after.value}"
    )
