"""List of series."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.queries.incidents.series_marks import read_series_marks
from benchapp.queries.series.series import (
    SeriesRow,
    list_series,
)
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import list_first_steps
from benchapp.web.site.filter_bar import make_filter_bar
from benchapp.web.site.number_columns import make_cells, make_columns
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.pagination import turn_page
from benchapp.web.site.series_marks import show_mark

SERIES_ON_A_PAGE: Final = 50
_LIST_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns", "elapsed_s")


@require_safe
@may_read
def series_list(request: HttpRequest) -> HttpResponse:
    """List the series that match the filters, most recent run first."""
    bar = make_filter_bar(request, old=("host", "pool", "rw", "direction", "text"))
    errors = bar.errors
    page, links = turn_page(
        request, errors, read=lambda after: list_series(bar.filter, after=after, limit=SERIES_ON_A_PAGE)
    )
    columns = make_columns((row.latest for row in page.items if row.latest), _LIST_METRICS)
    marks = read_series_marks([row.id for row in page.items], metric=_LIST_METRICS[0])
    context = {
        **links,
        "title": _format_title(page.items, has_more=any(links.values())),
        "bar": bar,
        "errors": errors,
        "is_filtering": bool(bar.text),
        "columns": columns,
        "rows": [
            (
                row,
                show_mark(marks.get(row.id), metric=""),
                make_cells(row.latest, columns) if row.latest else (),
            )
            for row in page.items
        ],
        "steps": None if page.items else list_first_steps(make_base_url(request)),
    }
    return render(request, "series/series_list.html", context, status=400 if errors else 200)


def _format_title(rows: tuple[SeriesRow, ...], *, has_more: bool) -> str:
    if not rows:
        return "No series"
    count = "1 series" if len(rows) == 1 else f"{len(rows)} series"
    return f"{count}, most recent run first" if has_more else count
