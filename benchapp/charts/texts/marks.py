"""The text of a mark: the open or accepted change of a series."""

from benchapp.catalog.metrics import CATALOG, format_signed_percent
from benchapp.framework.times import format_day
from benchapp.incidents.read.series_status import SeriesMark


def describe_mark(mark: SeriesMark, *, metric: str, has_year: bool) -> str:
    """Return the text of a mark in a chart of a metric: "▼ −21.7 % since 8 Nov"; with the name of another metric."""
    name = "" if mark.metric == metric else f"{CATALOG[mark.metric].label} "
    size = f"{name}{format_signed_percent(mark.relative)}"
    day = format_day(mark.started_at, has_year=has_year)
    return {
        "open": f"{'▲' if mark.relative > 0 else '▼'} {size} since {day}",
        "recovered": f"recovered from {size}",
        "accepted": f"accepted {size} on {day}",
        "muted": f"muted {size} on {day}",
    }[mark.state]
