"""A scaling picture read in words: its title, its sentences with the cells behind them, what it leaves out.

The title of a scaling picture: what it shows, with the answer in it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import format_value
from benchapp.queries.charts.scaling import ScalingChart
from benchapp.queries.charts.scaling_findings import (
    AtCeiling,
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
    AtCeiling,
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


def say_findings(picture: ScalingChart, findings: Sequence[Finding], *, key: str) -> list[Sentence]:
    """Return a sentence for each finding; key: the prefix of the table's anchors."""
    said = [
        Sentence(
            _begin(_say(picture, finding)),
            tuple(f"{key}-{place.facet}-{place.line}-{place.x}" for place in list_places(finding)),
        )
        for finding in order_findings(findings)
    ]
    return [*said, *_say_bends(picture, key)]


def say_answer(picture: ScalingChart, finding: Finding) -> tuple[str, str]:
    """Return of which line a finding is, and what it says of it, beginning with the verb."""
    place = list_places(finding)[0]
    subject = _name_line(picture, place)
    match finding:
        case GainsStop(best):
            return subject, f"stops gaining after {_at(picture, best)}"
        case Saturates(start, _, level):
            return subject, f"saturates at {_show(picture, level)} from {_at(picture, start)}"
        case Linear():
            return subject, "is linear"
        case Erratic():
            return subject, "is erratic"
        case Falls(high, low, share):
            return subject, f"falls to {_percent(share)} {_say_span(picture, high, low)}"
        case Grows(_, _, factor):
            verb = "grows" if picture.metric.better == "higher" else "rises"
            return subject, f"{verb} {_times(factor)}"
        case Steady(_, _, level):
            return subject, f"stays at {_show(picture, level)}"
        case Unclear():
            return subject, "differs no more than its runs scatter"
        case Cliff(value, reference, share):
            new, old = _name_change(picture, value, reference)
            said = f"falls to {_percent(share)} from {old} to {new} ({_at(picture, value)})"
            return _name_line(picture, place, apart_from=reference.place), said
        case ContrastFinding(high, low, factor):
            return _name_line(picture, place, apart_from=low.place), _say_contrast(
                picture, high, low, factor=factor
            )
        case AtCeiling(name):
            return subject, f"reaches {name}"


def _say(picture: ScalingChart, finding: Finding) -> str:
    """Say a finding in a sentence, with the numbers that it rests on."""
    subject, answer = say_answer(picture, finding)
    match finding:
        case GainsStop(best, after) | Falls(best, after):
            return f"{subject} {answer} ({_show_pair(picture, best, after, ' → ')})."
        case Saturates():
            return f"{subject} {answer}."
        case ContrastFinding(high, low):
            return f"{subject} {answer} ({_show_pair(picture, high, low, ' of ')})."
        case Linear(first, last, efficiency):
            return (
                f"{subject} is linear in the count: {_at(picture, last)} give {last.value / first.value:.2f} times as"
                f" much as {_say_count(picture, first)} ({_percent(efficiency)} of ideal)."
            )
        case Erratic(high, low):
            return (
                f"{subject} is erratic: {format_value(high.value, picture.metric.unit)} at {_at(picture, high)},"
                f" {_show(picture, low.value)} at {_at(picture, low)}; there is no trend to rely on."
            )
        case Grows(first, last, _, efficiency):
            share = "" if efficiency is None else f", {_percent(efficiency)} of ideal"
            numbers = _show_pair(picture, first, last, " → ")
            return f"{subject} {answer} {_say_span(picture, first, last)} ({numbers}{share})."
        case Steady(first, last):
            return f"{subject} {answer} {_say_span(picture, first, last)}."
        case Unclear(low, high, margin):
            span = _show_pair(picture, low, high, " to ")
            return f"{subject} {answer}: {span}, and {_show(picture, margin)} may be chance; more runs would tell."
        case Cliff(value, reference, share):
            new, old = _name_change(picture, value, reference)
            gives, its = ("gives", "its") if _is_one(picture, value) else ("give", "their")
            numbers = _show_pair(picture, value, reference, " of ")
            return (
                f"{subject.removesuffix(':')}: at {new} {_at(picture, value)} {gives} {_percent(share)} of {its} {old}"
                f" value ({numbers})."
            )
        case AtCeiling(name, start, end, limit):
            reached = f"{format_value(end.value, picture.metric.unit)} of {_show(picture, limit)}"
            return f"{subject} is at its ceiling ({name}) from {_at(picture, start)} on: {reached}."


