"""Axes of the affected matrix: the two dimensions that best separate affected from unaffected series. Pure."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

# Information is compared in steps of this many bits, so that rounding errors decide nothing.
_INFORMATION_DIGITS: Final = 2
# Share of the combinations of two dimensions that have a series in a filled matrix. A dimension with a value for nearly
# every series fills half of a matrix with any flag.
_FILLED_SHARE: Final = 0.6

_Codes = NDArray[np.intp]


def choose_axes(values: Mapping[str, Sequence[Hashable]], affected: Sequence[bool | None]) -> tuple[str, ...]:
    """Return the dimensions of the axes: two; one if no two are independent; () if none varies.

    values: one value per series for each dimension, in the order of preference. affected: one per series; None: not
    evaluated, ignored for the information. Of two axes neither determines the other. Of all such pairs the first
    counts by: at least 60 % of the combinations have a series; the most information about which series are affected
    (mutual information, in bits); the most different combinations, weighted by their series (joint entropy, in bits);
    the order of preference.
    """
    codes = {name: _encode(column) for name, column in values.items()}
    codes = {name: column for name, column in codes.items() if column.size and column.max() > 0}
    outcome = np.array([-1 if one is None else int(one) for one in affected], dtype=np.intp)
    pairs = [pair for pair in combinations(codes, 2) if _are_independent(*(codes[name] for name in pair))]
    if pairs:
        return max(pairs, key=lambda pair: _rank_pair(codes[pair[0]], codes[pair[1]], outcome))
    single = max(codes, key=lambda name: _measure(codes[name], outcome), default=None)
    return () if single is None else (single,)


def determines(one: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """Return whether series with the same value of the first dimension have the same value of the second."""
    return len(set(zip(one, other, strict=True))) == len(set(one))


def _encode(column: Sequence[Hashable]) -> _Codes:
    """Return the values as numbers from 0 without gaps."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(value, len(places)) for value in column], dtype=np.intp)


def _combine(one: _Codes, other: _Codes) -> _Codes:
    return np.unique(one * (other.max() + 1) + other, return_inverse=True)[1]


def _are_independent(one: _Codes, other: _Codes) -> bool:
    return bool(_combine(one, other).max() > max(one.max(), other.max()))


def _rank_pair(one: _Codes, other: _Codes, outcome: _Codes) -> tuple[bool, float, float]:
    cells = _combine(one, other)
    combinations_count = (one.max() + 1) * (other.max() + 1)
    is_filled = bool(cells.max() + 1 >= _FILLED_SHARE * combinations_count)
    return is_filled, *_measure(cells, outcome)


def _measure(cells: _Codes, outcome: _Codes) -> tuple[float, float]:
    """Return the information of the cells about the outcome, and their entropy, both in bits, rounded."""
    judged = outcome >= 0
    inside, result = cells[judged], outcome[judged]
    information = (
        _find_entropy(inside) + _find_entropy(result) - _find_entropy(inside * 2 + result)
        if len(inside)
        else 0
    )
    return round(information, _INFORMATION_DIGITS), round(_find_entropy(cells), _INFORMATION_DIGITS)


def _find_entropy(codes: _Codes) -> float:
    counts = np.bincount(codes)
    shares = counts[counts > 0] / len(codes)
    return float(-(shares * np.log2(shares)).sum())
