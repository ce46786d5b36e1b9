"""A matrix of patterns × volume counts, or other dimensions: the current level of each combination."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal, cast

from msgspec import Meta

from benchapp.catalog.dimensions import DIMENSIONS, Dimension, find_dimension
from benchapp.catalog.grammar import Filter, Value
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.read.axes import SeriesTable, make_axis
from benchapp.charts.read.chart import BadChart, Chart, ChartCell, ChartLine, ChartPanel
from benchapp.charts.read.scaling_cells import FAILED, mix_spreads, read_spreads
from benchapp.charts.read.scaling_defaults import (
    SCOPE_DIMENSIONS,
    Axes,
    ChosenAxes,
    add_fixed_terms,
    fix_dimensions,
    list_mixed,
    list_settings,
    measure_choices,
)
from benchapp.charts.read.scaling_shapes import SCALING_METRICS
from benchapp.charts.read.series_columns import read_table
from benchapp.framework.read.binary_columns import CHART_S, read_cached
from benchapp.incidents.read.series_status import (
    LevelValues,
    SeriesMark,
    count_open_regressions,
    measure_size,
    read_series_marks,
)
from benchapp.models import Measurement
from benchapp.series.read.levels import CurrentLevel, count_kinds
from benchapp.series.read.selected_levels import NOW, PAST_SERIES_MAXIMUM, LevelRange, read_levels_in
from benchapp.series.read.shapes import order_codes
from benchapp.series.read.titles import describe_setting, describe_value, order_value

CellState = Literal["measured", "failed", "excluded", "unvalued", "missing"]
STATES: Final[tuple[CellState, ...]] = ("measured", "failed", "excluded", "unvalued", "missing")
Key = tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Omitted:
    """What is not shown: values of each axis past the maximum, series hidden by the fixed dimensions.

    unknown_x: series with unknown x.
    """

    rows: int
    columns: int
    panels: int
    hidden_by_fixed: int
    hidden_regressions: Annotated[
        int, Meta(description="of the hidden series, those with an open regression of the metric")
    ]
    unknown_x: int


class Matrix(Chart[ChartPanel], frozen=True, kw_only=True):
    """The current level of each combination. rows, facets: dimensions of lines and panels, whose values are tuples."""

    metric: Metric
    rows: tuple[Dimension, ...]
    facets: tuple[Dimension, ...]
    omitted: Omitted
    span: LevelRange = NOW

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Return the dimensions of all axes: of panels, rows and columns."""
        return (*self.facets, *self.rows, self.x.dimension)

    def list_values(self, panel: ChartPanel, line: ChartLine, place: int) -> dict[str, Value | None]:
        """Return the value of each dimension in a cell."""
        values = (*cast(Key, panel.value), *cast(Key, line.value), cast(Value, self.x.values[place]))
        return {dimension.name: value for dimension, value in zip(self.dimensions, values, strict=True)}

    def count(self, state: str) -> int:
        """Return how many cells are in a state."""
        return sum(cell.state == state for cell in self.cells)

    @property
    def shown_count(self) -> int:
        """Return how many series the cells have."""
        return sum(len(cell.series_ids) for cell in self.cells)

    @property
    def size(self) -> int:
        """Return how many cells there are."""
        return len(self.cells)


# What a cell has of the level of its series.
_OF_LEVEL: Final = ("median", "p10", "p90", "n", "last_at", "from_at", "previous", "recent", "stale_after")
NONE: Final = "none"
ROWS_MAXIMUM: Final = 40
# A fleet of a hundred hosts.
COLUMNS_MAXIMUM: Final = 100
PANELS_MAXIMUM: Final = 12
# A larger page is slow and unreadable: panels are omitted until it fits.
CELLS_MAXIMUM: Final = 4000
_DIMENSIONS_MAXIMUM: Final = 2
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
# What it has of all its series.
_OF_ALL: Final = ("median", "p10", "p90", "n", "last_at")
_USUAL_METRIC: Final = "iops"
_USUAL_ROWS: Final = ("pattern", "block_size_bytes")
_PATTERN_PARTS: Final = ("rw", "direction")
_USUAL_FACETS: Final = ("file_size_bytes", "volume_size_bytes")
# The usual columns, the most usual first.
_FIRST_X: Final = (
    "volume_count",
    "stripe_count",
    "iodepth",
    "numjobs",
    "file_size_bytes",
    "instance_type",
    "host",
)


