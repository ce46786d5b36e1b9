"""Figures of fio's text: a rounded number, its unit, and the precision of its rounding."""

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from benchapp.fio.notes import Notes
from benchapp.fio.numbers import BIGINT_MAXIMUM
from benchapp.fio.version import UNKNOWN_VERSION, Version

_FIGURE: Final = re.compile(
    r"([0-9]{1,20}+)(?:\.([0-9]{1,9}+))?([KMGTPE]i|[kKMGTPE])?+ ?+(B|bit|b)?+(?:/s)?+"
)
_NOT_NUMBERS: Final = ("nan", "inf")
_EIGHT: Final = 8


class Prefixes(Struct, frozen=True, eq=False):
    """The factors of the prefixes of one kind of figure; compared by identity."""

    factors: Mapping[str, int]


# Since 2.17: Ki is 1024, k and M are powers of 1000.
MODERN: Final = Prefixes(
    {
        "": 1,
        "K": 1000,
        **{prefix: 1000**power for power, prefix in enumerate("kMGTPE", 1)},
        **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", 1)},
    }
)
# Until 2.16 fio's list of prefixes has no T, so that a terabyte prints as P.
OLD_BYTES, OLD_COUNTS = (
    Prefixes(
        {"": 1, "k": base, "T": base**4, **{prefix: base**power for power, prefix in enumerate("KMGPE", 1)}}
    )
    for base in (1024, 1000)
)
# 11.98 prints as 11.0: broken by commit 9e55f2c7 of fio, fixed by c736b361.
_CARRY_LOST: Final[tuple[Version, Version]] = ((2, 20, 0), (3, 26, 0))
# The remainder of 1024 (or 1000) is printed as if it were decimals: 12 345 bytes are "12.57KB".
_DECIMALS_FIXED: Final[Version] = (2, 20, 0)
# fio cuts a count to whole ones before it rounds it to four digits.
_CUT_TO_WHOLE: Final = 1
_UNIT_AND_ROUNDING: Final = 1.06


class Figure(Struct, frozen=True, gc=False):
    """One printed number in base units (bytes, operations).

    step: value of one in its last digit; unit: value of one before the decimal point; prefix: as
    printed ("Ki", "k"), suffix likewise ("B", "bit"); decimals: number of digits after the point; is_round: all
    of them are zeros. conversion: to base units, for people (" in MiB × 1048576"), empty for none.
    """

    value: float
    step: float
    unit: float
    prefix: str
    suffix: str
    decimals: int
    is_round: bool
    conversion: str


class DirectionFindings(Struct):
    """Reasons for missing values, sources of the others, and notes, while a direction is built.

    where: for notes; unprinted: the reason for values without a line.
    """

    notes: Notes
    where: str
    unprinted: str
    missing: dict[str, str] = field(default_factory=dict)
    sources: list[tuple[str, str]] = field(default_factory=list)


class FigureVerdict(Enum):
    """Result of comparing a printed figure with its exact value."""

    AGREES = "agrees"
    CARRY_LOST = "text-carry-lost"
    DECIMALS_ARE_JUNK = "text-decimals-wrong"
    CONTRADICTS = "contradicts"


# Four digits, and storage that does much the same each time: the same texts come again and again.
@lru_cache(maxsize=4096)
def read_figure(text: str, prefixes: Prefixes) -> Figure | None:
    """Return the figure of "33.4k", "69.5MiB" or "592Mibit/s" (in bytes); None for nan and anything else.

    None above 2^63 - 1 too. Cached; the texts are short.
    """
    match = _FIGURE.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, prefix, suffix = match.groups(default="")
    factor = prefixes.factors.get(prefix)
    if factor is None:
        return None
    is_divided = suffix in ("bit", "b")
    unit = factor / _EIGHT if is_divided else factor
    decimals = len(fraction)
    value = int(whole) * unit if not decimals else int(whole + fraction) * unit / 10**decimals
    if value > BIGINT_MAXIMUM:
        return None
    conversion = f" in {prefix}{suffix} × {factor}{' / 8' if is_divided else ''}" if unit != 1 else ""
    step, is_round = unit / 10**decimals, not fraction.strip("0")
    return Figure(value, step, unit, prefix, suffix, decimals, is_round, conversion)


def explain_absence(text: str) -> str:
    """Return the reason code for a figure that could not be read."""
    return "not-a-number" if text.strip().lstrip("-+").lower().startswith(_NOT_NUMBERS) else "out-of-range"


def judge_figure(figure: Figure, exact: float, version: Version, *, tolerance: float = 0) -> FigureVerdict:
    """Compare a printed figure with its exact value (± tolerance), allowing for known faults of its version.

    An unknown version (0, 0, 0) may be any.
    """
    difference = exact - figure.value
    if abs(difference) <= figure.step + _CUT_TO_WHOLE + tolerance:
        return FigureVerdict.AGREES
    is_unknown = version == UNKNOWN_VERSION
    may_lose_carry = is_unknown or _CARRY_LOST[0] <= version < _CARRY_LOST[1]
    if may_lose_carry and looks_cut(figure) and 0 < difference <= figure.unit * _UNIT_AND_ROUNDING:
        return FigureVerdict.CARRY_LOST
    may_be_junk = figure.decimals > 0 and (is_unknown or version < _DECIMALS_FIXED)
    if may_be_junk and math.floor(exact / figure.unit) == math.floor(figure.value / figure.unit):
        return FigureVerdict.DECIMALS_ARE_JUNK
    return FigureVerdict.CONTRADICTS


def looks_cut(figure: Figure) -> bool:
    """Return whether a figure ends in .0, as figures with a lost carry do."""
    return figure.decimals > 0 and figure.is_round
