"""Page that explains the detection of one metric of one series, in the order of the decision."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    format_count,
    format_percent,
    format_signed_percent,
    format_with_unit,
    list_judged_metrics,
)
from benchapp.charts.pages.history import HistoryRequest, make_series_figure
from benchapp.detection.write.dry_run import DetectionReport, FoundChange, report_detection
from benchapp.detection.write.histories import to_time
from benchapp.detection.write.metric import DetectedChange
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import keep_query
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.times import format_moment
from benchapp.incidents.pages.texts import (
    describe_drift,
    describe_phases,
    format_confidence,
    list_suspects,
    make_change_lines,
    make_size,
)
from benchapp.incidents.read.changes import ChangeRow, list_changes_of_series
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.incidents.write.candidates import ChangeAcceptance, explain_acceptance
from benchapp.models import ChangeState, Incident
from benchapp.series.read.levels import CurrentLevel, read_current_levels
from benchapp.series.read.series import SeriesRow, read_series

_LIVE = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)


def format_report_title(report: DetectionReport, metric: Metric, changes: Sequence[ChangeRow]) -> str:
    """Return the title with the result: "Detection of IOPS: 2 changes, steady"; changes: the stored ones."""
    drifts = len(_list_drifts(changes))
    counts = ((len(report.changes), "change"), (drifts, "drift"))
    found = ", ".join(format_count(count, noun) for count, noun in counts if count) or "no change"
    status = "too noisy" if report.status == "noisy" else report.status
    return f"Detection of {metric.label}: {found}, {status}"


def _list_drifts(changes: Sequence[ChangeRow]) -> list[ChangeRow]:
    return [change for change in changes if change.is_live and change.is_drift]


def describe_values(report: DetectionReport) -> dict[str, Any]:
    """Describe which runs are evaluated."""
    inputs = report.input
    facts = [("Evaluated", format_count(len(inputs.values), "value"))]
    if inputs.merged_runs:
        facts.append(("Repetitions", f"{format_count(inputs.merged_runs, 'run')}; a group is one value"))
    if len(inputs.times):
        first, last = (format_moment(to_time(int(inputs.times[end]))) for end in (0, -1))
        facts.append(("From, to", f"{first}, {last}"))
    for label, count in (
        ("Failed", report.failed_count),
        ("Excluded", report.excluded_count),
        ("Without a value", report.without_value_count),
    ):
        if count:
            facts.append((label, format_count(count, "run")))
    baseline = report.policy.baseline_from_at
    if baseline is not None:
        facts.append(("Baseline", f"accepted from {format_moment(baseline)}; earlier runs are not compared"))
    return {"key": "values", "title": "Values", "facts": tuple(facts), "sentences": ()}


def describe_level_step(
    report: DetectionReport, metric: Metric, level: CurrentLevel | None, changes: Sequence[ChangeRow]
) -> dict[str, Any]:
    """Describe the current level as stored, its drifts, and its comparison to the accepted baseline."""
    if level is None:
        return {"key": "level", "title": "Level", "facts": (), "sentences": ("No valid run.",)}
    facts = [
        ("Median of the current level", format_with_unit(level.median, metric)),
        ("Runs", format_count(level.n, "run")),
    ]
    if level.previous:
        facts.append(("Since", format_moment(level.from_at)))
    comparison = report.comparison
    if comparison is not None and (relative := comparison.stated.shift.relative) is not None:
        outcome = "a drift" if comparison.has_drifted else "no drift"
        facts.append(("Compared to the baseline", f"{format_signed_percent(relative)}: {outcome}"))
    return {
        "key": "level",
        "title": "Level",
        "facts": tuple(facts),
        "sentences": tuple(map(describe_drift, _list_drifts(changes))),
    }


# Correlation from which the page states the longer delay: half as many runs again.
_CORRELATED: Final = 0.2


def describe_noise(report: DetectionReport, metric: Metric) -> dict[str, Any]:
    """Describe the noise, what it allows to detect, and findings about the variability."""
    judged, profile = report.result, report.result.profile
    is_known = len(judged.values) > 1
    facts = [
        ("Standard deviation", format_percent(profile.spread) if is_known else "–"),
        ("Correlation of consecutive runs", f"{profile.correlation:.2f}" if is_known else "–"),
        ("Threshold", format_percent(report.policy.smallest_change)),
    ]
    if profile.smallest_change is not None:
        facts.append(
            ("Smallest detectable change", f"{format_percent(profile.smallest_change)} in five runs")
        )
    if report.band is not None:
        low, high = (format_with_unit(end, metric) for end in report.band)
        facts.append(("Alert limits", f"{low} to {high}"))
    sentences = []
    if is_known and profile.correlation >= _CORRELATED:
        times = (1 + profile.correlation) / (1 - profile.correlation)
        sentences.append(
            f"Correlated runs tell less: a change takes {times:.1f} times as many runs as without correlation."
        )
    if judged.spread_increase is not None:
        found = judged.spread_increase
        since = format_moment(to_time(int(report.evaluated.times[found.index])))
        sentences.append(
            f"The standard deviation increased from {format_percent(found.before)} to {format_percent(found.after)}"
            f" on {since}."
        )
    if judged.two_states is not None:
        states = judged.two_states
        sentences.append(
            f"Alternates between two states, {format_with_unit(states.low, metric)} and"
            f" {format_with_unit(states.high, metric)}: changes from one to the other are not reported, unless they"
            " last longer than before."
        )
    return {"key": "noise", "title": "Noise", "facts": tuple(facts), "sentences": tuple(sentences)}


def describe_season_step(report: DetectionReport) -> dict[str, Any]:
    """Describe the calendar profiles that are removed."""
    titles = {"hour": "Daily pattern", "weekday": "Weekly pattern"}
    facts = tuple(
        (titles[profile.season], ", ".join(describe_phases(profile.season, profile.factors)) or "below 2 %")
        for profile in report.profiles
    )
    sentences = (
        ("Removed from the values before detection; levels on other pages are as measured.",)
        if facts
        else ("No daily or weekly pattern.",)
    )
    return {"key": "season", "title": "Season", "facts": facts, "sentences": sentences}


def describe_evidence(report: DetectionReport) -> str:
    """Describe what the evaluation of the runs of today finds."""
    if not report.changes and not report.too_small and report.suspicion is None:
        return "No change found."
    return (
        "Places that divide the values into two levels. A change is as large as the threshold; both scores are in"
        " standard deviations of a normal distribution. Without patterns by hour and weekday."
    )


def make_evidence_lines(report: DetectionReport, metric: Metric) -> list[dict[str, Any]]:
    """Return the detected changes, newest first: reported, below the threshold, suspected."""
    threshold = format_percent(report.policy.smallest_change)
    named = [
        *((change, _describe_detection(change.found)) for change in report.changes),
        *((change, f"below the threshold of {threshold}") for change in report.too_small),
        *([(report.suspicion, "suspected: fewer than three runs")] if report.suspicion else []),
    ]
    named.sort(key=lambda item: item[0].at, reverse=True)
    return [_make_evidence_line(change, result, metric) for change, result in named]


def _describe_detection(found: DetectedChange) -> str:
    if not found.chance:
        return "no I/O: certain with two runs"
    return "also detected 5 runs ago" if found.is_lasting else "detected"


def _make_evidence_line(change: FoundChange, result: str, metric: Metric) -> dict[str, Any]:
    found = change.found
    is_regression = found.is_rise != (metric.better == "higher")
    return {
        "at": change.at,
        "run_id": change.run_id,
        "before": format_with_unit(found.before.median, metric),
        "before_n": found.before.points,
        "after": format_with_unit(found.after.median, metric),
        "after_n": found.after.points,
        "size": make_size(found.relative, found.low, found.high, is_regression=is_regression),
        "t_score": _format_score(found.t_score),
        "rank_score": _format_score(found.rank_score),
        "correlation": "" if found.correlation is None else f"{found.correlation:.2f}",
        "confidence": format_confidence(1 - found.chance),
        "result": f"{result}; young series" if found.usual_spread is not None else result,
    }


def _format_score(score: float | None) -> str:
    return "" if score is None else f"{score:.1f}"


def describe_acceptance(
    changes: Sequence[ChangeRow], accepted: Mapping[int, ChangeAcceptance]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the family of tests in a sentence, and the test of each stored change, newest first."""
    lines = [
        {
            "at": change.started_at,
            "incident_id": change.incident_id,
            "simultaneous": format_count(test.simultaneous, "series"),
            "result": _describe_result(test),
        }
        for change in changes
        if (test := accepted.get(change.id))
    ]
    if not lines:
        return "No stored change of level to test.", []
    test = next(iter(accepted.values()))
    metrics, series = format_count(test.tests, "evaluated metric"), format_count(test.series, "series")
    family = (
        f"A change opens an incident if noise alone would not cause it among {metrics} of {series} of this host or"
        f" pool, and {format_count(test.hosts, 'host')}."
    )
    return family, lines


