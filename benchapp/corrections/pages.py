"""Delete and relabel runs, remove what is old, rename hosts and pools; with previews, and undo."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.dimensions import LABEL_PREFIX
from benchapp.catalog.metrics import format_count, format_integer
from benchapp.corrections.merge import HostMove, SplitChoice, merge, preview_merge, preview_split, split
from benchapp.corrections.rename import RenameEffect, preview_rename, rename
from benchapp.corrections.retention import KEEP_DAYS_LEAST, POINTS_KEPT, RetentionEffect, preview_retention
from benchapp.corrections.write import (
    CORRECTIONS,
    INCIDENTS_NAMED,
    CorrectionEffect,
    count_values,
    find_runs,
    format_parameter,
    list_corrections,
    name_parameter,
    preview_correction,
    read_correction,
)
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import write_scopes
from benchapp.framework.pages.list_entries import (
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
from benchapp.framework.pages.time_range import read_time_range
from benchapp.framework.times import name_zone
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.pages.maintenance import MomentInput, convert_moments, format_form_time
from benchapp.intake.normalize.batch import ImportRunning
from benchapp.intake.posts.envelope import RELABELED
from benchapp.models import Correction, CorrectionKind, CorrectionState, RetentionTier, Role
from benchapp.overview.read.status import read_storage
from benchapp.storage.pages.views import describe_joins
from benchapp.storage.read.hosts import list_joins

_ROWS_ON_A_PAGE: Final = 50
_SELECTED_MAXIMUM: Final = 1000
ACTIONS: Final[Mapping[str, tuple[Callable[..., Correction], str]]] = {
    "cancel": (CORRECTIONS.cancel, "The correction is being undone."),
    "restore": (CORRECTIONS.restore, "The correction is being applied again."),
}
_DONE: Final = {CorrectionKind.DELETION: "deleted", CorrectionKind.RELABELING: "relabeled"}
# Different values of a field that a form shows.
_VALUES_SHOWN: Final = 3
_TARGETS_SHOWN: Final = 50
# Fields of the form with new values.
_NEW: Final = "new."
_UNKNOWN: Final = "unknown"


class CorrectionForm(ResourceForm):
    """Which runs to correct, and why; times are in the time zone of the reader."""

    from_at = forms.CharField(label="From", max_length=40, required=False, widget=MomentInput)
    to_at = forms.CharField(label="Until", max_length=40, required=False, widget=MomentInput)
    run_ids = forms.CharField(required=False, max_length=20 * _SELECTED_MAXIMUM, widget=forms.HiddenInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    field_order = ("filter", "from_at", "to_at", "reason")

    class Meta:
        model = Correction
        fields = ("filter", "from_at", "to_at", "run_ids", "reason")
        labels: Final = {"filter": "Runs", "reason": "Reason"}
        help_texts: Final = {"filter": "Filter bar syntax: host:db-1 label.trial:1."}
        widgets: Final = {"filter": FILTER_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The preview does not depend on the reason.
        self.fields["reason"].required = "apply" in self.data
        if self["run_ids"].value():
            for name in ("filter", "from_at", "to_at"):
                self.fields[name].widget = forms.HiddenInput()

    def clean_run_ids(self) -> list[int]:
        """Return the ids."""
        words = self.cleaned_data["run_ids"].split(",")
        return [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 19]

    def clean(self) -> dict[str, Any]:
        """Convert both times to UTC."""
        super().clean()
        convert_moments(self, "from_at", "to_at")
        return self.cleaned_data


class RetentionForm(ResourceForm):
    """What is removed when it is so old, and why."""

    class Meta:
        model = Correction
        fields = ("tier", "keep_days", "filter", "reason")
        labels: Final = {
            "tier": "Remove",
            "keep_days": "Older than (days)",
            "filter": "Of",
            "reason": "Reason",
        }
        help_texts: Final = {
            "keep_days": f"{KEEP_DAYS_LEAST} or more.",
            "filter": "Filter bar syntax: pool:lab. Empty: everything.",
        }
        widgets: Final = {"filter": FILTER_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["tier"].required = True
        self.fields["reason"].required = "apply" in self.data


def format_correction_title(row: Correction) -> str:
    """Return the title of one correction: "12 runs deleted"."""
    if row.is_retention:
        days, tier = format_count(row.keep_days or 0, "day"), RetentionTier(row.tier).label
        text = f"{tier.capitalize()} kept for {days}: {format_integer(row.done_count)} removed"
        return f"{text} (ended)" if row.canceled_at else text
    runs = format_count(row.run_count, "run")
    part, done = f"{format_integer(row.done_count)} of {runs}", _DONE[CorrectionKind(row.kind)]
    undone = format_count(row.done_count - row.unreadable_count, "run")
    return {
        CorrectionState.APPLYING: f"{part} {done}",
        CorrectionState.APPLIED: f"{runs} {done}",
        CorrectionState.UNDOING: f"{part} restored",
        CorrectionState.UNDONE: f"{undone} restored",
        CorrectionState.FINAL: f"{runs} deleted for good",
    }[row.state]


def describe_changes(changes: Mapping[str, Any]) -> str:
    """Return new values in one line: "Volume type: gp3, Volumes: unknown"."""
    return ", ".join(
        f"{name_parameter(name)}: {format_parameter(name, value)}" for name, value in changes.items()
    )


def describe_selection(row: Correction) -> str:
    """Return which runs a correction matches: "host:db-1", "runs 3, 7"."""
    if row.run_ids:
        shown = ", ".join(map(str, row.run_ids[:10]))
        more = len(row.run_ids) - 10
        return (
            f"run {shown}"
            if len(row.run_ids) == 1
            else f"runs {shown}{f' and {more} more' if more > 0 else ''}"
        )
    return row.filter or ("everything" if row.is_retention else "all runs")


@never_cache
@require_safe
@may_read
def corrections(request: HttpRequest) -> HttpResponse:
    """List corrections, newest first."""
    errors: list[str] = []
    page, links = turn_page(
        request, errors, read=lambda after: list_corrections(after=after, limit=_ROWS_ON_A_PAGE)
    )
    context = {
        **links,
        "errors": errors,
        "rows": [
            (row, format_correction_title(row), describe_selection(row), describe_changes(row.changes))
            for row in page.items
        ],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/corrections"),
    }
    return render(request, "corrections/corrections.html", context, status=400 if errors else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def delete_runs(request: HttpRequest) -> HttpResponse:
    """Show the form with the effect of what it matches, or delete the runs."""
    return _add(request, Correction(kind=CorrectionKind.DELETION))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def relabel_runs(request: HttpRequest) -> HttpResponse:
    """Show the form with the values of what it matches, their effect, or relabel the runs."""
    return _add(request, Correction(kind=CorrectionKind.RELABELING, changes=_read_changes(request.POST)))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def add_retention(request: HttpRequest) -> HttpResponse:
    """Show sizes and the form with what it removes, or begin to remove it."""
    entry = Correction(kind=CorrectionKind.RETENTION)
    form = RetentionForm(request.POST or None, instance=entry)
    effect: RetentionEffect | None = None
    if form.is_bound and form.is_valid():
        try:
            effect = preview_retention(entry)
            if "apply" in request.POST and request.POST.get("seen") == _describe_retention(entry):
                created = CORRECTIONS.create(entry, by=read_person(request))
                confirm_change(request, "Retention started. You can end it on this page.")
                return redirect("correction", correction_id=created.pk)
        except BadValue as problem:
            form.refuse(problem)
    context = {
        "form": form,
        "effect": effect,
        "tier": RetentionTier(entry.tier).label if effect else "",
        "is_points": entry.tier == RetentionTier.POINTS,
        "points_kept": POINTS_KEPT,
        "seen": _describe_retention(entry) if effect else "",
        "is_changed": "apply" in request.POST and effect is not None,
        "storage": read_storage(),
    }
    return render(request, "corrections/add_retention.html", context, status=400 if form.errors else 200)


def _describe_retention(entry: Correction) -> str:
    """Return what the preview that a person saw was of."""
    return f"{entry.tier} {entry.keep_days} {entry.filter}"


def _add(request: HttpRequest, entry: Correction) -> HttpResponse:
    errors: list[str] = []
    is_asked = request.method == "POST"
    form = CorrectionForm(request.POST if is_asked else _read_asked(request, errors), instance=entry)
    values: Mapping[str, Counter[Any]] = {}
    effect, faults, seen = None, {}, ""
    if (is_asked or form["filter"].value() or form["run_ids"].value()) and form.is_valid():
        try:
            if not entry.is_deletion:
                values = count_values(find_runs(entry))
            if entry.is_deletion or entry.changes or "apply" in request.POST:
                effect = preview_correction(entry)
                seen = summarize_effect(entry, effect)
            if effect and "apply" in request.POST and request.POST.get("seen") == seen:
                created = CORRECTIONS.create(entry, by=read_person(request))
                confirm_change(request, "Correction started. You can undo it on this page.")
                return redirect("correction", correction_id=created.pk)
        except BadValue as problem:
            part, _, name = problem.field.partition("/")
            if name and part == "changes":
                faults[name] = f"{problem}."
            else:
                form.refuse(problem)
        except ImportRunning as problem:
            form.add_error(None, f"Try again later: {problem}.")
    is_changed = "apply" in request.POST and effect is not None
    verb = "Delete" if entry.is_deletion else "Relabel"
    title = f"{verb} {format_count(effect.runs, 'run')}?" if effect else f"{verb} runs"
    context = {
        "form": form,
        "title": title,
        "selection": describe_selection(entry) if effect else "",
        "fields": _list_fields(values, request.POST, faults),
        "label": request.POST.get("label", ""),
        "effect": effect,
        "changes": describe_changes(entry.changes) if effect else "",
        "targets": effect.reread.targets[:_TARGETS_SHOWN] if effect and effect.reread else (),
        "more_targets": len(effect.reread.targets[_TARGETS_SHOWN:]) if effect and effect.reread else 0,
        "is_deletion": entry.is_deletion,
        "texts": describe_effect(effect, is_deletion=entry.is_deletion) if effect else [],
        "incidents": effect.incidents[:INCIDENTS_NAMED] if effect else [],
        "errors": [
            *errors,
            *(["Runs or values differ from the preview: check it again."] if is_changed else []),
        ],
        "seen": seen,
    }
    is_bad = form.errors or faults
    return render(request, "corrections/add_correction.html", context, status=400 if is_bad else 200)


def _read_changes(given: Mapping[str, str]) -> dict[str, str | None]:
    """Return the new values of the form by parameter; None for those that are unknown."""
    changes = {name.removeprefix(_NEW): text.strip() for name, text in given.items() if name.startswith(_NEW)}
    label, _, value = given.get("label", "").partition("=")
    changes |= {f"{LABEL_PREFIX}{label.strip()}": value.strip()} if label.strip() else {}
    return {name: None if text == _UNKNOWN else text for name, text in changes.items() if text}


def _list_fields(
    values: Mapping[str, Counter[Any]], given: Mapping[str, str], faults: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row of the form for each parameter and label of the runs; none without runs."""
    names = [*RELABELED, *sorted(set(values) - set(RELABELED))] if values else []
    return [
        {
            "name": f"{_NEW}{name}",
            "label": name_parameter(name),
            "now": _format_values(name, values[name]),
            "new": given.get(f"{_NEW}{name}", ""),
            "fault": faults.get(name, ""),
        }
        for name in names
    ]


