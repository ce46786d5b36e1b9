"""Reads, writes and their mixes of one layout under one load, and what a mix that was not measured can expect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from benchapp.analysis.layouts.mixes import (
    REFUSALS,
    MixEstimate,
    MixLevel,
    MixRefusal,
    estimate_mix,
)
from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter, Term, parse_term
from benchapp.queries.badges import order_codes
from benchapp.queries.binary_columns import to_us
from benchapp.queries.charts.scaling_defaults import (
    FixedDimension,
    add_fixed_terms,
    fix_conflicts,
    number_combinations,
)
from benchapp.queries.charts.scaling_shapes import ScalingSpread
from benchapp.queries.charts.series_columns import read_table
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.incidents.series_marks import list_open_incidents, read_series_marks
from benchapp.queries.layouts.layout import LAYOUT_DIMENSIONS, Layout
from benchapp.queries.layouts.load_levels import RowLevels
from benchapp.queries.layouts.question import AGE_MAXIMUM_DAYS, MIXED_PATTERNS
from benchapp.queries.snapshots import RESULTS

__all__ = [
    "AGE_MAXIMUM_DAYS",
    "MIX_METRICS",
    "MIX_PATTERNS",
    "REFUSALS",
    "USUAL_READ_SHARE",
    "MeasuredMix",
    "MixAnswer",
    "MixCurve",
    "MixEstimate",
    "MixQuestion",
    "MixRefusal",
    "SeriesBadges",
    "collect_mixes",
    "list_free_dimensions",
    "read_mixes",
]

# Name of a pattern → rw of its reads, mixes and writes.
MIX_PATTERNS: Final[Mapping[str, tuple[str, str, str]]] = {
    "random": MIXED_PATTERNS["randrw"],
    "sequential": MIXED_PATTERNS["rw"],
}
MIX_METRICS: Final = ("iops", "bandwidth_bytes_per_s")
# Of transaction processing, in percent.
USUAL_READ_SHARE: Final = 70
# Hosts are what the filter chooses; equal layouts under other names are one.
_FREE: Final = frozenset({"host", "pool", "target_name", "pattern", "rw", "direction", "read_share_percent"})
_LOAD: Final = ("iodepth", "numjobs")
_DIRECTIONS: Final = ("read", "write")
# Published results state no read share.
_PURE_SHARES: Final = {"randread": 100, "read": 100, "randwrite": 0, "write": 0}
_PERCENT: Final = 100
# Of a curve, measured.
_CURVE_BYTES: Final = 3000


@dataclass(frozen=True, slots=True)
class MixQuestion:
    """Which mixes to read. block_size: values as in a filter; "" for the most usual. read_share: percent, to estimate.

    filter: whose measurements count. max_age_days: of the newest run of a series.
    """

    filter: Filter
    pattern: str = "random"
    block_size: str = ""
    read_share: int = USUAL_READ_SHARE
    metric: str = "iops"
    max_age_days: int | None = None

    def make_filter(self) -> Filter:
        """Return the filter of reads, mixes and writes of this pattern. Raises BadFilter."""
        terms: list[Term] = [
            parse_term("rw", ",".join(MIX_PATTERNS[self.pattern])),
            parse_term("direction", ",".join(_DIRECTIONS)),
        ]
        if self.block_size:
            terms.append(parse_term("block_size_bytes", self.block_size))
        return self.filter.with_terms(terms)


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """The current level of reads and writes together, of several hosts mixed as on Scaling. read_share: percent."""

    read_share: int
    spread: ScalingSpread
    series_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MixCurve:
    """The measured mixes of a layout under one load, by ascending read share.

    badges, incident_ids: of the series of all shares; open incidents, the newest first.
    """

    layout: Layout
    iodepth: int | None
    numjobs: int | None
    mixes: tuple[MeasuredMix, ...]
    badges: tuple[str, ...] = ()
    incident_ids: tuple[int, ...] = ()

    def estimate(self, read_share: int) -> MeasuredMix | MixEstimate | MixRefusal:
        """Return the measured mix of a read share in percent, else an estimate, else why there is none."""
        levels = self._list_levels()
        found = estimate_mix(levels, read_share / 100)
        if isinstance(found, MixLevel):
            return self.mixes[levels.index(found)]
        return found

    def list_estimates(self, step: int) -> Iterator[MixEstimate]:
        """Yield the estimates between the measured mixes, `step` percent apart."""
        levels = self._list_levels()
        for before, after in pairwise(self.mixes):
            for read_share in range(before.read_share + 1, after.read_share, step):
                found = estimate_mix(levels, read_share / 100)
                if isinstance(found, MixEstimate):
                    yield found

    def _list_levels(self) -> list[MixLevel]:
        return [
            MixLevel(mix.read_share / 100, mix.spread.median or 0.0, mix.spread.p10, mix.spread.p90)
            for mix in self.mixes
        ]

    @property
    def series_ids(self) -> tuple[int, ...]:
        """Return the series of all shares."""
        return tuple(series_id for mix in self.mixes for series_id in mix.series_ids)


@dataclass(frozen=True, slots=True)
class MixAnswer:
    """The curves of a question, by layout and load.

    alone_count: loads of which a single read share was measured. series_count: series that count; outdated_count: left
    out for their age; hidden_count: by fixed dimensions; incomplete_count: mixes of which one direction is missing.
    is_cut: more series match than are read.
    """

    question: MixQuestion
    curves: tuple[MixCurve, ...]
    fixed: tuple[FixedDimension, ...]
    alone_count: int
    series_count: int
    outdated_count: int
    hidden_count: int
    incomplete_count: int
    is_cut: bool

    @property
    def shown_filter(self) -> Filter:
        """Return the filter of the question with its block size and the fixed dimensions as terms."""
        filter, size = self.question.filter, self.question.block_size
        named = filter.with_terms([parse_term("block_size_bytes", size)]) if size else filter
        return add_fixed_terms(named, self.fixed)


def read_mixes(question: MixQuestion, *, now: datetime | None = None) -> MixAnswer:
    """Return the measured mixes of a question. Raises BadFilter.

    One query if nothing was written since the last one, unless the age counts; else five.
    """
    now = now or timezone.now()
    if question.max_age_days is not None:
        return _read_mixes(question, now=now)
    return RESULTS.read(
        ("mixes", question),
        partial(_read_mixes, question, now=now),
        estimate_bytes=lambda answer: _CURVE_BYTES * (1 + len(answer.curves)),
    )


def _read_mixes(question: MixQuestion, *, now: datetime) -> MixAnswer:
    asked = question.make_filter()
    table, is_cut = read_table(asked, (question.metric,) if asked.fact_terms else ())
    (levels,) = RowLevels.read(table, [question.metric])
    is_measured = levels.n > 0
    table, levels = table.select(is_measured), levels.select(is_measured)
    measured_count = table.length
    if question.max_age_days is not None:
        is_recent = levels.to_at >= to_us(now - timedelta(days=question.max_age_days))
        table, levels = table.select(is_recent), levels.select(is_recent)
    recent_count = table.length
    fixed, shown_table = fix_conflicts(
        table, (*LAYOUT_DIMENSIONS, *_LOAD), free=list_free_dimensions(question.filter)
    )
    levels = levels.select(np.isin(table.array("id"), shown_table.array("id")))
    table = shown_table
    mixes, incomplete_count = collect_mixes(table, levels, load_names=_LOAD)
    curves = [MixCurve(Layout(*layout), load[0], load[1], found) for (layout, load), found in mixes.items()]
    shown = [curve for curve in curves if len(curve.mixes) > 1]
    return MixAnswer(
        question=question,
        curves=tuple(
            sorted(
                _add_marks(shown, table, metric=question.metric),
                key=lambda curve: (curve.layout.title, curve.iodepth or 0, curve.numjobs or 0),
            )
        ),
        fixed=fixed,
        alone_count=sum(len(curve.mixes) == 1 for curve in curves),
        series_count=table.length,
        outdated_count=measured_count - recent_count,
        hidden_count=recent_count - table.length,
        incomplete_count=incomplete_count,
        is_cut=is_cut,
    )


def _add_marks(curves: Sequence[MixCurve], table: SeriesTable, *, metric: str) -> Iterator[MixCurve]:
    """Yield the curves with the badges and open incidents of their series; one query."""
    marks = read_series_marks([each for curve in curves for each in curve.series_ids], metric=metric)
    badges = SeriesBadges(table)
    for curve in curves:
        ids = curve.series_ids
        yield replace(curve, badges=badges.join(ids), incident_ids=list_open_incidents(ids, marks))


class SeriesBadges:
    """The badges of the newest measurements of the series of a table."""

    def __init__(self, table: SeriesTable) -> None:
        self._by_series: dict[int, set[str]] = {}
        for series_id, codes in zip(table.column("series_id"), table.column("badges"), strict=True):
            self._by_series.setdefault(series_id, set()).update(codes)

    def join(self, series_ids: Iterable[int]) -> tuple[str, ...]:
        """Return the badges of several series together, most severe first."""
        return order_codes(tuple({code for each in series_ids for code in self._by_series[each]}))


def list_free_dimensions(filter: Filter) -> frozenset[str]:
    """Return the dimensions that may have several values in a curve: of the workload none, also if the filter names it.

    Reads of one block size and writes of another are no mix.
    """
    named = {term.dimension for term in filter.terms if not term.is_negated}
    return _FREE | {name for name in named if name in DIMENSIONS and DIMENSIONS[name].group != "workload"}


# The values of LAYOUT_DIMENSIONS, and of the dimensions of a load.
MixKey = tuple[tuple[Any, ...], tuple[Any, ...]]


def collect_mixes(
    table: SeriesTable, levels: RowLevels, *, load_names: Sequence[str]
) -> tuple[dict[MixKey, tuple[MeasuredMix, ...]], int]:
    """Return the measured mixes of each layout and load by read share, and how many lack one direction.

    table: reads, writes and mixes; mixes of an unknown read share do not count. levels: of a throughput.
    """
    names = (*LAYOUT_DIMENSIONS, *load_names, "direction")
    shares = _list_shares(table)
    is_known = shares >= 0
    table, levels, shares = table.select(is_known), levels.select(is_known), shares[is_known]
    if not table.length:
        return {}, 0
    loads = np.unique(number_combinations(table, names), return_inverse=True)[1]
    _, firsts, cells = np.unique(loads * (_PERCENT + 1) + shares, return_index=True, return_inverse=True)
    keys = zip(
        *(table.shared(name).take(firsts).list_values() for name in names),
        shares[firsts].tolist(),
        strict=True,
    )
    spreads = levels.mix(cells, len(firsts))
    order = np.argsort(cells, kind="stable")
    rows = np.split(order, np.searchsorted(cells[order], np.arange(1, len(firsts))))
    ids = table.array("series_id")
    found: dict[MixKey, dict[int, dict[str, tuple[ScalingSpread, tuple[int, ...]]]]] = {}
    for cell, (*values, direction, share) in enumerate(keys):
        spread = spreads[cell]
        if spread is None:
            continue
        key = (tuple(values[: len(LAYOUT_DIMENSIONS)]), tuple(values[len(LAYOUT_DIMENSIONS) :]))
        by_direction = found.setdefault(key, {}).setdefault(share, {})
        by_direction[str(direction)] = (spread, tuple(ids[rows[cell]].tolist()))
    mixes: dict[MixKey, tuple[MeasuredMix, ...]] = {}
    incomplete_count = 0
    for key, by_share in found.items():
        complete = {share: own for share, own in by_share.items() if _is_complete(share, own)}
        incomplete_count += len(by_share) - len(complete)
        if complete:
            mixes[key] = tuple(_join(share, own) for share, own in sorted(complete.items()))
    return mixes, incomplete_count


def _list_shares(table: SeriesTable) -> NDArray[np.int64]:
    """Return the read share of each row in percent: of reads and writes that of their pattern; -1 if it is unknown."""
    patterns, shares = table.shared("rw"), table.shared("read_share_percent")
    of_pattern = np.array([_PURE_SHARES.get(str(value), -1) for value in patterns.values], dtype=np.int64)
    recorded = np.array([-1 if value is None else value for value in shares.values], dtype=np.int64)
    pure = of_pattern[patterns.codes]
    return np.where(pure >= 0, pure, recorded[shares.codes])


def _is_complete(share: int, directions: Mapping[str, Any]) -> bool:
    return set(directions) >= set(_list_directions(share))


def _list_directions(share: int) -> Iterator[str]:
    """Yield the directions that a read share in percent has."""
    if share > 0:
        yield "read"
    if share < 100:
        yield "write"


def _join(share: int, directions: Mapping[str, tuple[ScalingSpread, tuple[int, ...]]]) -> MeasuredMix:
    """Return the mix of its directions: the sum of their throughputs."""
    own = [directions[name] for name in _list_directions(share)]
    spreads = [spread for spread, _ in own]
    return MeasuredMix(share, add_spreads(spreads), tuple(each for _, ids in own for each in ids))


def add_spreads(spreads: Sequence[ScalingSpread]) -> ScalingSpread:
    """Return the level of the throughput of several directions: their sum. n: runs, which have all of them."""
    if len(spreads) == 1:
        return spreads[0]
    known = [spread.median for spread in spreads if spread.median is not None]
    return ScalingSpread(
        median=sum(known) if len(known) == len(spreads) else None,
        p10=sum(spread.p10 for spread in spreads),
        p90=sum(spread.p90 for spread in spreads),
        n=min(spread.n for spread in spreads),
        last_at=max(spread.last_at for spread in spreads),
    )
