"""Wanted schedules and those of hosts: tables and forms."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.list_entries import ResourceForm
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.times import format_clock, format_day
from benchapp.framework.write.audit import AuditFilter, page_audit_records
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    AuditKind,
    AuditRecord,
    Host,
    InstalledSchedule,
    Role,
    ScheduleAdoption,
    WantedSchedule,
    follow_name,
)
from benchapp.models.requests import INTERVALS, describe_parameters, find_first_minute, write_clock
from benchapp.requests.read.schedules import (
    ComparedSchedule,
    LineState,
    ScheduledHost,
    ScheduleStatus,
    list_known_profiles,
    list_schedule_scopes,
    list_scheduled_hosts,
    list_wanted_rows,
    predict_refusal,
    preview_statuses,
    read_statuses,
    read_wanted_row,
)
from benchapp.requests.write.wanted_schedules import (
    DIRECTORY_MAXIMUM,
    NAMES_IN_WORDS,
    NEVER,
    POOL_MAXIMUM,
    ScheduleScope,
    UnknownWantedSchedule,
    check_wanted_schedule,
    read_words,
    remove_wanted_schedule,
    save_wanted_schedule,
    write_words,
)

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_SPLAY_MAXIMUM_MIN: Final = 24 * 60 - 1
_OF_A_RUN: Final = {NAMES_IN_WORDS[column] for column in WantedSchedule.of_a_run}


class WantedScheduleForm(ResourceForm):
    """A profile with its times. has_never: of a host, which may leave out the profile of its pool."""

    parameters = forms.CharField(
        label="Parameters",
        required=False,
        max_length=2000,
        help_text="For example runtime=10 size=64MiB rw=randread: seconds, bytes. Others have their default.",
        widget=forms.TextInput(attrs=_TEXT),
    )
    directory = forms.CharField(
        label="Directory",
        required=False,
        strip=False,
        max_length=DIRECTORY_MAXIMUM,
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "/data"}),
    )
    every = forms.ChoiceField(label="Every")
    at = forms.CharField(
        label="At",
        required=False,
        max_length=5,
        empty_value="00:00",
        help_text="Local time of the host.",
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "00:00", "size": 5}),
    )
    splay_min = forms.IntegerField(
        label="Splay, min",
        required=False,
        min_value=0,
        max_value=_SPLAY_MAXIMUM_MIN,
        help_text="Spreads the start times of hosts.",
    )
    field_order = ("profile", "parameters", "directory", "every", "at", "splay_min")
    renamed = NAMES_IN_WORDS

    class Meta:
        model = WantedSchedule
        fields = tuple(column for column, name in NAMES_IN_WORDS.items() if column == name)
        widgets: Final = {"profile": forms.TextInput(attrs={**_TEXT, "list": "profiles"})}

    def __init__(self, *args: Any, has_never: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        choices = [(name, _format_interval(name)) for name in INTERVALS]
        every = self.fields["every"]
        if isinstance(every, forms.ChoiceField):
            every.choices = [*choices, (NEVER, "not on this host")] if has_never else choices

    def clean_splay_min(self) -> int:
        """Return 0 for none."""
        return self.cleaned_data["splay_min"] or 0

    def read_wanted(self) -> WantedSchedule | None:
        """Return what is wanted, not saved; None with errors in the form."""
        if not self.is_valid():
            return None
        given = self.cleaned_data
        if given["every"] == NEVER:
            given = {name: given[name] for name in given if name not in _OF_A_RUN}
        try:
            return read_words(given)
        except BadValue as error:
            self.refuse(error)
            return None


def _format_interval(name: str) -> str:
    words = {"1d": "day", "7d": "week, on Sundays"}
    return words.get(name) or f"{name[:-1]} {'min' if name.endswith('m') else 'h'}"


_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"))
_STATES: Final = {
    LineState.INSTALLED: ("installed", "good"),
    LineState.MISSING: ("missing", "waiting"),
    LineState.DIFFERENT: ("different", "waiting"),
    LineState.REFUSED: ("refused", "bad"),
    LineState.OBSOLETE: ("obsolete", "waiting"),
    LineState.OWN: ("set on the host", ""),
}


def make_wanted_lines(rows: Sequence[WantedSchedule]) -> list[dict[str, Any]]:
    """Return the rows of the table of wanted schedules."""
    return [
        {"row": row, "times": _describe_wanted(row), "parameters": describe_parameters(row.parameters)}
        for row in rows
    ]


def make_status_lines(
    hosts: Sequence[ScheduledHost], statuses: Mapping[int, ScheduleStatus], *, predicts: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of the table of hosts. predicts: of a preview, with what the host would refuse."""
    lines = []
    for host in hosts:
        status = statuses[host.id]
        for number, line in enumerate(status.lines):
            lines.append(_make_status_line(host.name, line, status.adoption, number == 0, predicts))
    return lines


