"""Steps of triage together with what they tell: the event and its notices are there both or neither."""

from collections.abc import Callable, Sequence

from django.db import transaction

from benchapp.models import IncidentEvent
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.notify import enqueue

Step = Callable[[], IncidentEvent]


@retry_conflicts
@transaction.atomic
def take_steps(steps: Sequence[Step]) -> tuple[IncidentEvent, ...]:
    """Take some steps, all or none, put their notices into the outbox, and return their events.

    Raises what the first step raises that cannot be taken.
    """
    events = tuple(step() for step in steps)
    enqueue([event.pk for event in events])
    return events
