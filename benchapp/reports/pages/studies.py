"""Studies: list, page, form."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib import messages
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import format_count
from benchapp.charts.images.frame import CONTENT_TYPES, THEMES, ImageOptions, TooManyDrawings
from benchapp.framework.pages.access import can, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.markdown import render_markdown
from benchapp.framework.pages.page_context import find_visitor, make_base_url, without_preferences
from benchapp.framework.read.binary_columns import STUDY_S, make_key
from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.read.question import check_question
from benchapp.models import PanelKind, Role, Study, StudyPanel
from benchapp.reports.pages.panels import (
    draw_panel,
    freeze_panels,
    list_kinds,
    make_panels,
    name_panel,
    read_panel_query,
    show_frozen_panels,
)
from benchapp.reports.read import list_own_studies, list_studies, read_snapshot_image, read_study
from benchapp.reports.write import (
    TITLE_LENGTH,
    StudyChanged,
    add_panel,
    change_study,
    check_questions,
    create_study,
    delete_study,
    read_panel,
    remove_snapshot,
    share_study,
    stop_sharing,
    store_snapshot,
)

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
        raise Http404(f"Report {study_id} has no snapshot with this chart.")
    return HttpResponse(content, content_type=CONTENT_TYPES["png"])


def find_study(study_id: int) -> Study:
    """Return a study; Http404 if it does not exist."""
    detail = read_study(study_id)
    if detail is None:
        raise Http404(
            f"Report {study_id} does not exist. It may have been deleted, or the link belongs to another server."
        )
    return detail


def may_edit(request: HttpRequest, study: Study) -> bool:
    """Return whether this visitor may change a study: its owner with the role editor, and admins."""
    visitor = find_visitor(request)
    is_owner = visitor is not None and visitor.pk == study.owner_id
    return can(visitor, Role.ADMIN) or (is_owner and can(visitor, Role.EDITOR))


def _format_title(count: int) -> str:
    if not count:
        return "Reports"
    return format_count(count, "report")


def _make_shared_url(request: HttpRequest, study: Study) -> str:
    if study.share_token is None:
        return ""
    return make_base_url(request) + reverse("shared_study", args=[study.share_token])


# Drawn at twice the size at which the form shows them.
THUMBNAIL_WIDTH: Final = 640
THUMBNAIL_HEIGHT: Final = 336


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_study(request: HttpRequest) -> HttpResponse:
    """Show the form that saves a chart (kind, query, title) to a new or existing study, and save it."""
    given = request.POST if request.method == "POST" else request.GET
    person = read_person(request)
    own = list_own_studies(person, may_edit_all=can(person, Role.ADMIN))
    error = ""
    if request.method == "POST":
        try:
            return redirect("study", study_id=_save_chart(request, given))
        except (BadValue, StudyChanged) as problem:
            error = f"{problem}."
    context = {
        "kind": given.get("kind", "") if given.get("kind") in PanelKind.values else "",
        "query": read_panel_query(given.get("query", "")),
        **_read_texts(given),
        "title": given.get("title", "")[:TITLE_LENGTH],
        "proposed": given.get("proposed", given.get("title", ""))[:TITLE_LENGTH],
        "into": given.get("into", ""),
        "own": own,
        "error": error,
    }
    return render(request, "reports/add_study.html", context, status=400 if error else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def edit_study(request: HttpRequest, study_id: int) -> HttpResponse:
    """Show a study as a form; save it, and move or remove the panel whose button was pressed."""
    detail = _find_mine(request, study_id)
    if request.method != "POST":
        return _show_form(request, detail)
    try:
        given = {**_read_texts(request.POST), "panels": _read_panels(request, detail)}
        change_study(study_id, version=request.POST.get("version", ""), **given)
    except BadValue as problem:
        return _show_form(request, detail, error=f"{problem}.", status=400)
    except StudyChanged as problem:
        return _show_form(request, read_study(study_id) or detail, error=f"{problem}.", status=409)
    if request.POST.get("do", "save") == "save":
        messages.success(request, "Report saved.", extra_tags="good")
        return redirect("study", study_id=study_id)
    return redirect("edit_study", study_id=study_id)


@require_POST
@needs_role(Role.EDITOR)
def share(request: HttpRequest, study_id: int) -> HttpResponse:
    """Create or revoke the shared link of a study."""
    _find_mine(request, study_id)
    if request.POST.get("share") == "yes":
        share_study(study_id)
        text = "Shared link created. Anyone with the link below can read this report."
    else:
        stop_sharing(study_id)
        text = "Shared link revoked."
    messages.success(request, text, extra_tags="good")
    return redirect("study", study_id=study_id)


@require_POST
@needs_role(Role.EDITOR)
def change_snapshot(request: HttpRequest, study_id: int) -> HttpResponse:
    """Freeze the charts of a study with their current numbers, or show current data again."""
    detail = _find_mine(request, study_id)
    if request.POST.get("snapshot") != "yes":
        remove_snapshot(study_id)
        messages.success(request, "Snapshot deleted. The report shows current data.", extra_tags="good")
        return redirect("study", study_id=study_id)
    try:
        store_snapshot(study_id, freeze_panels(request, detail), by=read_person(request))
    except TooManyDrawings:
        text = "The server is drawing many charts: no snapshot was taken. Try again in a few seconds."
        messages.error(request, text, extra_tags="bad")
    except StudyChanged as problem:
        raise Http404(f"{problem}.") from problem
    else:
        messages.success(
            request, "Snapshot taken. The report and its shared link show it from now on.", extra_tags="good"
        )
    return redirect("study", study_id=study_id)


@require_safe
@needs_role(Role.EDITOR)
def thumbnail(request: HttpRequest, study_id: int, place: int, theme: str) -> HttpResponse:
    """Draw a chart of a study as a small PNG for its form, with data at most five minutes old."""
    detail = _find_mine(request, study_id)
    if not 1 <= place <= len(detail.panels) or theme not in THEMES:
        raise Http404(f"Report {study_id} has no such chart.")
    panel = detail.charts[place - 1]
    options = ImageOptions(
        "png", THUMBNAIL_WIDTH, THUMBNAIL_HEIGHT, theme="dark" if theme == "dark" else "light"
    )

    def draw() -> bytes:
        with without_preferences():
            return draw_panel(panel, options)

    try:
        # Without its place, so that a chart that is moved is not drawn again.
        page = cache.get_or_set(make_key("thumbnail", theme, panel), draw, STUDY_S)
    except TooManyDrawings:
        return HttpResponse(status=503, headers={"Retry-After": "2"})
    return HttpResponse(page, content_type=CONTENT_TYPES["png"])


@require_POST
@needs_role(Role.EDITOR)
def remove_study(request: HttpRequest, study_id: int) -> HttpResponse:
    """Delete a study; measurements are not affected."""
    detail = _find_mine(request, study_id)
    delete_study(study_id)
    messages.success(request, f"Report “{detail.title}” deleted.", extra_tags="good")
    return redirect("studies")


def _find_mine(request: HttpRequest, study_id: int) -> Study:
    detail = find_study(study_id)
    if not may_edit(request, detail):
        owner = f"belongs to {detail.owner_name}" if detail.owner_name else "is a sample"
        raise PermissionDenied(f"This report {owner}. Only its owner and admins can change it.")
    return detail


def _save_chart(request: HttpRequest, given: Any) -> int:
    """Create the study, or add the chart to the chosen one; return its id."""
    has_panel = bool(given.get("kind"))
    into = given.get("into", "")
    if not (into.isascii() and into.isdigit() and len(into) < 19):
        panels = [asdict(_make_panel(given))] if has_panel else []
        return create_study(Study(**_read_texts(given), panels=panels, owner=read_person(request))).pk
    study = _find_mine(request, int(into))
    if has_panel:
        # The proposed title describes today's data; a panel without a title always describes the current data.
        title = given.get("title", "")
        own_title = "" if title == given.get("proposed") else title
        add_panel(study.pk, _make_panel(given, title=own_title, text=given.get("text")))
    return study.pk


def _read_texts(given: Any) -> dict[str, Any]:
    """Return what the form has of the study itself."""
    return {name: given.get(name, "") for name in Study.given if name != "panels"}


def _make_panel(given: Any, **texts: Any) -> StudyPanel:
    """Return the chart to save. Raises BadValue."""
    query = read_panel_query(given.get("query", ""))
    panel = read_panel({"kind": given.get("kind"), "query": query, **texts})
    check_questions([panel], check_question)
    return panel


def _read_panels(request: HttpRequest, detail: Study) -> list[dict[str, Any]]:
    """Return the panels with the texts of the form, in the order after the pressed button ("up:2")."""
    panels = [
        {**panel, **{name: request.POST.get(f"{name}-{place}", panel[name]) for name in ("title", "text")}}
        for place, panel in enumerate(detail.panels)
    ]
    action, _, number = request.POST.get("do", "save").partition(":")
    place = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1
    if action not in ("up", "down", "remove") or not 0 <= place < len(panels):
        return panels
    panel = panels.pop(place)
    if action != "remove":
        panels.insert(max(place + (-1 if action == "up" else 1), 0), panel)
    return panels


def _show_form(request: HttpRequest, detail: Study, *, error: str = "", status: int = 200) -> HttpResponse:
    """Show the form with the input if that was rejected, else with the stored values."""
    typed = request.POST if status == 400 else {}
    context = {
        "study": detail,
        **{name: typed.get(name, getattr(detail, name) or "") for name in Study.given},
        "panels": [_make_row(detail.pk, typed, place, row) for place, row in enumerate(detail.charts)],
        "error": error,
    }
    return render(request, "reports/edit_study.html", context, status=status)


def _make_row(study_id: int, typed: Any, place: int, row: StudyPanel) -> dict[str, Any]:
    return {
        "image": {
            **{f"{theme}_url": reverse("thumbnail", args=[study_id, place + 1, theme]) for theme in THEMES},
            "alt": f"Current chart: {name_panel(row)}",
            "width": THUMBNAIL_WIDTH // 2,
            "height": THUMBNAIL_HEIGHT // 2,
        },
        "place": place,
        "kind": row.kind,
        "settings": [f"{name}={value}" for name, values in QueryDict(row.query).lists() for value in values],
        "title": typed.get(f"title-{place}", row.title),
        "text": typed.get(f"text-{place}", row.text),
    }
