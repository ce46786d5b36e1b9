"""Read stored submissions again with the parser of today, and say what changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.models import METRIC_FIELDS, Measurement, State, Submission
from benchapp.pipeline.normalize import Rejection, lock_sources, plan_or_reject
from benchapp.pipeline.plan import Plan
from benchapp.pipeline.store import store_plans

_BATCH_SIZE: Final = 50
# Values are doubles on both sides; what differs by less than this share was only summed in another order.
_SAME_WITHIN: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Difference:
    """One value before and after; None where there was or is none.

    metric: of the catalogue, or "badges", of which the values are the codes in one text.
    """

    submission_id: UUID
    where: str
    metric: str
    before: float | str | None
    after: float | str | None


@dataclass(slots=True)
class Outcome:
    """What reading again did, or would do."""

    read: int = 0
    unchanged: int = 0
    differences: list[Difference] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)
    recovered: int = 0
    series_ids: set[int] = field(default_factory=set)


_Values = dict[tuple[int, bytes, int], dict[str, Any]]


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
    before = _read_values(planned_ids)
    outcome.series_ids.update(store_plans(plans).series_ids)
    after = _read_values(planned_ids)
    for submission_id in planned_ids:
        differences = list(
            _compare(submission_id, before.get(submission_id, {}), after.get(submission_id, {}))
        )
        outcome.differences.extend(differences)
        outcome.unchanged += not differences
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


def _read_values(ids: Sequence[UUID]) -> dict[UUID, _Values]:
    values: dict[UUID, _Values] = {}
    rows = Measurement.objects.filter(run__submission_id__in=ids).values(
        "run__submission_id",
        "run__document",
        "series__key",
        "ordinal",
        "job_name",
        "series__direction",
        "badges",
        *METRIC_FIELDS,
    )
    for row in rows:
        key = (row["run__document"], bytes(row["series__key"]), row["ordinal"])
        values.setdefault(row["run__submission_id"], {})[key] = row
    return values


def _compare(submission_id: UUID, before: _Values, after: _Values) -> Iterator[Difference]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        row = new or old or {}
        where = f"document {key[0]}, {row['job_name']}, {row['series__direction']}"
        if old is None or new is None:
            where += " (another series than before)" if new is not None and before else ""
        for metric in METRIC_FIELDS:
            old_value, new_value = (old or {}).get(metric), (new or {}).get(metric)
            if not _is_same(old_value, new_value):
                yield Difference(submission_id, where, metric, old_value, new_value)
        old_codes, new_codes = _list_codes(old), _list_codes(new)
        if old_codes != new_codes:
            yield Difference(submission_id, where, "badges", old_codes, new_codes)


def _list_codes(row: Mapping[str, Any] | None) -> str | None:
    """Return the codes of a row's badges in one text, None where there is no row or no badge."""
    return ", ".join(badge["code"] for badge in row["badges"]) or None if row else None


def _is_same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) <= _SAME_WITHIN * max(abs(old), abs(new))
