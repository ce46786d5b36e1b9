"""Which limit applies to each width of a scaling chart, in sentences."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from benchapp.catalog.metrics import format_percent
from benchapp.charts.read.scaling import ScalingChart
from benchapp.charts.read.scaling_shapes import KNOWN_LIMITS, ScalingFacet, ScalingLimit, ScalingLine
from benchapp.charts.texts.sentence_writer import SentenceWriter

_LINES_MAXIMUM: Final = 4


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
    for facet in chart.facets:
        groups = _group_by_lowest(facet)
        for lowest, lines in groups:
            yield f"{_name(facet)}{_describe_lowest(chart, lowest, lines if len(groups) > 1 else ())}"
        shares = [text for lowest, lines in groups for text in _list_shares(chart, lines, lowest)]
        if shares:
            text = SentenceWriter(chart).capitalize("; ".join(shares[:_LINES_MAXIMUM]))
            yield f"{_name(facet)}{text}."


# The lowest limit by index on x, where a cell has series.
_Lowest = dict[int, ScalingLimit | None]


def _group_by_lowest(facet: ScalingFacet) -> list[tuple[_Lowest, list[ScalingLine]]]:
    """Return the lines with a value, those together that have the same lowest limits where both have series."""
    groups: list[tuple[_Lowest, list[ScalingLine]]] = []
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


def _describe_lowest(chart: ScalingChart, lowest: _Lowest, lines: Sequence[ScalingLine]) -> str:
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


def _list_valued(facet: ScalingFacet) -> list[ScalingLine]:
    return [line for line in facet.lines if any(cell.spread for cell in line.cells)]


def _name_lines(lines: Sequence[ScalingLine]) -> str:
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


def _list_shares(chart: ScalingChart, lines: Sequence[ScalingLine], lowest: _Lowest) -> Iterator[str]:
    for line in lines:
        measured = [
            (place, cell.value, limit)
            for place, cell in enumerate(line.cells)
            if cell.value is not None and (limit := lowest.get(place)) is not None
        ]
        if not measured:
            continue
        place, value, limit = measured[-1]
        bound = limit.values[place]
        if bound:
            share = format_percent(value / bound)
            yield f"{line.label}, {chart.x.settings[place]}: {share} of {limit.name}"
