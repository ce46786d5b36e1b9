"""The result of a comparison by host or pool, where both sides are of the same ones: the worst first."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchapp.metrics import CATALOG
from benchapp.queries.charts.comparison import Pair


@dataclass(frozen=True, slots=True)
class ScopeResult:
    """The compared values of one host or pool, or of all; name: "" for all.

    metric: the first compared metric that has values. ratio: median of B / A over its series in that metric; None if
    none has a ratio. series_count: series with that metric. worse, better: significant differences among all `values`.
    worst: the significant regression with the largest ratio; None without one.
    """

    name: str
    metric: str
    ratio: float | None
    series_count: int
    values: int
    worse: int
    better: int
    worst: Pair | None


@dataclass(frozen=True, slots=True)
class ScopeResults:
    """The hosts or pools, those with a significant regression first, then by the change for the worse; their total."""

    scopes: tuple[ScopeResult, ...]
    total: ScopeResult

    @property
    def worse_count(self) -> int:
        """Return how many have a significant regression."""
        return sum(scope.worse > 0 for scope in self.scopes)


def summarize_scopes(pairs: Sequence[Pair], metrics: Sequence[str]) -> ScopeResults | None:
    """Return the results by host or pool; None if the sides are of different ones, or of a single one.

    metrics: in the order of the request.
    """
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.a_scopes != pair.b_scopes or len(pair.a_scopes) != 1:
            return None
        groups[pair.a_scopes[0]].append(pair)
    if len(groups) < 2:
        return None
    metric = next(name for name in metrics if any(pair.metric == name for pair in pairs))
    results = [_summarize(name, own, metric) for name, own in groups.items()]
    return ScopeResults(tuple(sorted(results, key=_rank)), _summarize("", pairs, metric))


def _summarize(name: str, pairs: Sequence[Pair], metric: str) -> ScopeResult:
    ratios = [pair.comparison.ratio for pair in pairs if pair.metric == metric]
    known = [ratio for ratio in ratios if ratio is not None]
    worse = [pair for pair in pairs if pair.is_significant and pair.is_worse]
    return ScopeResult(
        name=name,
        metric=metric,
        ratio=median(known) if known else None,
        series_count=len(ratios),
        values=len(pairs),
        worse=len(worse),
        better=sum(pair.is_significant and pair.is_worse is False for pair in pairs),
        worst=max(worse, key=_measure_loss, default=None),
    )


def _rank(result: ScopeResult) -> tuple[bool, float, int, str]:
    loss = 1.0 if result.ratio is None else _orient(result.ratio, result.metric)
    return (result.worse == 0, -loss, -result.worse, result.name)


def _measure_loss(pair: Pair) -> float:
    return 1.0 if pair.comparison.ratio is None else _orient(pair.comparison.ratio, pair.metric)


def _orient(ratio: float, metric: str) -> float:
    """Return a ratio that is the larger the worse."""
    if CATALOG[metric].better == "lower":
        return ratio
    return 1 / ratio if ratio > 0 else float("inf")
