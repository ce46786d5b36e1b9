"""Buttons: exclude a run from medians, include it again."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from benchapp.framework.pages.access import needs_role, read_person
from benchapp.framework.queue import wake_up
from benchapp.models import Role
from benchapp.series.write.exclusions import BadReason, UnknownRun, exclude_run, include_run


@require_POST
@needs_role(Role.EDITOR)
def exclude(request: HttpRequest, run_id: int) -> HttpResponse:
    """Exclude a run from medians, with a reason."""
    try:
        exclude_run(run_id, read_person(request), reason=request.POST.get("reason", ""))
    except UnknownRun as error:
        raise Http404(f"{error}.") from error
    except BadReason as error:
        messages.error(request, f"Not excluded: {error}.", extra_tags="bad")
    else:
        wake_up()
    return redirect("run", run_id=run_id)


@require_POST
@needs_role(Role.EDITOR)
def include(request: HttpRequest, run_id: int) -> HttpResponse:
    """Include an excluded run in medians again; the form keeps the reason."""
    try:
        include_run(run_id, read_person(request))
    except UnknownRun as error:
        raise Http404(f"{error}.") from error
    wake_up()
    messages.success(request, f"Run {run_id} is included in medians again.", extra_tags="good")
    return redirect("run", run_id=run_id)
