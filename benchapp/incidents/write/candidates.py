"""Candidates: changes that may belong to incidents, the family of tests for their significance, what explains them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log1p
from typing import Any, Final, NamedTuple

from django.db.models import Count, Q

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.noise_profile import BASELINE_RUNS
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.detection.rules.recovery import find_recoveries
from benchapp.detection.rules.significance import (
    FALSE_CHANCE,
    ChangeClaim,
    ScopeTests,
    count_required_series,
    count_separated,
    find_required_chance,
    measure_joint_chance,
)
from benchapp.incidents.rules.incidents import Moment, cluster_moments
from benchapp.models import (
    Change,
    ChangeState,
    DetectionResult,
    DetectionStatus,
    Host,
    IncidentState,
    PlannedEvent,
    PlannedEventKind,
    Series,
)
from benchapp.models.coverage import match_planned_events

# Changes that began longer before the current batch are not assigned any more.
CHANGES_REACH: Final = timedelta(days=60)
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)
_FIELDS: Final = (
    "id",
    "series_id",
    "series__scope",
    "series__last_at",
    "metric",
    "is_regression",
    "started_at",
    "state",
    "relative",
    "before_median",
    "after_median",
    "incident_id",
    "incident__state",
    "before_n",
    "after_n",
    "evidence__chance",
    "evidence__t_score",
    "evidence__separation",
    "evidence__usual_spread",
    "evidence__interval_s",
)


class _WaitingStep(NamedTuple):
    id: int
    is_regression: bool
    incident_id: int | None
    before_median: float
    after_median: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change as grouping sees it. chance: that noise alone causes it. newest_at: the last run of its series.

    separated_before: runs before a separated change, else 0. may_join: its series has enough runs. may_open: it also
    exceeds the noise of its series.
    """

    change_id: int
    series_id: int
    scope: str
    metric: str
    is_regression: bool
    at: datetime
    newest_at: datetime
    interval_s: float
    chance: float
    separated_before: int
    relative: float
    is_confirmed: bool
    may_join: bool
    may_open: bool
    incident_id: int | None
    is_resolved: bool

    @property
    def moment(self) -> Moment:
        """Return the start of the change."""
        return Moment(self.change_id, self.at, self.interval_s)

    @property
    def claim(self) -> ChangeClaim:
        """Return the change as the significance test sees it."""
        return ChangeClaim(
            self.change_id,
            self.series_id,
            self.chance,
            counts=self.may_open,
            separated_before=self.separated_before,
        )


def read_candidates(
    scopes: Sequence[str], *, around: datetime, reads_results: bool = False
) -> list[Candidate]:
    """Return the live changes of level of these scopes that have an incident or may get one, by time; two queries.

    around: changes from more than 60 days before it are omitted. reads_results: also if all of them have an incident;
    `may_join` and `may_open` are known only then, or if one has none.
    """
    rows = list(
        Change.objects.filter(
            series__scope__in=scopes, state__in=_LIVE, started_at__gte=around - CHANGES_REACH
        )
        .filter(Q(incident=None) | Q(incident__merged_into=None))
        # Drifts have separate incidents (write/grouping.py); pooled changes were tested by their own family.
        .exclude(method__in=(DRIFT_METHOD, POOLED_METHOD))
        .order_by("started_at", "id")
        .values(*_FIELDS)
    )
    lines: dict[tuple[int, str], list[_WaitingStep]] = defaultdict(list)
    for row in rows:
        lines[row["series_id"], row["metric"]].append(
            _WaitingStep(*(row[name] for name in _WaitingStep._fields))
        )
    recoveries = {change_id for line in lines.values() for change_id in find_recoveries(line)}
    is_waiting = reads_results or any(row["incident_id"] is None for row in rows)
    judged = _read_results(rows) if is_waiting else {}
    return [
        _make_candidate(row, judged.get((row["series_id"], row["metric"])))
        for row in rows
        if row["id"] not in recoveries
    ]


def read_pooled_candidates(scopes: Sequence[str], *, around: datetime) -> list[Candidate]:
    """Return the live pooled changes of these scopes, with or without an incident, by time; one query.

    around: changes from more than 60 days before it are omitted.
    """
    rows = Change.objects.filter(series__scope__in=scopes, state__in=_LIVE, method=POOLED_METHOD)
    rows = rows.filter(
        Q(incident=None) | Q(incident__merged_into=None), started_at__gte=around - CHANGES_REACH
    )
    return [_make_candidate(row, None) for row in rows.order_by("started_at", "id").values(*_FIELDS)]


def read_families(scopes: Sequence[str]) -> dict[str, ScopeTests]:
    """Return the family of each scope; two queries."""
    counts = (
        DetectionResult.objects.filter(series__scope__in=scopes)
        .values("series__scope")
        .annotate(tests=Count("id"), series_count=Count("series_id", distinct=True))
        .values_list("series__scope", "tests", "series_count")
    )
    hosts = max(Host.objects.active().count(), 1)
    return {scope: ScopeTests(tests=1, series=1, scopes=hosts) for scope in scopes} | {
        scope: ScopeTests(tests=tests, series=series, scopes=hosts) for scope, tests, series in counts
    }


