"""Ages, counts, shares and values with units as text."""

from datetime import datetime
from typing import Final, Protocol

from django.utils import timezone

from benchapp.metrics import format_integer as format_integer
from benchapp.metrics import format_value

# Short enough for a table cell; the title has the exact time.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))
_PLURALS: Final = {"series": "series", "study": "studies", "stretch": "stretches"}


class Measured(Protocol):
    """A metric, or a value with its unit."""

    @property
    def unit(self) -> str:
        """Return the base unit."""


def format_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Return the age in its largest unit: "3 d"; "now" below a minute."""
    seconds = ((now or timezone.now()) - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def describe_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Return the age for a sentence: "3 d ago"; "now" below a minute."""
    age = format_age(moment, now=now)
    return age if age == "now" else f"{age} ago"


def format_with_unit(value: float | None, measured: Measured) -> str:
    """Format a value in its base unit for a sentence, with "IOPS" for operations per second."""
    text = format_value(value, measured.unit)
    return f"{text} IOPS" if measured.unit == "operations/s" and value is not None else text


def format_percent(share: float) -> str:
    """Format a share, or the size of a change, with two significant digits: "0.35 %", "3.2 %", "15 %", "120 %"."""
    percent = abs(share) * 100
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def format_signed_percent(relative: float) -> str:
    """Format a relative change with its sign: "+8.3 %", "−20.0 %", "±0.0 %"."""
    sign = "±" if abs(relative) < 0.0005 else "+" if relative > 0 else "−"
    return f"{sign}{abs(relative) * 100:.1f} %"


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun, thin spaces between thousands: "1 run", "5 189 more runs"."""
    *others, last = noun.split(" ")
    word = last if number == 1 else _PLURALS.get(last, f"{last}s")
    return " ".join([format_integer(number), *others, word])
