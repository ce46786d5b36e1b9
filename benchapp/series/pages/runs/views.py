"""Runs: list with filters, and one run with all values."""

from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import CATALOG, PERCENTILES, cut_text, describe_error
from benchapp.framework.csv_export import CONTENT_TYPE, write_csv
from benchapp.framework.pages.access import may_read, needs_role
from benchapp.framework.pages.command_lines import format_curl_command, list_first_steps
from benchapp.framework.pages.filter_bar import explain_empty, make_filter_bar, settle_filter
from benchapp.framework.pages.filter_forms import RunFilterForm, is_filtering, list_errors, read_form
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.pagination import read_position, turn_page
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.time_range import describe_bounds
from benchapp.intake.posts.envelope import BadEnvelope, read_envelope
from benchapp.intake.posts.submissions import unpack
from benchapp.intake.read.submissions import RawBody, read_raw_body
from benchapp.models import Role
from benchapp.requests.pages.panel import make_request_panel
from benchapp.requests.read.run_requests import RequestFilter
from benchapp.series.pages.runs.badge_texts import list_quality_findings
from benchapp.series.pages.runs.fact_texts import list_facts
from benchapp.series.pages.runs.percentile_table import make_percentile_table
from benchapp.series.pages.runs.tables import (
    describe_kinds,
    find_usual_kinds,
    format_results,
    list_missing_reasons,
    make_measurement_lines,
    make_run_lines,
)
from benchapp.series.pages.runs.traces import make_trace_panels
from benchapp.series.read.badges import BADGE_CODES, make_badges
from benchapp.series.read.exclusions import has_runs
from benchapp.series.read.runs.run_detail import (
    MEASUREMENTS_SHOWN,
    RunDetail,
    has_too_few_samples,
    list_percents,
    read_before,
    read_run,
)
from benchapp.series.read.runs.runs import RunRow, list_profiles, list_runs
from benchapp.series.read.runs.traces import read_traces
from benchapp.series.read.titles import TITLE_MAXIMUM, describe_workload

RUNS_ON_A_PAGE: Final = 50


@require_safe
@may_read
def runs(request: HttpRequest) -> HttpResponse:
    """List the runs that match the filters, newest first."""
    form = read_form(RunFilterForm, request.GET)
    bar = make_filter_bar(
        request,
        form=form,
        fields="series/runs/_runs_fields.html",
        has_time_range=True,
    )
    errors = list_errors(form)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    asked = form.make_filter(bar.filter)
    page, links = turn_page(
        request, errors, read=lambda after: list_runs(asked, after=after, limit=RUNS_ON_A_PAGE)
    )
    columns, lines = make_run_lines(page.items)
    context = {
        **links,
        "title": _format_title(
            page.items, has_more=page.next_cursor is not None, is_first=not links["newest_url"]
        ),
        "bar": bar,
        "errors": errors,
        "profiles": list_profiles(),
        "badge_codes": BADGE_CODES,
        "is_filtering": bool(bar.text) or is_filtering(form),
        "excluded": () if page.items else explain_empty(bar, has_runs),
        "has_filter": bool(bar.text or asked.profile or asked.has_failed or asked.badges),
        "range": describe_bounds(asked.from_at, asked.to_at),
        "columns": columns,
        "runs": lines,
        "selection_kind": KINDS["run"],
        "steps": None if page.items else list_first_steps(make_base_url(request)),
    }
    return render(request, "series/runs/runs.html", context, status=400 if errors else 200)