def _describe_result(test: ChangeAcceptance) -> str:
    if test.incident_id is not None:
        return "in an incident"
    if not test.may_join:
        return "waits: fewer than 20 runs, not confirmed"
    if not test.may_open:
        return "waits: within the noise of the series"
    if test.is_significant:
        return "significant together; not one of the certain ones"
    return "waits: noise may cause it"


def describe_grouping(incidents: Sequence[Incident]) -> list[tuple[Incident, str]]:
    """Return the incidents of the changes, each with its size and common factors in words."""
    return [
        (
            incident,
            ", ".join(
                [
                    format_count(incident.change_count, "change"),
                    f"{format_count(incident.series_count, 'series')}",
                    *(str(factor["text"]) for factor in incident.common_factors),
                ]
            ),
        )
        for incident in incidents
    ]


def describe_needs(
    report: DetectionReport,
    changes: Sequence[ChangeRow],
    accepted: Mapping[int, ChangeAcceptance],
    *,
    now: datetime,
) -> list[str]:
    """Return what would have to be different for more, or other, changes to be reported."""
    return [
        *report.why_not,
        *_list_status_needs(report),
        *(
            f"A threshold of {format_percent(int(abs(change.found.relative) * 1000) / 1000)} would report the change of"
            f" {format_signed_percent(change.found.relative)} of {format_moment(change.at)}."
            for change in report.too_small
        ),
        *(
            text
            for change in changes
            for text in _list_change_needs(change, accepted.get(change.id), now=now)
        ),
    ]


