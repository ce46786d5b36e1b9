"""Start times of scheduled runs: the intervals of the agent, which crontab and systemd both support."""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60, 3600, 86400, 7 * 86400
DAY_MINUTES: Final = 24 * 60
# As in agent/scheduling/timetable.py: divisors of an hour or a day.
INTERVALS: Final = {
    **{f"{minutes}m": minutes * MINUTE_S for minutes in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)},
    **{f"{hours}h": hours * HOUR_S for hours in (1, 2, 3, 4, 6, 8, 12)},
    "1d": DAY_S,
    "7d": WEEK_S,
}
"""Seconds by text; 7d is on Sundays."""
_TEXTS: Final = {seconds: text for text, seconds in INTERVALS.items()}
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def write_interval(seconds: int) -> str:
    """Return 6h; the number of seconds for an interval that is not one of INTERVALS."""
    return _TEXTS.get(seconds, f"{seconds}s")


def read_clock(text: str) -> int:
    """Return minutes after midnight of 02:30. Raises ValueError."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:20]!r} is not a time of day from 00:00 to 23:59, such as 02:30")
    return int(match.group(1)) * 60 + int(match.group(2))


def write_clock(minute: int) -> str:
    """Return 02:30 for 150."""
    return f"{minute // 60:02}:{minute % 60:02}"


def spread_minute(at_minute: int, splay_s: int, *, host: str, profile: str) -> int:
    """Return the start of one host: at_minute and a delay of less than splay_s that is constant for the host.

    Decided here instead of on the host, so that the start is known before it happens.
    """
    digest = hashlib.sha256(f"{host}\n{profile}".encode()).digest()
    delay = int.from_bytes(digest[:7], "big") * (splay_s // MINUTE_S) // 2**56
    return (at_minute + delay) % DAY_MINUTES


def find_first_minute(every_s: int, at_minute: int) -> int:
    """Return the first start of a day in minutes after midnight: 02:30 every hour is 00:30."""
    return at_minute % min(every_s // MINUTE_S, DAY_MINUTES)


def list_next_starts(
    every_s: int, at_minute: int, *, zone: tzinfo, after: datetime, count: int
) -> list[datetime]:
    """Return the next starts in UTC. zone: of the host, in whose local time at_minute is; after: aware.

    A local time that does not exist on a day is that of the next hour, as for systemd.
    """
    starts: list[datetime] = []
    for start in _list_local_starts(every_s, at_minute, after.astimezone(zone)):
        moment = start.replace(tzinfo=zone).astimezone(UTC)
        if moment > after and moment not in starts:
            starts.append(moment)
        if len(starts) == count:
            break
    return starts


def _list_local_starts(every_s: int, at_minute: int, after: datetime) -> Iterator[datetime]:
    midnight = after.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    step = min(every_s // MINUTE_S, DAY_MINUTES)
    # 50 weeks: more than any list of starts that is shown.
    for offset in range(350):
        day = midnight + timedelta(days=offset)
        if every_s == WEEK_S and day.isoweekday() != 7:
            continue
        for minute in range(find_first_minute(every_s, at_minute), DAY_MINUTES, step):
            yield day + timedelta(minutes=minute)
