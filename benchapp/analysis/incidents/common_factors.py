"""Which dimension tells the cells that changed from those that did not. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# A value that fewer of the changed cells have, or so many of the others, explains nothing.
_LEAST_SHARE: Final = 0.8
_LEAST_DIFFERENCE: Final = 0.4
EXPLANATIONS_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class CommonFactor:
    """A dimension's value that the changed cells have, and the others have not.

    share: of the changed cells that have it; share_of_others: of the others; coverage: of all that have it those that
    changed.
    """

    dimension: str
    value: Any
    share: float
    share_of_others: float
    coverage: float
    cells: int

    @property
    def score(self) -> float:
        """Return how well it tells them apart: 1 where all that changed have it, and no other."""
        return self.share - self.share_of_others


def explain_cells(
    changed: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], dimensions: Iterable[str]
) -> tuple[CommonFactor, ...]:
    """Return what explains most first; () where nothing does, where all cells changed, or only one did.

    changed, others: the values of each cell by dimension; what is unknown (None or "") explains nothing.
    """
    if len(changed) < 2 or not others:
        return ()
    found = []
    for dimension in dimensions:
        counts = Counter(cell[dimension] for cell in changed)
        value, count = max(counts.items(), key=lambda item: (item[1], str(item[0])))
        if value is None or value == "":
            continue
        others_count = sum(cell[dimension] == value for cell in others)
        found.append(
            CommonFactor(
                dimension,
                value,
                share=count / len(changed),
                share_of_others=others_count / len(others),
                coverage=count / (count + others_count),
                cells=count + others_count,
            )
        )
    telling = [one for one in found if one.share >= _LEAST_SHARE and one.score >= _LEAST_DIFFERENCE]
    # A stable order: of two dimensions that say the same (a RAID level and its stripes) the registry's first one.
    return tuple(sorted(telling, key=lambda one: -one.score)[:EXPLANATIONS_MAXIMUM])
