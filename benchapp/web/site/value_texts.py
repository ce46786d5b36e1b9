"""TODO docstring."""

from datetime import datetime
from typing import Final

from django.utils import timezone

from benchapp.metrics import Metric, format_value

# Short enough for a cell; the title has the moment itself.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))


def say_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Say how old a measurement is in its largest unit: "3 d"; "now" below a minute."""
    seconds = ((now or timezone.now()) - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def say_signed(relative: float) -> str:
    """Say a size with its sign: "−15.2 %"."""
    return f"{'−' if relative < 0 else '+'}{abs(relative) * 100:.1f} %"


def with_unit(value: float | None, metric: Metric) -> str:
    """Show a value of a metric in a sentence, where a bare number of IOPS needs its word."""
    shown = format_value(value, metric.unit)
    return f"{shown} IOPS" if metric.unit == "operations/s" and value is not None else shown
