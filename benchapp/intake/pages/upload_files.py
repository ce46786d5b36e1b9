"""Upload fio output through the browser, for hosts that cannot post it."""

from collections.abc import Sequence
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.framework.pages.access import needs_role
from benchapp.framework.queue import wake_up
from benchapp.intake.importing.file_parameters import FileParameters
from benchapp.intake.pages.file_intake import FileResult, take_files
from benchapp.intake.pages.forms import UploadFilesForm
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.query_parameters import BadParameter, read_parameters
from benchapp.layouts.read.target_values import list_target_values
from benchapp.models import Host, Role

# Session key of the results, from the POST to the page that lists them.
_RESULTS: Final = "upload_results"


@never_cache
@require_http_methods(["GET", "POST"])
@needs_role(Role.EDITOR)
def upload_files(request: HttpRequest) -> HttpResponse:
    """Accept files in the same way as posted results; the script sends one output at a time and asks for JSON."""
    form = UploadFilesForm(request.POST or None, request.FILES or None, values=list_target_values())
    wants_json = request.headers.get("Accept", "").startswith("application/json")
    is_preview = request.POST.get("do") == "preview"
    results = (
        _take_files(form, is_preview=is_preview) if request.method == "POST" and form.is_valid() else None
    )
    if results and any(result.is_new for result in results):
        wake_up()
    if wants_json and request.method == "POST":
        return _answer_json(form, results)
    if results and not is_preview and (answer := _answer_page(request, form, results)) is not None:
        return answer
    hosts = Host.objects.active().order_by("name").values_list("name", flat=True)
    context = {
        "form": form,
        "hosts": hosts,
        "results": results
        if is_preview
        else [FileResult(**row) for row in request.session.pop(_RESULTS, [])],
        "is_preview": is_preview,
        "limits": {"body": settings.BODY_LIMIT_BYTES, "unpacked": settings.UNPACKED_LIMIT_BYTES},
    }
    return render(request, "intake/upload_files.html", context, status=400 if form.errors else 200)


def _take_files(form: UploadFilesForm, *, is_preview: bool) -> list[FileResult] | None:
    """Return the results of the form's files, or None with the errors in the form."""
    values = form.cleaned_data
    host = Host.objects.active().filter(name=values["host"].strip().lower()).first()
    if host is None:
        form.add_error("host", "This host does not exist. An admin creates it on the Hosts page.")
        return None
    try:
        read_parameters(form.list_parameters())
    except BadParameter as error:
        form.add_error(error.parameter if error.parameter in form.fields else "layout", str(error))
        return None
    except BadLayout as error:
        name = error.pointer.lstrip("/")
        if name in form.fields:
            form.add_error(name, str(error))
        else:
            form.add_error("layout", f"{name}: {error}")
        return None
    parameters = FileParameters(
        dict(form.list_parameters()), values["name_pattern"], values["table"], values["folder"]
    )
    return take_files(host.pk, values["file"], parameters=parameters, is_preview=is_preview)


def _answer_json(form: UploadFilesForm, results: Sequence[FileResult] | None) -> HttpResponse:
    if results is None:
        faults = [f"{field}: {errors[0]}" for field, errors in form.errors.items()]
        return JsonResponse({"status": 400, "code": "form-invalid", "detail": " ".join(faults)}, status=400)
    return JsonResponse({"files": [result.as_row() for result in results]})


def _answer_page(
    request: HttpRequest, form: UploadFilesForm, results: Sequence[FileResult]
) -> HttpResponse | None:
    """Redirect to the upload, or to the list of results of several files; None if the form shows the error."""
    if len(results) > 1:
        request.session[_RESULTS] = [result.as_row() for result in results]
        return redirect("upload_files")
    only = results[0]
    if not only.is_accepted:
        form.add_error("file", f"{only.name}: {only.detail} ({only.code})")
        return None
    if only.is_new:
        messages.success(request, "Accepted. It is processed within seconds.", extra_tags="good")
    else:
        messages.info(request, "This file was already uploaded for this host.")
    return redirect("upload", submission_id=only.id)
