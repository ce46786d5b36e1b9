"""The ranking of layouts as its page and a study show it: chart, sentences and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Filter, parse_term
from benchapp.catalog.metrics import CATALOG, format_signed_percent, format_value
from benchapp.charts.read.history import IDS_MAXIMUM
from benchapp.framework.times import format_age, format_moment
from benchapp.layouts.read.question_form import read_question, write_layout_query
from benchapp.layouts.read.ranking import LayoutRanking, LevelSpread, RankedLayout, rank_layouts
from benchapp.layouts.texts.layouts import (
    VERDICT_TEXTS,
    describe_lacks,
    describe_left_out,
    describe_omitted,
    describe_price,
    describe_ranking,
    describe_workload,
    format_layouts_title,
    format_money,
    list_fixed,
)

# The CSV has all of them.
ROWS_MAXIMUM: Final = 100
# In the filter language; of numbers ">=0,unknown".
_ANY_VALUE: Final[Mapping[str, str]] = {"text": "*,unknown", "flag": "yes,no,unknown"}


def show_layouts(query: QueryDict, *, key: str, has_links: bool) -> dict[str, Any]:
    """Return the ranking that a query asks for (the query string of its page).

    key: prefix of the ids. Raises BadQuestion, BadFilter and UnknownRegion.
    """
    return make_layouts_figure(rank_layouts(read_question(query)), key=key, has_links=has_links)


def make_layouts_figure(
    ranking: LayoutRanking, *, key: str, has_links: bool = True, now: datetime | None = None
) -> dict[str, Any]:
    """Show a ranking; has_links: False without links to other pages."""
    query = write_layout_query(ranking.question)
    fixed = _link_fixed(ranking)
    return {
        "key": key,
        "ranking": ranking,
        "title": format_layouts_title(ranking),
        "sentences": tuple(describe_ranking(ranking, has_ages=has_links)),
        "omitted": tuple(describe_omitted(ranking)),
        "fixed": tuple(fixed if has_links else [(label, value, "") for label, value, _ in fixed]),
        "tables": tuple(
            {
                "id": f"{key}-{name}",
                "caption": caption,
                "lines": tuple(
                    _make_line(row, ranking, has_links=has_links, now=now) for row in rows[:ROWS_MAXIMUM]
                ),
                "more": len(rows[ROWS_MAXIMUM:]),
                "is_unpriced": name == "unpriced",
            }
            for name, caption, rows in (
                ("ranking", "Ranking", ranking.rows),
                ("unpriced", "Without a full price", ranking.unpriced),
            )
            if rows
        ),
        "chart": make_layouts_chart(ranking, has_links=has_links),
        "query": query,
        "csv_url": f"/api/v1/layouts?{query}&format=csv" if has_links else "",
        "has_links": has_links,
    }


def _link_fixed(ranking: LayoutRanking) -> list[tuple[str, str, str]]:
    """Return label and value of each fixed dimension, and the page with any value of it."""
    question, filter = ranking.question, ranking.question.filter
    path, links = reverse("layouts"), []
    for name, label, value in list_fixed(ranking):
        term = parse_term(name, _ANY_VALUE.get(DIMENSIONS[name].kind, ">=0,unknown"))
        asked = replace(question, filter=Filter((*filter.terms, term), filter.words))
        links.append((label, value, f"{path}?{write_layout_query(asked)}"))
    return links


def _make_line(
    row: RankedLayout, ranking: LayoutRanking, *, has_links: bool, now: datetime | None
) -> dict[str, Any]:
    load, levels, currency = row.load, row.load.levels, ranking.currency
    at_load = row.at_load
    return {
        "row": row,
        "url": _link_histories(load.series_ids) if has_links else "",
        "verdict": VERDICT_TEXTS[row.verdict],
        "price": describe_price(row, currency),
        "per_1000_iops": format_money(row.price_per_1000_iops, currency),
        "iops": _format_level(levels.iops, "iops"),
        "iops_p10": "" if levels.iops is None else format_value(levels.iops.p10, "operations/s"),
        "bandwidth": _format_level(levels.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
        "latency": _format_level(levels.latency_p99_ns, "latency_p99_ns"),
        "workload": tuple(describe_workload(load, ranking.varying)),
        "depth": " × ".join("?" if each is None else str(each) for each in (load.iodepth, load.numjobs)),
        "at_load": ""
        if at_load is None
        else f"{_format_level(at_load.levels.latency_p99_ns, 'latency_p99_ns')} at"
        f" {_format_level(at_load.levels.iops, 'iops')} IOPS",
        "margin": "" if row.assessment.margin is None else format_signed_percent(row.assessment.margin),
        "capacity": format_value(row.layout.capacity_bytes, "bytes"),
        "age": format_age(load.last_at, now=now) if has_links else format_moment(load.last_at),
        "lacks": (*describe_lacks(row, currency), *describe_left_out(row)),
    }


def _format_level(level: LevelSpread | None, metric: str) -> str:
    """Return the median; of a latency of several hosts, whose median is unknown, "up to" p90."""
    unit = CATALOG[metric].unit
    if level is None:
        return format_value(None, unit)
    return (
        format_value(level.median, unit) if level.median is not None else f"≤ {format_value(level.p90, unit)}"
    )


def _link_histories(series_ids: Sequence[int]) -> str:
    if len(series_ids) == 1:
        return reverse("series", args=[series_ids[0]])
    return f"{reverse('history')}?series={','.join(map(str, series_ids[:IDS_MAXIMUM]))}"


def make_layouts_chart(ranking: LayoutRanking, *, has_links: bool = True) -> dict[str, Any] | None:
    """Return the document of the chart: price over throughput, latency as color; None without priced layouts."""
    question = ranking.question
    metric = CATALOG["iops" if question.iops is not None else "bandwidth_bytes_per_s"]
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
            "url": _link_histories(row.load.series_ids) if has_links else "",
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
