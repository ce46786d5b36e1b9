"""A scaling chart read in words: its title, its sentences with the cells behind them, what it leaves out.

The title of a scaling chart: what it shows, with the answer in it.
"""

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

# What is said first in a title: what surprises most.
TELLING: Final = (
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
# Values of these read as the subject of a sentence.
_SPOKEN: Final = ("pattern", "rw")
_ONES: Final = ("1 volume", "1 stripe", "1 job")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What is said, and the anchors of the cells that it rests on, the most telling first."""

    words: str
    anchors: tuple[str, ...] = ()


def order_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings as a reader wants them: the deepest cliffs, what surprises, then what merely grows."""
    cliffs = [finding for finding in findings if isinstance(finding, Cliff)]
    rest = sorted(
        (finding for finding in findings if not isinstance(finding, Cliff)),
        key=lambda finding: TELLING.index(type(finding)),
    )
    grows = [finding for finding in rest if isinstance(finding, Grows)]
    others = [finding for finding in rest if not isinstance(finding, Grows)]
    return [*cliffs[:_CLIFFS_FIRST], *others, *grows, *cliffs[_CLIFFS_FIRST:]]


def say_findings(chart: ScalingChart, findings: Sequence[Finding], *, key: str) -> list[Sentence]:
    """Return a sentence for each finding; key: the prefix of the table's anchors."""
    said = [
        Sentence(
            _begin(_say(chart, finding)),
            tuple(f"{key}-{place.facet}-{place.line}-{place.x}" for place in list_places(finding)),
        )
        for finding in order_findings(findings)
    ]
    return [*said, *_say_bends(chart, key)]


def say_answer(chart: ScalingChart, finding: Finding) -> tuple[str, str]:
    """Return of which line a finding is, and what it says of it, beginning with the verb."""
    place = list_places(finding)[0]
    subject = _name_line(chart, place)
    match finding:
        case GainsStop(best):
            return subject, f"stops gaining after {_at(chart, best)}"
        case Saturates(start, _, level):
            return subject, f"saturates at {_show(chart, level)} from {_at(chart, start)}"
        case Linear():
            return subject, "is linear"
        case Erratic():
            return subject, "is erratic"
        case Falls(high, low, share):
            return subject, f"falls to {_percent(share)} {_say_span(chart, high, low)}"
        case Grows(_, _, factor):
            verb = "grows" if chart.metric.better == "higher" else "rises"
            return subject, f"{verb} {_times(factor)}"
        case Steady(_, _, level):
            return subject, f"stays at {_show(chart, level)}"
        case Unclear():
            return subject, "differs no more than its runs scatter"
        case Cliff(value, reference, share):
            new, old = _name_change(chart, value, reference)
            said = f"falls to {_percent(share)} from {old} to {new} ({_at(chart, value)})"
            return _name_line(chart, place, apart_from=reference.place), said
        case ContrastFinding(high, low, factor):
            return _name_line(chart, place, apart_from=low.place), _say_contrast(
                chart, high, low, factor=factor
            )
        case AtLimit(name):
            return subject, f"reaches {name}"


def _say(chart: ScalingChart, finding: Finding) -> str:
    """Say a finding in a sentence, with the numbers that it rests on."""
    subject, answer = say_answer(chart, finding)
    match finding:
        case GainsStop(best, after) | Falls(best, after):
            return f"{subject} {answer} ({_show_pair(chart, best, after, ' → ')})."
        case Saturates():
            return f"{subject} {answer}."
        case ContrastFinding(high, low):
            return f"{subject} {answer} ({_show_pair(chart, high, low, ' of ')})."
        case Linear(first, last, efficiency):
            return (
                f"{subject} is linear in the count: {_at(chart, last)} give {last.value / first.value:.2f} times as"
                f" much as {_say_count(chart, first)} ({_percent(efficiency)} of ideal)."
            )
        case Erratic(high, low):
            return (
                f"{subject} is erratic: {format_value(high.value, chart.metric.unit)} at {_at(chart, high)},"
                f" {_show(chart, low.value)} at {_at(chart, low)}; there is no trend to rely on."
            )
        case Grows(first, last, _, efficiency):
            share = "" if efficiency is None else f", {_percent(efficiency)} of ideal"
            numbers = _show_pair(chart, first, last, " → ")
            return f"{subject} {answer} {_say_span(chart, first, last)} ({numbers}{share})."
        case Steady(first, last):
            return f"{subject} {answer} {_say_span(chart, first, last)}."
        case Unclear(low, high, margin):
            span = _show_pair(chart, low, high, " to ")
            return (
                f"{subject} {answer}: {span}, and {_show(chart, margin)} may be chance; more runs would tell."
            )
        case Cliff(value, reference, share):
            new, old = _name_change(chart, value, reference)
            gives, its = ("gives", "its") if _is_one(chart, value) else ("give", "their")
            numbers = _show_pair(chart, value, reference, " of ")
            return (
                f"{subject.removesuffix(':')}: at {new} {_at(chart, value)} {gives} {_percent(share)} of {its} {old}"
                f" value ({numbers})."
            )
        case AtLimit(name, start, end, limit):
            reached = f"{format_value(end.value, chart.metric.unit)} of {_show(chart, limit)}"
            return f"{subject} is at its limit ({name}) from {_at(chart, start)} on: {reached}."


def _name_line(chart: ScalingChart, place: CurvePlace, *, apart_from: CurvePlace | None = None) -> str:
    """Name a line by its color and its panel, but for what differs from another cell: "random read (5 GiB files)"."""
    facet = chart.facets[place.facet]
    said = chart.metric.label
    colon = ""
    if chart.color is not None and (apart_from is None or apart_from.line == place.line):
        name = chart.color.dimension.name
        said = describe_setting(name, facet.lines[place.line].value)
        # "Random read falls" is a sentence, "16 volumes falls" is none.
        colon = "" if name in _SPOKEN else ":"
    if chart.facet is not None and (apart_from is None or apart_from.facet == place.facet):
        said += f" ({describe_setting(chart.facet.dimension.name, facet.value)})"
    return f"{said}{colon}"


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


def _say_contrast(chart: ScalingChart, high: CurvePoint, low: CurvePoint, *, factor: float) -> str:
    more, less = _name_change(chart, high, low)
    verb = "gives" if chart.metric.better == "higher" else "has"
    where = f", at {_at(chart, high)}" if high.place.x == low.place.x and len(chart.x.values) > 1 else ""
    return f"{verb} {factor:.1f} times as much with {more} as with {less}{where}"


def _say_span(chart: ScalingChart, first: CurvePoint, last: CurvePoint) -> str:
    name, values = chart.x.dimension.name, chart.x.values
    return f"from {describe_value(name, values[first.place.x])} to {describe_setting(name, values[last.place.x])}"


def _at(chart: ScalingChart, point: CurvePoint) -> str:
    said = describe_setting(chart.x.dimension.name, chart.x.values[point.place.x])
    return f"one {said.removeprefix('1 ')}" if said in _ONES else said


def _say_count(chart: ScalingChart, point: CurvePoint) -> str:
    said = describe_value(chart.x.dimension.name, chart.x.values[point.place.x])
    return "one" if said == "1" else said


def _is_one(chart: ScalingChart, point: CurvePoint) -> bool:
    return chart.x.dimension.kind != "count" or chart.x.values[point.place.x] == 1


def _show_pair(chart: ScalingChart, one: CurvePoint, other: CurvePoint, between: str) -> str:
    """Show two values; the unit stands behind the second where it is the same."""
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


def _times(factor: float) -> str:
    return f"by {(factor - 1) * 100:.0f} %" if factor < 1.5 else f"{factor:.1f}-fold"


def _begin(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}" if words else words


def _say_bends(chart: ScalingChart, key: str) -> Iterator[Sentence]:
    for bend in find_bends(chart):
        line = chart.facets[bend.facet].lines[bend.line]
        subject = _begin(_name_line(chart, CurvePlace(bend.facet, bend.line, 0)).removesuffix(":"))
        if bend.place is None:
            yield Sentence(
                f"{subject}: no knee; latency and throughput grow together, or the points are too few."
            )
            continue
        cell = line.cells[bend.place]
        over = format_value(cell.over, chart.over.unit if chart.over else "operations/s")
        unit = " IOPS" if chart.over and chart.over.unit == "operations/s" else ""
        yield Sentence(
            f"{subject}: the knee is at {describe_setting(chart.x.dimension.name, chart.x.values[bend.place])},"
            f" {over}{unit} at {_show(chart, cell.value or 0.0)}; beyond it latency grows faster than throughput.",
            (f"{key}-{bend.facet}-{bend.line}-{bend.place}",),
        )


_TITLE_PARTS: Final = 2
# Said of the whole chart before what it shows: what nearly everybody asks first.
_SUBJECTS: Final = ("block_size_bytes", "pattern")
_SUBJECTS_MAXIMUM: Final = 3
_PLURALS: Final = {
    "stops": "stop",
    "saturates": "saturate",
    "is": "are",
    "falls": "fall",
    "grows": "grow",
    "rises": "rise",
    "stays": "stay",
    "reaches": "reach",
    "gives": "give",
    "has": "have",
}
_VERB: Final = re.compile(rf"\b(?:{'|'.join(_PLURALS)})\b")


def describe_scaling(chart: ScalingChart, findings: Sequence[Finding]) -> str:
    """Say what is shown and the answer: "4k IOPS over 1–16 volumes: random read stops gaining after 4"."""
    if chart.is_empty:
        return f"{chart.metric.label}: nothing to show"
    subject = f"{_say_subject(chart)} {_say_range(chart)}".strip()
    answers = list(_list_answers(chart, findings))[:_TITLE_PARTS]
    return f"{subject}: {'; '.join(answers)}" if answers else subject


def _say_subject(chart: ScalingChart) -> str:
    common = dict(chart.common)
    said = [describe_value(name, common[name]) for name in _SUBJECTS if name in common]
    lines = chart.facets[0].lines
    if chart.color is not None and len(lines) == 1:
        said.append(describe_setting(chart.color.dimension.name, lines[0].value))
    label = chart.metric.label
    return " ".join([*said, label if not said or label[:2].isupper() else f"{label[0].lower()}{label[1:]}"])


def _say_range(chart: ScalingChart) -> str:
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
    """Give the most telling answers, lines of which the same is true together; of each line one."""
    said: set[str] = set()
    for kind in TELLING:
        groups: dict[str, list[str]] = {}
        for finding in findings:
            if isinstance(finding, kind):
                subject, answer = say_answer(chart, finding)
                subjects = groups.setdefault(answer, [])
                if subject not in subjects and subject not in said:
                    subjects.append(subject)
        groups = {answer: subjects for answer, subjects in groups.items() if subjects}
        said.update(subject for subjects in groups.values() for subject in subjects)
        for answer, subjects in groups.items():
            yield _join_answer(chart, subjects, answer)


def _join_answer(chart: ScalingChart, subjects: Sequence[str], answer: str) -> str:
    lines = len(chart.facets) * len(chart.facets[0].lines)
    if lines == 1:
        return answer
    first = subjects[0]
    subjects = [subject.removesuffix(":") for subject in subjects]
    several = _VERB.sub(lambda found: _PLURALS[found[0]], answer, count=1)
    if len(subjects) > _SUBJECTS_MAXIMUM:
        return f"{len(subjects)} of {lines} lines {several}"
    if len(subjects) > 1:
        return f"{', '.join(subjects[:-1])} and {subjects[-1]} {several}"
    return f"{first} {answer}"
