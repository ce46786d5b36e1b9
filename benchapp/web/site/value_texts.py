"""Ages, counts, shares and values with units as text."""

from datetime import datetime
from typing import Final

from django.utils import timezone

from benchapp.metrics import format_count as format_count
from benchapp.metrics import format_integer as format_integer
from benchapp.metrics import format_percent as format_percent
from benchapp.metrics import format_signed_percent as format_signed_percent
from benchapp.metrics import format_with_unit as format_with_unit

# Short enough for a table cell; the title has the exact time.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))


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