def _name_line(picture: ScalingChart, place: CurvePlace, *, apart_from: CurvePlace | None = None) -> str:
    """Name a line by its colour and its panel, but for what differs from another cell: "random read (5 GiB files)"."""
    facet = picture.facets[place.facet]
    said = picture.metric.label
    colon = ""
    if picture.colour is not None and (apart_from is None or apart_from.line == place.line):
        name = picture.colour.dimension.name
        said = describe_setting(name, facet.lines[place.line].value)
        # "Random read falls" is a sentence, "16 volumes falls" is none.
        colon = "" if name in _SPOKEN else ":"
    if picture.facet is not None and (apart_from is None or apart_from.facet == place.facet):
        said += f" ({describe_setting(picture.facet.dimension.name, facet.value)})"
    return f"{said}{colon}"


def _name_change(picture: ScalingChart, one: CurvePoint, other: CurvePoint) -> tuple[str, str]:
    """Return what differs between two cells, in full and short: "15 GiB files", "5 GiB"."""
    axis, values = picture.x, (picture.x.values[one.place.x], picture.x.values[other.place.x])
    facets = (picture.facets[one.place.facet], picture.facets[other.place.facet])
    if picture.facet is not None and one.place.facet != other.place.facet:
        axis, values = picture.facet, (facets[0].value, facets[1].value)
    elif picture.colour is not None and one.place.line != other.place.line:
        lines = facets[0].lines
        axis, values = picture.colour, (lines[one.place.line].value, lines[other.place.line].value)
    name = axis.dimension.name
    return describe_setting(name, values[0]), describe_value(name, values[1])


def _say_contrast(picture: ScalingChart, high: CurvePoint, low: CurvePoint, *, factor: float) -> str:
    more, less = _name_change(picture, high, low)
    verb = "gives" if picture.metric.better == "higher" else "has"
    where = f", at {_at(picture, high)}" if high.place.x == low.place.x and len(picture.x.values) > 1 else ""
    return f"{verb} {factor:.1f} times as much with {more} as with {less}{where}"


def _say_span(picture: ScalingChart, first: CurvePoint, last: CurvePoint) -> str:
    name, values = picture.x.dimension.name, picture.x.values
    return f"from {describe_value(name, values[first.place.x])} to {describe_setting(name, values[last.place.x])}"


def _at(picture: ScalingChart, point: CurvePoint) -> str:
    said = describe_setting(picture.x.dimension.name, picture.x.values[point.place.x])
    return f"one {said.removeprefix('1 ')}" if said in _ONES else said


def _say_count(picture: ScalingChart, point: CurvePoint) -> str:
    said = describe_value(picture.x.dimension.name, picture.x.values[point.place.x])
    return "one" if said == "1" else said


def _is_one(picture: ScalingChart, point: CurvePoint) -> bool:
    return picture.x.dimension.kind != "count" or picture.x.values[point.place.x] == 1


def _show_pair(picture: ScalingChart, one: CurvePoint, other: CurvePoint, between: str) -> str:
    """Show two values; the unit stands behind the second where it is the same."""
    unit = picture.metric.unit
    first = format_value(one.value, unit)
    second = _show(picture, other.value)
    bare, _, suffix = first.rpartition(" ")
    return f"{bare if bare and second.endswith(f' {suffix}') else first}{between}{second}"


def _show(picture: ScalingChart, value: float) -> str:
    shown = format_value(value, picture.metric.unit)
    return f"{shown} IOPS" if picture.metric.unit == "operations/s" else shown


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.0095 else f"{share * 100:.1f} %"


