"""Benchmark health: benchmarks that need work, how many incidents were true, and what is detectable where."""

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import (
    CATALOG,
    JUDGED_METRICS,
    format_count,
    format_integer,
    format_percent,
    lower_label,
)
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.filter_bar import (
    explain_empty,
    keep_query,
    make_filter_bar,
    read_choice,
    settle_filter,
)
from benchapp.framework.pages.list_entries import read_page_number, turn_page
from benchapp.framework.pages.time_range import describe_bounds, read_time_range
from benchapp.incidents.pages.texts import describe_detection
from benchapp.incidents.read.benchmark_health import (
    SERIES_MAXIMUM,
    BenchmarkHealth,
    HealthGrouping,
    HealthProposal,
    HealthRow,
    read_benchmark_health,
)
from benchapp.incidents.read.incidents import IncidentFilter, Tab, count_tabs
from benchapp.incidents.read.series_status import list_detection_status
from benchapp.incidents.rules.benchmark_health import FINDING_SUMMARIES, PERIOD_DAYS, VerdictCounts
from benchapp.models import SAMPLE_HOST, DetectionStatus, name_scopes
from benchapp.series.read.dimension_values import has_series
from benchapp.series.read.selected_levels import match_span

ROWS_ON_A_PAGE: Final = 100
# Of the rows with findings, which fill the first screen.
FINDINGS_ON_A_PAGE: Final = 20
# Hosts and workloads with most incidents; the rest is in their own rows above.
_VERDICT_ROWS: Final = 12
_GROUPINGS: Final[dict[HealthGrouping, str]] = {
    "series": "Series",
    "host": "Host or pool",
    "profile": "Profile",
}
_NOUNS: Final[dict[HealthGrouping, str]] = {
    "series": "series",
    "host": "hosts and pools",
    "profile": "profiles",
}
_METRICS: Final = {name: CATALOG[name].label for name in JUDGED_METRICS}
_OF_METRIC: Final = ("high-spread", "spread-increased", "two-states")
# Also counted on the page of incidents, under the same filter and range.
_INCIDENTS: Final = ((Tab.OPEN, "open"), (Tab.RECOVERED, "recovered"))
_STATUSES: Final = {"": "Any", **{each.value: each.value.capitalize() for each in DetectionStatus}}


