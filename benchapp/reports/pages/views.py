"""Studies: saved charts with title and text."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import format_count
from benchapp.charts.images.frame import CONTENT_TYPES
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.models import Role, Study
from benchapp.reports.pages.panels import list_kinds, make_panels
from benchapp.reports.pages.snapshots import show_frozen_panels
from benchapp.reports.read.studies import list_studies, read_snapshot_image, read_study

STUDIES_ON_A_PAGE: Final = 50


@require_safe
@may_read
def studies(request: HttpRequest) -> HttpResponse:
    """List all studies, most recently updated first."""
    errors: list[str] = []
    page, links = turn_page(
        request, errors, read=lambda after: list_studies(after=after, limit=STUDIES_ON_A_PAGE)
    )
    context = {
        **links,
        "title": _format_title(len(page.items)),
        "errors": errors,
        "studies": page.items,
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/studies"),
    }
    return render(request, "reports/studies.html", context, status=400 if errors else 200)


@require_safe
@may_read
def study(request: HttpRequest, study_id: int) -> HttpResponse:
    """Show one study: its text, and every chart with its table; with ?data=live current data despite a snapshot."""
    detail = find_study(study_id)
    is_mine = may_edit(request, detail)
    is_frozen = detail.taken_snapshot is not None and request.GET.get("data") != "live"
    if is_frozen:
        panels = show_frozen_panels(
            detail,
            link_image=lambda place, theme: reverse("snapshot_image", args=[study_id, place, theme]),
            has_links=True,
        )
    else:
        panels = make_panels(request, detail.charts, has_links=True)
    context = {
        "study": detail,
        "is_frozen": is_frozen,
        "text": render_markdown(detail.text),
        "panels": panels,
        "kinds": list_kinds(panels),
        "is_mine": is_mine,
        # The link gives access to the study: shown only to those who can create one.
        "shared_url": _make_shared_url(request, detail) if is_mine else "",
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/studies/{study_id}"),
    }
    return render(request, "reports/study.html", context)


@require_safe
@may_read
def snapshot_image(request: HttpRequest, study_id: int, place: int, theme: str) -> HttpResponse:
    """Return a chart of the snapshot of a study as PNG."""
    content = read_snapshot_image(read_study(study_id), place, theme)
    if content is None:
        raise Http404(f"Study {study_id} has no snapshot with this chart.")
    return HttpResponse(content, content_type=CONTENT_TYPES["png"])


def find_study(study_id: int) -> Study:
    """Return a study; Http404 if it does not exist."""
    detail = read_study(study_id)
    if detail is None:
        raise Http404(
            f"Study {study_id} does not exist. It may have been deleted, or the link belongs to another server."
        )
    return detail


def may_edit(request: HttpRequest, study: Study) -> bool:
    """Return whether this visitor may change a study: its owner with the role editor, and admins."""
    visitor = find_visitor(request)
    is_owner = visitor is not None and visitor.pk == study.owner_id
    return can(visitor, Role.ADMIN) or (is_owner and can(visitor, Role.EDITOR))


def _format_title(count: int) -> str:
    if not count:
        return "Studies"
    return format_count(count, "study")


def _make_shared_url(request: HttpRequest, study: Study) -> str:
    if study.share_token is None:
        return ""
    return make_base_url(request) + reverse("shared_study", args=[study.share_token])
