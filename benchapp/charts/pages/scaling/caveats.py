"""The caption of a scaling chart, and notes on what it mixes or does not show."""

from collections.abc import Iterator

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import lower_label
from benchapp.charts.read.scaling import ScalingChart
from benchapp.charts.read.series_columns import SERIES_MAXIMUM
from benchapp.charts.texts.fixed import describe_unknown
from benchapp.charts.texts.latency_kinds import describe_mixed_kinds
from benchapp.charts.texts.level_range import describe_level_range, describe_past_limit
from benchapp.charts.texts.limits import describe_applicable_limits
from benchapp.framework.pages.value_texts import (
    format_count,
    format_integer,
    format_signed_percent,
    format_with_unit,
)
from benchapp.framework.times import format_moment


def describe_marks(chart: ScalingChart) -> str:
    """Return the caption: what a mark is, and which direction is better."""
    parts = [f"{chart.metric.label}: {_describe_runs(chart)}"]
    if chart.over is not None:
        parts.append(
            f"one point per {lower_label(chart.x.dimension.label)}, plotted against {chart.over.label}"
        )
    if range := describe_level_range(chart.request.span):
        parts.append(range)
    if chart.earlier_at is not None:
        has_earlier = any(cell.earlier is not None for _, _, _, cell in chart.walk())
        marks = "outlines: values as of" if has_earlier else "no values before"
        parts.append(f"{marks} {format_moment(chart.earlier_at)}")
    return f"{'; '.join(parts)}; {chart.metric.better} is better."


def _describe_runs(chart: ScalingChart) -> str:
    ns = [cell.spread.n for _, _, _, cell in chart.walk() if cell.spread]
    if not ns:
        return "no values"
    if max(ns) == 1:
        return "one run per value, no spread"
    runs = f"{min(ns)} to {max(ns)}" if min(ns) < max(ns) else f"{max(ns)}"
    is_mixed = any(len(cell.series_ids) > 1 for _, _, _, cell in chart.walk())
    whiskers = "lowest p10 to highest p90" if is_mixed else "p10 to p90"
    return f"median of {runs} runs, whiskers {whiskers}"


def list_remarks(chart: ScalingChart) -> list[str]:
    """Return what is not shown, mixed, or unknown, each as a sentence."""
    return list(_list_remarks(chart))


def _list_remarks(chart: ScalingChart) -> Iterator[str]:
    yield from _list_open_changes(chart)
    counts = chart.counts
    missing = counts.cells - counts.filled
    if missing:
        yield f"{counts.filled} of {counts.cells} combinations have a value; {_describe_missing(chart)}."
    most = max(len(cell.series_ids) for _, _, _, cell in chart.walk())
    if most > 1:
        names = ", ".join(lower_label(DIMENSIONS[name].label) for name in chart.mixed) or "other options"
        how = "median of the series' medians" if chart.metric.may_mix else "range only, no common percentile"
        yield f"Up to {most} series per combination, with different {names}: {how}."
    yield from describe_mixed_kinds(chart.latency_kinds)
    if counts.unvalued:
        yield f"{format_count(counts.unvalued, 'series')} without {lower_label(chart.metric.label)}."
    if counts.unknown_x:
        yield describe_unknown(chart.x.dimension, counts.unknown_x)
    yield from _list_group_remarks(chart)
    if counts.omitted:
        yield f"{format_count(counts.omitted, 'series')} hidden: too many colors, panels or x values."
    for target in chart.targets:
        if target.metric not in chart.metrics:
            yield f"Target {target.name} is not shown: it is of {lower_label(target.metric.label)}."
    yield from describe_applicable_limits(chart)
    yield from _list_high_limits(chart)
    yield from _list_omitted_runs(chart)
    if chart.is_cut:
        used = format_count(SERIES_MAXIMUM, "series")
        yield f"Only the most recent {used} are used. Narrow the filter to see the others."
    if chart.is_thinned:
        yield describe_past_limit("used")


