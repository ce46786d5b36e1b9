"""Incidents: clusters of changes, typical change, severity, common factors, suspects, matrix axes. Pure.

The typical change has sizes by metric, from the medians over the series of an incident. One noisy series, or a chance
change of another metric, does not describe an incident; the median of the metric with the most changed series does.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import combinations
from math import expm1, log1p, sqrt
from statistics import median
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.significance import MEDIAN_VARIANCE, UNKNOWN_SHARED_VARIANCE

# Distance in runs of simultaneous changes: detection can be off by one run, and schedules jitter.
_CLUSTER_RUNS: Final = 1.25
# Distance in runs within which a change joins an incident: the start of a weak change is off by some runs.
_INCIDENT_RUNS: Final = 5.0
# Lower bound, for unknown intervals.
_APART_MINIMUM: Final = timedelta(hours=1)
# The same between hosts: one may run at any time between two runs of the other, and the start of a weak change is off.
_HOSTS_RUNS: Final = 4.0


def find_event_window(intervals_s: Sequence[float]) -> timedelta:
    """Return the maximum distance of changes of one event on different hosts: 4 usual intervals, at least an hour.

    intervals_s: the usual interval of the runs of each changed series, in s.
    """
    usual = median(intervals_s or (0.0,))
    return max(timedelta(seconds=usual) * _HOSTS_RUNS, _APART_MINIMUM)


@dataclass(frozen=True, slots=True)
class Moment:
    """Start of a change, and the usual interval of the runs of its series in s."""

    key: int
    at: datetime
    interval_s: float

    @property
    def reach(self) -> timedelta:
        """Return the maximum distance of simultaneous changes."""
        return self._measure(_CLUSTER_RUNS)

    @property
    def incident_reach(self) -> timedelta:
        """Return the maximum distance to the changes of its incident."""
        return self._measure(_INCIDENT_RUNS)

    def _measure(self, runs: float) -> timedelta:
        return max(timedelta(seconds=self.interval_s) * runs, _APART_MINIMUM)


def cluster_moments(moments: Iterable[Moment]) -> list[list[Moment]]:
    """Return clusters of simultaneous moments by time, each within reach of its densest moment.

    The densest cluster is taken first, so that an earlier chance change does not split it, and no chain of small
    distances joins moments that are days apart.
    """
    clusters = []
    for waiting in _split_at_gaps(sorted(moments, key=lambda moment: (moment.at, moment.key))):
        while waiting:
            first, end = max(_list_ranges(waiting), key=lambda span: (span[1] - span[0], -span[0]))
            clusters.append(waiting[first:end])
            del waiting[first:end]
    return sorted(clusters, key=lambda cluster: (cluster[0].at, cluster[0].key))


def _split_at_gaps(moments: Sequence[Moment]) -> list[list[Moment]]:
    """Split at gaps larger than any reach, which bounds the cost for long histories."""
    parts: list[list[Moment]] = []
    for moment in moments:
        last = parts[-1][-1] if parts else None
        if last is not None and moment.at - last.at <= max(last.reach, moment.reach):
            parts[-1].append(moment)
        else:
            parts.append([moment])
    return parts


def _list_ranges(moments: Sequence[Moment]) -> Iterator[tuple[int, int]]:
    """Yield for each moment the index range (right exclusive) of those within its reach."""
    times = [moment.at for moment in moments]
    for moment in moments:
        yield bisect_left(times, moment.at - moment.reach), bisect_right(times, moment.at + moment.reach)


@dataclass(frozen=True, slots=True)
class IncidentSpan:
    """First and last start of the changes of an incident."""

    key: int
    first_at: datetime
    last_at: datetime

    def distance(self, moment: Moment) -> timedelta:
        """Return the distance of a moment from the span."""
        return max(self.first_at - moment.at, moment.at - self.last_at, timedelta(0))


def find_matching_incident(spans: Iterable[IncidentSpan], cluster: Sequence[Moment]) -> IncidentSpan | None:
    """Return the nearest incident within five runs of a cluster; None if there is none."""
    reached = [
        (distance, span.key, span.first_at, span)
        for span in spans
        if (distance := min(span.distance(moment) for moment in cluster))
        <= max(m.incident_reach for m in cluster)
    ]
    return min(reached, key=lambda one: one[:3])[3] if reached else None


# Standard errors to each end of a 95 % interval.
INTERVAL_SCORE: Final = 1.96
# Of metrics that changed in nearly as many series, the first one by preference is the typical one.
_NEARLY_AS_MANY: Final = 0.9


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The size of one change. smallest: the metric's threshold; both relative.

    deviation: standard error of the logarithm of the ratio; None if unknown.
    """

    series_id: int
    metric: str
    relative: float
    smallest: float
    deviation: float | None = None

    @property
    def multiple(self) -> float:
        """Return the size in multiples of the threshold."""
        return measure_multiple(self.relative, self.smallest)