def read_matrix(
    filter: Filter,
    *,
    metric: str | None = None,
    x: str | None = None,
    rows: str | None = None,
    facet: str | None = None,
    span: LevelRange = NOW,
) -> Matrix:
    """Return the matrix of a filter in a time range; axes that are None are chosen.

    x: a dimension; rows, facet: up to two, separated by commas; facet may be "none". One query if the result is
    cached; else five, three more with a past end, one more where cells have several series, and one more where
    something was measured without giving a value. Raises BadChart.
    """
    if span.from_at is not None and span.to_at is not None and span.from_at >= span.to_at:
        raise BadChart("from", "from must be before to")
    load = partial(_read_matrix, filter, metric=metric, x=x, rows=rows, facet=facet, span=span)
    return read_cached("matrix", filter, metric, x, rows, facet, span, load=load, age_s=CHART_S)


def _read_matrix(
    filter: Filter,
    *,
    metric: str | None,
    x: str | None,
    rows: str | None,
    facet: str | None,
    span: LevelRange,
) -> Matrix:
    shown = _find_metric(metric)
    chosen_rows = _find_names("rows", rows, most=_DIMENSIONS_MAXIMUM)
    chosen_facets = () if facet == NONE else _find_names("facet", facet, most=_DIMENSIONS_MAXIMUM)
    chosen_x = _find_names("x", x, most=1)
    asked = (*chosen_x, *chosen_rows, *chosen_facets)
    facts = [name for name in asked if DIMENSIONS[name].is_environment]
    if span.to_at is not None and (facts or filter.fact_terms):
        fact = (facts or [filter.fact_terms[0].dimension])[0]
        raise BadChart("to", f"to cannot be combined with {fact}, a fact of runs")
    everything, is_cut = read_table(filter, [shown.name], facts=facts, span=span)
    valued = _select_valued(everything, shown) or everything
    row_names = chosen_rows or tuple(name for name in _USUAL_ROWS if name not in (*chosen_x, *chosen_facets))
    x_name = chosen_x[0] if chosen_x else _choose_x(valued, {*row_names, *chosen_facets})
    taken = {x_name, *row_names}
    facets = chosen_facets if facet is not None else _choose_facets(valued, taken)
    _refuse_twice((x_name, *row_names, *facets))
    axes = Axes(x_name, None, None, more=(*row_names, *facets))
    free = {term.dimension for term in filter.terms if not term.is_negated}
    # A filter on patterns includes their parts.
    free |= set(_PATTERN_PARTS) if "pattern" in free else set()
    # Hosts with one layout and workload are repetitions: a cell has the one that got worse most.
    free |= SCOPE_DIMENSIONS
    chosen = fix_dimensions(valued, axes, free=frozenset(free))
    builder = _MatrixBuilder(
        filter, shown, everything, chosen, row_names=row_names, facet_names=facets, span=span
    )
    return builder.fill(is_cut)


