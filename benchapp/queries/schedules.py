"""What hosts are expected to run by themselves, when it last ran, and which of them are silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from benchapp.analysis.silence import expect_run
from benchapp.models.last_runs import read_last_runs


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """What a host's row says: entries as they were told, [{profile, every_s, splay_s, directory}]."""

    host_id: int
    entries: Sequence[Mapping[str, Any]]
    since_at: datetime
    told_by: str
    is_retired: bool


@dataclass(frozen=True, slots=True)
class ScheduledProfile:
    """A profile that a host runs by itself.

    last_at: its newest run since the schedule is known. expected_at: the next; None of a retired host. silent_at: from
    when on it was missed, or will be; is_silent: it is.
    """

    profile: str
    directory: str
    every_s: int
    splay_s: int
    last_at: datetime | None
    expected_at: datetime | None
    silent_at: datetime | None
    is_silent: bool


@dataclass(frozen=True, slots=True)
class HostSchedule:
    """What a host is expected to do; empty where it is known to do nothing by itself."""

    since_at: datetime
    told_by: str
    entries: tuple[ScheduledProfile, ...]

    @property
    def expected_at(self) -> datetime | None:
        """Return when the next run is expected of a profile that is not silent."""
        return min(
            (each.expected_at for each in self.entries if each.expected_at and not each.is_silent),
            default=None,
        )

    @property
    def silent_since(self) -> datetime | None:
        """Return since when the first of its silent profiles is missed, None where none is."""
        return min(
            (each.silent_at for each in self.entries if each.silent_at and each.is_silent), default=None
        )


def read_schedules(known: Sequence[KnownSchedule], *, now: datetime | None = None) -> dict[int, HostSchedule]:
    """Return the schedule of each host; one query, and none where nothing is scheduled."""
    moment = now or timezone.now()
    last = _read_last_runs(known)
    return {
        each.host_id: HostSchedule(
            each.since_at,
            each.told_by,
            tuple(
                _judge(each, entry, last.get((each.host_id, entry["profile"])), now=moment)
                for entry in each.entries
            ),
        )
        for each in known
    }


def _judge(
    known: KnownSchedule, entry: Mapping[str, Any], last_at: datetime | None, *, now: datetime
) -> ScheduledProfile:
    expectation = expect_run(
        last_at, since_at=known.since_at, every_s=entry["every_s"], splay_s=entry["splay_s"], now=now
    )
    return ScheduledProfile(
        profile=entry["profile"],
        directory=entry["directory"],
        every_s=entry["every_s"],
        splay_s=entry["splay_s"],
        last_at=last_at,
        expected_at=None if known.is_retired else expectation.expected_at,
        silent_at=None if known.is_retired else expectation.silent_at,
        is_silent=not known.is_retired and expectation.is_silent(now),
    )


def _read_last_runs(known: Sequence[KnownSchedule]) -> dict[tuple[int, str], datetime]:
    """Return the newest run of each scheduled profile, by host.

    What ran before the schedule was known is not looked at: it would have the same next moment.
    """
    wanted = [(each.host_id, entry["profile"], each.since_at) for each in known for entry in each.entries]
    return read_last_runs(wanted)
