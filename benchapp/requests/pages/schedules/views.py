"""Schedules: pools and hosts with what is wanted; one of them with its hosts, edited."""

from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.read.audit import AuditFilter, page_audit_records
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import AuditKind, Host, Role, WantedSchedule
from benchapp.requests.pages.schedules.forms import WantedScheduleForm
from benchapp.requests.pages.schedules.tables import (
    make_schedule_change_lines,
    make_status_lines,
    make_wanted_lines,
)
from benchapp.requests.read.wanted_schedules import (
    list_known_profiles,
    list_schedule_scopes,
    list_scheduled_hosts,
    list_wanted_rows,
    preview_statuses,
    read_statuses,
    read_wanted_row,
)
from benchapp.requests.write.wanted_schedules import (
    POOL_MAXIMUM,
    ScheduleScope,
    UnknownWantedSchedule,
    check_wanted_schedule,
    remove_wanted_schedule,
    save_wanted_schedule,
    write_words,
)

HOSTS_SHOWN: Final = 50
_CHANGES_SHOWN: Final = 20


@never_cache
@require_safe
@may_read
def schedules(request: HttpRequest) -> HttpResponse:
    """List pools, and hosts with an exception, with what is wanted of them and how many hosts differ."""
    context = {
        "scopes": [
            (row, _find_url(ScheduleScope(row.pool, row.host_name))) for row in list_schedule_scopes()
        ],
        "api_line": format_curl_command(
            f"{make_base_url(request)}/api/v1/schedules?is_schedule_different=true"
        ),
    }
    return render(request, "requests/schedules/schedules.html", context)


@never_cache
@require_safe
@may_read
def schedule_scope(request: HttpRequest) -> HttpResponse:
    """Show what is wanted of a pool or a host, what its hosts run, and the history of changes."""
    if not {"pool", "host"} & set(request.GET):
        return redirect("schedules")
    scope = _read_scope(request.GET.get("pool"), request.GET.get("host"))
    form = WantedScheduleForm(has_never=bool(scope.host_name), initial={"every": "6h"})
    edited = _find_edited(request.GET.get("edit", ""), scope)
    if edited is not None:
        form = WantedScheduleForm(has_never=bool(scope.host_name), initial=write_words(edited))
    return _show(request, scope, form, edited=edited)


@require_POST
@needs_role(Role.EDITOR)
def save_schedule(request: HttpRequest) -> HttpResponse:
    """Save a wanted schedule, or show what it would change on each host."""
    if not {"pool", "host"} & set(request.POST):
        messages.error(request, "Not saved: name a pool or a host.", extra_tags="bad")
        return redirect("schedules")
    scope = _read_scope(request.POST.get("pool"), request.POST.get("host"))
    form = WantedScheduleForm(request.POST, has_never=bool(scope.host_name))
    edited = _find_edited(request.POST.get("edit", ""), scope)
    wanted = form.read_wanted()
    if wanted is None:
        return _show(request, scope, form, edited=edited, status=400)
    try:
        if "preview" in request.POST:
            check_wanted_schedule(wanted, is_of_host=bool(scope.host_name))
            return _show(request, scope, form, edited=edited, previewed=wanted)
        save_wanted_schedule(scope, wanted, by=read_person(request), replaces=edited.pk if edited else None)
    except BadValue as error:
        form.refuse(error)
        return _show(request, scope, form, edited=edited, status=400)
    except UnknownWantedSchedule as error:
        raise Http404(f"{error}.") from error
    messages.success(request, "Saved. Hosts adopt it at their next poll.", extra_tags="good")
    return redirect(_find_url(scope))


@require_POST
@needs_role(Role.EDITOR)
def remove_schedule(request: HttpRequest, wanted_id: int) -> HttpResponse:
    """Remove a wanted schedule."""
    row = read_wanted_row(wanted_id)
    try:
        remove_wanted_schedule(wanted_id, by=read_person(request))
    except UnknownWantedSchedule as error:
        raise Http404(f"{error}.") from error
    text = "Removed. Hosts that adopted it remove it at their next poll; the history has its values."
    messages.success(request, text, extra_tags="good")
    return redirect(_find_url(ScheduleScope(row.pool, row.host_name)) if row else "schedules")


