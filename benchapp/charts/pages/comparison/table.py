"""A comparison as lines of a table, as points of a chart, and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, UNKNOWN, Metric, format_value
from benchapp.charts.read.comparison import Pair
from benchapp.charts.texts.comparison import describe_place, describe_result, find_shared_parts, split_title
from benchapp.framework.pages.series_marks import ShownMark, show_mark

CHART_MAXIMUM: Final = 40
_SEPARATOR: Final = " · "
_METRICS: Final = tuple(CATALOG)


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One pair as shown. number: from 1, also on the axis of the chart. parts: the title without common parts.

    rank: from 0 for the most significant. place: "fast → slow", or the hosts or pools of both sides. a_mark, b_mark:
    the open or accepted change that matters most among the series of the side.
    """

    number: int
    rank: int
    place: str
    pair: Pair
    metric: Metric
    parts: str
    a: str
    b: str
    ratio: str
    interval: str
    p: str
    result: str
    result_class: str
    a_mark: ShownMark | None
    b_mark: ShownMark | None


def make_lines(pairs: Sequence[Pair]) -> list[ComparisonLine]:
    """Return the lines by metric, within a metric in the order of the pairs, numbered from 1."""
    shared = find_shared_parts([pair.title for pair in pairs])
    grouped = sorted(enumerate(pairs), key=lambda ranked: _METRICS.index(ranked[1].metric))
    return [_make_line(number, rank, pair, shared=shared) for number, (rank, pair) in enumerate(grouped, 1)]


def make_chart(lines: Sequence[ComparisonLine], key: str) -> list[dict[str, Any]]:
    """Return the JSON of the chart: ratio with interval, for the forty most significant lines with a ratio.

    name: begins with the hosts or pools if they differ, as the chart cuts the end of a long one.
    """
    has_places = len({line.place for line in lines}) > 1
    return [
        {
            "number": line.number,
            "name": _put_place_first(line) if has_places else line.parts,
            "metric": line.metric.label,
            "better": line.metric.better,
            "place": line.place,
            "ratio": line.pair.comparison.ratio,
            "low": line.pair.comparison.low,
            "high": line.pair.comparison.high,
            "result": line.result,
            "kind": line.result_class,
            "a": line.a,
            "b": line.b,
            "url": f"#{key}-line-{line.number}",
        }
        for line in lines
        if line.rank < CHART_MAXIMUM
        and line.pair.comparison.ratio is not None
        and line.pair.comparison.ratio > 0
    ]


def _put_place_first(line: ComparisonLine) -> str:
    parts = line.parts.split(_SEPARATOR)
    return _SEPARATOR.join((line.place, *(part for part in parts if part != line.place)))


def write_markdown(title: str, names: tuple[str, str], lines: Sequence[ComparisonLine], *, link: str) -> str:
    """Return a table that GitHub, GitLab and wikis show; every text in it is escaped."""
    rows = [
        f"| {_escape(line.pair.title)} | {line.metric.label} | {line.a} | {line.b} | {line.ratio} | {line.interval} |"
        f" {line.p} | {line.result} |"
        for line in lines
    ]
    return "\n".join(
        (
            f"**{_escape(title)}**",
            "",
            f"| workload | metric | A: {_escape(names[0])} | B: {_escape(names[1])} | B / A | 95 % CI | p | |",
            "|---|---|--:|--:|--:|--:|--:|---|",
            *rows,
            "",
            f"<{link}>",
        )
    )


def _make_line(number: int, rank: int, pair: Pair, *, shared: Sequence[str]) -> ComparisonLine:
    metric, found = CATALOG[pair.metric], pair.comparison
    parts = [part for part in split_title(pair.title) if part not in shared]
    result, result_class = describe_result(pair)
    return ComparisonLine(
        number=number,
        rank=rank,
        place=describe_place(pair),
        pair=pair,
        metric=metric,
        parts=_SEPARATOR.join(parts) or pair.title,
        a=format_value(found.a.median, metric.unit),
        b=format_value(found.b.median, metric.unit),
        ratio=UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        interval=UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f}–{found.high:.3f}",
        p=UNKNOWN if pair.adjusted_p is None else _describe_p(pair.adjusted_p),
        result=result,
        result_class=result_class,
        a_mark=show_mark(pair.a_mark, metric=pair.metric),
        b_mark=show_mark(pair.b_mark, metric=pair.metric),
    )


def _describe_p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _escape(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    plain = text.replace("\n", " ").replace("\r", " ")
    return "".join(f"\\{sign}" if sign in "\\|*_`[]<>#" else sign for sign in plain)
