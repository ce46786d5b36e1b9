"""The inbox of incidents and the page of one incident: its chart, affected series, affected matrix."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import CATALOG, Metric, format_count, format_integer, lower_label
from benchapp.charts.pages.history import HistoryRequest, make_series_figure, write_query
from benchapp.charts.read.series_grid import read_newest
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import (
    FilterBar,
    explain_empty,
    keep_query,
    make_filter_bar,
    settle_filter,
)
from benchapp.framework.pages.list_entries import turn_page
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.series_marks import make_sparkline
from benchapp.framework.pages.time_range import AskedRange, describe_bounds, read_time_range
from benchapp.framework.times import name_zone, to_iso
from benchapp.incidents.actions.undo import BULK_MAXIMUM, UNDOABLE
from benchapp.incidents.pages.texts import (
    describe_action,
    describe_event,
    describe_inbox,
    describe_incident,
    describe_incident_counts,
    describe_pooled_levels,
    describe_sizes,
    describe_status,
    list_suspects,
    make_change_lines,
    make_incident_line,
    make_incident_lines,
    make_size,
)
from benchapp.incidents.read.affected_matrix import (
    AffectedCell,
    AffectedMatrix,
    CellState,
    read_affected_matrix,
)
from benchapp.incidents.read.changes import ChangeRow
from benchapp.incidents.read.incidents import (
    ChangeColumn,
    ChangeOrder,
    IncidentDetail,
    IncidentFilter,
    Tab,
    count_tabs,
    list_editors,
    list_incidents,
    list_merge_targets,
    list_most_severe,
    read_incident,
    read_last_action,
)
from benchapp.incidents.read.maintenance import list_mutes
from benchapp.incidents.read.series_status import count_detection_status
from benchapp.models import DetectionStatus, Incident, IncidentEvent, Role, Severity, Verdict, name_scopes
from benchapp.requests.pages.run_requests import make_request_panel
from benchapp.requests.read.run_requests import RequestFilter, list_latest_runs
from benchapp.series.read.dimension_values import has_series

# Time shown before the oldest run of the evidence, as a share of the time to the change.
_MARGIN_SHARE: Final = 0.1
_MARGIN_MINIMUM: Final = timedelta(hours=1)


def make_evidence(request: HttpRequest, detail: IncidentDetail, *, title: str) -> dict[str, Any]:
    """Return the chart of the largest change of each host or pool; queries: those of `make_series_figure`."""
    change, *others = detail.of_scopes
    metric = CATALOG[change.metric]
    from_at = change.points_from_at
    if from_at is not None:
        from_at -= max((change.started_at - from_at) * _MARGIN_SHARE, _MARGIN_MINIMUM)
    # A logarithmic axis: steps of the same size look alike, however fast the layouts are.
    asked = HistoryRequest(
        metric=metric,
        ids=tuple(each.series.id for each in detail.of_scopes),
        from_at=from_at,
        is_log=bool(others),
        is_linked=False,
    )
    figure = make_series_figure(
        request,
        asked,
        title=title,
        file_name=f"change-{change.id}",
    )
    return {
        "change": change,
        "metric": metric,
        "figure": figure,
        "heading": _name_evidence(detail, metric),
        "image_url": figure.image_url
        if others
        else f"/api/v1/charts/incident.png?incident={change.incident_id}",
    }


def _name_evidence(detail: IncidentDetail, metric: Metric) -> str:
    """Return what the chart shows: "IOPS of db-09 to db-16, the most affected series of each: 8 of 64 series"."""
    shown, total = detail.of_scopes, detail.row.series_count
    places, count = name_scopes([each.series.scope for each in shown]), f"{len(shown)} of {total} series"
    if len(shown) == 1:
        title = f"{metric.label} of {shown[0].series.place}, {shown[0].series.workload_title}"
        return f"{title}: the most affected of {total} series" if total > 1 else title
    if len(shown) < len(detail.scopes):
        return f"{metric.label} of {len(shown)} of {len(detail.scopes)} hosts or pools, the most affected: {count}"
    return f"{metric.label} of {places}, the most affected series of each: {count}"


# Shown at first, so that evidence and causes are near; a link shows all.
CHANGES_AT_FIRST: Final = 10
_ALL: Final = "all"
# A host that makes thousands of series also makes incidents of thousands of changes.
_ALL_MAXIMUM: Final = 1000
_TEXT_COLUMNS: Final = frozenset({ChangeColumn.SERIES, ChangeColumn.METRIC, ChangeColumn.STATE})
_BY_SIZE: Final = ChangeOrder()


def read_affected_series_request(query: QueryDict, errors: list[str]) -> dict[str, Any]:
    """Return order and length; invalid values give the default, and an error."""
    wanted = query.get("changes")
    if wanted not in (None, _ALL):
        errors.append(f"{wanted[:40]!r} is not a valid value of changes. Valid: {_ALL}.")
    return {
        "order": _read_order(query.get("sort"), errors),
        "limit": _ALL_MAXIMUM if wanted == _ALL else CHANGES_AT_FIRST,
    }


def make_affected_series(detail: IncidentDetail, asked: dict[str, Any], query: QueryDict) -> dict[str, Any]:
    """Return the table of the changes that were read."""
    total, shown = detail.change_count, len(detail.changes)
    is_all = asked["limit"] == _ALL_MAXIMUM
    has_choice = total > CHANGES_AT_FIRST
    count = format_count(total, "change")
    # 20 ms for these; of all changes they would take the longest.
    recent = {} if is_all else _read_recent(detail.changes)
    more = f"all {count}" if total <= _ALL_MAXIMUM else f"{format_integer(_ALL_MAXIMUM)} of {count}"
    return {
        "heads": tuple(_make_head(column, asked["order"], query) for column in ChangeColumn),
        "lines": [
            {**line, "line": make_sparkline(recent.get((line["row"].series.id, line["row"].metric), ()))}
            for line in make_change_lines(detail.changes)
        ],
        "has_history": not is_all,
        "summary": f"{format_integer(shown)} of {count}" if detail.changes_left_out else count,
        "show_url": f"{keep_query(query, changes=None if is_all else _ALL)}#cells" if has_choice else "",
        "show_text": f"Show {CHANGES_AT_FIRST} only" if is_all else f"Show {more}",
    }


def _read_recent(changes: Sequence[ChangeRow]) -> dict[tuple[int, str], tuple[float, ...]]:
    """Return the newest values of each series and metric, oldest first; one query for each metric."""
    found = {}
    for metric in {change.metric for change in changes}:
        ids = [change.series.id for change in changes if change.metric == metric]
        newest = read_newest(ids, metric)
        found.update({(series_id, metric): values for series_id, (_, values) in newest.items()})
    return found


def _read_order(text: str | None, errors: list[str]) -> ChangeOrder:
    if text is None:
        return _BY_SIZE
    name = text.removeprefix("-")
    if name not in list(ChangeColumn):
        valid = ", ".join(ChangeColumn)
        errors.append(
            f"{text[:40]!r} is not a valid sort order. Valid: {valid}; with - in front: descending."
        )
        return _BY_SIZE
    return ChangeOrder(ChangeColumn(name), is_descending=text.startswith("-"))


def _make_head(column: ChangeColumn, order: ChangeOrder, query: QueryDict) -> dict[str, Any]:
    label, unit = _LABELS[column]
    if column is ChangeColumn.SINCE:
        label = f"{label} ({name_zone()})"
    is_here = order.column == column
    is_descending = not order.is_descending if is_here else column not in _TEXT_COLUMNS
    sort = f"{'-' if is_descending else ''}{column.value}"
    return {
        "label": label,
        "unit": unit,
        "css": _CLASSES.get(column, ""),
        "url": f"{keep_query(query, sort=None if sort == '-change' else sort)}#cells",
        "aria_sort": ("descending" if order.is_descending else "ascending") if is_here else "",
    }


_LABELS: Final = {
    ChangeColumn.SERIES: ("Series", ""),
    ChangeColumn.METRIC: ("Metric", ""),
    ChangeColumn.BEFORE: ("Before", "runs"),
    ChangeColumn.AFTER: ("After", "runs"),
    ChangeColumn.CHANGE: ("Change", "95 % interval"),
    ChangeColumn.SINCE: ("Since", ""),
    ChangeColumn.STATE: ("State", ""),
    ChangeColumn.CONFIDENCE: ("Confidence", ""),
}
_CLASSES: Final = {
    ChangeColumn.BEFORE: "number minor",
    ChangeColumn.AFTER: "number minor",
    ChangeColumn.CHANGE: "number",
}


_ROOM: Final = timedelta(hours=1)
_STATUSES: Final = {
    DetectionStatus.LEARNING: "learning",
    DetectionStatus.NOISY: "too noisy",
    DetectionStatus.STALE: "stale",
}
_TEXTS: Final[dict[CellState, str]] = {
    "unchanged": "unchanged",
    "unjudged": "not evaluated",
    "missing": "no data",
}


def make_affected_matrix(incident: Incident, query: QueryDict) -> dict[str, Any] | None:
    """Return the matrix of an incident in the metric of the URL; None for fewer than two series."""
    matrix = read_affected_matrix(incident, metric=query.get("metric"))
    if matrix is None:
        return None
    rows = tuple(
        (label, tuple(_show(matrix, label, place, cell) for place, cell in enumerate(cells)))
        for label, cells in matrix.lines
    )
    return {
        "matrix": matrix,
        "axes": " and ".join(
            lower_label(dimension.label) for dimension in (*matrix.rows, matrix.x) if dimension is not None
        ),
        "summary": describe_affected_counts(matrix),
        "omitted": tuple(list_omitted_affected(matrix)),
        "rows": rows,
        "tabs": tuple(
            (
                metric.label,
                count,
                keep_query(query, metric=metric.name),
                metric is matrix.metric,
            )
            for metric, count in matrix.metrics
        ),
        "has_elsewhere": any(cell["state"] == "elsewhere" for _, cells in rows for cell in cells),
    }


def describe_affected_counts(matrix: AffectedMatrix) -> str:
    """Return the counts: "14 of 320 series changed in IOPS; 3 not evaluated"."""
    text = f"{matrix.changed} of {matrix.judged} series changed in {matrix.metric.label}"
    return f"{text}; {matrix.unjudged} not evaluated" if matrix.unjudged else text


def list_omitted_affected(matrix: AffectedMatrix) -> Iterator[str]:
    """Yield what the matrix omits."""
    for count, noun in ((matrix.rows_left_out, "row"), (matrix.columns_left_out, "column")):
        if count:
            yield f"{format_count(count, noun)} with fewer changes not shown."
    if matrix.changed_left_out:
        yield f"{matrix.changed_left_out} affected series not shown here; see the list below."
    if matrix.is_cut:
        yield "Too many series: only the most recent are counted."


def _show(matrix: AffectedMatrix, label: str, place: int, cell: AffectedCell) -> dict[str, Any]:
    column = f", {lower_label(matrix.x.label)} {matrix.columns[place]}" if matrix.x else ""
    position = f"{label}{column}"
    if cell.change is None:
        note = _STATUSES.get(DetectionStatus(cell.status), "") if cell.status else ""
        return {
            "state": cell.state,
            "position": position,
            "text": _TEXTS[cell.state],
            "size": None,
            "note": note,
            "url": _link(matrix, cell),
        }
    change = cell.change
    size = make_size(change["relative"], None, None, is_regression=change["is_regression"])
    return {
        "state": cell.state,
        "position": position,
        "text": size.word,
        "size": size,
        "note": _make_note(cell),
        "url": _link(matrix, cell),
    }


def _make_note(cell: AffectedCell) -> str:
    """Return the note of a change: the number of series that changed, or the other incident."""
    if cell.state == "elsewhere" and cell.change:
        return (
            f"incident {cell.change['incident_id']}" if cell.change["incident_id"] else "not significant yet"
        )
    return f"{cell.changed} of {cell.series} series" if cell.series > 1 else ""


def _link(matrix: AffectedMatrix, cell: AffectedCell) -> str:
    """Return the URL of the history around the change, from the same time in all cells; "" without a series."""
    if cell.series_id is None:
        return ""
    from_at = parse_datetime(matrix.from_at) if matrix.from_at else None
    part = to_iso(from_at - _ROOM) if from_at else None
    query = write_query(metric=matrix.metric.name, **{"from": part})
    return f"{reverse('series', args=[cell.series_id])}?{query}"


INCIDENTS_ON_A_PAGE: Final = 50
_VERDICTS: Final = [(verdict.value, verdict.label) for verdict in Verdict if verdict]
# Tabs of unresolved regressions: one page, most severe first. The others are paginated by time.
_UNRESOLVED: Final = (Tab.OPEN, Tab.NEW, Tab.ACKNOWLEDGED, Tab.SNOOZED, Tab.RECOVERED)


@require_safe
@may_read
def incidents(request: HttpRequest) -> HttpResponse:
    """List incidents: tabs with open work by severity, the others newest first."""
    bar = make_filter_bar(request, keep=("tab",))
    errors: list[str] = []
    tab, time_range = _read_tab(request, errors), read_time_range(request.GET, errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    asked = IncidentFilter(tab=tab, match=bar.filter, from_at=time_range.from_at, to_at=time_range.to_at)
    rows, links = _read_list(request, errors, asked)
    counts = count_tabs(asked)
    is_calm = not rows and not bar.text and not time_range.query and tab in (Tab.OPEN, Tab.NEW)
    context = {
        **links,
        **_describe_visitor(request),
        "title": describe_inbox(tab, counts, rows),
        "bar": bar,
        "errors": errors,
        "range": describe_bounds(time_range.from_at, time_range.to_at),
        "tab": tab.value,
        "tabs": _list_tabs(request, tab, counts),
        "lines": make_incident_lines(rows),
        "excluded": () if rows else explain_empty(bar, has_series),
        "status": describe_status(count_detection_status()) if is_calm else None,
        "api_line": _make_api_line(request, tab, bar, time_range),
        **(_offer_bulk() if rows and can(find_visitor(request), Role.EDITOR) else {}),
    }
    return render(request, "incidents/incidents.html", context, status=400 if errors else 200)


@require_safe
@may_read
def incident(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Show one incident: affected series, evidence, possible causes, scope, activity."""
    errors: list[str] = []
    asked = read_affected_series_request(request.GET, errors)
    detail = read_incident(incident_id, order=asked["order"], limit=asked["limit"])
    if detail is None:
        raise Http404(f"Incident {incident_id} does not exist.")
    row, largest = detail.row, detail.largest
    title = describe_incident(detail)
    evidence = make_evidence(request, detail, title=title) if largest else None
    context = {
        **_describe_visitor(request),
        "title": title,
        "errors": errors,
        "row": row,
        "line": make_incident_line(row),
        "counts": describe_incident_counts(detail),
        "sizes": describe_sizes(detail),
        "pooled_text": describe_pooled_levels(row),
        "evidence": evidence,
        "suspects": list_suspects(row),
        "selection_kind": KINDS["change"],
        "table": make_affected_series(detail, asked, request.GET),
        "affected": make_affected_matrix(row, request.GET) if largest else None,
        "events": [_make_event(event) for event in reversed(detail.events)],
        "panel": make_request_panel(
            request,
            RequestFilter(incident_id=row.id),
            find_runs=lambda: list_latest_runs([change.series.id for change in detail.changes]),
        ),
        "mutes": list_mutes(row.id, muted_by=row.planned_event_id, now=timezone.now()),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/incidents/{row.id}"),
        **(_offer_tools(detail) if can(find_visitor(request), Role.EDITOR) else {}),
    }
    return render(request, "incidents/incident.html", context, status=400 if errors else 200)


