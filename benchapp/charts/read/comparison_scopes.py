"""What a comparison found: its differences by pattern, and by host or pool, where both sides are of the same ones."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchapp.catalog.dimensions import name_pattern
from benchapp.charts.read.comparison import Pair


@dataclass(frozen=True, slots=True)
class PatternDifference:
    """The differences of one pattern in one metric and direction.

    relative: median of B / A − 1 over these; None if none has a ratio. count: of them; series_count: values of the
    pattern in that metric. largest: of them. size: that of the median, in multiples of the smallest change.
    """

    pattern: str
    metric: str
    is_worse: bool
    relative: float | None
    count: int
    series_count: int
    largest: Pair
    size: float


@dataclass(frozen=True, slots=True)
class ScopeResult:
    """The compared values of one host or pool, or of all; scope: "" for all.

    differences: the largest first. worse, better: differences among all `values`.
    """

    scope: str
    differences: tuple[PatternDifference, ...]
    values: int
    worse: int
    better: int


@dataclass(frozen=True, slots=True)
class ScopeResults:
    """The hosts or pools: the worse ones first, by their largest difference for the worse; their total."""

    scopes: tuple[ScopeResult, ...]
    total: ScopeResult

    @property
    def worse_count(self) -> int:
        """Return how many are worse."""
        return sum(scope.worse > 0 for scope in self.scopes)


def summarize_scopes(pairs: Sequence[Pair]) -> ScopeResults | None:
    """Return the results by host or pool; None if the sides are of different ones, or of a single one."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.a_scopes != pair.b_scopes or len(pair.a_scopes) != 1:
            return None
        groups[pair.a_scopes[0]].append(pair)
    if len(groups) < 2:
        return None
    results = [_summarize(scope, own) for scope, own in groups.items()]
    return ScopeResults(tuple(sorted(results, key=_rank)), _summarize("", pairs))


def summarize_patterns(pairs: Iterable[Pair]) -> tuple[PatternDifference, ...]:
    """Return the differences by pattern, metric and direction, the largest first."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[name_pattern(pair.rw, pair.direction), pair.metric].append(pair)
    found = [
        _make_difference(pattern, metric, is_worse, different, series_count=len(own))
        for (pattern, metric), own in groups.items()
        for is_worse in (True, False)
        if (different := [pair for pair in own if pair.is_different and pair.is_worse is is_worse])
    ]
    return tuple(sorted(found, key=lambda each: (-each.size, each.pattern, each.metric)))


def _make_difference(
    pattern: str, metric: str, is_worse: bool, pairs: Sequence[Pair], *, series_count: int
) -> PatternDifference:
    ratios = [pair.comparison.ratio for pair in pairs if pair.comparison.ratio is not None]
    return PatternDifference(
        pattern=pattern,
        metric=metric,
        is_worse=is_worse,
        relative=median(ratios) - 1 if ratios else None,
        count=len(pairs),
        series_count=series_count,
        largest=max(pairs, key=lambda pair: pair.size),
        size=median(pair.size for pair in pairs),
    )


def _summarize(scope: str, pairs: Sequence[Pair]) -> ScopeResult:
    differences = summarize_patterns(pairs)
    return ScopeResult(
        scope=scope,
        differences=differences,
        values=len(pairs),
        worse=sum(each.count for each in differences if each.is_worse),
        better=sum(each.count for each in differences if not each.is_worse),
    )


def _rank(result: ScopeResult) -> tuple[float, float, str]:
    worse, better = (
        max((each.size for each in result.differences if each.is_worse is is_worse), default=0.0)
        for is_worse in (True, False)
    )
    return (-worse, better, result.scope)
