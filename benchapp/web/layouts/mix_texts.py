"""Texts about mixed workloads."""

from collections.abc import Iterator, Mapping
from typing import Final

from benchapp.metrics import Metric, format_count, format_value, format_with_unit
from benchapp.queries.layouts.mixes import MeasuredMix, MixAnswer, MixCurve, MixEstimate, MixRefusal

_REFUSALS: Final[Mapping[MixRefusal, str]] = {
    "one-share": "no estimate: a single read share was measured",
    "outside": "no estimate: outside the measured read shares, nothing is extrapolated",
    "not-positive": "no estimate: a measured throughput is 0",
}


def name_load(curve: MixCurve) -> str:
    """Return queue depth and jobs of a curve: "depth 8 × 1 job"."""
    depth = "unknown" if curve.iodepth is None else str(curve.iodepth)
    jobs = "" if curve.numjobs is None else f" × {format_count(curve.numjobs, 'job')}"
    return f"depth {depth}{jobs}"


def describe_between(estimate: MixEstimate) -> str:
    """Return where an estimate is from: "interpolated between 0 % and 100 % reads"."""
    below, above = round(estimate.below * 100), round(estimate.above * 100)
    return f"interpolated between {below} % and {above} % reads"


def describe_basis(found: MeasuredMix | MixEstimate | MixRefusal) -> str:
    """Return whether a value was measured or interpolated, or why there is none."""
    if isinstance(found, MeasuredMix):
        return f"measured, {format_count(found.spread.n, 'run')}"
    if isinstance(found, MixEstimate):
        return describe_between(found)
    return _REFUSALS[found]


def format_mixes_title(answer: MixAnswer, metric: Metric) -> str:
    """Return the answer in a sentence."""
    question = answer.question
    subject = f"{question.pattern.capitalize()} mix of {question.read_share} % reads"
    found = [curve.estimate(question.read_share) for curve in answer.curves]
    known = [each for each in found if not isinstance(each, str)]
    if not known:
        return f"{subject}: no measurements to estimate it from" if not found else f"{subject}: no estimate"
    if len(known) == 1:
        return f"{subject}: {_describe_value(known[0], metric)}"
    measured = sum(isinstance(each, MeasuredMix) for each in known)
    parts = [
        f"{format_count(count, 'load')} {word}"
        for count, word in ((measured, "measured"), (len(known) - measured, "interpolated"))
        if count
    ]
    return f"{subject}: {', '.join(parts)}"


def _describe_value(found: MeasuredMix | MixEstimate, metric: Metric) -> str:
    if isinstance(found, MeasuredMix):
        return f"{format_with_unit(found.spread.median, metric)}, measured"
    low, high = (format_value(each, metric.unit) for each in (found.low, found.high))
    return f"{format_with_unit(found.value, metric)} ({low} to {high}), {describe_between(found)}"


def describe_left_out(answer: MixAnswer) -> Iterator[str]:
    """Yield what is not shown, in sentences."""
    if answer.alone_count:
        yield f"{format_count(answer.alone_count, 'load')} not shown: a single read share was measured."
    if answer.outdated_count:
        days = format_count(answer.question.max_age_days or 0, "day")
        yield f"{format_count(answer.outdated_count, 'series')} not counted: newest run more than {days} ago."
    if answer.hidden_count:
        yield f"{format_count(answer.hidden_count, 'series')} hidden by the fixed dimensions."
    if answer.incomplete_count:
        yield f"{format_count(answer.incomplete_count, 'mix')} not counted: only one direction was measured."
    if answer.is_cut:
        yield "More series match than are read: narrow the filter."
