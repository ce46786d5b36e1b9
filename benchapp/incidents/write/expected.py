"""Which changes are expected: a planned event covers their series, metric, direction and start."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from benchapp.models import PlannedEvent, PlannedEventKind, Series
from benchapp.models.planned_event_filtering import match_planned_events


@dataclass(frozen=True, slots=True)
class ChangeStart:
    """What decides whether a change is expected; at: when its first run started."""

    change_id: int
    series_id: int
    metric: str
    is_regression: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Expected:
    """The planned event that a change falls under."""

    planned_event_id: int
    reason: str


def find_expected(changes: Sequence[ChangeStart]) -> dict[int, Expected]:
    """Return the planned event of each change that began within one, by the change's id."""
    if not changes:
        return {}
    times = [change.at for change in changes]
    active = PlannedEvent.objects.meeting(min(times), max(times)).filter(kind=PlannedEventKind.CHANGE)
    matched = match_planned_events(
        active, Series.objects.filter(pk__in={change.series_id for change in changes})
    )
    found = {}
    for change in changes:
        for planned_event in matched.get(change.series_id, ()):
            if planned_event.covers(change.metric, is_regression=change.is_regression, at=change.at):
                found[change.change_id] = Expected(planned_event.pk, planned_event.reason)
                break
    return found