def _format_values(name: str, counts: Counter[Any]) -> str:
    """Return the values of a field: "gp2 (12 runs), gp3 (1 run)"."""
    shown = [(format_parameter(name, value), count) for value, count in counts.most_common(_VALUES_SHOWN)]
    more = [f"{format_integer(len(counts) - len(shown))} more values"] if len(counts) > len(shown) else []
    if len(counts) == 1 and not name.startswith(LABEL_PREFIX):
        return shown[0][0]
    return ", ".join([*(f"{text} ({format_count(count, 'run')})" for text, count in shown), *more])


def describe_effect(effect: CorrectionEffect, *, is_deletion: bool) -> list[str]:
    """Return what a correction changes, in sentences."""
    texts = [f"Affects {format_count(effect.series, 'series')} on {format_count(effect.hosts, 'host')}."]
    if effect.unreadable:
        runs = f"The raw output of {format_count(effect.unreadable, 'run')} was removed by a retention: "
        texts.append(f"{runs}{'no undo.' if is_deletion else 'no new values.'}")
    if effect.emptied and is_deletion:
        texts.append(f"Lists and charts omit {format_count(effect.emptied, 'series')} without other runs.")
    if effect.reread and not effect.reread.targets:
        texts.append("No result that was read for this preview gets another series.")
    texts.append(
        "Levels and changes of these series are evaluated again. Snapshots of reports stay as they are."
    )
    return texts