@require_safe
@may_read
def benchmark_health(request: HttpRequest) -> HttpResponse:
    """List series, hosts or profiles with findings, the verdicts of the period, and the status of each metric."""
    bar = make_filter_bar(request, fields="incidents/_health_fields.html")
    errors: list[str] = []
    grouping = read_choice(request.GET, "by", _GROUPINGS, errors, noun="grouping")
    metric = read_choice(request.GET, "metric", _METRICS, errors)
    status = read_choice(request.GET, "status", _STATUSES, errors)
    time_range = read_time_range(request.GET, errors)
    page = read_page_number(request.GET, errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    within = match_span(time_range.levels)
    health = read_benchmark_health(
        bar.filter,
        grouping=grouping,
        now=timezone.now(),
        metric=metric,
        within=within,
        without=SAMPLE_HOST,
        offset=(page - 1) * FINDINGS_ON_A_PAGE,
        limit=FINDINGS_ON_A_PAGE,
    )
    counts = count_tabs(IncidentFilter(match=bar.filter, from_at=time_range.from_at, to_at=time_range.to_at))
    statuses, links = turn_page(
        request,
        errors,
        read=lambda after: list_detection_status(
            status, bar.filter, within=within, after=after, limit=ROWS_ON_A_PAGE
        ),
    )
    has_more = health.row_count > page * FINDINGS_ON_A_PAGE
    context = {
        **links,
        "title": _describe_health(health, grouping),
        "bar": bar,
        "errors": errors,
        "range": describe_bounds(time_range.from_at, time_range.to_at),
        "health": health,
        "excluded": () if health.series_count else explain_empty(bar, has_series),
        "first_column": _GROUPINGS[grouping],
        "words": [
            ("noise of", lower_label(_METRICS[metric]), "health-metric"),
            ("· by", lower_label(_GROUPINGS[grouping]), "health-by"),
            *([("· status", _STATUSES[status], "health-status")] if status else []),
        ],
        "metric_choices": [(value, label, value == metric) for value, label in _METRICS.items()],
        "groupings": [(value, label, value == grouping) for value, label in _GROUPINGS.items()],
        "statuses": [(value, label, value == status) for value, label in _STATUSES.items()],
        "status": status,
        "shows_status": status or "after" in request.GET,
        "lines": [_describe_row(row, bar.filter, grouping) for row in health.rows],
        "found": _count_findings(health, _METRICS[metric]),
        "elsewhere": [
            (
                f"{format_count(count, 'series')} in {lower_label(CATALOG[name].label)}",
                keep_query(request.GET, metric=name, page=None),
            )
            for name, count in health.elsewhere
        ],
        "incidents": [
            (
                f"{format_integer(counts[tab])} {text}",
                keep_query(request.GET, tab=tab, by=None, metric=None, status=None, page=None, after=None),
            )
            for tab, text in _INCIDENTS
            if counts[tab] or tab == Tab.OPEN
        ],
        "series_query": keep_query(request.GET, by=None, metric=None, status=None, page=None, after=None),
        "has_verdict": bool(health.total.verdicts.rated),
        "summary": _summarize(health),
        "tables": _make_tables(health),
        "metrics": [
            (series, result, CATALOG[result.metric].short, describe_detection(result))
            for series, result in statuses.items
        ],
        "period_days": PERIOD_DAYS,
        "series_maximum": SERIES_MAXIMUM,
        "first_url": keep_query(request.GET, page=None) if page > 1 else None,
        "next_url": keep_query(request.GET, page=str(page + 1)) if has_more else None,
    }
    return render(request, "incidents/benchmark_health.html", context, status=400 if errors else 200)


def _describe_health(health: BenchmarkHealth, grouping: HealthGrouping) -> str:
    """Return the title: "3 of 48 series need work"."""
    if not health.series_count:
        return "Benchmark health: no series"
    noun, count = _NOUNS[grouping], health.row_count + health.healthy_count
    if not health.row_count:
        return f"Benchmark health: no findings in {format_integer(count)} {noun}"
    verb = "needs" if health.row_count == 1 else "need"
    return (
        f"Benchmark health: {format_integer(health.row_count)} of {format_integer(count)} {noun} {verb} work"
    )


def _describe_row(row: HealthRow, filter: Filter, grouping: HealthGrouping) -> dict[str, Any]:
    name, detail, url = row.key, "", ""
    if row.series is not None:
        name = row.series.workload_title
        detail = f"{row.series.scope_name} · {row.series.target_title}"
        of = row.facts.metrics[:1] if row.facts.metrics != ("iops",) else ()
        url = f"{reverse('series', args=[row.series.id])}{''.join(f'?metric={each}' for each in of)}"
    elif grouping == "host":
        name = name_scopes([row.key])
        kind, _, value = row.key.partition(":")
        url = _link_series(filter.with_value(kind, value))
    else:
        name = row.key or "no profile"
    if row.series is None:
        detail = f"{row.facts.series_count} series"
    return {
        "row": row,
        "name": name,
        "detail": detail,
        "url": url,
        "precision": _format_precision(row.facts.verdicts),
        "proposal": _describe_proposal(row.proposal) if row.proposal else "",
        "dry_run_url": _link_dry_run(row.proposal, row, filter, grouping) if row.proposal else "",
    }


def _link_series(filter: Filter) -> str:
    return f"{reverse('series_list')}?{urlencode({'q': write_filter(filter)})}"


def _link_dry_run(proposed: HealthProposal, row: HealthRow, filter: Filter, grouping: HealthGrouping) -> str:
    """Return the form for a dry run of the proposed threshold, for the host or pool of the row."""
    scope = row.series.scope if row.series is not None else row.key if grouping == "host" else ""
    kind, _, value = scope.partition(":")
    of_scope = filter.with_value(kind, value) if scope else filter
    threshold = f"{proposed.proposal.threshold * 100:g}"
    query = urlencode({"metric": proposed.metric, "threshold": threshold, "filter": write_filter(of_scope)})
    return f"{reverse('add_detection_policy')}?{query}"


def _describe_proposal(proposed: HealthProposal) -> str:
    """Return the effect of the threshold in a sentence."""
    effect = proposed.proposal
    label = CATALOG[proposed.metric].label
    true = f" and {effect.real_left_out} of {effect.real} true ones" if effect.real else ""
    return (
        f"{label}: a threshold of {format_percent(effect.threshold)} instead of {format_percent(proposed.threshold)}"
        f" leaves out {effect.noise_left_out} of {effect.noise} noise incidents{true}."
    )


def _count_findings(health: BenchmarkHealth, metric: str) -> str:
    """Return how many rows have each finding: "4 too noisy for detection in IOPS, 1 never changed."; "" without any."""
    counts = [
        f"{format_integer(count)} {FINDING_SUMMARIES[code]}{f' in {metric}' if code in _OF_METRIC else ''}"
        for code, count in health.finding_counts
    ]
    return f"{', '.join(counts)}." if counts else ""


def _summarize(health: BenchmarkHealth) -> str:
    """Return the precision of the period in a sentence."""
    verdicts = health.total.verdicts
    rated, noise = verdicts.rated, verdicts.noise
    if not rated:
        return f"No verdict in the last {PERIOD_DAYS} days."
    precision = _format_precision(verdicts)
    warning = " More than a third of them are noise." if verdicts.is_mostly_noise else ""
    counts = f"{rated - noise} true, {noise} noise (precision {precision})"
    return f"{format_count(rated, 'verdict')} in the last {PERIOD_DAYS} days: {counts}.{warning}"


def _format_precision(verdicts: VerdictCounts) -> str:
    precision = verdicts.precision
    return "–" if precision is None else f"{precision * 100:.0f} %"


def _make_tables(health: BenchmarkHealth) -> list[dict[str, Any]]:
    named = (
        ("Detector version", health.by_method, str),
        ("Host or pool", health.by_scope, lambda scope: name_scopes([scope])),
        ("Workload", health.by_workload, str),
    )
    return [
        {
            "label": label,
            "lines": [
                {"name": name_of(row.name), "row": row, "precision": _format_precision(row.verdicts)}
                for row in rows[:_VERDICT_ROWS]
            ],
            "left_out": max(0, len(rows) - _VERDICT_ROWS),
        }
        for label, rows, name_of in named
    ]
