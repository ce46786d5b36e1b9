"""Group drifts into incidents: one per host or pool and direction, whatever their start, with steps of the slope."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log1p
from statistics import median, median_low
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from benchapp.catalog.grammar import parse_filter
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.significance import ScopeTests, are_significant_drifts
from benchapp.incidents.write.candidates import read_families
from benchapp.incidents.write.events import Events
from benchapp.incidents.write.expected import ChangeStart, Expected, find_expected
from benchapp.incidents.write.merging import find_wide_factor, has_other_factors, merge_incidents
from benchapp.incidents.write.refresh import measure_sizes
from benchapp.models import (
    UNRESOLVED,
    Change,
    ChangeState,
    Incident,
    IncidentEvent,
    IncidentState,
    Series,
    Severity,
    Verdict,
)
from benchapp.models.filtering import match_series

# Maximum length of the slope of a step in noise, as medians of 20 runs show it, and its distance from the step.
_STEP_RUNS: Final = 30
_STEP_MARGIN_RUNS: Final = 10
# Drifts of at most so many series wait if steps explain them: of at least two series, and together of half the size. Of
# more series they wait only if steps of the same series do.
_FEW_SERIES: Final = 2
_EXPLAINING_SERIES: Final = 2
_EXPLAINED_SHARE: Final = 0.5
# Share of the series of steps with a common factor that must drift, too, if most drifting series lack it.
_DRIFTING_SHARE: Final = 0.5
# Share of the changes of an incident from which an environment change is its cause.
_SUSPECT_SHARE: Final = 0.5


def assign_drifts(series_ids: Collection[int], events: Events) -> set[int]:
    """Assign drifts of these series to the open drift incident of their host or pool, or open one; one notice each.

    A new incident needs two series that drift, or one whose 99 % interval exceeds the threshold, and more or clearer
    ones than noise causes in a fleet of this size. Others wait, and so do short slopes where other series of the scope
    have a change of level in an incident, slopes of one or two series that such a change explains, and slopes that
    changes of other metrics of the series explain. Call it under `lock_incidents`, and refresh the returned incidents.
    """
    waiting = Change.objects.filter(method=DRIFT_METHOD, incident=None).exclude(state=ChangeState.WITHDRAWN)
    touched = set(waiting.filter(series_id__in=series_ids).values_list("series__scope", flat=True))
    changes = list(waiting.filter(series__scope__in=touched).order_by("id")) if touched else []
    changes = [change for change in changes if not change.evidence.get("is_back")]
    if not changes:
        return set()
    scopes = dict(
        Series.objects.filter(pk__in={change.series_id for change in changes}).values_list("pk", "scope")
    )
    expected = find_expected([_describe(change) for change in changes])
    groups: dict[tuple[str, bool, int], list[Change]] = defaultdict(list)
    for change in changes:
        planned_event = expected.get(change.pk)
        key = planned_event.planned_event_id if planned_event else 0
        groups[scopes[change.series_id], change.is_regression, key].append(change)
    families = read_families(list(touched))
    assigned: set[int] = set()
    for (scope, is_regression, _), found in sorted(groups.items()):
        all_steps = _read_steps(scope, is_regression=is_regression)
        steps = {change.pk: _list_within(change, all_steps) for change in found}
        members = [change for change in found if not _is_known_step(change, steps[change.pk])]
        if not members:
            continue
        planned_event = expected.get(members[0].pk)
        incident = None if planned_event else _find_open(scope, is_regression=is_regression)
        if incident is None:
            first = [change for change in members if not _has_stepped(change, steps[change.pk])]
            if len({change.series_id for change in first}) <= _FEW_SERIES:
                first = [change for change in first if not _is_explained(change, steps[change.pk])]
            if not _is_significant(first, families[scope]):
                continue
            incident = _open(scope, first, planned_event, events=events)
        Change.objects.filter(pk__in=[change.pk for change in members]).update(incident=incident)
        assigned.add(incident.pk)
    return assigned


@dataclass(frozen=True, slots=True)
class _Step:
    """A change of level that has an incident. size: of the logarithm; factor: a filter, of several hosts or pools."""

    series_id: int
    metric: str
    at: datetime
    size: float
    incident_id: int
    factor: str


def _read_steps(scope: str, *, is_regression: bool) -> list[_Step]:
    """Return the changes of level in incidents of a scope and direction."""
    rows = _list_live_changes().filter(series__scope=scope, is_regression=is_regression)
    rows = rows.exclude(incident=None).exclude(method=DRIFT_METHOD).select_related("incident")
    return [
        _Step(
            step.series_id,
            step.metric,
            step.started_at,
            _measure_size(step.relative),
            step.incident_id or 0,
            find_wide_factor(step.incident) if step.incident else "",
        )
        for step in rows
    ]


def _measure_size(relative: float) -> float:
    return abs(log1p(max(relative, -0.999999)))


def _is_known_step(change: Change, steps: Collection[_Step]) -> bool:
    """Return whether a drift is a step that series of the scope show clearly, and that has an incident.

    steps: those within its slope.
    """
    first, last, interval = _read_slope(change)
    return last - first <= _STEP_RUNS * interval and not _is_slope(change) and bool(steps)


def _has_stepped(change: Change, steps: Collection[_Step]) -> bool:
    """Return whether only other metrics of the series have steps within the slope, and they add up to half of its size.

    A noisy metric shows several steps as one slope. If it has steps, too, the slope was tested against them.
    """
    own = [step for step in steps if step.series_id == change.series_id]
    has_other_metrics = bool(own) and all(step.metric != change.metric for step in own)
    return has_other_metrics and _do_add_up(own, change)


def _is_explained(change: Change, steps: Collection[_Step]) -> bool:
    """Return whether two other series of the scope have steps within the slope that add up to half of its size.

    A noisy series may show steps as a long slope, if at all.
    """
    others = {step.series_id for step in steps} - {change.series_id}
    return not _is_slope(change) and len(others) >= _EXPLAINING_SERIES and _do_add_up(steps, change)


def _do_add_up(steps: Collection[_Step], change: Change) -> bool:
    """Return whether the steps, the median of each incident, add up to half of a drift."""
    sizes: dict[int, list[float]] = defaultdict(list)
    for step in steps:
        sizes[step.incident_id].append(step.size)
    total = sum(median(of_incident) for of_incident in sizes.values())
    return total >= _EXPLAINED_SHARE * _measure_size(change.relative)


def _is_slope(change: Change) -> bool:
    """Return whether the values of a drift were tested against steps, and are a slope."""
    return change.evidence.get("slope_advantage") is not None


def _list_within(change: Change, steps: Collection[_Step]) -> list[_Step]:
    """Return the steps that began within the slope of a drift, or shortly before or after it.

    Without those of incidents with a step of the series before the slope, which it comes in addition to, or with a
    common factor that the series does not have: they concern all hosts with it, and no series without it.
    """
    first, last, interval = _read_slope(change)
    margin = _STEP_MARGIN_RUNS * interval
    own = {step.incident_id for step in steps if step.series_id == change.series_id and step.at <= first}
    within = [
        step for step in steps if step.incident_id not in own and first - margin <= step.at <= last + margin
    ]
    of_series = Series.objects.filter(pk=change.series_id)
    factors = {step.factor for step in within if step.factor}
    others = {
        factor for factor in factors if not of_series.filter(match_series(parse_filter(factor))).exists()
    }
    return [step for step in within if step.factor not in others]


def _read_slope(change: Change) -> tuple[datetime, datetime, timedelta]:
    """Return the first and the last run of the slope of a drift, and the usual interval of its runs."""
    first, last = (datetime.fromisoformat(change.evidence[f"slope_{end}"]) for end in ("from", "to"))
    return first, last, timedelta(seconds=change.evidence["interval_s"])


def _is_significant(members: Sequence[Change], family: ScopeTests) -> bool:
    scores: dict[int, float] = {}
    for change in members:
        # Drifts that were found before scores were stored have only the two intervals.
        known = change.evidence.get("score", 2.6 if change.evidence.get("is_clear") else 2.0)
        scores[change.series_id] = max(known, scores.get(change.series_id, 0.0))
    is_clear = any(change.evidence.get("is_clear") for change in members)
    return (is_clear or len(scores) > 1) and are_significant_drifts(scores.values(), family)


def _find_open(scope: str, *, is_regression: bool) -> Incident | None:
    """Return the oldest open incident of a scope with a drift.

    Not one of several scopes: only what has its common factor is merged into it (pipeline/incidents/merging.py).
    """
    rows = Change.objects.filter(
        method=DRIFT_METHOD,
        is_regression=is_regression,
        series__scope=scope,
        incident__merged_into=None,
        incident__state__in=UNRESOLVED,
    ).exclude(state=ChangeState.WITHDRAWN)
    rows = rows.exclude(incident__scope="")
    row = rows.order_by("incident_id").select_related("incident").first()
    return row.incident if row else None


def absorb_steps(scopes: Collection[str], events: Events) -> set[int]:
    """Merge incidents of steps that are part of a drift of their host or pool into its incident; return that.

    Call it under `lock_incidents`, after the incidents were refreshed, and refresh the returned ones.
    """
    drifting = Incident.objects.filter(
        Exists(_list_live_changes().filter(incident=OuterRef("pk"), method=DRIFT_METHOD)),
        scope__in=scopes,
        is_open=True,
    )
    return {incident.pk for incident in drifting.order_by("pk") if _absorb(incident, events)}


def _absorb(incident: Incident, events: Events) -> bool:
    drifts = list(_list_live_changes().filter(incident=incident, method=DRIFT_METHOD))
    others = Incident.objects.filter(
        scope=incident.scope,
        is_regression=incident.is_regression,
        state=IncidentState.NEW,
        is_open=True,
        assignee=None,
    )
    # What a person separated is not merged again.
    separated = IncidentEvent.objects.filter(incident=OuterRef("pk"), kind__in=("undone", "split"))
    others = others.exclude(pk=incident.pk).exclude(Exists(separated))
    parts = [
        other
        for other in others.order_by("pk")
        if not _has_suspect(other)
        and _is_part(steps := list(_list_live_changes().filter(incident=other)), drifts)
        # A volume type that became slower is no part of the drift of others.
        and (_do_drift(steps, drifts) or not has_other_factors(other, incident))
    ]
    if not parts:
        return False
    count = "1 incident" if len(parts) == 1 else f"{len(parts)} incidents"
    merge_incidents(
        incident, parts, by=None, text=f"{count} merged: steps of the gradual change", now=events.now
    )
    for other in parts:
        events.drop(other.pk)
    return True


def _list_live_changes() -> QuerySet[Change]:
    return Change.objects.exclude(state=ChangeState.WITHDRAWN)


def _has_suspect(incident: Incident) -> bool:
    """Return whether an environment change coincides with most changes: a separate event."""
    return any(suspect["share"] >= _SUSPECT_SHARE for suspect in incident.suspects[:1])


def _is_part(steps: Sequence[Change], drifts: Sequence[Change]) -> bool:
    """Return whether steps are part of the drifts of an incident.

    They began within the slopes, not in more other series than drift, their typical metric drifts, and they are not
    larger than the drifts.
    """
    if not steps or any(step.method == DRIFT_METHOD for step in steps):
        return False
    slopes = [_read_slope(drift) for drift in drifts]
    margin = _STEP_MARGIN_RUNS * median_low(interval for _, _, interval in slopes)
    start = median_low(step.started_at for step in steps)
    if (
        not min(first for first, _, _ in slopes) - margin
        <= start
        <= max(last for _, last, _ in slopes) + margin
    ):
        return False
    drifting = {drift.series_id for drift in drifts}
    if len({step.series_id for step in steps} - drifting) > len(drifting):
        return False
    typical = measure_sizes(steps)[0]
    if all(drift.metric != typical.metric for drift in drifts):
        return False
    return typical.multiple <= measure_sizes(drifts)[0].multiple


def _do_drift(steps: Sequence[Change], drifts: Sequence[Change]) -> bool:
    """Return whether half of the series with steps drift, too."""
    stepped, drifting = ({change.series_id for change in changes} for changes in (steps, drifts))
    return len(stepped & drifting) >= _DRIFTING_SHARE * len(stepped)


def _describe(change: Change) -> ChangeStart:
    return ChangeStart(
        change.pk, change.series_id, change.metric, is_regression=change.is_regression, at=change.started_at
    )


def _open(scope: str, members: Sequence[Change], expected: Expected | None, *, events: Events) -> Incident:
    is_regression = members[0].is_regression
    incident = Incident(
        scope=scope,
        is_regression=is_regression,
        state=IncidentState.RESOLVED if expected else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if expected else None,
        planned_event_id=expected.planned_event_id if expected else None,
        # Set by the refresh at the end of the batch.
        severity=Severity.LOW,
        started_at=min(change.started_at for change in members),
        relative=members[0].relative,
        opened_at=events.now,
        updated_at=events.now,
    )
    incident.save()
    text = f"gradual change; expected: {expected.reason}" if expected else "gradual change"
    events.add(incident, "opened", text=text, is_notified=is_regression and expected is None)
    return incident
