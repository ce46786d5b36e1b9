"""Hosts with last seen, schedule and runs; for admins also pool, retirement and tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import parse_etags
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.accounts.pages.forms import EnrollmentForm, HostNameForm, LabelForm, PoolForm
from benchapp.accounts.pages.tokens import keep_for_next_page, take_from_last_page
from benchapp.accounts.read import read_tokens
from benchapp.accounts.write.tokens import issue_enrollment_token
from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import (
    CATALOG,
    UNKNOWN,
    format_count,
    format_signed_percent,
    format_with_unit,
    lower_label,
)
from benchapp.charts.texts.levels import describe_level_range
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import list_agent_commands, list_update_commands
from benchapp.framework.pages.filter_bar import (
    HostFilterForm,
    explain_empty,
    is_filtering,
    list_errors,
    make_filter_bar,
    read_form,
    refuse_address,
    settle_filter,
)
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.time_range import (
    DAY_PRESETS,
    AskedRange,
    describe_bounds,
    make_time_range,
    read_time_range,
)
from benchapp.framework.queue import wake_up
from benchapp.framework.read.binary_columns import CHART_S, read_cached
from benchapp.framework.read.pagination import match_times
from benchapp.framework.times import describe_remaining, format_age, format_day
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.pages.maintenance import list_maintenance
from benchapp.incidents.pages.texts import make_incident_lines
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.intake.normalize.batch import ImportRunning
from benchapp.models import Attempt, FormerName, Host, PlannedEventState, Role, TargetMapping
from benchapp.requests.pages.run_requests import make_request_panel
from benchapp.requests.pages.schedules import make_status_lines
from benchapp.requests.read.run_requests import RequestFilter, read_request_policy
from benchapp.requests.read.schedules import list_scheduled_hosts, read_statuses
from benchapp.series.pages.run_tables import make_run_lines
from benchapp.series.read.dimension_values import list_label_names
from benchapp.series.read.runs import RunFilter, list_runs, read_sweep_progress
from benchapp.series.read.selected_levels import HISTORY_DAYS
from benchapp.storage.actions import preview_pool
from benchapp.storage.actions import set_pool as save_pool
from benchapp.storage.agent_archive import read_agent_archive, read_agent_version
from benchapp.storage.pages.tables import (
    HOSTS_ON_A_PAGE,
    HostOrder,
    list_group_choices,
    list_host_facts,
    make_groups,
    make_heads,
    make_pager,
    make_pattern_lines,
    read_order,
    sort_hosts,
    summarize_host,
    summarize_hosts,
)
from benchapp.storage.read.hosts import (
    HostFilter,
    HostRow,
    SeriesJoin,
    add_last_runs,
    filter_hosts,
    is_outdated,
    list_host_environment_changes,
    list_host_scopes,
    list_hosts,
    list_joins,
    list_mappings,
    read_host,
    read_host_histories,
)
from benchapp.storage.read.patterns import begin_with_runs, read_host_patterns
from benchapp.storage.target_mappings import (
    add_mapping,
    count_rereads,
    preview_adding,
    preview_removal,
    remove_mapping,
)
from benchapp.storage.write.hosts import EnrollmentRefused, issue_host_token, restore_host, retire_host

_ROWS_MAXIMUM: Final = 50


def describe_joins(joins: Sequence[SeriesJoin]) -> dict[str, Any]:
    """Return the context of the table: the largest differences, and a warning if the series do not agree."""
    apart = [each for each in joins if each.is_apart]
    bad = sum(bool(each.incidents or each.other_incidents) for each in joins)
    warning = ""
    if apart or bad:
        largest = f", by {format_signed_percent(apart[0].relative or 0.0)} at most" if apart else ""
        warning = (
            f"{len(apart)} of {format_count(len(joins), 'joined series')} would mix different"
            f" levels{largest}; {bad} with an open incident. A series of a pool has the results of all of its hosts."
        )
    return {
        "joins": [_make_line(each) for each in joins[:_ROWS_MAXIMUM]],
        "more_joins": len(joins[_ROWS_MAXIMUM:]),
        "joins_warning": warning,
    }


def _make_line(join: SeriesJoin) -> dict[str, Any]:
    return {
        "row": join,
        "median": _format_median(join.median, join.metric),
        "other_median": _format_median(join.other_median, join.metric),
        "difference": UNKNOWN if join.relative is None else format_signed_percent(join.relative),
    }


def _format_median(value: float | None, metric: str) -> str:
    return format_with_unit(value, CATALOG[metric]) if metric else UNKNOWN


_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"))


def list_lines(host: HostRow) -> list[dict[str, Any]]:
    """Return the rows of a host's schedule; empty without a schedule."""
    if host.schedule is None:
        return []
    return [
        {
            "entry": entry,
            "interval": f"every {format_run_interval(entry.every_s)}",
            "splay": format_run_interval(entry.splay_s) if entry.splay_s else "",
        }
        for entry in host.schedule.entries
    ]


