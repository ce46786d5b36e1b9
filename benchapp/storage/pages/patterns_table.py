"""The levels of a host by pattern: table, small charts, summary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import (
    SMALLEST_CHANGES,
    format_change_size,
    format_count,
    format_signed_percent,
    format_with_unit,
)
from benchapp.framework.pages.series_marks import (
    Box,
    ShownMark,
    make_step_line,
    make_y_scale,
    show_mark,
    show_scope_mark,
)
from benchapp.framework.pages.time_range import AskedRange
from benchapp.framework.read.days import DayRange
from benchapp.framework.times import format_day
from benchapp.series.read.titles import describe_value
from benchapp.storage.read.hosts import HostRow
from benchapp.storage.read.patterns import POOL_RUNS_MINIMUM, HostPattern

# A chart of 240 × 72 with room for its labels.
CHART: Final = Box(42, 192, 8, 50)
# Patterns that the summary names.
_NAMED_MAXIMUM: Final = 3
# Closer levels are called equal: the table has one decimal.
_EQUAL_WITHIN: Final = 0.0005


@dataclass(frozen=True, slots=True)
class PatternChart:
    """The history of a pattern. line: path; level_y, end_y: of 100 % and of its end; end: text at its end.

    first_day, last_day: labels of the time axis; description: the chart as text.
    """

    line: str
    level_y: float
    end_y: float
    end: str
    first_day: str
    last_day: str
    description: str
    url: str


@dataclass(frozen=True, slots=True)
class PatternLine:
    """One pattern as a row of the table.

    url: of the series shown; series_url: of all of the pattern. level_title: runs and start of the level, and the level
    before. comparison: with the peers, or "no peers"; kind: "worse" or "better" if the deviation reaches the
    metric's threshold, else "". peers_range: min–max of the peers. typical: deviation of all series of the pattern, ""
    for one.
    """

    pattern: HostPattern
    name: str
    url: str
    series_url: str
    level: str
    level_title: str
    comparison: str
    kind: str
    peers_range: str
    typical: str
    mark: ShownMark | None
    chart: PatternChart | None


def make_pattern_lines(
    host: HostRow, patterns: Iterable[HostPattern], days: DayRange, *, range: AskedRange
) -> list[PatternLine]:
    """Return the rows of the table. days: of their charts; range: of their links."""
    return [_make_line(host, pattern, days, range=range) for pattern in patterns]


def summarize_host(host: HostRow, patterns: Sequence[HostPattern], *, is_past: bool) -> list[str]:
    """Return the state of a host in sentences: open regressions, then its levels compared with its peers.

    is_past: the patterns are those of an earlier time, which are not compared.
    """
    sentences = []
    if mark := show_scope_mark(host.mark):
        count = format_count(len(host.mark.incident_ids if host.mark else ()), "open regression")
        sentences.append(f"{count}, largest change: {mark.text.removeprefix('▼ ').removeprefix('▲ ')}.")
    else:
        sentences.append("No open regressions.")
    return sentences if is_past else [*sentences, *_summarize_peers(host, patterns)]


def _summarize_peers(host: HostRow, patterns: Sequence[HostPattern]) -> list[str]:
    if not patterns:
        return []
    compared = [pattern for pattern in patterns if pattern.comparison]
    if not compared:
        return [f"No peers: {_explain_no_peers(host)}."]
    worse = sorted(
        (pattern for pattern in compared if _find_kind(pattern) == "worse"),
        key=lambda pattern: -abs(pattern.comparison.relative if pattern.comparison else 0.0),
    )
    if not worse:
        return [f"{format_count(len(compared), 'pattern')} at most 5 % below the peers."]
    named = [
        f"{describe_value('pattern', pattern.pattern).capitalize()} is {_describe_comparison(host, pattern)}."
        for pattern in worse[:_NAMED_MAXIMUM]
    ]
    more = len(worse) - _NAMED_MAXIMUM
    return [*named, f"{format_count(more, 'more pattern')} below the peers."] if more > 0 else named


def _make_line(host: HostRow, pattern: HostPattern, days: DayRange, *, range: AskedRange) -> PatternLine:
    comparison, metric = pattern.comparison, pattern.metric
    asked = Filter().with_value(*host.scope.split(":", 1)).with_value("pattern", pattern.pattern)
    peers = (
        f"{format_with_unit(comparison.minimum, metric)} – {format_with_unit(comparison.maximum, metric)}"
        if comparison
        else ""
    )
    query = urlencode({"q": write_filter(asked), **range.bounds})
    own = urlencode(({} if metric.name == "iops" else {"metric": metric.name}) | range.bounds)
    several = pattern.compared_count > 1 and pattern.typical_relative is not None
    return PatternLine(
        pattern=pattern,
        name=describe_value("pattern", pattern.pattern),
        series_url=f"{reverse('series_list')}?{query}",
        url=f"{reverse('series', args=[pattern.series.id])}{f'?{own}' if own else ''}",
        level=format_with_unit(pattern.level.median, metric),
        level_title=_describe_level(pattern),
        comparison=_describe_comparison(host, pattern) or "no peers",
        kind=_find_kind(pattern),
        peers_range=peers,
        typical=f"{format_signed_percent(pattern.typical_relative or 0.0)} in the median of"
        f" {format_count(pattern.compared_count, 'series')}"
        if several
        else "",
        mark=show_mark(pattern.mark, metric=metric.name),
        chart=_make_chart(pattern, days, f"{reverse('history')}?{query}"),
    )


def _describe_level(pattern: HostPattern) -> str:
    """Return "10 runs since 12 Nov 2026, was 30 315 IOPS until 11 Nov 2026"; of a drift the newest 5 runs."""
    level = pattern.level
    is_gradual = level.change is not None and level.change.slope is not None
    count = format_count(level.n, "run")
    text = f"newest {count}" if is_gradual else f"{count} since {format_day(level.from_at)}"
    if level.previous is None:
        return text
    before = format_with_unit(level.previous.median, pattern.metric)
    return f"{text}, was {before} until {format_day(level.previous.until_at)}"


def _describe_comparison(host: HostRow, pattern: HostPattern) -> str:
    """Return "23 % below the median of 7 peers"; "" without peers."""
    if pattern.comparison is None:
        return ""
    relative = pattern.comparison.relative
    noun = "other host" if host.pool else "peer"
    peers = format_count(pattern.comparison.n, noun) + (f" of pool {host.pool}" if host.pool else "")
    whole = peers if pattern.comparison.n == 1 else f"the median of {peers}"
    if abs(relative) < _EQUAL_WITHIN:
        return f"equal to {whole}"
    return f"{format_change_size(relative)} {'above' if relative > 0 else 'below'} {whole}"


def _explain_no_peers(host: HostRow) -> str:
    if host.pool:
        return f"no other host of pool {host.pool} has {POOL_RUNS_MINIMUM} runs at these levels"
    return "no other host or pool measures the same workload on the same layout"


def _find_kind(pattern: HostPattern) -> str:
    comparison = pattern.comparison
    if comparison is None or abs(comparison.relative) < SMALLEST_CHANGES[pattern.metric.name]:
        return ""
    return "worse" if pattern.is_worse else "better"


def _make_chart(pattern: HostPattern, days: DayRange, url: str) -> PatternChart | None:
    known = [value for value in pattern.history if value is not None]
    line = make_step_line(pattern.history, CHART)
    if not line:
        return None
    # The history begins at 100 %, so that the line of it is within the scale.
    place_y = make_y_scale(known, CHART)
    end = f"{known[-1] * 100:.0f} %"
    return PatternChart(
        line=line,
        level_y=round(place_y(1.0), 1),
        end_y=round(place_y(known[-1]), 1),
        end=end,
        first_day=format_day(days.first_at, has_year=False),
        last_day=format_day(days.last_at, has_year=False),
        description=f"{describe_value('pattern', pattern.pattern)}: {end} of the level of {format_day(days.first_at)};"
        f" lowest {min(known) * 100:.0f} %, highest {max(known) * 100:.0f} %",
        url=url,
    )
