"""Maintenance windows and expected changes: said, looked at, ended early, taken back, each with its undo."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.grammar import BadFilter, parse_filter
from benchapp.models import Expectation, ExpectationKind, Host, Role
from benchapp.models.host_filtering import match_hosts
from benchapp.pipeline.maintenance.expectations import (
    OPEN_MAXIMUM,
    BadExpectation,
    NotSchedulable,
    UnknownExpectation,
    end_expectation,
    expect,
    put_back,
    read_plan,
    resume_expectation,
    take_back,
)
from benchapp.pipeline.maintenance.impact import Impact, preview_impact
from benchapp.queries.maintenance import (
    CURRENT,
    ExpectationRow,
    ExpectationState,
    count_expectations,
    list_expectations,
    read_expectation,
    read_incident_reach,
)
from benchapp.queue import wake_up
from benchapp.web.maintenance.forms import KINDS, ExpectationForm, make_initial, read_zones, write_scopes
from benchapp.web.maintenance.texts import say_effect, say_expectation, say_list, say_reach
from benchapp.web.site.access import may_read, needs_role, read_person
from benchapp.web.site.command_lines import say_request
from benchapp.web.site.filter_forms import keep_query
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.pagination import turn_page

ROWS_ON_A_PAGE: Final = 50
_TABS: Final[Mapping[str, tuple[ExpectationState, ...]]] = {
    "current": CURRENT,
    "past": (ExpectationState.PAST,),
    "taken_back": (ExpectationState.TAKEN_BACK,),
}
_TAB_WORDS: Final = {"current": "Running and to come", "past": "Over", "taken_back": "Taken back"}
_Act = Callable[..., Expectation]
_ACTS: Final[Mapping[str, tuple[_Act, str]]] = {
    "end": (end_expectation, "It is ended: runs and changes from now on are judged as ever."),
    "resume": (resume_expectation, "It holds until its planned end again."),
    "take-back": (take_back, "It is taken back, and holds for nothing."),
    "put-back": (put_back, "It holds again."),
}


@never_cache
@require_safe
@may_read
def expectations(request: HttpRequest) -> HttpResponse:
    """List what runs and is to come; in other parts what is over, and what was taken back."""
    now = timezone.now()
    errors: list[str] = []
    tab = _choose(request, "tab", [*_TABS], errors) or "current"
    kind = _choose(request, "kind", ExpectationKind.values, errors)
    chosen = ExpectationKind(kind) if kind else None
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_expectations(
            _TABS[tab], now=now, kind=chosen, after=after, limit=ROWS_ON_A_PAGE
        ),
    )
    counts = count_expectations(now=now, kind=chosen)
    context = {
        **links,
        "title": say_list(counts),
        "errors": errors,
        "rows": [(row, row.state.label) for row in page.items],
        "tabs": [
            (
                words,
                keep_query(request.GET, tab=name, after=None),
                sum(counts[s] for s in _TABS[name]),
                name == tab,
            )
            for name, words in _TAB_WORDS.items()
        ],
        "kinds": [
            (words, keep_query(request.GET, kind=value or None, after=None), value == (kind or ""))
            for value, words in [("", "Both"), *KINDS]
        ],
        "tab": tab,
        "api_line": say_request(f"{make_base_url(request)}/api/v1/expectations"),
    }
    return render(request, "maintenance/expectations.html", context, status=400 if errors else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_expectation(request: HttpRequest) -> HttpResponse:
    """Ask what is expected; show what that reaches; keep it."""
    form = (
        ExpectationForm(request.POST)
        if request.method == "POST"
        else ExpectationForm(initial=_begin(request))
    )
    reach = None
    if request.method == "POST" and form.is_valid():
        try:
            if "preview" not in request.POST:
                return _keep(request, form.cleaned_data)
            reach = _preview(form.cleaned_data)
        except BadExpectation as problem:
            form.refuse(problem.field, str(problem))
    context = {
        "form": form,
        "is_fresh": request.method != "POST",
        "knows_zones": read_zones(),
        "reach": reach,
        "reach_words": say_reach(reach) if reach else [],
        "effect": say_effect(is_maintenance=_read_kind(form) == ExpectationKind.MAINTENANCE) if reach else "",
        "effects": [(words, say_effect(is_maintenance=value == "maintenance")) for value, words in KINDS],
    }
    return render(request, "maintenance/add_expectation.html", context, status=400 if form.errors else 200)


@never_cache
@require_safe
@may_read
def expectation(request: HttpRequest, expectation_id: int) -> HttpResponse:
    """Show one: what it reaches, and who did what to it."""
    detail = read_expectation(expectation_id, now=timezone.now())
    if detail is None:
        raise Http404(f"There is no expectation {expectation_id}.")
    row = detail.row
    reach = preview_impact(row.filter, from_at=row.from_at, to_at=row.over_at)
    context = {
        "title": say_expectation(row),
        "row": row,
        "trail": detail.trail,
        "state": row.state.label,
        "reach": reach,
        "reach_words": say_reach(reach),
        "effect": say_effect(is_maintenance=row.is_maintenance),
        "api_line": say_request(f"{make_base_url(request)}/api/v1/expectations/{row.id}"),
    }
    return render(request, "maintenance/expectation.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_expectation(request: HttpRequest, expectation_id: int, act: str) -> HttpResponse:
    """End it early, take it back, or undo either."""
    do, words = _ACTS[act]
    try:
        do(expectation_id, by=read_person(request))
    except UnknownExpectation as error:
        raise Http404(f"{error}.") from error
    except (NotSchedulable, BadExpectation) as problem:
        messages.error(request, f"Not done: {problem}.", extra_tags="bad")
    else:
        wake_up()
        messages.success(request, words, extra_tags="good")
    return redirect("expectation", expectation_id=expectation_id)


def list_maintenance(host_id: int) -> list[ExpectationRow]:
    """Return the maintenance windows that a host is in or comes into, those that begin last first."""
    host = Host.objects.get(pk=host_id)
    page = list_expectations(
        CURRENT, now=timezone.now(), kind=ExpectationKind.MAINTENANCE, limit=OPEN_MAXIMUM
    )
    return [row for row in page.items if _concerns(row, host)]


def _concerns(row: ExpectationRow, host: Host) -> bool:
    try:
        return host.pk in match_hosts(parse_filter(row.filter), [host])
    except BadFilter:
        return False


def _keep(request: HttpRequest, given: Mapping[str, Any]) -> HttpResponse:
    said = {name: given[name] for name in ("kind", "filter", "from_at", "to_at", "reason")}
    kept = expect(**said, by=read_person(request))
    wake_up()
    messages.success(request, "It is kept.", extra_tags="good")
    return redirect("expectation", expectation_id=kept.pk)


def _preview(given: Mapping[str, Any]) -> Impact:
    said = {name: given[name] for name in ("kind", "filter", "from_at", "to_at")}
    plan = read_plan(**said, reason=given["reason"] or "only looked at")
    return preview_impact(plan.filter, from_at=plan.from_at, to_at=plan.to_at)


def _begin(request: HttpRequest) -> dict[str, Any]:
    """Return what the form begins with: a host's maintenance, what an incident is about, or what the address says."""
    kind = request.GET.get("kind", "")
    if kind not in ExpectationKind.values:
        kind = ExpectationKind.MAINTENANCE.value
    from_at: datetime | None = None
    filter = request.GET.get("filter", "")[:2000]
    if host := request.GET.get("host", ""):
        filter = write_scopes([f"host:{host[:253]}"])
    if (number := request.GET.get("incident", "")).isdecimal() and len(number) < 19:
        kind = ExpectationKind.CHANGE.value
        started_at, scopes = read_incident_reach(int(number))
        filter, from_at = write_scopes(scopes), started_at
    return make_initial(kind, filter=filter, from_at=from_at)


def _read_kind(form: ExpectationForm) -> str:
    return str(form.cleaned_data.get("kind", "")) if form.is_bound else ""


def _choose(request: HttpRequest, name: str, values: list[str], errors: list[str]) -> str | None:
    wanted = request.GET.get(name)
    if not wanted or wanted in values:
        return wanted or None
    errors.append(f"There is no such {name}; there are: {', '.join(values)}.")
    return None
