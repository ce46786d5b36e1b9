"""Times in requests, and bounds of a day in UTC."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from django.utils.dateparse import parse_datetime

MOMENTS: Final = "2026-11-21, 2026-11-21T10:00:00Z, 1795255200 (s), 1795255200000 (ms), now, -30d, now-12h"
"""Examples of the times that `parse_moment` reads."""

_RELATIVE: Final = re.compile(r"(?:now)?([+-])(\d{1,6})([smhdw])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Eight digits are a date of ISO 8601, twelve and fourteen may be meant as date and time: eleven digits of seconds reach
# the year 5138, thirteen of milliseconds are 2001 to 2286.
_SECONDS: Final = re.compile(r"\d{9,11}", re.ASCII)
_MILLISECONDS: Final = re.compile(r"\d{13}", re.ASCII)


def parse_moment(text: str, *, now: datetime) -> datetime:
    """Return the time in UTC of ISO 8601, seconds or milliseconds since 1970, or a text relative to now.

    ISO 8601 without offset is UTC; a date is its start. Relative: now, now-12h, -30d, +1w; units s, m, h, d, w. Raises
    ValueError with examples.
    """
    text = text.strip()
    try:
        if is_relative_moment(text):
            return now + _read_distance(text)
        if _SECONDS.fullmatch(text):
            return datetime.fromtimestamp(int(text), UTC)
        if _MILLISECONDS.fullmatch(text):
            return datetime.fromtimestamp(int(text) // 1000, UTC) + timedelta(milliseconds=int(text) % 1000)
        moment = parse_datetime(text)
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text[:40]!r} is not a valid time. Examples: {MOMENTS}")


def is_relative_moment(text: str) -> bool:
    """Return whether a text is a time relative to now; spaces around it do not count, as in `parse_moment`."""
    text = text.strip()
    return text == "now" or _RELATIVE.fullmatch(text) is not None


def _read_distance(text: str) -> timedelta:
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return timedelta()
    distance = timedelta(**{_UNITS[found[3]]: int(found[2])})
    return -distance if found[1] == "-" else distance


def start_of_day(day: date | None, *, zone: tzinfo = UTC) -> datetime | None:
    """Return the first moment of a day of a time zone, in UTC; None for None. Raises OverflowError."""
    return None if day is None else datetime.combine(day, time.min, zone).astimezone(UTC)


def end_of_day(day: date | None, *, zone: tzinfo = UTC) -> datetime | None:
    """Return the first moment after a day; None for None and for the last day of the calendar. Raises OverflowError."""
    if day is None or day == date.max:
        return None
    return datetime.combine(day + timedelta(days=1), time.min, zone).astimezone(UTC)
