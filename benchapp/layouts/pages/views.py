"""Choose a layout: the measured layouts that meet a requirement."""

from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.grammar import BadFilter
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command, list_first_steps
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.pages.figure import make_layouts_figure
from benchapp.layouts.pages.next_runs import show_next_runs
from benchapp.layouts.pages.question_form import LayoutForm
from benchapp.layouts.read.next_runs import plan_next_runs
from benchapp.layouts.read.prices import UnknownRegion, find_region, list_prices, list_regions
from benchapp.layouts.read.ranking import LayoutRanking, rank_layouts
from benchapp.models import Series

_EXAMPLE: Final = "iops=20000&pattern=randread&block_size=4k&p99_ms=3&capacity_gb=1000"


@require_safe
@may_read
def layouts(request: HttpRequest) -> HttpResponse:
    """Show the form, and the ranking if a throughput is required."""
    prices, now = list_prices(), timezone.now()
    region = find_region(prices, None, day=now.date())
    form = LayoutForm(request.GET or None, regions=list_regions(prices), region=region)
    question = form.make_question() if form.is_valid() else None
    if question is not None and not question.has_throughput:
        form.add_error("iops", "Enter a target: IOPS or MB/s.")
        question = None
    context: dict[str, Any] = {
        "form": form,
        "title": "Choose a layout",
        "example": f"{request.path}?{_EXAMPLE}",
    }
    if question is not None:
        try:
            context |= _make_answer(rank_layouts(question, now=now), request, now=now)
        except UnknownRegion as problem:
            form.add_error("region", f"{problem}.")
        except BadFilter as problem:
            form.add_error("q", f"{problem}.")
    return render(request, "layouts/layouts.html", context, status=400 if form.errors else 200)


def _make_answer(ranking: LayoutRanking, request: HttpRequest, *, now: datetime) -> dict[str, Any]:
    base_url = make_base_url(request)
    figure = make_layouts_figure(ranking, key="layouts")
    return {
        "ranking": ranking,
        "figure": figure,
        "title": figure["title"],
        "next": show_next_runs(plan_next_runs(ranking, now=now))
        if ranking.all_rows or ranking.incomplete
        else None,
        "canonical_url": f"{base_url}{request.path}?{figure['query']}",
        "api_line": format_curl_command(f"{base_url}/api/v1/layouts?{figure['query']}"),
        "steps": None if ranking.all_rows or Series.objects.exists() else list_first_steps(base_url),
    }
