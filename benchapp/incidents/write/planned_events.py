"""Schedule, end and cancel maintenance windows, expected changes and notes; end and cancel can be undone; impact."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, Filter, parse_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import (
    EntryList,
    NotInThisState,
    read_entry_reason,
    read_series_filter,
)
from benchapp.models import (
    AuditKind,
    Change,
    ChangeState,
    Host,
    Incident,
    Measurement,
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    Run,
    Series,
    User,
)
from benchapp.models.coverage import match_hosts, read_stored_filter
from benchapp.models.filtering import match_runs, match_series

# A host that is out longer is retired; a permanent new level is accepted as the baseline.
SPAN_MAXIMUM: Final = timedelta(days=366)
AHEAD_MAXIMUM: Final = timedelta(days=2 * 366)
# Detection evaluates each different filter for each batch of series.
OPEN_MAXIMUM: Final = 500
_FIRST_AT: Final = datetime(1980, 1, 1, tzinfo=UTC)
_NOUNS: Final[Mapping[str, str]] = {
    PlannedEventKind.MAINTENANCE: "maintenance",
    PlannedEventKind.NOTE: "a note",
}


class PlannedEventList(EntryList[PlannedEvent]):
    """Maintenance windows, expected changes and notes."""

    model = PlannedEvent
    kind = AuditKind.PLANNED_EVENT
    noun = "planned event"
    creation = PlannedEventAction.SCHEDULED.value

    def check(self, entry: PlannedEvent) -> None:
        """Write filter, end and reason in their canonical form: a note without an end is of one time.

        Raises BadValue.
        """
        kind = entry.kind
        if kind not in PlannedEventKind.values:
            raise BadValue("kind", f"choose one of {', '.join(PlannedEventKind.values)}")
        entry.filter = read_series_filter(entry.filter)
        if entry.metric and entry.metric not in CATALOG:
            raise BadValue("metric", f"choose one of {', '.join(CATALOG)}")
        if kind in _NOUNS and entry.metric:
            raise BadValue("metric", f"{_NOUNS[kind]} is of all metrics: choose an expected change")
        if kind in _NOUNS and entry.is_regression is not None:
            raise BadValue("is_regression", f"{_NOUNS[kind]} is of all changes: choose an expected change")
        entry.to_at = _read_end(entry.from_at, entry.to_at, is_note=kind == PlannedEventKind.NOTE)
        entry.reason = read_entry_reason(entry.reason)
        if (incident := entry.incident_id) and not Incident.objects.filter(pk=incident).exists():
            raise BadValue("incident", f"incident {incident} does not exist")

    def refuse_more(self, entry: PlannedEvent) -> None:
        """Raise BadValue if there are too many active and upcoming events for one more."""
        now = timezone.now()
        if entry.ends_at <= now:
            return
        open_events = PlannedEvent.objects.filter(
            Q(ended_at__isnull=True) | Q(ended_at__gt=now), canceled_at__isnull=True, to_at__gt=now
        )
        if open_events.count() >= OPEN_MAXIMUM:
            text = (
                f"the limit of {OPEN_MAXIMUM} active and upcoming events is reached: end or cancel some first"
            )
            raise BadValue("", text)

    def apply(self, entry: PlannedEvent) -> None:
        """Mark series with runs in a maintenance window for detection; rows are locked in the order of ids.

        Up to the planned end: runs after an early end count again.
        """
        if entry.kind != PlannedEventKind.MAINTENANCE:
            return
        in_period = Series.objects.filter(last_at__gte=entry.from_at, first_at__lt=entry.to_at)
        filter = read_stored_filter(entry.filter)
        affected = list(in_period.filter(match_series(filter)).values_list("pk", flat=True)) if filter else []
        list(Series.objects.select_for_update().filter(pk__in=affected).order_by("pk").values_list("pk"))
        Series.objects.filter(pk__in=affected).update(judging_is_due=True)


def _read_end(from_at: datetime, to_at: datetime | None, *, is_note: bool) -> datetime:
    """Return the end of a period. Raises BadValue."""
    if from_at < _FIRST_AT:
        raise BadValue("from_at", f"the start is in {from_at.year}: nothing is stored from before 1980")
    if to_at is None:
        if not is_note:
            raise BadValue("to_at", "an end is required")
        to_at = from_at
    if to_at < from_at or (to_at == from_at and not is_note):
        raise BadValue("to_at", "the end is not after the start")
    if to_at - from_at > SPAN_MAXIMUM:
        raise BadValue("to_at", f"the period is longer than {SPAN_MAXIMUM.days} days")
    if to_at > timezone.now() + AHEAD_MAXIMUM:
        raise BadValue("to_at", "the end is more than two years ahead")
    return to_at


EVENTS: Final = PlannedEventList()


def end_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """End an active event before its planned end and return it; later runs count again.

    Raises UnknownEntry, or NotInThisState if it has not started or has ended.
    """

    def find_changes(planned_event: PlannedEvent, now: datetime) -> Mapping[str, Any]:
        if planned_event.canceled_at is not None or planned_event.ends_at <= now:
            raise NotInThisState("it has already ended")
        if planned_event.from_at >= now:
            raise NotInThisState("it has not started: cancel it instead")
        return {"ended_at": now, "ended_by": by}

    return EVENTS.change(planned_event_id, "ended", find_changes, by=by, via=via)


def resume_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """Undo an early end and return the event. Raises UnknownEntry, or NotInThisState if there was none."""

    def find_changes(planned_event: PlannedEvent, now: datetime) -> Mapping[str, Any]:
        if planned_event.canceled_at is not None or planned_event.ended_at is None:
            raise NotInThisState("it was not ended early")
        return {"ended_at": None, "ended_by": None}

    return EVENTS.change(planned_event_id, "resumed", find_changes, by=by, via=via)


# Counting stops here, so that the page is fast on any history.
RUNS_COUNTED: Final = 1000
HOSTS_NAMED: Final = 5
_INCIDENTS_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Impact:
    """Series, hosts, runs and incidents that match a filter and a period.

    series: those with measurements. hosts: active ones; series of pools count by their hosts; host_names: the first
    five by name. runs: RUNS_COUNTED + 1 for more. incidents: (id, title) of open regressions that started in the
    period, at most five.
    """

    series: int
    hosts: int
    host_names: tuple[str, ...]
    runs: int
    incidents: tuple[tuple[int, str], ...]

    @property
    def has_more_runs(self) -> bool:
        """Return whether there are more runs than were counted."""
        return self.runs > RUNS_COUNTED


def preview_impact(planned: PlannedEvent) -> Impact:
    """Return the impact of a filter and a period; empty if the filter is no longer valid. At most seven queries.

    Only incidents with changes of the metric and direction of the planned event are named.
    """
    from_at, to_at = planned.from_at, planned.ends_at
    try:
        filter = parse_filter(planned.filter)
    except BadFilter:
        return Impact(0, 0, (), 0, ())
    series = Series.objects.filter(match_series(filter), last_at__isnull=False)
    hosts = list(Host.objects.active().order_by("name"))
    inside = match_hosts(filter, hosts)
    names = [host.name for host in hosts if host.pk in inside]
    runs = Run.objects.filter(_match_runs(filter), started_at__gte=from_at, started_at__lt=to_at)
    return Impact(
        series=series.count(),
        hosts=len(names),
        host_names=tuple(names[:HOSTS_NAMED]),
        runs=runs.values("pk")[: RUNS_COUNTED + 1].count(),
        incidents=()
        if planned.is_regression is False
        else _list_incidents(filter, from_at, to_at, metric=planned.metric),
    )


def _match_runs(filter: Filter) -> Q:
    if not filter.words:
        return match_runs(filter)
    within = Measurement.objects.filter(match_series(filter, "series__"), run=OuterRef("pk"))
    return Q(Exists(within))


def _list_incidents(
    filter: Filter, from_at: datetime, to_at: datetime, *, metric: str
) -> tuple[tuple[int, str], ...]:
    began = Change.objects.filter(
        match_series(filter, "series__"),
        incident=OuterRef("pk"),
        started_at__gte=from_at,
        started_at__lt=to_at,
    ).exclude(state=ChangeState.WITHDRAWN)
    if metric:
        began = began.filter(metric=metric)
    found = Incident.objects.filter(Exists(began), is_regression=True, is_open=True)
    return tuple(found.order_by("-started_at", "-id").values_list("id", "title")[:_INCIDENTS_NAMED])
