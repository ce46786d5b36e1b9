"""Upload by hand what fio printed, for hosts that cannot post by themselves."""

from collections.abc import Sequence
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.models import Host, Role
from benchapp.pipeline.intake.metadata import BadLayout
from benchapp.pipeline.intake.query_parameters import BadParameter, read_parameters
from benchapp.queue import wake_up
from benchapp.web.accounts.forms import HandInForm
from benchapp.web.site.access import needs_role
from benchapp.web.uploads.file_intake import FileResult, take_in_files

# In the session, from the POST to the page behind it.
_HANDED: Final = "handed_in"


@never_cache
@require_http_methods(["GET", "POST"])
@needs_role(Role.EDITOR)
def upload_files(request: HttpRequest) -> HttpResponse:
    """Take in files, the same way as what a host posts; the script asks for JSON, one output at a time."""
    form = HandInForm(request.POST or None, request.FILES or None)
    wants_json = request.headers.get("Accept", "").startswith("application/json")
    handed = _take_in(form) if request.method == "POST" and form.is_valid() else None
    if handed and any(one.is_new for one in handed):
        wake_up()
    if wants_json and request.method == "POST":
        return _answer_json(form, handed)
    if handed and (answer := _answer_page(request, form, handed)) is not None:
        return answer
    hosts = Host.objects.active().order_by("name").values_list("name", flat=True)
    context = {
        "form": form,
        "hosts": hosts,
        "handed": [FileResult(**row) for row in request.session.pop(_HANDED, [])],
        "limits": {"body": settings.BODY_LIMIT_BYTES, "unpacked": settings.UNPACKED_LIMIT_BYTES},
    }
    return render(request, "uploads/upload_files.html", context, status=400 if form.errors else 200)


def _take_in(form: HandInForm) -> list[FileResult] | None:
    """Return what became of the form's files, or None with what is wrong written into the form."""
    values = form.cleaned_data
    host = Host.objects.active().filter(name=values["host"].strip().lower()).first()
    if host is None:
        form.add_error("host", "There is no such host: an admin adds it on the page Hosts.")
        return None
    try:
        parameters = read_parameters(_read_lines(values["layout"]))
    except BadParameter as error:
        form.add_error("layout", str(error))
        return None
    except BadLayout as error:
        form.add_error("layout", f"{error.pointer.lstrip('/')}: {error}")
        return None
    return take_in_files(host.pk, values["file"], parameters=parameters)


def _answer_json(form: HandInForm, handed: Sequence[FileResult] | None) -> HttpResponse:
    if handed is None:
        faults = [f"{field}: {said[0]}" for field, said in form.errors.items()]
        return JsonResponse({"status": 400, "code": "form-invalid", "detail": " ".join(faults)}, status=400)
    return JsonResponse({"files": [one.as_row() for one in handed]})


def _answer_page(request: HttpRequest, form: HandInForm, handed: Sequence[FileResult]) -> HttpResponse | None:
    """Lead to the one upload, or to a list of what became of several; None where the form says all there is."""
    if len(handed) > 1:
        request.session[_HANDED] = [one.as_row() for one in handed]
        return redirect("hand_in")
    only = handed[0]
    if not only.is_taken:
        form.add_error("file", f"{only.detail} ({only.code})")
        return None
    if only.is_new:
        messages.success(request, "Taken in; it is worked in within seconds.", extra_tags="good")
    else:
        messages.info(request, "The same file was uploaded for this host before: here it is.")
    return redirect("upload", submission_id=only.id)


def _read_lines(text: str) -> list[tuple[str, str]]:
    """Return name and value of each line that holds something; browsers end lines with CRLF."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]
