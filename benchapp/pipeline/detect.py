"""Judge series as their runs arrive: claim, read, look, reconcile, group; one transaction, the same rows however often.

Whoever changes what counts of measurements marks their series (`judging_is_due`) in the same transaction. A judge that
is killed leaves nothing behind but the mark; two at once take different series.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from benchapp.models import ChangeState, Series
from benchapp.pipeline.detect_rows import (
    Row,
    insert_changes,
    read_baselines,
    read_changes,
    update_changes,
    upsert_judgements,
)
from benchapp.pipeline.detect_series import Outcome, cut_metric, judge_series_metric
from benchapp.pipeline.drift import judge_drift
from benchapp.pipeline.group import group_changes, lock_incidents
from benchapp.pipeline.judged_values import READ_METRICS, Claimed, claim_due, lock_series, read_histories


@dataclass(frozen=True, slots=True)
class Transition:
    """What became of one change; before None: it is new."""

    change_id: int
    series_id: int
    metric: str
    started_at: datetime
    relative: float
    before: ChangeState | None
    after: ChangeState


@dataclass(frozen=True, slots=True)
class Judged:
    """What one batch did: series looked at, changes made, moved or withdrawn, incidents touched.

    event_ids: of the incident events that somebody may want to be told of. transitions: those changes whose state is
    another one.
    """

    series_ids: tuple[int, ...] = ()
    change_ids: tuple[int, ...] = ()
    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()
    transitions: tuple[Transition, ...] = ()


def has_judging_due() -> bool:
    """Say whether any series waits to be judged."""
    return Series.objects.filter(judging_is_due=True).exists()


@transaction.atomic
def judge_due(*, limit: int = 1000) -> Judged:
    """Judge up to `limit` series that are due, and group what is found; `series_ids` is empty where none is left.

    Bounded by measurements too: long histories come in smaller batches.
    """
    return _judge(claim_due(limit))


@transaction.atomic
def judge_series(ids: Sequence[int]) -> Judged:
    """Judge these series, due or not; the first of them where they have too many measurements for one batch."""
    return _judge(lock_series(ids))


def mark_series(*, after: int, limit: int) -> int:
    """Mark the next `limit` series behind this id as due; return the last one's id, or 0 where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH marked AS ("
            # ARRAY: chosen once. As a join it may be asked for each row, and what it marked it would not choose again.
            " UPDATE benchapp_series SET judging_is_due = TRUE WHERE id = ANY (ARRAY("
            "  SELECT id FROM benchapp_series WHERE id > %s ORDER BY id LIMIT %s FOR NO KEY UPDATE)) RETURNING id"
            ") SELECT coalesce(max(id), 0) FROM marked",
            [after, limit],
        )
        return int(cursor.fetchone()[0])


def _judge(claimed: Sequence[Claimed]) -> Judged:
    if not claimed:
        return Judged()
    ids = [series.series_id for series in claimed]
    known = read_changes(ids)
    outcomes = _look_at(claimed, known)
    inserts = [row for outcome in outcomes for row in outcome.inserts]
    updates = [row for outcome in outcomes for row in outcome.updates]
    if updates:
        # Before any change is written: who holds this lock writes changes of every series.
        lock_incidents()
    update_changes(updates)
    made = insert_changes(inserts)
    upsert_judgements([outcome.judgement for outcome in outcomes if outcome.judgement], ids)
    Series.objects.filter(pk__in=ids).update(judging_is_due=False)
    drifted = judge_drift(ids, now=timezone.now())
    change_ids = (*(row["id"] for row in updates), *made, *drifted.change_ids)
    grouped = group_changes(change_ids)
    return Judged(
        tuple(ids),
        change_ids,
        grouped.incident_ids,
        tuple(sorted((*drifted.event_ids, *grouped.event_ids))),
        _list_transitions(known, updates, list(zip(made, inserts, strict=True))),
    )


def _look_at(claimed: Sequence[Claimed], known: dict[tuple[int, str], list[Row]]) -> list[Outcome]:
    ids = [series.series_id for series in claimed]
    # A statement of its own, behind the locks: it sees all that was committed before they were taken.
    histories, baselines, now = read_histories(ids), read_baselines(ids), timezone.now()
    outcomes = []
    for series in claimed:
        for metric in READ_METRICS:
            place = (series.series_id, metric)
            if metric not in series.metrics and place not in known:
                continue
            cut = cut_metric(
                histories[series.series_id], series.series_id, metric, baseline_from_at=baselines.get(place)
            )
            outcomes.append(judge_series_metric(cut, known.get(place, ()), now=now))
    return outcomes


def _list_transitions(
    known: dict[tuple[int, str], list[Row]], updates: Sequence[Row], made: Sequence[tuple[int, Row]]
) -> tuple[Transition, ...]:
    before = {row["id"]: ChangeState(row["state"]) for rows in known.values() for row in rows}
    rows = [(row["id"], row) for row in updates if before[row["id"]] != row["state"]]
    return tuple(
        Transition(
            change_id=change_id,
            series_id=row["series_id"],
            metric=row["metric"],
            started_at=row["started_at"],
            relative=row["relative"],
            before=before.get(change_id),
            after=ChangeState(row["state"]),
        )
        for change_id, row in [*rows, *made]
    )
