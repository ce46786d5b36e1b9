"""The measured layouts that a question allows, ranked: those that meet the requirement by price."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Self

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from benchapp.catalog.grammar import Filter, parse_term
from benchapp.catalog.metrics import PERCENTILES
from benchapp.charts.read.axes import SeriesTable
from benchapp.charts.read.scaling_defaults import (
    FixedDimension,
    add_fixed_terms,
    fix_conflicts,
    number_combinations,
)
from benchapp.charts.read.series_columns import read_table
from benchapp.framework.read.binary_columns import CHART_S, from_us, read_cached, to_us
from benchapp.incidents.read.series_status import LevelValues, list_open_incidents, read_series_marks
from benchapp.layouts.read.prices import PriceList, find_region, list_prices, select_prices
from benchapp.layouts.read.question import VARYING, LayoutQuestion
from benchapp.layouts.rules.ranking import (
    VERDICTS,
    Assessment,
    LoadLevels,
    MonthlyPrice,
    PricedVolumes,
    Verdict,
    add_instance,
    assess_layout,
    find_capacity,
    find_closest_miss,
    find_front,
    price_volumes,
)
from benchapp.models.filtering import leave_out_sample
from benchapp.series.read.levels import count_kinds, read_current_columns
from benchapp.series.read.shapes import order_codes
from benchapp.series.read.titles import UNKNOWN_LAYOUT, describe_setting, describe_target

_COLUMNS: Final = ("median", "p10", "p90", "n", "to_at")


@dataclass(frozen=True, slots=True)
class RowLevels:
    """The current level of one metric of each row of a table, as arrays of its length. n: 0 without a level.

    to_at: microseconds since 1970.
    """

    metric: str
    median: NDArray[Any]
    p10: NDArray[Any]
    p90: NDArray[Any]
    n: NDArray[Any]
    to_at: NDArray[Any]

    @classmethod
    def read(cls, table: SeriesTable, metrics: Sequence[str]) -> list[Self]:
        """Read the levels of each metric; one query, of groups of runs none."""
        found: Mapping[str, Mapping[str, NDArray[Any]]] = (
            read_current_columns(table.column("id"), metrics)
            if table.group_levels is None
            else {metric: _list_groups(table, metric) for metric in metrics}
        )
        return [cls._align(metric, table.array("id"), found[metric]) for metric in metrics]

    @classmethod
    def _align(cls, metric: str, ids: NDArray[Any], found: Mapping[str, NDArray[Any]]) -> Self:
        """Return the levels in the order of some ids. found: by series_id."""
        if not len(found["series_id"]):
            return cls(metric, *(np.zeros(len(ids)) for _ in _COLUMNS))
        places = np.minimum(np.searchsorted(found["series_id"], ids), len(found["series_id"]) - 1)
        is_known = found["series_id"][places] == ids
        return cls(metric, *(np.where(is_known, found[name][places], 0) for name in _COLUMNS))

    def select(self, places: NDArray[Any]) -> "RowLevels":
        """Return the levels of some rows; places: as numpy takes them."""
        return RowLevels(self.metric, *(getattr(self, name)[places] for name in _COLUMNS))

    def mix(self, cells: NDArray[np.int64], count: int) -> list[LevelValues | None]:
        """Return one level for each of `count` cells, as `mix_spreads` does; None for one without a level.

        cells: of each row.
        """
        mixed: list[LevelValues | None] = [None] * count
        rows = np.flatnonzero(self.n)
        if not len(rows):
            return mixed
        rows = rows[np.lexsort((self.median[rows], cells[rows]))]
        numbers, starts, sizes = np.unique(cells[rows], return_index=True, return_counts=True)
        medians = self.median[rows]
        middles = medians[starts + sizes // 2]
        if self.metric not in PERCENTILES:
            middles = (middles + medians[starts + (sizes - 1) // 2]) / 2
        columns = (
            numbers,
            middles,
            np.minimum.reduceat(self.p10[rows], starts),
            np.maximum.reduceat(self.p90[rows], starts),
            np.add.reduceat(self.n[rows], starts),
            np.maximum.reduceat(self.to_at[rows], starts),
        )
        for cell, median, p10, p90, n, to_at in zip(*(each.tolist() for each in columns), strict=True):
            mixed[cell] = LevelValues(median, p10, p90, int(n), from_us(to_at))
        return mixed


def _list_groups(table: SeriesTable, metric: str) -> Mapping[str, NDArray[Any]]:
    """Return the levels of groups of runs as `read_current_columns` does, by the number of the group."""
    assert table.group_levels is not None
    levels = sorted(table.group_levels[metric].items())
    rows: Sequence[tuple[Any, ...]] = [
        (number, level.median, level.p10, level.p90, level.n, to_us(level.last_at))
        for number, group in levels
        for level in (group.level,)
    ]
    columns = list(zip(*rows, strict=True)) or [()] * (len(_COLUMNS) + 1)
    return {name: np.array(column) for name, column in zip(("series_id", *_COLUMNS), columns, strict=True)}


# What a requirement may leave open, beside queue depth and jobs: each load has its own.
WORKLOAD_DETAILS: Final = ("block_size_bytes", "file_size_bytes", "is_direct", "engine", "read_share_percent")
LOAD_DIMENSIONS: Final = ("iodepth", "numjobs", *WORKLOAD_DETAILS)
# Of reads or writes alone.
PURE_LOAD_DIMENSIONS: Final = LOAD_DIMENSIONS[:-1]
# Always part of a layout, beside those that may be fixed.
LAYOUT_DETAILS: Final = ("volume_size_bytes", "provisioned_iops", "raid_level", "chunk_size_bytes")
LAYOUT_DIMENSIONS: Final = (*VARYING, *LAYOUT_DETAILS)


@dataclass(frozen=True, slots=True)
class Layout:
    """The dimensions of a layout; None: unknown. unstated: the unknown ones that others of its ranking state."""

    volume_type: str | None
    volume_count: int | None
    stripe_count: int | None
    instance_type: str | None
    filesystem: str | None
    volume_size_bytes: int | None
    provisioned_iops: int | None
    raid_level: str | None
    chunk_size_bytes: int | None
    target_name: None = None
    unstated: tuple[str, ...] = field(default=(), compare=False)

    @property
    def title(self) -> str:
        """Return the layout in one line."""
        return ", ".join((self.short_title, *self.unknown))

    @property
    def short_title(self) -> str:
        """Return what is known of the layout in one line."""
        return describe_target(self)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return what others of its ranking state, in words: "unknown filesystem"; () if nothing is known."""
        if self.short_title == UNKNOWN_LAYOUT:
            return ()
        return tuple(describe_setting(name, None) for name in self.unstated)

    @property
    def capacity_bytes(self) -> int | None:
        """Return the bytes for data; None if unknown."""
        return find_capacity(self.volume_size_bytes, self.volume_count, raid_level=self.raid_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The dimensions of a load; None: unknown. read_share_percent: of mixes only."""

    iodepth: int | None
    numjobs: int | None
    block_size_bytes: int | None
    file_size_bytes: int | None
    is_direct: bool | None
    engine: str | None
    read_share_percent: int | None = None


_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns")
# One broken host does not decide; half of the hosts do.
_ODD_BELOW: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad(Load):
    """A layout under one load: the current levels of its series, of several hosts mixed as on Scaling.

    Of mixed patterns, throughput is the sum of both directions, latency the larger one. n, last_at: runs of the level
    of IOPS, and the start of the newest.
    """

    levels: LoadLevels
    series_ids: tuple[int, ...]
    n: int
    last_at: datetime
    badges: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteLoad(Load):
    """A layout under a load of a mix of which only some directions were measured, with the series of these."""

    layout: Layout
    directions: tuple[str, ...]
    series_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """A layout with its answer. load: the one that decides; at_load: that with the least throughput of those that
    meet the requirement, None without one. price: None if there are no prices. incident_ids: open ones of the load.

    is_on_front: no other layout is as cheap and faster, or cheaper and as fast. left_out: series of the load that do
    not count, as they have an open regression that most have not; verdict_with_all: if they did, None without any.
    regressed_count: series of the load that count with an open regression; verdict_without: without those of the
    layout, None if nothing else measures it, or without any. missed_file_sizes: of a layout that meets it, those with
    which it does not.
    """

    layout: Layout
    assessment: Assessment
    load: MeasuredLoad
    at_load: MeasuredLoad | None
    price: MonthlyPrice | None
    incident_ids: tuple[int, ...] = ()
    is_on_front: bool = False
    left_out: int = 0
    verdict_with_all: Verdict | None = None
    regressed_count: int = 0
    verdict_without: Verdict | None = None
    missed_file_sizes: tuple[int, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return whether it meets the requirement."""
        return self.assessment.verdict

    @property
    def is_in_doubt(self) -> bool:
        """Return whether it meets the requirement only without series that have an open regression."""
        return self.verdict == "meets" and self.verdict_with_all not in (None, "meets")

    @property
    def price_amount(self) -> float | None:
        """Return the price per month; None if unknown."""
        return None if self.price is None else self.price.amount

    @property
    def least_price(self) -> float | None:
        """Return the price per month as of `MonthlyPrice.least_amount`; None if unknown."""
        return None if self.price is None else self.price.least_amount

    @property
    def price_per_1000_iops(self) -> float | None:
        """Return the price per month of 1 000 measured IOPS (median); None if unknown."""
        iops = self.load.levels.iops
        if self.price_amount is None or iops is None or not iops.median:
            return None
        return self.price_amount / iops.median * 1000


@dataclass(frozen=True, slots=True)
class LayoutRanking:
    """The answer to a question.

    rows: the best first; unpriced: those without a price, if there are prices. closest: the closest miss, None if none
    misses. first_without: the best of those that meet it without series with an open regression. elsewhere: those that
    meet it outside the fixed dimensions, the best first. varying: details of the workload
    in which loads differ. region, currency: of the prices, currency "" without prices. series_count: series that count;
    outdated_count: left out for their age; hidden_count: by fixed dimensions; incomplete: loads without one of both
    directions. is_cut: more series match than are read. latency_kinds: in how many series p99 is of each kind.
    """

    question: LayoutQuestion
    rows: tuple[RankedLayout, ...]
    unpriced: tuple[RankedLayout, ...]
    closest: RankedLayout | None
    first_without: RankedLayout | None
    elsewhere: tuple[RankedLayout, ...]
    region: str
    currency: str
    fixed: tuple[FixedDimension, ...]
    varying: tuple[str, ...]
    series_count: int
    outdated_count: int
    hidden_count: int
    incomplete: tuple[IncompleteLoad, ...]
    is_cut: bool
    latency_kinds: Mapping[str, int]

    @property
    def shown_filter(self) -> Filter:
        """Return the filter of the question with its block size and the fixed dimensions as terms."""
        filter, size = self.question.filter, self.question.block_size
        named = filter.with_terms([parse_term("block_size_bytes", size)]) if size else filter
        return add_fixed_terms(named, self.fixed)

    @property
    def incomplete_count(self) -> int:
        """Return the number of loads without one of both directions."""
        return len(self.incomplete)

    @property
    def all_rows(self) -> tuple[RankedLayout, ...]:
        """Return the rows with a price, or all without prices, then those without one."""
        return (*self.rows, *self.unpriced)

    def count(self, verdict: Verdict) -> int:
        """Return the number of layouts with a verdict."""
        return sum(row.verdict == verdict for row in self.all_rows)


def rank_layouts(question: LayoutQuestion, *, now: datetime | None = None) -> LayoutRanking:
    """Return the measured layouts in the order of the answer. Raises BadFilter, UnknownRegion.

    The order: layouts that meet the requirement, by price, then by margin; those whose medians alone meet it; those
    that miss it, by what they lack; those with an unknown required value. A cached result takes one query, any other
    nine, ten if the sample matches. Nothing is cached in a worker.
    """
    now = now or timezone.now()
    load = partial(_rank_layouts, question, now=now)
    return read_cached("layouts", question, now.date(), load=load, age_s=CHART_S)


def _rank_layouts(question: LayoutQuestion, *, now: datetime) -> LayoutRanking:
    question = replace(question, filter=leave_out_sample(question.filter))
    prices, day = list_prices(), now.date()
    region = find_region(prices, question.region, day=day)
    price_list = select_prices(prices, region=region, day=day)
    # A total at most of an amount is not known from a part.
    is_open = question.price_of is None and question.max_price is None
    if is_open and price_list.volumes and not price_list.instances:
        question = replace(question, price_of="volumes")
    asked = question.make_filter()
    # Levels tell which series have one; groups of runs need theirs to be made.
    table, is_cut = read_table(asked, _METRICS if asked.fact_terms else ())
    levels = RowLevels.read(table, _METRICS)
    is_measured = (levels[0].n > 0) | (levels[1].n > 0)
    table, levels = table.select(is_measured), [each.select(is_measured) for each in levels]
    measured_count = table.length
    if question.maximum_age is not None:
        is_recent = _find_last_at(levels) >= to_us(now - question.maximum_age)
        table, levels = table.select(is_recent), [each.select(is_recent) for each in levels]
    recent = table, levels
    named = {term.dimension for term in question.filter.terms if not term.is_negated}
    # Each number of volumes has its own stripes.
    free = {*question.vary, *(("stripe_count",) if "volume_count" in question.vary else ())}
    fixed, table = fix_conflicts(
        table,
        (),
        free=named,
        candidates=[name for name in VARYING if name not in free],
        keeps_unknown=True,
    )
    # Buffered I/O counts where direct I/O was not measured.
    direct, table = fix_conflicts(table, LAYOUT_DIMENSIONS, free=named, candidates=("is_direct",))
    is_shown = np.isin(recent[0].array("id"), table.array("id"))
    answers = [
        _Answers(recent[0].select(places), [each.select(places) for each in recent[1]], question, price_list)
        for places in (is_shown, ~is_shown)
    ]
    ordered, has_prices = answers[0].rows, price_list.has_prices
    closest = find_closest_miss([row.assessment for row in ordered])
    return LayoutRanking(
        question=question,
        rows=tuple(row for row in ordered if not has_prices or row.price_amount is not None),
        unpriced=tuple(row for row in ordered if has_prices and row.price_amount is None),
        closest=None if closest is None else ordered[closest],
        first_without=answers[0].first_without,
        elsewhere=tuple(row for row in answers[1].rows if row.verdict == "meets"),
        region=region,
        currency=price_list.currency,
        fixed=(*fixed, *direct),
        varying=_list_varying(table, question),
        series_count=table.length,
        outdated_count=measured_count - recent[0].length,
        hidden_count=recent[0].length - table.length,
        incomplete=answers[0].incomplete,
        is_cut=is_cut,
        latency_kinds=count_kinds(table.column("series_id"), "latency_p99_ns"),
    )


def _list_load_names(question: LayoutQuestion) -> tuple[str, ...]:
    return LOAD_DIMENSIONS if question.is_mixed else PURE_LOAD_DIMENSIONS


def _list_varying(table: SeriesTable, question: LayoutQuestion) -> tuple[str, ...]:
    """Return the details of the workload that a load has to name: those with several values, and an open block size."""
    names = (name for name in _list_load_names(question) if name in WORKLOAD_DETAILS)
    is_open = not question.block_size
    return tuple(
        name for name in names if len(table.distinct(name)) > 1 or (is_open and name == "block_size_bytes")
    )


class _Answers:
    """The layouts of some series with their answers, the best first, and the loads without one direction."""

    def __init__(
        self,
        table: SeriesTable,
        levels: Sequence[RowLevels],
        question: LayoutQuestion,
        price_list: PriceList,
    ) -> None:
        marks = read_series_marks(table.array("series_id").tolist(), metric=None)
        regressed = [each for each, mark in marks.items() if mark.is_worse_in(None)]
        is_regressed = np.isin(table.array("series_id"), regressed)
        is_odd = _find_odd(table, is_regressed, _list_load_names(question))
        collector = _LoadCollector(table, levels, question)
        everything = dict(collector.list_layouts())

        def list_without(is_left_out: NDArray[np.bool_]) -> dict[Layout, list[MeasuredLoad]]:
            if not is_left_out.any():
                return everything
            others = [each.select(~is_left_out) for each in levels]
            return dict(_LoadCollector(table.select(~is_left_out), others, question).list_layouts())

        answer = partial(_answer, question=question, price_list=price_list)
        without = {layout: answer(layout, loads) for layout, loads in list_without(is_regressed).items()}
        rows = []
        for layout, loads in list_without(is_odd).items():
            row = answer(layout, loads)
            ids = row.load.series_ids
            if count := len({*regressed}.intersection(ids)):
                verdict = without[layout].verdict if layout in without else None
                row = replace(row, regressed_count=count, verdict_without=verdict)
            if left_out := _count_left_out(row, everything.get(layout, ())):
                with_all = answer(layout, everything[layout])
                row = replace(row, left_out=left_out, verdict_with_all=with_all.verdict)
                ids = next(load.series_ids for load in everything[layout] if _is_same(load, row.load))
            rows.append(replace(row, incident_ids=list_open_incidents(ids, marks)))
        has_prices = price_list.has_prices
        priced = [row for row in rows if not has_prices or row.price_amount is not None]
        unpriced = [row for row in rows if has_prices and row.price_amount is None]
        self.rows = sorted([*_mark_front(priced), *unpriced], key=_rank)
        best = min(without.values(), key=_rank, default=None)
        self.first_without = best if best is not None and best.verdict == "meets" else None
        self.incomplete = tuple(collector.incomplete)


def _is_same(one: Load, other: Load) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in LOAD_DIMENSIONS)


