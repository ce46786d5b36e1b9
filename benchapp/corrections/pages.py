"""Delete runs and restore them, rename hosts and pools; with previews."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import format_count, format_integer
from benchapp.corrections.read import list_deletions, read_deletion
from benchapp.corrections.rename import preview_rename, rename
from benchapp.corrections.write import DELETIONS, INCIDENTS_NAMED, DeletionEffect, preview_deletion
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
from benchapp.models import Deletion, DeletionState, Role

_ROWS_ON_A_PAGE: Final = 50
_SELECTED_MAXIMUM: Final = 1000
ACTIONS: Final[Mapping[str, tuple[Callable[..., Deletion], str]]] = {
    "cancel": (DELETIONS.cancel, "The runs are being restored."),
    "restore": (DELETIONS.restore, "The runs are being deleted again."),
}


class DeletionForm(ResourceForm):
    """Which runs to delete, and why; times are in the time zone of the reader."""

    from_at = forms.CharField(label="From", max_length=40, required=False, widget=MomentInput)
    to_at = forms.CharField(label="Until", max_length=40, required=False, widget=MomentInput)
    run_ids = forms.CharField(required=False, max_length=20 * _SELECTED_MAXIMUM, widget=forms.HiddenInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    field_order = ("filter", "from_at", "to_at", "reason")

    class Meta:
        model = Deletion
        fields = Deletion.given
        labels: Final = {"filter": "Runs", "reason": "Reason"}
        help_texts: Final = {"filter": "Filter bar syntax: host:db-1 label.trial:1."}
        widgets: Final = {"filter": FILTER_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The preview does not depend on the reason.
        self.fields["reason"].required = "delete" in self.data
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


def format_deletion_title(row: Deletion) -> str:
    """Return the title of one deletion: "12 runs deleted"."""
    runs = format_count(row.run_count, "run")
    done = f"{format_integer(row.done_count)} of {runs}"
    return {
        DeletionState.DELETING: f"{done} deleted",
        DeletionState.DELETED: f"{runs} deleted",
        DeletionState.RESTORING: f"{done} restored",
        DeletionState.RESTORED: f"{format_count(row.done_count - row.unreadable_count, 'run')} restored",
        DeletionState.FINAL: f"{runs} deleted for good",
    }[row.state]


def describe_selection(row: Deletion) -> str:
    """Return which runs a deletion matches: "host:db-1", "runs 3, 7"."""
    if row.run_ids:
        shown = ", ".join(map(str, row.run_ids[:10]))
        more = len(row.run_ids) - 10
        return (
            f"run {shown}"
            if len(row.run_ids) == 1
            else f"runs {shown}{f' and {more} more' if more > 0 else ''}"
        )
    return row.filter or "all runs"


@never_cache
@require_safe
@may_read
def deletions(request: HttpRequest) -> HttpResponse:
    """List deletions, newest first."""
    errors: list[str] = []
    page, links = turn_page(
        request, errors, read=lambda after: list_deletions(after=after, limit=_ROWS_ON_A_PAGE)
    )
    context = {
        **links,
        "errors": errors,
        "rows": [(row, format_deletion_title(row), describe_selection(row)) for row in page.items],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/deletions"),
    }
    return render(request, "corrections/deletions.html", context, status=400 if errors else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def add_deletion(request: HttpRequest) -> HttpResponse:
    """Show the form with the effect of what it matches, or delete the runs."""
    errors: list[str] = []
    is_asked = request.method == "POST"
    form = DeletionForm(request.POST if is_asked else _read_asked(request, errors))
    effect = None
    if (is_asked or form["filter"].value() or form["run_ids"].value()) and form.is_valid():
        try:
            effect = preview_deletion(form.instance)
            if "delete" in request.POST and request.POST.get("seen") == str(effect.runs):
                deleted = DELETIONS.create(form.instance, by=read_person(request))
                confirm_change(request, "Deletion started. You can restore the runs for 30 days.")
                return redirect("deletion", deletion_id=deleted.pk)
        except BadValue as problem:
            effect = None
            form.refuse(problem)
    is_changed = "delete" in request.POST and effect is not None
    context = {
        "form": form,
        "selection": describe_selection(form.instance) if effect else "",
        "effect": effect,
        "texts": describe_effect(effect) if effect else [],
        "incidents": effect.incidents[:INCIDENTS_NAMED] if effect else [],
        "errors": [*errors, *(["Other runs match now: check the preview again."] if is_changed else [])],
        "seen": effect.runs if effect else "",
    }
    return render(request, "corrections/add_deletion.html", context, status=400 if form.errors else 200)


def describe_effect(effect: DeletionEffect) -> list[str]:
    """Return what a deletion changes, in sentences."""
    texts = [f"Affects {format_count(effect.series, 'series')} on {format_count(effect.hosts, 'host')}."]
    if effect.emptied:
        texts.append(f"Lists and charts omit {format_count(effect.emptied, 'series')} without other runs.")
    texts.append(
        "Levels and changes of these series are evaluated again. Saved snapshots of studies stay as they are."
    )
    return texts


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
def deletion(request: HttpRequest, deletion_id: int) -> HttpResponse:
    """Show one deletion with its progress and activity."""
    row = read_deletion(deletion_id)
    if row is None:
        raise Http404(f"Deletion {deletion_id} does not exist.")
    context = {
        **describe_entry(request, row, title=format_deletion_title(row), path="deletions"),
        "selection": describe_selection(row),
    }
    return render(request, "corrections/deletion.html", context)


@require_POST
@needs_role(Role.ADMIN)
def change_deletion(request: HttpRequest, deletion_id: int, act: str) -> HttpResponse:
    """Restore the runs of a deletion, or delete them again."""
    apply, success_text = ACTIONS[act]
    return change_entry(request, apply, deletion_id, success_text=success_text, page="deletion")


class RenameForm(forms.Form):
    """Which host or pool, and its new name."""

    scope = forms.CharField(max_length=260, widget=forms.HiddenInput)
    name = forms.CharField(label="New name", max_length=253, widget=WORD_INPUT)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.ADMIN)
def rename_scope(request: HttpRequest) -> HttpResponse:
    """Show what a new name of a host or pool changes; POST renames it."""
    given = request.POST if request.method == "POST" else request.GET
    scope = given.get("scope", "")
    form = RenameForm(given if "name" in given else None, initial={"scope": scope})
    effect = None
    try:
        if form.is_bound and form.is_valid():
            if request.method == "POST":
                done = rename(**form.cleaned_data, by=read_person(request))
                name = done.to_scope.partition(":")[2]
                text = f"{done.from_scope.partition(':')[2]} is {name} now. The former name stays an alias."
                messages.success(request, text, extra_tags="good")
                if done.to_scope.startswith("host:"):
                    return redirect("host_settings", name=name)
                return redirect(f"{reverse('hosts')}?{urlencode({'q': write_scopes([done.to_scope])})}")
            effect = preview_rename(**form.cleaned_data)
    except BadValue as error:
        form.add_error("name" if error.field == "name" else None, f"{error}.")
    context = {
        "form": form,
        "place": scope.replace(":", " ", 1),
        "effect": effect,
        "saved": [format_count(count, noun) for noun, count in effect.saved] if effect else [],
    }
    return render(request, "corrections/rename.html", context, status=400 if form.errors else 200)
