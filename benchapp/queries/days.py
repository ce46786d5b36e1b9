"""Bounds of a day in UTC."""

from datetime import UTC, date, datetime, time, timedelta


def start_of_day(day: date | None) -> datetime | None:
    """Return the first moment of a day; None for None."""
    return None if day is None else datetime.combine(day, time.min, UTC)


def end_of_day(day: date | None) -> datetime | None:
    """Return the first moment after a day; None for None and for the last day of the calendar."""
    if day is None or day == date.max:
        return None
    return datetime.combine(day, time.min, UTC) + timedelta(days=1)