def _count_left_out(row: RankedLayout, loads: Sequence[MeasuredLoad]) -> int:
    """Return how many series of the deciding load do not count. loads: with all series."""
    counts = [len(load.series_ids) for load in loads if _is_same(load, row.load)]
    return max(counts, default=0) - len(row.load.series_ids)


def _find_odd(
    table: SeriesTable, is_regressed: NDArray[np.bool_], load_names: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which rows have an open regression that fewer than half of the series of their load have."""
    if not is_regressed.any():
        return is_regressed
    names = (*LAYOUT_DIMENSIONS, *load_names, "direction")
    cells = np.unique(number_combinations(table, names), return_inverse=True)[1]
    share = np.bincount(cells, weights=is_regressed) / np.bincount(cells)
    return is_regressed & (share[cells] < _ODD_BELOW)


def _find_last_at(levels: Sequence[RowLevels]) -> NDArray[Any]:
    """Return the start of the newest run of each row: of its IOPS, else of its bandwidth."""
    iops, bandwidth = levels[0], levels[1]
    return np.where(iops.n > 0, iops.to_at, bandwidth.to_at)


class _LoadCollector:
    """Groups the series of a table by layout and load."""

    def __init__(self, table: SeriesTable, levels: Sequence[RowLevels], question: LayoutQuestion) -> None:
        self.incomplete: list[IncompleteLoad] = []
        self._table, self._directions = table, question.directions
        self._stated = [name for name in VARYING if table.distinct(name) - {None}]
        self._load_names = _list_load_names(question)
        names = (*LAYOUT_DIMENSIONS, *self._load_names, "direction")
        _, self._firsts, cells = np.unique(
            number_combinations(table, names), return_index=True, return_inverse=True
        )
        self._keys = list(
            zip(*(table.shared(name).take(self._firsts).list_values() for name in names), strict=True)
        )
        order = np.argsort(cells, kind="stable")
        self._rows = np.split(order, np.searchsorted(cells[order], np.arange(1, len(self._firsts))))
        self._levels = {each.metric: each.mix(cells, len(self._firsts)) for each in levels}

    def list_layouts(self) -> Iterator[tuple[Layout, list[MeasuredLoad]]]:
        """Yield the layouts with their loads."""
        by_layout: dict[tuple[Any, ...], dict[tuple[Any, ...], list[int]]] = {}
        count = len(LAYOUT_DIMENSIONS)
        for cell, (*values, _) in enumerate(self._keys):
            by_load = by_layout.setdefault(tuple(values[:count]), {})
            by_load.setdefault(tuple(values[count:]), []).append(cell)
        for key, by_load in by_layout.items():
            found = Layout(*key)
            found = replace(found, unstated=tuple(n for n in self._stated if getattr(found, n) is None))
            loads = []
            for load, cells in by_load.items():
                # One cell for each direction.
                if len(cells) == len(self._directions):
                    loads.append(self._make_load(load, cells))
                else:
                    self.incomplete.append(self._make_incomplete(found, load, cells))
            if loads:
                yield found, loads

    def _make_incomplete(self, layout: Layout, load: tuple[Any, ...], cells: Sequence[int]) -> IncompleteLoad:
        rows = np.concatenate([self._rows[cell] for cell in cells])
        return IncompleteLoad(
            layout=layout,
            **dict(zip(self._load_names, load, strict=True)),
            directions=tuple(self._keys[cell][-1] for cell in cells),
            series_ids=tuple(self._table.array("series_id")[rows].tolist()),
        )

    def _make_load(self, load: tuple[Any, ...], cells: Sequence[int]) -> MeasuredLoad:
        rows = np.concatenate([self._rows[cell] for cell in cells])
        levels = {
            metric: _join_directions([own[cell] for cell in cells], metric)
            for metric, own in self._levels.items()
        }
        shown = levels["iops"] or levels["bandwidth_bytes_per_s"]
        assert shown is not None
        badges = self._table.shared("badges").take(rows)
        return MeasuredLoad(
            **dict(zip(self._load_names, load, strict=True)),
            levels=LoadLevels(**levels),
            series_ids=tuple(self._table.array("series_id")[rows].tolist()),
            n=shown.n,
            last_at=shown.last_at,
            badges=order_codes(tuple({code for codes in badges.list_distinct() for code in codes})),
        )


def _join_directions(cells: Sequence[LevelValues | None], metric: str) -> LevelValues | None:
    """Return the level of a load from those of its directions; None if one is unknown.

    A throughput is their sum, a latency the larger one, of each percentile. n: runs, which have both.
    """
    spreads = [spread for spread in cells if spread is not None]
    if len(spreads) < len(cells):
        return None
    if len(spreads) == 1:
        return spreads[0]
    join = max if metric == "latency_p99_ns" else sum
    known = [spread.median for spread in spreads if spread.median is not None]
    return LevelValues(
        median=join(known) if len(known) == len(spreads) else None,
        p10=join(spread.p10 for spread in spreads),
        p90=join(spread.p90 for spread in spreads),
        n=min(spread.n for spread in spreads),
        last_at=max(spread.last_at for spread in spreads),
    )


def _answer(
    layout: Layout, loads: Sequence[MeasuredLoad], *, question: LayoutQuestion, price_list: PriceList
) -> RankedLayout:
    price = _find_price(layout, loads, question, price_list=price_list)

    def assess(loads: Sequence[MeasuredLoad]) -> Assessment:
        return assess_layout(
            [load.levels for load in loads],
            question.requirement,
            capacity_bytes=layout.capacity_bytes,
            price=None if price is None else price.least_amount,
            is_price_minimum=price is not None and (price.is_minimum or price.amount is None),
        )

    assessment = assess(loads)
    at_load = None if assessment.at_load is None else loads[assessment.at_load]
    by_size: dict[int, list[MeasuredLoad]] = defaultdict(list)
    for load in loads if assessment.verdict == "meets" else ():
        if load.file_size_bytes is not None:
            by_size[load.file_size_bytes].append(load)
    missed = (size for size, own in by_size.items() if assess(own).verdict != "meets")
    return RankedLayout(
        layout,
        assessment,
        loads[assessment.best],
        at_load,
        price,
        missed_file_sizes=tuple(sorted(missed)),
    )


def _find_price(
    layout: Layout, loads: Sequence[MeasuredLoad], question: LayoutQuestion, *, price_list: PriceList
) -> MonthlyPrice | None:
    """Return the price of a layout; None if there are no prices."""
    if not price_list.has_prices:
        return None
    amounts = price_list.volumes.get(layout.volume_type or "")
    if amounts is None:
        return MonthlyPrice(None, _describe_missing("volume type", layout.volume_type))
    measured = [
        max((level.median or 0.0 for level in levels if level is not None), default=None)
        for levels in (
            [load.levels.iops for load in loads],
            [load.levels.bandwidth_bytes_per_s for load in loads],
        )
    ]
    volumes = PricedVolumes(
        layout.volume_count, layout.volume_size_bytes, layout.provisioned_iops, measured[0], measured[1]
    )
    price = price_volumes(amounts, volumes)
    if question.price_of == "volumes":
        return price
    instance = price_list.instances.get(layout.instance_type or "")
    if instance is None:
        return replace(price, amount=None, missing=_describe_missing("instance type", layout.instance_type))
    return add_instance(price, instance)


def _describe_missing(kind: str, name: str | None) -> str:
    return f"no price of {kind} {name}" if name else f"the {kind} is unknown"


def _mark_front(rows: Sequence[RankedLayout]) -> list[RankedLayout]:
    """Mark the layouts that are on the Pareto front of price and throughput."""
    known = [
        (place, row.price_amount, throughput)
        for place, row in enumerate(rows)
        if row.price_amount is not None and (throughput := find_throughput(row.load)) is not None
    ]
    front = {known[index][0] for index in find_front([(price, value) for _, price, value in known])}
    return [replace(row, is_on_front=place in front) for place, row in enumerate(rows)]


def find_throughput(load: MeasuredLoad) -> float | None:
    """Return the median throughput of a load: IOPS, else bytes per second."""
    level = load.levels.iops or load.levels.bandwidth_bytes_per_s
    return None if level is None else level.median


def _rank(row: RankedLayout) -> tuple[Any, ...]:
    assessment, price = row.assessment, row.least_price
    is_met = row.verdict == "meets"
    return (
        VERDICTS.index(row.verdict),
        0.0 if is_met else round(assessment.shortfall, 9),
        row.price_amount is None,
        price is None,
        price or 0.0,
        -(assessment.margin or 0.0),
        row.layout.title,
    )
