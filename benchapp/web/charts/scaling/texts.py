"""The title of a scaling chart and its summary: one sentence per finding, with the cells that support it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import format_value
from benchapp.queries.charts.scaling import ScalingChart
from benchapp.queries.charts.scaling_findings import (
    AtLimit,
    Cliff,
    ContrastFinding,
    CurvePlace,
    CurvePoint,
    Erratic,
    Falls,
    Finding,
    GainsStop,
    Grows,
    Linear,
    Saturates,
    Steady,
    Unclear,
    find_bends,
    list_places,
)
from benchapp.queries.titles import describe_setting, describe_value

# The order of findings in a title and in the summary: the most surprising first.
FINDING_ORDER: Final = (
    Cliff,
    ContrastFinding,
    Erratic,
    GainsStop,
    Saturates,
    Linear,
    AtLimit,
    Falls,
    Steady,
    Unclear,
    Grows,
)
_CLIFFS_FIRST: Final = 3
# Values of these dimensions can be the subject of a sentence; others are followed by a colon.
_SUBJECT_DIMENSIONS: Final = ("pattern", "rw")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the anchors of the table cells that support it, the most important first."""

    words: str
    anchors: tuple[str, ...] = ()


def order_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: the deepest cliffs, then by FINDING_ORDER, then growth, then the other cliffs."""
    cliffs = [finding for finding in findings if isinstance(finding, Cliff)]
    rest = sorted(
        (finding for finding in findings if not isinstance(finding, Cliff)),
        key=lambda finding: FINDING_ORDER.index(type(finding)),
    )
    grows = [finding for finding in rest if isinstance(finding, Grows)]
    others = [finding for finding in rest if not isinstance(finding, Grows)]
    return [*cliffs[:_CLIFFS_FIRST], *others, *grows, *cliffs[_CLIFFS_FIRST:]]


def describe_findings(chart: ScalingChart, findings: Sequence[Finding], *, key: str) -> list[Sentence]:
    """Return a sentence for each finding; key: the prefix of the table's anchors."""
    sentences = [
        Sentence(
            _capitalize(chart, _describe(chart, finding)),
            tuple(f"{key}-{place.facet}-{place.line}-{place.x}" for place in list_places(finding)),
        )
        for finding in order_findings(findings)
    ]
    return [*sentences, *_describe_knees(chart, key)]


def describe_finding(chart: ScalingChart, finding: Finding) -> tuple[str, str]:
    """Return the curve that a finding is about, and a predicate that begins with a verb.

    The predicate of a contrast is a complete clause and begins with a colon.
    """
    place = list_places(finding)[0]
    subject = _name_line(chart, place)
    match finding:
        case GainsStop(best):
            return subject, f"levels off at {_at(chart, best)}"
        case Saturates(start, _, level):
            return subject, f"saturates at {_show_rounded(chart, level)} with {_at_or_more(chart, start)}"
        case Linear(first, last):
            factor = f"{last.value / first.value:.3g}x"
            return subject, f"scales linearly: {factor} {_describe_span(chart, first, last)}"
        case Erratic():
            return subject, "is erratic"
        case Falls(high, low, share):
            return subject, f"{_describe_drop(chart, share)} {_describe_span(chart, high, low)}"
        case Grows(_, _, factor):
            return subject, _describe_growth(chart, factor)
        case Steady(_, _, level):
            return subject, f"stays at {_show(chart, level)}"
        case Unclear():
            return subject, "shows no significant difference"
        case Cliff(value, reference, share):
            new, old = _name_change(chart, value, reference)
            answer = f"{_describe_drop(chart, share)} from {old} to {new} at {_at(chart, value)}"
            return _name_line(chart, place, apart_from=reference.place), answer
        case ContrastFinding(high, low, factor):
            answer = _describe_contrast(chart, high, low, factor=factor)
            return _name_line(chart, place, apart_from=low.place), answer
        case AtLimit(name):
            return subject, f"reaches limit {name}"


