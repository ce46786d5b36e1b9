"""Group changes and drifts into incidents: same scope, same direction; changes also at the same time.

Grouping reads the stored changes, not only those of the batch, so that the order of batches does not matter. Only one
process groups at a time; two would open two incidents for one event. A significant change joins the incident with
simultaneous changes, reopens a recently resolved one with the same series, or opens a new one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log1p
from statistics import median, median_low
from typing import Final

from django.db import transaction
from django.db.models import Exists, Max, Min, OuterRef, Q, QuerySet
from django.utils import timezone

from benchapp.catalog.grammar import parse_filter
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.detection.rules.significance import (
    ScopeTests,
    are_significant_drifts,
    filter_significant,
    find_belonging,
)
from benchapp.framework.write.conflicts import lock_incidents
from benchapp.incidents.rules.incidents import IncidentSpan, cluster_moments, find_matching_incident
from benchapp.incidents.write.candidates import (
    Candidate,
    ChangeStart,
    find_expected,
    read_candidates,
    read_families,
    read_pooled_candidates,
)
from benchapp.incidents.write.incidents import (
    COVERED_SHARE,
    Events,
    has_regressed_again,
    has_unresolved_incidents,
    make_incident,
    measure_sizes,
    refresh_incidents,
    update_courses,
)
from benchapp.incidents.write.merging import find_wide_factor, has_other_factors, merge_incidents, merge_wide
from benchapp.models import (
    UNRESOLVED,
    Change,
    ChangeState,
    Incident,
    IncidentEvent,
    IncidentState,
    PlannedEvent,
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
    expected = find_expected(
        [
            ChangeStart(change.pk, change.series_id, change.metric, change.is_regression, change.started_at)
            for change in changes
        ]
    )
    groups: dict[tuple[str, bool, int], list[Change]] = defaultdict(list)
    for change in changes:
        planned_event = expected.get(change.pk)
        key = planned_event.pk if planned_event else 0
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
            incident = _open_for_drift(scope, first, planned_event, events=events)
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

    Not one of several scopes: only what has its common factor is merged into it (write/merging.py).
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
    """Merge incidents of steps that are part of a drift of their host or pool with its incident; return what remains.

    Call it under `lock_incidents`, after the incidents were refreshed, and refresh the returned ones.
    """
    drifting = Incident.objects.filter(
        Exists(_list_live_changes().filter(incident=OuterRef("pk"), method=DRIFT_METHOD)),
        scope__in=scopes,
        is_open=True,
    )
    return {kept for incident in drifting.order_by("pk") if (kept := _absorb(incident, events))}


def _absorb(incident: Incident, events: Events) -> int | None:
    """Return the incident that remains: the drift's, or the oldest one that a person has taken."""
    drifts = list(_list_live_changes().filter(incident=incident, method=DRIFT_METHOD))
    others = Incident.objects.filter(
        scope=incident.scope,
        is_regression=incident.is_regression,
        state__in=UNRESOLVED,
        is_open=True,
    )
    # What a person separated is not merged again.
    separated = IncidentEvent.objects.filter(kind__in=("undone", "split"))
    others = others.exclude(pk=incident.pk).exclude(Exists(separated.filter(incident=OuterRef("pk"))))
    parts = [
        other
        for other in others.order_by("pk")
        if not _has_suspect(other)
        and _is_part(steps := list(_list_live_changes().filter(incident=other)), drifts)
        # A volume type that became slower is no part of the drift of others.
        and (_do_drift(steps, drifts) or not has_other_factors(other, incident))
    ]
    may_go = not separated.filter(incident=incident).exists()
    kept = next((one for one in (incident, *parts) if _is_taken(one)), incident) if may_go else incident
    merged = [one for one in (incident, *parts) if one.pk != kept.pk and not _is_taken(one)]
    if not merged:
        return None
    count = "1 incident" if len(merged) == 1 else f"{len(merged)} incidents"
    text = "steps of the gradual change" if kept is incident else "the gradual change of its steps"
    merge_incidents(kept, merged, by=None, text=f"{count} merged: {text}", now=events.now)
    return kept.pk


def _is_taken(incident: Incident) -> bool:
    return incident.state != IncidentState.NEW or incident.assignee_id is not None


def _list_live_changes() -> QuerySet[Change]:
    return Change.objects.exclude(state=ChangeState.WITHDRAWN)


