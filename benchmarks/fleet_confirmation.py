"""Additional runs of unconfirmed regressions in the fleet benchmark, requested as the pipeline requests them."""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.models import DAILY_SHARE_DEFAULT, Change, ChangeState
from benchapp.requests.write.run_requests import ConfirmationNeed, is_confirmation_due
from benchmarks.fleet_world import ADDITIONAL_APART, World, say_time, write_additional_run

# As long as the sweep of one layout.
_RUN_S: Final = 240.0
_FOUND_WITHIN: Final = timedelta(days=2)
_DAY: Final = timedelta(days=1)
Key = tuple[int, int]


class Confirmation:
    """Adds runs after the sweeps of each step. times: of the additional runs of each host and layout."""

    def __init__(self, world: World, judge: Callable[[datetime], None]) -> None:
        self.world = world
        self.judge = judge
        self.times: dict[Key, list[datetime]] = defaultdict(list)
        self._cells = {series_id: cell for cell, series_id in enumerate(world.series_ids)}

    @property
    def count(self) -> int:
        """Return the number of additional runs."""
        return sum(map(len, self.times.values()))

    def confirm(self, end: int) -> None:
        """Write and evaluate additional runs, one after the other, after the run before `end`."""
        run = end - 1
        for number in range(len(self.world.additional)):
            due = self._list_due(say_time(run) + number * ADDITIONAL_APART)
            if not due:
                return
            for host, layout in due:
                moment = write_additional_run(self.world, run, number=number, host=host, layout=layout)
                self.times[host, layout].append(moment)
            self.judge(say_time(run) + (number + 1) * ADDITIONAL_APART + timedelta(seconds=_RUN_S))

    def _list_due(self, now: datetime) -> list[Key]:
        """Return the hosts and layouts with an unconfirmed regression whose policy allows another run."""
        found: dict[Key, datetime] = {}
        changes = Change.objects.filter(
            found_at__gte=now - _FOUND_WITHIN,
            state__in=(ChangeState.SUSPECTED, ChangeState.PROVISIONAL),
            is_regression=True,
        ).exclude(method__in=(DRIFT_METHOD, POOLED_METHOD))
        for series_id, found_at in changes.values_list("series_id", "found_at"):
            host, cell = divmod(self._cells[series_id], self.world.cells)
            key = host, cell // (self.world.cells // self.world.layouts)
            found[key] = max(found.get(key, found_at), found_at)
        due = []
        for key, found_at in sorted(found.items()):
            need = ConfirmationNeed(
                started_at=now - ADDITIONAL_APART,
                found_at=found_at,
                requests=sum(at >= found_at for at in self.times[key]),
                has_open=False,
                spent_s=_RUN_S * self._count_today(key[0], now, due),
                run_s=_RUN_S,
            )
            if is_confirmation_due(
                need, runs=len(self.world.additional), daily_share=DAILY_SHARE_DEFAULT, now=now
            ):
                due.append(key)
        return due

    def _count_today(self, host: int, now: datetime, due: list[Key]) -> int:
        """Return the additional runs of a host within 24 hours, and those that are due."""
        done = sum(at > now - _DAY for (of, _), times in self.times.items() if of == host for at in times)
        return done + sum(of == host for of, _ in due)
