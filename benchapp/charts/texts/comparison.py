"""The title, sentences and lines of a comparison."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Final

from django.utils.timezone import localtime

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import (
    CATALOG,
    KIND_NAMES,
    UNKNOWN,
    Metric,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
    format_value,
    lower_label,
)
from benchapp.charts.read.comparison import (
    COMPARED_MAXIMUM,
    SERIES_MAXIMUM,
    ComparisonResult,
    Evidence,
    Pair,
    PatternDifference,
    PooledPattern,
    ScopeResult,
    Side,
    summarize_patterns,
    summarize_scopes,
)
from benchapp.framework.times import format_day, format_days, format_moment
from benchapp.models import name_scopes
from benchapp.series.read.titles import describe_value

_NAMED_MAXIMUM: Final = 3
# Lines of a chart.
CHART_MAXIMUM: Final = 40
_SEPARATOR: Final = " · "
_METRICS: Final = tuple(CATALOG)
_EVIDENCE: Final[dict[Evidence, str]] = {
    "": "",
    "value": "",
    "spread": ", few runs",
    "pattern": " with its pattern",
    "incident": ": open regression",
}
# Of workload, layout and host, and within a layout.
_PARTS: Final = re.compile(r" · |, ")


def describe_side(side: Side, scopes: Sequence[str] = (), label: str = "") -> str:
    """Describe one side: "host:db-1, 1–7 May", "since 8 May 2026"; "all" without conditions.

    scopes: of its series, named beside a run. label: of a series.
    """
    parts = [f"run {side.run_id}{f' on {name_scopes(scopes)}' if scopes else ''}"] if side.run_id else []
    if side.series_id is not None:
        parts.append(label or f"series {side.series_id}")
    if text := write_filter(side.filter):
        parts.append(text)
    bounds = [each for each in (side.from_at, side.to_at) if each]
    if len(bounds) == 2:
        is_days = all(localtime(each).time() == time.min for each in bounds)
        parts.append(format_days(*bounds) if is_days else " – ".join(map(_format_bound, bounds)))
    elif bounds:
        parts.append(f"{'since' if side.from_at else 'before'} {_format_bound(bounds[0])}")
    return ", ".join(parts) or "all"


def _format_bound(moment: datetime) -> str:
    """Return a day; with its time if it is not midnight in the zone of the reader."""
    return format_day(moment) if localtime(moment).time() == time.min else format_moment(moment)


def describe_comparison_title(found: ComparisonResult, a: str, b: str) -> str:
    """Return the two sides and the main result."""
    if not found.pairs:
        return f"{b} vs. {a}: {'not compared' if found.not_compared else 'no matching series'}"
    scopes = summarize_scopes(found)
    judged: Sequence[Pair | ScopeResult] = scopes[0] if scopes else found.pairs
    counts = Counter(each.verdict for each in judged)
    noun = name_scope_kinds(scopes[0]) if scopes else "value" if len(judged) == 1 else "values"
    total = format_integer(len(judged))
    undecided = format_integer(counts["undecided"])
    if counts["same"] == len(judged):
        answer = f"{total} {noun} the same"
    elif counts["undecided"] == len(judged):
        answer = f"{total} {noun} not decided, {_describe_runs(found.pairs)}"
    else:
        answer = f"{format_integer(counts['worse'])} of {total} {noun} worse, {format_integer(counts['better'])} better"
        answer += f", {undecided} not decided" if counts["undecided"] else ""
    title = f"{b} vs. {a}: {answer}"
    return f"{title[0].upper()}{title[1:]}" if b.startswith(("since ", "before ")) else title


def name_scope_kinds(results: Sequence[ScopeResult]) -> str:
    """Return "hosts", "pools" or "hosts or pools"."""
    return " or ".join(f"{kind}s" for kind in sorted({each.scope.partition(":")[0] for each in results}))


def _describe_runs(pairs: Sequence[Pair]) -> str:
    """Return the runs of a value on both sides: "7 runs a side", "5 to 7 and 6 runs"."""
    sides = [
        {side.n for side in sides}
        for sides in zip(*((pair.comparison.a, pair.comparison.b) for pair in pairs), strict=True)
    ]
    a, b = (
        " to ".join(format_integer(each) for each in sorted({min(counts), max(counts)})) for counts in sides
    )
    return f"{a} and {b} runs" if a != b else f"{a} run{'' if a == '1' else 's'} a side"


def describe_scope_results(results: Sequence[ScopeResult]) -> str:
    """Return the worst: "1 of 7 hosts is worse: db-9 (random read, IOPS −22 % (3 of 4 series)); …"."""
    counts = Counter(result.verdict for result in results)
    worse = counts["worse"]
    noun = name_scope_kinds(results)
    rest = [
        f"{format_integer(count)} {word}"
        for count, word in (
            (counts["better"], "better"),
            (counts["undecided"], "not decided"),
            (counts["same"], "the same"),
        )
        if count
    ]
    if not worse:
        return f"None of {format_integer(len(results))} {noun} is worse: {', '.join(rest)}."
    verb = "is" if worse == 1 else "are"
    named = "; ".join(map(_describe_worst, results[: min(_NAMED_MAXIMUM, worse)]))
    more = f"; and {format_integer(worse - _NAMED_MAXIMUM)} more" if worse > _NAMED_MAXIMUM else ""
    others = f" Others: {', '.join(rest)}." if rest else ""
    return f"{format_integer(worse)} of {format_integer(len(results))} {noun} {verb} worse: {named}{more}.{others}"


def _describe_worst(result: ScopeResult) -> str:
    worst = next(each for each in result.differences if each.is_worse)
    return f"{name_scopes([result.scope])}: {describe_difference(worst)}"


def describe_scope(result: ScopeResult) -> str:
    """Return the result of a host or pool without differences."""
    if result.verdict == "same":
        return "same"
    pools = [each for each in result.undecided_patterns if each.comparison.low is not None]
    named = "; ".join(map(_describe_pool, pools[:_NAMED_MAXIMUM]))
    return f"not decided{f': {named}' if named else ''}"


def _describe_pool(pool: PooledPattern) -> str:
    found = pool.comparison
    pattern, label = describe_value("pattern", pool.pattern), CATALOG[pool.metric].label
    low, high = (format_signed_percent((end or 1) - 1) for end in (found.low, found.high))
    return f"{pattern}, {label} {low} to {high} ({found.a.n} and {found.b.n} runs)"


def describe_comparison(found: ComparisonResult, a: str, b: str) -> list[str]:
    """Return sentences: differences by pattern, values not decided, what was compared, environments."""
    if not found.pairs:
        return describe_not_compared(found) or [_describe_nothing(found, a, b)]
    differences = summarize_patterns(found.pairs)
    scopes = summarize_scopes(found)
    sentences = [describe_scope_results(scopes[0])] if scopes else []
    sentences += [
        _describe_pair(each.largest)
        if each.count == 1
        else f"{(text := describe_difference(each))[:1].upper()}{text[1:]}."
        for each in differences[:_NAMED_MAXIMUM]
    ]
    if more := sum(each.count for each in differences[_NAMED_MAXIMUM:]):
        sentences.append(f"{format_count(more, 'more difference')} in the table.")
    sentences += describe_not_compared(found)
    counts = Counter(pair.verdict for pair in found.pairs)
    if counts["undecided"]:
        sentences.append(
            f"{format_integer(counts['undecided'])} of {format_count(len(found.pairs), 'value')} not decided:"
            " the interval includes a relevant change, or a side has fewer than five runs."
        )
    sentences.append(f"Runs of each value: {_describe_runs(found.pairs)}.")
    if found.is_cut:
        sentences.append(
            f"More series match: compared are at most {format_integer(SERIES_MAXIMUM)} series of each side and"
            f" {format_integer(COMPARED_MAXIMUM)} values. Narrow the filters to compare the others."
        )
    if found.values_maximum:
        sentences.append(
            f"Of each series the newest {format_integer(found.values_maximum)} values are compared. Narrow the filters"
            " to compare all."
        )
    if found.environment:
        lines = [
            f"{line.name} ({' or '.join(line.a[:2])} → {' or '.join(line.b[:2])})"
            for line in found.environment[:_NAMED_MAXIMUM]
        ]
        more = len(found.environment) - len(lines)
        rest = f" and {more} more" if more else ""
        where = (
            f" on {name_scopes(found.environment_scopes)}"
            if found.scopes[0] == found.scopes[1]
            else _describe_scopes(found)
        )
        sentences.append(f"Environment differences{where}: {', '.join(lines)}{rest}.")
    else:
        sentences.append(f"No environment differences{_describe_scopes(found)}.")
    return sentences


def describe_not_compared(found: ComparisonResult) -> list[str]:
    """Return a sentence for each latency that the sides have of different kinds."""
    counts = Counter((each.metric, each.a_latency_kinds, each.b_latency_kinds) for each in found.not_compared)
    return [
        f"Not compared: {lower_label(CATALOG[metric].label)} of {format_count(count, 'series')}, "
        f"{_name_kinds(a)} against {_name_kinds(b)}."
        for (metric, a, b), count in counts.items()
    ]


def _name_kinds(kinds: Sequence[str]) -> str:
    return " and ".join(KIND_NAMES[kind] for kind in kinds) or "a latency of unknown kind"


def describe_difference(difference: PatternDifference) -> str:
    """Return "random read, IOPS −18 % (8 of 10 series)"."""
    pattern = describe_value("pattern", difference.pattern)
    label, relative = CATALOG[difference.metric].label, difference.relative
    change = UNKNOWN if relative is None else format_signed_percent(relative)
    counts = f"{format_integer(difference.count)} of {format_integer(difference.series_count)} series"
    return f"{pattern}, {label} {change} ({counts})"


def _describe_scopes(found: ComparisonResult) -> str:
    """Return the hosts or pools of both sides: " on db-1", " between db-1 and db-2"."""
    a, b = map(name_scopes, found.scopes)
    return f" on {a}" if a == b else f" between {a} and {b}"


def _describe_nothing(found: ComparisonResult, a: str, b: str) -> str:
    first, second = found.counts
    if not first or not second:
        empty = [name for name, count in ((a, first), (b, second)) if not count]
        return f"No measurements match {' or '.join(empty)}. Widen the filter or the period."
    return (
        f"A has {format_count(first, 'series')}, B {format_count(second, 'series')}; none match in all other"
        " dimensions. They are listed below."
    )


def _describe_pair(pair: Pair) -> str:
    metric, found = CATALOG[pair.metric], pair.comparison
    before, after = (format_value(spread.median, metric.unit) for spread in (found.a, found.b))
    word = "worse" if pair.is_worse else "better"
    sure = (
        ""
        if found.low is None or found.high is None
        else f"; 95 % interval {format_signed_percent(found.low - 1)} to {format_signed_percent(found.high - 1)}"
    )
    change = "" if found.ratio is None else f" ({format_signed_percent(found.ratio - 1)}{sure})"
    runs = f"{found.a.n} and {found.b.n} runs"
    subject = pair.title.split(" · ")[0]
    if pair.a_scopes == pair.b_scopes:
        subject += f" on {name_scopes(pair.a_scopes)}"
    else:
        before += f" on {name_scopes(pair.a_scopes)}"
        after += f" on {name_scopes(pair.b_scopes)}"
    return f"{subject}, {metric.label}: {before} → {after}{change}, {word}, {_describe_effect(pair)}; {runs}."


def _describe_effect(pair: Pair) -> str:
    """Return the effect size: "large effect"."""
    return f"{pair.comparison.effect} effect"


def split_title(title: str) -> list[str]:
    """Return the parts of a title: of workload, layout and host, and within a layout."""
    return _PARTS.split(title)


def find_shared_parts(titles: Sequence[str]) -> tuple[str, ...]:
    """Return the parts that all titles have, in their order; without the first, the pattern, if all are the same."""
    titles = list(dict.fromkeys(titles))
    if len(titles) < 2:
        return tuple(split_title(titles[0])[1:]) if titles else ()
    others = [set(split_title(title)) for title in titles]
    return tuple(part for part in split_title(titles[0]) if all(part in other for other in others))


def _describe_place(pair: Pair) -> str:
    """Return the hosts or pools of a pair: "fast → slow", or one if both sides have the same."""
    a, b = name_scopes(pair.a_scopes), name_scopes(pair.b_scopes)
    return a if a == b else f"{a} → {b}"


def describe_result(pair: Pair) -> tuple[str, str]:
    """Return the result of a pair, and its class: worse, better or none."""
    found = pair.comparison
    if pair.verdict in ("worse", "better"):
        return f"{pair.verdict}{_EVIDENCE[pair.evidence]}", pair.verdict
    if pair.verdict == "same":
        return f"same: within {format_percent(pair.smallest_change)}", "none"
    if pair.has_few_runs and pair.is_usual is not None:
        return ("within the usual range" if pair.is_usual else "outside the usual range", "none")
    is_zero = found.low is None and not pair.has_few_runs
    return f"not decided: {'values of 0' if is_zero else _describe_runs([pair])}", "none"


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One pair as table, chart, Markdown and image show it.

    number: from 1. rank: from 0 for the most significant. place: "fast → slow", or the hosts or pools of both sides.
    parts: the title without common parts; name: with the place first, if places differ. kind: worse, better or none.
    """

    number: int
    rank: int
    place: str
    pair: Pair
    metric: Metric
    parts: str
    name: str
    a: str
    b: str
    ratio: str
    interval: str
    p: str
    result: str
    kind: str