def _read_list(
    request: HttpRequest, errors: list[str], asked: IncidentFilter
) -> tuple[tuple[Incident, ...], dict[str, Any]]:
    if asked.tab in _UNRESOLVED:
        page = list_most_severe(asked)
        return page.items, {"has_more": page.next_cursor is not None}
    page, links = turn_page(
        request, errors, read=lambda after: list_incidents(asked, after=after, limit=INCIDENTS_ON_A_PAGE)
    )
    return page.items, links


def _read_tab(request: HttpRequest, errors: list[str]) -> Tab:
    wanted = request.GET.get("tab", Tab.OPEN.value)
    if wanted in list(Tab):
        return Tab(wanted)
    errors.append(f"{wanted!r} is not a valid tab. Valid: {', '.join(Tab)}.")
    return Tab.OPEN


def _list_tabs(request: HttpRequest, here: Tab, counts: dict[Tab, int]) -> list[dict[str, Any]]:
    """Return the tabs; the snoozed one only if it has incidents or is open."""
    shown = [tab for tab in Tab if tab != Tab.SNOOZED or counts[tab] or here == tab]
    return [
        {
            "label": tab.value.capitalize(),
            "url": keep_query(request.GET, tab=None if tab == Tab.OPEN else tab.value, after=None),
            "count": counts.get(tab),
            "is_here": tab == here,
        }
        for tab in shown
    ]


