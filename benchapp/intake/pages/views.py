"""Uploads: list, details, raw body, and retry of rejected submissions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.metrics import format_count
from benchapp.framework.pages.access import can, may_read, needs_role
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import (
    UploadFilterForm,
    keep_query,
    list_errors,
    read_form,
    refuse_address,
)
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.number_columns import REJECTED
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.time_range import describe_bounds, make_time_range, read_time_range
from benchapp.framework.readiness import read_readiness
from benchapp.intake.normalize.reparse import count_outdated
from benchapp.intake.posts.submissions import retry_rejected, retry_submission, unpack
from benchapp.intake.read import (
    UploadCounts,
    count_uploads,
    list_uploads,
    read_raw_body,
    read_upload,
)
from benchapp.models import Role, State
from benchapp.series.pages.run_tables import make_run_lines
from benchapp.series.read.runs import read_run_rows

WIDTH: Final = 480
HEIGHT: Final = 64
_STEP: Final = WIDTH / 24
_GAP: Final = 3


def make_hours_chart(hours: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Stack stored, waiting and rejected submissions of each hour; bars start at zero."""
    peak = max((sum(hour[state] for state in State.values) for hour in hours), default=0)
    return {
        "bars": tuple(_make_bar(place, hour, peak) for place, hour in enumerate(hours)),
        "peak": peak,
        "bar_width": _STEP - _GAP,
        "width": WIDTH,
        "height": HEIGHT,
    }


def _make_bar(place: int, hour: Mapping[str, Any], peak: int) -> dict[str, Any]:
    segments = []
    top = float(HEIGHT)
    for kind in ("stored", "received", "rejected"):
        if count := hour[kind]:
            # At least two units, so that one rejection among thousands is visible.
            height = max(2.0, count / peak * (HEIGHT - 4))
            top = max(0.0, top - height)
            segments.append({"kind": kind, "y": round(top, 1), "height": round(height, 1)})
    return {"x": round(place * _STEP, 1), "count": hour, "segments": tuple(segments)}


UPLOADS_ON_A_PAGE: Final = 50
# Further runs of a submission are links.
RUNS_WITH_RESULTS: Final = 20
# Bounds the cost of the count: the page shows "at least 1000".
OUTDATED_MAXIMUM: Final = 1000


@never_cache
@require_safe
@may_read
@updates_itself
def uploads(request: HttpRequest) -> HttpResponse:
    """List submissions, newest first, with counts by state, hour and rejection reason."""
    form = read_form(UploadFilterForm, request.GET)
    errors = list_errors(form)
    time_range = read_time_range(request.GET, errors)
    if errors:
        return refuse_address(request, errors)
    state = form.cleaned_data.get("state") or None
    reason = form.cleaned_data.get("reason") or None
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_uploads(
            state,
            reason_code=reason,
            from_at=time_range.from_at,
            to_at=time_range.to_at,
            after=after,
            limit=UPLOADS_ON_A_PAGE,
        ),
    )
    counts = count_uploads()
    context = {
        **links,
        "title": _format_title(counts),
        "counts": counts,
        "chart": make_hours_chart(counts.per_hour),
        "state_links": _list_state_links(request, counts, state),
        "reason": reason,
        "range": make_time_range(request.GET),
        "range_text": describe_bounds(time_range.from_at, time_range.to_at),
        "retained": [(name, request.GET[name]) for name in ("state", "reason") if request.GET.get(name)],
        "uploads": page.items,
        "errors": errors,
        "problems": read_readiness().problems,
        "outdated": _describe_outdated() if can(find_visitor(request), Role.ADMIN) else "",
        "steps": None if page.items else list_first_steps(make_base_url(request)),
    }
    return render(request, "intake/uploads.html", context, status=400 if errors else 200)


@never_cache
@require_safe
@may_read
@updates_itself
def upload(request: HttpRequest, submission_id: UUID) -> HttpResponse:
    """Show one submission: state, reason, results of its runs."""
    row = read_upload(submission_id)
    if row is None:
        raise Http404(f"Submission {submission_id} does not exist.")
    columns, runs = make_run_lines(read_run_rows(row.run_ids[:RUNS_WITH_RESULTS]))
    context = {
        "upload": row,
        "advice": REJECTED.get(row.reason_code, ""),
        "columns": columns,
        "runs": runs,
        "other_run_ids": row.run_ids[RUNS_WITH_RESULTS:],
    }
    return render(request, "intake/upload.html", context)


@require_safe
@needs_role(Role.EDITOR)
def upload_raw(request: HttpRequest, submission_id: UUID) -> HttpResponse:
    """Return the exact bytes received."""
    body = read_raw_body(submission_id=submission_id)
    if body is None:
        raise Http404("The submission does not exist, or its body was removed after the retention period.")
    answer = HttpResponse(unpack(body.packed), content_type="application/octet-stream")
    ending = "json" if body.is_json else "txt"
    answer["Content-Disposition"] = content_disposition_header(True, f"{submission_id}.{ending}") or ""
    return answer


@require_POST
@needs_role(Role.EDITOR)
def retry_one(request: HttpRequest, submission_id: UUID) -> HttpResponse:
    """Retry one rejected submission."""
    if retry_submission(submission_id):
        messages.success(request, "Queued again.", extra_tags="good")
    else:
        messages.error(
            request,
            "Cannot retry: the submission is not rejected, or its body was removed.",
            extra_tags="bad",
        )
    return redirect("upload", submission_id=submission_id)


@require_POST
@needs_role(Role.EDITOR)
def retry_alike(request: HttpRequest) -> HttpResponse:
    """Retry all submissions that were rejected for one reason."""
    form = read_form(UploadFilterForm, request.POST)
    count = retry_rejected(form.cleaned_data.get("reason", ""))
    if count:
        messages.success(
            request,
            f"{format_count(count, 'submission')} queued again.",
            extra_tags="good",
        )
    else:
        messages.error(request, "No submission to retry for this reason.", extra_tags="bad")
    return redirect("uploads")


def _format_title(counts: UploadCounts) -> str:
    if not counts.total:
        return "Uploads: none yet"
    waiting = f"{counts.received} waiting" if counts.received else "none waiting"
    rejected = f"{counts.rejected} rejected" if counts.rejected else "none rejected"
    return f"Uploads: {rejected}, {waiting}"


def _describe_outdated() -> str:
    """Return how many submissions an older parser read, whose values may differ; empty if none."""
    count = count_outdated(limit=OUTDATED_MAXIMUM)
    if not count:
        return ""
    least = "at least " if count == OUTDATED_MAXIMUM else ""
    were = "1 submission was" if count == 1 else f"{least}{format_count(count, 'submission')} were"
    action = (
        "Workers are parsing them again, oldest first."
        if settings.AUTO_RENORMALIZE
        else "Run manage.py renormalize --only-older."
    )
    return f"{were[0].upper()}{were[1:]} parsed by an older parser version and may have different values. {action}"


def _list_state_links(
    request: HttpRequest, counts: UploadCounts, chosen: str | None
) -> list[tuple[str, str, int, bool]]:
    entries = [
        ("All", None, counts.total),
        ("Waiting", State.RECEIVED.value, counts.received),
        ("Stored", State.STORED.value, counts.stored),
        ("Rejected", State.REJECTED.value, counts.rejected),
    ]
    return [
        (label, keep_query(request.GET, state=state, after=None, reason=None), count, state == chosen)
        for label, state, count in entries
    ]
