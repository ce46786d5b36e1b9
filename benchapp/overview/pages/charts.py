"""Charts of the overview, each loaded by its own request: fleet, changes per week, ingest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.dimensions import split_pattern
from benchapp.catalog.metrics import format_count, format_integer
from benchapp.framework.pages.access import choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import refuse_address
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import DAY_PRESETS, make_time_range, read_time_range
from benchapp.framework.read.days import DayRange
from benchapp.framework.times import describe_age, format_date
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Role, User, name_scopes
from benchapp.overview.read.fleet import (
    CHANGE_DAYS,
    DAYS,
    INGEST_DAYS,
    SERIES_MAXIMUM,
    ChangeWeek,
    FleetDays,
    PatternDays,
    read_change_weeks,
    read_fleet_days,
    read_ingest_health,
)
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

# Smaller deviations of a pattern are not named in the title.
_DEVIATION: Final = 0.02
# The title compares the newest days with values, of the last seven. One outlier does not change the median of three.
_RECENT_DAYS: Final = 7
_TITLE_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class ChartKey:
    """One entry of the legend. shape and color: classes of the key."""

    shape: str
    color: str
    label: str


@dataclass(frozen=True, slots=True)
class OverviewChart:
    """One chart. document: what the script draws; heads, rows: its data table; api_path: the same data.

    empty: why there is no chart; "" with one.
    """

    name: str
    title: str
    aria_label: str
    caption: str
    keys: Sequence[ChartKey]
    document: dict[str, Any]
    heads: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[str]]]
    api_path: str
    empty: str = ""


@require_safe
@may_read
def overview_chart(request: HttpRequest, chart_name: str) -> HttpResponse:
    """Show one chart of the overview with its data table."""
    found = _CHARTS.get(chart_name)
    if found is None:
        raise Http404(f"{chart_name!r} is not a chart of the overview. Valid: {', '.join(_CHARTS)}.")
    make, usual = found
    errors: list[str] = []
    asked = read_time_range(request.GET, errors)
    days = asked.read_days(usual=usual, errors=errors)
    if errors:
        return refuse_address(request, errors)
    chart, query = make(days), asked.query
    context = {
        "chart": chart,
        "title": CHART_TITLES[chart_name],
        "range": make_time_range(request.GET, presets=DAY_PRESETS),
        "has_range": bool(query),
        "csv_url": f"{chart.api_path}?{query}{'&' if query else ''}format=csv",
        "api_line": format_curl_command(
            f"{make_base_url(request)}{chart.api_path}{f'?{query}' if query else ''}"
        ),
    }
    return render(request, "overview/chart.html", context)


def _name_days(days: DayRange) -> str:
    """Return "90 days"; of a range with an end "1 Oct 2026 to 7 Oct 2026"."""
    if days.is_open:
        return format_count(days.count, "day")
    return f"{days.first:%-d %b %Y} to {days.last:%-d %b %Y}"


def _limit_to(days: DayRange) -> str:
    """Return "in the last 90 days", or "from 1 Oct 2026 to 7 Oct 2026"."""
    return f"in the last {_name_days(days)}" if days.is_open else f"from {_name_days(days)}"


def _make_fleet_chart(days: DayRange) -> OverviewChart:
    fleet = read_fleet_days(days)
    dates = days.dates
    return OverviewChart(
        name="fleet",
        title=_describe_fleet(fleet),
        aria_label="Throughput of the fleet by pattern; arrow keys move between days and patterns",
        caption=(
            "100 %: the initial level of each series: that of the first of these days, or its first level."
            " A day of a series is its last valid run until then, without failed and excluded runs and maintenance."
            f" Line: median over the series; band: p10–p90.{_describe_sample(fleet.patterns)} IOPS; days in UTC."
            " Title: median of the newest three days with runs, and all series whose level fell by the smallest change."
        ),
        keys=[
            ChartKey(shape, color, line.name)
            for line in fleet.patterns
            for shape, color in (_STYLES[line.pattern],)
        ],
        document={
            "days": [day.isoformat() for day in dates],
            "lines": [_make_line(line) for line in fleet.patterns],
        },
        heads=[
            head
            for line in fleet.patterns
            for head in ((line.name, "median, %"), ("", "p10–p90, %"), ("", "series"))
        ],
        rows=[
            (format_date(day), [text for line in fleet.patterns for text in _format_day(line, place)])
            for place, day in reversed(list(enumerate(dates)))
            if any(line.days[place] for line in fleet.patterns)
        ],
        api_path="/api/v1/fleet/levels",
        empty=_describe_missing_days(fleet),
    )


def _describe_missing_days(fleet: FleetDays) -> str:
    """Return why there is no chart; "" with two days or more. A single day is 100 % by definition."""
    days = sum(any(of_day) for of_day in zip(*(line.run_counts for line in fleet.patterns), strict=True))
    if days == 0:
        return f"No series of these patterns was measured {_limit_to(fleet.range)}."
    return "" if days > 1 else "The chart begins with the second day of runs."


_STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "read": ("circle", "blue"),
    "write": ("triangle", "orange"),
    "randread": ("rect", "green"),
    "randwrite": ("rectRot", "purple"),
    "unknown-read": ("circle", "sky"),
    "unknown-write": ("triangle", "brown"),
}


def _make_line(line: PatternDays) -> dict[str, Any]:
    return {
        "name": line.name,
        "rw": line.pattern,
        "direction": split_pattern(line.pattern)[1],
        "values": [
            day and {"median": day.median, "p10": day.p10, "p90": day.p90, "n": day.n} for day in line.days
        ],
    }


def _format_day(line: PatternDays, place: int) -> list[str]:
    day = line.days[place]
    if day is None:
        return ["–", "–", "0"]
    return [f"{day.median * 100:.1f}", f"{day.p10 * 100:.1f}–{day.p90 * 100:.1f}", format_integer(day.n)]


def _describe_sample(patterns: Sequence[PatternDays]) -> str:
    if not any(line.is_sample for line in patterns):
        return ""
    return f" A random sample, always the same: at most {SERIES_MAXIMUM} series of a pattern."


def _describe_fleet(fleet: FleetDays) -> str:
    """Return the finding: the pattern that deviates most from its level, if days suffice, and how many series fell."""
    return f"{_describe_medians(fleet)}{_describe_losses(fleet)}"


def _list_measured(line: PatternDays, *, newest: int) -> list[float]:
    """Return the medians of the newest days that have runs: one run is not a change, however long it is the last."""
    days = list(zip(line.days, line.run_counts, strict=True))[-newest:]
    return [day.median for day, runs in days if day and runs]


def _describe_losses(fleet: FleetDays) -> str:
    """Return "; 64 series on db-09 to db-16 are lower"; "" without series."""
    if not fleet.patterns:
        return ""
    if not fleet.below:
        return "; no series is lower"
    verb = "is" if fleet.below == 1 else "are"
    return f"; {format_count(fleet.below, 'series')} on {name_scopes(fleet.below_scopes)} {verb} lower"


def _describe_medians(fleet: FleetDays) -> str:
    newest = {
        line.name: median(known[-_TITLE_DAYS:])
        for line in fleet.patterns
        if len(known := _list_measured(line, newest=_RECENT_DAYS)) >= _TITLE_DAYS
    }
    if not newest:
        return f"Fleet throughput by pattern, {_name_days(fleet.range)}"
    name = max(newest, key=lambda each: abs(newest[each] - 1))
    if abs(newest[name] - 1) < _DEVIATION:
        subject = "all patterns" if len(newest) == len(fleet.patterns) else ", ".join(newest)
        return f"Fleet throughput: {subject} within {_DEVIATION * 100:.0f} % of the initial level"
    return f"Fleet throughput: {name} at {newest[name] * 100:.0f} % of its initial level"


def _make_changes_chart(days: DayRange) -> OverviewChart:
    weeks = read_change_weeks(days)
    regressions, improvements, recoveries = (
        sum(getattr(week, kind) for week in weeks) for kind in ("regressions", "improvements", "recoveries")
    )
    count = format_count(len(weeks), "week")
    period = f"in {count}" if days.is_open else _limit_to(days)
    recovered = f", {format_count(recoveries, 'recovery')}" if recoveries else ""
    return OverviewChart(
        name="changes",
        title=f"Changes per week: {format_count(regressions, 'regression')}, "
        f"{format_count(improvements, 'improvement')}{recovered} {period}",
        aria_label="Changes per week; arrow keys move between weeks",
        caption=(
            "Series with a regression (filled) or an improvement (outlined) that began in the week, or that"
            " recovered from a regression, in any metric; suspected and withdrawn changes do not count."
            " Weeks begin on Monday, UTC."
        ),
        keys=[
            ChartKey("rect", "regression", "regressions"),
            ChartKey("rect hollow", "improvement", "improvements"),
            ChartKey("rect hollow", "waiting", "recovered"),
        ],
        document=_make_bars(
            [week.monday for week in weeks],
            ("week of", "series"),
            [
                ("regressions", "regression", [week.regressions for week in weeks]),
                ("improvements", "improvement", [week.improvements for week in weeks]),
                ("recovered", "waiting", [week.recoveries for week in weeks]),
            ],
        ),
        heads=[("Regressions", "series"), ("Improvements", "series"), ("Recovered", "series")],
        rows=[(format_date(week.monday), _format_week(week)) for week in reversed(weeks)],
        api_path="/api/v1/fleet/changes",
        empty=""
        if regressions or improvements or recoveries
        else f"No changes began {f'in the last {count}' if days.is_open else period}.",
    )


def _format_week(week: ChangeWeek) -> list[str]:
    return [format_integer(each) for each in (week.regressions, week.improvements, week.recoveries)]


def _make_ingest_chart(days: DayRange) -> OverviewChart:
    ingested, oldest_at = read_ingest_health(days)
    stored, rejected, waiting = (
        sum(getattr(day, name) for day in ingested) for name in ("stored", "rejected", "received")
    )
    queue = (
        f"{format_integer(waiting)} waiting, oldest received {describe_age(oldest_at)}"
        if oldest_at
        else "queue empty"
    )
    return OverviewChart(
        name="ingest",
        title=(
            f"Ingest: {format_integer(stored)} stored, {format_integer(rejected)} rejected"
            f" {f'in {_name_days(days)}; {queue}' if days.is_open else _limit_to(days)}"
        ),
        aria_label="Submissions per day; arrow keys move between days",
        caption=(
            "Submissions by day of receipt (UTC) and present state."
            " Filled: stored; red, above: rejected; outlined: waiting."
        ),
        keys=[
            ChartKey("rect", "blue", "stored"),
            ChartKey("rect", "regression", "rejected"),
            ChartKey("rect hollow", "waiting", "waiting"),
        ],
        document=_make_bars(
            [day.day for day in ingested],
            ("", "submissions"),
            [
                ("stored", "blue", [day.stored for day in ingested]),
                ("rejected", "regression", [day.rejected for day in ingested]),
                ("waiting", "waiting", [day.received for day in ingested]),
            ],
        ),
        heads=[("Stored", ""), ("Rejected", ""), ("Waiting", "")],
        rows=[
            (
                format_date(day.day),
                [format_integer(each) for each in (day.stored, day.rejected, day.received)],
            )
            for day in reversed(ingested)
        ],
        api_path="/api/v1/fleet/submissions",
        empty="" if stored or rejected or waiting else f"Nothing was received {_limit_to(days)}.",
    )


def _make_bars(
    dates: Sequence[date], names: tuple[str, str], layers: Sequence[tuple[str, str, Sequence[int]]]
) -> dict[str, Any]:
    """Return what bars.js draws; names: before the days, and of what is counted."""
    prefix, unit = names
    return {
        "unit": unit,
        "days": [day.isoformat() for day in dates],
        "prefix": prefix,
        "layers": [{"name": name, "color": color, "values": values} for name, color, values in layers],
    }


# With the number of days without a range.
_CHARTS: Final[Mapping[str, tuple[Callable[[DayRange], OverviewChart], int]]] = {
    "fleet": (_make_fleet_chart, DAYS),
    "changes": (_make_changes_chart, CHANGE_DAYS),
    "ingest": (_make_ingest_chart, INGEST_DAYS),
}
# Shown until a chart is loaded.
CHART_TITLES: Final[Mapping[str, str]] = {
    "fleet": "Fleet throughput by pattern",
    "changes": "Changes per week",
    "ingest": "Ingest",
}


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
