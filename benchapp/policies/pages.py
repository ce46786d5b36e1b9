"""Create, cancel and restore detection policies; dry runs of thresholds."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import (
    CATALOG,
    JUDGED_METRICS,
    SMALLEST_CHANGES,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
)
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import keep_query
from benchapp.framework.pages.list_entries import (
    FILTER_HELP,
    FILTER_INPUT,
    TEXT_INPUT,
    WORD_INPUT,
    ResourceForm,
    change_entry,
    confirm_change,
    describe_entry,
    turn_page,
)
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.queue import wake_dry_run
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    DetectionDryRun,
    DetectionPolicy,
    DryRunState,
    Role,
    name_scopes,
)
from benchapp.models.coverage import list_matching_series
from benchapp.policies.read import list_detection_policies, list_dry_runs, read_detection_policy, read_dry_run
from benchapp.policies.write import DRY_RUN_DAYS, POLICIES, UnknownDryRun, cancel_dry_run, start_dry_run


def _list_metrics() -> list[tuple[str, str]]:
    return [
        (name, f"{CATALOG[name].label} (default {SMALLEST_CHANGES[name] * 100:.0f} %)")
        for name in JUDGED_METRICS
    ]


class DetectionPolicyForm(ResourceForm):
    """The threshold of a metric, in percent, for the series of a filter and a label."""

    metric = forms.ChoiceField(label="Metric", choices=_list_metrics)
    threshold = forms.FloatField(
        label="Threshold, %",
        min_value=THRESHOLD_MINIMUM * 100,
        max_value=THRESHOLD_MAXIMUM * 100,
        help_text="Smaller changes are not reported.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    field_order = ("metric", "threshold")
    renamed: ClassVar = {"smallest_change": "threshold"}

    class Meta:
        model = DetectionPolicy
        # The form has the smallest change in percent.
        fields = tuple(name for name in DetectionPolicy.given if name != "smallest_change")
        labels: Final = {"filter": "Applies to", "label": "Label of the newest run"}
        help_texts: Final = {"filter": FILTER_HELP, "label": "KEY=VALUE. Empty: with any labels."}
        widgets: Final = {"filter": FILTER_INPUT, "label": WORD_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A dry run does not depend on the reason.
        self.fields["reason"].required = "dry_run" not in self.data

    def clean(self) -> dict[str, Any]:
        """Convert the threshold."""
        if "threshold" in self.cleaned_data:
            self.instance.smallest_change = self.cleaned_data["threshold"] / 100
        super().clean()
        return self.cleaned_data


def format_policy_title(row: DetectionPolicy) -> str:
    """Return the title of one policy: "IOPS from 10 % on: pool:web"."""
    state = " (canceled)" if row.canceled_at else ""
    return f"{format_threshold(row.metric, row.smallest_change)}: {describe_target(row.filter, row.label)}{state}"


def format_threshold(metric: str, smallest_change: float) -> str:
    """Return a threshold in words: "IOPS from 10 % on"."""
    return f"{CATALOG[metric].label} from {format_percent(smallest_change)} on"


def describe_target(filter: str, label: str) -> str:
    """Return what a threshold applies to: "pool:web, label tier=prod"."""
    parts = [filter or "all series", *([f"label {label}"] if label else [])]
    return ", ".join(parts)


def format_dry_run_title(row: DetectionDryRun) -> str:
    """Return the result of a dry run in a sentence: "12 incidents instead of 5 with IOPS from 2 % on"."""
    threshold = format_threshold(row.metric, row.smallest_change)
    if row.state == DryRunState.RUNNING:
        done, total = format_integer(row.done_count), format_count(row.evaluated_count, "series")
        return f"Dry run of {threshold}: {done} of {total} evaluated"
    if row.state == DryRunState.FAILED:
        return f"Dry run of {threshold} failed"
    if row.state == DryRunState.CANCELED:
        return f"Dry run of {threshold} canceled"
    result = row.comparison
    found = format_count(result["proposed"] or 0, "incident")
    if result["proposed"] == result["current"] and not result["added_count"] and not result["removed_count"]:
        return f"{found} with {threshold}, as with the thresholds of today"
    return f"{found} instead of {format_integer(result['current'] or 0)} with {threshold}"


def describe_dry_run(row: DetectionDryRun) -> list[str]:
    """Return what was evaluated, and what was not, in sentences."""
    texts = []
    if not row.evaluated_count:
        texts.append("No series match.")
    elif row.series_count > row.evaluated_count:
        total = format_count(row.series_count, "matching series")
        texts.append(
            f"Only the first {format_integer(row.evaluated_count)} of {total} are evaluated: narrow the filter."
        )
    texts.append(
        f"Regressions of level that began in the last {DRY_RUN_DAYS} days, calculated from the runs of today with both"
        " thresholds. Not included: drifts, pooled levels, changes that ended before they lasted 30 runs, and expected"
        " changes. Incidents of several hosts count once for each."
    )
    return texts


def list_dry_run_incidents(incidents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of added or removed incidents, as `DetectionDryRun.comparison` has them."""
    return [_make_line(**incident) for incident in incidents]


def _make_line(
    *,
    scope: str,
    started_at: str,
    metric: str,
    relative: float,
    series: int,
    series_id: int,
    incident: int | None,
) -> dict[str, Any]:
    size = f"{format_signed_percent(relative)} in {format_count(series, 'series')}"
    title = f"{name_scopes([scope])}: {CATALOG[metric].label} {size}"
    url, link = reverse("series_detection", args=[series_id]), f"series {series_id}"
    url = f"{url}?{urlencode({'metric': metric})}"
    if incident is not None:
        url, link = reverse("incident", args=[incident]), f"incident {incident}"
    return {"started_at": datetime.fromisoformat(started_at), "title": title, "url": url, "link": link}


ROWS_ON_A_PAGE: Final = 50
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
@updates_itself
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
