"""What else changed: which of the differences around changes came with them, and hardly ever without. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Below a fifth of the changes a difference explains nothing of them together.
_LEAST_SHARE: Final = 0.2
# What changes at so many of all steps from run to run anyway (a load, a free space) explains none of them, unless it
# comes with changes three times as often.
_LEAST_LIFT: Final = 3.0
SUSPECTS_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs between the last good and the first bad run; None is unknown."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A difference, and how it went with the changes.

    share: of the changes that it came with. usual: share of steps from one run to the next at which the same thing
    changes anyway.
    """

    difference: Difference
    share: float
    usual: float


def rank_suspects(
    differences: Iterable[Sequence[Difference]], *, steps: int, moved: Mapping[str, int]
) -> tuple[Suspect, ...]:
    """Return what came with the changes, the likeliest first; () where nothing that is recorded did.

    differences: of each change. steps: from one run to the next of the same hosts, in all that is looked back on;
    moved: at how many of them a thing changed. Likelier is what came with more of them and changes less often; a
    thing that was never seen to change counts as half a step, so that few runs prove little.
    """
    each = [tuple(dict.fromkeys(found)) for found in differences]
    counts = Counter(difference for found in each for difference in found)
    suspects = [
        Suspect(difference, count / len(each), _rate(moved.get(difference.name, 0), steps))
        for difference, count in counts.items()
    ]
    believed = [
        suspect
        for suspect in suspects
        if suspect.share >= _LEAST_SHARE and suspect.share >= _LEAST_LIFT * suspect.usual
    ]
    ranked = sorted(
        believed, key=lambda s: (-s.share * (1 - s.usual), "." in s.difference.name, s.difference.name)
    )
    return tuple(ranked[:SUSPECTS_MAXIMUM])


def _rate(moved: int, steps: int) -> float:
    """Return the share of steps; (moved + ½) / (steps + 1), as Krichevsky and Trofimov estimate it."""
    return (moved + 0.5) / (steps + 1)
