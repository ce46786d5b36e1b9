"""What to measure next: to decide between the two best layouts, or to complete a matrix or a scaling chart.

A matrix or a scaling chart lacks missing and failed combinations, or has few runs, stale or wide levels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from django.utils import timezone

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Value
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.axes import split_axis
from benchapp.charts.read.chart import BadChart, ChartCell
from benchapp.charts.read.matrix import NONE, Matrix, read_matrix
from benchapp.charts.read.scaling_shapes import ScalingChart
from benchapp.layouts.read.ranking import IncompleteLoad, LayoutRanking, RankedLayout
from benchapp.layouts.read.run_commands import RunCommand, WantedRuns, make_run_commands
from benchapp.layouts.rules.next_runs import (
    RUNS_LEAST,
    LayoutCandidate,
    RunReason,
    list_gap_reasons,
    plan_decision,
)
from benchapp.layouts.rules.ranking import LevelSpread

_JOB_FILE_REASONS: Final = ("unknown", "one-direction")
# Layouts of which one direction of a mix is missing.
_INCOMPLETE_MAXIMUM: Final = 2


@dataclass(frozen=True, slots=True)
class NextRun:
    """A measurement. runs: further ones; 0 if RUNS_MAXIMUM would not suffice.

    age, last_at: of the newest run, None if unknown.
    n: runs so far; iops: median of the load, None if unknown. directions: measured ones of a mix, if one is missing.
    is_possible: a host can measure it.
    """

    title: str
    iodepth: int | None
    numjobs: int | None
    reasons: tuple[RunReason, ...]
    runs: int
    n: int
    iops: float | None
    age: timedelta | None
    last_at: datetime | None
    directions: tuple[str, ...]
    is_possible: bool


@dataclass(frozen=True, slots=True)
class NextRuns:
    """The plan: measurements, and the commands that carry them out. more: measurements that are not listed."""

    measurements: tuple[NextRun, ...]
    commands: tuple[RunCommand, ...]
    more: int = 0

    @property
    def run_count(self) -> int:
        """Return the number of executions."""
        return sum(command.runs for command in self.commands)

    @property
    def duration_s(self) -> float | None:
        """Return the duration of all commands; None if that of one is unknown."""
        known = [
            command.duration_s * command.runs for command in self.commands if command.duration_s is not None
        ]
        return sum(known) if known and len(known) == len(self.commands) else None


@dataclass(frozen=True, slots=True)
class _Need:
    row: RankedLayout | IncompleteLoad
    reasons: tuple[RunReason, ...]
    series_ids: tuple[int, ...]

    @property
    def runs(self) -> int:
        """Return the runs that serve all reasons that runs can serve."""
        return max((reason.runs for reason in self.reasons if reason.runs is not None), default=0)

    @property
    def has_job_file(self) -> bool:
        """Return whether the profile of earlier runs does not measure what is needed."""
        return any(reason.name in _JOB_FILE_REASONS for reason in self.reasons)


def plan_next_runs(ranking: LayoutRanking, *, now: datetime | None = None) -> NextRuns:
    """Return the runs that would decide between the two best layouts; none if they would change nothing.

    At most four queries.
    """
    now = now or timezone.now()
    needs = [*_list_needs(ranking, now=now), *_list_incomplete(ranking)]
    asked = [place for place, need in enumerate(needs) if need.runs]
    commands, impossible = make_run_commands(
        [
            WantedRuns(
                needs[place].runs,
                needs[place].series_ids,
                needs[place].series_ids,
                has_job_file=needs[place].has_job_file,
            )
            for place in asked
        ],
        now=now,
    )
    unmeasurable = {asked[each] for each in impossible}
    return NextRuns(
        tuple(
            _describe(need, is_possible=place not in unmeasurable, now=now)
            for place, need in enumerate(needs)
        ),
        tuple(commands),
    )


def _list_needs(ranking: LayoutRanking, *, now: datetime) -> Iterator[_Need]:
    rows = ranking.all_rows
    found = plan_decision(
        [_make_candidate(row, now=now) for row in rows],
        ranking.question.requirement,
        has_prices=bool(ranking.currency),
    )
    for place in dict.fromkeys(place for place, _ in found):
        reasons = tuple(reason for each, reason in found if each == place)
        yield _Need(rows[place], reasons, rows[place].load.series_ids)


def _make_candidate(row: RankedLayout, *, now: datetime) -> LayoutCandidate:
    return LayoutCandidate(
        verdict=row.verdict,
        lacks=tuple(lack.name for lack in row.assessment.lacks),
        levels=row.load.levels,
        n=row.load.n,
        age=now - row.load.last_at,
        price=row.price_amount,
        margin=row.assessment.margin,
    )


def _list_incomplete(ranking: LayoutRanking) -> Iterator[_Need]:
    """Yield loads without one direction of layouts that have no complete load."""
    complete = {row.layout for row in ranking.all_rows}
    missing = {each.layout: each for each in ranking.incomplete if each.layout not in complete}
    for each in list(missing.values())[:_INCOMPLETE_MAXIMUM]:
        yield _Need(each, (RunReason("one-direction", RUNS_LEAST),), each.series_ids)


def _describe(need: _Need, *, is_possible: bool, now: datetime) -> NextRun:
    row = need.row
    if isinstance(row, IncompleteLoad):
        title, iodepth, numjobs, n, last_at = row.layout.title, row.iodepth, row.numjobs, 0, None
        directions, iops = row.directions, None
    else:
        load = row.load
        title, iodepth, numjobs, n = row.layout.title, load.iodepth, load.numjobs, load.n
        last_at, directions = load.last_at, ()
        iops = None if load.levels.iops is None else load.levels.iops.median
    return NextRun(
        title,
        iodepth,
        numjobs,
        reasons=need.reasons,
        runs=need.runs,
        n=n,
        iops=iops,
        age=None if last_at is None else now - last_at,
        last_at=last_at,
        directions=directions,
        is_possible=is_possible,
    )


# More are counted only: a plan is for one session.
MEASUREMENTS_MAXIMUM: Final = 20
# Series of the same layout or workload that are looked at for a host or a profile.
_SERIES_MAXIMUM: Final = 20
# Of a matrix: columns, and two each of rows and panels.
_DIMENSIONS_MAXIMUM: Final = 5
_Key = tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class _Gap:
    """A cell with its values of the axes that describe the layout, and of those that describe the workload."""

    title: str
    cell: ChartCell
    layout: _Key
    workload: _Key
    reasons: tuple[RunReason, ...]

    @property
    def runs(self) -> int:
        """Return the further runs, 0 if too many would be needed."""
        return max((reason.runs for reason in self.reasons if reason.runs is not None), default=0)


def can_plan_scaling_runs(chart: ScalingChart) -> bool:
    """Return whether a matrix has the combinations of a chart: no groups, one dimension on x, five in all."""
    names = _list_axes(chart)
    return (
        not chart.is_empty
        and len(split_axis(chart.x.name)) == 1
        and len(names) <= _DIMENSIONS_MAXIMUM
        and set(names) <= set(DIMENSIONS)
    )


def plan_scaling_runs(chart: ScalingChart, *, now: datetime | None = None) -> NextRuns:
    """Return the runs that would complete a scaling chart: those of the matrix of the same combinations.

    At most eight queries. Raises BadChart.
    """
    if chart.is_empty:
        return NextRuns((), ())
    if not can_plan_scaling_runs(chart):
        raise BadChart("next_runs", "needs one dimension on x, at most five on all axes, and no groups")
    x, *others = _list_axes(chart)
    # Rows and panels of a matrix take two dimensions each.
    rows, facets = others[:2], others[2:]
    matrix = read_matrix(
        chart.shown_filter,
        metric=chart.metric.name if chart.metric.name in CATALOG else "iops",
        x=x,
        rows=",".join(rows) or None,
        facet=",".join(facets) or NONE,
    )
    return plan_matrix_runs(matrix, now=now)


def _list_axes(chart: ScalingChart) -> list[str]:
    axes = [axis.name for axis in (chart.x, chart.color, chart.facet) if axis is not None]
    return [name for axis in axes for name in split_axis(axis)]


def plan_matrix_runs(matrix: Matrix, *, now: datetime | None = None) -> NextRuns:
    """Return the runs that would complete a matrix, empty cells first; at most four queries.

    A missing combination is measured on a host of another one with its layout, by the profile of another one with its
    workload.
    """
    now = now or timezone.now()
    cells = list(_list_cells(matrix))
    gaps = sorted((gap for gap in cells if gap.reasons), key=_rank)
    shown = gaps[:MEASUREMENTS_MAXIMUM]
    asked = [place for place, gap in enumerate(shown) if gap.runs]
    by_layout: dict[_Key, list[int]] = {}
    by_workload: dict[_Key, list[int]] = {}
    for each in cells:
        by_layout.setdefault(each.layout, []).extend(each.cell.series_ids)
        by_workload.setdefault(each.workload, []).extend(each.cell.series_ids)
    commands, impossible = make_run_commands(
        [
            WantedRuns(
                shown[place].runs,
                shown[place].cell.series_ids or _cut(by_workload.get(shown[place].workload, [])),
                shown[place].cell.series_ids or _cut(by_layout.get(shown[place].layout, [])),
            )
            for place in asked
        ],
        now=now,
    )
    unmeasurable = {asked[each] for each in impossible}
    return NextRuns(
        tuple(
            _describe_gap_run(gap, is_possible=place not in unmeasurable, now=now)
            for place, gap in enumerate(shown)
        ),
        tuple(commands),
        more=len(gaps) - len(shown),
    )


def _list_cells(matrix: Matrix) -> Iterator[_Gap]:
    for panel, row, place, cell in matrix.walk():
        values = matrix.list_values(panel, row, place).items()
        yield _Gap(
            title=" · ".join(part for part in (panel.label, row.label, matrix.x.settings[place]) if part),
            cell=cell,
            layout=tuple(value for name, value in values if DIMENSIONS[name].group != "workload"),
            workload=tuple(value for name, value in values if DIMENSIONS[name].group == "workload"),
            reasons=tuple(_list_reasons(cell)),
        )


def _list_reasons(cell: ChartCell) -> Iterator[RunReason]:
    if cell.n:
        yield from list_gap_reasons(cast(LevelSpread, cell), cell.n, is_stale=cell.is_stale)
    elif cell.state == "missing":
        yield RunReason("missing", 1)
    elif cell.state == "failed":
        yield RunReason("failed", 1)


def _rank(gap: _Gap) -> int:
    """Return the place of the most important reason; gaps without a proposal are last."""
    if not gap.runs:
        return len(_ORDER)
    return min(_ORDER.index(reason.name) for reason in gap.reasons)


_ORDER: Final = ("missing", "failed", "few-runs", "old", "wide")


def _cut(series_ids: list[int]) -> tuple[int, ...]:
    return tuple(series_ids[:_SERIES_MAXIMUM])


def _describe_gap_run(gap: _Gap, *, is_possible: bool, now: datetime) -> NextRun:
    last_at = gap.cell.last_at
    return NextRun(
        gap.title,
        None,
        None,
        reasons=gap.reasons,
        runs=gap.runs,
        n=gap.cell.n,
        iops=None,
        age=None if last_at is None else now - last_at,
        last_at=last_at,
        directions=(),
        is_possible=is_possible,
    )
