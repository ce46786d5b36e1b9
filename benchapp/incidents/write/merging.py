"""Merge incidents: on request, or automatically if scopes changed by as much, with the same suspect or factor."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

from django.db.models import Exists, OuterRef

from benchapp.catalog.grammar import parse_filter
from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.rules.incidents import find_event_window, measure_multiple
from benchapp.incidents.write.common_factors import read_intervals, write_factor_filter
from benchapp.incidents.write.incidents import Events, describe_state, find_slope, write_event
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, Slope, User
from benchapp.models.filtering import match_series


def merge_incidents(
    target: Incident, others: Sequence[Incident], *, by: User | None, text: str, now: datetime
) -> IncidentEvent:
    """Move all changes of the others to `target`, close them, and return the event of `target`, which undo uses.

    `refresh_incidents` updates `target` afterwards. Call it under `lock_incidents`.
    """
    ids = [other.pk for other in others]
    changes_from: dict[str, list[int]] = defaultdict(list)
    moved = Change.objects.filter(incident_id__in=ids).order_by("id").values_list("id", "incident_id")
    for change_id, incident_id in moved:
        changes_from[str(incident_id)].append(change_id)
    Change.objects.filter(incident_id__in=ids).update(incident=target)
    before = {
        "scope": target.scope,
        "changes_from": dict(changes_from),
        "closed": {str(other.pk): describe_state(other) for other in others},
    }
    for other in others:
        _close(other, target, by=by, now=now)
    if any(other.scope != target.scope for other in others):
        target.scope = ""
    target.updated_at = now
    target.save(update_fields=["scope", "updated_at"])
    return write_event(target, "merged", by=by, text=text, before=before, now=now)


def _close(other: Incident, target: Incident, *, by: User | None, now: datetime) -> None:
    other.state, other.merged_into = IncidentState.RESOLVED, target
    other.resolved_at = other.updated_at = now
    other.change_count = 0
    other.save(update_fields=["state", "merged_into", "resolved_at", "updated_at", "change_count"])
    # Undone by the event of the target, therefore without `before`.
    write_event(other, "merged", by=by, text=f"merged into incident {target.pk}", now=now)


# Scopes from which simultaneous changes are not coincidental; two with a suspect that no unaffected host has.
_SCOPES_MINIMUM: Final = 3
_SCOPES_WITH_CAUSE: Final = 2
# Share of an incident's changes with which the suspect must coincide.
_SHARE_MINIMUM: Final = 0.5
# Time within which an environment change reaches the next host of a fleet.
_ROLLOUT: Final = timedelta(days=3)
# Sizes of one event: by multiple of the threshold, or by difference.
_SAME_SIZE: Final = 1.5
_SAME_POINTS: Final = 0.03
# Share of the shorter slope in which two drifts are one.
_OVERLAP: Final = 0.5
# Share of an incident's series that must have the common factor of another one. On a host where the factor was found in
# some of its series only, one of four may have changed by chance.
_COVERED_SHARE: Final = 0.75
# Common factors of one scope only.
_OF_ONE_SCOPE: Final = ("scope", "host", "pool", "target_name")

_HAS_DRIFT: Final = Exists(Change.objects.filter(incident=OuterRef("pk"), method=DRIFT_METHOD))

Sign = tuple[str | None, ...]


def merge_wide(ids: Iterable[int], events: Events, *, is_drift: bool) -> set[int]:
    """Merge incidents of several scopes into one with scope "", and return those with changes.

    is_drift: merge those with drifts, otherwise those without; drifts have no common start and are merged with drifts,
    by common factors. Only incidents without triage are merged; one that was opened in the same batch sends one notice.
    """
    merged = set()
    rows = Incident.objects.filter(_HAS_DRIFT if is_drift else ~_HAS_DRIFT, pk__in=list(ids))
    for incident in rows.order_by("pk"):
        # It may have been merged in this loop.
        incident.refresh_from_db(fields=["merged_into", "state"])
        if incident.merged_into_id is None and _is_untouched(incident):
            signs = [sign for sign in _list_signatures(incident) if not is_drift or sign[0] == "factor"]
            targets = (_merge_alike(incident, sign, events, is_drift=is_drift) for sign in signs)
            target = next((target for target in targets if target is not None), None)
            if target is None:
                target = _merge_by_factor(incident, events, is_drift=is_drift)
            merged.add(target)
    return {target for target in merged if target is not None}


def _list_signatures(incident: Incident) -> list[Sign]:
    """Return what identifies a wider event: the first suspect, if it coincides with most changes, and the common
    factors."""
    cause = _find_cause(incident)
    return [*([cause] if cause else []), *_list_factors(incident)]


def _find_cause(incident: Incident) -> Sign | None:
    """Return the first suspect, if it coincides with most changes."""
    first = incident.suspects[0] if incident.suspects else None
    if first is None or first["share"] < _SHARE_MINIMUM:
        return None
    return ("suspect", first["name"], first["before"], first["after"])


def _is_same_event(incident: Incident, other: Incident, causes: Collection[Sign | None]) -> bool:
    """Return whether two incidents are of one size, and of one of these causes, or both of none of them."""
    own, its = (cause if (cause := _find_cause(each)) in causes else None for each in (incident, other))
    return own == its and _is_same_size(incident, other)


def _is_same_size(incident: Incident, other: Incident) -> bool:
    sizes = {size["metric"]: size["relative"] for size in other.metric_sizes}
    common = [size for size in incident.metric_sizes if size["metric"] in sizes]
    if not common:
        return True
    metric, relative = common[0]["metric"], common[0]["relative"]
    multiples = [measure_multiple(each, SMALLEST_CHANGES[metric]) for each in (relative, sizes[metric])]
    is_close = abs(relative - sizes[metric]) <= _SAME_POINTS
    return relative * sizes[metric] > 0 and (is_close or max(multiples) <= _SAME_SIZE * min(multiples))


def _list_factors(incident: Incident) -> list[Sign]:
    factors = (one for one in incident.common_factors if one["dimension"] not in _OF_ONE_SCOPE)
    return [("factor", write_factor_filter(one)) for one in factors]


def has_other_factors(incident: Incident, other: Incident) -> bool:
    """Return whether an incident has common factors, and most series of another one have none of them."""
    factors = _list_factors(incident)
    return bool(factors) and not any(_is_covered(other, factor) for factor in factors)


def find_wide_factor(incident: Incident) -> str:
    """Return the first common factor of an incident of several scopes as a filter; "" without any."""
    factors = _list_factors(incident) if incident.scope == "" else []
    return next((filter for _, filter in factors if filter), "")


def _merge_alike(incident: Incident, sign: Sign, events: Events, *, is_drift: bool) -> int | None:
    near = _find_near(incident, is_drift=is_drift, is_rollout=sign[0] == "suspect")
    alike = [other for other in near if sign in _list_signatures(other)]
    if sign[0] == "factor" and len(alike) > 1:
        # Besides two with the factor, one with too few series for any counts, too, if the factor covers most of them.
        known = {other.pk for other in alike}
        alike += [other for other in near if other.pk not in known and _is_covered(other, sign)]
    # The cause of several is none of the others.
    counts = Counter(_find_cause(other) for other in alike)
    causes = {_find_cause(other) for other in alike if other.scope == "" or counts[_find_cause(other)] > 1}
    alike = [other for other in alike if _is_same_event(incident, other, causes)]
    wide = next((other for other in alike if other.scope == ""), None)
    has_cause = sign[0] == "suspect" and not any(other.suspects[0]["hosts_unaffected"] for other in alike)
    needed = _SCOPES_WITH_CAUSE if has_cause else _SCOPES_MINIMUM
    if len({other.scope for other in alike}) < (_SCOPES_WITH_CAUSE if wide else needed):
        return None
    reason = "same common factor" if sign[0] == "factor" else "same environment change"
    return _merge(wide, alike, reason, events=events)


def _merge_by_factor(incident: Incident, events: Events, *, is_drift: bool) -> int | None:
    """Merge an incident with too few series for a common factor into a wide one whose factor covers most of them."""
    for wide in (other for other in _find_near(incident, is_drift=is_drift) if other.scope == ""):
        if _is_same_event(incident, wide, {_find_cause(wide)}) and any(
            _is_covered(incident, factor) for factor in _list_factors(wide)
        ):
            return _merge(wide, [wide, incident], "same common factor", events=events)
    return None


def _is_covered(incident: Incident, factor: Sign) -> bool:
    """Return whether most series of an incident have a common factor of another one."""
    _, filter = factor
    changes = Change.objects.filter(incident=incident).exclude(state=ChangeState.WITHDRAWN)
    changed = set(changes.values_list("series_id", flat=True))
    condition = match_series(parse_filter(filter or ""), "series__")
    covered = set(changes.filter(condition).values_list("series_id", flat=True))
    return bool(changed) and len(covered) >= _COVERED_SHARE * len(changed)


def _is_untouched(incident: Incident) -> bool:
    is_open = incident.state == IncidentState.NEW and incident.recovered_at is None
    return is_open and incident.scope != "" and incident.assignee_id is None


def _find_near(incident: Incident, *, is_drift: bool, is_rollout: bool = False) -> list[Incident]:
    """Return the open incidents of the same time, itself too: changes of level that began together, or drifts together.

    is_rollout: an environment change, which reaches the next host of a fleet within three days.
    """
    is_open = Incident.objects.filter(
        state=IncidentState.NEW, is_regression=incident.is_regression, is_open=True, assignee=None
    ).order_by("pk")
    if is_drift:
        return _list_overlapping(incident, is_open.filter(_HAS_DRIFT))
    window = find_event_window(read_intervals(incident))
    if is_rollout:
        window = max(window, _ROLLOUT)
    # An incident is dated by its typical metric, which may begin five runs (1.25 windows) before or after the median of
    # all changes that is compared below.
    reach = 4 * window
    began = (incident.started_at - reach, incident.started_at + reach)
    near = list(is_open.filter(~_HAS_DRIFT, started_at__range=began))
    changes = _read_live_changes([incident.pk, *(other.pk for other in near)])
    starts = {key: sorted(change.started_at for change in of) for key, of in changes.items()}
    start = median_low(starts.get(incident.pk, [incident.started_at]))
    found = []
    for other in near:
        of = starts.get(other.pk, [other.started_at])
        # An environment change that reaches host after host began with the first one, and goes on with the last one.
        first, last = (of[0], of[-1]) if is_rollout else (median_low(of), median_low(of))
        if first - window <= start <= last + window:
            found.append(other)
    return found


def _list_overlapping(incident: Incident, others: Iterable[Incident]) -> list[Incident]:
    """Return the incidents of drifts whose slopes overlap that of an incident, by half of the shorter one."""
    found = list(others)
    changes = _read_live_changes([incident.pk, *(other.pk for other in found)])
    slopes = {key: find_slope(of) for key, of in changes.items()}
    slope = slopes.get(incident.pk)
    return [other for other in found if _do_overlap(slope, slopes.get(other.pk))]


def _do_overlap(one: Slope | None, other: Slope | None) -> bool:
    if one is None or other is None:
        return False
    shared = min(one.to_at, other.to_at) - max(one.from_at, other.from_at)
    shorter = min(one.to_at - one.from_at, other.to_at - other.from_at)
    return shared >= _OVERLAP * shorter and shared > timedelta(0)


def _read_live_changes(incident_ids: Sequence[int]) -> dict[int, list[Change]]:
    """Return the live changes by incident; one query."""
    live = Change.objects.filter(incident__in=incident_ids).exclude(state=ChangeState.WITHDRAWN)
    found: dict[int, list[Change]] = defaultdict(list)
    for change in live.only("incident_id", "started_at", "method", "evidence"):
        found[change.incident_id or 0].append(change)
    return found


def _merge(wide: Incident | None, alike: Sequence[Incident], reason: str, *, events: Events) -> int:
    target = wide or alike[0]
    others = [other for other in alike if other.pk != target.pk]
    count = "1 incident" if len(others) == 1 else f"{len(others)} incidents"
    merge_incidents(target, others, by=None, text=f"{count} merged: {reason}", now=events.now)
    return target.pk
