"""Page that explains the detection of one metric of one series, in the order of the decision."""

from collections.abc import Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import CATALOG, Metric, list_judged_metrics
from benchapp.charts.pages.history.figure import HistoryFigure, make_history_figure
from benchapp.charts.pages.history.request import HistoryRequest, write_query
from benchapp.detection.write.dry_run import report_detection
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.page_context import make_base_url
from benchapp.incidents.pages.texts import list_suspects, make_change_lines
from benchapp.incidents.read.changes import list_changes_of_series
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.incidents.write.candidates import explain_acceptance
from benchapp.series.pages.detection_report_texts import (
    describe_acceptance,
    describe_evidence,
    describe_grouping,
    describe_level_step,
    describe_needs,
    describe_noise,
    describe_season_step,
    describe_values,
    format_report_title,
    make_evidence_lines,
)
from benchapp.series.read.levels import read_current_levels
from benchapp.series.read.series import SeriesRow, read_series


@require_safe
@may_read
def detection_report(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show values, level, noise, season, evidence, acceptance, grouping, possible causes, and what would be needed."""
    detail = read_series(series_id)
    if detail is None:
        raise Http404(f"Series {series_id} does not exist or has no measurements.")
    errors: list[str] = []
    row = detail.row
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
        "figure": _make_figure(request, row, metric, title=title),
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


def _make_figure(request: HttpRequest, row: SeriesRow, metric: Metric, *, title: str) -> HistoryFigure:
    return make_history_figure(
        HistoryRequest(metric=metric, ids=(row.id,), is_linked=False),
        choice=write_query(series=row.id),
        base_url=make_base_url(request),
        title=title,
        filter=row.title,
        file_name=f"detection-{row.id}-{metric.name}",
        owns_address=False,
    )


def _list_regressions(incidents: Sequence[IncidentRow]) -> list[IncidentRow]:
    return [incident for incident in incidents if incident.is_regression]
