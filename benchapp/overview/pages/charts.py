"""The chart of the overview, which is loaded by its own request, and pinned charts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from itertools import pairwise
from string import ascii_lowercase
from typing import Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.metrics import format_count, format_integer
from benchapp.framework.pages.access import choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import describe_filter, make_filter_bar, settle_filter
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import DAY_PRESETS, make_time_range, read_time_range
from benchapp.framework.read.days import DayRange
from benchapp.framework.times import format_date
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Role, User
from benchapp.overview.read.fleet import DAYS, SERIES_COUNTED_MAXIMUM, RegressedDays, read_regressed_days
from benchapp.overview.read.page import RecentChange, list_recent_changes
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

# Changes of the environment that are named, and letters of them in the chart.
CHANGES_SHOWN: Final = 6


@require_safe
@may_read
def regressions(request: HttpRequest) -> HttpResponse:
    """Show how many series were worse than their earlier level by day, with the data table."""
    bar = replace(make_filter_bar(request), time_range=make_time_range(request.GET, presets=DAY_PRESETS))
    errors: list[str] = []
    asked = read_time_range(request.GET, errors)
    days = asked.read_days(usual=DAYS, errors=errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    found = read_regressed_days(days, bar.filter)
    query = urlencode(({"q": bar.text} if bar.text else {}) | asked.bounds)
    path = reverse("api_fleet_regressions")
    context = {
        "bar": bar,
        "title": describe_regressed(found),
        "empty": "" if any(day.open or day.ended for day in found.days) else "No regression in these days.",
        "document": {
            "unit": "series",
            "days": [day.day.isoformat() for day in found.days],
            "layers": [
                {"name": "still open", "color": "regression", "values": [day.open for day in found.days]},
                {"name": "ended since", "color": "gray", "values": [day.ended for day in found.days]},
            ],
            "marks": [
                {"day": change.since_at.astimezone(UTC).date().isoformat(), "text": letter}
                for letter, change in letter_changes(list_recent_changes(bar.filter, days))
            ],
        },
        "rows": _list_steps(found),
        "scope": describe_filter(bar.filter) or "All series",
        "range_text": name_range(days),
        "csv_url": f"{path}?{query}{'&' if query else ''}format=csv",
        "api_line": format_curl_command(f"{make_base_url(request)}{path}{f'?{query}' if query else ''}"),
    }
    return render(request, "overview/regressions.html", context)


def letter_changes(changes: Sequence[RecentChange]) -> list[tuple[str, RecentChange]]:
    """Return the newest changes, oldest first, with the letters that the chart and the table have."""
    return list(zip(ascii_lowercase, reversed(changes[:CHANGES_SHOWN]), strict=False))


def name_range(days: DayRange) -> str:
    """Return "last 90 days"; of a range with an end "1 Oct 2026 to 7 Oct 2026"."""
    if days.is_open:
        return f"last {format_count(days.count, 'day')}"
    return f"{days.first:%-d %b %Y} to {days.last:%-d %b %Y}"


def describe_regressed(found: RegressedDays) -> str:
    """Return the finding: "24 of 998 series are worse than their earlier level in a metric"."""
    last = found.days[-1]
    count = last.open if found.range.is_open else last.open + last.ended
    if found.series_count > SERIES_COUNTED_MAXIMUM:
        total = f"more than {format_integer(SERIES_COUNTED_MAXIMUM)} series"
    else:
        total = format_count(found.series_count, "series")
    verb = ("is" if count == 1 else "are") if found.range.is_open else ("was" if count == 1 else "were")
    level = "its earlier level" if count == 1 else "their earlier level"
    return f"{format_integer(count)} of {total} {verb} worse than {level} in a metric"


def _list_steps(found: RegressedDays) -> list[tuple[str, str, str]]:
    """Return the days on which the counts change, newest first."""
    days = found.days
    return [
        (format_date(day.day), format_integer(day.open), format_integer(day.ended))
        for before, day in reversed([(None, days[0]), *pairwise(days)])
        if before is None or (day.open, day.ended) != (before.open, before.ended)
    ]


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
