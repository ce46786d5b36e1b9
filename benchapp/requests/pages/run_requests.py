"""Run requests: list, details, and the panel on other pages."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.metrics import format_count, format_percent
from benchapp.framework.pages.access import can, choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import list_errors, refuse_address
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.time_range import describe_bounds, make_time_range, read_time_range
from benchapp.framework.times import describe_remaining
from benchapp.models import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_MAXIMUM,
    Incident,
    Role,
    RunRequest,
    RunRequestState,
    Series,
)
from benchapp.models.requests import REFUSALS, describe_parameters
from benchapp.requests.read.run_requests import (
    Repeatability,
    RequestFilter,
    count_run_requests,
    list_confirmation_pools,
    page_run_requests,
    read_repeatability,
)
from benchapp.requests.write.run_requests import (
    BadConfirmationPolicy,
    RequestOrigin,
    RequestRefused,
    RequestSettled,
    UnknownRunRequest,
    cancel_run_request,
    repeat_run,
    set_confirmation_policy,
)

REQUESTS_ON_A_PAGE: Final = 10
# Runs that one button requests: the newest ones of an incident, each on another host or of another profile.
RUNS_REQUESTED_MAXIMUM: Final = 3
_STATES: Final = {
    RunRequestState.PENDING: "waits for the host",
    RunRequestState.DONE: "done: result stored",
    RunRequestState.EXPIRED: "expired: the host did not ask in time",
}
_CLASSES: Final = {
    RunRequestState.PENDING: "waiting",
    RunRequestState.RUNNING: "waiting",
    RunRequestState.DONE: "good",
    RunRequestState.FAILED: "bad",
    RunRequestState.DECLINED: "bad",
}


def make_request_panel(
    request: HttpRequest, chosen: RequestFilter, *, find_runs: Callable[[], Sequence[int]]
) -> dict[str, Any]:
    """Return the section of a page. find_runs: returns what its button repeats, most important first; for editors.

    run_ids: what the button repeats, "" without one; offer: as text; obstacle: why there is no button. series_id,
    incident_id: of the page, to list its requests. has_more: older requests are left out. is_shown: not where nobody
    can request a run, and nobody did.
    """
    page = page_run_requests(chosen, limit=REQUESTS_ON_A_PAGE)
    runs = read_repeatability(find_runs()) if can(find_visitor(request), Role.EDITOR) else []
    possible = _list_distinct([run for run in runs if run.refusal is None])
    refusals = {run.refusal for run in runs} - {None, "policy-unknown"}
    refusal = next((run.refusal for run in runs if run.refusal in refusals), None)
    obstacle = REFUSALS[refusal] if refusal and not possible else ""
    return {
        "lines": make_request_lines(page.items),
        "has_more": page.next_cursor is not None,
        "run_ids": ",".join(str(run.run_id) for run in possible),
        "offer": tuple(map(_describe_offer, possible)),
        "obstacle": obstacle,
        "series_id": chosen.series_id,
        "incident_id": chosen.incident_id,
        "is_shown": bool(page.items or possible or obstacle),
    }


def make_request_lines(rows: Sequence[RunRequest]) -> tuple[dict[str, Any], ...]:
    """Return the rows of the table."""
    return tuple(map(_make_line, rows))


def _count_open(chosen: RequestFilter) -> str:
    """Return the title: what the requests, of all pages, do now."""
    by_state = count_run_requests(chosen)
    counts = [
        f"{by_state[state]} {text}"
        for state, text in ((RunRequestState.RUNNING, "running"), (RunRequestState.PENDING, "waiting"))
        if state in by_state
    ]
    return f"Requested runs: {', '.join(counts) or 'none waits or runs'}"


def _list_distinct(runs: Sequence[Repeatability]) -> list[Repeatability]:
    """Return one run for each host and specification, at most three."""
    found: dict[str, Repeatability] = {}
    for run in runs:
        found.setdefault(_describe_offer(run), run)
    return list(found.values())[:RUNS_REQUESTED_MAXIMUM]


def _describe_offer(run: Repeatability) -> str:
    """Return "quick runtime=10 on db-1, in /data"."""
    wanted = run.specification
    if wanted is None:
        return run.host_name
    parameters = describe_parameters(wanted.parameters)
    return f"{f'{wanted.profile} {parameters}'.strip()} on {run.host_name}, in {wanted.directory}"


def _describe_progress(row: RunRequest) -> str:
    """Return "42 %, about 3 min left"; "" unless it is running."""
    if row.progress is None or row.remaining_s is None:
        return ""
    return f"{format_percent(round(row.progress, 2))}, {describe_remaining(row.remaining_s)}"


def _make_line(row: RunRequest) -> dict[str, Any]:
    return {
        "row": row,
        "state": _STATES.get(RunRequestState(row.state), RunRequestState(row.state).label.lower()),
        "progress": row.progress,
        "progress_text": _describe_progress(row),
        "css": _CLASSES.get(RunRequestState(row.state), ""),
        "parameters": describe_parameters(row.parameters),
        "can_be_canceled": row.state == RunRequestState.PENDING,
    }


ROWS_ON_A_PAGE: Final = 50
_RUN_CHOICES: Final = range(CONFIRMATION_RUNS_MAXIMUM + 1)
# Of the day, until a pool has a policy.
_SHARE_DEFAULT: Final = 0.05


class ConfirmationForm(forms.Form):
    """The policy of a pool. share: in per cent of the day."""

    pool = forms.CharField(required=False, max_length=100, strip=False)
    runs = forms.IntegerField(min_value=0, max_value=CONFIRMATION_RUNS_MAXIMUM)
    share = forms.FloatField(min_value=0.1, max_value=DAILY_SHARE_MAXIMUM * 100)


class RunAgainForm(forms.Form):
    """The runs to repeat, as the section of a page names them."""

    runs = forms.RegexField(
        regex=rf"^[1-9][0-9]{{0,17}}(,[1-9][0-9]{{0,17}}){{0,{RUNS_REQUESTED_MAXIMUM - 1}}}\Z",
        error_messages={"invalid": f"Name 1 to {RUNS_REQUESTED_MAXIMUM} runs, separated by commas."},
    )
    series = forms.ModelChoiceField(Series.objects.all(), required=False)
    incident = forms.ModelChoiceField(Incident.objects.all(), required=False)


@never_cache
@require_safe
@may_read
@updates_itself
def run_requests(request: HttpRequest) -> HttpResponse:
    """List the requests of all hosts, newest first, and the policies of automatic confirmation."""
    errors: list[str] = []
    time_range = read_time_range(request.GET, errors)
    if errors:
        return refuse_address(request, errors)
    chosen = RequestFilter(from_at=time_range.from_at, to_at=time_range.to_at)
    page, links = turn_page(
        request, errors, read=lambda after: page_run_requests(chosen, after=after, limit=ROWS_ON_A_PAGE)
    )
    context = {
        **links,
        "errors": errors,
        "title": _count_open(chosen),
        "lines": make_request_lines(page.items),
        "range": make_time_range(request.GET),
        "range_text": describe_bounds(time_range.from_at, time_range.to_at),
        "pools": [
            (pool, f"{(pool.daily_share or _SHARE_DEFAULT) * 100:g}") for pool in list_confirmation_pools()
        ],
        "run_choices": _RUN_CHOICES,
        "share_maximum": f"{DAILY_SHARE_MAXIMUM * 100:g}",
        "here": request.get_full_path(),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/confirmation-policies"),
    }
    return render(request, "requests/run_requests.html", context, status=400 if errors else 200)


@require_POST
@needs_role(Role.EDITOR)
def set_confirmation(request: HttpRequest) -> HttpResponse:
    """Set the policy of automatic confirmation of one pool."""
    form = ConfirmationForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Not saved: {' '.join(list_errors(form))}", extra_tags="bad")
        return redirect("run_requests")
    try:
        set_confirmation_policy(
            form.cleaned_data["pool"],
            runs=form.cleaned_data["runs"],
            daily_share=form.cleaned_data["share"] / 100,
            by=read_person(request),
        )
    except BadConfirmationPolicy as problem:
        messages.error(request, f"Not saved: {problem}.", extra_tags="bad")
    else:
        messages.success(request, "Saved.", extra_tags="good")
    return redirect("run_requests")


@require_POST
@needs_role(Role.EDITOR)
def run_again(request: HttpRequest) -> HttpResponse:
    """Request the runs of a form again, for their hosts."""
    form = RunAgainForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Not requested: {' '.join(list_errors(form))}", extra_tags="bad")
        return redirect(choose_next(request, "runs"))
    origin = _read_origin(request, form.cleaned_data)
    requested, refusals = [], []
    for run_id in form.cleaned_data["runs"].split(","):
        try:
            requested.append(repeat_run(int(run_id), origin=origin))
        except UnknownRunRequest as error:
            raise Http404(f"{error}.") from error
        except RequestRefused as refusal:
            refusals.append(f"{refusal.host_name}: {refusal}")
    if refusals:
        # Several runs of one host have the same reason.
        reasons = "; ".join(dict.fromkeys(refusals))
        messages.error(request, f"Not requested: {reasons}.", extra_tags="bad")
    if requested:
        hosts = ", ".join(sorted({each.host.name for each in requested}))
        messages.success(
            request,
            f"{format_count(len(requested), 'run')} requested of {hosts}. A host starts it at its next poll.",
            extra_tags="good",
        )
    return redirect(choose_next(request, "runs"))


@require_POST
@needs_role(Role.EDITOR)
def cancel_request(request: HttpRequest, name: str, request_id: UUID) -> HttpResponse:
    """Cancel a pending request."""
    try:
        cancel_run_request(name, request_id, by=read_person(request))
    except UnknownRunRequest as error:
        raise Http404(f"{error}.") from error
    except RequestSettled as error:
        messages.error(request, f"Not canceled: {error}.", extra_tags="bad")
    else:
        messages.success(request, "Request canceled.", extra_tags="good")
    return redirect(choose_next(request, "runs"))


def _read_origin(request: HttpRequest, cleaned: dict[str, Any]) -> RequestOrigin:
    return RequestOrigin(
        by=read_person(request),
        series_id=cleaned["series"].pk if cleaned["series"] else None,
        incident_id=cleaned["incident"].pk if cleaned["incident"] else None,
    )
