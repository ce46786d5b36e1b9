"""What a scaling chart is made of, and what it leaves out, in words."""

from collections.abc import Iterator
from typing import Final

from benchapp.dimensions import DIMENSIONS
from benchapp.metrics import format_value
from benchapp.queries.charts.scaling import ScalingChart

# As static/js/charts/scaling/scaling.js: what lies farther above all values is named, not drawn.
FAR: Final = 3


def say_shown(chart: ScalingChart) -> str:
    """Say what one mark is, for the caption."""
    parts = [f"{chart.metric.label}: {_say_runs(chart)}"]
    if chart.over is not None:
        parts.append(f"each mark is one {chart.x.dimension.label.lower()}, drawn over its {chart.over.label}")
    if chart.as_of is not None:
        parts.append(f"as it was before {chart.as_of:%Y-%m-%d %H:%M} UTC")
    if chart.earlier_at is not None:
        has_earlier = any(cell.earlier is not None for _, _, _, cell in chart.walk())
        said = "the hollow outlines are as of" if has_earlier else "none of it had a value before"
        parts.append(f"{said} {chart.earlier_at:%Y-%m-%d %H:%M} UTC")
    return f"{'; '.join(parts)}; {chart.metric.better} is better."


def _say_runs(chart: ScalingChart) -> str:
    ns = [cell.spread.n for _, _, _, cell in chart.walk() if cell.spread]
    if not ns:
        return "no value"
    if max(ns) == 1:
        return "one run each, so no spread is known"
    runs = f"{min(ns)} to {max(ns)}" if min(ns) < max(ns) else f"{max(ns)}"
    is_mixed = any(len(cell.series_ids) > 1 for _, _, _, cell in chart.walk())
    whiskers = "from the least p10 to the greatest p90" if is_mixed else "from p10 to p90"
    return f"medians of {runs} runs, whiskers {whiskers}"


def list_remarks(chart: ScalingChart) -> list[str]:
    """Return what is not shown, mixed, or not known, each as a sentence."""
    return list(_list_remarks(chart))


def _list_remarks(chart: ScalingChart) -> Iterator[str]:
    counts, label = chart.counts, chart.metric.label
    missing = counts.cells - counts.filled
    if missing:
        yield f"{counts.filled} of {counts.cells} combinations are shown; {_say_missing(chart)}."
    most = max(len(cell.series_ids) for _, _, _, cell in chart.walk())
    if most > 1:
        names = ", ".join(DIMENSIONS[name].label.lower() for name in chart.mixed) or "other options"
        how = (
            "a cell is the median of its series"
            if chart.metric.may_mix
            else "percentiles are not mixed: only their range is shown"
        )
        yield f"Up to {most} series in a cell: {names} differ; {how}."
    if counts.unvalued:
        yield f"{_count(counts.unvalued)} without {label}."
    if counts.unknown_x:
        yield f"{_count(counts.unknown_x)} with unknown {chart.x.dimension.label.lower()}, not shown."
    if counts.hidden_by_fixed:
        yield f"{_count(counts.hidden_by_fixed)} differ in what is fixed, not shown."
    if counts.omitted:
        yield f"{_count(counts.omitted)} beyond the most colors, panels or places that are drawn."
    yield from _list_far(chart)
    if chart.is_cut:
        yield "More series fit the filter than are looked at: the freshest are. Narrow the filter to see the others."
    if chart.is_thinned:
        yield "In the past, only the 2 000 freshest series are looked at."


def _list_far(chart: ScalingChart) -> Iterator[str]:
    """Give the limits of which the drawing shows no more than a name at its edge: they would press all else flat."""
    far_from = FAR * max(_list_values(chart), default=0.0)
    limits = [limit for facet in chart.facets for limit in facet.limits]
    for name in dict.fromkeys(limit.name for limit in limits):
        known = {
            place: value
            for limit in limits
            if limit.name == name
            for place, value in enumerate(limit.values)
            if value is not None
        }
        far = [place for place, value in known.items() if value > far_from]
        if not known:
            yield f"Limit {name} is not drawn: it is of each volume, and their number is not known."
        elif len(far) == len(known):
            least = _show_limit(min(known.values()), chart)
            yield f"Limit {name} ({least}) lies far above the values: it is named at the upper edge."
        elif far:
            where = ", ".join(chart.x.labels[place] for place in sorted(far))
            label = chart.x.dimension.label.lower()
            yield f"Limit {name} lies above the drawing at {label} {where}: an arrow stands there."


def _list_values(chart: ScalingChart) -> Iterator[float]:
    """Give all that is drawn, as static/js/charts/scaling/scaling.js lists it."""
    for _, _, _, cell in chart.walk():
        earlier = cell.earlier.median if cell.earlier else None
        own = (cell.spread.median, cell.spread.p90) if cell.spread else ()
        yield from (value for value in (*own, earlier) if value is not None)


def _show_limit(value: float, chart: ScalingChart) -> str:
    shown = format_value(value, chart.metric.unit)
    return f"{shown} IOPS" if chart.metric.unit == "operations/s" else shown


def _say_missing(chart: ScalingChart) -> str:
    failed = sum(cell.state == "failed" for _, _, _, cell in chart.walk())
    missing = chart.counts.cells - chart.counts.filled - failed
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)


def _count(series: int) -> str:
    return f"{series:,} series".replace(",", "\u202f")
