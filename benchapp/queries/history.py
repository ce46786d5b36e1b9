"""The histories of one or several series for one picture: points or buckets, levels, changes around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.analysis.thinning import Buckets, thin_points
from benchapp.grammar import Filter
from benchapp.models.filtering import match_series
from benchapp.queries.changes import ChangeMark, list_changes_of
from benchapp.queries.environments import EnvironmentHistory, read_environment_changes
from benchapp.queries.levels import LevelRow, read_levels
from benchapp.queries.line_names import name_lines, order_rows
from benchapp.queries.series import SeriesRow, list_rows, with_points
from benchapp.queries.thinning import SeriesPoints, read_columns
from benchapp.queries.versions import read_series_versions

LINES_MAXIMUM: Final = 12
# Of a page that was asked for nothing: as many as have their labels at their ends.
LINES_DEFAULT: Final = 6
IDS_MAXIMUM: Final = 100
# A picture of more points comes as buckets.
POINTS_MAXIMUM: Final = 2000
BUCKETS_DEFAULT: Final = 600
# Of all lines together, so many runs are read: 12 lines of 20 000, or 2 of 120 000. Each 100 000 take about 0.2 s and,
# of three metrics, 8 MB.
RUNS_MAXIMUM: Final = 240_000
_BUCKETS_LEAST: Final = 50
_COUNTED_MAXIMUM: Final = 1000


@dataclass(frozen=True, slots=True)
class Chosen:
    """The series of a picture, named; versions: as `read_series_versions` gives them.

    total: how many were asked for, counted up to 1 000 (then has_more).
    """

    rows: tuple[SeriesRow, ...]
    names: tuple[str, ...]
    versions: Mapping[int, str]
    total: int
    has_more: bool

    @property
    def left_out(self) -> int:
        """Return how many of those asked for are not in the picture."""
        return self.total - len(self.rows)

    @property
    def version(self) -> str:
        """Return text that changes whenever a point of one of them does, or another series is among them."""
        return ",".join(f"{series_id}:{version}" for series_id, version in self.versions.items())


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One series of a picture. buckets: None where its points are few enough to come one by one."""

    row: SeriesRow
    name: str
    points: SeriesPoints
    buckets: Buckets | None
    levels: Mapping[str, tuple[LevelRow, ...]]
    environments: EnvironmentHistory
    changes: tuple[ChangeMark, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """What a picture is drawn from. run_count: points of all lines in the span.

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


def choose_series(filter: Filter, *, ids: Sequence[int] | None = None, limit: int = LINES_MAXIMUM) -> Chosen:
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
    return Chosen(
        rows=rows,
        names=tuple(name_lines(rows)),
        versions=read_series_versions([row.id for row in rows]),
        total=min(counted, _COUNTED_MAXIMUM),
        has_more=counted > _COUNTED_MAXIMUM,
    )


def read_history(
    chosen: Chosen,
    *,
    metrics: Sequence[str],
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    bucket_count: int = BUCKETS_DEFAULT,
) -> History:
    """Return the points of a span, or buckets where all lines together have more than 2 000 points.

    from_at inclusive, to_at exclusive; levels and changes are those of the whole history. bucket_count: of all lines
    together. At most 240 000 runs are read, as many of each line. Two queries, and four where a series has changed
    since it was last asked for. Raises UnknownMetric.
    """
    ids = [row.id for row in chosen.rows]
    newest = _find_bound(chosen.rows)
    columns = read_columns(ids, metrics=metrics, from_at=from_at, to_at=to_at, newest=newest)
    levels = read_levels(chosen.versions, metrics=metrics)
    environments = read_environment_changes(chosen.versions)
    changes = list_changes_of(ids, metrics=metrics)
    run_count = sum(len(columns[each].points.at_us) for each in ids)
    count = max(_BUCKETS_LEAST, bucket_count // max(1, len(ids))) if run_count > POINTS_MAXIMUM else None
    return History(
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
