"""The badges as the pages and the API know them: their codes, and which of them cast doubt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.analysis.validity.badges import CODES, HARMLESS, is_doubtful

__all__ = [
    "BADGE_CODES",
    "FIRST_JUDGING_PARSER",
    "HARMLESS_CODES",
    "BadgeRow",
    "is_doubtful",
    "make_badges",
    "order_codes",
]

BADGE_CODES: Final = CODES
HARMLESS_CODES: Final = HARMLESS
# What an earlier parser read was never judged: that it bears no badge means nothing.
FIRST_JUDGING_PARSER: Final = 2


@dataclass(frozen=True, slots=True)
class BadgeRow:
    """One badge of a measurement. numbers: what it rests on, in base units, by name."""

    code: str
    sentence: str
    numbers: Mapping[str, float]


def make_badges(kept: Sequence[Mapping[str, Any]]) -> tuple[BadgeRow, ...]:
    """Return the badges as a row of Measurement keeps them."""
    return tuple(BadgeRow(badge["code"], badge["sentence"], badge["numbers"]) for badge in kept)


def order_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return codes with the gravest first; those of another version behind them."""
    known = [code for code in CODES if code in codes]
    return (*known, *(code for code in codes if code not in CODES))