def _has_suspect(incident: Incident) -> bool:
    """Return whether an environment change coincides with most changes: a separate event."""
    return any(suspect["share"] >= _SUSPECT_SHARE for suspect in incident.suspects[:1])


def _is_part(steps: Sequence[Change], drifts: Sequence[Change]) -> bool:
    """Return whether steps are part of the drifts of an incident.

    They began within the slopes, or before them and were found after the drifts of their series: the slope of a drift
    that becomes faster begins later. They are not in more other series than drift, their typical metric drifts, and
    they are not larger than the drifts.
    """
    if not steps or any(step.method == DRIFT_METHOD for step in steps):
        return False
    slopes = [_read_slope(drift) for drift in drifts]
    margin = _STEP_MARGIN_RUNS * median_low(interval for _, _, interval in slopes)
    start = median_low(step.started_at for step in steps)
    found = {drift.series_id: drift.found_at for drift in drifts}
    is_later = all(step.series_id in found and step.found_at > found[step.series_id] for step in steps)
    first, last = min(first for first, _, _ in slopes), max(last for _, last, _ in slopes)
    if (start < first - margin and not is_later) or start > last + margin:
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


def _open_for_drift(
    scope: str, members: Sequence[Change], expected: PlannedEvent | None, *, events: Events
) -> Incident:
    is_regression = members[0].is_regression
    incident = Incident(
        scope=scope,
        is_regression=is_regression,
        state=IncidentState.RESOLVED if expected else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if expected else None,
        planned_event_id=expected.pk if expected else None,
        # Set by the refresh at the end of the batch.
        severity=Severity.LOW,
        started_at=min(change.started_at for change in members),
        relative=members[0].relative,
        opened_at=events.now,
        updated_at=events.now,
    )
    incident.save()
    more = f"expected: {expected.reason}" if expected else _name_earlier(members)
    events.add(incident, "opened", text="; ".join(filter(None, ("gradual change", more))))
    return incident


# Runs of some series of an incident that is over until the others are expected to have changed, too.
_DECIDING_RUNS: Final = 5
# Share of the changed metrics that were in the incident; less indicates another event.
_RECURRED_SHARE: Final = 0.5


def read_spans(scope: str, *, is_regression: bool) -> list[IncidentSpan]:
    """Return the open incidents with live changes of a scope, with their time spans."""
    rows = (
        Change.objects.filter(series__scope=scope, is_regression=is_regression, incident__merged_into=None)
        .exclude(state=ChangeState.WITHDRAWN)
        .exclude(method=DRIFT_METHOD)
        .exclude(incident=None)
        .exclude(incident__state=IncidentState.RESOLVED)
        .values("incident_id")
        .annotate(first=Min("started_at"), last=Max("started_at"))
        .values_list("incident_id", "first", "last")
    )
    return [IncidentSpan(*row) for row in rows]


def find_recurred(significant: Sequence[Candidate]) -> Incident | None:
    """Return the unresolved incident whose series mostly changed again in the same direction; locked.

    It has recovered, or was reopened since the changes began. What is resolved is over. Raises _Undecided.
    """
    since = min(candidate.at for candidate in significant)
    reopened = IncidentEvent.objects.filter(kind="reopened", undone_at=None, at__gte=since)
    recovered = Q(incident__recovered_at__isnull=False) | Q(incident__in=reopened.values("incident"))
    cells = {(candidate.series_id, candidate.metric) for candidate in significant}
    rows = (
        Change.objects.filter(
            recovered,
            incident__state__in=UNRESOLVED,
            series_id__in={series_id for series_id, _ in cells},
            is_regression=significant[0].is_regression,
            incident__merged_into=None,
        )
        .exclude(method=DRIFT_METHOD)
        .values_list("incident_id", "series_id", "metric")
        .distinct()
    )
    counts = Counter(incident_id for incident_id, *cell in rows if tuple(cell) in cells)
    if not counts:
        return None
    incident_id, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    if count < _RECURRED_SHARE * len(cells):
        return None
    incident = Incident.objects.select_for_update().get(pk=incident_id)
    affected = set(Change.objects.filter(incident=incident).values_list("series_id", flat=True))
    if len(affected & {series_id for series_id, _ in cells}) >= COVERED_SHARE * len(affected):
        return incident
    # Also where the changes of the others are not found yet.
    if incident.recovered_at is not None and has_regressed_again(incident):
        return incident
    if any(_is_fresh(candidate) for candidate in significant):
        raise _Undecided
    return None