@dataclass(frozen=True, slots=True)
class MetricSize:
    """The changes of one metric. series: number of changed series; relative: the median of their changes.

    low, high: the lowest and the highest of them. interval: of 95 %, of the median; None if unknown.
    """

    metric: str
    series: int
    relative: float
    low: float
    high: float
    smallest: float
    interval: tuple[float, float] | None = None

    @property
    def multiple(self) -> float:
        """Return the median in multiples of the threshold."""
        return measure_multiple(self.relative, self.smallest)


def measure_multiple(relative: float, smallest: float) -> float:
    """Return a relative change in multiples of the threshold; half counts as much as double."""
    return abs(log1p(max(relative, expm1(-20)))) / log1p(smallest)


def summarize_metrics(changes: Sequence[ChangeSize], *, preference: Sequence[str]) -> tuple[MetricSize, ...]:
    """Return the sizes by metric, the typical one first, then by number of series.

    The typical metric is the first one by preference that changed in at least 90 % of the series of the most frequent
    one. Of a series with several changes of a metric the largest counts. () without changes.
    """
    largest: dict[str, dict[int, ChangeSize]] = defaultdict(dict)
    for change in changes:
        known = largest[change.metric].get(change.series_id)
        if known is None or change.multiple > known.multiple:
            largest[change.metric][change.series_id] = change
    places = {metric: place for place, metric in enumerate(preference)}
    sizes = sorted(
        (_summarize(list(of.values())) for of in largest.values()),
        key=lambda size: (-size.series, places.get(size.metric, len(places)), size.metric),
    )
    if not sizes:
        return ()
    frequent = [size for size in sizes if size.series >= _NEARLY_AS_MANY * sizes[0].series]
    typical = min(frequent, key=lambda size: (places.get(size.metric, len(places)), size.metric))
    return (typical, *(size for size in sizes if size is not typical))


def _summarize(changes: Sequence[ChangeSize]) -> MetricSize:
    sizes = [change.relative for change in changes]
    middle = median(sizes)
    return MetricSize(
        changes[0].metric,
        len(sizes),
        middle,
        min(sizes),
        max(sizes),
        changes[0].smallest,
        _pool_intervals(middle, [change.deviation for change in changes]),
    )


def _pool_intervals(middle: float, deviations: Sequence[float | None]) -> tuple[float, float] | None:
    """Return the 95 % interval of a median of series; half of their variance is common, as the gate assumes."""
    known = [deviation for deviation in deviations if deviation is not None]
    if len(known) < len(deviations) or middle <= -1:
        return None
    shared = UNKNOWN_SHARED_VARIANCE if len(known) > 1 else 1.0
    share = shared + (1 - shared) * min(MEDIAN_VARIANCE / len(known), 1.0)
    reach = INTERVAL_SCORE * sqrt(share * sum(deviation**2 for deviation in known) / len(known))
    return expm1(log1p(middle) - reach), expm1(log1p(middle) + reach)


Rank = Literal["high", "medium", "low"]

# Scores from which an incident is of medium and of high severity.
_MEDIUM: Final = 3.0
_HIGH: Final = 6.0
# Multiples of the metric's threshold beyond which a loss counts no more: 39 % for IOPS.
_LARGEST: Final = 10.0
# Share of the series of the typical metric in which another metric must have changed to count.
_FREQUENT: Final = 0.5
# What the whole host, pool or volume type adds to the score, relative; so many series are as wide.
_WHOLE: Final = 1.5
_WHOLE_SERIES: Final = 40
# Factor of what is not confirmed, or was over within 20 runs.
_BRIEF: Final = 0.5


def judge_severity(sizes: Sequence[MetricSize], *, series: int, reach: float, is_brief: bool) -> Rank:
    """Return the severity of an incident with changes of at least one metric: by size × share × duration.

    sizes: by metric, the typical one first. series: number of affected ones. reach: affected share of the host, pool or
    volume type, 0 to 1. is_brief: not confirmed, or over soon. The size is the largest median of the metrics that
    changed in at least half as many series as the typical one: neither a metric that hardly changed nor a single
    outlier decides. A single series has no reach.
    """
    size = max(one.multiple for one in sizes if one.series >= _FREQUENT * sizes[0].series)
    share = min(max(series / _WHOLE_SERIES, reach if series > 1 else 0.0), 1.0)
    score = min(size, _LARGEST) * (1 + _WHOLE * share) * (_BRIEF if is_brief else 1.0)
    return "high" if score >= _HIGH else "medium" if score >= _MEDIUM else "low"