def _times(factor: float) -> str:
    return f"by {(factor - 1) * 100:.0f} %" if factor < 1.5 else f"{factor:.1f}-fold"


def _begin(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}" if words else words


def _say_bends(picture: ScalingChart, key: str) -> Iterator[Sentence]:
    for bend in find_bends(picture):
        line = picture.facets[bend.facet].lines[bend.line]
        subject = _begin(_name_line(picture, CurvePlace(bend.facet, bend.line, 0)).removesuffix(":"))
        if bend.place is None:
            yield Sentence(
                f"{subject}: no knee; latency and throughput grow together, or the points are too few."
            )
            continue
        cell = line.cells[bend.place]
        over = format_value(cell.over, picture.over.unit if picture.over else "operations/s")
        unit = " IOPS" if picture.over and picture.over.unit == "operations/s" else ""
        yield Sentence(
            f"{subject}: the knee is at {describe_setting(picture.x.dimension.name, picture.x.values[bend.place])},"
            f" {over}{unit} at {_show(picture, cell.value or 0.0)}; beyond it latency grows faster than throughput.",
            (f"{key}-{bend.facet}-{bend.line}-{bend.place}",),
        )


_TITLE_PARTS: Final = 2
# Said of the whole picture before what it shows: what nearly everybody asks first.
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


def describe_scaling(picture: ScalingChart, findings: Sequence[Finding]) -> str:
    """Say what is shown and the answer: "4k IOPS over 1–16 volumes: random read stops gaining after 4"."""
    if picture.is_empty:
        return f"{picture.metric.label}: nothing to show"
    subject = f"{_say_subject(picture)} {_say_range(picture)}".strip()
    answers = list(_list_answers(picture, findings))[:_TITLE_PARTS]
    return f"{subject}: {'; '.join(answers)}" if answers else subject


def _say_subject(picture: ScalingChart) -> str:
    fixed = dict(picture.fixed)
    said = [describe_value(name, fixed[name]) for name in _SUBJECTS if name in fixed]
    lines = picture.facets[0].lines
    if picture.colour is not None and len(lines) == 1:
        said.append(describe_setting(picture.colour.dimension.name, lines[0].value))
    label = picture.metric.label
    return " ".join([*said, label if not said or label[:2].isupper() else f"{label[0].lower()}{label[1:]}"])


def _say_range(picture: ScalingChart) -> str:
    x = picture.x
    name = x.dimension.name
    if picture.over is not None:
        return f"over {picture.over.label}, {x.dimension.label.lower()} {x.labels[0]} to {x.labels[-1]}"
    if not x.dimension.is_number:
        return f"by {x.dimension.label.lower()}"
    if len(x.values) == 1:
        return f"at {describe_setting(name, x.values[0])}"
    least, most = describe_value(name, x.values[0]), describe_setting(name, x.values[-1])
    if name == "iodepth":
        return f"over queue depth {x.labels[0]}–{x.labels[-1]}"
    return f"over {least} to {most}" if x.dimension.kind == "size" else f"over {least}–{most}"


def _list_answers(picture: ScalingChart, findings: Sequence[Finding]) -> Iterator[str]:
    """Give the most telling answers, lines of which the same is true together; of each line one."""
    said: set[str] = set()
    for kind in TELLING:
        groups: dict[str, list[str]] = {}
        for finding in findings:
            if isinstance(finding, kind):
                subject, answer = say_answer(picture, finding)
                subjects = groups.setdefault(answer, [])
                if subject not in subjects and subject not in said:
                    subjects.append(subject)
        groups = {answer: subjects for answer, subjects in groups.items() if subjects}
        said.update(subject for subjects in groups.values() for subject in subjects)
        for answer, subjects in groups.items():
            yield _join_answer(picture, subjects, answer)


def _join_answer(picture: ScalingChart, subjects: Sequence[str], answer: str) -> str:
    lines = len(picture.facets) * len(picture.facets[0].lines)
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