def make_lines(pairs: Sequence[Pair]) -> list[ComparisonLine]:
    """Return the lines by metric, within a metric in the order of the pairs, numbered from 1."""
    shared = find_shared_parts([pair.title for pair in pairs])
    has_places = len(set(map(_describe_place, pairs))) > 1
    grouped = sorted(enumerate(pairs), key=lambda ranked: _METRICS.index(ranked[1].metric))
    return [
        _make_line(number, rank, pair, shared=shared, has_places=has_places)
        for number, (rank, pair) in enumerate(grouped, 1)
    ]


def _make_line(
    number: int, rank: int, pair: Pair, *, shared: Sequence[str], has_places: bool
) -> ComparisonLine:
    metric, found, place = CATALOG[pair.metric], pair.comparison, _describe_place(pair)
    parts = [part for part in split_title(pair.title) if part not in shared] or [pair.title]
    names = [place, *(part for part in parts if part != place)] if has_places else parts
    result, kind = describe_result(pair)
    p = pair.adjusted_p
    return ComparisonLine(
        number=number,
        rank=rank,
        place=place,
        pair=pair,
        metric=metric,
        parts=_SEPARATOR.join(parts),
        name=_SEPARATOR.join(names),
        a=format_value(found.a.median, metric.unit),
        b=format_value(found.b.median, metric.unit),
        ratio=UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        interval=UNKNOWN if found.low is None else f"{found.low:.3f}–{found.high:.3f}",
        p=UNKNOWN if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
        result=result,
        kind=kind,
    )


def list_drawn(lines: Sequence[ComparisonLine]) -> list[ComparisonLine]:
    """Return the lines that a chart has: of the forty most significant those with a ratio."""
    return [line for line in lines if line.rank < CHART_MAXIMUM and (line.pair.comparison.ratio or 0) > 0]
