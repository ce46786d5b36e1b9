"""Provenance page: how each value of a run was derived from the stored upload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import UNKNOWN, format_integer, format_value, format_with_unit
from benchapp.fio import PARSER_VERSION
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.list_entries import read_position
from benchapp.framework.pages.page_context import make_base_url
from benchapp.intake.provenance.report import (
    OPEN_BYTES_MAXIMUM,
    ProvenanceBusy,
    ProvenanceUnavailable,
    derive_packed,
)
from benchapp.intake.provenance.values import (
    DerivedValue,
    MeasurementProvenance,
    MergedJob,
    ReportedJob,
    ReportProvenance,
    TotalProvenance,
)
from benchapp.intake.read import read_raw_body
from benchapp.series.read.runs import RunDetail, describe_missing_run, read_run

# Of measurements, totals and jobs each, per page.
SECTIONS_MAXIMUM: Final = 50
_RETRY_AFTER_S: Final = 15
_JOBS_SHOWN: Final = 8
_EXPIRED: Final = (
    "The raw fio output was removed after the retention period. The values read from it are still stored."
)
_PUBLISHED: Final = "Published results without fio output; the values are stored as published."
_SIGN_IN: Final = "The raw fio output exceeds 8 MiB. Sign in to parse it again."
_BUSY: Final = "Too many outputs are being parsed at the moment. Try again in a few seconds."
_FORMATS: Final = {
    "json": "JSON",
    "json+": "JSON+, with histograms",
    "terse": "terse",
    "normal": "text",
    "time": "output of the shell's time",
}
_PARTS: Final = {
    "rw": "pattern (rw)",
    "block_size": "block size, bytes",
    "numjobs": "jobs (numjobs)",
    "file_size": "file size, bytes",
    "is_direct": "direct",
    "read_share_percent": "reads, %",
    "runtime_s": "configured runtime, s",
    "time_based": "time based",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One measurement or total with its table. codes: of its badges."""

    title: str
    origin: str
    lines: tuple[dict[str, Any], ...]
    measurement: MeasurementProvenance | None = None
    workload: tuple[tuple[str, str | None, str], ...] = ()
    codes: tuple[str, ...] = ()


