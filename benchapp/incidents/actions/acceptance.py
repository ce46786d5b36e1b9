"""Why changes of a series are in an incident or not: the significance test, with its inputs and what it requires."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.detection.rules.significance import (
    FALSE_CHANCE,
    ScopeTests,
    count_required_series,
    find_required_chance,
    measure_joint_chance,
)
from benchapp.incidents.rules.grouping import cluster_moments
from benchapp.incidents.write.candidates import Candidate, read_candidates, read_families
from benchapp.models import Change, ChangeState

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
