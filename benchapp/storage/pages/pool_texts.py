"""Texts of the series that a move to a pool joins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, UNKNOWN, format_count, format_signed_percent, format_with_unit
from benchapp.storage.read.pool_joins import SeriesJoin

_ROWS_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class SeriesJoinLine:
    """A row of the table."""

    row: SeriesJoin
    median: str
    other_median: str
    difference: str


def describe_joins(joins: Sequence[SeriesJoin]) -> dict[str, Any]:
    """Return the context of the table: the largest differences, and a warning if the series do not agree."""
    apart = [each for each in joins if each.is_apart]
    bad = sum(bool(each.incidents or each.other_incidents) for each in joins)
    warning = ""
    if apart or bad:
        largest = f", by {format_signed_percent(apart[0].relative or 0.0)} at most" if apart else ""
        warning = (
            f"{len(apart)} of {format_count(len(joins), 'joined series')} would mix different"
            f" levels{largest}; {bad} with an open incident. A series of a pool has the results of all of its hosts."
        )
    return {
        "joins": [_make_line(each) for each in joins[:_ROWS_MAXIMUM]],
        "more_joins": len(joins[_ROWS_MAXIMUM:]),
        "joins_warning": warning,
    }


def _make_line(join: SeriesJoin) -> SeriesJoinLine:
    return SeriesJoinLine(
        join,
        _format_median(join.median, join.metric),
        _format_median(join.other_median, join.metric),
        UNKNOWN if join.relative is None else format_signed_percent(join.relative),
    )


def _format_median(value: float | None, metric: str) -> str:
    return format_with_unit(value, CATALOG[metric]) if metric else UNKNOWN
