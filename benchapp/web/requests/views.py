"""Buttons: run again, cancel a request."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from benchapp.models import Incident, Role, Series
from benchapp.pipeline.requests.run_requests import (
    RequestOrigin,
    RequestRefused,
    RequestSettled,
    UnknownRunRequest,
    cancel_run_request,
    repeat_run,
)
from benchapp.web.requests.panel import RUNS_REQUESTED_MAXIMUM
from benchapp.web.site.access import choose_next, needs_role, read_person
from benchapp.web.site.filter_forms import list_errors
from benchapp.web.site.value_texts import format_count


class RunAgainForm(forms.Form):
    """The runs to repeat, as the section of a page names them."""

    runs = forms.RegexField(
        regex=rf"^[1-9][0-9]{{0,17}}(,[1-9][0-9]{{0,17}}){{0,{RUNS_REQUESTED_MAXIMUM - 1}}}\Z",
        error_messages={"invalid": f"Name 1 to {RUNS_REQUESTED_MAXIMUM} runs, separated by commas."},
    )
    series = forms.ModelChoiceField(Series.objects.all(), required=False)
    incident = forms.ModelChoiceField(Incident.objects.all(), required=False)


@require_POST
@needs_role(Role.EDITOR)
def run_again(request: HttpRequest) -> HttpResponse:
    """Request the runs of a form again, for their hosts."""
    form = RunAgainForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"Not requested: {' '.join(list_errors(form))}", extra_tags="bad")
        return redirect(choose_next(request, "runs"))
    origin = _read_origin(request, form.cleaned_data)
    requested = []
    try:
        for run_id in form.cleaned_data["runs"].split(","):
            requested.append(repeat_run(int(run_id), origin=origin))
    except UnknownRunRequest as error:
        raise Http404(f"{error}.") from error
    except RequestRefused as refusal:
        messages.error(request, f"Not requested: {refusal}.", extra_tags="bad")
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