class _Undecided(Exception):
    """Further runs decide whether an incident is bad again, or these changes are another one."""


def _is_fresh(candidate: Candidate) -> bool:
    return candidate.newest_at - candidate.at < _DECIDING_RUNS * timedelta(seconds=candidate.interval_s)


# Changes that began longer before the newest run of their series (an import, a new method) are history: recorded as
# resolved, without notices.
_HISTORY: Final = timedelta(days=30)


def find_open_incident(together: Sequence[Candidate], spans: Sequence[IncidentSpan]) -> int | None:
    """Return the incident with simultaneous changes, or the nearest open one within reach."""
    assigned = [candidate for candidate in together if candidate.incident_id is not None]
    if assigned:
        return min(
            assigned, key=lambda candidate: (candidate.is_resolved, candidate.incident_id or 0)
        ).incident_id
    span = find_matching_incident(spans, [candidate.moment for candidate in together])
    return span.key if span else None


def assign_to_incident(
    significant: Sequence[Candidate], known_id: int | None, expected: PlannedEvent | None, *, events: Events
) -> int | None:
    """Assign significant changes to the known incident, one of the same series, or a new one; return its id.

    None: they wait.
    """
    incident_id = known_id
    if incident_id is None and expected is None:
        try:
            recurred = find_recurred(significant)
        except _Undecided:
            return None
        incident_id = recurred.pk if recurred else None
    if incident_id is None:
        incident_id = _open(significant, expected, events)
    Change.objects.filter(pk__in=[candidate.change_id for candidate in significant]).update(
        incident_id=incident_id
    )
    return incident_id


def _name_earlier(found: Sequence[Candidate] | Sequence[Change]) -> str:
    """Return a text with the newest resolved incident in which most of these metrics changed in the same direction.

    "" without one.
    """
    cells = {(candidate.series_id, candidate.metric) for candidate in found}
    rows = Change.objects.filter(
        series_id__in={series_id for series_id, _ in cells},
        is_regression=found[0].is_regression,
        incident__state=IncidentState.RESOLVED,
        incident__merged_into=None,
    )
    earlier = rows.values_list("incident_id", "series_id", "metric").distinct()
    counts = Counter(incident_id for incident_id, *cell in earlier if tuple(cell) in cells)
    known = [
        incident_id or 0 for incident_id, count in counts.items() if count >= _RECURRED_SHARE * len(cells)
    ]
    return f"the same series as in incident {max(known)}" if known else ""


def _open(significant: Sequence[Candidate], expected: PlannedEvent | None, events: Events) -> int:
    is_history = all(candidate.newest_at - candidate.at > _HISTORY for candidate in significant)
    text = ""
    if expected:
        text = f"expected: {expected.reason}"
    elif is_history:
        text = "found in history: began more than 30 days before the newest run"
    else:
        text = _name_earlier(significant)
    is_over = bool(expected) or is_history
    incident = Incident(
        scope=significant[0].scope,
        is_regression=significant[0].is_regression,
        state=IncidentState.RESOLVED if is_over else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if is_over else None,
        planned_event_id=expected.pk if expected else None,
    )
    return make_incident(incident, significant, events=events, text=text)