def _describe(chart: ScalingChart, finding: Finding) -> str:
    """Return a finding as a sentence with its numbers."""
    subject, answer = describe_finding(chart, finding)
    sentence = _join(chart, subject, answer)
    match finding:
        case GainsStop(best, after) | Falls(best, after):
            return f"{sentence} ({_show_pair(chart, best, after, ' → ')})."
        case Saturates():
            return f"{sentence}."
        case ContrastFinding(high, low):
            return f"{sentence} ({_show_pair(chart, high, low, ' vs ')})."
        case Linear(_, _, efficiency):
            return f"{sentence} ({_percent(efficiency)} of ideal)."
        case Erratic(high, low):
            return (
                f"{sentence}: {format_value(high.value, chart.metric.unit)} at {_at(chart, high)},"
                f" {_show(chart, low.value)} at {_at(chart, low)}; no clear trend."
            )
        case Grows(first, last, _, efficiency):
            share = "" if efficiency is None else f", {_percent(efficiency)} of ideal"
            numbers = _show_pair(chart, first, last, " → ")
            return f"{sentence} {_describe_span(chart, first, last)} ({numbers}{share})."
        case Steady(first, last):
            return f"{sentence} {_describe_span(chart, first, last)}."
        case Unclear(low, high, margin):
            span = _show_pair(chart, low, high, " to ")
            return f"{sentence}: {span}, margin of error {_show(chart, margin)}; more runs needed."
        case Cliff(value, reference):
            return f"{sentence} ({_show_pair(chart, reference, value, ' → ')})."
        case AtLimit(_, start, end, limit):
            reached = f"{format_value(end.value, chart.metric.unit)} of {_show(chart, limit)}"
            return f"{sentence} at {_at(chart, start)}: {reached}."


def _join(chart: ScalingChart, subject: str, answer: str) -> str:
    """Join subject and predicate; before a complete clause the name of the metric is omitted."""
    if not answer.startswith(":"):
        return f"{subject} {answer}"
    return (
        answer.removeprefix(": ") if subject == chart.metric.label else f"{subject.removesuffix(':')}{answer}"
    )


def _name_line(chart: ScalingChart, place: CurvePlace, *, apart_from: CurvePlace | None = None) -> str:
    """Name a line by its color and panel, without what differs from another cell: "random read (5 GiB files)"."""
    facet = chart.facets[place.facet]
    line_name = chart.metric.label
    colon = ""
    if chart.color is not None and (apart_from is None or apart_from.line == place.line):
        name = chart.color.dimension.name
        line_name = describe_setting(name, facet.lines[place.line].value)
        # "Random read drops by 20 %", but "16 volumes: drops by 20 %".
        colon = "" if name in _SUBJECT_DIMENSIONS else ":"
    if chart.facet is not None and (apart_from is None or apart_from.facet == place.facet):
        line_name += f" ({describe_setting(chart.facet.dimension.name, facet.value)})"
    return f"{line_name}{colon}"


def _name_change(chart: ScalingChart, one: CurvePoint, other: CurvePoint) -> tuple[str, str]:
    """Return what differs between two cells, in full and short: "15 GiB files", "5 GiB"."""
    axis, values = chart.x, (chart.x.values[one.place.x], chart.x.values[other.place.x])
    facets = (chart.facets[one.place.facet], chart.facets[other.place.facet])
    if chart.facet is not None and one.place.facet != other.place.facet:
        axis, values = chart.facet, (facets[0].value, facets[1].value)
    elif chart.color is not None and one.place.line != other.place.line:
        lines = facets[0].lines
        axis, values = chart.color, (lines[one.place.line].value, lines[other.place.line].value)
    name = axis.dimension.name
    return describe_setting(name, values[0]), describe_value(name, values[1])


def _describe_contrast(chart: ScalingChart, high: CurvePoint, low: CurvePoint, *, factor: float) -> str:
    more, less = _name_change(chart, high, low)
    verb = "delivers" if chart.metric.better == "higher" else "has"
    is_at_one_x = high.place.x == low.place.x and len(chart.x.values) > 1
    where = f" at {_at(chart, high)}" if is_at_one_x else ""
    return f": {more} {verb} {factor:.1f}x the {_lower_label(chart)} of {less}{where}"


