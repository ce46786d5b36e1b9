"""Drift from a baseline, and from the beginning of a level, on every page that shows it."""

import pytest
from django.test import Client

from benchapp.models import DetectionResult, Incident, Series
from tests.detection.write.judging import add_runs, judge_all, make_cells, make_level
from tests.factories import NOON, make_host
from tests.pages import Page
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def drifted() -> Series:
    """Make a series that lost 8 % since its baseline was accepted, without a change of level."""
    values = [value * (1 - 0.000387 * index) for index, value in enumerate(make_level(1000.0, 208))]
    (series,) = make_cells(make_host("db-1"), [values])
    judge_all()
    DetectionResult.objects.update(baseline_from_at=NOON)
    Series.objects.update(judging_is_due=True)
    judge_all()
    return series


def test_inbox_and_incident_show_the_drift(drifted: Series, viewer: Client) -> None:
    incident = Incident.objects.get()

    inbox = Page(viewer.get("/incidents/")).words
    page = Page(viewer.get(f"/incidents/{incident.pk}/")).words

    assert "db-1: IOPS decreased by 7.6 % since 21 Nov, continuing, in 1 series" in inbox
    assert "IOPS of db-1 drifted down 7.6 % from the baseline of 21 Nov 2026 12:00 UTC" in page
    assert "gradual change" in page
    assert "drift, provisional" in page


def test_series_page_shows_size_and_start_of_the_drift(drifted: Series, viewer: Client) -> None:
    words = Page(viewer.get(f"/series/{drifted.pk}/?metric=iops")).words

    assert "Baseline accepted from 21 Nov 2026 12:00 UTC; earlier runs are not compared." in words
    assert (
        "Drifted −7.6 % (−9.1 to −6.3 %) from the baseline of 21 Nov 2026 12:00 UTC, gradually since"
        " 21 Nov 2026 18:00 UTC, −0.9 % a day, continuing." in words
    )


def test_recovered_series_says_so(drifted: Series, viewer: Client) -> None:
    add_runs(drifted, make_level(1000.0, 60))
    judge_all()

    words = Page(viewer.get(f"/series/{drifted.pk}/?metric=iops")).words

    assert (
        "Recovered from a drift of −7.6 % (−9.1 to −6.3 %) from the baseline of 21 Nov 2026 12:00 UTC."
        in words
    )
    assert "Recovered." in Page(viewer.get(f"/incidents/{Incident.objects.earliest('pk').pk}/")).words
