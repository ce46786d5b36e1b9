"""Compare the incidents of the two months with the planted events: titles, groups, delays, recoveries, notices."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Final

from benchapp.catalog.metrics import CATALOG
from benchapp.models import Change, Incident, IncidentEvent, Notice, NoticeState
from benchmarks.fleet_months import RUNS, PlantedEvent
from benchmarks.fleet_world import START, STEP, World, find_run

# Runs by which the start of a change may differ from that of its event.
_NEAR_RUNS: Final = 5
# Runs after the end of a drift in which its changes are still attributed to it.
_DRIFT_RUNS: Final = 40
# Difference of the size in a title from the planted one, in percentage points.
_SIZE_POINTS: Final = 3.0
_MOSTLY: Final = 0.5
_NEARLY_ALL: Final = 0.9
_SIZE: Final = re.compile(r"([−+]|decreased by |increased by )(\d+(?:\.\d+)?) %")


@dataclass(frozen=True, slots=True)
class EventResult:
    """The incidents of one event.

    incidents: number whose changes are mostly its own. The rest describes the one with most of its changes: the run
    after the event at which it opened (1: evaluated with its first run), the series of the event in it, whether nearly
    all of its changes and of those of the event are in it, the title, hours from the event's first run until it was
    confirmed (None: never), runs from the event's end to its recovery (None: never), and whether it was reopened by
    another event. notices: sent, of all its incidents.
    """

    event: PlantedEvent
    incidents: int = 0
    delay_runs: int | None = None
    series: int = 0
    is_grouped: bool = False
    title: str = ""
    is_title_right: bool = False
    confirmed_h: float | None = None
    recovery_runs: int | None = None
    is_reopened_by_others: bool = False
    suspect: str = ""
    notices: int = 0


@dataclass(frozen=True, slots=True)
class MonthsScore:
    """The results of all events, titles of incidents of regressions without an event, and contradictory events.

    confirmed_false: of the false incidents of regressions, those that were confirmed. late_events: "grew" and
    "confirmed" of incidents that had recovered.
    """

    events: tuple[EventResult, ...]
    false: tuple[str, ...]
    confirmed_false: int
    false_improvements: int
    late_events: int


def score_months(world: World, events: Sequence[PlantedEvent]) -> MonthsScore:
    """Read the incidents of the fleet and attribute each to the event of most of its changes."""
    homes = {key: merged or key for key, merged in Incident.objects.values_list("id", "merged_into_id")}
    cells = {series_id: cell for cell, series_id in enumerate(world.series_ids)}
    members: dict[int, list[tuple[int | None, int]]] = defaultdict(list)
    rows = Change.objects.exclude(incident=None).exclude(state="withdrawn")
    for series_id, moment, is_regression, incident_id in rows.values_list(
        "series_id", "started_at", "is_regression", "incident_id"
    ):
        cell = cells[series_id]
        number = _find_event(events, cell, find_run(moment), is_regression=is_regression)
        members[homes[incident_id]].append((number, cell))
    owners = {key: _find_owner([number for number, _ in of]) for key, of in members.items()}
    rows_by_id = Incident.objects.in_bulk(list(members))
    false = [rows_by_id[key] for key, owner in owners.items() if owner is None]
    return MonthsScore(
        tuple(_score_event(number, events, owners, members, rows_by_id) for number in range(len(events))),
        tuple(f"run {find_run(one.started_at)}: {one.title}" for one in false if one.is_regression),
        sum(one.is_regression and _is_confirmed(one.pk) for one in false),
        sum(not one.is_regression for one in false),
        _count_late_events(),
    )


def _find_event(events: Sequence[PlantedEvent], cell: int, run: int, *, is_regression: bool) -> int | None:
    """Return the event that a change is of; steps before drifts, which last for many runs."""
    for number, event in enumerate(events):
        near = abs(run - event.run) <= _NEAR_RUNS
        if event.shape == "step" and cell in event.cells and is_regression == event.is_regression and near:
            return number
    for number, event in enumerate(events):
        if event.shape in ("step", "noise") or cell not in event.cells:
            continue
        end = min(event.run + 120 + _DRIFT_RUNS, RUNS) if event.shape == "drift" else RUNS
        if event.run - _NEAR_RUNS <= run <= end and (is_regression or event.shape == "comes and goes"):
            return number
    return None


def _find_owner(of: Sequence[int | None]) -> int | None:
    owner, count = Counter(of).most_common(1)[0]
    return owner if count >= _MOSTLY * len(of) else None


def _score_event(
    number: int,
    events: Sequence[PlantedEvent],
    owners: Mapping[int, int | None],
    members: Mapping[int, Sequence[tuple[int | None, int]]],
    incidents: Mapping[int, Incident],
) -> EventResult:
    event = events[number]
    own = {
        key: sum(found == number for found, _ in members[key])
        for key, owner in owners.items()
        if owner == number and incidents[key].is_regression == event.is_regression
    }
    if not own:
        return EventResult(event)
    largest = max(own, key=lambda key: own[key])
    incident = incidents[largest]
    everywhere = sum(found == number for of in members.values() for found, _ in of)
    joined = [*own, *Incident.objects.filter(merged_into__in=own).values_list("id", flat=True)]
    timeline = IncidentEvent.objects.filter(incident__in=joined)
    opened = timeline.filter(kind="opened").order_by("at").first()
    confirmed = timeline.filter(kind="confirmed").order_by("at").first()
    return EventResult(
        event,
        incidents=len(own),
        delay_runs=find_run(opened.at) - event.run + 1 if opened else None,
        series=len({cell for found, cell in members[largest] if found == number}),
        is_grouped=own[largest] >= _NEARLY_ALL * max(everywhere, len(members[largest])),
        title=incident.title,
        is_title_right=is_title_right(incident.title, event),
        confirmed_h=(confirmed.at - START - event.run * STEP) / timedelta(hours=1) if confirmed else None,
        recovery_runs=_find_recovery(largest, event),
        is_reopened_by_others=_is_reopened_by_others(largest, event),
        suspect=incident.suspects[0]["name"] if incident.suspects else "",
        notices=Notice.objects.filter(incident__in=joined, state=NoticeState.SENT).count(),
    )


def is_title_right(title: str, event: PlantedEvent) -> bool:
    """Return whether a title names a metric of the event, and its size within 3 percentage points."""
    text = title.partition(": ")[2]
    found = _SIZE.search(text)
    named = [name for name in event.sizes if text.startswith(CATALOG[name].label)]
    if found is None or not named:
        return False
    sign = -1 if found[1] in ("−", "decreased by ") else 1
    return abs(sign * float(found[2]) - 100 * event.sizes[named[0]]) <= _SIZE_POINTS


def _find_recovery(incident_id: int, event: PlantedEvent) -> int | None:
    moments = IncidentEvent.objects.filter(incident=incident_id, kind="recovered").order_by("at")
    runs = [find_run(moment) for moment in moments.values_list("at", flat=True)]
    later = [run - event.until + 1 for run in runs if run >= event.until]
    return later[0] if later else None


def _is_reopened_by_others(incident_id: int, event: PlantedEvent) -> bool:
    """Return whether an event that ended was reopened later."""
    moments = IncidentEvent.objects.filter(incident=incident_id, kind="reopened").values_list("at", flat=True)
    return event.until < RUNS and any(find_run(moment) > event.until for moment in moments)


def _is_confirmed(incident_id: int) -> bool:
    return IncidentEvent.objects.filter(incident=incident_id, kind="confirmed").exists()


def _count_late_events() -> int:
    late = 0
    for incident in Incident.objects.exclude(recovered_at=None):
        later = IncidentEvent.objects.filter(incident=incident, at__gt=incident.recovered_at)
        late += later.filter(kind__in=("grew", "confirmed")).count()
    return late


def write_report(result: MonthsScore, *, notices: Iterable[str]) -> Iterator[str]:
    """Yield the tables as Markdown. notices: rows about the notices."""
    expected = [one for one in result.events if one.event.sizes and one.event.shape != "comes and goes"]
    steps = [one for one in expected if one.event.shape == "step"]
    delays = [one.delay_runs for one in steps if one.delay_runs is not None]
    hours = [one.confirmed_h for one in steps if one.confirmed_h is not None]
    ended = [one for one in steps if one.event.until < RUNS]
    drifts = [one for one in expected if one.event.shape == "drift"]
    right = sum(one.is_title_right for one in expected)
    yield "| measure | target | measured |\n|---|---|---|"
    yield f"| events detected | all | {sum(one.incidents > 0 for one in expected)} of {len(expected)} |"
    yield f"| right metric and size in the title | all but one | {right} of {len(expected)} |"
    yield f"| steps grouped as planted | all | {sum(one.is_grouped for one in steps)} of {len(steps)} |"
    yield f"| drifts in one incident | all | {sum(one.incidents == 1 for one in drifts)} of {len(drifts)} |"
    if delays:
        yield f"| delay of steps, runs: median (max) | | {median(delays):g} ({max(delays)}) |"
    if hours:
        count = f"{len(hours)} of {len(steps)}"
        yield f"| hours until steps are confirmed: median (max) | | {median(hours):.1f} ({max(hours):.1f}), {count} |"
    yield f"| runs from the end to the recovery | ≤ 5 | {', '.join(_write(one.recovery_runs) for one in ended)} |"
    yield f"| recovered incidents reopened by another event | 0 | {sum(one.is_reopened_by_others for one in ended)} |"
    yield f"| events after a recovery: grew, confirmed | 0 | {result.late_events} |"
    yield f"| false incidents of regressions (confirmed) | | {len(result.false)} ({result.confirmed_false}) |"
    yield f"| false incidents of improvements | | {result.false_improvements} |"
    yield from notices
    yield ""
    yield "| event | run | incidents | delay, runs | series | grouped | notices | suspect | title |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in result.events:
        yield (
            f"| {one.event.name} | {one.event.run} | {one.incidents} | {_write(one.delay_runs)}"
            f" | {one.series} of {len(one.event.cells)} | {'yes' if one.is_grouped else 'no'} | {one.notices}"
            f" | {one.suspect} | {'' if one.is_title_right else '✗ '}{one.title} |"
        )
    yield from (["", "False:", *(f"- {title}" for title in result.false)] if result.false else [])


def _write(runs: int | None) -> str:
    return "never" if runs is None else str(runs)
