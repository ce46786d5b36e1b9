"""When notices go out."""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.notices.channels.posting import read_retry_after
from benchapp.notices.write.delivery_times import Times, defer, due_at, leave_quiet_hours, retry_at

AT_NIGHT = Times(quiet_from_hour=22, quiet_to_hour=7)
AT_NOON = Times(quiet_from_hour=12, quiet_to_hour=13)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("times", "moment", "expected"),
    [
        (AT_NIGHT, at(21, 21, 59), at(21, 21, 59)),
        (AT_NIGHT, at(21, 22), at(22, 7)),
        (AT_NIGHT, at(21, 23, 30), at(22, 7)),
        (AT_NIGHT, at(22, 0), at(22, 7)),
        (AT_NIGHT, at(22, 6, 59), at(22, 7)),
        (AT_NIGHT, at(22, 7), at(22, 7)),
        (AT_NOON, at(21, 11, 59), at(21, 11, 59)),
        (AT_NOON, at(21, 12, 30), at(21, 13)),
        (AT_NOON, at(21, 13), at(21, 13)),
        (Times(), at(21, 3), at(21, 3)),
        (Times(quiet_from_hour=0, quiet_to_hour=6), at(21, 0), at(21, 6)),
        (Times(quiet_from_hour=18, quiet_to_hour=0), at(21, 23, 59), at(22, 0)),
    ],
)
def test_quiet_hours_also_over_midnight(times: Times, moment: datetime, expected: datetime) -> None:
    assert leave_quiet_hours(times, moment) == expected


@pytest.mark.parametrize(
    ("times", "moment", "expected"),
    [
        (Times(is_digest=True, digest_hour=7), at(21, 6, 59), at(21, 7)),
        (Times(is_digest=True, digest_hour=7), at(21, 7, 1), at(22, 7)),
        (Times(is_digest=True, digest_hour=0), at(30, 12), datetime(2026, 12, 1, tzinfo=UTC)),
        (
            Times(is_digest=True, digest_hour=6, quiet_from_hour=22, quiet_to_hour=8),
            at(21, 12),
            at(22, 8),
        ),
        (Times(), at(21, 12, 34), at(21, 12, 34)),
    ],
)
def test_digest_goes_out_once_a_day_outside_of_quiet_hours(
    times: Times, moment: datetime, expected: datetime
) -> None:
    assert due_at(times, moment) == expected


@pytest.mark.parametrize(
    ("failures", "minutes"), [(1, 1), (2, 2), (3, 4), (6, 32), (9, 256), (10, 360), (20, 360), (5000, 360)]
)
def test_attempts_become_rarer_up_to_six_hours(failures: int, minutes: int) -> None:
    wait = retry_at(Times(), failures, now=at(21, 12), draw=0.5) - at(21, 12)

    assert wait.total_seconds() == minutes * 60


def test_delay_is_drawn_from_80_to_120_per_cent() -> None:
    shortest = retry_at(Times(), 1, now=at(21, 12), draw=0.0) - at(21, 12)
    longest = retry_at(Times(), 1, now=at(21, 12), draw=1.0) - at(21, 12)

    assert (shortest.total_seconds(), longest.total_seconds()) == (48, 72)


def test_attempt_waits_for_the_end_of_the_quiet_hours() -> None:
    assert retry_at(AT_NIGHT, 3, now=at(21, 21, 58), draw=0.5) == at(22, 7)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120),
        ("Sat, 21 Nov 2026 11:00:00 GMT", None),
        ("999999999999999999", 21_600),
        ("Fri, 21 Nov 2036 12:00:00 GMT", 21_600),
        ("Sat, 21 Nov 99999 12:00:00 GMT", None),
        ("-5", None),
        ("soon", None),
        ("\u0663", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: int | None) -> None:
    wait = read_retry_after(text, now=at(21, 12))

    assert (wait.total_seconds() if wait is not None else None) == seconds


def test_next_attempt_is_never_earlier_than_asked_nor_than_our_own_time() -> None:
    now, own = at(21, 12), at(21, 12, 4)

    assert defer(Times(), own, retry_after=None, now=now) == own
    assert defer(Times(), own, retry_after=timedelta(minutes=1), now=now) == own
    assert defer(Times(), own, retry_after=timedelta(minutes=30), now=now) == at(21, 12, 30)
    # What is asked for ends in the quiet hours: it goes out behind them.
    assert defer(AT_NIGHT, own, retry_after=timedelta(hours=11), now=now) == at(22, 7)
