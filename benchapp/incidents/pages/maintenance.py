"""Schedule, preview, end and cancel maintenance windows, expected changes and notes; the last two can be undone."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import CATALOG, format_count
from benchapp.framework.pages.access import choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import keep_query, refuse_address, write_scopes
from benchapp.framework.pages.list_entries import (
    FILTER_HELP,
    FILTER_INPUT,
    TEXT_INPUT,
    ResourceForm,
    change_entry,
    confirm_change,
    describe_entry,
    turn_page,
)
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import describe_bounds, make_time_range, parse_bound, read_time_range
from benchapp.framework.times import find_zone, name_zone
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.read.maintenance import (
    CURRENT,
    count_planned_events,
    list_planned_events,
    read_planned_event,
    read_similar_changes,
)
from benchapp.incidents.write.planned_events import (
    EVENTS,
    OPEN_MAXIMUM,
    RUNS_COUNTED,
    Impact,
    end_planned_event,
    preview_impact,
    resume_planned_event,
)
from benchapp.models import Host, PlannedEvent, PlannedEventKind, PlannedEventState, Role
from benchapp.models.coverage import match_hosts

KINDS: Final = [
    (kind.value, str(kind.label))
    for kind in (PlannedEventKind.MAINTENANCE, PlannedEventKind.CHANGE, PlannedEventKind.NOTE)
]
METRICS: Final = [("", "All metrics"), *((name, CATALOG[name].label) for name in CATALOG)]
DIRECTIONS: Final = [("", "Both"), ("true", "Regressions"), ("false", "Improvements")]
_SPANS: Final = {
    PlannedEventKind.MAINTENANCE.value: timedelta(hours=4),
    PlannedEventKind.CHANGE.value: timedelta(days=7),
}


class MomentInput(forms.DateTimeInput):
    """A date and a time of day in the time zone of the form."""

    input_type = "datetime-local"


class PlannedEventForm(ResourceForm):
    """A maintenance window, expected change or note; times are in the selected time zone.

    next: address of the chart to return to, "" for the page of the event.
    """

    kind = forms.ChoiceField(label="Type", choices=KINDS)
    metric = forms.ChoiceField(label="Metric (expected change)", required=False, choices=METRICS)
    is_regression = forms.TypedChoiceField(
        label="Direction (expected change)",
        required=False,
        choices=DIRECTIONS,
        coerce=lambda text: text == "true",
        empty_value=None,
    )
    incident = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    from_at = forms.CharField(label="From", max_length=40, widget=MomentInput)
    to_at = forms.CharField(
        label="Until",
        max_length=40,
        required=False,
        widget=MomentInput,
        help_text="Optional for a note.",
    )
    zone = forms.CharField(label="Time zone", max_length=64, widget=forms.Select)
    next = forms.CharField(required=False, max_length=4000, widget=forms.HiddenInput)
    field_order = (
        "kind",
        "filter",
        "incident",
        "next",
        "metric",
        "is_regression",
        "from_at",
        "to_at",
        "zone",
    )

    class Meta:
        model = PlannedEvent
        # The form has the id of the incident.
        fields = tuple(name for name in PlannedEvent.given if name != "incident")
        labels: Final = {"filter": "Applies to", "reason": "Reason, or text of the note"}
        help_texts: Final = {"filter": FILTER_HELP}
        widgets: Final = {"filter": FILTER_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The preview does not depend on the reason.
        self.fields["reason"].required = "preview" not in self.data
        zones = dict.fromkeys(["UTC", name_zone(), self.data.get("zone", "UTC")[:64]])
        self.fields["zone"].widget.choices = [(zone, zone) for zone in zones]

    def clean(self) -> dict[str, Any]:
        """Convert both times to UTC."""
        super().clean()
        cleaned = self.cleaned_data
        self.instance.incident_id = cleaned.get("incident")
        convert_moments(self, "from_at", "to_at")
        return cleaned


def convert_moments(form: forms.BaseForm, *names: str) -> None:
    """Convert the cleaned times of a form from its time zone to UTC, "" to None, with an error where one is invalid."""
    cleaned = form.cleaned_data
    zone = find_zone(cleaned.get("zone", ""))
    if zone is None:
        form.add_error("zone", "Unknown time zone on this server: use UTC.")
    for name in names:
        if cleaned.get(name) == "":
            cleaned[name] = None
        elif name in cleaned:
            try:
                cleaned[name] = read_moment(cleaned[name], zone or UTC)
            except forms.ValidationError as error:
                form.add_error(name, error)


def read_moment(text: str, zone: tzinfo) -> datetime:
    """Return the UTC time of a local date and time; an offset in the text overrides the zone."""
    try:
        local = datetime.fromisoformat(text.strip())
        if local.tzinfo is not None:
            return local.astimezone(UTC)
        moment = local.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise forms.ValidationError("Not a valid time: use the format 2026-11-21 14:30.") from None
    if moment.astimezone(zone).replace(tzinfo=None) != local:
        raise forms.ValidationError(f"This time does not exist in {zone}: clocks go forward.")
    return moment


def make_initial(
    kind: str, *, filter: str, from_at: datetime | None = None, to_at: datetime | None = None
) -> dict[str, Any]:
    """Return the initial values of the form, in the time zone of the reader: a period from now or from_at on.

    Without to_at, it ends after the default period of its kind; a note is of one time.
    """
    now = timezone.now().replace(second=0, microsecond=0)
    if to_at is None and kind in _SPANS:
        to_at = now + _SPANS[kind]
    return {
        "kind": kind,
        "filter": filter,
        "zone": name_zone(),
        "from_at": format_form_time(from_at or now),
        "to_at": format_form_time(to_at) if to_at else "",
    }


def format_form_time(moment: datetime) -> str:
    """Format a time for the input field, in the time zone of the reader, to the minute."""
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}"


def has_time_zones() -> bool:
    """Return whether this system has the time zone database; without it the form uses UTC."""
    return find_zone("Europe/Berlin") is not None


def format_list_title(counts: Mapping[str, int]) -> str:
    """Return the title of the list with the number of active and upcoming windows."""
    running, coming = counts[PlannedEventState.ACTIVE], counts[PlannedEventState.UPCOMING]
    if not running and not coming:
        return "Planned events: none active or upcoming"
    parts = [f"{running} active"] if running else []
    parts += [f"{coming} upcoming"] if coming else []
    return f"Planned events: {', '.join(parts)}"


def format_title(row: PlannedEvent) -> str:
    """Return the title of one window."""
    return f"{row.get_kind_display()}: {row.filter or 'everything'} ({row.state})"


def describe_limits(row: PlannedEvent) -> str:
    """Return the metric and direction of an expected change: "IOPS, regressions only"; "" for all changes."""
    metric = CATALOG[row.metric].label if row.metric in CATALOG else row.metric
    direction = {None: "", True: "regressions only", False: "improvements only"}[row.is_regression]
    return ", ".join(part for part in (metric, direction) if part)


def describe_effect(kind: str) -> str:
    """Return what a kind of planned event does."""
    if kind == PlannedEventKind.NOTE:
        return (
            "Shown in the history charts of matching series, also in shared reports and images. Detection and "
            "notifications do not change."
        )
    if kind == PlannedEventKind.MAINTENANCE:
        return "Runs in this period are excluded from levels but remain in the charts. Silent hosts are not reported."
    return (
        "Changes that start in this period are recorded as incidents resolved as expected, without notifications. "
        "Detection continues from the new level."
    )


def describe_impact(impact: Impact) -> list[str]:
    """Return how many series, hosts and stored runs match."""
    if not impact.series and not impact.hosts:
        texts = ["No matching series or hosts yet. New ones that match are included."]
    else:
        texts = [f"Matches {format_count(impact.series, 'series')} on {_format_hosts(impact)}."]
    if impact.has_more_runs:
        texts.append(f"More than {RUNS_COUNTED} runs in this period.")
    else:
        texts.append(f"{format_count(impact.runs, 'run')} in this period.")
    return texts


def _format_hosts(impact: Impact) -> str:
    if not impact.hosts:
        return "no active hosts"
    names = ", ".join(impact.host_names)
    more = impact.hosts - len(impact.host_names)
    return f"{format_count(impact.hosts, 'host')} ({names}{f' and {more} more' if more else ''})"


ROWS_ON_A_PAGE: Final = 50
_TABS: Final[Mapping[str, tuple[PlannedEventState, ...]]] = {
    "current": CURRENT,
    "past": (PlannedEventState.PAST,),
    "canceled": (PlannedEventState.CANCELED,),
}
_TAB_LABELS: Final = {"current": "Active & upcoming", "past": "Past", "canceled": "Canceled"}
_Action = Callable[..., PlannedEvent]
ACTIONS: Final[Mapping[str, tuple[_Action, str]]] = {
    "end": (end_planned_event, "Ended. Later runs and changes are evaluated again."),
    "resume": (resume_planned_event, "Resumed until the planned end."),
    "cancel": (EVENTS.cancel, "Canceled."),
    "restore": (EVENTS.restore, "Restored."),
}


@never_cache
@require_safe
@may_read
def planned_events(request: HttpRequest) -> HttpResponse:
    """List active and upcoming windows; other tabs list past and canceled ones."""
    now = timezone.now()
    errors: list[str] = []
    tab = _choose(request, "tab", [*_TABS], errors) or "current"
    kind = _choose(request, "kind", PlannedEventKind.values, errors)
    time_range = read_time_range(request.GET, errors)
    if errors:
        return refuse_address(request, errors)
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_planned_events(
            _TABS[tab],
            now=now,
            kind=kind,
            from_at=time_range.from_at,
            to_at=time_range.to_at,
            after=after,
            limit=ROWS_ON_A_PAGE,
        ),
    )
    counts = count_planned_events(now=now, kind=kind)
    context = {
        **links,
        "title": format_list_title(counts),
        "errors": errors,
        "rows": [(row, describe_limits(row)) for row in page.items],
        "tabs": [
            (
                label,
                keep_query(request.GET, tab=name, after=None),
                sum(counts[s] for s in _TABS[name]),
                name == tab,
            )
            for name, label in _TAB_LABELS.items()
        ],
        "kinds": [
            (label, keep_query(request.GET, kind=value or None, after=None), value == (kind or ""))
            for value, label in [("", "All"), *KINDS]
        ],
        "tab": tab,
        "range": make_time_range(request.GET),
        "range_text": describe_bounds(time_range.from_at, time_range.to_at),
        "retained": [(name, request.GET[name]) for name in ("tab", "kind") if request.GET.get(name)],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/planned-events"),
    }
    return render(
        request, "incidents/maintenance/planned_events.html", context, status=400 if errors else 200
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_planned_event(request: HttpRequest) -> HttpResponse:
    """Show the form, preview the affected series, or save."""
    form = (
        PlannedEventForm(request.POST)
        if request.method == "POST"
        else PlannedEventForm(initial=_make_initial_values(request))
    )
    impact = None
    if request.method == "POST" and form.is_valid():
        try:
            if "preview" not in request.POST:
                return _save(request, form)
            impact = _preview(form.instance)
        except BadValue as problem:
            form.refuse(problem)
    context = {
        "form": form,
        "is_fresh": request.method != "POST",
        "has_time_zones": has_time_zones(),
        "impact": impact,
        "impact_texts": describe_impact(impact) if impact else [],
        "effect": describe_effect(form.cleaned_data["kind"]) if impact else "",
        "effects": [(label, describe_effect(value)) for value, label in KINDS],
    }
    return render(
        request, "incidents/maintenance/add_planned_event.html", context, status=400 if form.errors else 200
    )


@never_cache
@require_safe
@may_read
def planned_event(request: HttpRequest, planned_event_id: int) -> HttpResponse:
    """Show one maintenance window, expected change or note with its impact and activity."""
    event = read_planned_event(planned_event_id, now=timezone.now())
    if event is None:
        raise Http404(f"No maintenance window, expected change or note {planned_event_id}.")
    impact = preview_impact(event)
    context = {
        **describe_entry(request, event, title=format_title(event), path="planned-events"),
        "limits": describe_limits(event),
        "impact": impact,
        "impact_texts": describe_impact(impact),
        "effect": describe_effect(event.kind),
    }
    return render(request, "incidents/maintenance/planned_event.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_planned_event(request: HttpRequest, planned_event_id: int, act: str) -> HttpResponse:
    """End early, cancel, or undo either."""
    apply, success_text = ACTIONS[act]
    return change_entry(request, apply, planned_event_id, success_text=success_text, page="planned_event")


def list_maintenance(host_id: int) -> list[PlannedEvent]:
    """Return the active and upcoming maintenance windows of a host, latest start first."""
    host = Host.objects.get(pk=host_id)
    page = list_planned_events(
        CURRENT, now=timezone.now(), kind=PlannedEventKind.MAINTENANCE, limit=OPEN_MAXIMUM
    )
    return [row for row in page.items if _matches(row, host)]


def _matches(row: PlannedEvent, host: Host) -> bool:
    try:
        return host.pk in match_hosts(parse_filter(row.filter), [host])
    except BadFilter:
        return False


def _save(request: HttpRequest, form: PlannedEventForm) -> HttpResponse:
    saved = EVENTS.create(form.instance, by=read_person(request))
    confirm_change(request, "Saved.")
    if form.cleaned_data["next"]:
        return redirect(choose_next(request, "planned_events"))
    return redirect("planned_event", planned_event_id=saved.pk)


def _preview(planned: PlannedEvent) -> Impact:
    planned.reason = planned.reason or "preview"
    EVENTS.check(planned)
    return preview_impact(planned)


def _make_initial_values(request: HttpRequest) -> dict[str, Any]:
    """Return the initial form values, from a host, an incident or the query string."""
    kind = request.GET.get("kind", "")
    if kind not in PlannedEventKind.values:
        kind = PlannedEventKind.MAINTENANCE.value
    filter = request.GET.get("filter", "")[:2000]
    if host := request.GET.get("host", ""):
        filter = write_scopes([f"host:{host[:253]}"])
    if (number := request.GET.get("incident", "")).isdecimal() and len(number) < 19:
        similar = read_similar_changes(int(number))
        if similar is not None:
            change, start = PlannedEventKind.CHANGE.value, similar.started_at
            return make_initial(change, filter=write_scopes(similar.scopes), from_at=start) | {
                "metric": similar.metric,
                "is_regression": str(similar.is_regression).lower(),
                "incident": int(number),
            }
    times = {"from_at": _read_time(request, "from"), "to_at": _read_time(request, "to")}
    return make_initial(kind, filter=filter, **times) | {"next": request.GET.get("next", "")[:4000]}


def _read_time(request: HttpRequest, name: str) -> datetime | None:
    """Return a time of the query string; None without a valid one."""
    try:
        return parse_bound(request.GET.get(name, "")[:40], is_end=name == "to")
    except ValueError:
        return None


def _choose(request: HttpRequest, name: str, values: list[str], errors: list[str]) -> str | None:
    wanted = request.GET.get(name)
    if not wanted or wanted in values:
        return wanted or None
    errors.append(f"Unknown {name}. Available: {', '.join(values)}.")
    return None
