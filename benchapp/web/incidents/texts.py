"""Incidents, changes and standings in words."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.utils import timezone

from benchapp.metrics import CATALOGUE, format_value
from benchapp.models import ChangeState, Severity
from benchapp.queries.incidents.changes import ChangeRow
from benchapp.queries.incidents.shapes import EventRow, IncidentDetail, IncidentRow, Tab
from benchapp.web.site.value_texts import say_signed, with_unit

_LEAST_SAID: Final = 0.0001
# Below this doubt one more digit is told.
_LEAST_ROUNDED: Final = 0.001
# From which confidence on which words.
_SURE: Final = ((0.9999, "practically certain"), (0.99, "very sure"), (0.95, "sure"), (0.0, "not sure"))
STATES: Final = {
    ChangeState.SUSPECTED: "suspected",
    ChangeState.PROVISIONAL: "provisional",
    ChangeState.CONFIRMED: "confirmed",
    ChangeState.WITHDRAWN: "withdrawn",
}
_DONE: Final = {
    "opened": "opened it",
    "grew": "found it graver",
    "confirmed": "confirmed it",
    "withdrawn": "withdrew changes",
    "recovered": "found it recovered",
    "reopened": "opened it again",
    "acknowledged": "acknowledged it",
    "resolved": "resolved it",
    "assigned": "assigned it",
    "commented": "commented",
    "linked": "set its link",
    "snoozed": "snoozed it",
    "merged": "merged it",
    "split": "split it",
    "accepted": "accepted the level",
    "undone": "took back",
}


def say_incident(detail: IncidentDetail) -> str:
    """Say an incident in a sentence: what moved where, how much, since when, and what came with it."""
    row, live = detail.row, detail.live
    if not live:
        return row.title
    worst = live[0]
    way = "up" if worst.relative > 0 else "down"
    what, size = (
        f"{_name_work(live)}{_name_metric(worst)} of {say_scopes(live)}",
        describe_percent(worst.relative),
    )
    if worst.is_drift and worst.accepted_from_at:
        accepted = say_since(worst.accepted_from_at)
        return f"{what} drifted {way} {size} from the level accepted on {accepted}{_say_suspect(row)}"
    return f"{what} {way} {size} since {say_since(row.started_at)}{_say_suspect(row)}"


def say_scopes(changes: Sequence[ChangeRow]) -> str:
    """Say where: a host's name, "pool db", "4 hosts", "2 hosts and 1 pool"."""
    scopes = {change.series.scope: change.series.scope_name for change in changes}
    pools = sum(scope.startswith("pool:") for scope in scopes)
    if len(scopes) == 1:
        ((scope, name),) = scopes.items()
        return f"pool {name}" if scope.startswith("pool:") else name
    counts = [(len(scopes) - pools, "host"), (pools, "pool")]
    return " and ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count)


def describe_percent(relative: float) -> str:
    """Say a size without its sign: "15 %", "3.2 %", "5 %"."""
    percent = abs(relative) * 100
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}".removesuffix(".0")
    return f"{text} %"


def say_interval(low: float | None, high: float | None) -> str:
    """Say the 95 % interval of a size; "" where it is not known."""
    if low is None or high is None:
        return ""
    return f"{say_signed(low).removesuffix(' %')} to {say_signed(high)}"


def say_confidence(confidence: float) -> str:
    """Say how sure a change is, in words and as a number: "very sure, 99.7 %"."""
    words = next(words for least, words in _SURE if confidence >= least)
    doubt = 1 - confidence
    if doubt < _LEAST_SAID:
        return f"{words}, over 99.99 %"
    percent = f"{confidence * 100:.{2 if doubt < _LEAST_ROUNDED else 1}f}".removesuffix(".0")
    return f"{words}, {percent} %"


def say_since(moment: datetime, *, now: datetime | None = None) -> str:
    """Say a moment in a title: without its year in the same one."""
    utc = moment.astimezone(UTC)
    year = "" if utc.year == (now or timezone.now()).year else f" {utc:%Y}"
    return f"{utc:%-d %b}{year} {utc:%H:%M} UTC"


def say_event(event: EventRow) -> str:
    """Say what somebody did, or the judge."""
    return f"{event.by_name or 'benchapp'} {_DONE.get(event.kind, event.kind)}"


def name_act(kind: str) -> str:
    """Say an act as what was done: "acknowledged it"."""
    return _DONE.get(kind, kind)


