"""Pinned charts: pin a chart page to the own overview; show, move, rename and remove what is pinned."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.framework.pages.access import choose_next, needs_role, read_person
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Role, User
from benchapp.reports.pages.panels import list_kinds, make_panel, read_panel_query
from benchapp.reports.read import read_pinned_chart
from benchapp.reports.write import (
    TITLE_LENGTH,
    BadPin,
    UnknownPin,
    move_pin,
    pin_chart,
    read_panel,
    remove_pin,
    rename_pin,
)


@require_POST
@needs_role(Role.VIEWER)
def add_pin(request: HttpRequest) -> HttpResponse:
    """Pin a chart (kind, query) to the own overview; show the page it was pinned from."""
    try:
        panel = read_panel(
            {"kind": request.POST.get("kind"), "query": read_panel_query(request.POST.get("query", ""))}
        )
        pin_chart(read_person(request), panel)
    except (BadValue, BadPin) as problem:
        messages.error(request, f"Not pinned: {problem}.", extra_tags="bad")
    else:
        messages.success(request, "Pinned to your overview.", extra_tags="good")
    return HttpResponseRedirect(choose_next(request, "home"))


@never_cache
@require_safe
@needs_role(Role.VIEWER)
def pinned_chart(request: HttpRequest, pin_id: int) -> HttpResponse:
    """Show one pinned chart with current data."""
    pin = read_pinned_chart(read_person(request), pin_id)
    if pin is None:
        raise Http404(f"Pinned chart {pin_id} not found: it may have been removed, or is another user's.")
    panel = make_panel(request, pin.panel, pin.pk, has_links=True)
    return render(request, "overview/pinned_chart.html", {"panel": panel, "kinds": list_kinds([panel])})


@require_POST
@needs_role(Role.VIEWER)
def change_pin(request: HttpRequest, pin_id: int) -> HttpResponse:
    """Move, rename or remove a pinned chart: `do` is up, down, rename (with `title`) or remove."""
    try:
        problem = _change(read_person(request), pin_id, request)
    except UnknownPin as error:
        problem = str(error)
    if problem:
        messages.error(request, f"{problem[0].upper()}{problem[1:]}.", extra_tags="bad")
    # Focus and scroll position stay at the chart that was moved.
    mark = f"#pin-{pin_id}" if request.POST.get("do") in ("up", "down", "rename") else "#pinned"
    return redirect(reverse("home") + mark)


def _change(person: User, pin_id: int, request: HttpRequest) -> str:
    """Carry out the change; return why it was refused, or ""."""
    action = request.POST.get("do", "")
    title = " ".join(request.POST.get("title", "").replace("\x00", "").split())
    if action == "rename" and len(title) > TITLE_LENGTH:
        return f"the title has {len(title)} characters; at most {TITLE_LENGTH} are allowed"
    if action == "rename":
        rename_pin(person, pin_id, title)
        messages.success(request, "Title saved.", extra_tags="good")
    elif action == "remove":
        remove_pin(person, pin_id)
        messages.success(request, "Chart removed from your overview.", extra_tags="good")
    elif action in ("up", "down"):
        move_pin(person, pin_id, by=-1 if action == "up" else 1)
    else:
        return f"{action[:40]!r} is not a valid change. Valid: up, down, rename, remove"
    return ""