def _describe_drop(chart: ScalingChart, share: float) -> str:
    """Describe a fall to a share of a value; a lower latency is better."""
    drop = f"{(1 - share) * 100:.1f}" if share < 0.0095 else f"{(1 - share) * 100:.0f}"
    return f"drops by {drop} %" + ("" if chart.metric.better == "higher" else " (better)")


def _describe_growth(chart: ScalingChart, factor: float) -> str:
    if factor < 1.5:
        return f"increases by {(factor - 1) * 100:.0f} %"
    return f"{'scales' if chart.metric.better == 'higher' else 'increases'} {factor:.1f}x"


def _describe_span(chart: ScalingChart, first: CurvePoint, last: CurvePoint) -> str:
    name, values = chart.x.dimension.name, chart.x.values
    return f"from {describe_value(name, values[first.place.x])} to {describe_setting(name, values[last.place.x])}"


def _at(chart: ScalingChart, point: CurvePoint) -> str:
    return describe_setting(chart.x.dimension.name, chart.x.values[point.place.x])


def _at_or_more(chart: ScalingChart, point: CurvePoint) -> str:
    """Describe a point of x and those after it: "4 or more volumes", "queue depth 16 or more"."""
    value = describe_value(chart.x.dimension.name, chart.x.values[point.place.x])
    setting = _at(chart, point)
    return (
        f"{value} or more{setting.removeprefix(value)}" if setting.startswith(value) else f"{setting} or more"
    )


def _show_pair(chart: ScalingChart, one: CurvePoint, other: CurvePoint, between: str) -> str:
    """Show two values; a unit that both have is written once."""
    unit = chart.metric.unit
    first = format_value(one.value, unit)
    second = _show(chart, other.value)
    bare, _, suffix = first.rpartition(" ")
    return f"{bare if bare and second.endswith(f' {suffix}') else first}{between}{second}"


def _show(chart: ScalingChart, value: float) -> str:
    shown = format_value(value, chart.metric.unit)
    return f"{shown} IOPS" if chart.metric.unit == "operations/s" else shown


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.0095 else f"{share * 100:.1f} %"


def _show_rounded(chart: ScalingChart, value: float) -> str:
    """Show the level of several values at three digits: "~39.2k IOPS", "~122 MB/s"."""
    if chart.metric.unit != "operations/s" or value < 1000:
        return f"~{_show(chart, value)}"
    divisor, suffix = (1e6, "M") if value >= 999_500 else (1e3, "k")
    return f"~{float(f'{value / divisor:.3g}'):g}{suffix} IOPS"


def _lower_label(chart: ScalingChart) -> str:
    """Return the name of the metric within a sentence: "IOPS", "mean latency"."""
    label = chart.metric.label
    return label if label[:2].isupper() else f"{label[0].lower()}{label[1:]}"


def _capitalize(chart: ScalingChart, text: str) -> str:
    """Begin a sentence with a capital letter, unless it begins with a value such as "gp3" or "xfs"."""
    axes = [axis for axis in (chart.x, chart.color, chart.facet) if axis is not None]
    values = [
        label
        for axis in axes
        if not axis.dimension.is_number and axis.dimension.name not in _SUBJECT_DIMENSIONS
        for label in axis.labels
    ]
    return text if text.startswith(tuple(values)) else f"{text[0].upper()}{text[1:]}"


def _describe_knees(chart: ScalingChart, key: str) -> Iterator[Sentence]:
    for bend in find_bends(chart):
        line = chart.facets[bend.facet].lines[bend.line]
        subject = _capitalize(
            chart, _name_line(chart, CurvePlace(bend.facet, bend.line, 0)).removesuffix(":")
        )
        if bend.place is None:
            yield Sentence(f"{subject}: no knee (throughput and latency grow together, or too few points).")
            continue
        cell = line.cells[bend.place]
        over = format_value(cell.over, chart.over.unit if chart.over else "operations/s")
        unit = " IOPS" if chart.over and chart.over.unit == "operations/s" else ""
        yield Sentence(
            f"{subject}: knee at {describe_setting(chart.x.dimension.name, chart.x.values[bend.place])}"
            f" ({over}{unit}, {_show(chart, cell.value or 0.0)}); above it, latency grows faster than throughput.",
            (f"{key}-{bend.facet}-{bend.line}-{bend.place}",),
        )


