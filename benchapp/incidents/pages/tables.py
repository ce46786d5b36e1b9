"""Incidents and their changes as table rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.pages.value_texts import format_age, format_signed_percent
from benchapp.incidents.actions.accepted_levels import AcceptedLevel
from benchapp.incidents.pages.texts import (
    STATES,
    describe_first_suspect,
    describe_other_hosts,
    format_confidence,
    format_confidence_interval,
    format_fact_name,
    format_level,
)
from benchapp.incidents.read.changes import ChangeRow, SeriesName, find_ended
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.models import ChangeState, Severity

SEVERITIES: Final = {Severity.HIGH: "High", Severity.MEDIUM: "Medium", Severity.LOW: "Low"}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a change. kind: worse or better; sign: direction, so that color is not the only cue."""

    kind: str
    sign: str
    text: str
    interval: str

    @property
    def word(self) -> str:
        """Return the meaning of the color."""
        return "regression" if self.kind == "worse" else "improvement"


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """One incident in the inbox. suspect: "" if no environment change coincides; link: "" without a safe one."""

    row: IncidentRow
    severity: str
    size: Size
    place: str
    is_pool: bool
    suspect: str
    age: str
    link: str


@dataclass(frozen=True, slots=True)
class AffectedSeriesLine:
    """One metric of a series, before and after a change.

    recovery: "recovered from −25 %" if it ends a regression, else ""; ended: that regression.
    """

    row: ChangeRow
    label: str
    before: str
    after: str
    size: Size
    state: str
    confidence: str
    url: str
    recovery: str
    ended: ChangeRow | None


def make_incident_lines(rows: Iterable[IncidentRow]) -> list[IncidentLine]:
    """Return the rows of the inbox."""
    return [make_incident_line(row) for row in rows]


def make_incident_line(row: IncidentRow) -> IncidentLine:
    """Return the row of one incident."""
    kind, _, name = row.scope.partition(":")
    return IncidentLine(
        row=row,
        severity=SEVERITIES[Severity(row.severity)],
        size=make_size(row.relative, *_find_range(row), is_regression=row.is_regression),
        place=name,
        is_pool=kind == "pool",
        suspect=describe_first_suspect(row),
        age=format_age(row.opened_at),
        link=row.link if row.link.startswith(("https://", "http://")) else "",
    )


def _find_range(row: IncidentRow) -> tuple[float | None, float | None]:
    """Return the smallest and the largest change of the typical metric; None if they are the same."""
    low, high = row.relative_low, row.relative_high
    if low is None or high is None or low == high:
        return None, None
    return (low, high) if abs(low) < abs(high) else (high, low)


def make_change_lines(rows: Sequence[ChangeRow]) -> list[AffectedSeriesLine]:
    """Return the rows of an incident's or a series' changes."""
    ended = find_ended(rows)
    return [
        AffectedSeriesLine(
            row=row,
            label=CATALOG[row.metric].short,
            before=format_level(row.before_median, row.metric),
            after=format_level(row.after_median, row.metric),
            size=make_size(
                row.relative, row.relative_low, row.relative_high, is_regression=row.is_regression
            ),
            state=_describe_state(row),
            confidence=format_confidence(row.confidence),
            url=f"{reverse('series', args=[row.series.id])}?{urlencode({'metric': row.metric})}",
            recovery=f"recovered from {format_signed_percent(ended[row.id].relative)}"
            if row.id in ended
            else "",
            ended=ended.get(row.id),
        )
        for row in rows
    ]


def _describe_state(row: ChangeRow) -> str:
    """Describe the state of a change: "confirmed", "drift, confirmed", "provisional, young series"."""
    state = STATES[ChangeState(row.state)]
    if row.is_drift or row.is_pooled:
        return f"{'drift' if row.is_drift else 'pooled'}, {state}"
    return f"{state}, young series" if row.is_young else state


@dataclass(frozen=True, slots=True)
class SuspectLine:
    """An environment change that coincides. share: of the changes; other_hosts: "" if no other host has it.

    is_near: it coincides within a run.
    """

    name: str
    before: str
    after: str
    share: str
    count: str
    other_hosts: str
    is_near: bool


@dataclass(frozen=True, slots=True)
class AcceptedLevelLine:
    """A possible baseline of one metric, as text; from_at: its first run."""

    label: str
    before: str
    after: str
    size: Size
    from_at: datetime


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """One series with possible baselines, one of each metric."""

    series_id: int
    title: str
    place: str
    levels: tuple[AcceptedLevelLine, ...]


def list_suspects(row: IncidentRow) -> list[SuspectLine]:
    """Return coinciding environment changes, most likely cause first."""
    return [
        SuspectLine(
            name=format_fact_name(str(suspect.get("name", ""))),
            before=str(suspect.get("before") or "unknown"),
            after=str(suspect.get("after") or "unknown"),
            share=f"{float(suspect.get('share') or 0):.0%}".replace("%", " %"),
            count=f"{suspect['coincides_with']} of {suspect['changes']}" if suspect.get("changes") else "",
            other_hosts=describe_other_hosts(suspect),
            is_near=bool(suspect.get("is_near")),
        )
        for suspect in row.suspects
    ]


def make_accepted_lines(
    accepted: Sequence[AcceptedLevel], names: Mapping[int, SeriesName]
) -> list[AcceptedLine]:
    """Return the baselines that accepting would set, one row per series; names: by series id."""
    by_series: dict[int, list[AcceptedLevel]] = {}
    for level in accepted:
        by_series.setdefault(level.series_id, []).append(level)
    return [
        AcceptedLine(
            series_id=series_id,
            title=name.workload_title if (name := names.get(series_id)) else f"series {series_id}",
            place=f"{name.scope_name} · {name.target_title}" if name else "",
            levels=tuple(
                AcceptedLevelLine(
                    label=CATALOG[level.metric].short,
                    before=format_level(level.before, level.metric),
                    after=format_level(level.level, level.metric),
                    size=make_size(level.relative, None, None, is_regression=level.is_regression),
                    from_at=level.from_at,
                )
                for level in levels
            ),
        )
        for series_id, levels in by_series.items()
    ]


def make_size(relative: float, low: float | None, high: float | None, *, is_regression: bool) -> Size:
    """Return the size of a change for display."""
    return Size(
        kind="worse" if is_regression else "better",
        sign="▲" if relative > 0 else "▼",
        text=format_signed_percent(relative),
        interval=format_confidence_interval(low, high),
    )
