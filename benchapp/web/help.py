"""The agent archive, and the lists of badges and error codes."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from benchapp.web.runs.badge_texts import BADGES
from benchapp.web.site.agent_archive import read_agent_archive
from benchapp.web.site.reason_texts import MISSING, REJECTED


@require_safe
def agent_archive(request: HttpRequest) -> HttpResponse:
    """Send the agent as one executable file; public, as a new host has no token yet."""
    archive = read_agent_archive()
    etag = f'"{archive.digest}"'
    headers = {"ETag": etag, "Cache-Control": "public, no-cache", "X-Content-SHA256": archive.digest}
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponse(status=304, headers=headers)
    headers["Content-Disposition"] = 'attachment; filename="bench-agent.pyz"'
    return HttpResponse(archive.content, content_type="application/zip", headers=headers)


@require_safe
def docs_badges(request: HttpRequest) -> HttpResponse:
    """List all badges; pages of runs and series link to `/docs/badges#CODE`."""
    return render(request, "site/docs_badges.html", {"badges": BADGES.items()})


@require_safe
def docs_errors(request: HttpRequest) -> HttpResponse:
    """List all error codes; problem documents link to `/docs/errors#CODE`."""
    return render(
        request, "site/docs_errors.html", {"rejected": REJECTED.items(), "missing": MISSING.items()}
    )
