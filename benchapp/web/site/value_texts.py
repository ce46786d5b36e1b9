"""Ages, signed changes and values with units as text."""

from datetime import datetime
from typing import Final

from django.utils import timezone

from benchapp.metrics import Metric, format_value

# Short enough for a table cell; the title has the exact time.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))


def say_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Return the age in its largest unit: "3 d"; "now" below a minute."""
    seconds = ((now or timezone.now()) - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def say_signed(relative: float) -> str:
    """Return a relative change in percent with sign: "−15.2 %"."""
    return f"{'−' if relative < 0 else '+'}{abs(relative) * 100:.1f} %"


def with_unit(value: float | None, metric: Metric) -> str:
    """Format a value of a metric for a sentence, with "IOPS" where it has no other unit."""
    shown = format_value(value, metric.unit)
    return f"{shown} IOPS" if metric.unit == "operations/s" and value is not None else shown
