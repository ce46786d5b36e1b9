"""When a notice goes out: at once, with the digest, after the quiet hours, or at the next attempt. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# Attempts after 1, 2, 4 … min and then every 6 h: a receiver that is started anew is met again within minutes, and one
# that is away for a night is not asked hundreds of times.
_FIRST_DELAY: Final = timedelta(minutes=1)
_LONGEST_DELAY: Final = timedelta(hours=6)
# Each delay is drawn from 80 to 120 %, so that what failed together does not come back together.
_JITTER: Final = 0.2
GIVE_UP_AFTER: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Times:
    """What a subscription says of time; hours of UTC, quiet_from and quiet_to both or neither."""

    is_digest: bool = False
    digest_hour: int = 7
    quiet_from_hour: int | None = None
    quiet_to_hour: int | None = None


def due_at(times: Times, moment: datetime) -> datetime:
    """Return when a notice of this moment (UTC) goes out: the next digest, or at once, and not in quiet hours."""
    wanted = _next_hour(moment, times.digest_hour) if times.is_digest else moment
    return leave_quiet_hours(times, wanted)


def leave_quiet_hours(times: Times, moment: datetime) -> datetime:
    """Return the moment itself, or the end of the quiet hours that it lies in; from is inclusive, to is exclusive."""
    start, end = times.quiet_from_hour, times.quiet_to_hour
    if start is None or end is None or start == end:
        return moment
    # Over midnight: quiet from 22 to 7 is what is not from 7 to 22.
    is_quiet = start <= moment.hour < end if start < end else not end <= moment.hour < start
    return _next_hour(moment, end) if is_quiet else moment


def retry_at(times: Times, failures: int, *, now: datetime, draw: float) -> datetime:
    """Return the moment of the next attempt after so many failures in a row; draw: a random number of 0 to 1."""
    delay = min(_FIRST_DELAY * 2 ** min(max(failures, 1) - 1, 30), _LONGEST_DELAY)
    return leave_quiet_hours(times, now + delay * (1 - _JITTER + 2 * _JITTER * draw))


def put_off(times: Times, later: datetime, *, asked: timedelta | None, now: datetime) -> datetime:
    """Return the moment of the next attempt where a receiver asked to be left alone so long: never an earlier one."""
    return later if asked is None else max(later, leave_quiet_hours(times, now + asked))


def _next_hour(moment: datetime, hour: int) -> datetime:
    today = moment.replace(hour=hour, minute=0, second=0, microsecond=0)
    return today if today >= moment else today + timedelta(days=1)
