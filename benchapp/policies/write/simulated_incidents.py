"""Incidents that changes of level would cause: grouped and tested as those of the pipeline, nothing is written."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log1p
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES
from benchapp.detection.rules.noise_profile import BASELINE_RUNS, SeriesState
from benchapp.detection.rules.significance import (
    ChangeClaim,
    ScopeTests,
    count_separated,
    filter_significant,
    find_belonging,
)
from benchapp.detection.write.metric import DetectedChange, MetricResult
from benchapp.incidents.rules.incidents import (
    ChangeSize,
    IncidentSpan,
    Moment,
    cluster_moments,
    find_matching_incident,
    summarize_metrics,
)
from benchapp.incidents.write.candidates import ChangeStart, find_expected, read_families
from benchapp.models import Change, ChangeState

# Runs by which the start of a change may differ from that of the stored one.
_SAME_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class SimulatedChange:
    """A regression of level as a dry run finds it. at: ISO 8601; the other fields as of a candidate."""

    series_id: int
    scope: str
    metric: str
    at: str
    interval_s: float
    relative: float
    chance: float
    separated_before: int
    may_join: bool
    may_open: bool

    @property
    def started_at(self) -> datetime:
        """Return the start."""
        return datetime.fromisoformat(self.at)


@dataclass(frozen=True, slots=True)
class SimulatedIncident:
    """An incident of a dry run. metric, relative: the typical metric and its median; series: changed ones.

    series_id: the series with the largest change of that metric. incident_id: the stored incident with these changes.
    """

    scope: str
    started_at: datetime
    ended_at: datetime
    metric: str
    relative: float
    series: int
    series_id: int
    members: frozenset[int]
    incident_id: int | None

    def is_same(self, other: "SimulatedIncident") -> bool:
        """Return whether another incident of the same host or pool has changes of the same series at the same time."""
        is_near = self.started_at <= other.ended_at and other.started_at <= self.ended_at
        return self.scope == other.scope and is_near and bool(self.members & other.members)


def describe_candidate(
    change: DetectedChange, judged: MetricResult, *, interval_s: float
) -> Mapping[str, Any]:
    """Return the fields of a `SimulatedChange` that decide whether it opens an incident, by the rules of candidates."""
    is_young = change.usual_spread is not None
    may_join = change.is_lasting or is_young or len(judged.values) >= BASELINE_RUNS
    smallest = judged.profile.smallest_change
    is_noisy = judged.state.state == SeriesState.TOO_NOISY and smallest is not None
    exceeds = not is_noisy or abs(log1p(max(change.relative, -0.999999))) > log1p(smallest or 0.0)
    separated = count_separated(
        separation=change.separation,
        t_score=change.t_score or 0.0,
        before_n=change.before.points,
        after_n=change.after.points,
    )
    return {
        "interval_s": interval_s,
        "relative": change.relative,
        "chance": 1.0 if is_young else change.chance,
        "separated_before": 0 if is_young else separated,
        "may_join": may_join,
        "may_open": may_join and exceeds,
    }


def simulate_incidents(changes: Sequence[SimulatedChange]) -> list[SimulatedIncident]:
    """Return the incidents of regressions, by time; expected changes are omitted.

    Each host or pool separately: incidents of several are not merged. Two queries, one for stored incidents, and those
    of planned events.
    """
    expected = find_expected(
        [
            ChangeStart(number, change.series_id, change.metric, is_regression=True, at=change.started_at)
            for number, change in enumerate(changes)
        ]
    )
    by_scope: dict[str, list[SimulatedChange]] = defaultdict(list)
    for number, change in enumerate(changes):
        if number not in expected:
            by_scope[change.scope].append(change)
    families = read_families(list(by_scope))
    known = _read_stored({change.series_id for change in changes})
    found = [
        _describe(members, known)
        for scope, of in sorted(by_scope.items())
        for members in _group(of, families[scope])
    ]
    return sorted(found, key=lambda incident: (incident.started_at, incident.scope))


def _group(changes: Sequence[SimulatedChange], family: ScopeTests) -> Iterator[list[SimulatedChange]]:
    """Yield the changes of each incident of a scope."""
    groups: list[list[SimulatedChange]] = []
    spans: list[IncidentSpan] = []
    moments = [Moment(number, change.started_at, change.interval_s) for number, change in enumerate(changes)]
    for cluster in cluster_moments(moments):
        claims = [_claim(moment.key, changes[moment.key]) for moment in cluster]
        span = find_matching_incident(spans, cluster)
        keys = find_belonging(claims, family) if span else filter_significant(claims, family)
        members = [changes[key] for key in sorted(keys) if changes[key].may_join]
        if not members:
            continue
        if span:
            groups[span.key] += members
        else:
            groups.append(members)
        key = span.key if span else len(groups) - 1
        times = [change.started_at for change in groups[key]]
        spans = [one for one in spans if one.key != key] + [IncidentSpan(key, min(times), max(times))]
    yield from groups


def _claim(key: int, change: SimulatedChange) -> ChangeClaim:
    return ChangeClaim(
        key,
        change.series_id,
        change.chance,
        counts=change.may_open,
        separated_before=change.separated_before,
    )


_Stored = Mapping[tuple[int, str], Sequence[tuple[datetime, int]]]


def _read_stored(series_ids: Collection[int]) -> _Stored:
    """Return start and incident of the stored regressions by series and metric."""
    rows = Change.objects.filter(series_id__in=series_ids, is_regression=True).exclude(incident=None)
    found: dict[tuple[int, str], list[tuple[datetime, int]]] = defaultdict(list)
    for series_id, metric, at, incident_id, merged_into in rows.exclude(
        state=ChangeState.WITHDRAWN
    ).values_list("series_id", "metric", "started_at", "incident_id", "incident__merged_into_id"):
        found[series_id, metric].append((at, merged_into or incident_id))
    return found


def _describe(members: Sequence[SimulatedChange], stored: _Stored) -> SimulatedIncident:
    sizes = summarize_metrics(
        [
            ChangeSize(change.series_id, change.metric, change.relative, SMALLEST_CHANGES[change.metric])
            for change in members
        ],
        preference=list(CATALOG),
    )
    typical = sizes[0]
    largest = max(
        (change for change in members if change.metric == typical.metric),
        key=lambda change: abs(log1p(max(change.relative, -0.999999))),
    )
    incidents = Counter(
        incident_id
        for change in members
        for at, incident_id in stored.get((change.series_id, change.metric), ())
        if abs((at - change.started_at).total_seconds()) <= max(_SAME_RUNS * change.interval_s, 1.0)
    )
    times = [change.started_at for change in members]
    return SimulatedIncident(
        scope=members[0].scope,
        started_at=min(times),
        ended_at=max(times),
        metric=typical.metric,
        relative=typical.relative,
        series=len({change.series_id for change in members}),
        series_id=largest.series_id,
        members=frozenset(change.series_id for change in members),
        incident_id=incidents.most_common(1)[0][0] if incidents else None,
    )
