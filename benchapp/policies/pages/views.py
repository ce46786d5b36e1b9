"""Create, cancel and restore detection policies; dry runs of thresholds."""

from collections.abc import Callable, Mapping
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS, format_percent
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.list_entries import change_entry, confirm_change, describe_entry
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.framework.queue import wake_dry_run
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import DetectionPolicy, DryRunState, Role
from benchapp.models.policies.thresholds import list_matching_series
from benchapp.policies.pages.forms import DetectionPolicyForm
from benchapp.policies.pages.texts import (
    describe_dry_run,
    describe_target,
    format_dry_run_title,
    format_policy_title,
    list_dry_run_incidents,
)
from benchapp.policies.read import (
    list_detection_policies,
    list_dry_runs,
    read_detection_policy,
    read_dry_run,
)
from benchapp.policies.write.dry_runs import UnknownDryRun, cancel_dry_run, start_dry_run
from benchapp.policies.write.policies import POLICIES

ROWS_ON_A_PAGE: Final = 50
# Between two loads of the page of a running dry run.
_REFRESH_S: Final = 3
ACTIONS: Final[Mapping[str, tuple[Callable[..., DetectionPolicy], str]]] = {
    "cancel": (POLICIES.cancel, "Canceled. The series are evaluated again."),
    "restore": (POLICIES.restore, "Restored. The series are evaluated again."),
}


@never_cache
@require_safe
@may_read
def detection_policies(request: HttpRequest) -> HttpResponse:
    """List the policies in effect, or the canceled ones, and the newest dry runs."""
    errors: list[str] = []
    wanted = request.GET.get("tab", "current")
    if wanted not in ("current", "canceled"):
        errors.append("Unknown tab. Available: current, canceled.")
    is_canceled = wanted == "canceled"
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_detection_policies(
            is_canceled=is_canceled, after=after, limit=ROWS_ON_A_PAGE
        ),
    )
    context = {
        **links,
        "errors": errors,
        "is_canceled": is_canceled,
        "tabs": [
            (label, keep_query(request.GET, tab=name, after=None), (name == "canceled") == is_canceled)
            for name, label in (("current", "In effect"), ("canceled", "Canceled"))
        ],
        "rows": [
            (
                row,
                CATALOG[row.metric].label,
                describe_target(row.filter, row.label),
                format_percent(row.smallest_change),
                format_percent(row.default),
            )
            for row in page.items
        ],
        "dry_runs": [
            (row, format_dry_run_title(row), describe_target(row.filter, row.label))
            for row in list_dry_runs()
        ],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/detection-policies"),
    }
    return render(request, "policies/detection_policies.html", context, status=400 if errors else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_detection_policy(request: HttpRequest) -> HttpResponse:
    """Show the form, start a dry run of the threshold, or save the policy."""
    form = (
        DetectionPolicyForm(request.POST)
        if request.method == "POST"
        else DetectionPolicyForm(initial=_read_initial(request))
    )
    if request.method == "POST" and form.is_valid():
        try:
            return _save(request, form.instance, is_dry_run="dry_run" in request.POST)
        except BadValue as problem:
            form.refuse(problem)
    return render(
        request, "policies/add_detection_policy.html", {"form": form}, status=400 if form.errors else 200
    )


@never_cache
@require_safe
@may_read
def detection_policy(request: HttpRequest, policy_id: int) -> HttpResponse:
    """Show one policy with its activity."""
    policy = read_detection_policy(policy_id)
    if policy is None:
        raise Http404(f"Detection policy {policy_id} does not exist.")
    context = {
        **describe_entry(request, policy, title=format_policy_title(policy), path="detection-policies"),
        "metric": CATALOG[policy.metric],
        "threshold": format_percent(policy.smallest_change),
        "default": format_percent(policy.default),
        "series_count": len(list_matching_series(policy.filter, policy.label)),
    }
    return render(request, "policies/detection_policy.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_detection_policy(request: HttpRequest, policy_id: int, act: str) -> HttpResponse:
    """Cancel a policy, or restore it."""
    apply, success_text = ACTIONS[act]
    return change_entry(request, apply, policy_id, success_text=success_text, page="detection_policy")


@never_cache
@require_safe
@may_read
def dry_run(request: HttpRequest, dry_run_id: int) -> HttpResponse:
    """Show the progress of a dry run, or its incidents that are added and that disappear."""
    row = read_dry_run(dry_run_id)
    if row is None:
        raise Http404(f"Dry run {dry_run_id} does not exist. Dry runs are deleted after 30 days.")
    context = {
        "title": format_dry_run_title(row),
        "row": row,
        "metric": CATALOG[row.metric],
        "threshold": format_percent(row.smallest_change),
        "default": format_percent(row.default),
        "sentences": describe_dry_run(row),
        "is_running": row.state == DryRunState.RUNNING,
        "is_done": row.state == DryRunState.DONE,
        "is_failed": row.state == DryRunState.FAILED,
        "refresh_s": _REFRESH_S,
        "lists": [
            (
                side,
                side.capitalize(),
                row.comparison[f"{side}_count"],
                list_dry_run_incidents(row.comparison[side]),
            )
            for side in ("added", "removed")
        ],
        "initial": {
            "metric": row.metric,
            "threshold": f"{row.smallest_change * 100:g}",
            "filter": row.filter,
            "label": row.label,
        },
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/detection-dry-runs/{row.id}"),
    }
    return render(request, "policies/dry_run.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_dry_run(request: HttpRequest, dry_run_id: int) -> HttpResponse:
    """Cancel a running dry run."""
    try:
        cancel_dry_run(dry_run_id)
    except UnknownDryRun as error:
        raise Http404(f"{error}. Dry runs are deleted after 30 days.") from error
    except BadValue as problem:
        messages.error(request, f"Not canceled: {problem}.", extra_tags="bad")
    else:
        messages.success(request, "Canceled. Nothing more is evaluated.", extra_tags="good")
    return redirect("dry_run", dry_run_id=dry_run_id)


def _save(request: HttpRequest, policy: DetectionPolicy, *, is_dry_run: bool) -> HttpResponse:
    if is_dry_run:
        started = start_dry_run(
            policy.metric,
            policy.smallest_change,
            filter=policy.filter,
            label=policy.label,
            by=read_person(request),
        )
        wake_dry_run()
        return redirect("dry_run", dry_run_id=started.pk)
    saved = POLICIES.create(policy, by=read_person(request))
    confirm_change(request, "Saved. The series are evaluated again.")
    return redirect("detection_policy", policy_id=saved.pk)


def _read_initial(request: HttpRequest) -> dict[str, str]:
    """Return the initial values of the form from the query string."""
    initial = {name: request.GET.get(name, "")[:2000] for name in ("filter", "label", "threshold")}
    metric = request.GET.get("metric", "")
    return initial | {"metric": metric if metric in JUDGED_METRICS else JUDGED_METRICS[0]}
