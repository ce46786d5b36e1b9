"""The title of a scaling chart and its summary: one sentence per finding, with the cells that support it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import format_with_unit, lower_label
from benchapp.charts.read.axes import GROUP, split_axis
from benchapp.charts.read.scaling import ScalingChart
from benchapp.charts.read.scaling_findings import (
    AtLimit,
    Bend,
    Cliff,
    ContrastFinding,
    CurvePlace,
    Erratic,
    Falls,
    Finding,
    Grows,
    Linear,
    Saturates,
    Steady,
    TargetReach,
    Unclear,
    find_bends,
    find_reach,
    list_places,
)
from benchapp.charts.texts.sentence_writer import Clause, SentenceWriter
from benchapp.series.read.titles import describe_value

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
    return [*sentences, *(_describe_knee(chart, bend, key) for bend in find_bends(chart))]


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
    if len(chart.facets) * len(chart.facets[0].lines) == 1:
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
    cells = chart.facets[reach.facet].lines[reach.line].cells
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
    if not answers:
        return subject
    return f"{subject}: {f'{chart.metric.label}: ' if chart.more else ''}{'; '.join(answers)}"


def _order_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: the deepest cliffs, then by FINDING_ORDER, then growth, then the other cliffs."""
    cliffs = [finding for finding in findings if isinstance(finding, Cliff)]
    others = sorted(
        (finding for finding in findings if not isinstance(finding, Cliff)),
        key=lambda finding: FINDING_ORDER.index(type(finding)),
    )
    return [*cliffs[:_CLIFFS_FIRST], *others, *cliffs[_CLIFFS_FIRST:]]


def _describe_knee(chart: ScalingChart, bend: Bend, key: str) -> Sentence:
    writer = SentenceWriter(chart)
    curve = writer.capitalize(writer.name_curve(CurvePlace(bend.facet, bend.line, 0)).removesuffix(":"))
    if bend.place is None or chart.over is None:
        return Sentence(f"{curve}: no knee (throughput and latency grow together, or too few points).")
    cell = chart.facets[bend.facet].lines[bend.line].cells[bend.place]
    at = f"{format_with_unit(cell.over, chart.over)}, {writer.format(cell.value or 0.0)}"
    cells = chart.facets[bend.facet].lines[bend.line].cells
    regressed = writer.name_regressions([place for place, each in enumerate(cells) if each.is_regressed])
    return Sentence(
        f"{curve}: knee at {writer.describe_x(bend.place)} ({at}); above it, latency grows faster than throughput"
        f"{f', with {regressed}' if regressed else ''}.",
        (f"{key}-{bend.facet}-{bend.line}-{bend.place}",),
    )


def _describe_subject(chart: ScalingChart) -> str:
    common = dict(chart.common)
    parts = [describe_value(name, common[name]) for name in _TITLE_DIMENSIONS if name in common]
    lines = chart.facets[0].lines
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
    curves = len(chart.facets) * len(chart.facets[0].lines)
    if curves == 1:
        return clause.claim
    if count == 1:
        return clause.join(clause.subject, clause.claim)
    names = [clause.subject.removesuffix(":") for clause in clauses]
    subject = f"{', '.join(names[:-1])} and {names[-1]}"
    if count > _SUBJECTS_MAXIMUM:
        subject = f"{count} of {curves} curves"
    predicate = clause.claim
    if not clause.has_subject:
        predicate = _VERB.sub(lambda found: _PLURALS[found[0]], predicate)
    return clause.join(subject, predicate)
