"""Histories of one or several series for one chart: points or buckets, levels, environment changes.

Short names that tell the series of one picture apart: only what they differ in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.analysis.charts.downsampling import Buckets, thin_points
from benchapp.dimensions import SERIES_DIMENSIONS, name_pattern
from benchapp.grammar import Filter, write_value
from benchapp.models.filtering import match_series
from benchapp.queries.charts.downsampling import SeriesPoints, read_columns
from benchapp.queries.charts.environment_changes import EnvironmentHistory, read_environment_changes
from benchapp.queries.charts.small_steps import SmallStep, read_small_steps
from benchapp.queries.incidents.changes import ChangeMark, list_changes_of
from benchapp.queries.series.levels import LevelRow, read_levels
from benchapp.queries.series.series import SeriesRow, list_rows, with_points
from benchapp.queries.series_versions import read_series_versions

Value = str | int | float | bool | None

# How a value is said where its bare number would say nothing.
_PATTERNS: Final = {
    "iodepth": "depth {}",
    "numjobs": "{} jobs",
    "file_size_bytes": "{} file",
    "read_share_percent": "{} % reads",
    "runtime_s": "{} s",
    "volume_count": "{} volumes",
    "volume_size_bytes": "{} volume",
    "provisioned_iops": "{} IOPS provisioned",
    "raid_level": "RAID {}",
    "stripe_count": "{} stripes",
    "chunk_size_bytes": "chunk {}",
}
_SINGULAR: Final = {"1 jobs": "1 job", "1 volumes": "1 volume", "1 stripes": "1 stripe"}
_FLAGS: Final = {True: "direct", False: "buffered"}
# Pattern says both.
_LEFT_OUT: Final = frozenset({"rw", "direction"})


def order_rows(rows: Sequence[SeriesRow]) -> tuple[SeriesRow, ...]:
    """Return the series by what tells them apart: 1, 2, 4, 8 volumes; unknown first."""
    chosen = _choose_dimensions([_list_values(row) for row in rows])

    def place(row: SeriesRow) -> list[tuple[bool, float, str]]:
        values = [_list_values(row)[name] for name in chosen]
        return [
            (value is not None, 0.0, value) if isinstance(value, str) else (value is not None, value or 0, "")
            for value in values
        ]

    return tuple(sorted(rows, key=place))


def name_lines(rows: Sequence[SeriesRow]) -> list[str]:
    """Return a name for each series, by the fewest dimensions that tell them apart; a number where none does."""
    values = [_list_values(row) for row in rows]
    chosen = _choose_dimensions(values)
    if not chosen:
        chosen = ["host"] if rows and not rows[0].is_pool else ["pool"]
    names = [
        " · ".join(_say(name, each[name]) for name in chosen if each[name] is not None) for each in values
    ]
    return [
        f"{name or 'series'} #{row.id}" if names.count(name) > 1 or not name else name
        for name, row in zip(names, rows, strict=True)
    ]


def _choose_dimensions(values: Sequence[Mapping[str, Value]]) -> list[str]:
    chosen: list[str] = []
    told = 1
    for name in SERIES_DIMENSIONS:
        if name in _LEFT_OUT or told == len(values):
            continue
        count = len({tuple(each[one] for one in (*chosen, name)) for each in values})
        if count > told:
            chosen.append(name)
            told = count
    return chosen


def _list_values(row: SeriesRow) -> Mapping[str, Value]:
    own: dict[str, Value] = {
        "host": None if row.is_pool else row.scope_name,
        "pool": row.scope_name if row.is_pool else None,
        "pattern": name_pattern(row.workload.rw, row.direction),
    }
    for name in SERIES_DIMENSIONS:
        if name not in own and name not in _LEFT_OUT:
            value = getattr(row.workload if hasattr(row.workload, name) else row.target, name)
            # Empty text is as unknown as none.
            own[name] = None if value == "" else value
    return own


def _say(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return _FLAGS[value]
    if isinstance(value, str) and name != "raid_level":
        return value
    said = _PATTERNS.get(name, "{}").format(write_value(SERIES_DIMENSIONS[name], value))
    return _SINGULAR.get(said, said)


LINES_MAXIMUM: Final = 12
# Of a page that was asked for nothing: as many as have their labels at their ends.
LINES_DEFAULT: Final = 6
IDS_MAXIMUM: Final = 100
# A chart with more points gets buckets.
POINTS_MAXIMUM: Final = 2000
BUCKETS_DEFAULT: Final = 600
# Of all lines together, so many runs are read: 12 lines of 20 000, or 2 of 120 000. Each 100 000 take about 0.2 s and,
# of three metrics, 8 MB.
RUNS_MAXIMUM: Final = 240_000
_BUCKETS_LEAST: Final = 50
_COUNTED_MAXIMUM: Final = 1000


@dataclass(frozen=True, slots=True)
class ChosenSeries:
    """The series of a chart, named; versions: as `read_series_versions` gives them.

    total: how many were asked for, counted up to 1 000 (then has_more).
    """

    rows: tuple[SeriesRow, ...]
    names: tuple[str, ...]
    versions: Mapping[int, str]
    total: int
    has_more: bool

    @property
    def left_out(self) -> int:
        """Return how many matching series are not in the chart."""
        return self.total - len(self.rows)

    @property
    def version(self) -> str:
        """Return text that changes whenever a point of one of them does, or another series is among them."""
        return ",".join(f"{series_id}:{version}" for series_id, version in self.versions.items())


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One series of a chart. buckets: None where its points are few enough to come one by one.

    small_steps: of the first metric of the chart.
    """

    row: SeriesRow
    name: str
    points: SeriesPoints
    buckets: Buckets | None
    levels: Mapping[str, tuple[LevelRow, ...]]
    environments: EnvironmentHistory
    changes: tuple[ChangeMark, ...] = ()
    small_steps: tuple[SmallStep, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """Data of a chart. run_count: points of all lines in the time range.

    newest: where a line has more runs in the span than are read, how many of each are there, the newest; else None.
    """

    metrics: tuple[str, ...]
    lines: tuple[HistoryLine, ...]
    run_count: int
    newest: int | None = None

    @property
    def is_thinned(self) -> bool:
        """Say whether it comes as buckets."""
        return any(line.buckets is not None for line in self.lines)


def choose_series(
    filter: Filter, *, ids: Sequence[int] | None = None, limit: int = LINES_MAXIMUM
) -> ChosenSeries:
    """Return up to `limit` series: those of ids in that order, else the freshest of a filter, by what they differ in.

    ids: at most 100. A filter that asks for nothing gives the freshest six. Four queries.
    """
    if ids is not None:
        wanted = with_points().filter(pk__in=ids)
    else:
        wanted = with_points().filter(match_series(filter))
        if not filter.terms and not filter.words:
            limit = min(limit, LINES_DEFAULT)
    counted = wanted.order_by()[: _COUNTED_MAXIMUM + 1].count()
    if ids is not None:
        found = {row.id: row for row in list_rows(wanted, limit=IDS_MAXIMUM)}
        rows = tuple(found[series_id] for series_id in dict.fromkeys(ids) if series_id in found)[:limit]
    else:
        rows = order_rows(list_rows(wanted, limit=limit))
    return ChosenSeries(
        rows=rows,
        names=tuple(name_lines(rows)),
        versions=read_series_versions([row.id for row in rows]),
        total=min(counted, _COUNTED_MAXIMUM),
        has_more=counted > _COUNTED_MAXIMUM,
    )


def read_history(
    chosen: ChosenSeries,
    *,
    metrics: Sequence[str],
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    bucket_count: int = BUCKETS_DEFAULT,
) -> SeriesHistory:
    """Return the points of a span, or buckets where all lines together have more than 2 000 points.

    from_at inclusive, to_at exclusive; levels and changes are those of the whole history. bucket_count: of all lines
    together. At most 240 000 runs are read, as many of each line. Three queries, and five where a series has changed
    since it was last asked for. Raises UnknownMetric.
    """
    ids = [row.id for row in chosen.rows]
    newest = _find_bound(chosen.rows)
    columns = read_columns(ids, metrics=metrics, from_at=from_at, to_at=to_at, newest=newest)
    levels = read_levels(ids, metrics)
    environments = read_environment_changes(chosen.versions)
    changes = list_changes_of(ids, metrics=metrics)
    main = {series_id: by_metric[metrics[0]] for series_id, by_metric in levels.items()}
    small_steps = read_small_steps(chosen.versions, metrics[0], levels=main)
    run_count = sum(len(columns[each].points.at_us) for each in ids)
    count = max(_BUCKETS_LEAST, bucket_count // max(1, len(ids))) if run_count > POINTS_MAXIMUM else None
    return SeriesHistory(
        metrics=tuple(metrics),
        lines=tuple(
            HistoryLine(
                row=row,
                name=name,
                points=columns[row.id],
                buckets=None if count is None else thin_points(columns[row.id].points, count),
                levels=levels.get(row.id, {}),
                environments=environments.get(row.id, EnvironmentHistory(())),
                changes=tuple(changes.get(row.id, ())),
                small_steps=small_steps.get(row.id, ()),
            )
            for row, name in zip(chosen.rows, chosen.names, strict=True)
        ),
        run_count=run_count,
        newest=newest if any(len(columns[each].points.at_us) == newest for each in ids) else None,
    )


def _find_bound(rows: Sequence[SeriesRow]) -> int | None:
    """Return how many runs of each series are read at most, None where all of them together are few enough."""
    if sum(row.measurement_count for row in rows) <= RUNS_MAXIMUM:
        return None
    return RUNS_MAXIMUM // len(rows)
