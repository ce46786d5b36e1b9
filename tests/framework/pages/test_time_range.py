"""The time range of pages: dates in a time zone, relative times, presets."""

from datetime import datetime

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from benchapp.charts.pages.history import read_history_request
from benchapp.framework.pages.time_range import make_time_range, parse_bound
from benchapp.framework.times import find_zone
from tests.pages import Page

BERLIN = find_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "is_end", "expected"),
    [
        ("2026-05-12", False, "2026-05-11T22:00:00+00:00"),
        ("2026-05-12", True, "2026-05-12T22:00:00+00:00"),
        # A day of 23 hours.
        ("2026-03-29", True, "2026-03-29T22:00:00+00:00"),
        ("2026-05-12T02:10", False, "2026-05-12T00:10:00+00:00"),
        ("2026-05-12T02:10Z", False, "2026-05-12T02:10:00+00:00"),
    ],
)
def test_dates_and_times_without_offset_are_of_the_zone(text: str, is_end: bool, expected: str) -> None:
    assert BERLIN
    assert parse_bound(text, is_end=is_end, zone=BERLIN) == datetime.fromisoformat(expected)


@pytest.mark.parametrize("text", ["0001-01-01", "2026-02-30", "soon", "9999-12-31T23:00"])
def test_what_is_out_of_range_or_no_date_is_refused(text: str) -> None:
    zone = find_zone("America/New_York" if text.startswith("9") else "Europe/Berlin")
    assert zone

    with pytest.raises(ValueError, match=r"out of range|not a valid|day is out"):
        parse_bound(text, is_end=False, zone=zone)


def test_history_has_dates_of_a_zone_and_keeps_relative_times() -> None:
    dated = read_history_request(QueryDict("from=2026-05-12&to=2026-05-12&zone=Europe/Berlin"))
    relative = read_history_request(QueryDict("from=-7d"))
    wrong = read_history_request(QueryDict("from=2026-05-12&zone=Mars/Base"))

    assert dated.bounds == {"from": "2026-05-11T22:00:00Z", "to": "2026-05-12T22:00:00Z"}
    assert relative.bounds == {"from": "-7d"}
    assert wrong.errors == ("'Mars/Base' is not a valid time zone. Example: Europe/Berlin.",)


def test_control_names_the_zone_of_its_dates() -> None:
    with timezone.override(BERLIN):
        empty = make_time_range(QueryDict("metric=iops&after=x"))
        relative = make_time_range(QueryDict("from=-7d"))
        sent = make_time_range(QueryDict("from=2026-05-12"))
        own = make_time_range(QueryDict("a_from=2026-05-12&zone=Asia/Tokyo"), prefix="a_", label="A")

    assert (empty.zone, relative.zone, sent.zone, own.zone) == (
        "Europe/Berlin",
        "Europe/Berlin",
        "UTC",
        "Asia/Tokyo",
    )
    assert (relative.from_type, sent.from_type, own.from_text) == ("text", "date", "2026-05-12")
    assert ("7 days", "?metric=iops&from=-7d", False) in empty.presets
    assert ("7 days", "?from=-7d", True) in relative.presets
    assert ("All", "?metric=iops", True) in empty.presets
    assert ("24 h", "?zone=Asia/Tokyo&a_from=-24h", False) in own.presets


def test_runs_of_an_invalid_zone_are_refused(viewer: Client) -> None:
    response = viewer.get("/runs/?from=2026-05-12&zone=Mars/Base")

    assert response.status_code == 400
    assert "'Mars/Base' is not a valid time zone" in Page(response).words
