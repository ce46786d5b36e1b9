"""Common factors: values of one or two dimensions that separate changed series from the others. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

# Minimum share of the changed series with the values, and minimum difference to the share of the others.
_SHARE_MINIMUM: Final = 0.8
_DIFFERENCE_MINIMUM: Final = 0.4
FACTORS_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class CommonFactor:
    """The values of one dimension, or of two, that the changed series have and the others do not.

    share: of the changed series; share_of_others: of the others; coverage: share of changed ones among all series
    with the values; cells: number of these series.
    """

    dimensions: tuple[str, ...]
    values: tuple[Any, ...]
    share: float
    share_of_others: float
    coverage: float
    cells: int

    @property
    def score(self) -> float:
        """Return how well it separates: 1 if all changed series have it, and no other."""
        return self.share - self.share_of_others


def find_common_factors(
    changed: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    dimensions: Sequence[str],
    *,
    paired: Collection[str] = (),
    names: Collection[tuple[str, str]] = (),
    part_of: Mapping[str, str] = MappingProxyType({}),
) -> tuple[CommonFactor, ...]:
    """Return common factors, strongest first; () without any, and if all series changed or only one.

    changed, others: the values of each series by dimension; unknown values (None or "") are ignored. dimensions: the
    one that people recognize first of those that separate as well. paired: dimensions of which two are tried together,
    where that separates better. names: pairs that people say as one, preferred to their members. part_of: the dimension
    whose value includes that of another one, which is left out behind it.
    """
    if len(changed) < 2 or not others:
        return ()
    values = {
        dimension: value
        for dimension in dimensions
        if (value := _find_frequent(changed, dimension)) is not None and value != ""
    }
    singles = [_measure(changed, others, {name: value}) for name, value in values.items()]
    strong = {one.dimensions[0]: one for one in singles if one.share >= _SHARE_MINIMUM}
    pairs = [
        _measure(changed, others, {name: values[name] for name in pair})
        for pair in combinations([name for name in strong if name in paired], 2)
    ]
    ranked = [
        *(one for one in pairs if one.dimensions in names),
        *(one for one in singles if one.dimensions[0] in paired),
        *(one for one in pairs if one.dimensions not in names),
        *(one for one in singles if one.dimensions[0] not in paired),
    ]
    separating = [one for one in ranked if one.share >= _SHARE_MINIMUM and one.score >= _DIFFERENCE_MINIMUM]
    found: list[CommonFactor] = []
    # A stable order: of those that separate about as well the one that people recognize.
    for factor in sorted(separating, key=lambda one: -round(one.score, 1)):
        known = {name for one in found for name in one.dimensions}
        # A pair adds nothing to what one of its members, or of another pair, says as well.
        said = known & set(factor.dimensions) if len(factor.dimensions) > 1 else set()
        if not said and part_of.get(factor.dimensions[0]) not in known:
            found.append(factor)
    return tuple(found[:FACTORS_MAXIMUM])


def _find_frequent(changed: Sequence[Mapping[str, Any]], dimension: str) -> Any:
    counts = Counter(cell[dimension] for cell in changed)
    return max(counts.items(), key=lambda item: (item[1], str(item[0])))[0]


def _measure(
    changed: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
) -> CommonFactor:
    count, others_count = (
        sum(all(cell[name] == value for name, value in values.items()) for cell in cells)
        for cells in (changed, others)
    )
    return CommonFactor(
        tuple(values),
        tuple(values.values()),
        share=count / len(changed),
        share_of_others=others_count / len(others),
        coverage=count / max(count + others_count, 1),
        cells=count + others_count,
    )
