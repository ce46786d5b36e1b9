"""Recovery of incidents: by the weight of the evidence of all their series, after each evaluation of one of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

from django.db.models import QuerySet

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD, UPDATED_SLOTS
from benchapp.detection.rules.recovery import (
    RUNS_MAXIMUM,
    RUNS_MINIMUM,
    ChangedLevel,
    count_returned_runs,
    have_changed_again,
    have_returned,
)
from benchapp.framework.times import format_utc_moment
from benchapp.incidents.write.events import Events, reopen_incident
from benchapp.models import (
    UNRESOLVED,
    Change,
    ChangeState,
    Incident,
    IncidentEvent,
    Measurement,
    NewestValues,
)

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
_FLAPPING: Final = "regressed again after a recovery"


def has_unresolved_incidents(series_ids: Collection[int]) -> bool:
    """Return whether one of these series has a change in an unresolved incident; one query."""
    return _list_unresolved(series_ids).exists()


def update_recoveries(series_ids: Collection[int], events: Events) -> set[int]:
    """Record the recoveries of unresolved incidents with changes in these series, and regressions after a recovery.

    Their levels must be stored. Call it under `lock_incidents`. Return the incidents that recovered or regressed again.
    """
    touched = _list_unresolved(series_ids).values_list("incident_id", flat=True)
    changes: dict[int, list[Change]] = defaultdict(list)
    for change in Change.objects.stated().filter(incident_id__in=set(touched)).order_by("started_at", "id"):
        changes[change.incident_id or 0].append(change)
    known = _read_newest(change for of in changes.values() for change in of)
    incidents = Incident.objects.select_for_update().filter(pk__in=changes).order_by("pk")
    return {incident.pk for incident in incidents if _update(incident, changes[incident.pk], known, events)}


def _list_unresolved(series_ids: Collection[int]) -> QuerySet[Change]:
    """Return the live changes of these series in unresolved incidents."""
    rows = Change.objects.exclude(state=ChangeState.WITHDRAWN)
    return rows.filter(series_id__in=series_ids, incident__state__in=UNRESOLVED, incident__merged_into=None)


def _update(
    incident: Incident,
    changes: Sequence[Change],
    known: Mapping[tuple[int, str], NewestValues],
    events: Events,
) -> bool:
    if incident.recovered_at is None:
        if not _is_back(changes, known):
            return False
        incident.recovered_at = _find_return(_list_measured(changes, known)) or events.now
        incident.save(update_fields=["recovered_at"])
        text = f"back at the earlier level since {format_utc_moment(incident.recovered_at)}"
        # What is over when it is found sends nothing.
        is_notified = incident.is_regression and incident.pk not in events.to_notify
        events.drop(incident.pk)
        events.add(incident, "recovered", text=text, before={"recovered_at": None}, is_notified=is_notified)
        return True
    if not _has_regressed_again(incident, changes, known, runs=count_bad_runs(incident)):
        return False
    reopen_incident(incident, events, text=_FLAPPING)
    return True


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


def _find_return(changes: Sequence[Change]) -> datetime | None:
    """Return the start of the first run that is back: the median of the largest changes; a query for each of these."""
    moments = []
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
    return median_low(moments) if moments else None


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


def count_bad_runs(incident: Incident) -> int:
    """Return how many runs must be bad to reopen an incident: 3, and twice as many after each reopening, at most 20."""
    reopened = IncidentEvent.objects.filter(incident=incident, kind="reopened", by=None, undone_at=None)
    return min(RUNS_MINIMUM << reopened.count(), RUNS_MAXIMUM)


def are_bad(change_ids: Collection[int], *, runs: int) -> bool:
    """Return whether the newest runs of changed series are at their new levels, by the weight of all; two queries."""
    changes = list(Change.objects.filter(pk__in=change_ids).order_by("started_at", "id"))
    known = _read_newest(changes)
    return have_changed_again(
        _list_levels(_list_measured(changes, known), known), runs=runs, is_detected=True
    )


def has_regressed_again(incident: Incident, *, runs: int = RUNS_MINIMUM) -> bool:
    """Return whether the newest runs of an incident that is over are bad, by the weight of all; a few queries."""
    rows = Change.objects.stated().filter(incident=incident)
    changes = list(rows.order_by("started_at", "id"))
    return bool(changes) and _has_regressed_again(incident, changes, _read_newest(changes), runs=runs)


def _has_regressed_again(
    incident: Incident, changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues], *, runs: int
) -> bool:
    if not _is_bad_again(changes, known, runs=runs):
        return False
    elsewhere = _find_series_elsewhere(incident, changes)
    if not elsewhere:
        return True
    own = [change for change in changes if change.series_id not in elsewhere]
    left = len({change.series_id for change in own})
    return left >= COVERED_SHARE * (left + len(elsewhere)) and _is_bad_again(own, known, runs=runs)


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


def _is_bad_again(
    changes: Sequence[Change], known: Mapping[tuple[int, str], NewestValues], *, runs: int
) -> bool:
    steps = _list_steps(changes)
    if len(steps) == len(changes):
        return have_changed_again(_list_levels(_list_measured(steps, known), known), runs=runs)
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
