"""Delivery time of a notice: immediately, with the digest, after quiet hours, or at the next attempt. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# Attempts after 1, 2, 4 … min and then every 6 h: a receiver that restarts gets its notices within minutes, and one
# that is down overnight is not contacted hundreds of times.
_FIRST_DELAY: Final = timedelta(minutes=1)
_LONGEST_DELAY: Final = timedelta(hours=6)
# Each delay varies from 80 to 120 %, so that notices that failed together are not retried together.
_JITTER: Final = 0.2
GIVE_UP_AFTER: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Times:
    """Delivery times of a subscription; hours in UTC, quiet_from and quiet_to both or neither."""

    is_digest: bool = False
    digest_hour: int = 7
    quiet_from_hour: int | None = None
    quiet_to_hour: int | None = None


def due_at(times: Times, moment: datetime) -> datetime:
    """Return when a notice of this time (UTC) is sent: with the next digest or immediately, outside quiet hours."""
    wanted = _next_hour(moment, times.digest_hour) if times.is_digest else moment
    return leave_quiet_hours(times, wanted)


def leave_quiet_hours(times: Times, moment: datetime) -> datetime:
    """Return the time itself, or the end of the quiet hours around it; from is inclusive, to is exclusive."""
    start, end = times.quiet_from_hour, times.quiet_to_hour
    if start is None or end is None or start == end:
        return moment
    # Over midnight: quiet from 22 to 7 is the complement of 7 to 22.
    is_quiet = start <= moment.hour < end if start < end else not end <= moment.hour < start
    return _next_hour(moment, end) if is_quiet else moment


def retry_at(times: Times, failures: int, *, now: datetime, draw: float) -> datetime:
    """Return the time of the next attempt after consecutive failures; draw: a random number of 0 to 1."""
    delay = min(_FIRST_DELAY * 2 ** min(max(failures, 1) - 1, 30), _LONGEST_DELAY)
    return leave_quiet_hours(times, now + delay * (1 - _JITTER + 2 * _JITTER * draw))


def defer(times: Times, later: datetime, *, retry_after: timedelta | None, now: datetime) -> datetime:
    """Return the time of the next attempt with a receiver's Retry-After: never earlier than `later`."""
    return later if retry_after is None else max(later, leave_quiet_hours(times, now + retry_after))


def _next_hour(moment: datetime, hour: int) -> datetime:
    today = moment.replace(hour=hour, minute=0, second=0, microsecond=0)
    return today if today >= moment else today + timedelta(days=1)
