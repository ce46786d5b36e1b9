"""Suspects: environment changes that coincide with changes of level, and are otherwise rare. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

# Minimum share of the changes that a difference coincides with.
_SHARE_MINIMUM: Final = 0.2
# Minimum ratio of that share to the base rate of the difference (load and free space change all the time).
_LIFT_MINIMUM: Final = 3.0
SUSPECTS_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One fact that differs between the last good and the first bad run; None is unknown."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Other hosts with the same difference, by name: regressed and unaffected ones.

    here: number of affected hosts.
    """

    regressed: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()
    here: int = 1


@dataclass(frozen=True, slots=True)
class Suspect:
    """A difference and its relation to the changes.

    count: changes that it coincides with; share: of all. usual: base rate, the share of steps from run to run with a
    change of the same fact. elsewhere: other hosts with the difference.
    """

    difference: FactDifference
    count: int
    share: float
    usual: float
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @property
    def weight(self) -> float:
        """Return the rank weight: share × (1 − base rate) × (r + ½) / (r + u + 1) for r regressed, u unaffected hosts.

        The affected hosts count as regressed. The last factor is the estimate of Krichevsky and Trofimov of the share
        of hosts that regress: one host alone is ¾, a second one raises it.
        """
        regressed = self.elsewhere.here + len(self.elsewhere.regressed)
        hosts = regressed + len(self.elsewhere.unaffected)
        return self.share * (1 - self.usual) * _estimate_share(regressed, hosts)


def rank_suspects(
    differences: Iterable[Sequence[FactDifference]], *, steps: int, step_counts: Mapping[str, int]
) -> tuple[Suspect, ...]:
    """Return the suspects, most likely first; () without a recorded difference.

    differences: of each change. steps: number of steps from run to run of the same hosts; step_counts: number of
    steps with a change of the fact, by name. A fact without a change counts as half a step, so that few runs prove
    little.
    """
    each = [tuple(dict.fromkeys(found)) for found in differences]
    counts = Counter(difference for found in each for difference in found)
    suspects = [
        Suspect(
            difference, count, count / len(each), _estimate_share(step_counts.get(difference.name, 0), steps)
        )
        for difference, count in counts.items()
    ]
    significant = [
        suspect
        for suspect in suspects
        if suspect.share >= _SHARE_MINIMUM and suspect.share >= _LIFT_MINIMUM * suspect.usual
    ]
    return _order(significant)[:SUSPECTS_MAXIMUM]


def weigh_elsewhere(
    suspects: Iterable[Suspect], elsewhere: Mapping[FactDifference, Elsewhere]
) -> tuple[Suspect, ...]:
    """Return suspects with their counter-evidence, most likely first."""
    none = Elsewhere()
    return _order([replace(one, elsewhere=elsewhere.get(one.difference, none)) for one in suspects])


def _order(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda s: (-s.weight, "." in s.difference.name, s.difference.name)))


def _estimate_share(count: int, total: int) -> float:
    """Return count of total by the estimator of Krichevsky and Trofimov, (count + ½) / (total + 1)."""
    return (count + 0.5) / (total + 1)
