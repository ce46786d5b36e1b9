"""Detection status of every metric of every series."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.metrics import CATALOG
from benchapp.models import DetectionStatus
from benchapp.queries.exclusions import has_series
from benchapp.queries.incidents.detection_status import MonitoredMetric, list_detection_status
from benchapp.queries.series.level_range import match_span
from benchapp.web.incidents.detection_status_texts import describe_detection
from benchapp.web.site.access import may_read
from benchapp.web.site.filter_bar import explain_empty, make_filter_bar, settle_filter
from benchapp.web.site.filter_forms import keep_query
from benchapp.web.site.pagination import turn_page
from benchapp.web.site.time_range import describe_bounds, read_time_range

SERIES_ON_A_PAGE: Final = 100
_TITLES: Final = {
    None: "Monitored series",
    DetectionStatus.LEARNING: "Monitored series: learning (too few runs)",
    DetectionStatus.STEADY: "Monitored series: steady",
    DetectionStatus.NOISY: "Monitored series: too noisy for detection",
    DetectionStatus.STALE: "Monitored series: stale (no recent run)",
}


@dataclass(frozen=True, slots=True)
class DetectionStatusLine:
    """One metric of one series with its detection status."""

    row: MonitoredMetric
    label: str
    text: str


@require_safe
@may_read
def detection_status(request: HttpRequest) -> HttpResponse:
    """List monitored series with one status or any, last evaluated first."""
    bar = make_filter_bar(request, keep=("status",), has_time_range=True)
    errors: list[str] = []
    range = read_time_range(request.GET, errors)
    wanted = request.GET.get("status", "")
    status = next((each for each in DetectionStatus if each == wanted), None)
    if wanted and status is None:
        errors.append(f"{wanted!r} is not a valid status. Valid: {', '.join(DetectionStatus)}.")
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    within = None if range.levels.is_open else match_span(range.levels)
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_detection_status(
            status, bar.filter, within=within, after=after, limit=SERIES_ON_A_PAGE
        ),
    )
    choices = [("All", None), *((each.value.capitalize(), each) for each in DetectionStatus)]
    context = {
        **links,
        "title": _TITLES[status],
        "bar": bar,
        "errors": errors,
        "range": describe_bounds(range.from_at, range.to_at),
        "excluded": () if page.items else explain_empty(bar, has_series),
        "choices": [
            (
                label,
                keep_query(request.GET, status=each.value if each else None, after=None),
                each == status,
            )
            for label, each in choices
        ],
        "lines": [
            DetectionStatusLine(row, CATALOG[row.result.metric].short, describe_detection(row.result))
            for row in page.items
        ],
    }
    return render(request, "incidents/detection_status.html", context, status=400 if errors else 200)
