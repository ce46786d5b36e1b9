"""The title of a scaling chart and its summary: one sentence per finding, with the cells that support it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import (
    UNKNOWN,
    format_change_size,
    format_count,
    format_percent,
    format_signed_percent,
    format_three_digits,
    format_value,
    format_with_unit,
    lower_label,
)
from benchapp.charts.read.axes import GROUP, split_axis
from benchapp.charts.read.scaling_findings import (
    CurveDependence,
    TargetReach,
    find_bends,
    find_dependences,
    find_reach,
    list_confounded,
    list_replaced,
)
from benchapp.charts.read.scaling_shapes import ScalingChart
from benchapp.charts.rules.findings import (
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
    list_places,
)
from benchapp.series.read.titles import describe_value
from benchapp.series.rules import DEPENDENCE_FROM

# Values of these dimensions can be the subject of a sentence; others are followed by a colon.
_SUBJECT_DIMENSIONS: Final = ("pattern", "rw")
# Of replaced values that a sentence names.
_PLACES_MAXIMUM: Final = 3


@dataclass(frozen=True, slots=True)
class Clause:
    """A finding as text.

    subject: the curve, with a colon if a verb cannot follow it: "random read", "16 volumes:". predicate: begins with
    a verb, or with its own subject if has_subject; then subject is "" where the chart has one curve. numbers: what
    follows the predicate, with its separator: " (5 000 → 5 010 IOPS)". aside: what else differs, likewise. before: the
    open regressions that it leaves out, likewise.
    """

    subject: str
    predicate: str
    numbers: str = ""
    has_subject: bool = False
    aside: str = ""
    before: str = ""

    def join(self, subject: str, predicate: str) -> str:
        """Return a subject and a predicate as one clause."""
        if not self.has_subject:
            return f"{subject} {predicate}"
        return f"{subject.removesuffix(':')}: {predicate}" if subject else predicate

    @property
    def sentence(self) -> str:
        """Return the finding with its numbers."""
        return f"{self.join(self.subject, self.predicate)}{self.numbers}{self.before}{self.aside}."

    @property
    def claim(self) -> str:
        """Return the predicate with what else differs, without numbers; the title counts open regressions."""
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
        before, aside = f", before {replaced}" if replaced else "", ""
        if names := [lower_label(DIMENSIONS[name].label) for name in list_confounded(self._chart, finding)]:
            *first, last = names
            named = " and ".join([*([", ".join(first)] if first else []), last])
            aside = f", with different {named}"
        return replace(self._write(finding), aside=aside, before=before)

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


# The order of findings in a title and in the summary: the most surprising first.
FINDING_ORDER: Final = (
    Cliff,
    ContrastFinding,
    Erratic,
    Saturates,
    Linear,
    AtLimit,
    Falls,
    Steady,
    Unclear,
    Grows,
)
_CLIFFS_FIRST: Final = 3
_TITLE_PARTS: Final = 2
# Dimensions whose value is part of the title if all series share it.
_TITLE_DIMENSIONS: Final = ("block_size_bytes", "pattern")
_SUBJECTS_MAXIMUM: Final = 3
# Values that miss a target are named up to this many.
_MISSED_NAMED: Final = 2
_THIRD_PERSON: Final = {"reach": "reaches", "meet": "meets"}
_VALUE_NOUNS: Final = {"target": ("layout", "layouts"), "workload": ("workload", "workloads")}
_OTHER_NOUNS: Final = ("combination", "combinations")
_PLURALS: Final = {
    "levels": "level",
    "is": "are",
    "drops": "drop",
    "scales": "scale",
    "increases": "increase",
    "stays": "stay",
    "shows": "show",
    "reaches": "reach",
}
_VERB: Final = re.compile(rf"^(?:{'|'.join(_PLURALS)})\b")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the anchors of the table cells that support it, the most important first."""

    text: str
    anchors: tuple[str, ...] = ()


