"""A recovery is no improvement: where a level, a change or a mark ends a regression, its text says so."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.judge import judge_due
from benchapp.models import Change, Incident, Series
from tests.detection.write.judging import make_level
from tests.factories import make_host, make_series
from tests.pages import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def recovered() -> Series:
    """Return a series that was 25 % lower for 40 runs, so that the detector also finds the way back."""
    values = make_level(1000.0, 40) + make_level(750.0, 40) + make_level(1000.0, 40)
    start = timezone.now() - timedelta(hours=len(values))
    series = make_series(values, host=make_host("db-1"), start_at=start)
    judge_due()
    regression, way_back = Change.objects.filter(metric="iops").order_by("started_at")
    assert (round(regression.relative, 2), round(way_back.relative, 2)) == (-0.25, 0.33)
    return series


def test_series_page_says_recovered(recovered: Series, viewer: Client) -> None:
    page = Page(viewer.get(reverse("series", args=[recovered.pk])))

    assert "recovered from −25 %" in page.words
    assert "+33 %" not in page.words


def test_chart_marks_the_recovery(recovered: Series, viewer: Client) -> None:
    body = viewer.get(f"/api/v1/history?series={recovered.pk}&metrics=iops").json()

    marks = body["lines"][0]["changes"]
    assert [mark["recovers_from"] and round(mark["recovers_from"], 2) for mark in marks] == [None, -0.25]


def test_improvement_that_ends_no_regression_stays_one(viewer: Client) -> None:
    values = make_level(1000.0, 40) + make_level(1330.0, 40)
    series = make_series(values, host=make_host("db-1"), start_at=timezone.now() - timedelta(hours=80))
    judge_due()

    page = Page(viewer.get(reverse("series", args=[series.pk])))

    assert "+33 %" in page.words
    assert "recovered" not in page.words


def test_series_page_opens_on_the_metric_of_its_open_incident(viewer: Client) -> None:
    latencies = make_level(1e6, 40) + make_level(1.6e6, 20)
    start = timezone.now() - timedelta(hours=60)
    series = make_series(latencies, host=make_host("db-1"), start_at=start, metric="latency_p99_ns")
    series.measurements.update(iops=1000.0)
    judge_due()
    assert Incident.objects.get().metric == "latency_p99_ns"
    address = reverse("series", args=[series.pk])

    opened, asked = Page(viewer.get(address)), Page(viewer.get(f"{address}?metric=iops"))

    assert "p99 latency 1.60 ms since" in opened.words
    assert "1 000 IOPS" in asked.words.replace("\u202f", " ")
    Incident.objects.update(recovered_at=timezone.now())
    assert "p99 latency 1.60 ms since" not in Page(viewer.get(address)).words
