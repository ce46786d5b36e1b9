"""The page Mixed workloads."""

import csv
import io

import pytest
from django.test import Client

from benchapp.models import IncidentState, Series
from tests.factories import make_change, make_host, make_incident, make_series, make_target, make_workload
from tests.mixes import PURE, plant_mixes
from tests.web.pages import Page

pytestmark = pytest.mark.django_db


def test_estimate_is_the_title_and_marked_as_interpolated(viewer: Client) -> None:
    plant_mixes(PURE)

    response = viewer.get("/mixes/?read_share=50")

    words = Page(response).words
    assert "Random mix of 50 % reads: 16\u202f000 IOPS (15\u202f872 to 20\u202f160), interpolated" in words
    assert words.count("interpolated between 0 % and 100 % reads") >= 2
    assert "0 %: 10\u202f000; 100 %: 40\u202f000" in words
    assert "/api/v1/mixes?read_share=50&amp;format=csv" in response.content.decode()
    assert response.content.count(b'class="hollow"') == 1


def test_measured_mix_is_shown_as_measured(viewer: Client) -> None:
    plant_mixes({**PURE, 70: 15_000.0})

    response = viewer.get("/mixes/")

    words = Page(response).words
    assert "Random mix of 70 % reads: 15\u202f000 IOPS, measured" in words
    assert "measured, 3 runs" in words
    assert b'class="hollow"' not in response.content


def test_filter_with_the_terms_of_the_workload_is_limited(viewer: Client) -> None:
    response = viewer.get("/mixes/", {"q": " ".join(f"-host:db-{number}" for number in range(40))})

    assert response.status_code == 400
    assert "A filter has at most 40 terms" in Page(response).words


def test_nothing_is_extrapolated(viewer: Client) -> None:
    plant_mixes({100: 40_000.0, 70: 15_000.0})

    words = Page(viewer.get("/mixes/?read_share=30")).words

    assert "Random mix of 30 % reads: no estimate" in words
    assert "outside the measured read shares, nothing is extrapolated" in words


def test_bandwidth_has_its_unit(viewer: Client) -> None:
    plant_mixes(PURE)

    words = Page(viewer.get("/mixes/?read_share=50&metric=bandwidth_bytes_per_s")).words

    assert "65.5 MB/s (65.0 MB/s to 82.6 MB/s)" in words


def test_many_layouts_and_loads_are_panels_and_rows(viewer: Client) -> None:
    for count in range(1, 15):
        plant_mixes(PURE, target={"volume_count": count})
    for depth in range(1, 9):
        plant_mixes(PURE, depth=depth, target={"volume_count": 1})

    response = viewer.get("/mixes/")

    words = Page(response).words
    assert "Random mix of 70 % reads: 21 loads interpolated" in words
    assert len(response.context["panels"]) == 12
    assert "2 more layouts are in the table." in words
    assert "2 more loads are in the table." in words


def test_names_of_layouts_are_escaped(viewer: Client) -> None:
    plant_mixes(PURE, target={"volume_type": "<b>gp3"})

    text = viewer.get("/mixes/").content.decode()

    assert "<b>gp3" not in text
    assert "&lt;b&gt;gp3" in text


def test_empty_page_and_errors_name_what_to_do(viewer: Client) -> None:
    assert "No layout has measurements of two read shares" in Page(viewer.get("/mixes/")).words
    make_series([1.0], host=make_host("db-1"), target=make_target(), workload=make_workload())
    assert "no measurements to estimate it from" in Page(viewer.get("/mixes/")).words
    refused = viewer.get(
        "/mixes/", {"read_share": "101", "pattern": "zigzag", "block_size": "big", "max_age_days": "0"}
    )
    words = Page(refused).words
    assert refused.status_code == 400
    assert "Reads: enter a whole number from 0 to 100." in words
    assert "Pattern: choose one of random, sequential." in words
    assert "Block size: " in words
    assert "Age of newest run: " in words


def test_series_links_to_the_mixes_with_its_load(viewer: Client) -> None:
    series, _ = plant_mixes(PURE)

    links = Page(viewer.get(f"/series/{series.pk}/")).links

    (link,) = [link for link in links if link.startswith("/mixes/")]
    words = Page(viewer.get(link)).words
    assert "70 % reads: " in words and "interpolated between 0 % and 100 % reads" in words


def test_badges_and_open_incidents_of_the_levels_are_named(viewer: Client) -> None:
    reads, writes = plant_mixes(PURE)
    plant_mixes(PURE, depth=1)
    Series.objects.filter(pk=reads.pk).update(badges=["cached"])
    Series.objects.filter(pk=writes.pk).update(badges=["few-samples", "cached"])
    incident = make_incident(changes=[make_change(writes)])
    closed = make_incident(changes=[make_change(reads)], state=IncidentState.RESOLVED)

    page = Page(viewer.get("/mixes/"))
    curves = viewer.get("/api/v1/mixes").json()["curves"]
    rows = list(csv.DictReader(io.StringIO(viewer.get("/api/v1/mixes?format=csv").content.decode())))

    assert f"/incidents/{incident.pk}/" in page.links
    assert f"/incidents/{closed.pk}/" not in page.links
    assert page.words.count("cached") == 1
    assert [(curve["iodepth"], curve["badges"], curve["incidents"]) for curve in curves] == [
        (1, [], []),
        (8, ["cached", "few-samples"], [incident.pk]),
    ]
    assert {row["incidents"] for row in rows if row["iodepth"] == "8"} == {f"[{incident.pk}]"}
