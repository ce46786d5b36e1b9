"""What is watched: every metric of every series with what can be said of it."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.models import Standing
from benchapp.queries.incidents.detection_status import WatchedRow, list_watched
from benchapp.web.incidents.detection_status_texts import say_standing
from benchapp.web.site.access import may_read
from benchapp.web.site.filter_bar import make_filter_bar
from benchapp.web.site.filter_forms import keep_query
from benchapp.web.site.number_columns import SHORT_LABELS
from benchapp.web.site.pagination import turn_page

WATCHED_ON_A_PAGE: Final = 100
_TITLES: Final = {
    None: "Watched cells",
    Standing.LEARNING: "Watched cells that are learning: too few runs to judge in earnest",
    Standing.STEADY: "Watched cells that are steady",
    Standing.NOISY: "Watched cells that are too noisy to judge",
    Standing.STALE: "Watched cells that are stale: no run for long",
}


@dataclass(frozen=True, slots=True)
class WatchedLine:
    """One metric of one series, and what can be said of it."""

    row: WatchedRow
    label: str
    words: str


@require_safe
@may_read
def watched(request: HttpRequest) -> HttpResponse:
    """List what is watched, of one standing or of all, judged last first."""
    bar = make_filter_bar(request, keep=("standing",))
    errors = bar.errors
    wanted = request.GET.get("standing", "")
    standing = next((each for each in Standing if each == wanted), None)
    if wanted and standing is None:
        errors.append(f"There is no such standing; there are: {', '.join(Standing)}.")
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_watched(standing, bar.filter, after=after, limit=WATCHED_ON_A_PAGE),
    )
    choices = [("All", None), *((each.value.capitalize(), each) for each in Standing)]
    context = {
        **links,
        "title": _TITLES[standing],
        "bar": bar,
        "errors": errors,
        "choices": [
            (
                label,
                keep_query(request.GET, standing=each.value if each else None, after=None),
                each == standing,
            )
            for label, each in choices
        ],
        "lines": [
            WatchedLine(row, SHORT_LABELS[row.judgement.metric], say_standing(row.judgement))
            for row in page.items
        ],
    }
    return render(request, "incidents/detection_status.html", context, status=400 if errors else 200)
