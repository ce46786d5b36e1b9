"""Upload by hand what fio printed, for hosts that cannot post by themselves."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from benchapp.models import Host, Kind, Role
from benchapp.pipeline.envelope import BadEnvelope
from benchapp.pipeline.intake import Arrival, Outcome, accept_submission
from benchapp.pipeline.layout import BadLayout
from benchapp.pipeline.parameters import BadParameter, read_parameters
from benchapp.pipeline.peek import find_fault
from benchapp.tasks import wake_up
from benchapp.web.access import needs_role
from benchapp.web.forms import HandInForm


@require_http_methods(["GET", "POST"])
@needs_role(Role.EDITOR)
def hand_in(request: HttpRequest) -> HttpResponse:
    """Take in a file, the same way as what a host posts."""
    form = HandInForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid() and (arrival := _make_arrival(form)) is not None:
        receipt = accept_submission(arrival)
        wake_up()
        if receipt.outcome == Outcome.NEW:
            messages.success(request, "Taken in; it is worked in within seconds.", extra_tags="good")
        else:
            messages.info(request, "The same file was uploaded for this host before: here it is.")
        return redirect("upload", submission_id=receipt.id)
    context = {"form": form, "hosts": Host.objects.active().order_by("name").values_list("name", flat=True)}
    return render(request, "hand_in.html", context, status=400 if form.errors else 200)


def _make_arrival(form: HandInForm) -> Arrival | None:
    """Return what the form brings, or None with what is wrong written into the form."""
    values = form.cleaned_data
    host = Host.objects.active().filter(name=values["host"].lower()).first()
    if host is None:
        form.add_error("host", "There is no such host: an admin adds it on the page Hosts.")
        return None
    try:
        parameters = read_parameters(_read_lines(values["layout"]))
    except (BadParameter, BadLayout, BadEnvelope) as error:
        form.add_error("layout", str(error))
        return None
    body = values["file"].read()
    fault = find_fault(body)
    if fault is not None:
        form.add_error("file", f"{fault.detail} ({fault.code})")
        return None
    return Arrival(host.pk, Kind.FIO, body, parameters=parameters)


def _read_lines(text: str) -> list[tuple[str, str]]:
    """Return name and value of each line that holds something; browsers end lines with CRLF."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]
