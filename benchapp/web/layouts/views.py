"""Choose a layout: the measured layouts that meet a requirement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import BadFilter, Filter, parse_term
from benchapp.metrics import CATALOGUE, format_value
from benchapp.queries.charts.history import IDS_MAXIMUM
from benchapp.queries.layouts.prices import UnknownRegion, find_region, list_prices, list_regions
from benchapp.queries.layouts.question import LayoutQuestion
from benchapp.queries.layouts.ranking import LayoutRanking, LevelSpread, RankedLayout, rank_layouts
from benchapp.web.layouts.question_form import LayoutForm, write_layout_query
from benchapp.web.layouts.texts import (
    VERDICT_TEXTS,
    describe_lacks,
    describe_omitted,
    describe_price,
    describe_ranking,
    format_layouts_title,
    format_money,
    list_fixed,
)
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import format_curl_command, list_first_steps
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.value_texts import format_age, format_signed_percent

# The CSV has all of them.
ROWS_MAXIMUM: Final = 100
# In the filter language; of numbers ">=0,unknown".
_ANY_VALUE: Final[Mapping[str, str]] = {"text": "*,unknown", "flag": "yes,no,unknown"}
_EXAMPLE: Final = "iops=20000&pattern=randread&block_size=4k&p99_ms=3&capacity_gb=1000"


@dataclass(frozen=True, slots=True)
class LayoutLine:
    """A row of the table. numbers are texts; url: the histories of its series."""

    row: RankedLayout
    url: str
    verdict: str
    price: str
    per_1000_iops: str
    iops: str
    iops_p10: str
    bandwidth: str
    latency: str
    depth: str
    at_load: str
    margin: str
    capacity: str
    age: str
    lacks: tuple[str, ...]


@require_safe
@may_read
def layouts(request: HttpRequest) -> HttpResponse:
    """Show the form, and the ranking if a throughput is required."""
    prices, now = list_prices(), timezone.now()
    region = find_region(prices, None, day=now.date())
    form = LayoutForm(request.GET or None, regions=list_regions(prices), region=region)
    question = form.make_question() if form.is_valid() else None
    if question is not None and not question.has_throughput:
        form.add_error("iops", "State the required IOPS or MB/s.")
        question = None
    context: dict[str, Any] = {
        "form": form,
        "title": "Choose a layout",
        "example": f"{request.path}?{_EXAMPLE}",
    }
    if question is not None:
        try:
            context |= _make_answer(rank_layouts(question, now=now), request)
        except UnknownRegion as problem:
            form.add_error("region", f"{problem}.")
        except BadFilter as problem:
            form.add_error("q", f"{problem}.")
    return render(request, "layouts/layouts.html", context, status=400 if form.errors else 200)


def _make_answer(ranking: LayoutRanking, request: HttpRequest) -> dict[str, Any]:
    base_url, query = make_base_url(request), write_layout_query(ranking.question)
    chart = make_layouts_chart(ranking)
    return {
        "ranking": ranking,
        "title": format_layouts_title(ranking),
        "sentences": list(describe_ranking(ranking)),
        "omitted": list(describe_omitted(ranking)),
        "fixed": _link_fixed(ranking),
        "tables": [
            (
                key,
                caption,
                [_make_line(row, ranking.currency) for row in rows[:ROWS_MAXIMUM]],
                len(rows[ROWS_MAXIMUM:]),
            )
            for key, caption, rows in (
                ("ranking", "Ranking", ranking.rows),
                ("unpriced", "Without a price", ranking.unpriced),
            )
            if rows
        ],
        "currency": ranking.currency,
        "chart": chart,
        "canonical_url": f"{base_url}{request.path}?{query}",
        "csv_url": f"/api/v1/layouts?{query}&format=csv",
        "api_line": format_curl_command(f"{base_url}/api/v1/layouts?{query}"),
        "steps": None if ranking.all_rows or _narrows(ranking.question) else list_first_steps(base_url),
    }


def _narrows(question: LayoutQuestion) -> bool:
    return bool(question.filter.terms or question.filter.words)


def _link_fixed(ranking: LayoutRanking) -> list[tuple[str, str, str]]:
    """Return label and value of each fixed dimension, and the page with any value of it."""
    question, filter = ranking.question, ranking.question.filter
    links = []
    for name, label, value in list_fixed(ranking):
        term = parse_term(name, _ANY_VALUE.get(DIMENSIONS[name].kind, ">=0,unknown"))
        asked = replace(question, filter=Filter((*filter.terms, term), filter.words))
        links.append((label, value, f"?{write_layout_query(asked)}"))
    return links


def _make_line(row: RankedLayout, currency: str) -> LayoutLine:
    load, levels = row.load, row.load.levels
    at_load = row.at_load
    return LayoutLine(
        row=row,
        url=_link_histories(load.series_ids),
        verdict=VERDICT_TEXTS[row.verdict],
        price=describe_price(row, currency),
        per_1000_iops=format_money(row.price_per_1000_iops, currency),
        iops=_format_level(levels.iops, "iops"),
        iops_p10="" if levels.iops is None else format_value(levels.iops.p10, "operations/s"),
        bandwidth=_format_level(levels.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
        latency=_format_level(levels.latency_p99_ns, "latency_p99_ns"),
        depth=" × ".join("?" if each is None else str(each) for each in (load.iodepth, load.numjobs)),
        at_load=""
        if at_load is None
        else f"{_format_level(at_load.levels.latency_p99_ns, 'latency_p99_ns')} at"
        f" {_format_level(at_load.levels.iops, 'iops')} IOPS",
        margin="" if row.assessment.margin is None else format_signed_percent(row.assessment.margin),
        capacity=format_value(row.layout.capacity_bytes, "bytes"),
        age=format_age(load.last_at),
        lacks=tuple(describe_lacks(row, currency)),
    )


def _format_level(level: LevelSpread | None, metric: str) -> str:
    """Return the median; of a latency of several hosts, whose median is unknown, "up to" p90."""
    unit = CATALOGUE[metric].unit
    if level is None:
        return format_value(None, unit)
    return (
        format_value(level.median, unit) if level.median is not None else f"≤ {format_value(level.p90, unit)}"
    )


def _link_histories(series_ids: Sequence[int]) -> str:
    if len(series_ids) == 1:
        return reverse("series", args=[series_ids[0]])
    return f"{reverse('history')}?series={','.join(map(str, series_ids[:IDS_MAXIMUM]))}"


def make_layouts_chart(ranking: LayoutRanking) -> dict[str, Any] | None:
    """Return the document of the chart: price over throughput, latency as color; None without priced layouts."""
    question = ranking.question
    metric = CATALOGUE["iops" if question.iops is not None else "bandwidth_bytes_per_s"]
    points = [
        {
            "title": row.layout.title,
            "price": row.price_amount,
            "throughput": level.median,
            "latency": None if latency is None else latency.p90,
            "verdict": VERDICT_TEXTS[row.verdict],
            "is_met": row.verdict == "meets",
            "is_front": row.is_on_front,
            "n": row.load.n,
            "url": _link_histories(row.load.series_ids),
        }
        for row in ranking.rows[:ROWS_MAXIMUM]
        for level in (getattr(row.load.levels, metric.name),)
        for latency in (row.load.levels.latency_p99_ns,)
        if row.price_amount is not None and level is not None and level.median is not None
    ]
    required = question.requirement
    if not points:
        return None
    return {
        "metric": {"unit": metric.unit, "label": metric.label},
        "currency": ranking.currency,
        "required": required.iops if metric.name == "iops" else required.bandwidth_bytes_per_s,
        "limit": required.latency_p99_ns,
        "points": points,
    }
