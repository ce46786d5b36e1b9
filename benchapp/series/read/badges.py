"""Badges for pages and API: codes, and which of them make a mark hollow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.series.validity.badges import CODES, HARMLESS

BADGE_CODES: Final = CODES
HARMLESS_CODES: Final = HARMLESS
# Earlier parsers did not check data quality: a missing badge means nothing.
FIRST_JUDGING_PARSER: Final = 2


@dataclass(frozen=True, slots=True)
class BadgeRow:
    """One badge of a measurement. numbers: the values that it is based on, by name, in base units."""

    code: str
    sentence: str
    numbers: Mapping[str, float]


def make_badges(stored: Sequence[Mapping[str, Any]]) -> tuple[BadgeRow, ...]:
    """Return the badges stored with a Measurement."""
    return tuple(BadgeRow(badge["code"], badge["sentence"], badge["numbers"]) for badge in stored)


def order_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return codes, most severe first; unknown ones last."""
    if not codes:
        return ()
    known = [code for code in CODES if code in codes]
    return (*known, *(code for code in codes if code not in CODES))
