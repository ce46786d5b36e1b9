"""Judge and tell: what is found and the notices of it are written together, so that neither is without the other."""

from django.db import transaction

from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.detect import Judged, judge_due
from benchapp.pipeline.notify import enqueue


@retry_conflicts
@transaction.atomic
def judge_and_tell(*, limit: int = 1000) -> Judged:
    """Judge up to `limit` series that are due, and put what it tells into the outbox; nothing is sent yet."""
    judged = judge_due(limit=limit)
    if judged.event_ids:
        enqueue(judged.event_ids)
    return judged