def _show(
    request: HttpRequest,
    scope: ScheduleScope,
    form: WantedScheduleForm,
    *,
    edited: WantedSchedule | None,
    previewed: WantedSchedule | None = None,
    status: int = 200,
) -> HttpResponse:
    own = list_wanted_rows(**_select(scope))
    hosts = list_scheduled_hosts(**_select(scope), limit=HOSTS_SHOWN + 1)
    shown, now = hosts[:HOSTS_SHOWN], timezone.now()
    pool = hosts[0].pool if scope.host_name and hosts else None
    statuses = read_statuses(shown, now=now)
    preview = _preview(scope, own, edited, previewed) if previewed else None
    records = page_audit_records(
        AuditFilter(kind=AuditKind.SCHEDULE, object_id=scope.text), limit=_CHANGES_SHOWN
    )
    context: dict[str, Any] = {
        "scope": scope,
        "form": form,
        "edited": edited,
        "profiles": list_known_profiles(),
        "wanted": make_wanted_lines(own),
        "pool": pool,
        "pool_wanted": make_wanted_lines(list_wanted_rows(pool=pool)) if pool is not None else [],
        "pool_url": _find_url(ScheduleScope(pool=pool)) if pool is not None else "",
        "lines": make_status_lines(shown, statuses),
        "preview": [
            line
            for line in make_status_lines(shown, preview_statuses(shown, preview, now=now), predicts=True)
            if previewed and line["profile"] == previewed.profile
        ]
        if preview
        else None,
        "host_count": len(shown),
        "has_more": len(hosts) > HOSTS_SHOWN,
        "without_zone": [host.name for host in shown if not statuses[host.id].time_zone],
        "adopting_count": sum(bool(each.adoption and each.adoption.is_allowed) for each in statuses.values()),
        "problems": [
            (host.name, adoption.problem)
            for host in shown
            if (adoption := statuses[host.id].adoption) and adoption.problem
        ],
        "history": make_schedule_change_lines(records.items),
        "own_url": _find_url(scope),
        "api_line": format_curl_command(
            f"{make_base_url(request)}/api/v1/wanted-schedules{_write_query(scope)}"
        ),
    }
    return render(request, "requests/schedules/schedule_scope.html", context, status=status)


def _preview(
    scope: ScheduleScope, own: list[WantedSchedule], edited: WantedSchedule | None, wanted: WantedSchedule
) -> list[WantedSchedule]:
    """Return the rows of the scope as they would be."""
    wanted.pool, wanted.host = scope.pool, Host(name=scope.host_name) if scope.host_name else None
    return [*(row for row in own if row != edited), wanted]


def _read_scope(pool: str | None, host_name: str | None) -> ScheduleScope:
    if host_name:
        if "\x00" in host_name or not list_scheduled_hosts(host_name=host_name.lower(), limit=1):
            raise Http404(f"Host {host_name[:100]} does not exist. Hosts appear here after enrollment.")
        return ScheduleScope(host_name=host_name.lower())
    if pool is None or len(pool) > POOL_MAXIMUM or "\x00" in pool:
        raise Http404("Name a pool or a host.")
    return ScheduleScope(pool=pool.strip())


def _find_edited(text: str, scope: ScheduleScope) -> WantedSchedule | None:
    """Return the schedule of this scope with an id; None for "" and for others."""
    row = read_wanted_row(int(text)) if text.isascii() and text.isdigit() and len(text) < 18 else None
    return row if row and (row.pool, row.host_name) == (scope.pool, scope.host_name) else None


def _select(scope: ScheduleScope, *, host: str = "host_name") -> dict[str, str]:
    return {host: scope.host_name} if scope.host_name else {"pool": scope.pool}


def _write_query(scope: ScheduleScope) -> str:
    """Return the parameters of a scope, of the page and of the API."""
    return f"?{urlencode(_select(scope, host='host'))}"


def _find_url(scope: ScheduleScope) -> str:
    return f"{reverse('schedule_scope')}{_write_query(scope)}"