def make_schedule_change_lines(records: Sequence[AuditRecord]) -> list[dict[str, Any]]:
    """Return the rows of the table of changes."""
    lines = []
    for record in records:
        before, after = record.before or {}, record.after or {}
        names = sorted({*before, *after})
        lines.append(
            {
                "record": record,
                "changes": tuple((name, before.get(name, ""), after.get(name, "")) for name in names),
            }
        )
    return lines


def format_interval(seconds: int) -> str:
    """Return "every 6 h", "every day"."""
    for length, unit in _UNITS:
        count, rest = divmod(seconds, length)
        if count and not rest:
            if unit == "day":
                return "every day" if count == 1 else "every week" if count == 7 else f"every {count} days"
            return f"every {count} {unit}"
    return f"every {seconds} s"


def _describe_wanted(row: WantedSchedule) -> str:
    if row.every_s is None:
        return "not on this host"
    splay = f", spread over {row.splay_s // 60} min" if row.splay_s else ""
    return f"{format_interval(row.every_s)} at {write_clock(row.at_minute)}{splay}"


def _make_status_line(
    host_name: str, line: ComparedSchedule, adoption: ScheduleAdoption | None, is_first: bool, predicts: bool
) -> dict[str, Any]:
    state, css = _STATES[line.state]
    reason = line.reason
    if line.wanted is not None and not reason and (predicts or line.state != LineState.INSTALLED):
        reason = predict_refusal(line, adoption)
    wanted = line.wanted
    return {
        "host_name": host_name,
        "is_first": is_first,
        "profile": line.profile,
        "state": state,
        "css": css,
        "reason": reason,
        "wanted": _describe_times(wanted.every_s, wanted.at_minute, wanted.directory) if wanted else "",
        "installed": _describe_installed(line.installed) if line.installed else "",
        "starts": _describe_starts(line.starts_at),
    }


def _describe_times(every_s: int, at_minute: int, directory: str) -> str:
    clock = write_clock(find_first_minute(every_s, at_minute))
    return f"{format_interval(every_s)} at {clock}, in {directory}"


def _describe_installed(entry: InstalledSchedule) -> str:
    if entry.at_minute is not None:
        return _describe_times(entry.every_s, entry.at_minute, entry.directory)
    return f"{format_interval(entry.every_s)}, in {entry.directory}"


def _describe_starts(starts: Sequence[datetime]) -> str:
    """Return "24 Nov 02:17, 08:17; 25 Nov 02:17" in the time zone of the reader."""
    days = groupby(starts, key=lambda start: format_day(start, has_year=False))
    return "; ".join(f"{day} {', '.join(map(format_clock, found))}" for day, found in days)


HOSTS_SHOWN: Final = 50
_CHANGES_SHOWN: Final = 20


@never_cache
@require_safe
@may_read
def schedules(request: HttpRequest) -> HttpResponse:
    """List pools, and hosts with an exception, with what is wanted of them and how many hosts differ."""
    context = {
        "scopes": [
            (row, _find_url(ScheduleScope(row["pool"], row["host_name"]))) for row in list_schedule_scopes()
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
        present = "" if "\x00" in host_name else follow_name("host", host_name.lower())
        if not present or not list_scheduled_hosts(host_name=present, limit=1):
            raise Http404(f"Host {host_name[:100]} does not exist. Hosts appear here after enrollment.")
        return ScheduleScope(host_name=present)
    if pool is None or len(pool) > POOL_MAXIMUM or "\x00" in pool:
        raise Http404("Name a pool or a host.")
    return ScheduleScope(pool=follow_name("pool", pool.strip()))


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
