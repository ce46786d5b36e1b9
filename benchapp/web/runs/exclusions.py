"""The buttons that take a run out of medians and put it back."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from benchapp.models import Role
from benchapp.pipeline.exclusions import BadReason, UnknownRun, exclude_run, include_run
from benchapp.queue import wake_up
from benchapp.web.site.access import needs_role, read_person


@require_POST
@needs_role(Role.EDITOR)
def exclude(request: HttpRequest, run_id: int) -> HttpResponse:
    """Take a run out of medians, with a reason; its page has the button that undoes it."""
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
    """Put a run back into medians; its page still has the reason, to take it out again."""
    try:
        include_run(run_id, read_person(request))
    except UnknownRun as error:
        raise Http404(f"{error}.") from error
    wake_up()
    messages.success(request, f"Run {run_id} counts in medians again.", extra_tags="good")
    return redirect("run", run_id=run_id)
