"""The page of a metric by a condition."""

import pytest
from django.test import Client

from benchapp.series.read.dependence import DEPENDENCE_SERIES_MAXIMUM
from tests.factories import make_series
from tests.pages import Page
from tests.series.read.test_dependence import make_dependent_series

pytestmark = pytest.mark.django_db


def test_scatter_plot_has_the_finding_the_slope_and_the_runs(viewer: Client) -> None:
    make_dependent_series(
        [(extents, 1e8 - 1e5 * extents) for extents in (1, 11, 21, 31, 41, 51, 61, 71, 101)]
    )

    response = viewer.get("/dependence/")

    words = Page(response).words
    assert "Bandwidth −10 % from 1 extent to 101 extents; 9 runs." in words
    assert "−100 kB/s per extent" in words
    assert response.content.count(b"<circle") == 9


def test_latency_on_nfs_has_its_lower_bound(viewer: Client) -> None:
    make_dependent_series(
        [(0.001 * place, 2e6 * place + 1e5) for place in range(1, 10)] + [(0.002, 1e6)],
        condition="storage_round_trip_s",
        metric="latency_mean_ns",
    )

    response = viewer.get("/dependence/", {"condition": "storage_round_trip_s"})

    words = Page(response).words
    assert "Mean latency by round-trip time to the storage" in words
    assert "2.00 round trips" in words
    assert "from 1.00 ms to 9.00 ms; 10 runs." in words
    assert b"stroke-dasharray" in response.content
    (scatter,) = response.context["scatters"]
    assert scatter["row"].below_round_trip == 1


def test_empty_page_and_errors_name_what_to_do(viewer: Client) -> None:
    assert "The agent records extents of" in Page(viewer.get("/dependence/")).words
    for _ in range(DEPENDENCE_SERIES_MAXIMUM + 1):
        make_series([1.0])
    many = viewer.get("/dependence/")
    assert (many.status_code, "enter a filter" in Page(many).words) == (200, True)
    assert viewer.get("/dependence/", {"q": "bs:4k"}).status_code == 400
    refused = viewer.get("/dependence/", {"condition": "phase", "q": "depth:lots"})
    assert refused.status_code == 400
    assert "Condition: choose one of extents," in Page(refused).words


def test_points_are_the_runs_of_the_time_range(viewer: Client) -> None:
    series = make_dependent_series([(extents, 1e8 - 1e5 * extents) for extents in range(1, 10)])
    series.refresh_from_db()
    first, last = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (series.first_at, series.last_at))

    page, none = (
        viewer.get("/dependence/", query)
        for query in ({"from": first, "to": last}, {"from": "2019-01-01", "to": "2019-01-31"})
    )
    (row,) = viewer.get("/api/v1/dependence", {"from": first, "to": last}).json()["series"]

    assert page.content.count(b"<circle") == 8
    assert row["n"] == 8
    assert f"/series/{series.pk}/?metric=bandwidth_bytes_per_s&from={first}&to={last}" in Page(page).links
    assert f"from={first}&amp;to={last}" in page.content.decode()
    assert "No runs with this metric and condition in this time range: 1 Jan 2019" in Page(none).words
    assert "?" in Page(none).links
    assert viewer.get("/dependence/", {"from": "soon"}).status_code == 400