def _make_candidate(row: Mapping[str, Any], result: DetectionResult | None) -> Candidate:
    is_confirmed = row["state"] == ChangeState.CONFIRMED
    is_young = row["evidence__usual_spread"] is not None
    may_join = result is not None and (is_confirmed or is_young or result.n >= BASELINE_RUNS)
    return Candidate(
        change_id=row["id"],
        series_id=row["series_id"],
        scope=row["series__scope"],
        metric=row["metric"],
        is_regression=row["is_regression"],
        at=row["started_at"],
        newest_at=row["series__last_at"] or row["started_at"],
        interval_s=row["evidence__interval_s"] or 0.0,
        # Noise causes changes of young series about as often as the weakest of others, however certain they are.
        chance=1.0 if is_young or row["evidence__chance"] is None else row["evidence__chance"],
        separated_before=0 if is_young else _count_before_separation(row),
        relative=row["relative"],
        is_confirmed=is_confirmed,
        may_join=may_join,
        may_open=result is not None and may_join and _exceeds_noise(row["relative"], result),
        incident_id=row["incident_id"],
        is_resolved=row["incident__state"] == IncidentState.RESOLVED,
    )


def _count_before_separation(row: Mapping[str, Any]) -> int:
    """Return the runs before a separated change, 0 for others; changes of the first method have no separation."""
    return count_separated(
        separation=row["evidence__separation"] or 0.0,
        t_score=row["evidence__t_score"] or 0.0,
        before_n=row["before_n"],
        after_n=row["after_n"],
    )


def _exceeds_noise(relative: float, result: DetectionResult) -> bool:
    """Return whether a change exceeds the noise of a series that is too noisy."""
    if result.status != DetectionStatus.NOISY or result.smallest_detectable_change is None:
        return True
    # A level of 0 exceeds any noise.
    return relative <= -1 or abs(log1p(relative)) > log1p(result.smallest_detectable_change)


def _read_results(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[int, str], DetectionResult]:
    ids = {row["series_id"] for row in rows}
    if not ids:
        return {}
    return {(row.series_id, row.metric): row for row in DetectionResult.objects.filter(series_id__in=ids)}


@dataclass(frozen=True, slots=True)
class ChangeStart:
    """What decides whether a change is expected; at: when its first run started."""

    change_id: int
    series_id: int
    metric: str
    is_regression: bool
    at: datetime


def find_expected(changes: Sequence[ChangeStart]) -> dict[int, PlannedEvent]:
    """Return the planned event of each change that began within one, by the change's id."""
    if not changes:
        return {}
    times = [change.at for change in changes]
    active = PlannedEvent.objects.meeting(min(times), max(times)).filter(kind=PlannedEventKind.CHANGE)
    matched = match_planned_events(
        active, Series.objects.filter(pk__in={change.series_id for change in changes})
    )
    found = {}
    for change in changes:
        for planned_event in matched.get(change.series_id, ()):
            if planned_event.covers(change.metric, is_regression=change.is_regression, at=change.at):
                found[change.change_id] = planned_event
                break
    return found


# Changes of a metric that are explained, the newest.
EXPLAINED_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class ChangeAcceptance:
    """The significance test of one change of level, with its inputs.

    chance: that noise alone causes the change, according to the detector. is_separated: all values after it are far
    from all values before it, so that its size counts. simultaneous: series of the host or pool that changed in the
    same runs in the same direction, with this one. joint_chance: that noise causes all of these; significant up to
    allowed_chance. tests, series: evaluated metrics and series of the host or pool; hosts: of the fleet.
    required_chance: at which this change alone would be significant. required_series: that would have to change like
    this one; None if all are too few. may_join: the series has enough runs; may_open: the change exceeds its noise.
    """

    change_id: int
    incident_id: int | None
    chance: float
    is_separated: bool
    simultaneous: int
    joint_chance: float
    allowed_chance: float
    tests: int
    series: int
    hosts: int
    required_chance: float
    required_series: int | None
    may_join: bool
    may_open: bool

    @property
    def is_significant(self) -> bool:
        """Return whether noise alone does not explain the simultaneous changes."""
        return self.joint_chance <= self.allowed_chance


def explain_acceptance(series_id: int, metric: str) -> dict[int, ChangeAcceptance]:
    """Return the test of the newest live changes of level of a metric, at most five, by the id of the change.

    Drifts and changes of pooled levels have tests of another kind and are omitted. Five queries, one without changes.
    """
    rows = Change.objects.filter(series_id=series_id, metric=metric).exclude(
        method__in=(DRIFT_METHOD, POOLED_METHOD)
    )
    live = rows.filter(state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED)).order_by(
        "-started_at", "-id"
    )
    newest = list(live.values_list("id", "started_at", "series__scope")[:EXPLAINED_MAXIMUM])
    if not newest:
        return {}
    wanted = {change_id for change_id, _, _ in newest}
    scope = newest[0][2]
    candidates = read_candidates([scope], around=newest[-1][1], reads_results=True)
    family = read_families([scope])[scope]
    found = {}
    for is_regression in (True, False):
        by_key = {one.change_id: one for one in candidates if one.is_regression == is_regression}
        for cluster in cluster_moments(one.moment for one in by_key.values()):
            together = [by_key[moment.key] for moment in cluster]
            for candidate in together:
                if candidate.change_id in wanted:
                    found[candidate.change_id] = _explain(candidate, together, family)
    return found


def _explain(candidate: Candidate, together: Sequence[Candidate], family: ScopeTests) -> ChangeAcceptance:
    return ChangeAcceptance(
        change_id=candidate.change_id,
        incident_id=candidate.incident_id,
        chance=candidate.chance,
        is_separated=candidate.separated_before > 0,
        simultaneous=len({one.series_id for one in together}),
        joint_chance=measure_joint_chance([one.claim for one in together], family),
        allowed_chance=FALSE_CHANCE / max(family.scopes, 1),
        tests=family.tests,
        series=family.series,
        hosts=family.scopes,
        required_chance=find_required_chance(family),
        required_series=count_required_series(candidate.claim, family),
        may_join=candidate.may_join,
        may_open=candidate.may_open,
    )