@require_safe
@may_read
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show one run with its values and their origin, 200 measurements at a time."""
    position = read_position(request)
    detail = _find(run_id, position=position, limit=MEASUREMENTS_SHOWN)
    columns, lines = make_measurement_lines(detail)
    context = {
        "run": detail,
        "title": _format_run_title(detail),
        "facts": list_facts(detail.environment.facts),
        "conditions": list_facts(detail.command.get("conditions") or {}),
        "failure": _describe_failure(detail),
        "last_place": position + len(lines),
        "earlier_position": max(position - MEASUREMENTS_SHOWN, 0) if position else None,
        "columns": columns,
        "lines": lines,
        "has_levels": any(line.level for line in lines),
        "kinds": describe_kinds(find_usual_kinds(detail)),
        "latency_columns": [column for column in columns if column.is_latency],
        "limits": list(dict.fromkeys(line.limit_result.limit for line in lines if line.limit_result)),
        "findings": list_quality_findings(
            [(line.name, make_badges(line.measurement.badges)) for line in lines]
        ),
        "missing_reasons": list_missing_reasons(lines),
        "percentiles": make_percentile_table(detail, read_before(detail)),
        "traces": make_trace_panels(read_traces(run_id), detail.measurements),
        "traces_line": format_curl_command(f"{make_base_url(request)}/api/v1/runs/{run_id}/traces"),
        "panel": make_request_panel(request, RequestFilter(run_id=run_id), find_runs=lambda: [run_id]),
        "here": request.get_full_path(),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/runs/{run_id}"),
    }
    return render(request, "series/runs/run.html", context)


@require_safe
@needs_role(Role.VIEWER)
def run_output(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the fio output as it is stored: byte for byte, without secrets."""
    body = read_raw_body(run_id=run_id)
    if body is None or not body.has_output:
        raise Http404("The run does not exist, has no fio output, or its output has expired.")
    answer = HttpResponse(read_output(body), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, f"run-{run_id}-fio.txt") or ""
    return answer


@require_safe
@may_read
def run_table(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the run's whole table as CSV: base units, all metrics, percentiles with enough samples.

    X-Omitted-Columns: how many percentiles have no column.
    """
    detail = _find(run_id, position=0, limit=None)
    percents, omitted_count = list_percents(detail.measurements)
    rows = [_make_csv_row(detail, place, percents) for place in range(len(detail.measurements))]
    body = write_csv(list(rows[0]), [list(row.values()) for row in rows]) if rows else b""
    answer = HttpResponse(body, content_type=CONTENT_TYPE)
    answer["Content-Disposition"] = content_disposition_header(True, f"run-{run_id}.csv") or ""
    answer["X-Omitted-Columns"] = str(omitted_count)
    return answer


def read_output(body: RawBody) -> bytes:
    """Return the fio output, extracted from the envelope if there is one."""
    content = unpack(body.packed)
    if not body.has_envelope:
        return content
    try:
        return read_envelope(content).fio_output.encode(errors="surrogatepass")
    except BadEnvelope:
        return content


def _find(run_id: int, *, position: int, limit: int | None) -> RunDetail:
    detail = read_run(run_id, position=position, limit=limit)
    if detail is None:
        raise Http404(
            f"Run {run_id} does not exist. It may have been removed, or the link is from another server."
        )
    return detail


def _format_title(runs: tuple[RunRow, ...], *, has_more: bool, is_first: bool) -> str:
    if not runs:
        return "No runs"
    failed = sum(run.has_failed for run in runs)
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    if is_first:
        title = f"Newest {count}" if has_more else count
    else:
        title = f"{count}, older" if has_more else f"{count}, oldest"
    return f"{title}; {failed} failed" if failed else title


def _format_run_title(run: RunDetail) -> str:
    if run.has_failed:
        return f"Run {run.id} on {run.host_name} failed"
    return cut_text(f"{run.host_name}: {format_results(run)}", TITLE_MAXIMUM)


def _describe_failure(run: RunDetail) -> str:
    if not run.has_failed:
        return ""
    cause = run.command.get("failure") or f"fio reported {describe_error(run.error)}"
    return f"{cause}. Its values do not count in medians."


def _make_csv_row(run: RunDetail, place: int, percents: list[float]) -> dict[str, Any]:
    measurement = run.measurements[place]
    values = measurement.percentile_values
    return {
        "run_id": run.id,
        "host": run.host_name,
        "started_at": run.started_at.isoformat().replace("+00:00", "Z"),
        "job_name": measurement.job_name,
        "workload": describe_workload(measurement.series, direction=measurement.series.direction),
        "direction": measurement.series.direction,
        "target": run.target_title,
        "error": measurement.error,
        **{name: getattr(measurement, name) for name in CATALOG if name not in PERCENTILES},
        "latency_stddev_ns": measurement.latency_stddev_ns,
        "total_ios": measurement.total_ios,
        "io_bytes": measurement.io_bytes,
        "runtime_s": measurement.runtime_s,
        "latency_kind": measurement.latency_kind,
        **{
            f"latency_p{percent:.10g}_ns": None
            if has_too_few_samples(measurement, percent)
            else values.get(percent)
            for percent in percents
        },
    }
