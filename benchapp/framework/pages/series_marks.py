"""The mark of a series with an open or accepted change, the same on every page."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from django.urls import reverse
from django.utils import timezone

from benchapp.charts.texts.levels import describe_mark
from benchapp.incidents.read.series_status import ScopeMark, SeriesMark

MarkKind = Literal["worse", "better", "settled"]
_TITLES: Final = {
    "open": "open incident",
    "recovered": "recovered: the values are back at the level before",
    "accepted": "accepted as the new baseline",
    "muted": "muted, an expected change",
}


@dataclass(frozen=True, slots=True)
class ShownMark:
    """A mark as a page shows it. kind: "worse", "better" (of an open incident) or "settled"; url: of its incident."""

    text: str
    title: str
    kind: MarkKind
    url: str


def show_mark(mark: SeriesMark | None, *, metric: str, now: datetime | None = None) -> ShownMark | None:
    """Return the mark of a series on a page about a metric: "▼ −21.7 % since 8 Nov", with the year of another year."""
    if mark is None:
        return None
    is_this_year = mark.started_at.year == (now or timezone.now()).year
    text = describe_mark(mark, metric=metric, has_year=not is_this_year)
    kind: MarkKind = "settled" if mark.state != "open" else "worse" if mark.is_regression else "better"
    return ShownMark(
        text,
        f"Incident {mark.incident_id}: {_TITLES[mark.state]}",
        kind,
        reverse("incident", args=[mark.incident_id]),
    )


def show_scope_mark(mark: ScopeMark | None) -> ShownMark | None:
    """Return the largest open regression of a host or pool: "▼ IOPS −21.7 % since 8 Nov"."""
    return None if mark is None else show_mark(mark.largest, metric="")
