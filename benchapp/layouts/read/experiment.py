"""An A/B experiment: the runs of two arms since its start, paired, with their result and the required number."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, KIND_NAMES, SMALLEST_CHANGES
from benchapp.charts.read.comparison import MatchedRows, find_free_columns, match_rows
from benchapp.charts.read.comparison_sides import (
    SERIES_MAXIMUM,
    VALUES_MAXIMUM,
    Side,
    SideRow,
    SideValues,
    Titles,
    read_side,
    read_values,
)
from benchapp.layouts.rules.experiments import (
    PAIRS_MINIMUM,
    ArmRuns,
    DriftCheck,
    PairedResult,
    check_drift,
    count_required_pairs,
    evaluate_pairs,
    order_arms,
    pair_runs,
)
from benchapp.models import Level

# That any interval of the experiment misses its ratio at any look.
EXPERIMENT_ERROR_RATE: Final = 0.05
EXPERIMENT_ROWS_MAXIMUM: Final = 50
EXPERIMENT_METRICS: Final = tuple(SMALLEST_CHANGES)
DIFFERENCE_MINIMUM: Final = 0.001
DIFFERENCE_MAXIMUM: Final = 0.5
# Distance of the 10th and the 90th percentile of a normal distribution, in standard deviations.
_P10_TO_P90: Final = 2.563


class BadExperiment(Exception):
    """An experiment that cannot be evaluated; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Two arms and what to find. common: holds for both arms.

    from_at: its start, inclusive; to_at: exclusive; None is open. difference: the smallest relative one to find, from
    DIFFERENCE_MINIMUM to DIFFERENCE_MAXIMUM; None for that from which on a change of the metric is reported.
    """

    a: Filter
    b: Filter
    from_at: datetime
    to_at: datetime | None = None
    common: Filter = field(default_factory=Filter)
    metric: str = "iops"
    difference: float | None = None

    @property
    def smallest_difference(self) -> float:
        """Return the relative difference to find."""
        return SMALLEST_CHANGES[self.metric] if self.difference is None else self.difference


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm of a row. runs: with a value. median: of the paired runs, in the metric's base unit; None without."""

    series_ids: tuple[int, ...]
    runs: int
    median: float | None


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """Series of both arms that are equal in all that is not compared.

    result: None without pairs. is_worse: B against A by the metric's better direction; None unless they differ.
    spread: standard deviation of the logarithm of the ratio of a pair: measured from five pairs on, before that √2
    times the relative one of the current level; None if neither is known. required_pairs: to find the difference; None
    for more than PLANNED_PAIRS_MAXIMUM or without a spread.
    """

    title: str
    a: ArmSummary
    b: ArmSummary
    unpaired: int
    result: PairedResult | None
    check: DriftCheck | None
    is_worse: bool | None
    spread: float | None
    is_spread_measured: bool
    required_pairs: int | None

    @property
    def pairs(self) -> int:
        """Return the number of pairs."""
        return self.result.last.pairs if self.result else 0


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The runs of an experiment from its start. pairs: enough for every row; order: of the arms, "abba…"."""

    pairs: int
    order: str


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """Its rows: those with most pairs first. row_error_rate: of each, so that all together have EXPERIMENT_ERROR_RATE.

    plan: None if a row needs more than PLANNED_PAIRS_MAXIMUM pairs or has no known spread. only_a, only_b: series of
    one arm without runs of the other. is_cut: a series has more than VALUES_MAXIMUM values, the oldest of which are
    left out.
    """

    rows: tuple[ExperimentRow, ...]
    row_error_rate: float
    plan: PairPlan | None
    only_a: int
    only_b: int
    is_cut: bool


def read_experiment(experiment: Experiment) -> ExperimentResult:
    """Return the result of an experiment; seven queries.

    Without runs of an arm the rows are the series that match apart from facts of runs, so that the number of runs can
    be planned. Raises BadExperiment if more than EXPERIMENT_ROWS_MAXIMUM rows match, or a run is in both arms.
    """
    sides = [_make_side(experiment, arm) for arm in (experiment.a, experiment.b)]
    free = find_free_columns(*sides)
    shared = experiment.common.without_facts()
    first, second = (_read_series(side, shared) for side in sides)
    groups = match_rows(first, second, free)
    both = [rows for rows in groups.values() if rows[0] and rows[1]]
    only = [sum(len(rows[place]) for rows in groups.values() if not rows[1 - place]) for place in (0, 1)]
    found = both or _read_planned(experiment, free)
    if len(found) > EXPERIMENT_ROWS_MAXIMUM:
        raise BadExperiment(
            f"{len(found)} combinations of workload, layout and host match; at most {EXPERIMENT_ROWS_MAXIMUM} are"
            " evaluated together. Narrow the common filter"
        )
    values = [
        read_values(side, [row["id"] for rows in found for row in rows[place]], (experiment.metric,))
        for place, side in enumerate(sides)
    ]
    error_rate = EXPERIMENT_ERROR_RATE / max(1, len(found))
    spreads = _read_spreads([row["id"] for rows in found for row in rows[0]], experiment.metric)
    titles = Titles(free)
    rows = [
        _make_row(
            one, values, experiment, error_rate=error_rate, spreads=spreads, title=titles.describe(one[0][0])
        )
        for one in found
    ]
    return ExperimentResult(
        rows=tuple(sorted(rows, key=lambda row: (-row.pairs, row.title))),
        row_error_rate=error_rate,
        plan=_make_plan(rows),
        only_a=only[0],
        only_b=only[1],
        is_cut=any(one.cut_at for one in values) or _is_cut(values),
    )


def _make_side(experiment: Experiment, arm: Filter) -> Side:
    """Return an arm with the common terms for facts of runs: the same run matches all of them."""
    terms = arm.terms + experiment.common.fact_terms
    return Side(Filter(terms, arm.words), from_at=experiment.from_at, to_at=experiment.to_at)


def _read_series(side: Side, common: Filter) -> list[SideRow]:
    rows = read_side(side, common)
    if len(rows) > SERIES_MAXIMUM:
        raise BadExperiment(f"More than {SERIES_MAXIMUM} series match an arm. Narrow the common filter")
    return rows


def _read_planned(experiment: Experiment, free: frozenset[str]) -> list[MatchedRows]:
    """Return the series of arm A apart from facts of runs and time, those that differ in compared columns together.

    Arms that differ in facts of runs have the same series.
    """
    rows = _read_series(Side(experiment.a.without_facts()), experiment.common.without_facts())
    is_common = experiment.a.without_facts() == experiment.b.without_facts()
    return list(match_rows(rows, rows if is_common else [], free).values())


def _is_cut(values: Sequence[SideValues]) -> bool:
    return any(
        np.unique(one.series_ids, return_counts=True)[1].max(initial=0) >= VALUES_MAXIMUM for one in values
    )


def _read_spreads(series_ids: Sequence[int], metric: str) -> dict[int, float]:
    """Return the relative standard deviation of the current levels with at least five runs, by series."""
    rows = Level.objects.filter(
        is_current=True, series_id__in=series_ids, metric=metric, n__gte=PAIRS_MINIMUM, median__gt=0
    ).values_list("series_id", "p10", "median", "p90")
    return {series_id: (p90 - p10) / median / _P10_TO_P90 for series_id, p10, median, p90 in rows}


def _make_row(
    rows: MatchedRows,
    values: Sequence[SideValues],
    experiment: Experiment,
    *,
    error_rate: float,
    spreads: dict[int, float],
    title: str,
) -> ExperimentRow:
    ids = [tuple(row["id"] for row in own) for own in rows]
    _refuse_common_runs(ids, values, title)
    _refuse_two_kinds(ids, values, experiment.metric, title)
    a, b = (_read_arm(own, known, experiment.metric) for own, known in zip(ids, values, strict=True))
    pairs = pair_runs(a, b)
    difference = experiment.smallest_difference
    result = check = None
    if len(pairs.a):
        result = evaluate_pairs(pairs.log_ratios, error_rate=error_rate, difference=difference)
        check = check_drift(a, b, pairs)
    is_measured = result is not None and len(pairs.a) >= PAIRS_MINIMUM
    usual = [spreads[id_] for id_ in ids[0] if id_ in spreads]
    spread = result.spread if result and is_measured else sqrt(2) * max(usual) if usual else None
    return ExperimentRow(
        title=title,
        a=_summarize_arm(ids[0], a, pairs.a),
        b=_summarize_arm(ids[1], b, pairs.b),
        unpaired=pairs.unpaired,
        result=result,
        check=check,
        is_worse=_is_worse(result, experiment.metric),
        spread=spread,
        is_spread_measured=is_measured,
        required_pairs=None
        if spread is None
        else count_required_pairs(spread, error_rate=error_rate, difference=difference),
    )


def _refuse_common_runs(ids: Sequence[tuple[int, ...]], values: Sequence[SideValues], title: str) -> None:
    """Raise BadExperiment if a measurement is in both arms: it would be compared with itself."""
    for series_id in set(ids[0]) & set(ids[1]):
        runs = [one.run_ids[one.series_ids == series_id] for one in values]
        common = np.intersect1d(*runs)
        if len(common):
            raise BadExperiment(
                f"{len(common)} runs of {title} match both arms, the first is run {common[0]}. Give the arms filters"
                " of which a run matches one, as label.arm:a and label.arm:b"
            )


def _refuse_two_kinds(
    ids: Sequence[tuple[int, ...]], values: Sequence[SideValues], metric: str, title: str
) -> None:
    """Raise BadExperiment if the arms have a latency of different kinds."""
    kinds = set[str]().union(*(known.list_kinds(own, metric) for own, known in zip(ids, values, strict=True)))
    if len(kinds) > 1:
        both = " and ".join(KIND_NAMES[kind] for kind in sorted(kinds))
        raise BadExperiment(
            f"{CATALOG[metric].label} of {title} is {both}, which are not compared. Use the same lat_percentiles,"
            " clat_percentiles and disable_lat in both arms, or another metric"
        )


def _read_arm(series_ids: Sequence[int], values: SideValues, metric: str) -> ArmRuns:
    """Return the runs of an arm in the order of time, each with the median of its values above 0.

    A run has a value for each repetition of its workload; they are not further runs.
    """
    column = values.columns[metric]
    is_known = np.isin(values.series_ids, series_ids) & (column > 0)
    runs, at, known = values.run_ids[is_known], values.started_at[is_known], column[is_known]
    by_run = np.lexsort((known, runs))
    _, first, counts = np.unique(runs[by_run], return_index=True, return_counts=True)
    known, at = known[by_run], at[by_run][first]
    medians = (known[first + (counts - 1) // 2] + known[first + counts // 2]) / 2
    order = np.argsort(at, kind="stable")
    return ArmRuns(at[order], medians[order])


def _summarize_arm(series_ids: tuple[int, ...], arm: ArmRuns, paired: NDArray[np.int64]) -> ArmSummary:
    return ArmSummary(series_ids, len(arm.at), float(np.median(arm.values[paired])) if len(paired) else None)


def _is_worse(result: PairedResult | None, metric: str) -> bool | None:
    if result is None or result.outcome != "different":
        return None
    return (result.last.ratio > 1) == (CATALOG[metric].better == "lower")


def _make_plan(rows: Sequence[ExperimentRow]) -> PairPlan | None:
    required = [row.required_pairs for row in rows]
    known = [pairs for pairs in required if pairs is not None]
    if not required or len(known) < len(required):
        return None
    return PairPlan(max(known), order_arms(max(known)))
