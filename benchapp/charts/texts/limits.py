"""Which limit applies to each width of a scaling chart, in sentences."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from benchapp.metrics import format_percent
from benchapp.queries.charts.scaling import ScalingChart
from benchapp.queries.charts.scaling_shapes import KNOWN_LIMITS, ScalingFacet, ScalingLimit

# A limit more than so many times above all values is named at the upper edge: drawn, it would flatten them.
LIMIT_REACH: Final = 3
_LINES_MAXIMUM: Final = 4


def describe_applicable_limits(chart: ScalingChart) -> Iterator[str]:
    """Yield for each panel which limit is the lowest at which widths, and how much of it the widest values reach.

    Nothing unless the chart has the known limits.
    """
    if KNOWN_LIMITS not in chart.limits:
        return
    for facet in chart.facets:
        lowest = [facet.find_lowest_limit(place) for place in range(len(chart.x.values))]
        if not any(lowest):
            yield f"{_name(facet)}No published limit is known for these layouts."
            continue
        parts = [
            f"{_name_range(chart.x.settings, places)}: {limit.name}"
            for limit, places in _group(lowest)
            if limit is not None
        ]
        yield f"{_name(facet)}Limit that applies: {'; '.join(parts)}."
        shares = list(_list_shares(chart, facet, lowest))
        if shares:
            text = "; ".join(shares[:_LINES_MAXIMUM])
            yield f"{_name(facet)}{text[:1].upper()}{text[1:]}."


def _name(facet: ScalingFacet) -> str:
    return f"{facet.label}: " if facet.label else ""


def _group(lowest: Sequence[ScalingLimit | None]) -> Iterator[tuple[ScalingLimit | None, list[int]]]:
    for _, group in groupby(enumerate(lowest), key=lambda pair: pair[1] and pair[1].name):
        pairs = list(group)
        yield pairs[0][1], [place for place, _ in pairs]


def _name_range(settings: Sequence[str], places: Sequence[int]) -> str:
    first, last = settings[places[0]], settings[places[-1]]
    return first if len(places) == 1 else f"{first} to {last}"


def _list_shares(
    chart: ScalingChart, facet: ScalingFacet, lowest: Sequence[ScalingLimit | None]
) -> Iterator[str]:
    for line in facet.lines:
        measured = [
            (place, cell.value, limit)
            for place, (cell, limit) in enumerate(zip(line.cells, lowest, strict=True))
            if cell.value is not None and limit is not None
        ]
        if not measured:
            continue
        place, value, limit = measured[-1]
        bound = limit.values[place]
        if bound:
            share = format_percent(value / bound)
            yield f"{line.label}, {chart.x.settings[place]}: {share} of {limit.name}"