def format_run_interval(seconds: int) -> str:
    """Format an interval in the largest unit that divides it: 6 h, 15 min, day, 7 days, 90 s."""
    for length, unit in _UNITS:
        count, rest = divmod(seconds, length)
        if count and not rest:
            if unit == "day":
                return "day" if count == 1 else f"{count} days"
            return f"{count} {unit}"
    return f"{seconds} s"


def explain_no_schedule(host: HostRow) -> str:
    """Return why no run of a host is expected; "" if one is expected or overdue."""
    if host.retired_at is not None:
        return "host is retired"
    if host.schedule is None:
        return "no schedule reported"
    if not host.schedule.entries:
        return "empty schedule"
    return ""


RUNS_OF_A_HOST: Final = 10
# Of the list of hosts, by parameter.
_OPTIONS: Final = {
    "retired": "retired included",
    "outdated": "outdated agents",
    "failing": "failing",
    "different": "other schedules",
}


# With more hosts the list is cached for 10 s: its title counts the states of all.
_CACHED_FROM: Final = 1000


@dataclass(frozen=True, slots=True)
class _HostsPage:
    """The hosts of one page with their histories by scope; title, count: of all hosts of the filter."""

    title: str
    count: int
    hosts: Sequence[HostRow]
    histories: Mapping[str, tuple[float | None, ...]]


def _read_page(filters: HostFilter, order: HostOrder) -> _HostsPage:
    found = list_hosts(filters, with_last_runs=order.needs_last_runs)
    histories = read_host_histories(found) if order.sort == "history" else {}
    start = (order.page - 1) * HOSTS_ON_A_PAGE
    page = sort_hosts(found, order, histories)[start : start + HOSTS_ON_A_PAGE]
    if not order.needs_last_runs:
        page = add_last_runs(page)
    return _HostsPage(summarize_hosts(found), len(found), page, histories or read_host_histories(page))


