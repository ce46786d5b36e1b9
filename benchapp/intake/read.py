"""Submissions by state, with rejection reasons."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import BooleanField, Count, ExpressionWrapper, OuterRef, Q, QuerySet
from django.utils import timezone

from benchapp.framework.read.pagination import Cursor, Page, behind, cut_page, match_times, read_cursor
from benchapp.models import Kind, Run, State, Submission, follow_name

_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class UploadCounts:
    """How many there are of each state; received: they wait.

    per_hour: `hour_at` and, of what was received within it, the counts by its state now; the last 24 hours, oldest
    first, none left out. by_reason: code and number, the commonest first.
    """

    received: int
    stored: int
    rejected: int
    per_hour: tuple[dict[str, Any], ...]
    by_reason: tuple[tuple[str, int], ...]

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
) -> Page[Submission]:
    """Return submissions, the newest first, behind the cursor; one query. Raises BadCursor.

    from_at inclusive, to_at exclusive: when they were received.
    """
    cursor = read_cursor(after, UUID)
    uploads = Submission.objects.filter(match_times("received_at", from_at, to_at))
    if state is not None:
        uploads = uploads.filter(state=state)
    if host is not None:
        uploads = uploads.filter(host__name=follow_name("host", host))
    if reason_code is not None:
        uploads = uploads.filter(reason_code=reason_code)
    # Ids ascend within one time where times descend, as they do in the index.
    place = behind("received_at", cursor, is_descending=not oldest_first, is_id_descending=oldest_first)
    order = ("received_at", "-id") if oldest_first else ("-received_at", "id")
    rows = list(_read(uploads.filter(place).order_by(*order)[: limit + 1]))
    return cut_page(rows, limit, cursor_of=lambda upload: Cursor(upload.received_at, upload.id))


def read_upload(submission_id: UUID) -> Submission | None:
    """Return one submission, None where there is none; one query."""
    return _read(Submission.objects.filter(pk=submission_id)).first()


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
        per_hour=count_hours(now or timezone.now()),
        by_reason=tuple(reasons),
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


def _read(submissions: QuerySet[Any]) -> QuerySet[Submission]:
    """Return submissions without their bodies. has_body: it can be downloaded and retried. run_ids: by document."""
    runs = Run.objects.filter(submission=OuterRef("pk")).order_by("document")
    rows: QuerySet[Submission] = (
        submissions.select_related("host")
        .defer("body", "digest", "parameters")
        .annotate(
            has_body=ExpressionWrapper(Q(body__isnull=False), BooleanField()),
            run_ids=ArraySubquery(runs.values("pk")),
        )
    )
    return rows


def count_hours(now: datetime) -> tuple[dict[str, Any], ...]:
    """Return `hour_at` and, of what was received within it, the counts by its state now; as UploadCounts.per_hour."""
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
        {"hour_at": hour_at, **{state: counts.get((hour_at, state), 0) for state in State.values}}
        for hour_at in hours
    )
