"""Levels in words: their time range, marks of changes, and kinds of latency."""

from collections.abc import Mapping
from datetime import datetime

from benchapp.catalog.metrics import CATALOG, KIND_NAMES, format_count, format_signed_percent
from benchapp.framework.times import format_day, format_moment
from benchapp.incidents.read.series_status import SeriesMark
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


def describe_kind(kind: str, switched_at: datetime | None) -> str:
    """Return the kind of a level, and since when if values of the other kind came before; "" if unknown."""
    if not kind:
        return ""
    name = f"{KIND_NAMES[kind][0].upper()}{KIND_NAMES[kind][1:]}"
    if switched_at is None:
        return f"{name}."
    (other,) = KIND_NAMES.keys() - {kind}
    return f"{name} since {format_day(switched_at)}; {KIND_NAMES[other]} before is not compared."


def describe_mixed_kinds(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence if a chart has series of both kinds. counts: of the series of each kind."""
    known = [(count, KIND_NAMES[kind]) for kind, count in sorted(counts.items()) if kind and count]
    if len(known) < 2:
        return []
    named = ", ".join(f"{name} of {format_count(count, 'series')}" for count, name in known)
    return [f"Two kinds of latency: {named}. They differ by the submission latency."]