def describe_findings(chart: ScalingChart, findings: Sequence[Finding], *, key: str) -> list[Sentence]:
    """Return a sentence for each finding and each knee; key: the prefix of the table's anchors.

    A curve that levels off has one statement, with the limits that it reaches.
    """
    writer = SentenceWriter(chart)
    saturated = {_find_curve(finding) for finding in findings if isinstance(finding, Saturates)}
    reached: dict[tuple[int, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        if isinstance(finding, AtLimit) and _find_curve(finding) in saturated:
            reached[_find_curve(finding)].append(finding)
    sentences = []
    for finding in _order_findings([each for each in findings if each not in reached[_find_curve(each)]]):
        limits = reached[_find_curve(finding)] if isinstance(finding, Saturates) else []
        clause = writer.write(finding)
        clauses = map(writer.write, limits)
        numbers = "".join((clause.numbers, *(f" and {each.predicate}{each.numbers}" for each in clauses)))
        anchors = dict.fromkeys(
            f"{key}-{place.facet}-{place.line}-{place.x}"
            for each in (finding, *limits)
            for place in list_places(each)
        )
        text = writer.capitalize(replace(clause, numbers=numbers).sentence)
        sentences.append(Sentence(text, tuple(anchors)))
    return [*sentences, *(_describe_knee(chart, *bend, key=key) for bend in find_bends(chart))]


def describe_dependences(
    chart: ScalingChart, dependences: Sequence[CurveDependence], *, key: str
) -> Iterator[Sentence]:
    """Yield a sentence for each curve by a condition; key: the prefix of the table's anchors."""
    writer = SentenceWriter(chart)
    for each in dependences:
        curve = writer.capitalize(writer.name_curve(CurvePlace(each.facet, each.line, 0)).removesuffix(":"))
        cells = chart.panels[each.facet].lines[each.line].cells
        anchors = (f"{key}-{each.facet}-{each.line}-{place}" for place, cell in enumerate(cells) if cell.n)
        yield Sentence(f"{curve}: {describe_dependence(chart, each)}.", tuple(anchors))


def describe_dependence(chart: ScalingChart, each: CurveDependence) -> str:
    """Return what the slope of a curve says over the measured range: "−10 % from 1 to 101, 9 runs"."""
    newest = "newest " if each.is_cut else ""
    runs = format_count(each.n, f"{newest}run")
    if each.fit is None:
        few = f"fewer than {DEPENDENCE_FROM} runs" if each.n < DEPENDENCE_FROM else "a single value"
        return f"no slope, {few} ({runs})"
    unit = chart.over.unit if chart.over else ""
    span = f"from {format_value(each.low, unit)} to {format_value(each.high, unit)}"
    if not each.fit.is_significant:
        return f"no dependence {span} ({runs}, p {each.fit.p:.2f})"
    start = each.fit.intercept + each.fit.slope * each.low
    slope = each.fit.slope * (each.high - each.low)
    size = format_signed_percent(slope / start) if start > 0 else "rises" if slope > 0 else "falls"
    return f"{size} {span} ({runs})"


def list_dependence_rows(
    chart: ScalingChart, dependences: Sequence[CurveDependence]
) -> Iterator[dict[str, str]]:
    """Yield the row of each curve; below: runs below the round-trip time, "" of other conditions."""
    writer = SentenceWriter(chart)
    for each in dependences:
        fit = each.fit
        name = writer.name_curve(CurvePlace(each.facet, each.line, 0)).removesuffix(":")
        low, high = (UNKNOWN, UNKNOWN) if fit is None else (_slope(chart, fit.low), _slope(chart, fit.high))
        yield {
            "curve": writer.capitalize(name),
            "runs": f"newest {each.n}" if each.is_cut else f"{each.n}",
            "slope": UNKNOWN if fit is None else _slope(chart, fit.slope),
            "interval": UNKNOWN if fit is None else f"{low} to {high}",
            "tau": UNKNOWN if fit is None else f"{fit.tau:+.2f}".replace("-", "−"),
            "p": UNKNOWN if fit is None else "<0.001" if fit.p < 0.001 else f"{fit.p:.3f}",
            "below": "" if each.below_round_trip is None else str(each.below_round_trip),
        }


def _slope(chart: ScalingChart, slope: float) -> str:
    """Return a slope in a unit of the condition that is of the usual size."""
    unit, sign = chart.over.unit if chart.over else "", "−" if slope < 0 else ""
    if unit == "ns" == chart.metric.unit:
        return f"{sign}{format_three_digits(abs(slope))} round trips"
    scale, name = _SLOPE_UNITS[unit]
    return f"{sign}{format_value(abs(slope) * scale, chart.metric.unit)} per {name}"


# By the unit of the condition: its size in base units, and its name.
_SLOPE_UNITS: Final = {
    "count": (1.0, "extent"),
    "bytes": (2.0**20, "MiB"),
    "percent": (1.0, "percentage point"),
    "ns": (1e6, "ms"),
}


def make_dependence_curves(dependences: Sequence[CurveDependence], facet: int) -> list[dict[str, Any]]:
    """Return the slopes of a panel for the drawing, and the round-trip time, below which no request can be."""
    own = [each for each in dependences if each.facet == facet]
    curves = [
        (
            each.line,
            each.low,
            each.high,
            [each.fit.intercept + each.fit.slope * x for x in (each.low, each.high)],
        )
        for each in own
        if each.fit is not None
    ]
    lines: list[tuple[int | None, float, float, list[float]]] = [*curves]
    if any(each.below_round_trip is not None for each in own):
        low, high = min(each.low for each in own), max(each.high for each in own)
        lines.append((None, low, high, [low, high]))
    return [
        {"line": line, "positions": [low, high], "values": ys, "lows": ys, "highs": ys, "predictions": []}
        for line, low, high, ys in lines
    ]


def _find_curve(finding: Finding) -> tuple[int, int]:
    place = list_places(finding)[0]
    return place.facet, place.line


def describe_reach(chart: ScalingChart, *, key: str) -> list[Sentence]:
    """Return a sentence for each target: "4 of 5 layouts reach Database (24 000 IOPS); not 1 volume."."""
    found: dict[str, list[TargetReach]] = {}
    for reach in find_reach(chart):
        found.setdefault(reach.target.name, []).append(reach)
    return [_describe_reach(chart, reaches, key) for reaches in found.values()]


def _describe_reach(chart: ScalingChart, reaches: Sequence[TargetReach], key: str) -> Sentence:
    """Describe how many values reach a target, of each curve."""
    name, nouns = _name_target(chart, reaches[0]), _name_values(chart)
    verb = "reach" if chart.metric.better == "higher" else "meet"
    if len(chart.panels) * len(chart.panels[0].lines) == 1:
        (reach,) = reaches
        reached, count = len(reach.reached), len(reach.reached) + len(reach.missed)
        verb = _THIRD_PERSON[verb] if reached == 1 else verb
        text = f"{reached} of {count} {nouns[count != 1]} {verb} {name}"
        missed = _name_missed(chart, reach)
        text += f"; not {missed}" if missed else ""
    else:
        writer = SentenceWriter(chart)
        shares = []
        for reach in reaches:
            curve = writer.name_curve(CurvePlace(reach.facet, reach.line, 0)).removesuffix(":")
            missed = _name_missed(chart, reach)
            share = f"{curve} {len(reach.reached)} of {len(reach.reached) + len(reach.missed)}"
            shares.append(f"{share} (not {missed})" if missed else share)
        text = f"{nouns[1].capitalize()} that {verb} {name}: {', '.join(shares)}"
    places = [(reach, place) for reach in reaches for place in (*reach.missed, *reach.reached)]
    return Sentence(f"{text}.", tuple(f"{key}-{reach.facet}-{reach.line}-{place}" for reach, place in places))


def _name_target(chart: ScalingChart, reach: TargetReach) -> str:
    target = reach.target.target
    if target is None:
        return reach.target.name
    each = " per volume" if target.limit.is_each else ""
    return f"{target.name} ({format_with_unit(target.limit.value, chart.metric)}{each})"


def _name_missed(chart: ScalingChart, reach: TargetReach) -> str:
    """Return the values that miss a target if they are few and others reach it, else ""."""
    if not reach.reached or len(reach.missed) > _MISSED_NAMED:
        return ""
    cells = chart.panels[reach.facet].lines[reach.line].cells
    return " and ".join(
        f"{chart.x.settings[place]}{' (open regression)' if cells[place].is_regressed else ''}"
        for place in reach.missed
    )


def _name_values(chart: ScalingChart) -> tuple[str, str]:
    """Return what the values of x are, in singular and plural."""
    if chart.x.name == GROUP:
        return "group", "groups"
    groups = {DIMENSIONS[name].group for name in split_axis(chart.x.name)}
    return _VALUE_NOUNS.get(groups.pop(), _OTHER_NOUNS) if len(groups) == 1 else _OTHER_NOUNS


def describe_scaling(chart: ScalingChart, findings: Sequence[Finding]) -> str:
    """Return the title with its main findings: "4k IOPS over 1–16 volumes: random read levels off at 4 volumes".

    With the labels of all metrics; the findings are those of the first one.
    """
    if chart.is_empty:
        return f"{_name_metrics(chart)}: no data"
    subject = f"{_describe_subject(chart)} {_describe_range(chart)}".strip()
    answers = list(_list_answers(chart, findings))[:_TITLE_PARTS]
    if chart.is_by_condition:
        dependences = find_dependences(chart)
        strong = [each for each in dependences if each.fit is not None and each.fit.is_significant]
        answers = [describe_dependence(chart, each) for each in (strong or dependences)[:1]]
        if answers and len(dependences) > 1:
            first = (strong or list(dependences))[0]
            curve = SentenceWriter(chart).name_curve(CurvePlace(first.facet, first.line, 0))
            answers = [f"{curve.removesuffix(':')} {answers[0]}"]
    if regressed := sum(cell.is_regressed for cell in chart.cells):
        answers.append(count_changed(chart, regressed, "regression"))
    if not answers:
        return subject
    return f"{subject}: {f'{chart.metric.label}: ' if chart.more else ''}{'; '.join(answers)}"


def count_changed(chart: ScalingChart, count: int, noun: str) -> str:
    """Return "11 of 20 values include a series with an open regression"; without series if each value is one.

    Changes of the metric, or of what is detected instead.
    """
    several = any(len(cell.series_ids) > 1 for cell in chart.cells)
    verbs = ("includes a series with", "include a series with") if several else ("has", "have")
    return f"{count} of {chart.counts.filled} values {verbs[count > 1]} an open {noun}"


def _order_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: the deepest cliffs, then by FINDING_ORDER, then growth, then the other cliffs."""
    cliffs = [finding for finding in findings if isinstance(finding, Cliff)]
    others = sorted(
        (finding for finding in findings if not isinstance(finding, Cliff)),
        key=lambda finding: FINDING_ORDER.index(type(finding)),
    )
    return [*cliffs[:_CLIFFS_FIRST], *others, *cliffs[_CLIFFS_FIRST:]]


def _describe_knee(chart: ScalingChart, facet: int, line: int, place: int | None, *, key: str) -> Sentence:
    writer = SentenceWriter(chart)
    curve = writer.capitalize(writer.name_curve(CurvePlace(facet, line, 0)).removesuffix(":"))
    if place is None or chart.over is None:
        return Sentence(f"{curve}: no knee (throughput and latency grow together, or too few points).")
    cells = chart.panels[facet].lines[line].cells
    cell = cells[place]
    at = f"{format_with_unit(cell.over, chart.over)}, {writer.format(cell.median or 0.0)}"
    regressed = writer.name_regressions([at for at, each in enumerate(cells) if each.is_regressed])
    return Sentence(
        f"{curve}: knee at {writer.describe_x(place)} ({at}); above it, latency grows faster than throughput"
        f"{f', with {regressed}' if regressed else ''}.",
        (f"{key}-{facet}-{line}-{place}",),
    )


def _describe_subject(chart: ScalingChart) -> str:
    common = dict(chart.common)
    parts = [describe_value(name, common[name]) for name in _TITLE_DIMENSIONS if name in common]
    lines = chart.panels[0].lines
    if chart.color is not None and len(lines) == 1:
        parts.append(chart.color.settings[0])
    metrics = _name_metrics(chart)
    return " ".join([*parts, lower_label(metrics) if parts else metrics])


def _name_metrics(chart: ScalingChart) -> str:
    """Return the label of all metrics: "IOPS, bandwidth and p99 latency"."""
    first, *others = [each.metric.label for each in chart.stack]
    labels = [first, *map(lower_label, others)]
    return labels[0] if not others else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _describe_range(chart: ScalingChart) -> str:
    x = chart.x
    name = x.dimension.name
    if chart.is_by_condition:
        return f"by {lower_label(x.dimension.label)}"
    if chart.over is not None:
        return f"over {chart.over.label}, {lower_label(x.dimension.label)} {x.labels[0]} to {x.labels[-1]}"
    if not x.dimension.is_number:
        return f"by {lower_label(x.dimension.label)}"
    if len(x.values) == 1:
        return f"at {x.settings[0]}"
    first, last = x.labels[0], x.settings[-1]
    if name == "iodepth":
        return f"over queue depth {x.labels[0]}–{x.labels[-1]}"
    return f"over {first} to {last}" if x.dimension.kind == "size" else f"over {first}–{last}"


def _list_answers(chart: ScalingChart, findings: Sequence[Finding]) -> Iterator[str]:
    """Give one finding for each curve in order of importance; curves with the same finding are joined."""
    writer = SentenceWriter(chart)
    named: set[str] = set()
    for kind in FINDING_ORDER:
        groups: dict[str, list[Clause]] = {}
        for clause in (writer.write(finding) for finding in findings if isinstance(finding, kind)):
            same = groups.setdefault(clause.claim, [])
            if clause.subject not in named and clause.subject not in [other.subject for other in same]:
                same.append(clause)
        for clauses in filter(None, groups.values()):
            named.update(clause.subject for clause in clauses)
            yield _join_clauses(chart, clauses)


def _join_clauses(chart: ScalingChart, clauses: Sequence[Clause]) -> str:
    """Write clauses with the same predicate as one; if the chart has one curve only, without its name."""
    clause, count = clauses[0], len(clauses)
    curves = len(chart.panels) * len(chart.panels[0].lines)
    if curves == 1:
        return clause.claim
    if count == 1:
        return clause.join(clause.subject, clause.claim)
    names = [clause.subject.removesuffix(":") for clause in clauses]
    subject = f"{', '.join(names[:-1])} and {names[-1]}"
    if count > _SUBJECTS_MAXIMUM:
        subject = f"{'all' if count == curves else f'{count} of'} {curves} curves"
    predicate = clause.claim
    if not clause.has_subject:
        predicate = _VERB.sub(lambda found: _PLURALS[found[0]], predicate)
    return clause.join(subject, predicate)
