"""The time range of charts with one number for each series, in words."""

from benchapp.queries.series.level_range import LevelRange
from benchapp.times import format_moment


def describe_level_range(span: LevelRange) -> str:
    """Return what the numbers are: "levels as of 8 Nov 2026 00:00 UTC; series with runs since …"; "" if it is open."""
    parts = [f"levels as of {format_moment(span.to_at)}"] if span.to_at else []
    parts += [f"series with runs since {format_moment(span.from_at)}"] if span.from_at else []
    return "; ".join(parts)
