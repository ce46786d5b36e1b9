"""Hold what the incidents say against what was planted."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchapp.models import Change, ChangeState, Incident, IncidentEvent, Notice, NoticeState, Phase
from benchmarks.fleet_noise import Planted
from benchmarks.fleet_world import World, find_run

# Runs by which a change may lie beside what it was planted as.
_NEAR_RUNS: Final = 5
# An incident is of what most of its changes are of; grouped as planted is one that is nearly all of it, and it alone.
_MOSTLY: Final = 0.5
_NEARLY_ALL: Final = 0.9
_NEWEST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one planted regression. delay_runs: until an incident opened, None: never.

    incidents: so many hold its changes in the end. cells: in the largest of them. size_error: of the median of its
    changes of IOPS, in points.
    """

    planted: Planted
    delay_runs: int | None
    incidents: int
    cells: int
    is_grouped: bool
    size_error: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """found: of each planted one; false: titles of the incidents of regressions that nobody planted, as they stand.

    improvements: incidents of improvements, without notices.
    """

    found: tuple[Found, ...]
    false: tuple[str, ...]
    improvements: int


def score(world: World, planted: Sequence[Planted]) -> Score:
    """Read the incidents of a fleet, and find out which are of what."""
    homes = dict(Incident.objects.values_list("id", "merged_into_id"))
    cells = {series_id: cell for cell, series_id in enumerate(world.series_ids)}
    members: dict[int, list[int | None]] = defaultdict(list)
    series: dict[tuple[int, int | None], set[int]] = defaultdict(set)
    rows = (
        Change.objects.filter(is_regression=True).exclude(incident=None).exclude(state=ChangeState.WITHDRAWN)
    )
    for series_id, moment, incident_id in rows.values_list("series_id", "started_at", "incident_id"):
        home = homes[incident_id] or incident_id
        number = _find_planted(planted, cells[series_id], find_run(moment))
        members[home].append(number)
        series[home, number].add(series_id)
    owners = {incident_id: _find_owner(of) for incident_id, of in members.items()}
    false = Incident.objects.filter(pk__in=[key for key, owner in owners.items() if owner is None])
    return Score(
        tuple(
            _describe(
                one,
                [key for key, owner in owners.items() if owner == number],
                number,
                members=members,
                series=series,
            )
            for number, one in enumerate(planted)
        ),
        tuple(f"run {find_run(one.started_at)}: {one.title} ({one.verdict or one.state})" for one in false),
        Incident.objects.filter(is_regression=False).count(),
    )


def _find_planted(planted: Sequence[Planted], cell: int, run: int) -> int | None:
    near = [
        number for number, one in enumerate(planted) if cell in one.cells and abs(run - one.run) <= _NEAR_RUNS
    ]
    return near[0] if near else None


def _find_owner(of: Sequence[int | None]) -> int | None:
    owner, count = Counter(of).most_common(1)[0]
    return owner if count >= _MOSTLY * len(of) else None


def _describe(
    one: Planted,
    ids: Sequence[int],
    number: int,
    *,
    members: Mapping[int, Sequence[int | None]],
    series: Mapping[tuple[int, int | None], set[int]],
) -> Found:
    if not ids:
        return Found(one, None, 0, 0, is_grouped=False, size_error=None)
    largest = max(ids, key=lambda key: members[key].count(number))
    own, everywhere = members[largest].count(number), sum(of.count(number) for of in members.values())
    is_grouped = own >= _NEARLY_ALL * max(everywhere, len(members[largest]))
    opened = (
        IncidentEvent.objects.filter(kind="opened", incident__in=_with_joined(ids)).order_by("at").first()
    )
    live = Change.objects.filter(incident=largest, metric="iops").exclude(state=ChangeState.WITHDRAWN)
    sizes = list(live.values_list("relative", flat=True))
    return Found(
        planted=one,
        delay_runs=find_run(opened.at) - one.run + 1 if opened else None,
        incidents=len(ids),
        cells=len(series[largest, number]),
        is_grouped=is_grouped,
        size_error=100 * (median(sizes) + one.size) if sizes else None,
    )


def _with_joined(ids: Sequence[int]) -> list[int]:
    return [*ids, *Incident.objects.filter(merged_into__in=ids).values_list("id", flat=True)]


def describe_notices(world: World, *, weeks: float) -> Iterator[str]:
    """Yield rows of a table: notices a week, those that were false when sent, and false last ones.

    A notice of a regression is false if the newest three values of most of the changed metrics are nearer to the level
    before. The last notice of an incident is false if the incident is in another phase.
    """
    incidents = Incident.objects.select_related("merged_into").in_bulk()
    notices = [
        (notice, incident.merged_into or incident, Phase(notice.body["kind"].removeprefix("incident.")))
        for notice in Notice.objects.filter(state=NoticeState.SENT).exclude(incident=None).order_by("id")
        for incident in [incidents[notice.incident_id or 0]]
    ]
    yield f"| notices to a subscriber of everything (a week) | | {len(notices)} ({len(notices) / weeks:.1f}) |"
    sent = [_is_bad(world, notice, incident) for notice, incident, of in notices if of == Phase.WORSE]
    yield f"| notices “worse” (false when sent) | (0) | {len(sent)} ({sent.count(False)}) |"
    for phase in (Phase.INTERMITTENT, Phase.OVER):
        yield f"| notices “{phase.label.lower()}” | | {sum(of == phase for *_, of in notices)} |"
    last = {incident: phase for _, incident, phase in notices}
    wrong = Counter(phase for incident, phase in last.items() if phase != incident.phase)
    words = f"{wrong[Phase.WORSE]}; {wrong[Phase.OVER]}"
    yield f"| last notice: worse, though it is not; over, though it is not | 0; 0 | {words} |"


def _is_bad(world: World, notice: Notice, home: Incident) -> bool:
    """Return whether most changed metrics of an incident were at their new levels when a notice was written."""
    cells = {series_id: cell for cell, series_id in enumerate(world.series_ids)}
    end = find_run(notice.created_at) + 1
    changes = Change.objects.filter(incident=home, started_at__lte=notice.created_at)
    newest = {(change.series_id, change.metric): change for change in changes.order_by("started_at", "id")}
    bad = 0
    for (series_id, metric), change in newest.items():
        values = world.values[metric][cells[series_id], end - _NEWEST_RUNS : end]
        bad += abs(median(values.tolist()) - change.after_median) < abs(
            median(values.tolist()) - change.before_median
        )
    return bad >= _MOSTLY * len(newest)