def summarize_effect(entry: Correction, effect: CorrectionEffect) -> str:
    """Return a digest of selection and effect: what a person saw before it is applied."""
    given = (entry.filter, entry.from_at, entry.to_at, sorted(entry.run_ids), sorted(entry.changes.items()))
    return blake2b(repr((given, replace(effect, values={}))).encode(), digest_size=16).hexdigest()


def _read_asked(request: HttpRequest, errors: list[str]) -> dict[str, str]:
    """Return the values of the form from the address: selected runs, or filter and time range of a list."""
    selected = [word for word in request.GET.getlist("selected") if word.isascii() and word.isdigit()]
    asked = read_time_range(request.GET, errors)
    return {
        "run_ids": ",".join(selected[:_SELECTED_MAXIMUM]),
        "filter": "" if selected else request.GET.get("q", "")[:2000],
        "from_at": format_form_time(asked.from_at) if asked.from_at and not selected else "",
        "to_at": format_form_time(asked.to_at) if asked.to_at and not selected else "",
        "zone": name_zone(),
    }


@never_cache
@require_safe
@may_read
@updates_itself
def correction(request: HttpRequest, correction_id: int) -> HttpResponse:
    """Show one correction with its progress and activity."""
    row = read_correction(correction_id)
    if row is None:
        raise Http404(f"Correction {correction_id} does not exist.")
    context = {
        **describe_entry(request, row, title=format_correction_title(row), path="corrections"),
        "selection": describe_selection(row),
        "changes": describe_changes(row.changes),
    }
    return render(request, "corrections/correction.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_correction(request: HttpRequest, correction_id: int, act: str) -> HttpResponse:
    """Undo a correction, or apply it again; other than of a relabeling this requires an admin."""
    row = read_correction(correction_id)
    is_relabeling = row is None or row.kind == CorrectionKind.RELABELING
    if not is_relabeling and not read_person(request).has_role(Role.ADMIN):
        raise PermissionDenied("This requires the role admin. An admin can change yours.")
    apply, success_text = ACTIONS[act]
    return change_entry(request, apply, correction_id, success_text=success_text, page="correction")


class RenameForm(forms.Form):
    """Which host or pool, and its new name; or which host it is, too."""

    scope = forms.CharField(max_length=260, widget=forms.HiddenInput)
    name = forms.CharField(label="New name", max_length=253, widget=WORD_INPUT)
    is_merge = forms.BooleanField(
        label="Merge with the host of this name",
        required=False,
        help_text="For one machine that has sent results under two names.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if str(self["scope"].value()).startswith("pool:"):
            del self.fields["is_merge"]


class SplitForm(forms.Form):
    """Which results of a host another machine measured; times are in the time zone of the reader."""

    scope = forms.CharField(max_length=260, widget=forms.HiddenInput)
    name = forms.CharField(label="Name of the other host", max_length=253, widget=WORD_INPUT)
    filter = forms.CharField(
        label="Its runs",
        max_length=2000,
        required=False,
        widget=FILTER_INPUT,
        help_text="Filter bar syntax: kernel:6.1* label.rack:r2.",
    )
    from_at = forms.CharField(label="From", max_length=40, required=False, widget=MomentInput)
    to_at = forms.CharField(label="Until", max_length=40, required=False, widget=MomentInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def clean_zone(self) -> str:
        """Return the time zone; links use the zone of the reader."""
        return self.cleaned_data["zone"] or name_zone()

    def clean(self) -> dict[str, Any]:
        """Convert both times to UTC."""
        super().clean()
        convert_moments(self, "from_at", "to_at")
        return self.cleaned_data


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def rename_scope(request: HttpRequest) -> HttpResponse:
    """Show what a new name of a host or pool changes, or its merge with another host; POST does it."""

    def find_act(values: dict[str, Any], **person: Any) -> RenameEffect | HostMove:
        if values.get("is_merge"):
            names = (values["scope"].removeprefix("host:"), values["name"])
            return merge(*names, **person) if person else preview_merge(*names)
        names = (values["scope"], values["name"])
        return rename(*names, **person) if person else preview_rename(*names)

    return _change_names(request, RenameForm, find_act, page="rename_scope", verb="Rename")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def split_host(request: HttpRequest) -> HttpResponse:
    """Show what goes to another host; POST moves it."""

    def find_act(values: dict[str, Any], **person: Any) -> HostMove:
        selection = SplitChoice(values["filter"], values["from_at"], values["to_at"])
        asked = (values["scope"].removeprefix("host:"), values["name"], selection)
        return split(*asked, **person) if person else preview_split(*asked)

    return _change_names(request, SplitForm, find_act, page="split_host", verb="Split")


def _change_names(
    request: HttpRequest,
    form_class: type[forms.Form],
    act: Callable[..., RenameEffect | HostMove],
    *,
    page: str,
    verb: str,
) -> HttpResponse:
    """Show a form with the effect of what it gives, or do it. act: previews without a person."""
    given = request.POST if request.method == "POST" else request.GET
    scope = given.get("scope", "")
    form = form_class(given if "name" in given else None, initial={"scope": scope, "zone": name_zone()})
    effect = None
    try:
        if form.is_bound and form.is_valid():
            if request.method == "POST":
                done = act(form.cleaned_data, by=read_person(request))
                return _confirm(request, done)
            effect = act(form.cleaned_data)
    except BadValue as error:
        form.add_error(error.field if error.field in ("name", "filter") else None, f"{error}.")
    context = {
        "form": form,
        "title": f"{verb} {scope.replace(':', ' ', 1)}",
        "page": page,
        "verb": "Merge" if isinstance(effect, HostMove) and page == "rename_scope" else verb,
        "given": [(field.name, field.value()) for field in form if field.value()],
        "renamed": effect if isinstance(effect, RenameEffect) else None,
        "moved": effect if isinstance(effect, HostMove) else None,
        "saved": [format_count(count, noun) for noun, count in effect.saved]
        if isinstance(effect, RenameEffect)
        else [],
    }
    if isinstance(effect, RenameEffect):
        context["incidents"] = effect.incidents
    if isinstance(effect, HostMove):
        context["incidents"] = effect.move.incidents
        context |= describe_joins(list_joins(effect.move.joined_pairs))
    return render(request, "corrections/rename.html", context, status=400 if form.errors else 200)


def _confirm(request: HttpRequest, done: RenameEffect | HostMove) -> HttpResponse:
    if isinstance(done, HostMove):
        runs = format_count(done.runs, "run")
        confirm_change(request, f"{runs} of {done.from_host} moved to {done.to_host}.")
        return redirect("host_settings", name=done.to_host)
    name = done.to_scope.partition(":")[2]
    text = f"{done.from_scope.partition(':')[2]} is {name} now. The former name stays an alias."
    messages.success(request, text, extra_tags="good")
    if done.to_scope.startswith("host:"):
        return redirect("host_settings", name=name)
    return redirect(f"{reverse('hosts')}?{urlencode({'q': write_scopes([done.to_scope])})}")