@transaction.atomic
def group_changes(
    change_ids: Iterable[int], series_ids: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Group changes with the simultaneous ones of their scopes, and update their incidents; safe to run again.

    Return the updated incidents, and the events to notify about. series_ids: the evaluated series. Open incidents with
    changes in them may have recovered, also without written ones, and those of written changes: a pooled one is
    evaluated with the last series of a sweep.
    """
    rows = Change.objects.filter(pk__in=list(change_ids))
    touched = list(rows.values_list("series__scope", "incident_id", "started_at", "method", "series_id"))
    if not touched and not has_unresolved_incidents(series_ids):
        return (), ()
    lock_incidents()
    events = Events(timezone.now())
    if not touched:
        return tuple(sorted(update_courses(series_ids, events))), tuple(events.ids)
    scopes = sorted({scope for scope, *_ in touched})
    known = {incident_id for _, incident_id, *_ in touched if incident_id is not None}
    around = min(started_at for _, _, started_at, *_ in touched)
    candidates = read_candidates(scopes, around=around)
    joined = _assign_all(candidates, read_families(scopes), events)
    # After the changes of single series: a pooled change joins their incident.
    if any(method == POOLED_METHOD for *_, method, _ in touched):
        joined |= _assign_pooled(read_pooled_candidates(scopes, around=around), events)
    # After the changes of level, which explain some drifts.
    joined |= assign_drifts(series_ids, events)
    refresh_incidents(known | joined, events)
    # Steps of several hosts at once are no part of the drift of one of them, which is merged with the steps on its way
    # before it is merged with other drifts.
    wide = merge_wide(known | joined, events, is_drift=False)
    drifting = absorb_steps(scopes, events)
    wide |= merge_wide(known | joined | drifting, events, is_drift=True)
    refresh_incidents(wide | drifting, events)
    moved = update_courses({*series_ids, *(series_id for *_, series_id in touched)}, events)
    return tuple(sorted(known | joined | drifting | wide | moved)), tuple(events.ids)


def _assign_all(candidates: Sequence[Candidate], families: dict[str, ScopeTests], events: Events) -> set[int]:
    """Assign each significant candidate to an incident; return the updated incidents."""
    if all(candidate.incident_id is not None for candidate in candidates):
        return set()
    touched = set()
    for members, planned_event in _divide(candidates):
        if any(candidate.incident_id is None for candidate in members):
            touched |= _assign_members(members, families[members[0].scope], planned_event, events=events)
    return touched


def _assign_pooled(candidates: Sequence[Candidate], events: Events) -> set[int]:
    """Assign pooled changes, which are significant, to the incident of the same event, or open one."""
    touched = set()
    for members, expected in _divide(candidates):
        by_key = {candidate.change_id: candidate for candidate in members}
        spans = [] if expected else read_spans(members[0].scope, is_regression=members[0].is_regression)
        for cluster in cluster_moments(candidate.moment for candidate in members):
            together = [by_key[moment.key] for moment in cluster]
            waiting = [candidate for candidate in together if candidate.incident_id is None]
            if waiting:
                known_id = find_open_incident(together, spans)
                incident_id = assign_to_incident(waiting, known_id, expected, events=events)
                if incident_id is not None:
                    touched.add(incident_id)
    return touched


def _divide(candidates: Sequence[Candidate]) -> Iterator[tuple[list[Candidate], PlannedEvent | None]]:
    """Yield the changes of each scope and direction, expected ones separately, with their planned event."""
    if not candidates:
        return
    expected = find_expected([_describe(candidate) for candidate in candidates])
    groups: dict[tuple[str, bool, int], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        planned_event = expected.get(candidate.change_id)
        key = (
            candidate.scope,
            candidate.is_regression,
            planned_event.pk if planned_event else 0,
        )
        groups[key].append(candidate)
    for _, members in sorted(groups.items()):
        yield members, expected.get(members[0].change_id)


def _describe(candidate: Candidate) -> ChangeStart:
    return ChangeStart(
        candidate.change_id,
        candidate.series_id,
        candidate.metric,
        is_regression=candidate.is_regression,
        at=candidate.at,
    )


def _assign_members(
    members: Sequence[Candidate], family: ScopeTests, expected: PlannedEvent | None, *, events: Events
) -> set[int]:
    """Assign simultaneous changes of one scope and direction; expected changes join expected ones only."""
    by_key = {candidate.change_id: candidate for candidate in members}
    spans = [] if expected else read_spans(members[0].scope, is_regression=members[0].is_regression)
    touched = set()
    for cluster in cluster_moments(candidate.moment for candidate in members):
        together = [by_key[moment.key] for moment in cluster]
        known_id = find_open_incident(together, spans)
        significant = _filter_significant(together, family, is_known=known_id is not None)
        if significant:
            incident_id = assign_to_incident(significant, known_id, expected, events=events)
            if incident_id is not None:
                spans.append(IncidentSpan(incident_id, cluster[0].at, cluster[-1].at))
                touched.add(incident_id)
    return touched


def _filter_significant(
    together: Sequence[Candidate], family: ScopeTests, *, is_known: bool
) -> list[Candidate]:
    """Return the significant changes without incident, or those that belong to a known incident."""
    claims = [candidate.claim for candidate in together]
    if is_known:
        keys = find_belonging(claims, family)
    else:
        keys = filter_significant(claims, family)
    return [
        candidate
        for candidate in together
        if candidate.incident_id is None and candidate.may_join and candidate.change_id in keys
    ]
