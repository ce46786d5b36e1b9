"""Every page with a list of events takes from and to."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_planned_event,
    make_run_request,
    make_series,
    make_submission,
)
from tests.pages import Page

LISTS = {
    "series_list": {},
    "runs": {},
    "hosts": {},
    "incidents": {},
    "benchmark_health": {},
    "planned_events": {"tab": "past"},
    "uploads": {},
    "run_requests": {},
}


@pytest.fixture
def two_days(db: None) -> None:
    for name, at in (("db-old", NOON - timedelta(days=1)), ("db-new", NOON)):
        host = make_host(name)
        series = make_series([1.0], host=host, start_at=at)
        make_detection_result(series)
        make_incident(changes=[make_change(series, at=at)], started_at=at, title=f"{name}: IOPS −15 %")
        make_planned_event(filter=f"host:{name}", from_at=at, to_at=at + timedelta(hours=1))
        make_submission(host, received_at=at)
        make_run_request(host, created_at=at)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("zone", ["", "Europe/Berlin"])
def test_range_narrows_the_list(name: str, zone: str, viewer: Client, two_days: None) -> None:
    day = {"from": "2026-01-01", "to": f"{NOON - timedelta(days=1):%Y-%m-%d}", "zone": zone}

    whole, first = (Page(viewer.get(reverse(name), {**LISTS[name], **given})) for given in ({}, day))

    assert "db-old" in whole.words and "db-new" in whole.words
    assert "db-old" in first.words and "db-new" not in first.words
    fields = {tag.get("name"): tag.get("value") for tag_name, tag in first.tags if tag_name == "input"}
    assert (fields["from"], fields["to"]) == (day["from"], day["to"])


@pytest.mark.parametrize("name", LISTS)
def test_empty_range_is_named_with_a_link_to_remove_it(name: str, viewer: Client, two_days: None) -> None:
    page = Page(viewer.get(reverse(name), {**LISTS[name], "from": "2001-01-01", "to": "2001-01-02"}))

    assert "in this time range: " in page.words
    assert "Remove the time range" in page.words
