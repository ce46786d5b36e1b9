"""Findings of a scaling chart as text: the curve, what it does, and the numbers that show it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import (
    format_change_size,
    format_percent,
    format_value,
    format_with_unit,
    lower_label,
)
from benchapp.charts.read.scaling import ScalingChart
from benchapp.charts.read.scaling_findings import (
    AtLimit,
    Cliff,
    ContrastFinding,
    CurvePlace,
    CurvePoint,
    Erratic,
    Falls,
    Finding,
    Grows,
    Linear,
    Saturates,
    Steady,
    Unclear,
    list_confounded,
    list_places,
    list_replaced,
)

# Values of these dimensions can be the subject of a sentence; others are followed by a colon.
_SUBJECT_DIMENSIONS: Final = ("pattern", "rw")
# Of replaced values that a sentence names.
_PLACES_MAXIMUM: Final = 3


@dataclass(frozen=True, slots=True)
class Clause:
    """A finding as text.

    subject: the curve, with a colon if a verb cannot follow it: "random read", "16 volumes:". predicate: begins with
    a verb, or with its own subject if has_subject; then subject is "" where the chart has one curve. numbers: what
    follows the predicate, with its separator: " (5 000 → 5 010 IOPS)". aside: what the finding leaves out, likewise.
    """

    subject: str
    predicate: str
    numbers: str = ""
    has_subject: bool = False
    aside: str = ""

    def join(self, subject: str, predicate: str) -> str:
        """Return a subject and a predicate as one clause."""
        if not self.has_subject:
            return f"{subject} {predicate}"
        return f"{subject.removesuffix(':')}: {predicate}" if subject else predicate

    @property
    def sentence(self) -> str:
        """Return the finding with its numbers."""
        return f"{self.join(self.subject, self.predicate)}{self.numbers}{self.aside}."

    @property
    def claim(self) -> str:
        """Return the predicate with what the finding leaves out, without numbers."""
        return f"{self.predicate}{self.aside}"


class SentenceWriter:
    """Writes about the findings of one chart."""

    def __init__(self, chart: ScalingChart) -> None:
        self._chart = chart
        self._is_more_better = chart.metric.better == "higher"

    def write(self, finding: Finding) -> Clause:
        """Return the clause of a finding, which says where it uses the level before an open regression, and what else
        differs between its values."""
        replaced = self.name_regressions(list_replaced(self._chart, finding))
        aside = f", without {replaced}" if replaced else ""
        if names := [lower_label(DIMENSIONS[name].label) for name in list_confounded(self._chart, finding)]:
            *first, last = names
            named = " and ".join([*([", ".join(first)] if first else []), last])
            aside += f", with different {named}"
        return replace(self._write(finding), aside=aside)

    def name_regressions(self, places: Sequence[int]) -> str:
        """Return "the open regression at 16 volumes" for places on x; "" for none."""
        if not places:
            return ""
        is_named = len(places) <= _PLACES_MAXIMUM and len(self._chart.x.values) > 1
        at = f" at {' and '.join(map(self.describe_x, places))}" if is_named else ""
        return f"{'the open regression' if len(places) == 1 else 'open regressions'}{at}"

    def _write(self, finding: Finding) -> Clause:
        curve = self.name_curve(list_places(finding)[0])
        match finding:
            case Saturates(start, _, level):
                return Clause(curve, f"levels off at {self._at(start)}", f" ({self._format_rounded(level)})")
            case Linear(first, last, efficiency):
                predicate = f"scales linearly: {last.value / first.value:.3g}x {self._span(first, last)}"
                return Clause(curve, predicate, f" ({format_percent(efficiency)} of ideal)")
            case Erratic(high, low):
                high_text = f"{self._format_bare(high.value)} at {self._at(high)}"
                low_text = f"{self.format(low.value)} at {self._at(low)}"
                return Clause(curve, "is erratic", f": {high_text}, {low_text}; no clear trend")
            case Falls(high, low, share):
                predicate = f"{self._drop(share)} {self._span(high, low)}"
                return Clause(curve, predicate, f" ({self._pair(high, '→', low)})")
            case Grows(first, last, factor, efficiency):
                ideal = "" if efficiency is None else f", {format_percent(efficiency)} of ideal"
                numbers = f" {self._span(first, last)} ({self._pair(first, '→', last)}{ideal})"
                return Clause(curve, self._growth(factor), numbers)
            case Steady(first, last, level):
                return Clause(curve, f"stays at {self.format(level)}", f" {self._span(first, last)}")
            case Unclear(low, high, margin):
                numbers = f": {self._pair(low, 'to', high)}, margin of error {self.format(margin)}; more runs needed"
                return Clause(curve, "shows no significant difference", numbers)
            case Cliff(value, reference, share):
                return self._write_cliff(value, reference, share)
            case ContrastFinding(high, low, factor):
                return self._write_contrast(high, low, factor)
            case AtLimit(name, start, _, limit):
                reached = f"{self._format_bare(start.value)} of {self.format(limit)}"
                return Clause(curve, f"reaches the limit ({name})", f" at {self._at(start)}: {reached}")

    def name_curve(self, place: CurvePlace, *, apart_from: CurvePlace | None = None) -> str:
        """Name a curve by its color and panel, without what differs from another cell: "random read (5 GiB files)".

        With a colon if a verb cannot follow: "Random read drops by 20 %", but "16 volumes: drops by 20 %".
        """
        chart = self._chart
        name, colon = chart.metric.label, ""
        if chart.color is not None and (apart_from is None or apart_from.line == place.line):
            color = chart.color.name
            name = chart.color.settings[place.line]
            colon = "" if color in _SUBJECT_DIMENSIONS else ":"
        if chart.facet is not None and (apart_from is None or apart_from.facet == place.facet):
            name += f" ({chart.facet.settings[place.facet]})"
        return f"{name}{colon}"

    def capitalize(self, text: str) -> str:
        """Begin a sentence with a capital letter, unless it begins with a value such as "gp3" or "xfs"."""
        axes = [axis for axis in (self._chart.x, self._chart.color, self._chart.facet) if axis is not None]
        values = [
            label
            for axis in axes
            if not axis.dimension.is_number and axis.dimension.name not in _SUBJECT_DIMENSIONS
            for label in (*axis.labels, *axis.settings)
        ]
        return text if text.startswith(tuple(values)) else f"{text[0].upper()}{text[1:]}"

    def format(self, value: float) -> str:
        """Format a value of the metric with its unit."""
        return format_with_unit(value, self._chart.metric)

    def describe_x(self, place: int) -> str:
        """Return a value of x as in a sentence: "4 volumes"."""
        return self._chart.x.settings[place]

    def _write_cliff(self, value: CurvePoint, reference: CurvePoint, share: float) -> Clause:
        new, old = self._name_difference(value, reference)
        return Clause(
            self.name_curve(value.place, apart_from=reference.place),
            f"{self._drop(share)} from {old} to {new} at {self._at(value)}",
            f" ({self._pair(reference, '→', value)})",
        )

    def _write_contrast(self, high: CurvePoint, low: CurvePoint, factor: float) -> Clause:
        curve = self.name_curve(high.place, apart_from=low.place)
        more, less = self._name_difference(high, low)
        verb = "delivers" if self._is_more_better else "has"
        is_at_one_x = high.place.x == low.place.x and len(self._chart.x.values) > 1
        where = f" at {self._at(high)}" if is_at_one_x else ""
        return Clause(
            "" if curve == self._chart.metric.label else curve,
            f"{more} {verb} {factor:.1f}x the {lower_label(self._chart.metric.label)} of {less}{where}",
            f" ({self._pair(high, 'vs', low)})",
            has_subject=True,
        )

    def _name_difference(self, one: CurvePoint, other: CurvePoint) -> tuple[str, str]:
        """Return what differs between two cells, in full and short: "15 GiB files", "5 GiB"."""
        chart = self._chart
        axis, places = chart.x, (one.place.x, other.place.x)
        if chart.facet is not None and one.place.facet != other.place.facet:
            axis, places = chart.facet, (one.place.facet, other.place.facet)
        elif chart.color is not None and one.place.line != other.place.line:
            axis, places = chart.color, (one.place.line, other.place.line)
        return axis.settings[places[0]], axis.labels[places[1]]

    def _drop(self, share: float) -> str:
        """Describe a fall to a share of a value; a lower latency is better."""
        drop = f"{(1 - share) * 100:.1f} %" if share < 0.0095 else format_change_size(1 - share)
        return f"drops by {drop}" + ("" if self._is_more_better else " (better)")

    def _growth(self, factor: float) -> str:
        if factor < 1.5:
            return f"increases by {format_change_size(factor - 1)}"
        return f"{'scales' if self._is_more_better else 'increases'} {factor:.1f}x"

    def _span(self, first: CurvePoint, last: CurvePoint) -> str:
        """Describe a range of x: "from 1 to 16 volumes", "from depth 1 to 32"."""
        start, end = (self._chart.x.labels[point.place.x] for point in (first, last))
        if self._at(last).startswith(end):
            return f"from {start} to {self._at(last)}"
        return f"from {self._at(first)} to {end}"

    def _at(self, point: CurvePoint) -> str:
        return self.describe_x(point.place.x)

    def _pair(self, one: CurvePoint, between: str, other: CurvePoint) -> str:
        """Format two values; a unit that both have is written once."""
        first, second = self._format_bare(one.value), self.format(other.value)
        bare, _, suffix = first.rpartition(" ")
        return f"{bare if bare and second.endswith(f' {suffix}') else first} {between} {second}"

    def _format_bare(self, value: float) -> str:
        """Format a value with its unit, except IOPS."""
        return format_value(value, self._chart.metric.unit)

    def _format_rounded(self, value: float) -> str:
        """Format the level of several values with three digits: "~39.2k IOPS", "~122 MB/s"."""
        if self._chart.metric.unit != "operations/s" or value < 1000:
            return f"~{self.format(value)}"
        divisor, suffix = (1e6, "M") if value >= 999_500 else (1e3, "k")
        return f"~{float(f'{value / divisor:.3g}'):g}{suffix} IOPS"
