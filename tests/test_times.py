"""Times as text; tests/js/zones.test.js has the same cases."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.utils import timezone

from benchapp.framework.times import (
    find_zone,
    format_clock,
    format_day,
    format_moment,
    format_moment_in_column,
    format_utc_moment,
    list_zone_names,
    name_zone,
)

CASES = json.loads((Path(__file__).parent / "data" / "moment_cases.json").read_text())
NEW_YEAR = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"])
def test_moment_has_the_offset_of_its_day(case: dict[str, str]) -> None:
    with timezone.override(find_zone(case["zone"])):
        assert format_moment(datetime.fromisoformat(case["at"])) == case["text"]


def test_times_are_in_utc_without_a_reader() -> None:
    assert (format_moment(NEW_YEAR), name_zone()) == ("31 Dec 2026 23:30 UTC", "UTC")


def test_every_format_is_in_the_zone_of_the_reader_but_that_of_stored_texts() -> None:
    with timezone.override(find_zone("Europe/Berlin")):
        assert format_moment_in_column(NEW_YEAR) == "1 Jan 2027 00:30"
        assert (format_day(NEW_YEAR), format_day(NEW_YEAR, has_year=False)) == ("1 Jan 2027", "1 Jan")
        assert (format_clock(NEW_YEAR), name_zone()) == ("00:30", "Europe/Berlin")
        assert format_utc_moment(NEW_YEAR) == "31 Dec 2026 23:30 UTC"


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
def test_what_is_not_a_zone_is_none(name: str) -> None:
    assert find_zone(name) is None


def test_zones_are_listed_with_utc_first() -> None:
    names = list_zone_names()

    assert names[0] == "UTC"
    assert "Europe/Berlin" in names
    assert "EST" not in names
