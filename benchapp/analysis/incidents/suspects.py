"""What else changed: which of the differences around changes came with them, and hardly ever without. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

# Below a fifth of the changes a difference explains nothing of them together.
_LEAST_SHARE: Final = 0.2
# What changes at so many of all steps from run to run anyway (a load, a free space) explains none of them, unless it
# comes with changes three times as often.
_LEAST_LIFT: Final = 3.0
SUSPECTS_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One thing that differs between the last good and the first bad run; None is unknown."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The other hosts, by name, to which the same difference came: those that moved too, and those that stayed fine.

    here: hosts of the changes themselves.
    """

    moved: tuple[str, ...] = ()
    fine: tuple[str, ...] = ()
    here: int = 1


@dataclass(frozen=True, slots=True)
class Suspect:
    """A difference, and how it went with the changes.

    count: of the changes that it came with; share: of all. usual: share of steps from one run to the next at which the
    same thing changes anyway. elsewhere: the other hosts that it came to.
    """

    difference: FactDifference
    count: int
    share: float
    usual: float
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @property
    def weight(self) -> float:
        """Return how likely it is against the others: with more of the changes, more rarely without, hardly elsewhere.

        Hosts that stayed fine count against it, those that moved for it: (moved + ½) / (moved + fine + ½), which is 1
        where none stayed fine; the hosts of the changes moved.
        """
        moved = self.elsewhere.here + len(self.elsewhere.moved) + 0.5
        return self.share * (1 - self.usual) * moved / (moved + len(self.elsewhere.fine))


def rank_suspects(
    differences: Iterable[Sequence[FactDifference]], *, steps: int, moved: Mapping[str, int]
) -> tuple[Suspect, ...]:
    """Return what came with the changes, the likeliest first; () where nothing that is recorded did.

    differences: of each change. steps: from one run to the next of the same hosts, in all that is looked back on;
    moved: at how many of them a thing changed. Likelier is what came with more of them and changes less often; a
    thing that was never seen to change counts as half a step, so that few runs prove little.
    """
    each = [tuple(dict.fromkeys(found)) for found in differences]
    counts = Counter(difference for found in each for difference in found)
    suspects = [
        Suspect(difference, count, count / len(each), _rate(moved.get(difference.name, 0), steps))
        for difference, count in counts.items()
    ]
    believed = [
        suspect
        for suspect in suspects
        if suspect.share >= _LEAST_SHARE and suspect.share >= _LEAST_LIFT * suspect.usual
    ]
    return _order(believed)[:SUSPECTS_MAXIMUM]


def weigh_elsewhere(
    suspects: Iterable[Suspect], elsewhere: Mapping[FactDifference, Elsewhere]
) -> tuple[Suspect, ...]:
    """Return suspects with what became of the other hosts to which they came, the likeliest first."""
    none = Elsewhere()
    return _order([replace(one, elsewhere=elsewhere.get(one.difference, none)) for one in suspects])


def _order(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda s: (-s.weight, "." in s.difference.name, s.difference.name)))


def _rate(moved: int, steps: int) -> float:
    """Return the share of steps; (moved + ½) / (steps + 1), as Krichevsky and Trofimov estimate it."""
    return (moved + 0.5) / (steps + 1)
