"""Compare two sides: their series are matched on all dimensions that are not compared; results by host or pool."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import log
from statistics import median
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from benchapp.catalog.dimensions import DIMENSIONS, name_pattern
from benchapp.catalog.grammar import Filter, Term, Test
from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES, find_detected_metric
from benchapp.charts.read.comparison_sides import (
    SERIES_MAXIMUM,
    SIDE_COLUMNS,
    EnvironmentDifference,
    Side,
    SideRow,
    SideValues,
    Titles,
    count_each,
    list_environment_differences,
    name_series_sides,
    read_environment_ids,
    read_named_scopes,
    read_side,
    read_values,
)
from benchapp.detection.rules.significance import pool_runs
from benchapp.incidents.read.series_status import SeriesMark, find_worst_mark, read_series_marks
from benchapp.incidents.rules.incidents import measure_multiple
from benchapp.models import LAYOUT_FIELDS, Level
from benchapp.models.coverage import read_thresholds
from benchapp.series.read.shapes import TargetRow, names_of
from benchapp.series.rules import INTERVAL_FROM, Comparison, adjust, compare

__all__ = [
    "COMPARED_MAXIMUM",
    "DEFAULT_METRICS",
    "SERIES_IDS_MAXIMUM",
    "SERIES_MAXIMUM",
    "ComparisonResult",
    "MatchedRows",
    "NotCompared",
    "Pair",
    "Side",
    "Unmatched",
    "compare_sides",
    "find_free_columns",
    "match_rows",
]

# Half a second of work.
COMPARED_MAXIMUM: Final = 3000
# Of the parameter `series`, so that addresses stay shorter than 4 KiB.
SERIES_IDS_MAXIMUM: Final = 200
# Times the spread of a side, for sides of 3 or 4 values. Of 1 000 000 simulated comparisons of 3 with 3 values 39 are
# beyond by chance for normal logarithms, 21 for Student's t with 3 degrees of freedom.
_APART_FACTOR: Final = 10
_APART_FROM: Final = 3
DEFAULT_METRICS: Final = ("iops", "latency_p99_ns", "elapsed_s")

_VIRTUAL: Final = {"host": ("scope",), "pool": ("scope",), "pattern": ("rw", "direction")}
_UNHASHABLE: Final = "options"
_NO_ROWS: Final = np.empty(0, dtype=np.int64)
# Of the probability that a pooled difference is chance, adjusted among all pools.
_POOLED_ERROR: Final = 0.05
Verdict = Literal["worse", "better", "same", "undecided"]
Evidence = Literal["", "value", "spread", "pattern", "incident"]
# Their columns are matched on, one by one.
_UNMATCHED: Final = frozenset({"id", "target_id", "workload_id", _UNHASHABLE})


@dataclass(frozen=True, slots=True)
class Pair:
    """One metric of what both sides measured.

    title: workload and layout common to both sides. a_ids, b_ids: series. adjusted_p: among all pairs.
    smallest_change: relative, that counts, as detection has it for these series.
    is_worse: B against A by the metric's better direction; None where the difference is below the smallest change.
    is_pooled: the series of the pattern, or of the host or pool, are significantly different together, like this one.
    usual: where a side has too few values for an interval, how far the series' runs usually lie from their median, as
    (p10, p90) / median; None where that is not known either.
    a_mark, b_mark: the open or accepted change that matters most among those that most values of the side follow.
    a_scopes, b_scopes: of the series, in alphabetical order.
    """

    title: str
    metric: str
    direction: str
    rw: str
    comparison: Comparison
    adjusted_p: float | None
    smallest_change: float
    is_worse: bool | None
    is_pooled: bool
    usual: tuple[float, float] | None
    a_ids: tuple[int, ...]
    b_ids: tuple[int, ...]
    a_mark: SeriesMark | None
    b_mark: SeriesMark | None
    a_scopes: tuple[str, ...]
    b_scopes: tuple[str, ...]

    @property
    def is_usual(self) -> bool | None:
        """Return whether the ratio is within the usual range of the series; None if unknown."""
        ratio = self.comparison.ratio
        return None if self.usual is None or ratio is None else self.usual[0] <= ratio <= self.usual[1]

    @property
    def has_few_runs(self) -> bool:
        """Return whether a side has too few runs for an interval."""
        return min(self.comparison.a.n, self.comparison.b.n) < INTERVAL_FROM

    @property
    def is_apart(self) -> bool:
        """Return whether sides too small for an interval are clearly apart: by ten times their p90 / p10, as logs."""
        a, b = self.comparison.a, self.comparison.b
        if not self.has_few_runs or min(a.n, b.n) < _APART_FROM or min(a.p10, b.p10) <= 0:
            return False
        spread = max(log(side.p90 / side.p10) for side in (a, b))
        return self.is_worse is not None and abs(log(b.median / a.median)) >= _APART_FACTOR * spread

    @property
    def is_significant(self) -> bool:
        """Return whether the interval excludes 1 and the adjusted p is below 0.05."""
        return self.comparison.is_significant and self.adjusted_p is not None and self.adjusted_p < 0.05

    @property
    def evidence(self) -> Evidence:
        """Return why B is worse or better by the smallest change or more; "" if it is not.

        The value alone: significantly, or clearly apart. With its pattern. By the open regression of one side.
        """
        if self.is_worse is None:
            return ""
        if self.is_significant or self.is_apart:
            return "value" if self.is_significant else "spread"
        if self.is_pooled:
            return "pattern"
        regressed = [self._has_regressed(mark) for mark in (self.a_mark, self.b_mark)]
        is_told = self.a_ids == self.b_ids and regressed == [not self.is_worse, self.is_worse]
        return "incident" if is_told else ""

    def _has_regressed(self, mark: SeriesMark | None) -> bool:
        limited = find_detected_metric(self.metric, SMALLEST_CHANGES)
        return mark is not None and mark.state == "open" and mark.is_regression and mark.metric == limited

    @property
    def is_different(self) -> bool:
        """Return whether B is worse or better."""
        return bool(self.evidence)

    @property
    def is_beyond(self) -> bool:
        """Return whether the whole interval is the smallest change or more away from 1."""
        ends = (self.comparison.low, self.comparison.high)
        return self.comparison.is_significant and all(
            end is not None and measure_multiple(end - 1, self.smallest_change) >= 1 for end in ends
        )

    @property
    def verdict(self) -> Verdict:
        """Return the verdict; "same" if the interval excludes the smallest change."""
        if self.is_different:
            return "worse" if self.is_worse else "better"
        return "same" if is_within(self.comparison, self.smallest_change) else "undecided"

    @property
    def size(self) -> float:
        """Return the difference in multiples of the smallest change; half counts as much as double."""
        return measure_multiple((self.comparison.ratio or 1) - 1, self.smallest_change)


def is_within(comparison: Comparison, smallest_change: float) -> bool:
    """Return whether the interval is within the smallest change."""
    ends = [end for end in (comparison.low, comparison.high) if end is not None]
    return bool(ends) and all(measure_multiple(end - 1, smallest_change) < 1 for end in ends)


@dataclass(frozen=True, slots=True)
class PooledPattern:
    """One metric of several series: each run counts once, with the mean of its values relative to the medians of A.

    pattern: of the series; "" of all of a host or pool. is_worse: B against A, if significant, and the median of the
    series differs by the smallest change or more.
    """

    a_scopes: tuple[str, ...]
    b_scopes: tuple[str, ...]
    pattern: str
    metric: str
    comparison: Comparison
    smallest_change: float
    is_worse: bool | None


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A series without a matching one on the other side."""

    series: int
    title: str


