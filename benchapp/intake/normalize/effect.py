"""What reading stored submissions again changes: series before and after."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from benchapp.intake.normalize.batch import BATCH_BYTES
from benchapp.intake.normalize.preview import plan_all_in_process
from benchapp.intake.normalize.reparse import renormalize_batch
from benchapp.models import Measurement, Series, Submission

# Reading as many results, the newest ones, takes 2 s (measured), in which others of the series wait.
PREVIEW_MAXIMUM: Final = 500


@dataclass(frozen=True, slots=True)
class TargetChange:
    """Series of one target, and the target of their measurements after a change. None: unknown."""

    before: str | None
    after: str | None
    series: int
    measurements: int


@dataclass(frozen=True, slots=True)
class RereadEffect:
    """What reading history again would do. series_before, series_after: of the results that were looked at.

    renamed: series that only get another target; joined: those that become one with others; split: those that become
    several. looked_at: results, the newest; not_looked_at: older ones; unreadable: those without stored output, or
    that cannot be parsed any more, which keep their series.
    """

    targets: tuple[TargetChange, ...]
    series_before: int
    series_after: int
    renamed: int
    joined: int
    split: int
    looked_at: int
    not_looked_at: int
    unreadable: int


def find_reread_effect(
    rows: QuerySet[Submission],
    describe: Callable[[Series], str | None],
    *,
    prepare: Callable[[Sequence[UUID]], None] = lambda ids: None,
    staying: Collection[int] = (),
) -> RereadEffect:
    """Read submissions again, and return the effect; call in a transaction that is rolled back.

    describe: names the target of a series. prepare: changes what is read of these. staying: series that keep other
    runs.
    """
    readable = rows.filter(body__isnull=False).order_by("-received_at", "-id")
    chosen: list[UUID] = []
    size = 0
    for submission_id, body_bytes in readable.values_list("id", "body_bytes")[:PREVIEW_MAXIMUM]:
        size += body_bytes
        if chosen and size > BATCH_BYTES:
            break
        chosen.append(submission_id)
    total, unreadable = readable.count(), rows.filter(body__isnull=True).count()
    measured = Measurement.objects.filter(run__submission__in=chosen)
    before = Series.objects.in_bulk(measured.values_list("series", flat=True).distinct())
    prepare(chosen)
    outcome = renormalize_batch(chosen, plan_all=plan_all_in_process)
    after = Series.objects.in_bulk({new_id for _, new_id in outcome.moves})
    goals: dict[int, set[int]] = defaultdict(set)
    sources: dict[int, set[int]] = defaultdict(set)
    arrived = Counter[int]()
    renamed_ids: set[int] = set()
    series: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
    measurements: Counter[tuple[str | None, str | None]] = Counter()
    for (old_id, new_id), count in outcome.moves.items():
        goals[old_id].add(new_id)
        arrived[new_id] += count
        names = describe(before[old_id]), describe(after[new_id])
        if names[0] != names[1]:
            renamed_ids.add(old_id)
            series[names].add(old_id)
            measurements[names] += count
    with_others = {pk for pk, row in after.items() if pk not in goals and row.measurement_count > arrived[pk]}
    for series_id in with_others | (goals.keys() & set(staying)):
        goals[series_id].add(series_id)
    for old_id, new_ids in goals.items():
        for new_id in new_ids:
            sources[new_id].add(old_id)
    split = {each for each, found in goals.items() if len(found) > 1}
    joined = {each for found in sources.values() if len(found) > 1 for each in found}
    looked_at = outcome.read - len(outcome.rejected)
    return RereadEffect(
        targets=tuple(
            TargetChange(*names, len(ids), measurements[names])
            for names, ids in sorted(series.items(), key=lambda each: str(each[0]))
        ),
        series_before=len(goals),
        series_after=len(sources),
        renamed=len(renamed_ids - split - joined),
        joined=len(joined),
        split=len(split),
        looked_at=looked_at,
        not_looked_at=total - outcome.read,
        unreadable=len(outcome.rejected) + unreadable,
    )
