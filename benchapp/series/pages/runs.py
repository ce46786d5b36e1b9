"""Runs: list with filters, and one run with all values, percentiles and traces; exclude it from medians."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST, require_safe

from benchapp.catalog.metrics import (
    CATALOG,
    PERCENTILES,
    cut_text,
    describe_error,
    format_count,
    format_percent,
    format_value,
)
from benchapp.charts.pages.percentiles import make_percentile_table
from benchapp.corrections.write import format_parameter, list_relabeled, name_parameter
from benchapp.framework.csv_export import CONTENT_TYPE, write_csv
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command, list_first_steps
from benchapp.framework.pages.filter_bar import (
    RunFilterForm,
    explain_empty,
    is_filtering,
    list_errors,
    make_filter_bar,
    read_form,
    settle_filter,
)
from benchapp.framework.pages.list_entries import read_position, turn_page
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.number_columns import choose_scale, format_scaled
from benchapp.framework.pages.page_context import RANGED, make_base_url, write_kept
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.time_range import describe_bounds
from benchapp.framework.queue import wake_up
from benchapp.intake.posts.envelope import BadEnvelope, read_envelope
from benchapp.intake.posts.submissions import unpack
from benchapp.intake.read import RawBody, read_raw_body
from benchapp.models import Measurement, Role, Run
from benchapp.requests.pages.run_requests import make_request_panel
from benchapp.requests.read.run_requests import RequestFilter
from benchapp.series.pages.run_tables import (
    describe_kinds,
    describe_usual,
    find_usual_kinds,
    format_results,
    list_facts,
    list_missing_reasons,
    list_quality_findings,
    make_measurement_lines,
    make_run_lines,
)
from benchapp.series.read.dimension_values import has_runs
from benchapp.series.read.runs import (
    MEASUREMENTS_SHOWN,
    RunDetail,
    RunFilter,
    RunRow,
    describe_missing_run,
    find_withheld,
    list_percents,
    list_profiles,
    list_runs,
    read_before,
    read_run,
)
from benchapp.series.read.shapes import BADGE_CODES, FIRST_JUDGING_PARSER, make_badges, order_codes
from benchapp.series.read.titles import TITLE_MAXIMUM, describe_workload, name_place
from benchapp.series.read.traces import Stretch, TraceRow, find_stretches, read_traces
from benchapp.series.write import BadReason, UnknownRun, exclude_run, include_run


@require_POST
@needs_role(Role.EDITOR)
def exclude(request: HttpRequest, run_id: int) -> HttpResponse:
    """Exclude a run from medians, with a reason."""
    try:
        exclude_run(run_id, read_person(request), reason=request.POST.get("reason", ""))
    except UnknownRun as error:
        raise Http404(f"{error}.") from error
    except BadReason as error:
        messages.error(request, f"Not excluded: {error}.", extra_tags="bad")
    else:
        wake_up()
    return redirect("run", run_id=run_id)


@require_POST
@needs_role(Role.EDITOR)
def include(request: HttpRequest, run_id: int) -> HttpResponse:
    """Include an excluded run in medians again; the form keeps the reason."""
    try:
        include_run(run_id, read_person(request))
    except UnknownRun as error:
        raise Http404(f"{error}.") from error
    wake_up()
    messages.success(request, f"Run {run_id} is included in medians again.", extra_tags="good")
    return redirect("run", run_id=run_id)


# One panel each; of the latencies the first available.
_PANELS: Final = (("iops",), ("bw",), ("lat", "clat", "slat"))
_LABELS: Final = {
    "iops": "IOPS",
    "bw": "Bandwidth",
    "lat": "Total latency (lat)",
    "clat": "Completion latency (clat)",
    "slat": "Submission latency (slat)",
}
_NAMES: Final = {"iops": "IOPS", "bw": "bandwidth"}
# Number of stretches in a sentence; the chart shows all.
_STRETCHES_SHOWN: Final = 3


def make_trace_panels(
    traces: Sequence[TraceRow], measurements: Sequence[Measurement]
) -> tuple[dict[str, Any], ...]:
    """Return a panel for each of IOPS, bandwidth and latency that has a trace."""
    panels = []
    for kinds in _PANELS:
        kind = next((each for each in kinds if any(trace.kind == each for trace in traces)), None)
        if kind is not None:
            panels.append(_make_panel([trace for trace in traces if trace.kind == kind], measurements))
    return tuple(panels)


def describe_trace(trace: TraceRow, *, has_several_jobs: bool) -> str:
    """Return a sentence about one quantity: its mean and how steady it was over five slices."""
    stretches = find_stretches(trace)
    noun = _NAMES.get(trace.kind, "latency")
    name = (
        f"Mean {trace.direction} {noun}" if trace.unit == "ns" else f"{trace.direction.capitalize()} {noun}"
    )
    if not stretches:
        return f"{name}: the logs have no values."
    parts = [
        _describe_stretch(stretch, trace, is_only=len(stretches) == 1, has_several_jobs=has_several_jobs)
        for stretch in stretches[:_STRETCHES_SHOWN]
    ]
    rest = len(stretches) - _STRETCHES_SHOWN
    more = f"; {format_count(rest, 'more stretch')}" if rest > 0 else ""
    return f"{name} {', then '.join(parts)}{more}."


def _make_panel(traces: Sequence[TraceRow], measurements: Sequence[Measurement]) -> dict[str, Any]:
    first = traces[0]
    counts = {
        trace.direction: sum(line.series.direction == trace.direction for line in measurements)
        for trace in traces
    }
    return {
        "kind": first.kind,
        "label": _LABELS[first.kind],
        "unit": first.unit,
        "patterns": tuple(
            (trace.direction, _find_pattern(trace.direction, measurements)) for trace in traces
        ),
        "sentences": tuple(
            describe_trace(trace, has_several_jobs=counts[trace.direction] > 1) for trace in traces
        ),
        "reading": _describe_chart(first),
        "tables": tuple(_make_table(trace) for trace in traces),
    }


def _find_pattern(direction: str, measurements: Iterable[Measurement]) -> str:
    found = {line.series.rw for line in measurements if line.series.direction == direction}
    return found.pop() if len(found) == 1 else ""


def _describe_chart(trace: TraceRow) -> str:
    bucket = f"{trace.bucket_s:.3g} s"
    logs = format_count(trace.jobs, "log")
    if trace.unit == "ns":
        return (
            f"Points: mean of the log entries within {bucket}, {logs}. Band: min to max of these entries."
            " ±: half the range of the means of five slices."
        )
    return f"Points: rate over {bucket}, sum of {logs}. ±: half the range of the means of five slices."


def _describe_stretch(stretch: Stretch, trace: TraceRow, *, is_only: bool, has_several_jobs: bool) -> str:
    span = f"from {_seconds(stretch.from_s)} to {_seconds(stretch.to_s)} s"
    if stretch.mean is None or stretch.excursion_share is None or stretch.slope_share is None:
        return f"was logged {span}, too short to assess steadiness"
    value = format_value(stretch.mean, trace.unit)
    if stretch.is_steady:
        level = f"was steady at {value} ± {format_percent(stretch.excursion_share / 2)}"
        start_s = stretch.from_s - stretch.began_s
        if not is_only:
            return f"{level} {span}"
        return f"{level} after the first {_seconds(start_s)} s" if start_s > 0 else level
    excursion = format_percent(stretch.excursion_share)
    deviation = f"five slices range over {excursion} of {value}"
    if has_several_jobs:
        return f"changed {span}: {deviation}; several jobs contributed"
    way = "falling" if stretch.slope_share < 0 else "rising"
    return f"was not steady: {deviation}, {way} by {format_percent(stretch.slope_share)} {span}"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def _make_table(trace: TraceRow) -> dict[str, Any]:
    scale = choose_scale(trace.mean, trace.unit)
    has_band = any(value is not None for value in trace.minimum)
    columns = (trace.mean, trace.minimum, trace.maximum) if has_band else (trace.mean,)
    return {
        "direction": trace.direction,
        "scale": scale,
        "has_band": has_band,
        "rows": tuple(
            (
                f"{at_s:.1f}",
                *(format_scaled(values[place] if count else None, scale) for values in columns),
                str(count),
            )
            for place, (at_s, count) in enumerate(zip(trace.at_s, trace.count, strict=True))
        ),
    }


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
        "words": _list_words(asked),
        "profiles": list_profiles(),
        "badge_codes": BADGE_CODES,
        "is_filtering": bool(bar.text) or is_filtering(form),
        "excluded": () if page.items else explain_empty(bar, has_runs),
        "has_filter": bool(bar.text or asked.profile or asked.has_failed or asked.badges),
        "range": describe_bounds(asked.from_at, asked.to_at),
        # A correction has a filter and a time range, and no other option of this page.
        "correction_query": write_kept(RANGED, request, {"bar": bar})
        if asked == RunFilter(asked.match, from_at=asked.from_at, to_at=asked.to_at)
        else "",
        "columns": columns,
        "runs": lines,
        "selection_kind": KINDS["run"],
        "steps": None if page.items else list_first_steps(make_base_url(request)),
    }
    return render(request, "series/runs/runs.html", context, status=400 if errors else 200)


def _list_words(asked: RunFilter) -> list[tuple[str, str, str]]:
    """Return the options of the list that are set: (text before, text, id of its field)."""
    return [
        *([("profile", asked.profile, "filter-profile")] if asked.profile else []),
        *(("badge", badge, "filter-badge") for badge in asked.badges or ()),
        *([("", "failed only", "filter-failed")] if asked.has_failed else []),
    ]


@require_safe
@may_read
@updates_itself
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show one run with its values and their origin, 200 measurements at a time."""
    position = read_position(request)
    detail = _find(run_id, position=position, limit=MEASUREMENTS_SHOWN)
    row = detail.row
    columns, lines = make_measurement_lines(detail)
    context = {
        "run": row,
        "detail": detail,
        "relabeled": [
            {
                "label": name_parameter(each.name),
                "value": format_parameter(each.name, each.value),
                "stated": "nothing" if each.stated is None else format_parameter(each.name, each.stated),
                "correction": each.correction,
            }
            for each in list_relabeled(row)
        ],
        "codes": order_codes(row.badges),
        "is_judged": row.parser_version >= FIRST_JUDGING_PARSER,
        "title": _format_run_title(detail),
        "facts": list_facts(row.environment.facts),
        "conditions": list_facts(row.command.get("conditions") or {}),
        "failure": _describe_failure(row),
        "last_place": position + len(lines),
        "earlier_position": max(position - MEASUREMENTS_SHOWN, 0) if position else None,
        "columns": columns,
        "lines": lines,
        "has_levels": any(line["level"] for line in lines),
        "usual_text": describe_usual(lines),
        "kinds": describe_kinds(find_usual_kinds(detail)),
        "latency_columns": [column for column in columns if column.is_latency],
        "limits": list(
            dict.fromkeys(line["limit_result"]["limit"] for line in lines if line["limit_result"])
        ),
        "findings": list_quality_findings(
            [(line["place"], make_badges(line["measurement"].badges)) for line in lines]
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
        raise Http404(describe_missing_run(run_id))
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
    place = name_place(f"host:{run.row.host.name}", *run.target_names)
    title = f"Run {run.row.pk} on {place} failed" if run.row.has_failed else f"{place}: {format_results(run)}"
    return cut_text(title, TITLE_MAXIMUM)


def _describe_failure(run: Run) -> str:
    if not run.has_failed:
        return ""
    cause = run.command.get("failure") or f"fio reported {describe_error(run.error)}"
    return f"{cause}. Its values do not count in medians."


def _make_csv_row(run: RunDetail, place: int, percents: list[float]) -> dict[str, Any]:
    measurement = run.measurements[place]
    values = measurement.percentile_values
    return {
        "run_id": run.row.pk,
        "host": run.row.host.name,
        "started_at": run.row.started_at.isoformat().replace("+00:00", "Z"),
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
            if find_withheld(measurement, percent)
            else values.get(percent)
            for percent in percents
        },
    }
