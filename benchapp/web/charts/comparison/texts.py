"""The reading of a comparison, in words."""

from typing import Final

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import write_filter
from benchapp.metrics import CATALOGUE, format_value
from benchapp.queries.charts.comparison import Compared, Pair, Side

_NAMED_MAXIMUM: Final = 3
_SCOPE: Final = "host or pool"


def say_side(side: Side) -> str:
    """Say one side in a few words: "host:db-1, 1 May 2026 to 7 May 2026"; "all" where it asks for nothing."""
    said = [f"run {side.run_id}"] if side.run_id is not None else []
    if text := write_filter(side.filter):
        said.append(text)
    if side.from_at:
        said.append(f"from {side.from_at:%-d %b %Y}")
    if side.to_at:
        said.append(f"until {side.to_at:%-d %b %Y, %H:%M} UTC")
    return ", ".join(said) or "all"


def say_comparison_title(found: Compared, a: str, b: str) -> str:
    """Say what is compared, and the answer."""
    if not found.pairs:
        return f"{b} against {a}: nothing in common"
    worse, better = (sum(_is(pair, is_worse=flag) for pair in found.pairs) for flag in (True, False))
    few = _count_few(found)
    if few == len(found.pairs):
        answer = f"{_count(few, 'value')}, too few runs to say"
    elif not worse and not better:
        answer = f"no clear difference in {_count(len(found.pairs), 'value')}"
    else:
        answer = f"{worse} of {len(found.pairs)} clearly worse, {better} better"
    return f"{b} against {a}: {answer}"


def say_comparison(found: Compared, a: str, b: str) -> list[str]:
    """Return sentences: the greatest differences, how sure, what was matched, what differs around."""
    if not found.pairs:
        return [_say_nothing(found, a, b)]
    clear = [pair for pair in found.pairs if pair.is_clear]
    said = [_say_pair(pair) for pair in clear[:_NAMED_MAXIMUM]]
    if len(clear) > _NAMED_MAXIMUM:
        more = len(clear) - _NAMED_MAXIMUM
        differ = "1 more value clearly differs" if more == 1 else f"{more} more values clearly differ"
        said.append(f"{differ}; the table has them all.")
    few = _count_few(found)
    if few:
        said.append(
            f"{few} of {len(found.pairs)} have fewer than five runs on a side, too few for an interval: a difference"
            " there may be chance."
        )
    if found.free:
        names = ", ".join(
            DIMENSIONS[name].label.lower() if name in DIMENSIONS else _SCOPE for name in found.free
        )
        said.append(f"Under comparison, and so not matched: {names}.")
    if found.environment:
        lines = [
            f"{line.name} ({' or '.join(line.a[:2])} → {' or '.join(line.b[:2])})"
            for line in found.environment[:_NAMED_MAXIMUM]
        ]
        more = len(found.environment) - len(lines)
        said.append(f"Around them differ: {', '.join(lines)}{f' and {more} more' if more else ''}.")
    else:
        said.append("Nothing that is recorded of the environment differs.")
    return said


def _say_nothing(found: Compared, a: str, b: str) -> str:
    first, second = found.counts
    if not first or not second:
        empty = [name for name, count in ((a, first), (b, second)) if not count]
        return f"Nothing was measured that fits {' nor '.join(empty)}. Widen the filter or the days."
    return (
        f"A has {_count(first, 'series', 'series')}, B {_count(second, 'series', 'series')}, and none has a"
        " counterpart that is the same in all else; below stands what each has."
    )


def _say_pair(pair: Pair) -> str:
    metric, found = CATALOGUE[pair.metric], pair.comparison
    before, after = (format_value(spread.median, metric.unit) for spread in (found.a, found.b))
    word = "worse" if pair.is_worse else "better"
    sure = (
        ""
        if found.low is None or found.high is None
        else f"; 95 % interval {_percent(found.low)} to {_percent(found.high)}"
    )
    change = "" if found.ratio is None else f" ({_percent(found.ratio)}{sure})"
    runs = f"{found.a.n} and {found.b.n} runs"
    subject = f"{pair.title.split(' · ')[0]}, {metric.label}"
    return f"{subject}: {before} → {after}{change}, {word}, {_say_effect(pair)}; {runs}."


def _say_effect(pair: Pair) -> str:
    """Say how far the runs of both sides lie apart: "a large effect"."""
    return f"a {pair.comparison.effect} effect"


def _percent(ratio: float) -> str:
    percent = (ratio - 1) * 100
    return f"{'+' if percent > 0 else '−' if percent < 0 else '±'}{abs(percent):.1f} %"


def _count_few(found: Compared) -> int:
    """Return how many values have too few runs for an interval."""
    return sum(pair.has_few_runs for pair in found.pairs)


def _is(pair: Pair, *, is_worse: bool) -> bool:
    return pair.is_clear and pair.is_worse is is_worse


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