# Minimum share of the changed series with the values, and minimum difference to the share of the others.
_SHARE_MINIMUM: Final = 0.8
_DIFFERENCE_MINIMUM: Final = 0.4
FACTORS_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class CommonFactor:
    """The values of one dimension, or of two, that the changed series have and the others do not.

    share: of the changed series; share_of_others: of the others; coverage: share of changed ones among all series
    with the values; cells: number of these series.
    """

    dimensions: tuple[str, ...]
    values: tuple[Any, ...]
    share: float
    share_of_others: float
    coverage: float
    cells: int

    @property
    def score(self) -> float:
        """Return how well it separates: 1 if all changed series have it, and no other."""
        return self.share - self.share_of_others


def find_common_factors(
    changed: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    dimensions: Sequence[str],
    *,
    paired: Collection[str] = (),
    names: Collection[tuple[str, str]] = (),
    part_of: Mapping[str, str] = MappingProxyType({}),
) -> tuple[CommonFactor, ...]:
    """Return common factors, strongest first; () without any, and if all series changed or only one.

    changed, others: the values of each series by dimension; unknown values (None or "") are ignored. dimensions: the
    one that people recognize first of those that separate as well. paired: dimensions of which two are tried together,
    where that separates better. names: pairs that people say as one, preferred to their members. part_of: the dimension
    whose value includes that of another one, which is left out behind it.
    """
    if len(changed) < 2 or not others:
        return ()
    values = {
        dimension: value
        for dimension in dimensions
        if (value := _find_frequent(changed, dimension)) is not None and value != ""
    }
    singles = [_measure(changed, others, {name: value}) for name, value in values.items()]
    strong = {one.dimensions[0]: one for one in singles if one.share >= _SHARE_MINIMUM}
    pairs = [
        _measure(changed, others, {name: values[name] for name in pair})
        for pair in combinations([name for name in strong if name in paired], 2)
    ]
    ranked = [
        *(one for one in pairs if one.dimensions in names),
        *(one for one in singles if one.dimensions[0] in paired),
        *(one for one in pairs if one.dimensions not in names),
        *(one for one in singles if one.dimensions[0] not in paired),
    ]
    separating = [one for one in ranked if one.share >= _SHARE_MINIMUM and one.score >= _DIFFERENCE_MINIMUM]
    found: list[CommonFactor] = []
    # A stable order: of those that separate about as well the one that people recognize.
    for factor in sorted(separating, key=lambda one: -round(one.score, 1)):
        known = {name for one in found for name in one.dimensions}
        # A pair adds nothing to what one of its members, or of another pair, says as well.
        said = known & set(factor.dimensions) if len(factor.dimensions) > 1 else set()
        if not said and part_of.get(factor.dimensions[0]) not in known:
            found.append(factor)
    return tuple(found[:FACTORS_MAXIMUM])


def _find_frequent(changed: Sequence[Mapping[str, Any]], dimension: str) -> Any:
    counts = Counter(cell[dimension] for cell in changed)
    return max(counts.items(), key=lambda item: (item[1], str(item[0])))[0]


def _measure(
    changed: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
) -> CommonFactor:
    count, others_count = (
        sum(all(cell[name] == value for name, value in values.items()) for cell in cells)
        for cells in (changed, others)
    )
    return CommonFactor(
        tuple(values),
        tuple(values.values()),
        share=count / len(changed),
        share_of_others=others_count / len(others),
        coverage=count / max(count + others_count, 1),
        cells=count + others_count,
    )