def count_runs(count: int) -> str:
    """Say how many runs."""
    return "1 run" if count == 1 else f"{count} runs"


def _name_work(changes: Sequence[ChangeRow]) -> str:
    """Say the work that all of them did: "4k random read "; "" where it differs."""
    works = {change.series.workload_title.split(" · ")[0] for change in changes}
    return f"{works.pop()} " if len(works) == 1 else ""


def _name_metric(change: ChangeRow) -> str:
    label = CATALOGUE[change.metric].label
    return label if label[1].isupper() else label[0].lower() + label[1:]


def _say_suspect(row: IncidentRow) -> str:
    said = say_first_suspect(row)
    return f"; {said} came with it" if said else ""


def say_first_suspect(row: IncidentRow) -> str:
    """Say what likeliest changed with it: "kernel 5.15 → 6.1"; "" where nothing did that is recorded."""
    return name_suspect(row.suspects[0]) if row.suspects else ""


def name_suspect(suspect: dict[str, Any]) -> str:
    """Say what changed, from what to what."""
    name = say_name(str(suspect.get("name", "")))
    before, after = (suspect.get(side) or "unknown" for side in ("before", "after"))
    return f"{name} {before} → {after}"


def say_elsewhere(suspect: Mapping[str, Any]) -> str:
    """Say what became of the other hosts to which the same came: "2 stayed fine: db-3, db-4"; "" of none."""
    moved, fine = suspect.get("hosts_moved") or 0, suspect.get("hosts_fine") or 0
    names = [str(name) for name in suspect.get("fine_hosts") or ()]
    parts = [f"{moved} moved too"] if moved else []
    if fine:
        named = ", ".join(names) + (" and others" if fine > len(names) else "")
        parts.append(f"{fine} stayed fine: {named}" if names else f"{fine} stayed fine")
    return "; ".join(parts)


def say_name(name: str) -> str:
    """Say the name of a fact: "device firmware", "md degraded"."""
    return name.replace("_", " ").replace(".", " ")


def describe_incident_counts(detail: IncidentDetail) -> str:
    """Say how much moved: "12 changes in 9 series"."""
    row = detail.row
    changes = "1 change" if row.change_count == 1 else f"{row.change_count} changes"
    return f"{changes} in {row.series_count} series"


def say_inbox(tab: Tab, counts: Mapping[Tab, int], rows: Sequence[IncidentRow]) -> str:
    """Say the answer of the inbox: "3 open regressions, 1 of them high"."""
    noun = {
        Tab.OPEN: "open regression",
        Tab.NEW: "new regression",
        Tab.ACKNOWLEDGED: "acknowledged regression",
        Tab.SNOOZED: "snoozed regression",
    }.get(tab)
    if noun is None:
        return {
            Tab.RESOLVED: "Resolved regressions",
            Tab.IMPROVEMENTS: "Improvements",
            Tab.ALL: "All incidents",
        }[tab]
    count = counts.get(tab, len(rows))
    if not count:
        return f"No {noun}"
    high = sum(row.severity == Severity.HIGH for row in rows)
    graver = f", {high} of high severity" if high else ""
    return f"{count} {noun}{'' if count == 1 else 's'}{graver}"


def say_drift(change: ChangeRow) -> str:
    """Say how far a series drifted from an accepted level, or that it is back; "" for what is no drift or withdrawn."""
    if not (change.is_live and change.is_drift and change.accepted_from_at):
        return ""
    interval = say_interval(change.relative_low, change.relative_high)
    size = f"{say_signed(change.relative)}{f' ({interval})' if interval else ''}"
    accepted = f"the level accepted on {say_since(change.accepted_from_at)}"
    if change.evidence.get("is_back"):
        return f"It had drifted {size} from {accepted}, and is back."
    return f"Drifted {size} from {accepted}, since {say_since(change.started_at)}."


def say_sides(change: ChangeRow) -> str:
    """Say both levels of a change: "median 33 415 IOPS of 40 runs, then 28 400 IOPS of 8"."""
    metric = CATALOGUE[change.metric]
    before, after = with_unit(change.before_median, metric), with_unit(change.after_median, metric)
    return f"{before} ({count_runs(change.before_n)}), then {after} ({count_runs(change.after_n)})"


def format_level(value: float, metric: str) -> str:
    """Show a level of a metric, with its unit."""
    return format_value(value, CATALOGUE[metric].unit)
