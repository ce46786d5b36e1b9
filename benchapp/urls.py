"""Where everything is."""

import sys

import structlog
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import include, path, reverse

from benchapp.framework.api.problems import Problem, answer_database_away, answer_not_found, answer_problem
from benchapp.framework.pages import access
from benchapp.models import FOLLOWED, follow_name
from benchapp.overview.api import health
from benchapp.reports.api import studies
from benchapp.reports.pages.panels import freeze_panels

log = structlog.get_logger(__name__)

# Layers do not import each other: the snapshot that the API takes is drawn by the function of the page.
studies.StudySnapshotView.freeze = staticmethod(freeze_panels)

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include("benchapp.overview.api.urls")),
    path("", include("benchapp.overview.pages.urls")),
]

handler400 = "benchapp.urls.answer_bad_request"
handler403 = "benchapp.framework.pages.access.forbidden"
handler404 = "benchapp.urls.answer_unknown"
handler500 = "benchapp.urls.answer_fault"


def answer_unknown(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request for what does not exist: as a problem under /api/, as a page elsewhere.

    A page of a host that has another name now, or of a series whose points are in another one, redirects to it, with
    the query and a posted form.
    """
    match = request.resolver_match
    given = match.kwargs if match and isinstance(exception, Http404) else {}
    for kind, part in FOLLOWED.items():
        name = str(given.get(part, "")).lower()
        if match and name and (present := follow_name(kind, name)) != name:
            address = reverse(match.view_name, kwargs={**given, part: present})
            query = request.META["QUERY_STRING"]
            return HttpResponseRedirect(f"{address}?{query}" if query else address, preserve_request=True)
    answer = answer_not_found if request.path.startswith("/api/") else access.not_found
    return answer(request, exception)


def answer_fault(request: HttpRequest) -> HttpResponse:
    """Answer an exception: 503 if it is that of a database, also of middleware and of the pages of errors."""
    exception = sys.exception()
    unavailable = answer_database_away(request, exception) if isinstance(exception, Exception) else None
    return unavailable or access.fault(request)


def answer_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django refuses: as a problem under /api/, as a page elsewhere."""
    detail = str(exception)[:300] or "this request makes no sense"
    if isinstance(exception, DisallowedHost):
        # Scanners ask under any name: one line, and not the traceback that Django logs (settings.LOGGING).
        name = request.META.get("HTTP_HOST", "")[:200]
        log.warning("request.host_unknown", host=name, path=request.path[:200])
        detail = f"the Host header {name!r} is not a name of this server: BENCHAPP_ALLOWED_HOSTS lists them"
    if request.path.startswith("/api/"):
        return answer_problem(Problem(400, "request-invalid", "Bad request", detail))
    return access.bad_request(request, exception)
