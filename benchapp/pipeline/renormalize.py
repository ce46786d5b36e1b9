"""Read stored submissions again with the parser of today, and say what changes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.models import Series, State, Submission
from benchapp.pipeline.normalize import Rejection, lock_sources, plan_or_reject
from benchapp.pipeline.plan import Plan
from benchapp.pipeline.reading_changes import Difference, compare_rows, read_rows
from benchapp.pipeline.store import store_plans

_BATCH_SIZE: Final = 50


@dataclass(slots=True)
class Outcome:
    """What reading again did, or would do. lost: points that each series has fewer, by its id; negative: more."""

    read: int = 0
    unchanged: int = 0
    differences: list[Difference] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)
    recovered: int = 0
    series_ids: set[int] = field(default_factory=set)
    lost: Counter[int] = field(default_factory=Counter)


def select_submissions(
    *, ids: Sequence[UUID] = (), only_older: bool = False, include_rejected: bool = False
) -> list[UUID]:
    """Return the settled submissions whose body is kept, oldest first.

    only_older: leave out what this parser's version has read already.
    """
    rows = Submission.objects.filter(body__isnull=False, state=State.STORED)
    if include_rejected:
        rows = Submission.objects.filter(body__isnull=False).exclude(state=State.RECEIVED)
    if ids:
        rows = Submission.objects.filter(body__isnull=False, id__in=ids).exclude(state=State.RECEIVED)
    if only_older:
        rows = rows.filter(Q(parser_version__lt=PARSER_VERSION) | Q(parser_version__isnull=True))
    return list(rows.order_by("received_at", "id").values_list("id", flat=True))


def renormalize(ids: Sequence[UUID], *, is_dry_run: bool) -> Iterator[Outcome]:
    """Read these submissions again, a transaction per 50, and yield what each batch did.

    A run keeps its id, a stored submission that can no longer be read keeps its runs and is reported, a rejected
    one that now can be read becomes stored. A dry run rolls every batch back.
    """
    for start in range(0, len(ids), _BATCH_SIZE):
        with transaction.atomic():
            outcome = _renormalize_batch(ids[start : start + _BATCH_SIZE])
            if is_dry_run:
                transaction.set_rollback(True)
        yield outcome


def count_emptied(lost: Mapping[int, int], *, is_dry_run: bool) -> int:
    """Return how many series have no point left, or would have none; lost: of all batches together.

    Such a series stays as a row, so that its key keeps its id, and is in no list.
    """
    fewer = {series_id: count for series_id, count in lost.items() if count > 0}
    counts = Series.objects.filter(pk__in=fewer).values_list("pk", "measurement_count")
    return sum(count == (fewer[series_id] if is_dry_run else 0) for series_id, count in counts)


def _renormalize_batch(ids: Sequence[UUID]) -> Outcome:
    outcome = Outcome()
    plans: list[Plan] = []
    for source in lock_sources(ids, state=None):
        outcome.read += 1
        planned = plan_or_reject(source)
        if isinstance(planned, Plan):
            plans.append(planned)
        else:
            outcome.refused.append(planned)
    planned_ids = [plan.source.submission_id for plan in plans]
    before = read_rows(planned_ids)
    outcome.series_ids.update(store_plans(plans).series_ids)
    after = read_rows(planned_ids)
    for submission_id in planned_ids:
        differences = list(compare_rows(submission_id, before[submission_id], after[submission_id]))
        outcome.differences.extend(differences)
        outcome.unchanged += not differences
        outcome.lost.update(before[submission_id].count_points())
        outcome.lost.subtract(after[submission_id].count_points())
    outcome.recovered = _settle(planned_ids)
    return outcome


def _settle(ids: Sequence[UUID]) -> int:
    recovered = Submission.objects.filter(id__in=ids, state=State.REJECTED).update(
        state=State.STORED,
        reason_code="",
        reason="",
        settled_at=timezone.now(),
        parser_version=PARSER_VERSION,
    )
    Submission.objects.filter(id__in=ids, state=State.STORED).update(parser_version=PARSER_VERSION)
    return recovered
