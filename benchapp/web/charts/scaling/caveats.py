"""What a scaling picture is made of, and what it leaves out, in words."""

from collections.abc import Iterator
from typing import Final

from benchapp.dimensions import DIMENSIONS
from benchapp.metrics import format_value
from benchapp.queries.charts.scaling import ScalingChart

# As static/js/charts/scaling/scaling.js: what lies farther above all values is named, not drawn.
FAR: Final = 3


def say_shown(picture: ScalingChart) -> str:
    """Say what one mark is, for the caption."""
    parts = [f"{picture.metric.label}: {_say_runs(picture)}"]
    if picture.over is not None:
        parts.append(
            f"each mark is one {picture.x.dimension.label.lower()}, drawn over its {picture.over.label}"
        )
    if picture.as_of is not None:
        parts.append(f"as it was before {picture.as_of:%Y-%m-%d %H:%M} UTC")
    if picture.ghost_at is not None:
        has_ghosts = any(cell.ghost is not None for _, _, _, cell in picture.walk())
        said = "the hollow outlines are as of" if has_ghosts else "none of it had a value before"
        parts.append(f"{said} {picture.ghost_at:%Y-%m-%d %H:%M} UTC")
    return f"{'; '.join(parts)}; {picture.metric.better} is better."


def _say_runs(picture: ScalingChart) -> str:
    ns = [cell.spread.n for _, _, _, cell in picture.walk() if cell.spread]
    if not ns:
        return "no value"
    if max(ns) == 1:
        return "one run each, so no spread is known"
    runs = f"{min(ns)} to {max(ns)}" if min(ns) < max(ns) else f"{max(ns)}"
    is_mixed = any(len(cell.series_ids) > 1 for _, _, _, cell in picture.walk())
    whiskers = "from the least p10 to the greatest p90" if is_mixed else "from p10 to p90"
    return f"medians of {runs} runs, whiskers {whiskers}"


def list_remarks(picture: ScalingChart) -> list[str]:
    """Return what is not shown, mixed, or not known, each as a sentence."""
    return list(_list_remarks(picture))


def _list_remarks(picture: ScalingChart) -> Iterator[str]:
    counts, label = picture.counts, picture.metric.label
    missing = counts.cells - counts.filled
    if missing:
        yield f"{counts.filled} of {counts.cells} combinations are shown; {_say_missing(picture)}."
    most = max(len(cell.series_ids) for _, _, _, cell in picture.walk())
    if most > 1:
        names = ", ".join(DIMENSIONS[name].label.lower() for name in picture.mixed) or "other options"
        how = (
            "a cell is the median of its series"
            if picture.metric.may_mix
            else "percentiles are not mixed: only their range is shown"
        )
        yield f"Up to {most} series in a cell: {names} differ; {how}."
    if counts.unvalued:
        yield f"{_count(counts.unvalued)} without {label}."
    if counts.unknown_x:
        yield f"{_count(counts.unknown_x)} with unknown {picture.x.dimension.label.lower()}, not shown."
    if counts.beside:
        yield f"{_count(counts.beside)} differ in what is held still, not shown."
    if counts.beyond:
        yield f"{_count(counts.beyond)} beyond the most colours, panels or places that are drawn."
    yield from _list_far(picture)
    if picture.is_cut:
        yield "More series fit the filter than are looked at: the freshest are. Narrow the filter to see the others."
    if picture.is_thinned:
        yield "In the past, only the 2 000 freshest series are looked at."


def _list_far(picture: ScalingChart) -> Iterator[str]:
    """Give the limits of which the drawing shows no more than a name at its edge: they would press all else flat."""
    far_from = FAR * max(_list_values(picture), default=0.0)
    ceilings = [ceiling for facet in picture.facets for ceiling in facet.ceilings]
    for name in dict.fromkeys(ceiling.name for ceiling in ceilings):
        known = {
            place: value
            for ceiling in ceilings
            if ceiling.name == name
            for place, value in enumerate(ceiling.values)
            if value is not None
        }
        far = [place for place, value in known.items() if value > far_from]
        if not known:
            yield f"Limit {name} is not drawn: it is of each volume, and their number is not known."
        elif len(far) == len(known):
            least = _show_limit(min(known.values()), picture)
            yield f"Limit {name} ({least}) lies far above the values: it is named at the upper edge."
        elif far:
            where = ", ".join(picture.x.labels[place] for place in sorted(far))
            label = picture.x.dimension.label.lower()
            yield f"Limit {name} lies above the drawing at {label} {where}: an arrow stands there."


def _list_values(picture: ScalingChart) -> Iterator[float]:
    """Give all that is drawn, as static/js/charts/scaling/scaling.js lists it."""
    for _, _, _, cell in picture.walk():
        ghost = cell.ghost.median if cell.ghost else None
        own = (cell.spread.median, cell.spread.p90) if cell.spread else ()
        yield from (value for value in (*own, ghost) if value is not None)


def _show_limit(value: float, picture: ScalingChart) -> str:
    shown = format_value(value, picture.metric.unit)
    return f"{shown} IOPS" if picture.metric.unit == "operations/s" else shown


def _say_missing(picture: ScalingChart) -> str:
    failed = sum(cell.state == "failed" for _, _, _, cell in picture.walk())
    missing = picture.counts.cells - picture.counts.filled - failed
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)


def _count(series: int) -> str:
    return f"{series:,} series".replace(",", "\u202f")
