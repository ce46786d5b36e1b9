"""Saved views: the list, save, rename, share, delete, restore."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.framework.pages.access import choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.page_context import find_visitor
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Role, SavedView, User
from benchapp.reports.pages.panels import find_page, read_panel_query
from benchapp.reports.read import list_removed_views, list_saved_views
from benchapp.reports.write import (
    NAME_MAXIMUM,
    RESTORABLE,
    UnknownView,
    change_view,
    read_panel,
    remove_view,
    restore_view,
    save_view,
)


@never_cache
@require_safe
@may_read
def saved_views(request: HttpRequest) -> HttpResponse:
    """List the visitor's views and the shared ones, and the deleted ones that can be restored."""
    visitor = find_visitor(request)
    removed = list_removed_views(visitor, since=timezone.now() - RESTORABLE) if visitor else []
    views, is_cut = list_saved_views(visitor, has_people=True)
    context = {
        "lines": [(view, find_page(view.panel)) for view in views],
        "visitor_id": visitor.pk if visitor else None,
        "is_cut": is_cut,
        "removed": removed,
        "name_maximum": NAME_MAXIMUM,
    }
    return render(request, "reports/saved_views/saved_views.html", context)


def list_view_lines(visitor: User | None) -> list[tuple[SavedView, str]]:
    """Return the views that a visitor may open, own ones first, with their addresses."""
    return [(view, find_page(view.panel)) for view in list_saved_views(visitor)[0]]


@require_POST
@needs_role(Role.VIEWER)
def add_saved_view(request: HttpRequest) -> HttpResponse:
    """Save a chart page (kind, query) under a name; show that page again."""
    try:
        query = read_panel_query(request.POST.get("query", ""))
        panel = read_panel({"kind": request.POST.get("kind"), "query": query})
        name, is_shared = request.POST.get("name", ""), request.POST.get("shared") == "1"
        view = SavedView(name=name, kind=panel.kind, query=panel.query, is_shared=is_shared)
        save_view(view, owner=read_person(request))
    except BadValue as problem:
        messages.error(request, f"View not saved: {problem}.", extra_tags="bad")
    else:
        messages.success(request, "View saved. Search and the overview list it.", extra_tags="good")
    return HttpResponseRedirect(choose_next(request, "saved_views"))


@require_POST
@needs_role(Role.VIEWER)
def change_saved_view(request: HttpRequest, view_id: int) -> HttpResponse:
    """Change a view: `do` is rename (with `name`), share, unshare, remove or restore."""
    try:
        done = _change(read_person(request), view_id, request)
    except (BadValue, UnknownView) as problem:
        text = str(problem)
        messages.error(request, f"{text[0].upper()}{text[1:]}.", extra_tags="bad")
    else:
        messages.success(request, done, extra_tags="good")
    return redirect("saved_views")


def _change(person: User, view_id: int, request: HttpRequest) -> str:
    """Carry out the change and return what was done. Raises BadValue and UnknownView."""
    action = request.POST.get("do", "")
    if action == "rename":
        change_view(person, view_id, "renamed", name=request.POST.get("name", ""))
        return "View renamed."
    if action in ("share", "unshare"):
        is_shared = action == "share"
        change_view(person, view_id, "shared" if is_shared else "made private", is_shared=is_shared)
        return "View shared." if is_shared else "View is private."
    if action == "remove":
        remove_view(person, view_id)
        return "View deleted. It can be restored for a day."
    if action == "restore":
        view = restore_view(person, view_id)
        return "View restored." if view.is_shared else "View restored. It is private."
    raise BadValue(
        "do", f"{action[:40]!r} is not a valid change. Valid: rename, share, unshare, remove, restore"
    )