@require_safe
@may_read
def run_report(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show for each value of a run what fio printed and how it was derived."""
    run = read_run(run_id, position=read_position(request), limit=SECTIONS_MAXIMUM)
    if run is None:
        raise Http404(describe_missing_run(run_id))
    title = f"Derived values of run {run_id}"
    api_line = format_curl_command(f"{make_base_url(request)}/api/v1/runs/{run_id}/report")
    context = {"run": run.row, "title": title, "api_line": api_line, "parser_version": PARSER_VERSION}
    try:
        provenance = _derive(request, run)
    except _Unavailable as problem:
        answer = render(
            request,
            "series/runs/provenance.html",
            {**context, "problem": problem.text},
            status=problem.status,
        )
        if problem.status == 503:
            answer.headers["Retry-After"] = str(_RETRY_AFTER_S)
        return answer
    return render(request, "series/runs/provenance.html", {**context, **_describe(run, provenance)})


class _Unavailable(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def _derive(request: HttpRequest, run: RunDetail) -> ReportProvenance:
    """Return the provenance of the requested page of a run. Raises _Unavailable."""
    if run.row.submission.body_bytes > OPEN_BYTES_MAXIMUM and not request.user.is_authenticated:
        raise _Unavailable(403, _SIGN_IN)
    body = read_raw_body(run_id=run.row.pk)
    if body is None:
        raise _Unavailable(410, _EXPIRED)
    if not body.has_output:
        raise _Unavailable(409, _PUBLISHED)
    try:
        return derive_packed(
            body.packed,
            run.row.document,
            has_envelope=body.has_envelope,
            position=run.position,
            limit=SECTIONS_MAXIMUM,
        )
    except ProvenanceUnavailable as error:
        raise _Unavailable(409, f"{error}.") from error
    except ProvenanceBusy as error:
        raise _Unavailable(503, _BUSY) from error


def _describe(run: RunDetail, provenance: ReportProvenance) -> dict[str, object]:
    codes = {line.position: line for line in run.measurements}
    sections = []
    for each in provenance.measurements:
        stored = codes.get(each.position)
        is_same = stored is not None and each.is_stored_as(stored.job_name, stored.series.direction)
        badges = stored.badges if stored is not None and is_same else ()
        sections.append(_make_section(each, tuple(badge["code"] for badge in badges)))
    return {
        "provenance": provenance,
        "format": _describe_format(provenance),
        "place": provenance.document + 1,
        "sections": sections,
        "last_place": provenance.position + len(sections),
        "earlier_position": max(provenance.position - SECTIONS_MAXIMUM, 0) if provenance.position else None,
        "totals": [_make_total(each) for each in provenance.totals],
        "jobs": [_make_job_line(job) for job in provenance.jobs],
        "messages_text": "\n".join(provenance.messages),
        "is_older": run.row.parser_version != provenance.parser_version,
    }


def _describe_format(provenance: ReportProvenance) -> str:
    name = _FORMATS.get(provenance.format, provenance.format)
    version = f" version {provenance.format_version}" if provenance.format_version else ""
    precision = "" if provenance.has_precise_values else "; rounded to about four digits"
    return f"{name}{version}{precision}"


def _make_section(provenance: MeasurementProvenance, codes: tuple[str, ...]) -> Section:
    return Section(
        title=f"{provenance.job_name or 'unnamed job'}, {provenance.direction}",
        origin=_describe_origin(provenance),
        lines=tuple(_make_line(value) for value in provenance.values),
        measurement=provenance,
        workload=tuple(
            (_PARTS.get(part.name, part.name), part.value, part.source) for part in provenance.workload
        ),
        codes=codes,
    )


def _make_total(total: TotalProvenance) -> Section:
    direction = "all directions together" if total.direction == "total" else total.direction
    names = ", ".join(total.job_names[:_JOBS_SHOWN]) + ("…" if len(total.job_names) > _JOBS_SHOWN else "")
    return Section(
        title=f"Group {total.groupid}, {direction}",
        origin=f"Concurrent jobs: {names}.",
        lines=tuple(_make_line(value) for value in total.values),
    )


def _make_line(value: DerivedValue) -> dict[str, Any]:
    return {"source": value, "text": _show(value), "how": value.how if value.reason is None else value.reason}


def _show(value: DerivedValue) -> str:
    if value.value is None:
        return UNKNOWN
    if value.unit == "operations":
        return format_integer(round(value.value))
    return format_with_unit(value.value, value)


def _describe_origin(provenance: MeasurementProvenance) -> str:
    """Return the jobs of the fio report that form the measurement; numbers from 0, as in the warnings."""
    jobs = provenance.jobs
    host = f" on {provenance.hostname}" if provenance.hostname else ""
    if len(jobs) == 1:
        clones = jobs[0].clones
        summed = f", the sum of {clones} jobs (group_reporting)" if clones and clones > 1 else ""
        return f"Job {jobs[0].index} of fio's report{host}{summed}."
    return f"{_format_places(jobs)} of fio's report{host}, merged: {provenance.job_count} jobs."


def _format_places(jobs: Sequence[MergedJob]) -> str:
    indices = [job.index for job in jobs]
    if indices and indices == list(range(indices[0], indices[0] + len(indices))):
        return f"Jobs {indices[0]} to {indices[-1]}"
    named = ", ".join(str(index) for index in indices[:_JOBS_SHOWN])
    return f"Jobs {named}{' and others' if len(indices) > _JOBS_SHOWN else ''}"


def _make_job_line(job: ReportedJob) -> dict[str, Any]:
    depth = ", ".join(f"{level}: {share:.3g} %" for level, share in job.depth.items() if share)
    shares = [
        f"{_format_bound(share.below_ns)}: {share.percent:.3g} %"
        for share in job.latency_shares
        if share.percent
    ]
    return {
        "job": job,
        "cpu_user": _tenths(job.cpu_user_percent),
        "cpu_system": _tenths(job.cpu_system_percent),
        "depth": depth,
        "latency": ", ".join(shares),
    }


def _tenths(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _format_bound(below_ns: int | None) -> str:
    return "longer" if below_ns is None else f"below {format_value(below_ns, 'ns')}"
