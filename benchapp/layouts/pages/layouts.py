"""Choose a layout: the page, and its ranking as a study shows it; what to measure next as a section of a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import BadFilter, Filter, parse_term
from benchapp.catalog.metrics import CATALOG, format_count, format_signed_percent, format_value, lower_label
from benchapp.charts.read.history import IDS_MAXIMUM
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image, list_first_steps
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.times import format_age, format_moment
from benchapp.layouts.read.next_runs import NextRun, NextRuns, plan_next_runs
from benchapp.layouts.read.prices import UnknownRegion, find_region, list_prices, list_regions
from benchapp.layouts.read.question import VARYING_CHOICES, QuestionForm, read_question, write_layout_query
from benchapp.layouts.read.ranking import LayoutRanking, RankedLayout, rank_layouts
from benchapp.layouts.rules.ranking import LevelSpread
from benchapp.layouts.texts import (
    NOT_POSSIBLE,
    NOTHING_DECIDES,
    VERDICT_TEXTS,
    describe_duration,
    describe_lacks,
    describe_left_out,
    describe_next_runs,
    describe_omitted,
    describe_ranking,
    describe_reason,
    describe_workload,
    format_layouts_title,
    format_money,
    format_queue_depth,
    list_fixed,
    list_price_notes,
    write_command,
)
from benchapp.models import Series

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
        "image_url": link_chart_image(f"/api/v1/layouts?{query}") if has_links else "",
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
                "is_met": is_met,
                "is_unpriced": name.startswith("unpriced"),
                "lacks_label": "Unknown" if name.endswith("unknown") else "Misses",
            }
            for name, caption, is_met, rows in _list_tables(ranking)
            if rows
        ),
        "chart": make_layouts_chart(ranking, has_links=has_links),
        "query": query,
        "csv_url": f"/api/v1/layouts?{query}&format=csv" if has_links else "",
        "has_links": has_links,
    }


def _list_tables(ranking: LayoutRanking) -> Iterator[tuple[str, str, bool, list[RankedLayout]]]:
    """Yield name and caption of each table, whether its layouts meet the requirement, and these."""
    for name, caption, rows in (
        ("ranking", "Meets the requirement", ranking.rows),
        ("unpriced", "Meets the requirement, without a full price", ranking.unpriced),
    ):
        yield name, caption, True, [row for row in rows if row.verdict == "meets"]
        unknown = [row for row in rows if row.verdict == "unknown"]
        yield f"{name}-unknown", "May meet the requirement: something required is unknown", False, unknown
        missed = [row for row in rows if row.verdict in ("median-only", "misses")]
        verb = "misses" if len(missed) == 1 else "miss"
        priced = " have no full price and" if name == "unpriced" and len(missed) > 1 else ""
        caption = f"{format_count(len(missed), 'layout')}{priced} {verb} the requirement, closest first"
        yield f"{name}-missed", caption, False, missed


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
        # Wrapped only in front of its notes.
        "price": format_money(row.least_price, currency).replace(" ", "\u00a0"),
        "price_notes": list_price_notes(row),
        "per_1000_iops": format_money(row.price_per_1000_iops, currency),
        "iops": _format_level(levels.iops, "iops"),
        "iops_p10": "" if levels.iops is None else format_value(levels.iops.p10, "operations/s"),
        "bandwidth": _format_level(levels.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
        "latency": _format_level(levels.latency_p99_ns, "latency_p99_ns"),
        "workload": ", ".join(describe_workload(load, ranking.varying)),
        "depth": " × ".join("?" if each is None else str(each) for each in (load.iodepth, load.numjobs)),
        "at_load": ""
        if at_load is None
        else f"{_format_level(at_load.levels.latency_p99_ns, 'latency_p99_ns')} at"
        f" {_format_level(at_load.levels.iops, 'iops')} IOPS",
        "margin": "" if row.assessment.margin is None else format_signed_percent(row.assessment.margin),
        "capacity": format_value(row.layout.capacity_bytes, "bytes"),
        "age": format_age(load.last_at, now=now) if has_links else format_moment(load.last_at),
        "lacks": tuple(describe_lacks(row, currency)),
        "left_out": tuple(describe_left_out(row)),
    }


def _format_level(level: LevelSpread | None, metric: str) -> str:
    return format_value(None if level is None else level.median, CATALOG[metric].unit)


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


_LABELS: Final[Mapping[str, str]] = {
    "iops": "IOPS, at least",
    "mb_per_s": "MB/s, at least",
    "p99_ms": "p99 latency, ms at most",
    "capacity_gb": "Capacity, GB at least",
    "max_price": "Price per month, at most",
    "pattern": "Pattern",
    "read_share": "Read share, %",
    "block_size": "Block size",
    "region": "Prices of",
    "price_of": "Price includes",
    "max_age_days": "Max. age, days",
    "q": "Data from",
    "vary": "Vary",
}
_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "block_size": {**_TEXT, "placeholder": "4k"},
    "q": {**_TEXT, "data-completion": ""},
}


class LayoutForm(QuestionForm):
    """The question with labels, and the regions that have prices."""

    def __init__(self, query: QueryDict | None, *, regions: Sequence[str], region: str) -> None:
        """Bind the query, if there is one. regions: of prices; region: the one without a choice."""
        is_region_chosen = query is not None and "region" in query
        if query is not None:
            query = query.copy()
            query["region"] = query.get("region", region).strip().lower()
        super().__init__(query, initial={"region": region})
        for name, label in _LABELS.items():
            field = self.fields[name]
            field.label = label
            if isinstance(field, forms.FloatField):
                field.widget.attrs |= {"step": "any", "autocomplete": "off"}
            field.widget.attrs |= _ATTRIBUTES.get(name, {})
        self.fields["vary"].widget = forms.CheckboxSelectMultiple(choices=VARYING_CHOICES)
        self.fields["q"].help_text = "Filter bar syntax: host:db-*, pool:web type:gp3. Empty: all hosts."
        # Prices without a region have the empty name.
        self.fields["region"].widget = forms.Select(choices=[(name, name or "no region") for name in regions])
        if len(regions) < 2 and not is_region_chosen:
            del self.fields["region"]
            self.is_region_chosen = False


def show_next_runs(plan: NextRuns, *, nothing: str = NOTHING_DECIDES) -> dict[str, Any]:
    """Show a plan; nothing: the sentence without measurements."""
    return {
        "sentence": describe_next_runs(plan, nothing=nothing),
        "has_loads": any(format_queue_depth(measured) for measured in plan.measurements),
        "lines": tuple(_make_run_line(measured) for measured in plan.measurements),
        "commands": tuple(
            {
                "id": f"next-{number}",
                "host": command.host,
                "line": write_command(command),
                "duration": describe_duration(command),
                "job_file": command.job_file,
                "job_file_name": command.argv[3] if command.job_file else "",
            }
            for number, command in enumerate(plan.commands, start=1)
        ),
    }


def _make_run_line(measured: NextRun) -> dict[str, Any]:
    is_measurable = measured.runs and not measured.is_possible
    return {
        "title": measured.title,
        "load": format_queue_depth(measured),
        "reasons": tuple(describe_reason(reason, measured) for reason in measured.reasons),
        "runs": measured.runs,
        "problem": NOT_POSSIBLE if is_measurable else "",
    }


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
            context |= _make_answer(rank_layouts(question, now=now), form, request, now=now)
        except UnknownRegion as problem:
            form.add_error("region", f"{problem}.")
        except BadFilter as problem:
            form.add_error("q", f"{problem}.")
    return render(request, "layouts/layouts.html", context, status=400 if form.errors else 200)


def _list_words(form: LayoutForm) -> list[tuple[str, str, str]]:
    """Return the requirement in words: (label, value, id of its field)."""
    given = [(field, str(field.value() or "")) for field in form if field.name != "vary"]
    return [
        (
            lower_label(str(field.label)),
            dict(getattr(field.field.widget, "choices", ())).get(value, value),
            field.id_for_label,
        )
        for field, value in given
        if value
    ]


def _make_answer(
    ranking: LayoutRanking, form: LayoutForm, request: HttpRequest, *, now: datetime
) -> dict[str, Any]:
    base_url = make_base_url(request)
    figure = make_layouts_figure(ranking, key="layouts")
    if ranking.question.price_of:
        shown = cast(QueryDict, form.data).copy()
        shown["price_of"] = ranking.question.price_of
        form.data = shown
    return {
        "ranking": ranking,
        "figure": figure,
        "title": figure["title"],
        "words": _list_words(form),
        "next": show_next_runs(plan_next_runs(ranking, now=now))
        if ranking.all_rows or ranking.incomplete
        else None,
        "canonical_url": f"{base_url}{request.path}?{figure['query']}",
        "api_line": format_curl_command(f"{base_url}/api/v1/layouts?{figure['query']}"),
        "steps": None if ranking.all_rows or Series.objects.exists() else list_first_steps(base_url),
    }
