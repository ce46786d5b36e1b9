"""Submissions by state, with rejection reasons."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet
from django.utils import timezone

from benchapp.framework.read.pagination import Cursor, Page, behind, cut_page, match_times, read_cursor
from benchapp.models import Kind, Run, State, Submission

_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class UploadRow:
    """One submission. has_body: it can be downloaded and retried; body_bytes: unpacked."""

    id: UUID
    host_id: int
    host_name: str
    kind: str
    received_at: datetime
    state: str
    settled_at: datetime | None
    reason_code: str
    reason: str
    attempts: int
    parser_version: int | None
    body_bytes: int
    has_body: bool
    run_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HourCount:
    """What was received within one hour, by the state that it has now."""

    hour_at: datetime
    received: int
    stored: int
    rejected: int


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many submissions are rejected for one reason."""

    reason_code: str
    count: int


@dataclass(frozen=True, slots=True)
class UploadCounts:
    """How many there are of each state; received: they wait.

    per_hour: the last 24 hours, oldest first, none left out. by_reason: the commonest first.
    """

    received: int
    stored: int
    rejected: int
    per_hour: tuple[HourCount, ...]
    by_reason: tuple[ReasonCount, ...]

    @property
    def total(self) -> int:
        """Return how many there are in any state."""
        return self.received + self.stored + self.rejected


@dataclass(frozen=True, slots=True)
class RawBody:
    """The bytes received, without secrets. packed: gzip; kind: what the body is, one of models.Kind."""

    submission_id: UUID
    host_id: int
    host_name: str
    kind: str
    packed: bytes
    digest: bytes

    @property
    def has_envelope(self) -> bool:
        """Return whether the body is an agent envelope."""
        return self.kind == Kind.ENVELOPE

    @property
    def has_output(self) -> bool:
        """Return whether the body has fio output; published results have none."""
        return self.kind != Kind.REPORTED

    @property
    def is_json(self) -> bool:
        """Say whether the body is a document of ours, which is JSON, and not bare output."""
        return self.kind != Kind.FIO


def list_uploads(
    state: str | None = None,
    *,
    host: str | None = None,
    reason_code: str | None = None,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[UploadRow]:
    """Return submissions, the newest first, behind the cursor; two queries. Raises BadCursor.

    from_at inclusive, to_at exclusive: when they were received.
    """
    cursor = read_cursor(after, UUID)
    uploads = Submission.objects.filter(match_times("received_at", from_at, to_at))
    if state is not None:
        uploads = uploads.filter(state=state)
    if host is not None:
        uploads = uploads.filter(host__name=host)
    if reason_code is not None:
        uploads = uploads.filter(reason_code=reason_code)
    # Ids ascend within one time where times descend, as they do in the index.
    place = behind("received_at", cursor, is_descending=not oldest_first, is_id_descending=oldest_first)
    order = ("received_at", "-id") if oldest_first else ("-received_at", "id")
    rows = _make_rows(uploads.filter(place).order_by(*order)[: limit + 1])
    return cut_page(rows, limit, cursor_of=lambda upload: Cursor(upload.received_at, upload.id))


def read_upload(submission_id: UUID) -> UploadRow | None:
    """Return one submission, None where there is none; two queries."""
    return next(iter(_make_rows(Submission.objects.filter(pk=submission_id))), None)


def count_uploads(*, now: datetime | None = None) -> UploadCounts:
    """Count submissions by state, by hour of receipt and by reason; three queries."""
    states = dict(
        Submission.objects.order_by()
        .values("state")
        .annotate(count=Count("id"))
        .values_list("state", "count")
    )
    reasons = (
        Submission.objects.filter(state=State.REJECTED)
        .values("reason_code")
        .annotate(count=Count("id"))
        .order_by("-count", "reason_code")
        .values_list("reason_code", "count")
    )
    return UploadCounts(
        received=states.get(State.RECEIVED, 0),
        stored=states.get(State.STORED, 0),
        rejected=states.get(State.REJECTED, 0),
        per_hour=_count_hours(now or timezone.now()),
        by_reason=tuple(ReasonCount(*row) for row in reasons),
    )


def read_raw_body(*, run_id: int | None = None, submission_id: UUID | None = None) -> RawBody | None:
    """Return what was received with a run, or as a submission; None where there is none or retention removed it."""
    submissions = Submission.objects.filter(body__isnull=False)
    which = {"runs": run_id} if run_id is not None else {"pk": submission_id}
    submissions = submissions.filter(**which)
    row = submissions.values_list("id", "host_id", "host__name", "kind", "body", "digest").first()
    if row is None:
        return None
    upload_id, host_id, host_name, kind, body, digest = row
    return RawBody(upload_id, host_id, host_name, kind, bytes(body or b""), bytes(digest))


_COLUMNS: Final = (
    "id",
    "host_id",
    "host__name",
    "kind",
    "received_at",
    "state",
    "settled_at",
    "reason_code",
    "reason",
    "attempts",
    "parser_version",
    "body_bytes",
    "has_body",
)


def _make_rows(submissions: QuerySet[Submission]) -> list[UploadRow]:
    rows: list[tuple[Any, ...]] = list(
        submissions.annotate(has_body=ExpressionWrapper(Q(body__isnull=False), BooleanField())).values_list(
            *_COLUMNS
        )
    )
    runs = _read_run_ids(row[0] for row in rows)
    return [UploadRow(*[*row, tuple(runs[row[0]])]) for row in rows]


def _read_run_ids(submission_ids: Iterable[UUID]) -> dict[UUID, list[int]]:
    runs: dict[UUID, list[int]] = defaultdict(list)
    rows = (
        Run.objects.filter(submission_id__in=list(submission_ids))
        .order_by("submission_id", "document")
        .values_list("submission_id", "id")
    )
    for submission_id, run_id in rows:
        runs[submission_id].append(run_id)
    return runs


def _count_hours(now: datetime) -> tuple[HourCount, ...]:
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    first = this_hour - timedelta(hours=_HOURS - 1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT date_trunc('hour', received_at), state, count(*) FROM benchapp_submission"
            " WHERE received_at >= %s GROUP BY 1, 2",
            [first],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    counts = {(hour_at, state): count for hour_at, state, count in rows}
    hours = (first + timedelta(hours=index) for index in range(_HOURS))
    return tuple(
        HourCount(
            hour_at,
            counts.get((hour_at, State.RECEIVED.value), 0),
            counts.get((hour_at, State.STORED.value), 0),
            counts.get((hour_at, State.REJECTED.value), 0),
        )
        for hour_at in hours
    )