_TITLE_PARTS: Final = 2
# Dimensions whose value is part of the title if all series share it.
_SUBJECTS: Final = ("block_size_bytes", "pattern")
_SUBJECTS_MAXIMUM: Final = 3
_PLURALS: Final = {
    "levels": "level",
    "saturates": "saturate",
    "is": "are",
    "drops": "drop",
    "scales": "scale",
    "increases": "increase",
    "stays": "stay",
    "shows": "show",
    "reaches": "reach",
}
_VERB: Final = re.compile(rf"^(?:{'|'.join(_PLURALS)})\b")


def describe_scaling(chart: ScalingChart, findings: Sequence[Finding]) -> str:
    """Return the title with its main findings: "4k IOPS over 1–16 volumes: random read levels off at 4 volumes"."""
    if chart.is_empty:
        return f"{chart.metric.label}: no data"
    subject = f"{_describe_subject(chart)} {_describe_range(chart)}".strip()
    answers = list(_list_answers(chart, findings))[:_TITLE_PARTS]
    return f"{subject}: {'; '.join(answers)}" if answers else subject


def _describe_subject(chart: ScalingChart) -> str:
    common = dict(chart.common)
    parts = [describe_value(name, common[name]) for name in _SUBJECTS if name in common]
    lines = chart.facets[0].lines
    if chart.color is not None and len(lines) == 1:
        parts.append(describe_setting(chart.color.dimension.name, lines[0].value))
    return " ".join([*parts, _lower_label(chart) if parts else chart.metric.label])


def _describe_range(chart: ScalingChart) -> str:
    x = chart.x
    name = x.dimension.name
    if chart.over is not None:
        return f"over {chart.over.label}, {x.dimension.label.lower()} {x.labels[0]} to {x.labels[-1]}"
    if not x.dimension.is_number:
        return f"by {x.dimension.label.lower()}"
    if len(x.values) == 1:
        return f"at {describe_setting(name, x.values[0])}"
    least, most = describe_value(name, x.values[0]), describe_setting(name, x.values[-1])
    if name == "iodepth":
        return f"over queue depth {x.labels[0]}–{x.labels[-1]}"
    return f"over {least} to {most}" if x.dimension.kind == "size" else f"over {least}–{most}"


def _list_answers(chart: ScalingChart, findings: Sequence[Finding]) -> Iterator[str]:
    """Give one finding for each curve in order of importance; curves with the same finding are joined."""
    named: set[str] = set()
    for kind in FINDING_ORDER:
        groups: dict[str, list[str]] = {}
        for finding in findings:
            if isinstance(finding, kind):
                subject, answer = describe_finding(chart, finding)
                subjects = groups.setdefault(answer, [])
                if subject not in subjects and subject not in named:
                    subjects.append(subject)
        groups = {answer: subjects for answer, subjects in groups.items() if subjects}
        named.update(subject for subjects in groups.values() for subject in subjects)
        for answer, subjects in groups.items():
            yield _join_answer(chart, subjects, answer)


def _join_answer(chart: ScalingChart, subjects: Sequence[str], answer: str) -> str:
    lines = len(chart.facets) * len(chart.facets[0].lines)
    if lines == 1:
        return answer.removeprefix(": ")
    if len(subjects) == 1:
        return _join(chart, subjects[0], answer)
    several = _VERB.sub(lambda found: _PLURALS[found[0]], answer)
    names = [subject.removesuffix(":") for subject in subjects]
    if len(names) > _SUBJECTS_MAXIMUM:
        return _join(chart, f"{len(names)} of {lines} curves", several)
    return _join(chart, f"{', '.join(names[:-1])} and {names[-1]}", several)