@dataclass(frozen=True, slots=True)
class NotCompared:
    """One latency of what both sides measured, but of different kinds. a_series, b_series: ids."""

    title: str
    metric: str
    a_series: tuple[int, ...]
    b_series: tuple[int, ...]
    a_latency_kinds: Annotated[tuple[str, ...], Meta(description="lat (total), clat (completion)")]
    b_latency_kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Both sides. pairs: differences first. pooled: by pattern. free: names of the compared columns that differ.

    counts: series on each side; is_cut: a side has more than SERIES_MAXIMUM, or there are more than COMPARED_MAXIMUM
    values, whose rest is left out. scopes: hosts and pools of the compared values of each side, of all if none is
    compared, in alphabetical order. environment: of the runs of the compared values; of sides with the same scopes, of
    environment_scopes, those whose own runs differ in it.
    values_maximum: newest values of each series that are compared, if the sides have too many series for all.
    labels: of two compared series, by what they differ in; ("", "") for other sides.
    """

    pairs: tuple[Pair, ...]
    pooled: tuple[PooledPattern, ...]
    not_compared: tuple[NotCompared, ...]
    only_a: tuple[Unmatched, ...]
    only_b: tuple[Unmatched, ...]
    free: tuple[str, ...]
    environment: tuple[EnvironmentDifference, ...]
    environment_scopes: tuple[str, ...]
    counts: tuple[int, int]
    is_cut: bool
    scopes: tuple[tuple[str, ...], tuple[str, ...]]
    labels: tuple[str, str]
    values_maximum: int | None


def compare_sides(
    a: Side,
    b: Side,
    *,
    common: Filter | None = None,
    series_ids: Sequence[int] = (),
    metrics: Sequence[str] = DEFAULT_METRICS,
) -> ComparisonResult:
    """Match the series of two sides and compare their metrics; at most eight queries, and one per metric.

    common, series_ids: hold for both sides; no series_ids: all. Matched on every dimension but those that a side's
    filter names, and what changes with those by nature. Targets of two hosts, pools or layouts are matched by their
    names, the rest without. Two runs are matched on their workload alone, two series in any case. A word of a side
    that is the name of one host or pool stands for it.
    """
    shared = (common or Filter()).without_facts()
    a, b = (_add_terms(side, common) for side in _resolve_names(a, b))
    first, second = (read_side(side, shared, series_ids=series_ids) for side in (a, b))
    labels = "", ""
    if a.series_id is not None and b.series_id is not None:
        free = _find_differing(first, second)
        groups: dict[Hashable, MatchedRows] = {"both": (first, second)}
        if first and second:
            labels = name_series_sides(first[0], second[0], free)
    else:
        free = find_free_columns(a, b)
        groups, free = _match_targets(match_rows(first[:SERIES_MAXIMUM], second[:SERIES_MAXIMUM], free), free)
    both = {key: sides for key, sides in groups.items() if sides[0] and sides[1]}
    most = COMPARED_MAXIMUM // max(1, len(metrics))
    is_cut = max(len(first), len(second)) > SERIES_MAXIMUM or len(both) > most
    both = dict(islice(both.items(), most))
    compared = [[row for sides in both.values() for row in sides[place]] for place in (0, 1)]
    wanted = [
        read_values(side, [row["id"] for row in rows], metrics)
        for side, rows in zip((a, b), compared, strict=True)
    ]
    found = list(_compare_groups(both.values(), wanted, metrics))
    counted = [
        np.unique(np.concatenate([each.rows[place] for each in found] or [_NO_ROWS])) for place in (0, 1)
    ]
    scopes = (
        _list_scopes([row for each in found for row in each.sides[0]] or first),
        _list_scopes([row for each in found for row in each.sides[1]] or second),
    )
    environments = read_environment_ids(
        np.concatenate([side.run_ids[rows] for side, rows in zip(wanted, counted, strict=True)])
    )
    of_sides = np.split(environments, [len(counted[0])])
    changed = scopes[0]
    if scopes[0] == scopes[1] and "scope" not in free:
        changed, of_sides = _select_changed(found, counted, of_sides)
    pairs, pools = _make_pairs(found, wanted, free)
    return ComparisonResult(
        pairs=pairs,
        pooled=pools,
        not_compared=tuple(_list_not_compared(both.values(), wanted, metrics, free)),
        only_a=_list_unmatched(groups, place=0),
        only_b=_list_unmatched(groups, place=1),
        free=_list_differing(both.values(), free),
        environment=list_environment_differences(*map(count_each, of_sides)),
        environment_scopes=changed,
        counts=(min(len(first), SERIES_MAXIMUM), min(len(second), SERIES_MAXIMUM)),
        is_cut=is_cut,
        scopes=scopes,
        labels=labels,
        values_maximum=min((one.cut_at for one in wanted if one.cut_at), default=None),
    )


def _resolve_names(a: Side, b: Side) -> tuple[Side, Side]:
    """Return both sides with terms for the words that are the name of one host or pool."""
    scopes = read_named_scopes({*a.filter.words, *b.filter.words})
    return _resolve_words(a, scopes), _resolve_words(b, scopes)


def _resolve_words(side: Side, scopes: Mapping[str, str]) -> Side:
    words = side.filter.words
    named = [scopes[word].partition(":") for word in words if word in scopes]
    terms = tuple(Term(kind, (Test("=", (name,)),)) for kind, _, name in named)
    rest = tuple(word for word in words if word not in scopes)
    return replace(side, filter=Filter(side.filter.terms + terms, rest))


def _add_terms(side: Side, common: Filter | None) -> Side:
    """Return the side with the common terms for facts of runs: the same run matches all of them."""
    terms = common.fact_terms if common else ()
    return replace(side, filter=Filter(side.filter.terms + terms, side.filter.words)) if terms else side


MatchedRows = tuple[list[SideRow], list[SideRow]]


def find_free_columns(a: Side, b: Side) -> frozenset[str]:
    """Return the columns that two sides compare, on which series are not matched."""
    if a.run_id is not None or b.run_id is not None:
        return frozenset({"scope", *names_of(TargetRow)})
    # Facts concern runs: both sides may have runs of one series.
    sides = (a.filter.without_facts().terms, b.filter.without_facts().terms)
    named = {term.dimension for term in {*sides[0]} ^ {*sides[1]}}
    moving = {companion for name in named for companion in DIMENSIONS[name].companions}
    return frozenset(column for name in named | moving for column in _VIRTUAL.get(name, (name,)))


def _find_differing(first: Sequence[SideRow], second: Sequence[SideRow]) -> frozenset[str]:
    """Return the columns in which two series differ; empty where one is missing."""
    return frozenset(
        name
        for one, other in zip(first, second, strict=False)
        for name in SIDE_COLUMNS
        if name not in _UNMATCHED and one[name] != other[name]
    )


def _list_scopes(rows: Iterable[SideRow]) -> tuple[str, ...]:
    return tuple(sorted({row["scope"] for row in rows}))


def match_rows(
    first: Sequence[SideRow], second: Sequence[SideRow], free: frozenset[str]
) -> dict[Hashable, MatchedRows]:
    """Return the series of both sides that are equal in all columns but the compared ones (free), by the equal ones.

    A side without such a series is empty.
    """
    groups: dict[Hashable, MatchedRows] = defaultdict(lambda: ([], []))
    for place, rows in enumerate((first, second)):
        for row in rows:
            groups[_make_key(row, free)][place].append(row)
    return groups


def _match_targets(
    groups: Mapping[Hashable, MatchedRows], free: frozenset[str]
) -> tuple[dict[Hashable, MatchedRows], frozenset[str]]:
    """Match what is left of both sides without the names of targets: hosts and layouts have different disks."""
    if not free & {"scope", *LAYOUT_FIELDS} or "target_name" in free:
        return dict(groups), free
    alone = [sides for sides in groups.values() if not all(sides)]
    first, second = ([row for sides in alone for row in sides[place]] for place in (0, 1))
    rest = match_rows(first, second, free | {"target_name"})
    paired = {("any target", key): sides for key, sides in rest.items() if all(sides)}
    if not paired:
        return dict(groups), free
    taken = {row["id"] for sides in paired.values() for rows in sides for row in rows}
    kept = {
        key: sides
        for key, sides in groups.items()
        if all(sides) or not taken.issuperset(row["id"] for rows in sides for row in rows)
    }
    return kept | paired, free | {"target_name"}


def _make_key(row: SideRow, free: frozenset[str]) -> Hashable:
    options = tuple(sorted((name, str(value)) for name, value in row[_UNHASHABLE].items()))
    kept = (row[name] for name in SIDE_COLUMNS if name not in free and name not in _UNMATCHED)
    return (*kept, options)


@dataclass(frozen=True, slots=True)
class _Found:
    """Values of one metric that both sides have. rows: of each side, in its `SideValues`."""

    sides: MatchedRows
    metric: str
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    comparison: Comparison


def _select_changed(
    found: Sequence[_Found], counted: Sequence[NDArray[np.int64]], environments: Sequence[NDArray[np.int64]]
) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """Return the scopes that had other environments on one side than on the other, and the environments of their runs.

    counted: indexes of the compared values of each side; environments: of each of these.
    """
    own: dict[str, list[list[NDArray[np.int64]]]] = defaultdict(lambda: [[], []])
    for each in found:
        for place, rows in enumerate(each.rows):
            own[each.sides[place][0]["scope"]][place].append(rows)
    changed, selected = [], [np.empty(0, np.int64), np.empty(0, np.int64)]
    for scope in sorted(own):
        places = [
            np.searchsorted(all_rows, np.unique(np.concatenate(rows)))
            for all_rows, rows in zip(counted, own[scope], strict=True)
        ]
        sides = [of_side[rows] for of_side, rows in zip(environments, places, strict=True)]
        if set(sides[0].tolist()) != set(sides[1].tolist()):
            changed.append(scope)
            selected = [np.concatenate(each) for each in zip(selected, sides, strict=True)]
    return tuple(changed), selected


def _compare_groups(
    groups: Iterable[MatchedRows], values: Sequence[SideValues], metrics: Sequence[str]
) -> Iterator[_Found]:
    for sides in groups:
        ids = [[row["id"] for row in rows] for rows in sides]
        for metric in metrics:
            a, b = (known.find(own, metric) for own, known in zip(ids, values, strict=True))
            if len(a) and len(b) and len(_list_kinds(ids, values, metric)) < 2:
                comparison = compare(values[0].columns[metric][a], values[1].columns[metric][b])
                yield _Found(sides, metric, (a, b), comparison)


def _list_kinds(ids: Sequence[Sequence[int]], values: Sequence[SideValues], metric: str) -> set[str]:
    return set().union(*(known.list_kinds(own, metric) for own, known in zip(ids, values, strict=True)))


def _list_not_compared(
    groups: Iterable[MatchedRows], values: Sequence[SideValues], metrics: Sequence[str], free: frozenset[str]
) -> Iterator[NotCompared]:
    """Yield the latencies that both sides have, but of different kinds."""
    titles = Titles(free)
    for sides in groups:
        ids = [tuple(row["id"] for row in rows) for rows in sides]
        for metric in metrics:
            if len(_list_kinds(ids, values, metric)) < 2:
                continue
            known = [side.find(own, metric) for own, side in zip(ids, values, strict=True)]
            if all(map(len, known)):
                kinds = [
                    tuple(sorted(side.list_kinds(own, metric))) for own, side in zip(ids, values, strict=True)
                ]
                yield NotCompared(titles.describe(sides[0][0]), metric, *ids, *kinds)


def _make_pairs(
    found: Sequence[_Found], values: Sequence[SideValues], free: frozenset[str]
) -> tuple[tuple[Pair, ...], tuple[PooledPattern, ...]]:
    """Return the pairs, differences first, and the pools of patterns."""
    adjusted = adjust([each.comparison.p for each in found])
    usual = _read_usual(found)
    marks = _read_marks(found)
    thresholds = read_thresholds({row["id"] for each in found for rows in each.sides for row in rows})
    smallest_changes = [_find_smallest(each, thresholds) for each in found]
    pools = _pool(found, values, smallest_changes)
    titles = Titles(free)
    pairs = []
    for each, p, smallest in zip(found, adjusted, smallest_changes, strict=True):
        row = each.sides[0][0]
        before, after = each.comparison.a.median, each.comparison.b.median
        is_worse = _find_direction(each.metric, before, after, ratio=each.comparison.ratio, smallest=smallest)
        a_ids, b_ids = (tuple(row["id"] for row in rows) for rows in each.sides)
        a_mark, b_mark = (
            find_worst_mark(
                mark for id_ in ids if (mark := marks[each.metric].get(id_)) and side.has_reached(rows, mark)
            )
            for ids, side, rows in zip((a_ids, b_ids), values, each.rows, strict=True)
        )
        pairs.append(
            Pair(
                title=titles.describe(row),
                metric=each.metric,
                direction=row["direction"],
                rw=row["rw"],
                comparison=each.comparison,
                adjusted_p=p,
                smallest_change=smallest,
                is_worse=is_worse,
                is_pooled=is_worse is not None
                and any(key in pools and pools[key].is_worse is is_worse for key in _name_pools(each)),
                usual=usual.get((row["id"], each.metric)),
                a_ids=a_ids,
                b_ids=b_ids,
                a_mark=a_mark,
                b_mark=b_mark,
                a_scopes=_list_scopes(each.sides[0]),
                b_scopes=_list_scopes(each.sides[1]),
            )
        )
    return tuple(sorted(pairs, key=_rank)), tuple(pool for pool in pools.values() if pool.pattern)


def _find_smallest(found: _Found, thresholds: Mapping[int, Mapping[str, float]]) -> float:
    # The maximum has the threshold of p99.
    limited = find_detected_metric(found.metric, SMALLEST_CHANGES)
    return min(thresholds[row["id"]][limited] for rows in found.sides for row in rows)


_PooledKey = tuple[tuple[str, ...], tuple[str, ...], str, str]


def _name_pools(found: _Found) -> list[_PooledKey]:
    """Return the pools of a value: of its pattern, and of its host or pool."""
    a, b = map(_list_scopes, found.sides)
    row = found.sides[0][0]
    return [(a, b, pattern, found.metric) for pattern in (name_pattern(row["rw"], row["direction"]), "")]


def _pool(
    found: Sequence[_Found], values: Sequence[SideValues], smallest_changes: Sequence[float]
) -> dict[_PooledKey, PooledPattern]:
    """Compare the series of each pattern, and of each host or pool, together; a single one is a pool, too.

    As the gate does for a build: what all have in common is clearer in their mean, and there are fewer tests.
    """
    groups: dict[_PooledKey, list[tuple[_Found, float]]] = defaultdict(list)
    for each, smallest in zip(found, smallest_changes, strict=True):
        if each.comparison.a.median > 0:
            for key in _name_pools(each):
                groups[key].append((each, smallest))
    comparisons = []
    for (*_, metric), members in groups.items():
        medians = [each.comparison.a.median for each, _ in members]
        sides = (
            pool_runs(
                [
                    (side.run_ids[rows], side.columns[metric][rows])
                    for each, _ in members
                    for rows in (each.rows[place],)
                ],
                medians,
            )
            for place, side in enumerate(values)
        )
        comparisons.append(compare(*(list(side.values()) for side in sides)))
    adjusted = adjust(
        [
            each.p if len(members) > 1 else None
            for each, members in zip(comparisons, groups.values(), strict=True)
        ]
    )
    pools = {}
    for (key, members), comparison, p in zip(groups.items(), comparisons, adjusted, strict=True):
        smallest = min(each for _, each in members)
        is_significant = comparison.is_significant and p is not None and p < _POOLED_ERROR
        middle = median(each.comparison.b.median / each.comparison.a.median for each, _ in members)
        pools[key] = PooledPattern(
            *key,
            comparison=comparison,
            smallest_change=smallest,
            is_worse=_find_direction(key[-1], 1, middle, ratio=middle, smallest=smallest)
            if is_significant
            else None,
        )
    return pools


def _find_direction(
    metric: str, before: float, after: float, *, ratio: float | None, smallest: float
) -> bool | None:
    """Return whether B is worse; None if the difference is below the smallest change."""
    if before == after or (ratio is not None and measure_multiple(ratio - 1, smallest) < 1):
        return None
    return (after > before) == (CATALOG[metric].better == "lower")


def _read_usual(found: Iterable[_Found]) -> dict[tuple[int, str], tuple[float, float]]:
    """Return p10 and p90 over the median, by (series, metric), of pairs with too few values for an interval."""
    few = {
        (each.sides[0][0]["id"], each.metric)
        for each in found
        if min(each.comparison.a.n, each.comparison.b.n) < INTERVAL_FROM
    }
    rows = Level.objects.filter(
        is_current=True, series_id__in={series_id for series_id, _ in few}, n__gte=INTERVAL_FROM, median__gt=0
    ).values_list("series_id", "metric", "p10", "median", "p90")
    return {
        (series_id, metric): (p10 / median, p90 / median)
        for series_id, metric, p10, median, p90 in rows
        if (series_id, metric) in few
    }


def _read_marks(found: Iterable[_Found]) -> dict[str, dict[int, SeriesMark]]:
    """Return the marks of the compared series, by metric and series id; one query per metric."""
    ids: dict[str, set[int]] = defaultdict(set)
    for each in found:
        ids[each.metric].update(row["id"] for rows in each.sides for row in rows)
    return {metric: read_series_marks(sorted(some), metric=metric) for metric, some in ids.items()}


def _rank(pair: Pair) -> tuple[int, float, str, str]:
    """Sort differences first, then significant ones that are too small, then ratios by their distance from 1."""
    ratio = pair.comparison.ratio
    distance = max(ratio, 1 / ratio) if ratio and ratio > 0 else 1.0
    return (2 - pair.is_significant - 2 * pair.is_different, -distance, pair.title, pair.metric)


def _list_unmatched(groups: Mapping[Hashable, MatchedRows], *, place: int) -> tuple[Unmatched, ...]:
    titles = Titles(frozenset())
    return tuple(
        Unmatched(row["id"], titles.describe(row))
        for sides in groups.values()
        if not sides[1 - place]
        for row in sides[place]
    )


def _list_differing(groups: Iterable[MatchedRows], free: frozenset[str]) -> tuple[str, ...]:
    """Return the compared columns in which matched series differ, in the order of the registry."""
    differing = {
        name
        for first, second in groups
        for name in free
        if {str(row[name]) for row in first} != {str(row[name]) for row in second}
    }
    return tuple(name for name in SIDE_COLUMNS if name in differing)


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

    verdict: "worse" if any value is, "same" if the interval of each pattern excludes the smallest change, and no value
    has an interval beyond it. differences: the largest first. undecided_patterns: the widest first. worse, better,
    undecided: among all `values`.
    """

    scope: str
    verdict: Verdict
    differences: tuple[PatternDifference, ...]
    undecided_patterns: tuple[PooledPattern, ...]
    values: int
    worse: int
    better: int
    undecided: int