@never_cache
@require_safe
@may_read
def hosts(request: HttpRequest) -> HttpResponse:
    """List hosts with their state, in the order and the groups of the address; admins can add one."""
    form = read_form(HostFilterForm, request.GET)
    bar = make_filter_bar(request, keep=("sort",), fields="storage/_hosts_fields.html")
    errors = list_errors(form)
    order = read_order(request.GET, errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    load = partial(_read_page, form.make_filter(bar.filter), order)
    is_large = Host.objects.count() > _CACHED_FROM
    found = (
        read_cached("hosts", form.cleaned_data, bar.filter, order, load=load, age_s=CHART_S)
        if is_large
        else load()
    )
    context = {
        "title": found.title,
        "groups": make_groups(found.hosts, order, found.histories),
        "heads": make_heads(request.GET, order),
        "is_worst_first": order.sort == "incidents" and order.is_descending,
        "group_choices": (group_choices := list_group_choices(list_label_names(), order.group)),
        "words": [
            *(
                ("grouped by", lower_label(label), "hosts-group")
                for value, label, is_chosen in group_choices
                if value and is_chosen
            ),
            *(("", text, f"filter-{name}") for name, text in _OPTIONS.items() if form.cleaned_data[name]),
        ],
        "pager": make_pager(request.GET, order, count=found.count),
        "list_form": form,
        "selection_kind": KINDS["host"],
        "bar": bar,
        "range": describe_bounds(form.cleaned_data["from_at"], form.cleaned_data["to_at"]),
        "is_filtering": bool(bar.text) or is_filtering(form),
        "excluded": ()
        if found.count
        else explain_empty(bar, lambda match: filter_hosts(HostFilter(match)).exists()),
        "agent_version": read_agent_version(),
        "agent_digest": read_agent_archive()[1],
        "agent_lines": list_agent_commands(make_base_url(request)),
        "one_time_secret": take_from_last_page(request),
    }
    return render(request, "storage/hosts.html", context)


def _list_attempts(host_id: int, asked: AskedRange) -> list[Attempt]:
    """Return the newest runs of a host without a result in a time range."""
    rows = Attempt.objects.filter(match_times("started_at", asked.from_at, asked.to_at), host_id=host_id)
    return list(rows.order_by("-started_at", "-id")[:RUNS_OF_A_HOST])


@never_cache
@require_safe
@may_read
@updates_itself
def host(request: HttpRequest, name: str) -> HttpResponse:
    """Show the state of a host: levels next to its peers, incidents, environment changes, last runs."""
    row = _find_host(name)
    maintenance = list_maintenance(row.id)
    errors: list[str] = []
    asked = read_time_range(request.GET, errors)
    days = asked.read_days(usual=HISTORY_DAYS, errors=errors)
    if errors:
        return refuse_address(request, errors)
    span = asked.levels
    rows = list_runs(
        RunFilter(Filter().with_value("host", name), from_at=asked.from_at, to_at=asked.to_at),
        limit=RUNS_OF_A_HOST,
    ).items
    columns, runs = make_run_lines(rows)
    sweep = read_sweep_progress(rows[0]) if rows else None
    patterns, days, days_without = begin_with_runs(read_host_patterns(row, span=span, days=days), days)
    changes = list_host_environment_changes(row, span=span)
    lines = make_pattern_lines(row, patterns, days, time_range=asked)
    series_query = urlencode(
        {"q": write_filter(Filter().with_value(*row.scope.split(":", 1))), **asked.bounds}
    )
    headline, *sentences = summarize_host(row, patterns, is_past=span.to_at is not None)
    context = {
        "host": row,
        "clock_offset": format_age(timezone.now() - timedelta(seconds=abs(row.clock_offset_s or 0))),
        "is_agent_outdated": is_outdated(row.agent_version, read_agent_version()),
        "shipped_version": read_agent_version(),
        "new_series_per_day": settings.HOST_NEW_SERIES_PER_DAY,
        "update_lines": list_update_commands(make_base_url(request), row.agent_installation),
        "headline": headline,
        "sentences": sentences,
        "facts": list_host_facts(row),
        "range": make_time_range(request.GET, presets=DAY_PRESETS),
        "range_text": describe_level_range(span),
        "range_query": asked.query,
        "is_past": span.to_at is not None,
        "incidents": make_incident_lines(list_incidents_by_id(row.mark.incident_ids if row.mark else ())),
        "lines": lines,
        "target_count": len({pattern.target for pattern in patterns}),
        "has_charts": any(line["chart"] for line in lines),
        "days": days,
        "days_without": days_without,
        "first_day": format_day(days.first_at),
        "last_day": format_day(days.last_at),
        "image_url": f"/api/v1/charts/host.png?{urlencode({'host': row.name, **asked.bounds})}",
        "series_query": series_query,
        "changes": [(change, ()) for change in changes],
        "columns": columns,
        "runs": runs,
        "sweep": sweep,
        "sweep_remaining": describe_remaining(sweep.remaining_s) if sweep else "",
        "attempts": _list_attempts(row.id, asked),
        "panel": make_request_panel(
            request,
            RequestFilter(host_name=name),
            find_runs=lambda: [row.last_run.id] if row.last_run else [],
        ),
        "here": request.get_full_path(),
        "no_schedule_reason": explain_no_schedule(row),
        "maintenance": maintenance,
        "is_in_maintenance": any(window.state == PlannedEventState.ACTIVE for window in maintenance),
    }
    return render(request, "storage/host.html", context, status=400 if errors else 200)


@never_cache
@require_safe
@may_read
def host_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Show schedule, target names and labels of a host; for admins also pool, retirement and tokens."""
    row = _find_host(name)
    scopes = list_host_scopes(row.name, row.pool)
    scheduled = list_scheduled_hosts(host_name=name, limit=1)
    status = read_statuses(scheduled, now=timezone.now())[row.id]
    context = {
        "host": row,
        "adoption": status.adoption,
        "is_schedule_current": status.is_current,
        "compared_lines": make_status_lines(scheduled, {row.id: status}),
        "labels": sorted(row.labels.items()),
        "schedule_lines": list_lines(row),
        "no_schedule_reason": explain_no_schedule(row),
        "mappings": list_mappings(scopes),
        "former_names": FormerName.objects.filter(present__in=scopes).defer("undo").order_by("-renamed_at"),
        "mapping_scopes": [(scope, scope.replace(":", " ", 1)) for scope in scopes],
        "rereads": count_rereads(row.scope),
        "policy": read_request_policy(row.name),
        "tokens": read_tokens(row.id),
        "now": timezone.now(),
        "one_time_secret": take_from_last_page(request),
        # Of a move that can be undone.
        "former_pool": request.GET.get("former_pool"),
    }
    return render(request, "storage/host_settings.html", context)


@require_POST
@needs_role(Role.ADMIN)
def add_host(request: HttpRequest) -> HttpResponse:
    """Create a host and its token; the next page shows the token once."""
    form = HostNameForm(request.POST)
    if not form.is_valid():
        return _refuse(request, form)
    try:
        name = form.cleaned_data["name"]
        secret = issue_host_token(name, label=form.cleaned_data["label"], created_by=read_person(request))
    except EnrollmentRefused as refusal:
        messages.error(request, f"Not added: {refusal}", extra_tags="bad")
        return redirect("hosts")
    keep_for_next_page(request, f"Token of {name.lower()}", secret)
    return redirect("host_settings", name=name.lower())


@require_POST
@needs_role(Role.ADMIN)
def make_host_token(request: HttpRequest, name: str) -> HttpResponse:
    """Create another token for a host, so that a token can be replaced without interruption."""
    _get_host(name)
    form = LabelForm(request.POST)
    if not form.is_valid():
        return _refuse(request, form)
    secret = issue_host_token(name, label=form.cleaned_data["label"], created_by=read_person(request))
    keep_for_next_page(request, f"Token of {name}", secret)
    return redirect("host_settings", name=name)


@require_POST
@needs_role(Role.ADMIN)
def make_enrollment_token(request: HttpRequest) -> HttpResponse:
    """Create an enrollment token that is valid for 24 hours."""
    form = EnrollmentForm(request.POST)
    if not form.is_valid():
        return _refuse(request, form)
    pattern = form.cleaned_data["host_pattern"]
    _, secret = issue_enrollment_token(host_pattern=pattern, created_by=read_person(request))
    command = "\n".join(list_agent_commands(make_base_url(request), secret))
    keep_for_next_page(
        request,
        f"Enrollment token, valid for 24 hours, any number of hosts{f' named {pattern}' if pattern else ''}",
        secret,
        command=command,
    )
    return redirect("hosts")


@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def set_pool(request: HttpRequest, name: str) -> HttpResponse:
    """Show what moves with a host to another pool, or out of it; POST moves it."""
    host = _get_host(name)
    form = PoolForm(request.POST if request.method == "POST" else request.GET)
    if not form.is_valid():
        return _refuse(request, form)
    pool = form.cleaned_data["pool"]
    if request.method != "POST":
        move = preview_pool(host, pool)
        context = {"host": host, "pool": pool, "move": move, **describe_joins(list_joins(move.joined_pairs))}
        return render(request, "storage/pool.html", context)
    moved = save_pool(name, pool, by=read_person(request))
    wake_up()
    count = format_count(moved.series if moved else 0, "series")
    place = f"to pool {pool}" if pool else "out of its pool"
    messages.success(request, f"{name} moved {place}, with {count}.", extra_tags="good")
    return redirect(f"{reverse('host_settings', args=[name])}?{urlencode({'former_pool': host.pool})}")


@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def map_target_name(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a pattern of target names changes, or its removal; POST adds or removes it."""
    host = _get_host(name)
    given = request.POST if request.method == "POST" else request.GET
    scopes = list_host_scopes(host.name, host.pool)
    stored = next((each for each in list_mappings(scopes) if str(each.pk) == given.get("remove")), None)
    if "remove" in given and stored is None:
        raise Http404("This pattern of target names does not exist.")
    mapping = stored or TargetMapping(**{each: given.get(each, "") for each in TargetMapping.given})
    back = f"{reverse('host_settings', args=[name])}#target-names"
    try:
        if mapping.scope not in scopes:
            raise BadValue("scope", f"choose {' or '.join(scopes)}")
        if request.method != "POST":
            return render(request, "storage/target_name.html", _preview_mapping(host, mapping))
        if stored:
            remove_mapping(stored.pk, by=read_person(request))
        else:
            add_mapping(mapping, by=read_person(request))
    except (BadValue, ImportRunning) as problem:
        messages.error(request, f"Not changed: {problem}.", extra_tags="bad")
        return redirect(back)
    wake_up()
    text = f"{'Removed' if stored else 'Added'}. Workers read the history of {mapping.place} again."
    messages.success(request, text, extra_tags="good")
    return redirect(back)


def _preview_mapping(host: Host, mapping: TargetMapping) -> dict[str, Any]:
    """Return the context of the preview of a new mapping, or of the removal of a stored one."""
    stored_id = mapping.pk
    effect = preview_removal(stored_id) if stored_id else preview_adding(mapping)
    # A new one had an id only while its effect was read.
    return {
        "host": host,
        "mapping": mapping,
        "is_removal": stored_id is not None,
        "title": f"{'Remove' if stored_id else 'Map'} {mapping.pattern} to {mapping.target_name}",
        "effect": effect,
        "targets": effect.targets[:_ROWS_MAXIMUM],
        "more_targets": len(effect.targets[_ROWS_MAXIMUM:]),
    }


@require_POST
@needs_role(Role.ADMIN)
def set_retired(request: HttpRequest, name: str) -> HttpResponse:
    """Retire or reactivate a host."""
    _get_host(name)
    if request.POST.get("retired") == "yes":
        retire_host(name, by=read_person(request))
        text = f"{name} retired. Its history is kept; its tokens are rejected."
    else:
        restore_host(name, by=read_person(request))
        text = f"{name} reactivated with its previous tokens."
    messages.success(request, text, extra_tags="good")
    return redirect("host_settings", name=name)


@require_safe
def agent_archive(request: HttpRequest) -> HttpResponse:
    """Send the agent as one executable file; public, as a new host has no token yet."""
    content, digest = read_agent_archive()
    etag = f'"{digest}"'
    headers = {"ETag": etag, "Cache-Control": "public, no-cache", "X-Content-SHA256": digest}
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponse(status=304, headers=headers)
    headers["Content-Disposition"] = 'attachment; filename="bench-agent.pyz"'
    return HttpResponse(content, content_type="application/zip", headers=headers)


@never_cache
@require_safe
def agent_release(request: HttpRequest) -> HttpResponse:
    """Tell agents that update themselves, as earlier ones do, that there is nothing newer: they go on without."""
    return JsonResponse(
        {"version": "0.0", "sha256": "0" * 64, "size_bytes": 0, "signature": None, "is_offered": False}
    )


def _find_host(name: str) -> HostRow:
    row = read_host(name)
    if row is None:
        raise _make_404(name)
    return row


def _get_host(name: str) -> Host:
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise _make_404(name)
    return host


def _make_404(name: str) -> Http404:
    return Http404(f"Host {name} does not exist. Hosts appear here after enrollment.")


def _refuse(request: HttpRequest, form: Form) -> HttpResponse:
    messages.error(request, " ".join(list_errors(form)), extra_tags="bad")
    return redirect("hosts")
