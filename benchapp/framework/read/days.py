"""Times in requests, bounds of a day, and the days of a chart."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from django.utils.dateparse import parse_datetime

MOMENTS: Final = "2026-11-21, 2026-11-21T10:00:00Z, 1795255200 (s), 1795255200000 (ms), now, -30d, now-12h"
"""Examples of the times that `parse_moment` reads."""

_RELATIVE: Final = re.compile(r"(?:now)?([+-])(\d{1,6})([smhdw])", re.ASCII)
# Of a chart with a value for each day.
DAYS_MAXIMUM: Final = 366
# The calendar has a year before and after these.
_YEARS: Final = range(1000, 9000)
_DAY: Final = timedelta(days=1)
_MICROSECOND: Final = timedelta(microseconds=1)
# A relative start is parsed before the end is now: the time between does not make another day.
_DELAY: Final = timedelta(minutes=1)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Eight digits are a date of ISO 8601, twelve and fourteen may be meant as date and time: eleven digits of seconds reach
# the year 5138, thirteen of milliseconds are 2001 to 2286.
_SECONDS: Final = re.compile(r"\d{9,11}", re.ASCII)
_MILLISECONDS: Final = re.compile(r"\d{13}", re.ASCII)


class BadDays(ValueError):
    """A time range has more days than a chart shows, or an impossible year; the message names what is valid.

    bound: "from" or "to", which is at fault.
    """

    def __init__(self, bound: str, message: str) -> None:
        super().__init__(message)
        self.bound = bound


@dataclass(frozen=True, slots=True)
class DayRange:
    """Consecutive days of a chart: the last one ends at end_at, exclusive. is_open: until now."""

    end_at: datetime
    count: int
    is_open: bool = True

    @property
    def first(self) -> date:
        """Return the first day (UTC)."""
        return self.last - (self.count - 1) * _DAY

    @property
    def last(self) -> date:
        """Return the last day (UTC)."""
        return self.last_at.astimezone(UTC).date()

    @property
    def last_at(self) -> datetime:
        """Return the last moment, for the label of the last day."""
        return self.end_at - _MICROSECOND

    @property
    def first_at(self) -> datetime:
        """Return the same time on the first day."""
        return self.last_at - (self.count - 1) * _DAY

    @property
    def dates(self) -> list[date]:
        """Return the days (UTC)."""
        return [self.first + place * _DAY for place in range(self.count)]


def make_day_range(
    from_at: datetime | None, to_at: datetime | None, *, now: datetime, usual: int
) -> DayRange:
    """Return the days of a time range, also begun ones; usual: how many without a start. Raises BadDays.

    An end in the future is now, unless the start is, too.
    """
    for name, bound in (("from", from_at), ("to", to_at)):
        if bound is not None and bound.year not in _YEARS:
            raise BadDays(name, f"the year {bound.year} is not from {_YEARS.start} to {_YEARS.stop - 1}")
    is_open = to_at is None or to_at >= now
    if from_at is not None and from_at >= now:
        end_at, is_open = to_at or from_at + _DAY, False
    else:
        end_at = now if is_open or to_at is None else to_at
    if from_at is None:
        return DayRange(end_at, usual, is_open)
    count = max(1, -((from_at + _DELAY - end_at) // _DAY))
    if count > DAYS_MAXIMUM:
        raise BadDays("from", f"{count} days are more than the {DAYS_MAXIMUM} that a chart of days shows")
    if (end_at - from_at) % _DAY > _DELAY:
        # Not of whole days, as a relative one and dates of a zone: the first day (UTC) may be shorter than the rest.
        count = (DayRange(end_at, 1).last - from_at.astimezone(UTC).date()).days + 1
    return DayRange(end_at, count, is_open)


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