def _list_status_needs(report: DetectionReport) -> Iterator[str]:
    judged = report.result
    needed, smallest = judged.state.runs_needed, judged.profile.smallest_change
    threshold = format_percent(report.policy.smallest_change)
    if report.status == "learning" and needed:
        yield f"{format_count(needed, 'more run')} until the noise of the series is known."
    elif needed:
        yield f"A change of {threshold} is detected after {format_count(needed, 'run')}."
    elif smallest is not None and smallest > report.policy.smallest_change:
        yield f"A change of {threshold} is too small for this noise, whatever the number of runs."
    if report.suspicion is not None:
        yield "The suspected change needs three runs of a new level. It is withdrawn if five runs do not show it."


def _list_change_needs(change: ChangeRow, test: ChangeAcceptance | None, *, now: datetime) -> Iterator[str]:
    name = f"The change of {format_signed_percent(change.relative)} of {format_moment(change.started_at)}"
    if change.state == ChangeState.PROVISIONAL:
        yield f"{name} is confirmed if it is still detected five runs after it was found."
    if test is None or test.incident_id is not None or change.state not in _LIVE:
        return
    if not test.may_join:
        yield f"{name} opens an incident once it is confirmed, or from 20 runs on."
    elif not test.may_open:
        yield f"{name} does not exceed the noise of the series: it can join an incident, but not open one."
    elif not test.is_significant:
        together = (
            f", or changes like it in {format_count(test.required_series, 'series')} in the same runs"
            if test.required_series is not None and test.required_series > 1
            else ""
        )
        yield f"{name} opens an incident with more runs at the new level{together}."


@require_safe
@may_read
def detection_report(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show values, level, noise, season, evidence, acceptance, grouping, possible causes, and what would be needed."""
    row = read_series(series_id)
    if row is None:
        raise Http404(f"Series {series_id} does not exist or has no measurements.")
    errors: list[str] = []
    metrics = _list_metrics(row)
    metric = _read_metric(request, metrics, errors)
    report = report_detection(row.id, metric.name)
    changes = list_changes_of_series(row.id, metric=metric.name)
    accepted = explain_acceptance(row.id, metric.name)
    incidents = list_incidents_by_id(sorted({change.incident_id for change in changes if change.incident_id}))
    api_path = f"/api/v1/series/{row.id}/detection?metric={metric.name}"
    title = format_report_title(report, metric, changes)
    level = read_current_levels([row.id], metric).get(row.id)
    context = {
        "title": title,
        "errors": errors,
        "series": row,
        "metric": metric,
        "metrics": [(one.short, keep_query(request.GET, metric=one.name), one is metric) for one in metrics],
        "figure": make_series_figure(
            request,
            HistoryRequest(metric=metric, ids=(row.id,), is_linked=False),
            title=title,
            file_name=f"detection-{row.id}-{metric.name}",
        ),
        "steps": [
            describe_values(report),
            describe_level_step(report, metric, level, changes),
            describe_noise(report, metric),
            describe_season_step(report),
        ],
        "evidence": describe_evidence(report),
        "evidence_lines": make_evidence_lines(report, metric),
        "acceptance": describe_acceptance(changes, accepted),
        "level_changes": make_change_lines(changes),
        "grouping": describe_grouping(incidents),
        "causes": [(incident, list_suspects(incident)) for incident in _list_regressions(incidents)],
        "needs": describe_needs(report, changes, accepted, now=timezone.now()),
        "api_line": format_curl_command(f"{make_base_url(request)}{api_path}"),
    }
    return render(request, "series/detection_report.html", context, status=400 if errors else 200)


def _list_metrics(row: SeriesRow) -> list[Metric]:
    """Return the metrics in which changes of the series are detected."""
    has_one_block_size = row.workload.block_size_bytes is not None
    return [CATALOG[name] for name in list_judged_metrics(has_one_block_size=has_one_block_size)]


def _read_metric(request: HttpRequest, metrics: Sequence[Metric], errors: list[str]) -> Metric:
    wanted = request.GET.get("metric", metrics[0].name)
    found = next((metric for metric in metrics if metric.name == wanted), None)
    if found is None:
        names = ", ".join(metric.name for metric in metrics)
        errors.append(f"No detection in {wanted[:40]!r}. Detected metrics: {names}.")
    return found or metrics[0]


def _list_regressions(incidents: Sequence[Incident]) -> list[Incident]:
    return [incident for incident in incidents if incident.is_regression]
