"""Open, update, recover and reopen incidents, and write their events; undo and notices read the events."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import log1p, sqrt
from statistics import fmean, median, median_low
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import (
    CATALOG,
    SMALLEST_CHANGES,
    format_count,
    format_integer,
    format_range,
    format_signed_percent,
)
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD, UPDATED_SLOTS
from benchapp.detection.rules.recovery import (
    AGAIN_SHARE,
    RUNS_MINIMUM,
    ChangedLevel,
    count_returned_runs,
    have_changed_again,
    have_returned,
)
from benchapp.framework.times import format_utc_moment
from benchapp.framework.write.audit import record_write
from benchapp.incidents.rules.incidents import (
    INTERVAL_SCORE,
    ChangeSize,
    MetricSize,
    judge_severity,
    measure_multiple,
    summarize_metrics,
)
from benchapp.incidents.write.candidates import Candidate
from benchapp.incidents.write.common_factors import Breadth, measure_breadth, name_value
from benchapp.incidents.write.suspects import find_suspects
from benchapp.models import (
    CONFIRMED_RUNS,
    UNRESOLVED,
    AuditKind,
    Change,
    ChangeState,
    Course,
    DetectionResult,
    Incident,
    IncidentEvent,
    IncidentState,
    Measurement,
    NewestValues,
    Phase,
    Severity,
    Slope,
    User,
    name_scopes,
    read_slope,
)

TEXT_MAXIMUM: Final = 5000
_COLUMNS: Final = frozenset(field.attname for field in Incident._meta.concrete_fields)


@dataclass(slots=True)
class Events:
    """The events of one batch. now: the server's clock; ids: of the events."""

    now: datetime
    ids: list[int] = field(default_factory=list)

    def add(
        self,
        incident: Incident,
        kind: str,
        *,
        text: str = "",
        before: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an automatic event of an incident."""
        self.ids.append(write_event(incident, kind, by=None, text=text, before=before, now=self.now).pk)


def write_event(
    incident: Incident,
    kind: str,
    *,
    by: User | None,
    text: str = "",
    before: Mapping[str, Any] | None = None,
    now: datetime,
) -> IncidentEvent:
    """Write one event of an incident. before: earlier values of the changed fields, for undo."""
    return IncidentEvent.objects.create(
        incident=incident, at=now, by=by, kind=kind, text=text[:TEXT_MAXIMUM], before=dict(before or {})
    )


def record_events(events: Sequence[IncidentEvent]) -> None:
    """Write an audit record for each event of a step that somebody took; call it after all steps."""
    incidents = Incident.objects.in_bulk({event.incident_id for event in events})
    for event in events:
        incident = incidents[event.incident_id]
        fields = {name: getattr(incident, name) for name in event.before if name in _COLUMNS}
        record_write(
            AuditKind.INCIDENT,
            event.kind,
            object_id=incident.pk,
            name=incident.title,
            before={name: event.before[name] for name in fields},
            after={**fields, "text": event.text},
            by=event.by,
        )


def make_incident(incident: Incident, significant: Sequence[Candidate], *, events: Events, text: str) -> int:
    """Save a new incident with its first event; `refresh_incidents` writes title and severity."""
    incident.started_at = min(candidate.at for candidate in significant)
    incident.relative = max((candidate.relative for candidate in significant), key=abs)
    incident.severity = Severity.LOW
    incident.opened_at = incident.updated_at = events.now
    incident.save()
    events.add(incident, "opened", text=text)
    return incident.pk


def describe_state(incident: Incident) -> dict[str, Any]:
    """Return the state fields as stored in an event."""
    return {
        "state": incident.state,
        "verdict": incident.verdict,
        "resolved_at": _write_time(incident.resolved_at),
        "recovered_at": _write_time(incident.recovered_at),
        "course": incident.course,
        "merged_into_id": incident.merged_into_id,
        "planned_event_id": incident.planned_event_id,
    }


def _write_time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


# Share of an incident's drifts that must be back, each by its own comparison with its baseline.
_DRIFTS_SHARE: Final = 0.9
# A series whose newest run is this many intervals older than those of the others is no longer measured, and has no part
# in the recovery.
_SILENT_RUNS: Final = 5
# Share of an incident's series that must have changed again, or whose pooled levels must be back. If fewer changed
# again, it is another event: a volume type that slows down on all hosts is not the return of the slowdown of one host.
COVERED_SHARE: Final = 2 / 3
# Changes, and runs of each, that date the begin of a recovery. It is found after a few runs.
_RETURNS_READ: Final = 25
_RUNS_READ: Final = 500
# Bad runs from which a regression lasts: those that open an incident, and further ones.
_LASTING_RUNS: Final = RUNS_MINIMUM + CONFIRMED_RUNS
# Usual interval of the runs of a series where it is unknown.
_UNKNOWN_S: Final = 86_400.0
# Share of the steps from which runs are rather bad than good.
_HALF_WAY: Final = 0.5
_BEGINS: Final = ("opened", "reopened", "intermittent")
# Begins of one incident within so many days that come and go.
_OFTEN: Final = 3
_OFTEN_WITHIN: Final = timedelta(days=30)
# Bad runs below which an incident that is over was brief.
_BRIEF_RUNS: Final = 20
# Multiple of the size or the number of series from which an incident grew; a drift, which grows all the time, doubles.
_GREW: Final = 1.5
_DRIFT_GREW: Final = 2.0
# Usual intervals without further changes from which it has settled.
_SETTLED_RUNS: Final = 3


def has_unresolved_incidents(series_ids: Collection[int]) -> bool:
    """Return whether one of these series has a change in an unresolved incident; one query."""
    return _list_unresolved(series_ids).exists()


def update_courses(series_ids: Collection[int], events: Events) -> set[int]:
    """Record which unresolved incidents with changes in these series last, grew, are over, or are bad again.

    Their levels must be stored. Call it under `lock_incidents`, after they were refreshed. Return those that moved.
    """
    touched = _list_unresolved(series_ids).values_list("incident_id", flat=True)
    changes: dict[int, list[Change]] = defaultdict(list)
    for change in Change.objects.stated().filter(incident_id__in=set(touched)).order_by("started_at", "id"):
        changes[change.incident_id or 0].append(change)
    known = _read_newest(change for of in changes.values() for change in of)
    incidents = Incident.objects.select_for_update().filter(pk__in=changes).order_by("pk")
    return {incident.pk for incident in incidents if _move(incident, changes[incident.pk], known, events)}


def _list_unresolved(series_ids: Collection[int]) -> QuerySet[Change]:
    """Return the live changes of these series in unresolved incidents."""
    rows = Change.objects.exclude(state=ChangeState.WITHDRAWN)
    return rows.filter(series_id__in=series_ids, incident__state__in=UNRESOLVED, incident__merged_into=None)


def _move(
    incident: Incident,
    changes: Sequence[Change],
    known: Mapping[tuple[int, str], NewestValues],
    events: Events,
) -> bool:
    if incident.recovered_at is not None:
        is_bad = _has_regressed_again(incident, changes, known)
        if is_bad:
            _begin_again(incident, events)
        return is_bad
    if _is_back(changes, known):
        _end(incident, changes, _find_return(_list_measured(changes, known)), events)
        return True
    if incident.course == Course.LASTING:
        return _write_growth(incident, changes, events)
    if not _is_lasting(incident, changes, known) or not _is_settled(incident, events.now):
        return False
    incident.course = Course.LASTING
    incident.save(update_fields=["course"])
    # It has the severity of a confirmed incident.
    refresh_incidents([incident.pk], events)
    incident.refresh_from_db()
    events.add(incident, "confirmed", text="persists in later runs", before={"told": _tell_size(incident)})
    return True


def _is_lasting(
    incident: Incident, changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues]
) -> bool:
    """Return whether the newest six runs are bad, and most changes have three further runs since they opened it.

    Or five by their values, if they were found late. What is bad again must be so in three quarters of them.
    """
    begins = IncidentEvent.objects.filter(incident=incident, kind__in=_BEGINS[1:], by=None, undone_at=None)
    if begins.exists():
        return _are_bad(changes, known, runs=_LASTING_RUNS)
    further = sum(
        change.state == ChangeState.CONFIRMED
        or (
            _key(change) in known
            and known[_key(change)].to_at - max(change.found_at, incident.opened_at)
            > timedelta(seconds=(CONFIRMED_RUNS - 1) * (change.evidence.get("interval_s") or _UNKNOWN_S))
        )
        for change in changes
    )
    return 2 * further >= len(changes) and _are_bad(changes, known, runs=_LASTING_RUNS, least_share=_HALF_WAY)


def _is_settled(incident: Incident, now: datetime) -> bool:
    """Return whether an incident neither began nor ended for a while, if it comes and goes."""
    since = now - timedelta(days=settings.RECOVERED_QUIET_DAYS)
    moves = IncidentEvent.objects.filter(incident=incident, kind__in=(*_BEGINS, "recovered"), at__gt=since)
    return incident.course != Course.INTERMITTENT or not moves.exists()


def _end(
    incident: Incident, changes: Sequence[Change], found: tuple[datetime, int] | None, events: Events
) -> None:
    incident.recovered_at, runs = found or (events.now, 0)
    if 0 < runs < _BRIEF_RUNS:
        _set_severity(incident, changes, measure_breadth(incident), is_brief=True)
    incident.save(update_fields=["recovered_at", "severity"])
    lasted = f" after {format_integer(runs)} runs" if runs else ""
    text = f"back at the earlier level since {format_utc_moment(incident.recovered_at)}{lasted}"
    events.add(incident, "recovered", text=text, before={"recovered_at": None})


def _begin_again(incident: Incident, events: Events) -> None:
    """Record that an incident is bad again: suspected, or one that comes and goes."""
    before = describe_state(incident)
    since = events.now - _OFTEN_WITHIN
    begins = IncidentEvent.objects.filter(
        incident=incident, kind__in=_BEGINS, by=None, undone_at=None, at__gt=since
    )
    first, count = begins.order_by("id").first(), begins.count() + 1
    kind, text = "reopened", "bad again after a recovery"
    if first is not None and count >= _OFTEN:
        days = format_integer(max((events.now - first.at).days, 1))
        text = f"{count} times in {days} day{'s' if days != '1' else ''}"
    if incident.course != Course.INTERMITTENT:
        is_often = count >= _OFTEN
        incident.course = Course.INTERMITTENT if is_often else Course.SUSPECTED
        kind = "intermittent" if is_often else kind
    incident.recovered_at = None
    incident.updated_at = events.now
    incident.save(update_fields=["course", "recovered_at", "updated_at"])
    events.add(incident, kind, text=text, before=before)


def _write_growth(incident: Incident, changes: Sequence[Change], events: Events) -> bool:
    """Write that an incident is larger, or in more series, than its notices state, once no change joins any more."""
    states = IncidentEvent.objects.filter(incident=incident, kind__in=("confirmed", "grew"), undone_at=None)
    last = states.order_by("-id").first()
    told, size = (last.before if last else {}).get("told"), _tell_size(incident)
    if last and not told:
        # Confirmed before events had sizes: it grows from what it is now.
        last.before |= {"told": size}
        last.save(update_fields=["before"])
    intervals = [interval_s for change in changes if (interval_s := change.evidence.get("interval_s"))]
    reach = max(timedelta(seconds=_SETTLED_RUNS * median(intervals or [0.0])), timedelta(hours=1))
    if not told or max(change.found_at for change in changes) > events.now - reach:
        return False
    is_drift = find_slope(changes) is not None
    factor = _DRIFT_GREW if is_drift else _GREW
    is_severer = _RANKS[Severity(size["severity"])] > _RANKS[Severity(told["severity"])]
    if not (is_severer and not is_drift) and all(
        size[name] < factor * told[name] for name in ("multiple", "series")
    ):
        return False
    words = [f"{told[name]} → {size[name]}" for name in ("severity", "series", "size")]
    text = f"{words[0]}; {words[1]} series; {words[2]}"
    events.add(incident, "grew", text=text, before={"told": size})
    return True


def _tell_size(incident: Incident) -> dict[str, Any]:
    """Return severity, number of series and size of an incident, as notices state them."""
    return {
        "severity": str(incident.severity),
        "series": incident.metric_sizes[0]["series"] if incident.metric_sizes else 0,
        "size": format_signed_percent(incident.relative),
        "multiple": measure_multiple(incident.relative, SMALLEST_CHANGES[incident.metric])
        if incident.metric
        else 0.0,
    }


def _is_back(changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues]) -> bool:
    """Return whether the levels are back by the weight of all, by their pooled levels, or each for itself."""
    last_at = max((own.to_at for change in changes if (own := known.get(_key(change)))), default=None)
    is_updated = last_at is None or all(_is_updated(change, last_at) for change in changes)
    back = sum(bool(change.evidence.get("is_back")) for change in changes)
    steps = _list_steps(changes)
    if is_updated and back >= _DRIFTS_SHARE * len(changes):
        return True
    if not steps or len(steps) < len(changes):
        return False
    measured = _list_measured(steps, known)
    current = _list_levels(measured, known)
    return have_returned(current) or (
        is_updated and _have_pooled_returned(measured) and not have_changed_again(current)
    )


def _find_return(changes: Sequence[Change]) -> tuple[datetime, int] | None:
    """Return the start of the first run that is back, and the bad runs before it, by the largest changes.

    The medians; a query for each change.
    """
    moments, lasted = [], []
    for change in sorted(changes, key=lambda each: -abs(each.relative))[:_RETURNS_READ]:
        runs = list(
            Measurement.objects.filter(
                series_id=change.series_id,
                started_at__gte=change.started_at,
                error=0,
                is_excluded=False,
                **{f"{change.metric}__isnull": False},
            )
            .order_by("-started_at", "-id")
            .values_list("started_at", change.metric)[:_RUNS_READ]
        )
        back = count_returned_runs(
            [value for _, value in reversed(runs)],
            before_median=change.before_median,
            after_median=change.after_median,
        )
        moments += [runs[back - 1][0]] if back else []
        lasted += [len(runs) - back] if back else []
    return (median_low(moments), median_low(lasted)) if moments else None


def has_lasted(incident: Incident, *, further_runs: int) -> bool:
    """Return whether the newest changes of most series have so many runs more than those that open an incident.

    The largest count; a query for each of these.
    """
    changes = {_key(change): change for change in Change.objects.stated().filter(incident=incident)}
    largest = sorted(changes.values(), key=lambda change: -abs(change.relative))[:_RETURNS_READ]
    counts = [
        Measurement.objects.filter(
            series_id=change.series_id, started_at__gte=change.started_at, error=0, is_excluded=False
        ).count()
        for change in largest
    ]
    return median_low(counts or [0]) >= RUNS_MINIMUM + further_runs


def _is_updated(change: Change, last_at: datetime) -> bool:
    """Return whether the stored end of a change is that of the newest runs; of a pooled one only at first."""
    interval = timedelta(seconds=change.evidence.get("interval_s") or 0.0)
    return change.method != POOLED_METHOD or last_at - change.started_at < (UPDATED_SLOTS - 1) * interval


def _have_pooled_returned(changes: Sequence[Change]) -> bool:
    """Return whether the pooled levels of most series are back, and no other pooled level is nearer to the new one.

    changes: one for each series and metric.
    """
    pooled = [change for change in changes if change.method == POOLED_METHOD]
    back = {change.series_id for change in pooled if change.evidence["pooled"].get("has_returned")}
    series = {change.series_id for change in changes}
    return len(back) >= COVERED_SHARE * len(series) and all(
        change.evidence["pooled"].get("is_nearer_before") for change in pooled
    )


def has_regressed_again(incident: Incident) -> bool:
    """Return whether the newest runs of an incident that is over are bad, by the weight of all; a few queries."""
    rows = Change.objects.stated().filter(incident=incident)
    changes = list(rows.order_by("started_at", "id"))
    return bool(changes) and _has_regressed_again(incident, changes, _read_newest(changes))


def _has_regressed_again(
    incident: Incident, changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues]
) -> bool:
    if not _are_bad(changes, known):
        return False
    elsewhere = _find_series_elsewhere(incident, changes)
    if not elsewhere:
        return True
    own = [change for change in changes if change.series_id not in elsewhere]
    left = len({change.series_id for change in own})
    return left >= COVERED_SHARE * (left + len(elsewhere)) and _are_bad(own, known)


def _find_series_elsewhere(incident: Incident, changes: Sequence[Change]) -> set[int]:
    """Return the series that later changed in this direction in another incident, and are not back since."""
    rows = (
        Change.objects.filter(series_id__in={change.series_id for change in changes})
        .exclude(state=ChangeState.WITHDRAWN)
        # Without changes in this direction that are not assigned yet, as the newest ones.
        .exclude(incident=None, is_regression=incident.is_regression)
        .order_by("started_at", "id")
        .values_list("series_id", "metric", "incident_id", "is_regression")
    )
    newest = {(series_id, metric): of for series_id, metric, *of in rows}
    return {
        series_id
        for series_id, metric in {(change.series_id, change.metric) for change in changes}
        for incident_id, is_regression in [newest[series_id, metric]]
        if incident_id != incident.pk and is_regression == incident.is_regression
    }


def _are_bad(
    changes: Sequence[Change],
    known: Mapping[tuple[int, str], NewestValues],
    *,
    runs: int = RUNS_MINIMUM,
    least_share: float = AGAIN_SHARE,
) -> bool:
    """Return whether so many of the newest runs are at the new levels, by the weight of all, or most drifts last."""
    steps = _list_steps(changes)
    if len(steps) == len(changes):
        levels = _list_levels(_list_measured(steps, known), known)
        return have_changed_again(levels, runs=runs, least_share=least_share)
    return sum(bool(change.evidence.get("is_back")) for change in changes) < _DRIFTS_SHARE * len(changes)


def _list_steps(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.method != DRIFT_METHOD]


def _read_newest(changes: Iterable[Change]) -> dict[tuple[int, str], NewestValues]:
    """Return the newest values of the metrics that changed, by series and metric; one query."""
    keys = {(change.series_id, change.metric) for change in changes}
    rows = NewestValues.objects.filter(
        series_id__in={series_id for series_id, _ in keys}, metric__in={metric for _, metric in keys}
    )
    return {(row.series_id, row.metric): row for row in rows}


def _key(change: Change) -> tuple[int, str]:
    return change.series_id, change.metric


def _list_measured(changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues]) -> list[Change]:
    """Return the newest change of each series and metric, without series that are no longer measured."""
    newest = {_key(change): change for change in changes}
    last_at = max((known[key].to_at for key in newest if key in known), default=None)
    return [
        change
        for key, change in newest.items()
        if last_at is not None and key in known and _is_measured(change, known[key].to_at, last_at)
    ]


def _list_levels(
    changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues]
) -> list[ChangedLevel]:
    """Return the levels of changes with the newest values."""
    return [
        ChangedLevel(
            series_id=change.series_id,
            before_median=change.before_median,
            after_median=change.after_median,
            before_spread=change.before_spread,
            after_spread=change.after_spread,
            newest=known[_key(change)].recent,
        )
        for change in changes
    ]


def _is_measured(change: Change, to_at: datetime, last_at: datetime) -> bool:
    interval = timedelta(seconds=change.evidence.get("interval_s") or 0.0)
    return last_at - to_at <= max(_SILENT_RUNS * interval, timedelta(days=1))


def describe_pooled_levels(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the changes of pooled levels among these changes, each with its series, the most series first."""
    found: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for change in changes:
        if change.method == POOLED_METHOD:
            pooled, scope = change.evidence["pooled"], change.series.scope
            key = (scope, change.metric, pooled["dimension"], pooled["value"])
            found[key] = {
                "scope": scope,
                "dimension": pooled["dimension"],
                "value": pooled["value"],
                "metric": change.metric,
                "series": pooled["members"],
                "changed": pooled["changed"],
                "relative": pooled["median"],
                "text": _describe_pooled(change.metric, pooled, is_rise=change.relative > 0),
            }
    return sorted(found.values(), key=lambda one: (-one["changed"], one["scope"], one["metric"]))


def _describe_pooled(metric: str, pooled: dict[str, Any], *, is_rise: bool) -> str:
    """Return a sentence: "IOPS lower in 36 of 40 series, median −3.0 %"."""
    way = "higher" if is_rise else "lower"
    changed, members = format_integer(pooled["changed"]), format_integer(pooled["members"])
    series = f"{changed} of {members} series"
    if name := pooled["dimension"]:
        is_text = DIMENSIONS[name].kind == "text"
        series += f" with {name_value(name, pooled['value'] if is_text else int(pooled['value']))}"
    return f"{CATALOG[metric].label} {way} in {series}, median {format_signed_percent(pooled['median'])}"


_RANKS: Final = {Severity.LOW: 0, Severity.MEDIUM: 1, Severity.HIGH: 2}
_TITLE_MAXIMUM: Final = 300
# Share of the usual interval within which changes began in the same run: a sweep of a host takes hours.
_SAME_RUN: Final = 0.75
_DESCRIPTION: Final = (
    "title",
    "severity",
    "started_at",
    "metric",
    "relative",
    "metric_sizes",
    "pooled_levels",
    "change_count",
    "common_factors",
    "suspects",
    "updated_at",
)


def refresh_incidents(ids: Iterable[int], events: Events) -> None:
    """Describe these incidents by their changes, and end those whose changes are all withdrawn."""
    for incident in Incident.objects.select_for_update().filter(pk__in=set(ids)).order_by("pk"):
        if incident.merged_into_id is None:
            _refresh(incident, events)


def _refresh(incident: Incident, events: Events) -> None:
    rows = Change.objects.without_steps_of_drifts().filter(incident=incident).select_related("series")
    changes = list(rows.order_by("started_at", "id"))
    live = [change for change in changes if change.state != ChangeState.WITHDRAWN]
    if not live:
        # It retains its size.
        if changes and incident.phase != Phase.OVER:
            incident.recovered_at, incident.course = events.now, Course.SUSPECTED
            incident.save(update_fields=["recovered_at", "course"])
            events.add(incident, "recovered", text=_explain_end(changes), before={"recovered_at": None})
        return
    since = incident.updated_at
    gone = [change for change in changes if change.withdrawn_at and change.withdrawn_at > since]
    _describe(incident, live, events)
    if gone and incident.state != IncidentState.RESOLVED:
        text = f"{len(gone)} of {len(changes)} changes not confirmed by later runs"
        events.add(incident, "withdrawn", text=text)


def _explain_end(changes: Sequence[Change]) -> str:
    """Return why all changes are withdrawn: most of their series have a pattern, or later runs did not confirm them."""
    keys = {_key(change) for change in changes}
    results = DetectionResult.objects.filter(series_id__in={series_id for series_id, _ in keys})
    found = {
        (series_id, metric): seasons
        for series_id, metric, seasons in results.values_list("series_id", "metric", "seasons")
    }
    patterns = [seasons for key in keys if (seasons := found.get(key))]
    if 2 * len(patterns) >= len(keys):
        return "a weekly pattern" if any("weekday" in seasons for seasons in patterns) else "a daily pattern"
    return "not confirmed by later runs"


def _describe(incident: Incident, live: Sequence[Change], events: Events) -> None:
    breadth = measure_breadth(incident)
    counted = _list_counted(live, breadth)
    sizes = measure_sizes(counted)
    # The severity of a recovered incident is that at its recovery.
    if incident.recovered_at is None:
        is_confirmed = incident.course == Course.LASTING or any(
            change.state == ChangeState.CONFIRMED for change in live
        )
        _set_severity(incident, counted, breadth, is_brief=not is_confirmed)
    incident.title = write_title(sizes[0], breadth, slope=find_slope(live))
    incident.started_at = find_start(live, sizes[0].metric)
    incident.metric, incident.relative = sizes[0].metric, sizes[0].relative
    incident.metric_sizes = list_metric_sizes(sizes)
    incident.pooled_levels = describe_pooled_levels(live)
    incident.change_count = len(counted)
    incident.common_factors = breadth.common_factors
    incident.suspects = find_suspects(live)
    incident.updated_at = events.now
    incident.save(update_fields=_DESCRIPTION)


def _list_counted(changes: Sequence[Change], breadth: Breadth) -> list[Change]:
    return [change for change in changes if change.series_id not in breadth.repeated_ids]


def _set_severity(incident: Incident, changes: Sequence[Change], breadth: Breadth, *, is_brief: bool) -> None:
    if not incident.has_manual_severity:
        sizes = measure_sizes(_list_counted(changes, breadth))
        incident.severity = Severity(
            judge_severity(sizes, series=breadth.cells, reach=breadth.reach, is_brief=is_brief)
        )


def measure_sizes(changes: Sequence[Change]) -> tuple[MetricSize, ...]:
    """Return the sizes of changes by metric, the typical metric first.

    The size of a series is its level after the last change, relative to that before the first one.
    """
    of_keys: dict[tuple[int, str], list[Change]] = defaultdict(list)
    for change in sorted(changes, key=lambda change: change.started_at):
        of_keys[_key(change)].append(change)
    return summarize_metrics(
        [
            ChangeSize(series_id, metric, _measure_size(of), SMALLEST_CHANGES[metric], _measure_deviation(of))
            for (series_id, metric), of in of_keys.items()
        ],
        preference=list(CATALOG),
    )


def _measure_size(changes: Sequence[Change]) -> float:
    first, last = changes[0], changes[-1]
    if first is last or not first.before_median:
        return last.relative
    return last.after_median / first.before_median - 1


def _measure_deviation(changes: Sequence[Change]) -> float | None:
    """Return the standard error of a size: of one change, or half of the variance of the first and of the last one."""
    squares = []
    for change in (changes[0], changes[-1]):
        low, high = change.relative_low, change.relative_high
        if low is None or high is None or low <= -1:
            return None
        squares.append(((log1p(high) - log1p(low)) / (2 * INTERVAL_SCORE)) ** 2)
    return sqrt(fmean(squares))


def list_metric_sizes(sizes: Sequence[MetricSize]) -> list[dict[str, Any]]:
    """Return sizes as `Incident.metric_sizes` has them."""
    return [
        {
            "metric": one.metric,
            "series": one.series,
            "relative": one.relative,
            "low": one.low,
            "high": one.high,
            "interval": one.interval,
        }
        for one in sizes
    ]


def find_slope(changes: Sequence[Change]) -> Slope | None:
    """Return the median start and end of the slopes of drifts; None if more series have only steps than drifts.

    It continues if half of them do.
    """
    drifts = [change for change in changes if change.method == DRIFT_METHOD]
    drifting = {change.series_id for change in drifts}
    if not drifts or len({change.series_id for change in changes} - drifting) > len(drifting):
        return None
    slopes = [slope for change in drifts if (slope := read_slope(change.evidence))]
    if not slopes:
        return None
    return Slope(
        median_low(slope.from_at for slope in slopes),
        median_low(slope.to_at for slope in slopes),
        None,
        2 * sum(slope.continues for slope in slopes) >= len(slopes),
    )


def find_start(changes: Sequence[Change], metric: str) -> datetime:
    """Return when the typical change began: the median of the metric, and what began in the same run before it.

    A single change whose place is uncertain, or one of another metric, does not date the incident. Drifts have begun
    with the slope of the title.
    """
    if (slope := find_slope(changes)) is not None:
        return slope.from_at
    starts = [change.started_at for change in changes if change.metric == metric]
    typical = median_low(starts)
    intervals = [interval_s for change in changes if (interval_s := change.evidence.get("interval_s"))]
    reach = timedelta(seconds=_SAME_RUN * median(intervals or [0.0]))
    return min(start for start in starts if typical - start <= reach)


def write_title(typical: MetricSize, breadth: Breadth, *, slope: Slope | None) -> str:
    """Return the title: place, typical metric, median and range of its changes, number of its series, common factor.

    The place is the host or pool, with the target if only one of its targets is affected, or if it stopped. slope: of a
    gradual change.
    """
    scopes = breadth.scopes
    place = scopes[0].partition(":")[2] if len(scopes) == 1 else name_scopes(scopes)
    is_stop = typical.high == -1
    names_target = bool(breadth.target) and (breadth.has_other_targets or is_stop)
    place += f", {breadth.target}" if names_target else ""
    counts = [format_integer(count) for count in (typical.series, breadth.all_cells)]
    cells = f"{' of '.join(counts)} series" if breadth.all_cells > 1 else "1 series"
    size = format_signed_percent(typical.relative)
    if span := format_range(typical.low, typical.high):
        size += f" ({span})"
    if slope is not None:
        verb = "decreased" if typical.relative < 0 else "increased"
        size = f"{verb} by {size.replace('−', '').replace('+', '')} {_write_days(slope)}"
    change = "no I/O" if is_stop else f"{CATALOG[typical.metric].label} {size}"
    title = f"{place}: {change} in {cells}"
    said = ("scope", "target_name") if names_target else ("scope",)
    factors: list[dict[str, Any]] = [one for one in breadth.common_factors if one["dimension"] not in said][
        :1
    ]
    return (f"{title}, {factors[0]['text']}" if factors else title)[:_TITLE_MAXIMUM]


def format_metric_size(size: Mapping[str, Any]) -> str:
    """Format a metric size: "IOPS −15 % (95 % interval −16 to −14 %, each −9.0 to −31 %) in 12 series"."""
    words = []
    if interval := size.get("interval"):
        low, high = map(format_signed_percent, interval)
        words.append(f"95 % interval {low.removesuffix(' %')} to {high}")
    if span := format_range(size["low"], size["high"]):
        words.append(span)
    typical = f"{CATALOG[size['metric']].label} {format_signed_percent(size['relative'])}"
    more = f" ({', '.join(words)})" if words else ""
    return f"{typical}{more} in {format_count(size['series'], 'series')}"


def _write_days(slope: Slope) -> str:
    """Return the days: "between 3 Mar and 2 Apr", "on 3 Mar"; with the year if the slope ends in another one.

    "since 3 Mar, continuing" if it has not ended.
    """
    first, last = slope.from_at.astimezone(UTC), slope.to_at.astimezone(UTC)
    if slope.continues:
        return f"since {first:%-d %b}, continuing,"
    if first.date() == last.date():
        return f"on {first:%-d %b}"
    return f"between {first:%-d %b{'' if first.year == last.year else ' %Y'}} and {last:%-d %b}"