# Minimum share of the changes that a difference coincides with.
_SUSPECT_SHARE_MINIMUM: Final = 0.2
# Minimum ratio of that share to the base rate of the difference (load and free space change all the time).
_LIFT_MINIMUM: Final = 3.0
SUSPECTS_MAXIMUM: Final = 8


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One fact that differs between the last good and the first bad run; None is unknown."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Other hosts with the same difference, by name: regressed and unaffected ones.

    here: number of affected hosts.
    """

    regressed: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()
    here: int = 1


@dataclass(frozen=True, slots=True)
class Suspect:
    """A difference and its relation to the changes.

    count: changes that it coincides with; share: of all. usual: base rate, the share of steps from run to run with a
    change of the same fact. elsewhere: other hosts with the difference.
    """

    difference: FactDifference
    count: int
    share: float
    usual: float
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @property
    def weight(self) -> float:
        """Return the rank weight: share × (1 − base rate) × (r + ½) / (r + u + 1) for r regressed, u unaffected hosts.

        The affected hosts count as regressed. The last factor is the estimate of Krichevsky and Trofimov of the share
        of hosts that regress: one host alone is ¾, a second one raises it.
        """
        regressed = self.elsewhere.here + len(self.elsewhere.regressed)
        hosts = regressed + len(self.elsewhere.unaffected)
        return self.share * (1 - self.usual) * _estimate_share(regressed, hosts)


def rank_suspects(
    differences: Iterable[Sequence[FactDifference]], *, steps: int, step_counts: Mapping[str, int]
) -> tuple[Suspect, ...]:
    """Return the suspects, most likely first; () without a recorded difference.

    differences: of each change. steps: number of steps from run to run of the same hosts; step_counts: number of
    steps with a change of the fact, by name. A fact without a change counts as half a step, so that few runs prove
    little.
    """
    each = [tuple(dict.fromkeys(found)) for found in differences]
    counts = Counter(difference for found in each for difference in found)
    suspects = [
        Suspect(
            difference, count, count / len(each), _estimate_share(step_counts.get(difference.name, 0), steps)
        )
        for difference, count in counts.items()
    ]
    significant = [
        suspect
        for suspect in suspects
        if suspect.share >= _SUSPECT_SHARE_MINIMUM and suspect.share >= _LIFT_MINIMUM * suspect.usual
    ]
    return _order(significant)[:SUSPECTS_MAXIMUM]


def weigh_elsewhere(
    suspects: Iterable[Suspect], elsewhere: Mapping[FactDifference, Elsewhere]
) -> tuple[Suspect, ...]:
    """Return suspects with their counter-evidence, most likely first."""
    none = Elsewhere()
    return _order([replace(one, elsewhere=elsewhere.get(one.difference, none)) for one in suspects])


def _order(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda s: (-s.weight, "." in s.difference.name, s.difference.name)))


def _estimate_share(count: int, total: int) -> float:
    """Return count of total by the estimator of Krichevsky and Trofimov, (count + ½) / (total + 1)."""
    return (count + 0.5) / (total + 1)


# Information is compared in steps of this many bits, so that rounding errors decide nothing.
_INFORMATION_DIGITS: Final = 2
# Share of the combinations of two dimensions that have a series in a filled matrix. A dimension with a value for nearly
# every series fills half of a matrix with any flag.
_FILLED_SHARE: Final = 0.6

_Codes = NDArray[np.intp]


def choose_axes(values: Mapping[str, Sequence[Hashable]], affected: Sequence[bool | None]) -> tuple[str, ...]:
    """Return the dimensions of the axes: two; one if no two are independent; () if none varies.

    values: one value per series for each dimension, in the order of preference. affected: one per series; None: not
    evaluated, ignored for the information. Of two axes neither determines the other. Of all such pairs the first
    counts by: at least 60 % of the combinations have a series; the most information about which series are affected
    (mutual information, in bits); the most different combinations, weighted by their series (joint entropy, in bits);
    the order of preference.
    """
    codes = {name: _encode(column) for name, column in values.items()}
    codes = {name: column for name, column in codes.items() if column.size and column.max() > 0}
    outcome = np.array([-1 if one is None else int(one) for one in affected], dtype=np.intp)
    pairs = [pair for pair in combinations(codes, 2) if _are_independent(*(codes[name] for name in pair))]
    if pairs:
        return max(pairs, key=lambda pair: _rank_pair(codes[pair[0]], codes[pair[1]], outcome))
    single = max(codes, key=lambda name: _measure_separation(codes[name], outcome), default=None)
    return () if single is None else (single,)


def determines(one: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """Return whether series with the same value of the first dimension have the same value of the second."""
    return len(set(zip(one, other, strict=True))) == len(set(one))


def _encode(column: Sequence[Hashable]) -> _Codes:
    """Return the values as numbers from 0 without gaps."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(value, len(places)) for value in column], dtype=np.intp)


def _combine(one: _Codes, other: _Codes) -> _Codes:
    return np.unique(one * (other.max() + 1) + other, return_inverse=True)[1]


def _are_independent(one: _Codes, other: _Codes) -> bool:
    return bool(_combine(one, other).max() > max(one.max(), other.max()))


def _rank_pair(one: _Codes, other: _Codes, outcome: _Codes) -> tuple[bool, float, float]:
    cells = _combine(one, other)
    combinations_count = (one.max() + 1) * (other.max() + 1)
    is_filled = bool(cells.max() + 1 >= _FILLED_SHARE * combinations_count)
    return is_filled, *_measure_separation(cells, outcome)


def _measure_separation(cells: _Codes, outcome: _Codes) -> tuple[float, float]:
    """Return the information of the cells about the outcome, and their entropy, both in bits, rounded."""
    judged = outcome >= 0
    inside, result = cells[judged], outcome[judged]
    information = (
        _find_entropy(inside) + _find_entropy(result) - _find_entropy(inside * 2 + result)
        if len(inside)
        else 0
    )
    return round(information, _INFORMATION_DIGITS), round(_find_entropy(cells), _INFORMATION_DIGITS)


def _find_entropy(codes: _Codes) -> float:
    counts = np.bincount(codes)
    shares = counts[counts > 0] / len(codes)
    return float(-(shares * np.log2(shares)).sum())
