"""Keep what a host is expected to run by itself."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.utils import timezone

from benchapp.models import Host


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A profile that a host runs by itself. every_s, splay_s: seconds; directory: where, as the host names it."""

    profile: str
    every_s: int
    splay_s: int
    directory: str


def note_schedule(host_id: int, entries: Sequence[ScheduleEntry], *, told_by: str) -> bool:
    """Keep a host's schedule, which may be empty, in place of the last; return whether it is another.

    The same schedule told again leaves since when it holds: else who reports at every run could never be silent.
    """
    rows = [asdict(entry) for entry in sorted(entries, key=lambda entry: (entry.profile, entry.directory))]
    changed = (
        Host.objects.filter(pk=host_id)
        .exclude(schedule=rows)
        .update(schedule=rows, schedule_since_at=timezone.now(), schedule_told_by=told_by[:100])
    )
    return changed == 1
