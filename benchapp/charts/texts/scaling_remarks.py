"""The caption of a scaling chart, which limit applies to each width, and notes on what it mixes or does not show."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log2
from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import (
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
    format_value,
    format_with_unit,
    join_first,
    lower_label,
)
from benchapp.charts.read.chart import ChartLine
from benchapp.charts.read.scaling_findings import CurveModel, find_bends, list_replaced_in
from benchapp.charts.read.scaling_shapes import KNOWN_LIMITS, ScalingChart, ScalingFacet, ScalingLimit
from benchapp.charts.read.series_columns import SERIES_MAXIMUM
from benchapp.charts.rules.findings import CurvePlace
from benchapp.charts.rules.scaling_models import Interval, ModelName, ScalingModel
from benchapp.charts.texts.levels import (
    describe_level_range,
    describe_mixed_kinds,
    describe_past_limit,
    describe_unknown,
)
from benchapp.charts.texts.scaling import Sentence, SentenceWriter, count_changed
from benchapp.framework.times import format_moment
from benchapp.series.read.titles import describe_value

# Of values with an open change.
_CHANGES_NAMED: Final = 3


def describe_marks(chart: ScalingChart) -> str:
    """Return the caption: what a mark is, and which direction is better."""
    parts = [f"{chart.metric.label}: {_describe_runs(chart)}"]
    if chart.over is not None and not chart.is_by_condition:
        parts.append(
            f"one point per {lower_label(chart.x.dimension.label)}, plotted against {chart.over.label}"
        )
    if time_range := describe_level_range(chart.request.span):
        parts.append(time_range)
    if chart.earlier_at is not None:
        has_earlier = any(cell.earlier_median is not None for cell in chart.cells)
        marks = "outlines: values as of" if has_earlier else "no values before"
        parts.append(f"{marks} {format_moment(chart.earlier_at)}")
    return f"{'; '.join(parts)}; {chart.metric.better} is better."


def _describe_runs(chart: ScalingChart) -> str:
    ns = [cell.n for cell in chart.cells if cell.n]
    if not ns:
        return "no values"
    if max(ns) == 1:
        return "one run per value, no spread"
    runs = f"{min(ns)} to {max(ns)}" if min(ns) < max(ns) else f"{max(ns)}"
    is_mixed = any(len(cell.series_ids) > 1 for cell in chart.cells)
    whiskers = "lowest p10 to highest p90" if is_mixed else "p10 to p90"
    return f"median of {runs} runs, whiskers {whiskers}"


def list_remarks(chart: ScalingChart) -> list[str]:
    """Return what is not shown, mixed, or unknown, each as a sentence."""
    return list(_list_remarks(chart))


def _list_remarks(chart: ScalingChart) -> Iterator[str]:
    yield from _list_open_changes(chart)
    counts = chart.counts
    missing = counts.cells - counts.filled
    if chart.is_by_condition:
        yield "A dependence is not a cause: both may change with time."
    elif missing:
        yield f"{counts.filled} of {counts.cells} combinations have a value; {_describe_missing(chart)}."
    most = max(len(cell.series_ids) for cell in chart.cells)
    if most > 1:
        names = ", ".join(lower_label(DIMENSIONS[name].label) for name in chart.mixed) or "other options"
        yield f"Up to {most} series per combination, with different {names}: median of the series' medians."
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
    """Yield how many values have an open regression or improvement and which, the largest first."""
    for is_regression, noun in ((True, "regression"), (False, "improvement")):
        found = []
        for panel, line, place, cell in chart.walk():
            mark = cell.mark if cell.mark and cell.mark.is_open_in(chart.metric.base) else None
            if cell.is_regressed if is_regression else mark and not mark.is_regression:
                names = (line.label if len(panel.lines) > 1 else "", chart.x.settings[place], panel.label)
                where = ", ".join(filter(None, names))
                relative = mark.relative if mark and mark.is_regression == is_regression else None
                size = f" ({format_signed_percent(relative)})" if relative is not None else ""
                found.append((-abs(relative or 0), f"{where}{size}"))
        if found:
            named = join_first([where for _, where in sorted(found)], _CHANGES_NAMED)
            yield f"{count_changed(chart, len(found), noun)}: {named}."


def _list_omitted_runs(chart: ScalingChart) -> Iterator[str]:
    """Yield how many runs are shown, if not all."""
    if chart.cell_runs_maximum is None or chart.is_by_condition:
        return
    cells = [cell for cell in chart.cells if cell.n]
    shown, known = sum(len(cell.runs) for cell in cells), sum(cell.n for cell in cells)
    if shown < known:
        limit = format_count(chart.cell_runs_maximum, "run")
        yield (
            f"{format_integer(shown)} of {format_count(known, 'run')} shown: the newest of each series,"
            f" up to {limit} per combination."
        )


def _list_high_limits(chart: ScalingChart) -> Iterator[str]:
    """Yield a sentence for each limit without a line: an unknown one, or one above all values, which is an arrow."""
    most = max(_list_values(chart), default=0.0)
    limits = [limit for facet in chart.panels for limit in facet.limits]
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
    for cell in chart.cells:
        yield from (value for value in (cell.median, cell.p90, cell.earlier_median) if value is not None)


def _describe_missing(chart: ScalingChart) -> str:
    failed = sum(cell.state == "failed" for cell in chart.cells)
    missing = chart.counts.cells - chart.counts.filled - failed
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)


_LINES_MAXIMUM: Final = 4


def list_facts(chart: ScalingChart) -> Iterator[tuple[str, str]]:
    """Yield the values common to all series, without those in the title or among the fixed dimensions."""
    shown = {"rw", "direction", *(fixed.dimension for fixed in chart.fixed)}
    for name, value in chart.common:
        if name not in shown:
            yield DIMENSIONS[name].label, describe_value(name, value)


def list_knees(chart: ScalingChart, facet: int) -> list[dict[str, Any]]:
    """Return the knees of a panel as they are drawn: place of the line and on x, and the label."""
    return [
        {"line": line, "place": place, "label": f"knee: {chart.x.labels[place]}"}
        for panel, line, place in find_bends(chart)
        if place is not None and panel == facet
    ]


def label_limit(facet: ScalingFacet, limit: ScalingLimit) -> str:
    """Return the label of the line of a limit or target."""
    return f"{'target: ' if limit.target else ''}{name_limit(facet, limit)}"


def name_limit(facet: ScalingFacet, limit: ScalingLimit) -> str:
    """Return the name of a limit, with the curves that it applies to unless to all that have a value."""
    lines = _list_valued(facet)
    having = [
        line
        for line in lines
        if any(limit.find_value(line, place) is not None for place in range(len(limit.values)))
    ]
    return limit.name if len(having) in (0, len(lines)) else f"{limit.name} ({_name_lines(having)})"


def describe_applicable_limits(chart: ScalingChart) -> Iterator[str]:
    """Yield for each panel which limit is the lowest at which widths, and how much of it the widest values reach.

    Of curves with different limits each. Nothing unless the chart has the known limits.
    """
    if KNOWN_LIMITS not in chart.limits:
        return
    for facet in chart.panels:
        groups = _group_by_lowest(facet)
        for lowest, lines in groups:
            yield f"{_name(facet)}{_describe_lowest(chart, lowest, lines if len(groups) > 1 else ())}"
        shares = [text for lowest, lines in groups for text in _list_shares(chart, lines, lowest)]
        if shares:
            text = SentenceWriter(chart).capitalize("; ".join(shares[:_LINES_MAXIMUM]))
            yield f"{_name(facet)}{text}."


# The lowest limit by index on x, where a cell has series.
_Lowest = dict[int, ScalingLimit | None]


def _group_by_lowest(facet: ScalingFacet) -> list[tuple[_Lowest, list[ChartLine]]]:
    """Return the lines with a value, those together that have the same lowest limits where both have series."""
    groups: list[tuple[_Lowest, list[ChartLine]]] = []
    for line in _list_valued(facet):
        own = {
            place: facet.find_lowest_limit(line, place)
            for place, cell in enumerate(line.cells)
            if cell.state != "missing"
        }
        for lowest, lines in groups:
            if all(lowest.get(place, limit) == limit for place, limit in own.items()):
                lowest |= own
                lines.append(line)
                break
        else:
            groups.append((own, [line]))
    return groups


def _describe_lowest(chart: ScalingChart, lowest: _Lowest, lines: Sequence[ChartLine]) -> str:
    """Return a sentence on the lowest limit at each x; lines: named as those that it applies to."""
    if not any(lowest.values()):
        return f"No published limit is known for {_name_lines(lines) if lines else 'these layouts'}."
    parts = [
        f"{_name_range(chart.x.settings, places)}: {limit.name}"
        for limit, places in _group(lowest)
        if limit is not None
    ]
    to = f" to {_name_lines(lines)}" if lines else ""
    return f"Limit that applies{to}: {'; '.join(parts)}."


def _list_valued(facet: ScalingFacet) -> list[ChartLine]:
    return [line for line in facet.lines if any(cell.n for cell in line.cells)]


def _name_lines(lines: Sequence[ChartLine]) -> str:
    labels = [line.label for line in lines]
    more = len(labels) - _LINES_MAXIMUM
    return ", ".join(labels if more <= 0 else [*labels[:_LINES_MAXIMUM], f"{more} more"])


def _name(facet: ScalingFacet) -> str:
    return f"{facet.label}: " if facet.label else ""


def _group(lowest: _Lowest) -> Iterator[tuple[ScalingLimit | None, list[int]]]:
    places = sorted(lowest.items(), key=lambda pair: pair[0])
    for _, group in groupby(places, key=lambda pair: pair[1] and pair[1].name):
        pairs = list(group)
        yield pairs[0][1], [place for place, _ in pairs]


def _name_range(settings: Sequence[str], places: Sequence[int]) -> str:
    first, last = settings[places[0]], settings[places[-1]]
    return first if len(places) == 1 else f"{first} to {last}"


def _list_shares(chart: ScalingChart, lines: Sequence[ChartLine], lowest: _Lowest) -> Iterator[str]:
    for line in lines:
        measured = [
            (place, cell.median, limit)
            for place, cell in enumerate(line.cells)
            if cell.median is not None and (limit := lowest.get(place)) is not None
        ]
        if not measured:
            continue
        place, value, limit = measured[-1]
        bound = limit.values[place]
        if bound:
            share = format_percent(value / bound)
            yield f"{line.label}, {chart.x.settings[place]}: {share} of {limit.name}"


MODEL_LABELS: Final[dict[ModelName, str]] = {
    "linear": "Linear",
    "amdahl": "Amdahl",
    "usl": "Universal Scalability Law",
    "saturation": "Linear up to a limit",
}


def describe_models(chart: ScalingChart, models: Sequence[CurveModel]) -> Iterator[Sentence]:
    """Yield a sentence for each curve: how far it scales, or why no model says so.

    Predictions are sentences if the chart has one curve; those of several are in the table.
    """
    writer = SentenceWriter(chart)
    for found in models:
        curve = writer.capitalize(_name_curve(writer, found))
        if found.model is None:
            yield Sentence(f"{curve}: no scaling model; {found.reason}.")
            continue
        replaced = list_replaced_in(chart.panels[found.facet].lines[found.line])
        aside = f", before {writer.name_regressions(replaced)}" if replaced else ""
        yield Sentence(f"{curve}: {_describe_reach(chart, found, found.model)}{aside}.")
        if len(models) > 1:
            continue
        for prediction in found.predictions:
            low, high = (
                writer.format(each) for each in (prediction.throughput.low, prediction.throughput.high)
            )
            kind = "model" if prediction.is_measured else "prediction"
            yield Sentence(
                f"{curve}: {kind} for {_count(chart, prediction.width)}"
                f" {writer.format(prediction.throughput.value)} (80 % interval {low} to {high})."
            )
        if found.outside:
            yield Sentence(
                f"{curve}: no prediction for {', '.join(map(str, found.outside))}; the model covers"
                f" {found.model.counts[0]} to {found.model.count_maximum}."
            )


def make_model_table(chart: ScalingChart, models: Sequence[CurveModel]) -> dict[str, Any]:
    """Return the table of the models of one metric."""
    return {
        "metric_label": chart.metric.label,
        "unit_name": _name_width(chart),
        "rows": tuple(_make_row(chart, found) for found in models),
    }


def make_model_curves(models: Sequence[CurveModel], facet: int) -> list[dict[str, Any]]:
    """Return the curves of a panel for the drawing: positions on x, values and bands in base units, and predictions."""
    return [
        _make_curve(found, found.model)
        for found in models
        if found.model is not None and found.facet == facet
    ]


def _make_curve(found: CurveModel, model: ScalingModel) -> dict[str, Any]:
    widths = found.list_widths()
    band = [model.predict(width).throughput for width in widths]
    return {
        "line": found.line,
        "label": MODEL_LABELS[model.name],
        "positions": [log2(width) for width in widths],
        "values": [each.value for each in band],
        "lows": [each.low for each in band],
        "highs": [each.high for each in band],
        "predictions": [
            {"position": log2(each.width), "value": each.throughput.value, "label": str(each.width)}
            for each in found.predictions
            if not each.is_measured
        ],
    }


def _describe_reach(chart: ScalingChart, found: CurveModel, model: ScalingModel) -> str:
    """Say what the model means for the widths: the peak and what they reach of it, or what doubling gains."""
    name = MODEL_LABELS[model.name]
    peak, shares = model.find_peak(), {each.width: each.share for each in found.shares}
    last = model.counts[-1]
    if peak is not None and last in shares:
        knee = model.find_knee()
        parts = [f"peak at {_count(chart, peak)}"]
        if peak != last:
            parts.append(f"{_count(chart, last)} reach {format_percent(shares[last])} of it")
        if knee is not None and knee < peak:
            parts.append(f"90 % of it at {_count(chart, knee)}")
        return f"{', '.join(parts)} ({name})"
    half = max((width for width in model.counts if 2 * width <= last), default=None)
    if half is None:
        return f"no peak expected up to {_count(chart, model.count_maximum)} ({name})"
    gain = model.predict(2 * half).throughput.value / model.predict(half).throughput.value
    return (
        f"no peak expected up to {_count(chart, model.count_maximum)}; {gain:.2f}x from {half} to"
        f" {_count(chart, 2 * half)} ({name})"
    )


def _make_row(chart: ScalingChart, found: CurveModel) -> dict[str, Any]:
    """Return the model of a curve in the table, values with their intervals as text, "" where the model has none."""
    writer = SentenceWriter(chart)
    model = found.model
    curve = writer.capitalize(_name_curve(writer, found))
    if model is None:
        return {"curve": curve, "reason": found.reason}
    peak = model.find_peak()
    return {
        "curve": curve,
        "model": MODEL_LABELS[model.name],
        "one": _format_throughput(chart, model.one),
        "contention": _format_factor(model.contention),
        "coherency": _format_factor(model.coherency),
        "limit": _format_throughput(chart, model.limit),
        "peak": "" if peak is None else str(peak),
        "misfit": f"{format_percent(model.misfit)} at {model.misfit_width}",
        # Of all models, the selected one first.
        "criteria": ", ".join(f"{MODEL_LABELS[each.model]} {each.value:.1f}" for each in model.criteria),
        "predictions": tuple(
            (str(each.width), _format_throughput(chart, each.throughput)) for each in found.predictions
        ),
    }


def _name_curve(writer: SentenceWriter, found: CurveModel) -> str:
    return writer.name_curve(CurvePlace(found.facet, found.line, 0)).removesuffix(":")


def _name_width(chart: ScalingChart) -> str:
    return "volume" if chart.x.name == "volume_count" else "stripe"


def _count(chart: ScalingChart, width: int) -> str:
    return f"{width} {_name_width(chart)}{'' if width == 1 else 's'}"


def _format_throughput(chart: ScalingChart, interval: Interval | None) -> str:
    if interval is None:
        return ""
    low, value, high = (
        format_value(each, chart.metric.unit) for each in (interval.low, interval.value, interval.high)
    )
    return f"{value} ({low} to {high})"


def _format_factor(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.value:.3g} ({interval.low:.3g} to {interval.high:.3g})"
