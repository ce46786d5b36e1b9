"""The time range of charts with one number for each series, in words."""

from benchapp.catalog.metrics import format_count
from benchapp.framework.times import format_moment
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, LevelRange


def describe_level_range(span: LevelRange) -> str:
    """Return what the numbers are: "levels as of 8 Nov 2026 00:00 UTC; series with runs since …"; "" if it is open."""
    parts = [f"levels as of {format_moment(span.to_at)}"] if span.to_at else []
    parts += [f"series with runs since {format_moment(span.from_at)}"] if span.from_at else []
    return "; ".join(parts)


def describe_past_limit(use: str) -> str:
    """Return the limit of a past end: "Only the most recent 2 000 series are used for an earlier period."."""
    return (
        f"Only the most recent {format_count(PAST_SERIES_MAXIMUM, 'series')} are {use} for an earlier period."
    )
