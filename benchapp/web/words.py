"""The reading of a history, in words."""

from collections.abc import Sequence

from benchapp.metrics import PERCENTILES, Metric, ReferenceLimit, ReferenceLine, format_value
from benchapp.queries.series import SeriesRow, Summary

# Below this a median and a spread pretend to know more than the runs say.
_FEW: int = 5


def say_series_title(series: SeriesRow, metric: Metric, summary: Summary) -> str:
    """Say what is shown and the answer: the median, and how far the runs lie apart."""
    workload = series.workload_title.split(" · ")[0]
    if summary.median is None:
        return f"{workload} on {series.scope_name}: no {metric.label} in this span"
    answer = with_unit(summary.median, metric)
    # Milliseconds alone do not say of which latency.
    said = f"{metric.label} {answer} (median)" if metric.unit == "ns" else f"median {answer}"
    return f"{workload} on {series.scope_name}: {said}{_say_spread(summary)}"


def say_history(series: SeriesRow, metric: Metric, summary: Summary) -> list[str]:
    """Return sentences: how many, how high, how steady, and where the last run stands."""
    if summary.median is None or summary.last is None:
        return ["No run in this span has a value for this metric. Choose another metric, or widen the days."]
    runs = "1 run" if summary.n == 1 else f"{summary.n:,} runs".replace(",", "\u202f")
    sentences = [f"{runs} with a value; median {with_unit(summary.median, metric)}."]
    if summary.n >= _FEW and summary.p10 is not None and summary.p90 is not None:
        sentences.append(
            f"Eight of ten runs lie between {with_unit(summary.p10, metric)} and {with_unit(summary.p90, metric)}."
        )
    elif summary.n > 1:
        sentences.append("Too few to speak of a spread.")
    sentences.append(_say_last(metric, summary))
    if summary.minimum is not None and summary.maximum is not None and summary.n > 1:
        sentences.append(
            f"Least {with_unit(summary.minimum, metric)}, most {with_unit(summary.maximum, metric)};"
            f" {metric.better} is better."
        )
    return sentences


def say_latency_kind(metric: Metric) -> list[str]:
    """Return of which of fio's latencies a metric is; nothing where it is no latency."""
    if metric.name in PERCENTILES:
        said = "Of completion latency (clat), unless fio was told to print percentiles of total latency (lat)"
    elif metric.unit == "ns":
        said = (
            "Of total latency (lat); of completion alone (clat) where fio gave no other, or parser 1 read it"
        )
    else:
        return []
    return [f"{said}: a run's page says which."]


def say_limit(limit: ReferenceLimit | None, metric: Metric, summary: Summary) -> list[str]:
    """Return where the last run and the median stand to the limit between good and bad; nothing without a limit."""
    if limit is None or summary.last is None or summary.median is None:
        return []
    last, median = (limit.is_met(value) for value in (summary.last, summary.median))
    words = {True: "good", False: "bad"}
    both = "both" if last == median else f"median {words[median]}, last run"
    return [
        f"Limit {with_unit(limit.value, metric)} ({limit.words}): {both} {words[last]}. Source: {limit.source}."
    ]


def say_references(references: Sequence[ReferenceLine], metric: Metric, summary: Summary) -> list[str]:
    """Return how the median stands to what known systems reached; nothing where none is known."""
    median = summary.median
    if median is None:
        return []
    return [
        f"{line.words[0].upper()}{line.words[1:]}, {with_unit(line.value, metric)}: the median is"
        f" {format_factor(median / line.value)}. Source: {line.source}."
        for line in references
    ]


def format_factor(factor: float) -> str:
    """Show a share of a reference: in per cent up to twice it, in times from there on."""
    return f"{factor * 100:.0f} % of it" if factor < 2 else f"{factor:.1f} times as much"


def with_unit(value: float | None, metric: Metric) -> str:
    """Show a value of a metric in a sentence, where a bare number of IOPS needs its word."""
    shown = format_value(value, metric.unit)
    return f"{shown} IOPS" if metric.unit == "operations/s" and value is not None else shown


def _say_last(metric: Metric, summary: Summary) -> str:
    last, median = summary.last, summary.median
    if last is None or not median or summary.n == 1:
        return f"The last run: {with_unit(last, metric)}."
    percent = (last / median - 1) * 100
    if abs(percent) < 0.05:
        return f"The last run: {with_unit(last, metric)}, right at the median."
    way = "above" if percent > 0 else "below"
    judged = "better" if (percent > 0) == (metric.better == "higher") else "worse"
    return f"The last run: {with_unit(last, metric)}, {abs(percent):.1f} % {way} the median ({judged})."


def _say_spread(summary: Summary) -> str:
    if summary.n < _FEW or not summary.median or summary.p10 is None or summary.p90 is None:
        return ""
    percent = (summary.p90 - summary.p10) / summary.median * 100
    return f", spread {percent:.2g} %" if percent < 10 else f", spread {percent:.0f} %"
