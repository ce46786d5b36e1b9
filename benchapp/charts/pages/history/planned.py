"""Planned events of a history chart as a list, and the link to add a note."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.charts.pages.history.request import HistoryRequest, write_query
from benchapp.framework.pages.filter_forms import write_scopes
from benchapp.framework.times import to_iso
from benchapp.incidents.read.maintenance import PlannedMark, PlannedMarks
from benchapp.series.read.series import SeriesRow


@dataclass(frozen=True, slots=True)
class PlannedLine:
    """A planned event. names: of the chart's series that it matches; empty for all of them."""

    mark: PlannedMark
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedLines:
    """Context of `_planned_events.html`, latest start first. left_out: older events. add_url: of the form of a note."""

    lines: tuple[PlannedLine, ...]
    left_out: int
    add_url: str


def make_planned_lines(marks: PlannedMarks, names: Mapping[int, str], *, add_url: str) -> PlannedLines:
    """Return the list. names: of the chart's series, by id."""
    lines = (PlannedLine(mark, _name_series(mark, names)) for mark in marks.items)
    return PlannedLines(tuple(lines), marks.left_out, add_url)


def link_note_form(
    asked: HistoryRequest, rows: Sequence[SeriesRow], *, filter: Filter, return_to: str
) -> str:
    """Return the address of the form for a note with the chart's filter and time.

    filter: of the chart; a chart of series by id has their hosts and pools instead. The time is the range of the chart;
    without one, that of the newest run. return_to: address to go back to.
    """
    latest_at = max((row.last_at for row in rows), default=None)
    from_at = asked.from_at or (None if asked.to_at else latest_at)
    query = write_query(
        kind="note",
        filter=write_filter(filter.without_facts())
        if asked.ids is None
        else write_scopes(sorted({row.scope for row in rows})),
        **{
            name: to_iso(moment)
            for name, moment in {"from": from_at, "to": asked.to_at}.items()
            if moment is not None
        },
        next=return_to,
    )
    return f"{reverse('add_planned_event')}?{query}"


def _name_series(mark: PlannedMark, names: Mapping[int, str]) -> tuple[str, ...]:
    if len(mark.series_ids) == len(names):
        return ()
    return tuple(names[series_id] for series_id in names if series_id in mark.series_ids)
