"""Bring incidents up to date with their changes: what they say, how severe they are, what became of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.analysis.incidents.severity import Weight, judge_severity
from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, Severity, Verdict
from benchapp.pipeline.incidents.common_factors import Breadth, explain_incident
from benchapp.pipeline.incidents.events import Events, describe_state, reopen_incident
from benchapp.pipeline.incidents.suspects import find_suspects

_RANKS: Final = {Severity.LOW: 0, Severity.MEDIUM: 1, Severity.HIGH: 2}
# Of an incident's changes that must be back at their old level: a cell that is no longer measured holds up nothing.
_RECOVERED_SHARE: Final = 0.9
_TITLE_MAXIMUM: Final = 300
# Said with the last news of what comes and goes: what follows is in its timeline alone.
_COMES_AND_GOES: Final = "it had recovered, and is worse again; if it comes and goes, nobody is told of that"
_DESCRIPTION: Final = (
    "title",
    "severity",
    "started_at",
    "relative",
    "change_count",
    "explained_by",
    "suspects",
    "updated_at",
)


def refresh_incidents(ids: Iterable[int], events: Events) -> None:
    """Describe these incidents anew, and write what became of them: confirmed, grew, recovered, withdrawn, reopened."""
    for incident in Incident.objects.select_for_update().filter(pk__in=set(ids)).order_by("pk"):
        if incident.merged_into_id is None:
            _refresh(incident, events)


def _refresh(incident: Incident, events: Events) -> None:
    rows = Change.objects.filter(incident=incident).select_related("series")
    changes = list(rows.order_by("started_at", "id"))
    live = [change for change in changes if change.state != ChangeState.WITHDRAWN]
    if not live:
        if changes:
            _withdraw(incident, events)
        return
    if _was_withdrawn(incident) and any(change.state == ChangeState.CONFIRMED for change in live):
        reopen_incident(incident, events, words="later runs bear it out after all")
    since = incident.updated_at
    gone = [change for change in changes if change.withdrawn_at and change.withdrawn_at > since]
    _describe(incident, live, events)
    if incident.state == IncidentState.RESOLVED:
        return
    if gone:
        words = f"later runs do not bear out {len(gone)} of {len(changes)} changes"
        events.add(incident, "withdrawn", words=words)
    _tell_progress(incident, live, events)


def _describe(incident: Incident, live: Sequence[Change], events: Events) -> None:
    had = {name: getattr(incident, name) for name in ("change_count", "severity", "title")}
    breadth = explain_incident(incident)
    worst = max(live, key=_measure_size)
    incident.severity = Severity(_judge(live, breadth))
    incident.title = write_title(worst, breadth)
    incident.started_at = live[0].started_at
    incident.relative = worst.relative
    incident.change_count = len(live)
    incident.explained_by = breadth.explained_by
    incident.suspects = find_suspects(live)
    incident.updated_at = events.now
    incident.save(update_fields=_DESCRIPTION)
    is_new = had["change_count"] == 0
    if not is_new and _RANKS[incident.severity] > _RANKS[Severity(had["severity"])]:
        words = f"{had['severity']} → {incident.severity.value}; {had['change_count']} → {len(live)} changes"
        # An incident that opened in this batch is told of as it is now.
        is_told = _is_loud(incident) and incident.pk not in events.told
        events.add(incident, "grew", words=words, before=had, is_told=is_told)


def _tell_progress(incident: Incident, live: Sequence[Change], events: Events) -> None:
    events_before = IncidentEvent.objects.filter(incident=incident, undone_at=None)
    said = Counter(events_before.values_list("kind", flat=True))
    is_told = _is_loud(incident) and not said["reopened"]
    confirmed = sum(change.state == ChangeState.CONFIRMED for change in live)
    if "confirmed" not in said and 2 * confirmed > len(live):
        events.add(
            incident, "confirmed", words=f"still there five runs later: {confirmed} of {len(live)} changes"
        )
    is_back = sum(bool(change.evidence.get("is_back")) for change in live) >= _RECOVERED_SHARE * len(live)
    if is_back and incident.recovered_at is None:
        incident.recovered_at = events.now
        incident.save(update_fields=["recovered_at"])
        before = {"recovered_at": None}
        words = "the newest runs are back at the level before"
        events.add(incident, "recovered", words=words, before=before, is_told=is_told)
    elif not is_back and incident.recovered_at is not None:
        reopen_incident(incident, events, words=_COMES_AND_GOES, is_told=not said["reopened"])


def _withdraw(incident: Incident, events: Events) -> None:
    """Resolve an incident of which nothing is left; who was told of it is told that."""
    if incident.state == IncidentState.RESOLVED:
        # Some of it may have come back for a while, which opened nothing.
        Incident.objects.filter(pk=incident.pk).exclude(change_count=0).update(change_count=0)
        return
    before = describe_state(incident)
    incident.state, incident.verdict = IncidentState.RESOLVED, Verdict.NOISE
    incident.resolved_at = incident.updated_at = events.now
    incident.change_count = 0
    incident.save(update_fields=["state", "verdict", "resolved_at", "updated_at", "change_count"])
    words = "all its changes are withdrawn: later runs do not bear them out"
    events.add(incident, "resolved", words=words, before=before, is_told=incident.is_regression)


def _was_withdrawn(incident: Incident) -> bool:
    if incident.state != IncidentState.RESOLVED or incident.verdict != Verdict.NOISE:
        return False
    last = IncidentEvent.objects.filter(incident=incident, kind="resolved").order_by("-id").first()
    return last is not None and last.by_id is None


def _is_loud(incident: Incident) -> bool:
    return incident.is_regression and incident.state != IncidentState.RESOLVED


def _judge(live: Sequence[Change], breadth: Breadth) -> str:
    weights = [
        Weight(change.relative, SMALLEST_CHANGES[change.metric], change.state == ChangeState.CONFIRMED)
        for change in live
    ]
    return judge_severity(weights, cells=breadth.cells, all_cells=breadth.all_cells)


def _measure_size(change: Change) -> tuple[float, int]:
    weight = Weight(change.relative, SMALLEST_CHANGES[change.metric], is_confirmed=False)
    return weight.size, -change.pk


def write_title(worst: Change, breadth: Breadth) -> str:
    """Return an incident in a line: where, what moved most and how much, how broadly, and what it is about."""
    scopes = breadth.scopes
    place = scopes[0].partition(":")[2] if len(scopes) == 1 else f"{len(scopes)} hosts or pools"
    percent = f"{abs(worst.relative) * 100:.0f} %"
    sign = "−" if worst.relative < 0 else "+"
    cells = f"{breadth.cells} of {breadth.all_cells} series" if breadth.all_cells > 1 else "1 series"
    way = (
        f"drifted {sign}{percent} from the accepted level"
        if worst.method == DRIFT_METHOD
        else f"{sign}{percent}"
    )
    title = f"{place}: {CATALOGUE[worst.metric].label} {way} in {cells}"
    about: list[dict[str, Any]] = [one for one in breadth.explained_by if one["dimension"] != "scope"][:1]
    return (f"{title}, {about[0]['words']}" if about else title)[:_TITLE_MAXIMUM]
