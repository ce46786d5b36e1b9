"""Times in requests."""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.framework.read.days import (
    MOMENTS,
    BadDays,
    DayRange,
    is_relative_moment,
    make_day_range,
    parse_moment,
)

NOW = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("20261121", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-21T10:00:00Z", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("2026-11-21 10:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        (" 2026-11-21T10:00:00.25Z ", datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("1795255200", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("1795255200250", datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("now", NOW),
        ("now-12h", datetime(2026, 11, 22, 0, 30, tzinfo=UTC)),
        ("-30d", datetime(2026, 10, 23, 12, 30, tzinfo=UTC)),
        ("+1w", datetime(2026, 11, 29, 12, 30, tzinfo=UTC)),
        ("now-90s", NOW - timedelta(seconds=90)),
        ("-15m", NOW - timedelta(minutes=15)),
    ],
)
def test_time_is_read(text: str, moment: datetime) -> None:
    assert parse_moment(text, now=NOW) == moment
    assert parse_moment(text, now=NOW).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "-30", "-30y", "30d", "now-", "--1d", "-999999w", "2026-13-01", "12"),
        *("202611211000", "20261121100000"),
        *("9" * 15, "0001-01-01T00:00+23:00"),
    ],
)
def test_other_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid time\. Examples: 2026-11-21, "):
        parse_moment(text, now=NOW)


def test_examples_are_times() -> None:
    for example in MOMENTS.replace(" (s)", "").replace(" (ms)", "").split(", "):
        assert parse_moment(example, now=NOW)


@pytest.mark.parametrize(
    ("text", "is_relative"),
    [
        ("now", True),
        ("-30d", True),
        (" -30d ", True),
        ("now ", True),
        ("-started_at", False),
        ("2026-11-21", False),
    ],
)
def test_relative_times_are_recognized(text: str, is_relative: bool) -> None:
    assert is_relative_moment(text) is is_relative


@pytest.mark.parametrize(
    ("from_text", "to_text", "first", "last", "is_open"),
    [
        ("", "", "2026-11-20", "2026-11-22", True),
        ("-7d", "", "2026-11-16", "2026-11-22", True),
        ("2026-11-01", "2026-11-08", "2026-11-01", "2026-11-07", False),
        ("2026-10-31T22:00:00Z", "2026-11-07T22:00:00Z", "2026-11-01", "2026-11-07", False),
        ("2026-11-01T20:00:00Z", "2026-11-03T04:00:00Z", "2026-11-01", "2026-11-03", False),
        ("2026-11-20T20:00:00Z", "", "2026-11-20", "2026-11-22", True),
        ("2026-11-21T23:50:00Z", "2026-11-22T00:10:00Z", "2026-11-21", "2026-11-22", False),
        ("", "2026-11-08", "2026-11-05", "2026-11-07", False),
        ("2026-11-21", "2027-01-01", "2026-11-21", "2026-11-22", True),
        ("2026-11-22T12:00:00Z", "2026-11-22T12:10:00Z", "2026-11-22", "2026-11-22", False),
        ("2027-01-01", "2027-01-03", "2027-01-01", "2027-01-02", False),
        ("2027-01-01", "", "2027-01-01", "2027-01-01", False),
    ],
)
def test_days_of_a_range_are_those_that_it_begins(
    from_text: str, to_text: str, first: str, last: str, *, is_open: bool
) -> None:
    # A relative start is parsed before the days are counted.
    bounds = [
        parse_moment(text, now=NOW - timedelta(milliseconds=5)) if text else None
        for text in (from_text, to_text)
    ]

    days = make_day_range(*bounds, now=NOW, usual=3)

    assert (days.first.isoformat(), days.last.isoformat(), days.is_open) == (first, last, is_open)
    assert (len(days.dates), days.dates[0], days.dates[-1]) == (days.count, days.first, days.last)


def test_more_than_a_year_of_days_is_refused() -> None:
    assert make_day_range(NOW - timedelta(days=366), None, now=NOW, usual=3) == DayRange(NOW, 366)
    with pytest.raises(BadDays, match="367 days are more than the 366"):
        make_day_range(NOW - timedelta(days=367), None, now=NOW, usual=3)


@pytest.mark.parametrize("year", [1, 9999])
def test_days_at_the_ends_of_the_calendar_are_refused(year: int) -> None:
    end = datetime(year, 1, 2, tzinfo=UTC)

    for name, bounds in (("to", (None, end)), ("from", (end, None))):
        with pytest.raises(BadDays, match=f"the year {year} is not from 1000 to 8999") as raised:
            make_day_range(*bounds, now=NOW, usual=90)
        assert raised.value.bound == name
