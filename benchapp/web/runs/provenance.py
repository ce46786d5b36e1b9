"""How the numbers of a run were computed: read anew from what was received, and shown line by line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.metrics import UNKNOWN, format_value
from benchapp.pipeline.provenance.report import (
    OPEN_BYTES_MAXIMUM,
    PARSER_VERSION,
    CannotExplain,
    NoRoom,
    explain_packed,
)
from benchapp.pipeline.provenance.shapes import (
    ExplainedJob,
    ExplainedMeasurement,
    ExplainedTotal,
    ExplainedValue,
    MergedJob,
    ReportProvenance,
)
from benchapp.queries.runs.runs import RunDetail, read_run
from benchapp.queries.runs.submissions import read_raw_body
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import say_request
from benchapp.web.site.page_context import make_base_url

# Of measurements, totals and jobs each: a page of more is no page.
SECTIONS_MAXIMUM: Final = 50
_DIGITS_MAXIMUM: Final = 8
_RETRY_AFTER_S: Final = 15
_JOBS_NAMED: Final = 8
_EXPIRED: Final = (
    "What fio printed is past its time of retention and was removed; what was read from it is kept."
)
_PUBLISHED: Final = (
    "These numbers were published by someone and came without any output of fio:"
    " they stand as they were given."
)
_SIGN_IN: Final = (
    "What fio printed is over 8 MiB. Reading it again is work that is done for those only who are signed in."
)
_BUSY: Final = (
    "Other outputs are being read again just now, and there is no room for one more. Try again in a moment."
)
_FORMATS: Final = {
    "json": "JSON",
    "json+": "JSON+, with histograms",
    "terse": "terse",
    "normal": "text for people",
    "time": "output of time",
}
_PARTS: Final = {
    "rw": "pattern (rw)",
    "block_size": "block size, bytes",
    "numjobs": "jobs (numjobs)",
    "file_size": "file size, bytes",
    "is_direct": "direct",
    "read_share_percent": "reads, %",
    "runtime_s": "run time asked for, s",
    "time_based": "time based",
}


@dataclass(frozen=True, slots=True)
class ValueLine:
    """One value as shown; text is an en dash where it is absent, how then says why."""

    explained: ExplainedValue
    text: str
    how: str


@dataclass(frozen=True, slots=True)
class Section:
    """One measurement, or one total, with the lines of its table; codes: of its badges."""

    title: str
    origin: str
    lines: tuple[ValueLine, ...]
    measurement: ExplainedMeasurement | None = None
    workload: tuple[tuple[str, str | None, str], ...] = ()
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobLine:
    """What fio printed of one job besides its directions: shares of CPU time, depths and latencies in words."""

    job: ExplainedJob
    cpu_user: str
    cpu_system: str
    depth: str
    latency: str


@require_safe
@may_read
def run_report(request: HttpRequest, run_id: int) -> HttpResponse:
    """Say of each number of a run what fio printed and what was made of it."""
    run = read_run(run_id)
    if run is None:
        raise Http404(
            f"There is no run {run_id}. It may have been removed, or the link is from another server."
        )
    title = f"How the numbers of run {run_id} were computed"
    api_line = say_request(f"{make_base_url(request)}/api/v1/runs/{run_id}/report")
    context = {"run": run, "title": title, "api_line": api_line, "parser_version": PARSER_VERSION}
    try:
        explanation = _explain(request, run)
    except _NotNow as reason:
        answer = render(
            request, "runs/provenance.html", {**context, "problem": reason.words}, status=reason.status
        )
        if reason.status == 503:
            answer.headers["Retry-After"] = str(_RETRY_AFTER_S)
        return answer
    return render(request, "runs/provenance.html", {**context, **_describe(run, explanation)})


class _NotNow(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


def _explain(request: HttpRequest, run: RunDetail) -> ReportProvenance:
    """Explain the part of a run that the address asks for; raises _NotNow with what to say instead."""
    if run.submission.body_bytes > OPEN_BYTES_MAXIMUM and not request.user.is_authenticated:
        raise _NotNow(403, _SIGN_IN)
    body = read_raw_body(run_id=run.id)
    if body is None:
        raise _NotNow(410, _EXPIRED)
    if not body.has_output:
        raise _NotNow(409, _PUBLISHED)
    try:
        return explain_packed(
            body.packed,
            run.document,
            has_envelope=body.has_envelope,
            position=_read_position(request),
            limit=SECTIONS_MAXIMUM,
        )
    except CannotExplain as error:
        raise _NotNow(409, f"{error}.") from error
    except NoRoom as error:
        raise _NotNow(503, _BUSY) from error


def _read_position(request: HttpRequest) -> int:
    """Return where the page begins; an address that says no number begins at the first."""
    given = request.GET.get("position", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < _DIGITS_MAXIMUM else 0


def _describe(run: RunDetail, explanation: ReportProvenance) -> dict[str, object]:
    codes = {line.position: line for line in run.measurements}
    sections = []
    for each in explanation.measurements:
        stored = codes.get(each.position)
        is_same = stored is not None and each.is_stored_as(stored.job_name, stored.direction)
        badges = stored.badges if stored is not None and is_same else ()
        sections.append(_make_section(each, tuple(badge.code for badge in badges)))
    return {
        "explanation": explanation,
        "format": _say_format(explanation),
        "place": explanation.document + 1,
        "sections": sections,
        "last_place": explanation.position + len(sections),
        "earlier_position": max(explanation.position - SECTIONS_MAXIMUM, 0) if explanation.position else None,
        "totals": [_make_total(each) for each in explanation.totals],
        "jobs": [_make_job_line(job) for job in explanation.jobs],
        "messages_text": "\n".join(explanation.messages),
        "is_older": run.parser_version != explanation.parser_version,
    }


def _say_format(explanation: ReportProvenance) -> str:
    name = _FORMATS.get(explanation.format, explanation.format)
    version = f" version {explanation.format_version}" if explanation.format_version else ""
    precision = "" if explanation.has_precise_values else "; it rounds to about four digits"
    return f"{name}{version}{precision}"


def _make_section(explained: ExplainedMeasurement, codes: tuple[str, ...]) -> Section:
    return Section(
        title=f"{explained.job_name or 'a job without a name'}, {explained.direction}",
        origin=_say_origin(explained),
        lines=tuple(_make_line(value) for value in explained.values),
        measurement=explained,
        workload=tuple(
            (_PARTS.get(part.name, part.name), part.value, part.source) for part in explained.workload
        ),
        codes=codes,
    )


def _make_total(total: ExplainedTotal) -> Section:
    direction = "all directions together" if total.direction == "total" else total.direction
    names = ", ".join(total.job_names[:_JOBS_NAMED]) + ("…" if len(total.job_names) > _JOBS_NAMED else "")
    return Section(
        title=f"Group {total.groupid}, {direction}",
        origin=f"What ran at the same time: {names}.",
        lines=tuple(_make_line(value) for value in total.values),
    )


def _make_line(value: ExplainedValue) -> ValueLine:
    return ValueLine(value, _show(value), value.how if value.reason is None else value.reason)


def _show(value: ExplainedValue) -> str:
    if value.value is None:
        return UNKNOWN
    if value.unit == "operations":
        return f"{value.value:,.0f}".replace(",", "\u202f")
    shown = format_value(value.value, value.unit)
    return f"{shown} IOPS" if value.unit == "operations/s" else shown


def _say_origin(explained: ExplainedMeasurement) -> str:
    """Say which entries of fio's report the measurement was made of; numbers from 0, as in the warnings."""
    jobs = explained.jobs
    host = f" on {explained.hostname}" if explained.hostname else ""
    if len(jobs) == 1:
        clones = jobs[0].clones
        summed = f", in which fio itself summed up {clones} jobs (group_reporting)" if clones > 1 else ""
        return f"Job {jobs[0].index} of fio's report{host}{summed}."
    return f"{_say_places(jobs)} of fio's report{host}, merged here: {explained.job_count} jobs."


def _say_places(jobs: Sequence[MergedJob]) -> str:
    indices = [job.index for job in jobs]
    if indices and indices == list(range(indices[0], indices[0] + len(indices))):
        return f"Jobs {indices[0]} to {indices[-1]}"
    named = ", ".join(str(index) for index in indices[:_JOBS_NAMED])
    return f"Jobs {named}{' and others' if len(indices) > _JOBS_NAMED else ''}"


def _make_job_line(job: ExplainedJob) -> JobLine:
    depth = ", ".join(f"{level}: {share:.3g} %" for level, share in job.depth.items() if share)
    shares = [
        f"{_say_bound(share.below_ns)}: {share.percent:.3g} %"
        for share in job.latency_shares
        if share.percent
    ]
    return JobLine(
        job, _tenths(job.cpu_user_percent), _tenths(job.cpu_system_percent), depth, ", ".join(shares)
    )


def _tenths(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _say_bound(below_ns: int | None) -> str:
    return "longer" if below_ns is None else f"below {format_value(below_ns, 'ns')}"