def _describe_visitor(request: HttpRequest) -> dict[str, Any]:
    """Return what the buttons need, and the editor's last action that can be undone."""
    visitor = find_visitor(request)
    context: dict[str, Any] = {"here": request.get_full_path(), "verdicts": _VERDICTS}
    if visitor is None or not can(visitor, Role.EDITOR):
        return context
    last = read_last_action(visitor, kinds=sorted(UNDOABLE))
    return context | {"last_action": last, "last_action_text": describe_action(last["kind"]) if last else ""}


def _offer_tools(detail: IncidentDetail) -> dict[str, Any]:
    """Return the choices of the editor's forms."""
    row = detail.row
    is_open = row.state != "resolved"
    return {
        "people": list_editors(),
        "severities": Severity.values,
        "merge_targets": list_merge_targets(row) if is_open else [],
        "can_split": is_open and detail.live_count > 1,
        "can_accept": is_open and detail.largest is not None,
    }


def _offer_bulk() -> dict[str, Any]:
    """Return the choices for the selected incidents."""
    return {"people": list_editors(), "bulk_maximum": BULK_MAXIMUM}


def _make_event(event: IncidentEvent) -> dict[str, Any]:
    return {
        "row": event,
        "text": describe_event(event),
        "can_be_undone": event.undone_at is None and bool(event.before) and event.kind in UNDOABLE,
    }


def _make_api_line(request: HttpRequest, tab: Tab, bar: FilterBar, time_range: AskedRange) -> str:
    asked = {**({"q": bar.text} if bar.text else {}), "tab": tab.value, **time_range.bounds}
    return format_curl_command(f"{make_base_url(request)}/api/v1/incidents?{urlencode(asked, safe=':,/*')}")