def summarize_scopes(found: ComparisonResult) -> tuple[list[ScopeResult], ScopeResult] | None:
    """Return the results by host or pool, the worse ones first, by their largest difference for the worse; their total.

    None if the sides are of different hosts or pools, or of a single one.
    """
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in found.pairs:
        if pair.a_scopes != pair.b_scopes or len(pair.a_scopes) != 1:
            return None
        groups[pair.a_scopes[0]].append(pair)
    if len(groups) < 2:
        return None
    pools: dict[str, list[PooledPattern]] = defaultdict(list)
    for pool in found.pooled:
        pools[pool.a_scopes[0]].append(pool)
    results = [_summarize(scope, own, pools[scope]) for scope, own in groups.items()]
    return sorted(results, key=_rank_scope), _summarize("", found.pairs, found.pooled)


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


def _summarize(scope: str, pairs: Sequence[Pair], pools: Sequence[PooledPattern]) -> ScopeResult:
    counts = Counter(pair.verdict for pair in pairs)
    undecided = [pool for pool in pools if not is_within(pool.comparison, pool.smallest_change)]
    pooled = {(pool.pattern, pool.metric) for pool in pools}
    is_same = not undecided and all(
        (name_pattern(pair.rw, pair.direction), pair.metric) in pooled and not pair.is_beyond
        for pair in pairs
    )
    verdict: Verdict = "same" if is_same else "undecided"
    if counts["worse"] or counts["better"]:
        verdict = "worse" if counts["worse"] else "better"
    return ScopeResult(
        scope=scope,
        verdict=verdict,
        differences=summarize_patterns(pairs),
        undecided_patterns=tuple(sorted(undecided, key=_measure_width, reverse=True)),
        values=len(pairs),
        worse=counts["worse"],
        better=counts["better"],
        undecided=counts["undecided"],
    )


def _measure_width(pool: PooledPattern) -> float:
    """Return the width of the interval; 0 without one."""
    return (pool.comparison.high or 0) - (pool.comparison.low or 0)


def _rank_scope(result: ScopeResult) -> tuple[float, float, bool, str]:
    worse, better = (
        max((each.size for each in result.differences if each.is_worse is is_worse), default=0.0)
        for is_worse in (True, False)
    )
    return (-worse, -better, result.verdict == "same", result.scope)
