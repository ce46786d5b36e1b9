"""What to measure next: the runs that would decide between the two best layouts of a ranking."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from benchapp.layouts.read.ranking import IncompleteLoad, LayoutRanking, RankedLayout
from benchapp.layouts.read.run_commands import RunCommand, WantedRuns, make_run_commands
from benchapp.layouts.rules.next_runs import (
    RUNS_LEAST,
    RUNS_MAXIMUM,
    LayoutCandidate,
    MeasuredName,
    ReasonName,
    RunReason,
    plan_decision,
)

__all__ = [
    "RUNS_MAXIMUM",
    "MeasuredName",
    "NextRun",
    "NextRuns",
    "ReasonName",
    "RunReason",
    "plan_next_runs",
]

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