class _MatrixBuilder:
    """The series of a matrix that match its fixed dimensions, and its axes."""

    def __init__(
        self,
        filter: Filter,
        metric: Metric,
        everything: SeriesTable,
        chosen: ChosenAxes,
        *,
        row_names: tuple[str, ...],
        facet_names: tuple[str, ...],
        span: LevelRange,
    ) -> None:
        self.filter, self.metric, self.chosen, self.span = filter, metric, chosen, span
        self.row_names, self.facet_names = row_names, facet_names
        self.fixed = chosen.fixed if span.to_at else measure_choices(chosen.fixed, everything, metric.name)
        xs = everything.column(chosen.axes.x)
        known = [place for place in everything.places if xs[place] is not None]
        placed = everything.select(known) if known else everything
        self.table = chosen.keep_shown(placed)
        self.unknown_x = everything.length - placed.length
        self.hidden_by_fixed = placed.length - self.table.length
        self.hidden_ids = sorted(
            set(everything.column("series_id")).difference(self.table.column("series_id"))
        )
        self.is_thinned = False
        self.named = chosen.named
        self.scaling_metric = SCALING_METRICS[metric.name]

    def fill(self, is_cut: bool) -> Matrix:
        """Return the matrix. is_cut: more series match than were read."""
        x = self.chosen.axes.x
        columns, omitted_columns = _order([(value,) for value in self.table.column(x)], (x,), COLUMNS_MAXIMUM)
        row_keys, omitted_rows = _order(self._list_keys(self.row_names), self.row_names, ROWS_MAXIMUM)
        fitting = max(1, CELLS_MAXIMUM // max(1, len(columns) * len(row_keys)))
        panel_keys, omitted_panels = _order(
            self._list_keys(self.facet_names), self.facet_names, min(PANELS_MAXIMUM, fitting)
        )
        groups = self._group(set(columns), set(row_keys), set(panel_keys))
        cells = self._make_cells(groups)
        panels = tuple(
            ChartPanel(
                key, self._label(self.facet_names, key), self._make_rows(key, row_keys, columns, cells)
            )
            for key in panel_keys
        )
        values = tuple(key[0] for key in columns)
        return Matrix(
            shown_filter=add_fixed_terms(self.filter, self.chosen.fixed),
            metric=self.metric,
            x=make_axis(x, values),
            rows=_list_dimensions(self.row_names),
            facets=_list_dimensions(self.facet_names),
            panels=panels if columns and row_keys else (),
            fixed=self.fixed,
            varying=self.chosen.varying,
            mixed=list_mixed(self.chosen.table, self.chosen.axes),
            omitted=Omitted(
                omitted_rows,
                omitted_columns,
                omitted_panels,
                self.hidden_by_fixed,
                0 if self.span.to_at else count_open_regressions(self.hidden_ids, metric=self.metric.name),
                self.unknown_x,
            ),
            is_cut=is_cut,
            is_thinned=self.is_thinned,
            latency_kinds=count_kinds(
                self.table.column("series_id"), self.metric.name, before_at=self.span.to_at
            ),
            span=self.span,
        )

    def _list_keys(self, names: Sequence[str]) -> list[Key]:
        if not names:
            return [()] * self.table.length
        return list(zip(*(self.table.column(name) for name in names), strict=True))

    def _group(
        self, columns: Collection[Key], rows: Collection[Key], panels: Collection[Key]
    ) -> dict[tuple[Key, Key, Key], list[int]]:
        """Return the indices of the series of each cell, the most recent first, as in the table."""
        groups: dict[tuple[Key, Key, Key], list[int]] = defaultdict(list)
        keys = zip(
            self._list_keys(self.facet_names),
            self._list_keys(self.row_names),
            self._list_keys((self.chosen.axes.x,)),
            strict=True,
        )
        for place, (panel, row, column) in enumerate(keys):
            if panel in panels and row in rows and column in columns:
                groups[panel, row, column].append(place)
        return groups

    def _make_cells(
        self, groups: Mapping[tuple[Key, Key, Key], list[int]]
    ) -> dict[tuple[Key, Key, Key], ChartCell]:
        ids, series_ids = self.table.column("id"), self.table.column("series_id")
        scopes = self.table.column("host")
        marks = self._read_marks()
        metric = self.metric.name
        worse = {each: measure_size(mark) for each, mark in marks.items() if mark.is_worse_in(metric)}
        spreads = self._read_repetitions(groups)
        first = self._choose_series(groups, worse, spreads)
        valued = [place for place in first.values() if place is not None]
        levels = self._read_levels([ids[place] for place in valued])
        excluded = _find_excluded(
            [series_ids[place] for key in groups if first[key] is None for place in groups[key]]
        )
        cells = {}
        for key, places in groups.items():
            place = first[key]
            level = None if place is None else levels.get(ids[place])
            shown = places[0] if place is None else place
            values = {} if level is None else {name: getattr(level, name) for name in _OF_LEVEL}
            several = [spreads[ids[one]] for one in places if ids[one] in spreads]
            is_mixed = level is not None and len(several) > 1
            if is_mixed:
                mixed = mix_spreads(several, self.scaling_metric)
                values |= {name: getattr(mixed, name) for name in _OF_ALL} | {"previous": None}
            cells[key] = ChartCell(
                state="measured" if level else self._find_reason(places, excluded),
                series_ids=tuple(series_ids[one] for one in sorted(places, key=lambda one: one != shown)),
                **values,
                worst=(scopes[shown], level.median) if is_mixed and level and ids[shown] in worse else None,
                mark=None if place is None else marks.get(ids[place]),
                regressed_count=sum(ids[one] in worse for one in places),
                badges=order_codes(self.table.column("badges")[shown]),
                settings=list_settings(self.table, [shown], self.named),
            )
        return cells

    def _choose_series(
        self,
        groups: Mapping[tuple[Key, Key, Key], list[int]],
        worse: Mapping[int, float],
        spreads: Mapping[int, LevelValues],
    ) -> dict[tuple[Key, Key, Key], int | None]:
        """Return the index of the series in each cell that got worse most, else whose level has the newest run.

        None without a level. worse: sizes of open regressions by id. spreads: of `_read_repetitions`.
        """
        ids, has_level = self.table.column("id"), self.table.column(f"{self.metric.name}.has_level")
        valued = {key: [place for place in places if has_level[place]] for key, places in groups.items()}

        def rank(place: int) -> tuple[float, datetime]:
            own = spreads.get(ids[place])
            return worse.get(ids[place], 0.0), _EARLIEST if own is None else own.last_at

        # Of equal ones the first, as of those beyond the maximum.
        return {key: max(places, key=rank, default=None) for key, places in valued.items()}

    def _read_repetitions(
        self, groups: Mapping[tuple[Key, Key, Key], list[int]]
    ) -> Mapping[int, LevelValues]:
        """Return the level in the range by id of the series in cells with several, as of a scaling chart."""
        has_level = self.table.column(f"{self.metric.name}.has_level")
        valued = [[place for place in places if has_level[place]] for places in groups.values()]
        several = [place for places in valued if len(places) > 1 for place in places]
        self.is_thinned = self.span.to_at is not None and len(several) > PAST_SERIES_MAXIMUM
        return read_spreads(self.table.select(several), self.scaling_metric, self.span) if several else {}

    def _read_levels(self, ids: Sequence[int]) -> Mapping[int, CurrentLevel]:
        """Return levels by id."""
        if self.table.group_levels is None:
            return read_levels_in(ids, self.metric, span=self.span)
        groups = self.table.group_levels[self.metric.name]
        return {each: groups[each].level for each in ids}

    def _read_marks(self) -> Mapping[int, SeriesMark]:
        """Return the marks by id of series with a level; of groups of runs in the current level, at a past end none."""
        if self.span.to_at:
            return {}
        valued = self.table.select(self.table.array(f"{self.metric.name}.has_level"))
        series_ids = valued.column("series_id")
        marks = read_series_marks(series_ids, metric=self.metric.name)
        if self.table.group_levels is None:
            return marks
        groups = self.table.group_levels[self.metric.name]
        return {
            each: marks[series_id]
            for each, series_id in zip(valued.column("id"), series_ids, strict=True)
            if series_id in marks and groups[each].is_current
        }

    def _find_reason(self, places: Sequence[int], excluded: Collection[int]) -> CellState:
        ids, badges = self.table.column("series_id"), self.table.column("badges")
        if any(ids[place] in excluded for place in places):
            return "excluded"
        return "failed" if any(FAILED in badges[place] for place in places) else "unvalued"

    def _make_rows(
        self,
        panel: Key,
        row_keys: Sequence[Key],
        columns: Sequence[Key],
        cells: Mapping[tuple[Key, Key, Key], ChartCell],
    ) -> tuple[ChartLine, ...]:
        missing = ChartCell(state="missing")
        return tuple(
            ChartLine(
                row,
                self._label(self.row_names, row),
                tuple(cells.get((panel, row, column), missing) for column in columns),
            )
            for row in row_keys
        )

    def _label(self, names: Sequence[str], key: Key) -> str:
        """Return the label of a row or panel: "4k random read", "5 GiB files, 20 GiB volumes"."""
        if set(names) == set(_USUAL_ROWS):
            known = dict(zip(names, key, strict=True))
            pattern = describe_value("pattern", known["pattern"])
            if known["block_size_bytes"] is None:
                return f"{pattern}, {describe_setting('block_size_bytes', None)}"
            return f"{describe_value('block_size_bytes', known['block_size_bytes'])} {pattern}"
        return ", ".join(describe_setting(name, value) for name, value in zip(names, key, strict=True))


def _find_excluded(series_ids: Sequence[int]) -> set[int]:
    if not series_ids:
        return set()
    excluded = Measurement.objects.filter(series_id__in=series_ids, is_excluded=True)
    return set(excluded.values_list("series_id", flat=True).distinct())


def _order(keys: Sequence[Key], names: Sequence[str], maximum: int) -> tuple[tuple[Key, ...], int]:
    """Return the keys in order, if too many those with the most series, and the number of omitted ones."""
    counts = Counter(keys)
    kept = [key for key, _ in counts.most_common(maximum)]
    kept.sort(key=lambda key: [order_value(name, value) for name, value in zip(names, key, strict=True)])
    return tuple(kept), len(counts) - len(kept)


def _list_dimensions(names: Sequence[str]) -> tuple[Dimension, ...]:
    return tuple(DIMENSIONS[name] for name in names)


def _select_valued(table: SeriesTable, metric: Metric) -> SeriesTable | None:
    is_valued = table.array(f"{metric.name}.has_level")
    return table.select(is_valued) if is_valued.any() else None


def _choose_x(table: SeriesTable, taken: Collection[str]) -> str:
    free = [name for name in _FIRST_X if name not in taken]
    return next((name for name in free if len(table.distinct(name) - {None}) > 1), free[0])


def _choose_facets(table: SeriesTable, taken: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in _USUAL_FACETS if name not in taken and len(table.distinct(name)) > 1)


def _find_metric(name: str | None) -> Metric:
    metric = CATALOG.get(name or _USUAL_METRIC)
    if metric is None:
        raise BadChart("metric", f"{str(name)[:60]!r} is not a valid metric; available: {', '.join(CATALOG)}")
    return metric


def _find_names(parameter: str, text: str | None, *, most: int) -> tuple[str, ...]:
    if not text:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > most:
        raise BadChart(parameter, f"{len(parts)} dimensions given, at most {most} allowed")
    found = []
    for part in parts:
        dimension = find_dimension(part)
        if dimension is None:
            raise BadChart(
                parameter,
                f"{part[:60]!r} is not a valid dimension; available: {', '.join(DIMENSIONS)}",
            )
        found.append(dimension.name)
    return tuple(found)


def _refuse_twice(names: Sequence[str]) -> None:
    if len(names) > len(set(names)):
        raise BadChart("rows", "x, rows and facet must be different dimensions")
