"""The audit record, for admins."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.framework.pages.access import needs_role
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import refuse_address
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import make_time_range, read_time_range
from benchapp.framework.write.audit import AuditFilter, page_audit_records
from benchapp.models import AuditKind, AuditRecord, Role

ROWS_ON_A_PAGE: Final = 100
# Longer values are folded.
_SHORT_VALUE: Final = 120
_PAGES: Final[Mapping[str, str]] = {
    AuditKind.CORRECTION: "correction",
    AuditKind.DETECTION_POLICY: "detection_policy",
    AuditKind.DRY_RUN: "dry_run",
    AuditKind.HOST: "host",
    AuditKind.INCIDENT: "incident",
    AuditKind.PLANNED_EVENT: "planned_event",
    AuditKind.RUN: "run",
    AuditKind.SERIES: "series",
    AuditKind.STUDY: "study",
    AuditKind.SUBMISSION: "upload",
    AuditKind.SUBSCRIPTION: "subscription",
}
_GONE: Final = ("deleted", "removed")


class AuditForm(forms.Form):
    """Filters of the audit record."""

    username = forms.CharField(label="User", required=False, max_length=150)
    via = forms.CharField(label="Token or command", required=False, max_length=60)
    kind = forms.ChoiceField(label="Object", required=False, choices=[("", "all"), *AuditKind.choices])
    object_id = forms.CharField(label="Object id", required=False, max_length=253)


@never_cache
@require_safe
@needs_role(Role.ADMIN)
def audit_records(request: HttpRequest) -> HttpResponse:
    """List the writes, newest first, with what changed."""
    form = AuditForm(request.GET)
    form.is_valid()
    errors = [message for messages in form.errors.values() for message in map(str, messages)]
    time_range = read_time_range(request.GET, errors)
    if errors:
        return refuse_address(request, errors)
    given = {name: value for name, value in form.cleaned_data.items() if value}
    chosen = AuditFilter(**given, from_at=time_range.from_at, to_at=time_range.to_at)
    page, links = turn_page(
        request, errors, read=lambda after: page_audit_records(chosen, after=after, limit=ROWS_ON_A_PAGE)
    )
    context = {
        **links,
        "errors": errors,
        "form": form,
        "range": make_time_range(request.GET),
        "is_filtered": chosen != AuditFilter(),
        "rows": [
            (row, name_object(row), find_object_page(row), tuple(list_changes(row))) for row in page.items
        ],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/audit", is_personal=True),
    }
    return render(request, "framework/audit/audit_records.html", context, status=400 if errors else 200)


def name_object(row: AuditRecord) -> str:
    """Return "Study 3"; without the id where it is the scope of a schedule, which the name says better."""
    label = AuditKind(row.kind).label
    return label if row.kind == AuditKind.SCHEDULE else f"{label} {row.object_id}"


def find_object_page(row: AuditRecord) -> str:
    """Return the page of the object; "" if it has none or is gone."""
    if row.kind not in _PAGES or not row.object_id or row.action in _GONE:
        return ""
    return reverse(_PAGES[row.kind], args=[row.object_id])


def list_changes(row: AuditRecord) -> Iterator[dict[str, Any]]:
    """Yield the changed members by name, without those that are empty before and after.

    before, after: text, "" where there is none; is_long: they do not fit a line, and are folded.
    """
    before, after = row.before or {}, row.after or {}
    for name in sorted({*before, *after}):
        if before.get(name) in (None, "") and after.get(name) in (None, ""):
            continue
        texts = {"before": _format_value(before, name), "after": _format_value(after, name)}
        yield {"name": name, **texts, "is_long": sum(map(len, texts.values())) > _SHORT_VALUE}


def _format_value(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, cls=DjangoJSONEncoder)