def _list_group_remarks(chart: ScalingChart) -> Iterator[str]:
    """Yield which series are in no group or in several, and which groups are empty."""
    if chart.counts.ungrouped:
        yield f"{format_count(chart.counts.ungrouped, 'series')} in no group: not shown."
    for count in chart.groups:
        name = count.group.name
        for other, number in count.others:
            yield f"{format_count(number, 'series')} of group {name} also in group {other}: shown there."
        left = count.matching - sum(number for _, number in count.others)
        if not count.matching:
            yield f"Group {name} has no series: none matches {write_filter(count.group.filter)}."
        elif left and not count.shown:
            yield f"Group {name} has no value: its {format_count(left, 'series')} hidden by the fixed dimensions."


def _list_open_changes(chart: ScalingChart) -> Iterator[str]:
    """Yield how many values have an open regression or improvement, with the range of those of this metric."""
    marks = [cell.mark for _, _, _, cell in chart.walk() if cell.mark and cell.mark.state == "open"]
    for is_regression, noun in ((True, "regression"), (False, "improvement")):
        found = [mark for mark in marks if mark.is_regression == is_regression]
        if not found:
            continue
        sizes = sorted(mark.relative for mark in found if mark.metric == chart.metric.base)
        ends = [format_signed_percent(size) for size in (sizes[:1] + sizes[-1:])]
        size = f": {' to '.join(dict.fromkeys(ends))}" if ends else ""
        yield f"{len(found)} of {chart.counts.filled} values have an open {noun}{size}."


def _list_omitted_runs(chart: ScalingChart) -> Iterator[str]:
    """Yield how many runs are shown, if not all."""
    if chart.cell_runs_maximum is None:
        return
    cells = [cell for _, _, _, cell in chart.walk() if cell.spread]
    shown, known = sum(len(cell.runs) for cell in cells), sum(cell.spread.n for cell in cells if cell.spread)
    if shown < known:
        limit = format_count(chart.cell_runs_maximum, "run")
        yield (
            f"{format_integer(shown)} of {format_count(known, 'run')} shown: the newest of each series,"
            f" up to {limit} per combination."
        )


def _list_high_limits(chart: ScalingChart) -> Iterator[str]:
    """Yield a sentence for each limit without a line: an unknown one, or one above all values, which is an arrow."""
    most = max(_list_values(chart), default=0.0)
    limits = [limit for facet in chart.facets for limit in facet.limits]
    for name in dict.fromkeys(limit.name for limit in limits):
        known = {
            place: value
            for limit in limits
            if limit.name == name
            for place, value in enumerate(limit.values)
            if value is not None
        }
        high = {place: value for place, value in known.items() if value > most}
        kind = "Target" if any(limit.name == name and limit.target for limit in limits) else "Limit"
        if not known:
            yield f"{kind} {name} is not shown: it applies per volume, and the number of volumes is unknown."
        elif high:
            least = format_with_unit(min(high.values()), chart.metric)
            where = ", ".join(chart.x.labels[place] for place in sorted(high))
            at = "" if len(high) == len(known) else f" at {lower_label(chart.x.dimension.label)} {where}"
            yield f"{kind} {name} is above all values{at}: {least}{' or more' if len(set(high.values())) > 1 else ''}."


def _list_values(chart: ScalingChart) -> Iterator[float]:
    """Yield the values that are drawn, as listed in static/js/charts/scaling/scaling.js."""
    for _, _, _, cell in chart.walk():
        earlier = cell.earlier.median if cell.earlier else None
        own = (cell.spread.median, cell.spread.p90) if cell.spread else ()
        yield from (value for value in (*own, earlier) if value is not None)


def _describe_missing(chart: ScalingChart) -> str:
    failed = sum(cell.state == "failed" for _, _, _, cell in chart.walk())
    missing = chart.counts.cells - chart.counts.filled - failed
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)
