"""Columns of one measurement: metrics, reasons of missing ones, and badges."""

from typing import Any, Final

from benchapp.catalog.metrics import CATALOG
from benchapp.fio.merging.directions import coarsen_bins, is_saturated
from benchapp.fio.report import Direction, Group, Latency
from benchapp.fio.workload import WorkloadSpec
from benchapp.intake.normalize.validity_inputs import RunContext, collect_validity_inputs
from benchapp.series.validity.rules import Badge, Steadiness, is_too_few, judge_validity


def measurement_columns(
    context: RunContext,
    group: Group,
    direction: Direction,
    *,
    spec: WorkloadSpec,
    steadiness: Steadiness | None = None,
) -> dict[str, Any]:
    """Return the columns of a measurement by name: metrics in base units, `missing`, `percentiles`, `badges`.

    steadiness: of the direction's logs, if any.
    """
    kind, latency = _choose_latency(direction)
    inputs = collect_validity_inputs(
        context, group, direction, spec=spec, latency=latency, steadiness=steadiness
    )
    # Callers wait for the total latency; by default, fio prints percentiles only of the completion latency.
    total_or_completion = direction.total or direction.completion
    percentiles = dict(latency.percentiles) if latency else {}
    missing = dict(direction.missing)
    values: dict[str, Any] = {
        "job_name": group.name[:200],
        # A failed run has no valid measurement, whichever of its jobs failed.
        "error": group.error or (context.failure.error if context.failure else 0),
        "latency_kind": kind,
        "latency_stddev_ns": total_or_completion.stddev_ns if total_or_completion else None,
        "total_ios": direction.total_ios,
        "io_bytes": direction.io_bytes,
        "runtime_s": direction.runtime_s,
        "clones": len(group.jobs),
        "latency_bins": coarsen_bins(latency.bins) if latency and latency.bins else None,
        "percentiles": {f"{percent:.10g}": value for percent, value in percentiles.items()},
        "missing": missing,
        "badges": [_plain_badge(badge) for badge in judge_validity(inputs)],
    }
    for name, metric in CATALOG.items():
        if metric.percentile is not None:
            value = percentiles.get(metric.percentile)
            if value is not None and is_too_few(inputs.samples, metric.percentile):
                missing[name] = "few-samples"
            elif value is not None and inputs.saturated and is_saturated(value):
                missing[name] = "saturated"
            values[name] = None if name in missing else value
        elif metric.latency_field:
            values[name] = total_or_completion and getattr(total_or_completion, metric.latency_field)
        else:
            values[name] = getattr(direction, name)
    return values


def _choose_latency(direction: Direction) -> tuple[str, Latency | None]:
    """Return kind and distribution of the percentiles: clat, unless only lat has any."""
    completion, total = direction.completion, direction.total
    if completion is not None and (completion.percentiles or total is None or not total.percentiles):
        return "clat", completion
    if total is not None:
        return "lat", total
    return "", None


def _plain_badge(badge: Badge) -> dict[str, Any]:
    return {"code": badge.code, "sentence": badge.sentence, "numbers": dict(badge.numbers)}


MISSING: Final = {
    "clones": "several concurrent jobs, and fio samples each separately",
    "clones-disagree": "the concurrent jobs measured it differently",
    "clones-missing": "some of the concurrent jobs are missing from the report",
    "clones-without-bins": (
        "several concurrent jobs without histograms: percentiles cannot be averaged; "
        "run fio with group_reporting or --output-format=json+"
    ),
    "few-samples": "fewer than 10 samples above this percentile: not statistically meaningful",
    "groups-without-bins": (
        "several different concurrent jobs without histograms: percentiles cannot be averaged"
    ),
    "groups-without-counts": (
        "several different concurrent jobs without I/O counts: their means cannot be weighted"
    ),
    "job-failed": "the job failed before its first measurement",
    "no-io": "no I/O in this direction",
    "not-a-number": "fio printed nan or inf: it could not calculate the value",
    "not-in-format": "not part of this output format",
    "not-measured": "measurement disabled in the fio options",
    "not-reported": "not reported: omitted by this fio version, its options, or the publisher",
    "out-of-range": "fio printed an impossible value",
    "per-job-samples": "fio before 3.13 averages the samples of concurrent jobs instead of adding them up",
    "saturated": "longer than fio's histogram, which ends at 17.1 s (16.7 s before fio 3.0)",
    "short-run": "the run was shorter than fio's sampling interval",
    "unreliable-version": "this fio version is known to print a wrong value",
    "zero-runtime": "fio reported a runtime of zero",
}


def describe_missing(code: str) -> str:
    """Return the text of a reason code; an unknown code is returned with spaces."""
    return MISSING.get(code, code.replace("-", " "))
