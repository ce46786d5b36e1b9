"""Schedules of hosts: what is expected to run when, and which hosts are silent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from benchapp.detection.rules.staleness import expect_run
from benchapp.models import InstalledSchedule
from benchapp.models.measurement import read_last_receipts


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """The schedule columns of a host: entries as reported, [{profile, every_s, splay_s, directory}]."""

    host_id: int
    entries: Sequence[Mapping[str, Any]]
    since_at: datetime
    reported_by: str
    is_retired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledProfile(InstalledSchedule):
    """A scheduled profile of a host, and its runs.

    last_at: receipt of its newest run or attempt since the schedule is known. expected_at: the next; None of a retired
    host. silent_at: from when on it was missed, or will be; is_silent: it is.
    """

    last_at: datetime | None
    expected_at: datetime | None
    silent_at: datetime | None
    is_silent: bool


@dataclass(frozen=True, slots=True)
class HostSchedule:
    """The schedule of a host; entries is empty if nothing is scheduled."""

    since_at: datetime
    reported_by: str
    entries: tuple[ScheduledProfile, ...]

    @property
    def expected_at(self) -> datetime | None:
        """Return the next expected run of the profiles that are not silent."""
        return min(
            (each.expected_at for each in self.entries if each.expected_at and not each.is_silent),
            default=None,
        )

    @property
    def silent_since(self) -> datetime | None:
        """Return when the first missed run became overdue, or None."""
        return min(
            (each.silent_at for each in self.entries if each.silent_at and each.is_silent), default=None
        )


def list_known(rows: Iterable[Mapping[str, Any]]) -> list[KnownSchedule]:
    """Return the schedules of hosts; rows: with id, retired_at and the three columns of the schedule."""
    return [
        KnownSchedule(
            host_id=row["id"],
            entries=row["schedule"],
            since_at=row["schedule_since_at"],
            reported_by=row["schedule_reported_by"],
            is_retired=row["retired_at"] is not None,
        )
        for row in rows
        if row["schedule"] is not None
    ]


def read_installed(entry: Mapping[str, Any]) -> InstalledSchedule:
    """Return an entry of the column `schedule` of a host."""
    return InstalledSchedule(
        profile=entry["profile"],
        directory=entry["directory"],
        every_s=entry["every_s"],
        splay_s=entry["splay_s"],
        at_minute=entry.get("at_minute"),
        parameters=entry.get("parameters"),
        is_from_server=entry.get("is_from_server", False),
    )


def read_schedules(known: Sequence[KnownSchedule], *, now: datetime | None = None) -> dict[int, HostSchedule]:
    """Return the schedule of each host; two queries at most, none without schedules."""
    moment = now or timezone.now()
    # What came before the schedule was known is not looked at: it would have the same next moment.
    last = read_last_receipts(
        [
            (each.host_id, entry["profile"], entry["directory"], each.since_at)
            for each in known
            for entry in each.entries
        ]
    )
    return {
        each.host_id: HostSchedule(
            each.since_at,
            each.reported_by,
            tuple(
                _judge(
                    each, entry, last.get((each.host_id, entry["profile"], entry["directory"])), now=moment
                )
                for entry in each.entries
            ),
        )
        for each in known
    }


def _judge(
    known: KnownSchedule, entry: Mapping[str, Any], last_at: datetime | None, *, now: datetime
) -> ScheduledProfile:
    expected = expect_run(
        last_at, since_at=known.since_at, every_s=entry["every_s"], splay_s=entry["splay_s"], now=now
    )
    return ScheduledProfile(
        **asdict(read_installed(entry)),
        last_at=last_at,
        expected_at=None if known.is_retired else expected.expected_at,
        silent_at=None if known.is_retired else expected.silent_at,
        is_silent=not known.is_retired and expected.is_silent(now),
    )
