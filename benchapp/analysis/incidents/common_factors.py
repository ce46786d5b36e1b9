"""Common factors: dimension values that separate changed series from the others. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Minimum share of the changed series with the value, and minimum difference to the share of the others.
_SHARE_MINIMUM: Final = 0.8
_DIFFERENCE_MINIMUM: Final = 0.4
FACTORS_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class CommonFactor:
    """A dimension value of the changed series that the others do not have.

    share: of the changed series; share_of_others: of the others; coverage: share of changed ones among all series
    with the value; cells: number of these series.
    """

    dimension: str
    value: Any
    share: float
    share_of_others: float
    coverage: float
    cells: int

    @property
    def score(self) -> float:
        """Return how well it separates: 1 if all changed series have it, and no other."""
        return self.share - self.share_of_others


def find_common_factors(
    changed: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], dimensions: Iterable[str]
) -> tuple[CommonFactor, ...]:
    """Return common factors, strongest first; () without any, and if all series changed or only one.

    changed, others: the values of each series by dimension; unknown values (None or "") are ignored.
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
    separating = [one for one in found if one.share >= _SHARE_MINIMUM and one.score >= _DIFFERENCE_MINIMUM]
    # A stable order: of two dimensions with the same values (RAID level and stripes) the first one in the registry.
    return tuple(sorted(separating, key=lambda one: -one.score)[:FACTORS_MAXIMUM])
