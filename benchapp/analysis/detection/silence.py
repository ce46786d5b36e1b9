"""When the next run of a schedule is expected, and from when on its absence means that a host is silent."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# A run takes its time, its result waits for a server that was away, and a clock is set: none of it is silence.
_GRACE_SHARE: Final = 0.25
_GRACE_MINIMUM: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ExpectedRun:
    """Two moments. expected_at: when the next run starts at the earliest; silent_at: when it is missed at last."""

    expected_at: datetime
    silent_at: datetime

    def is_silent(self, now: datetime) -> bool:
        """Say whether nothing came for too long; the moment itself is still in time."""
        return now > self.silent_at


def expect_run(
    last_at: datetime | None, *, since_at: datetime, every_s: int, splay_s: int, now: datetime
) -> ExpectedRun:
    """Return what is expected after the last run, or after the schedule became known where it did not run since.

    A run may start splay_s late; a quarter of the interval, at least 1 h, is granted beyond. A last run that is
    to come (a host's clock) counts as one of now.
    """
    base = since_at if last_at is None else max(min(last_at, now), since_at)
    every = timedelta(seconds=every_s)
    grace = max(every * _GRACE_SHARE, _GRACE_MINIMUM)
    return ExpectedRun(base + every, base + every + timedelta(seconds=splay_s) + grace)
