from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.models import DetectionStatus, IncidentState, Verdict
from tests.factories import make_change, make_detection_result, make_host, make_incident, make_series
from tests.pages import Page

pytestmark = pytest.mark.django_db
URL = "/incidents/health/"


def make_noisy_series(name="db-1"):
    """Make a series whose three incidents were rated as noise."""
    series = make_series([1.0], host=make_host(name), start_at=timezone.now())
    for index, size in enumerate((0.06, 0.07, 0.09)):
        make_incident(
            changes=[make_change(series, at=series.last_at - timedelta(hours=index), relative=-size)],
            metric="iops",
            relative=-size,
            verdict=Verdict.NOISE,
            state=IncidentState.RESOLVED,
            opened_at=timezone.now() - timedelta(days=5),
        )
    return series


def test_proposal_links_to_its_dry_run_for_editors(viewer, editor):
    make_noisy_series()

    link = "/policies/add?metric=iops&amp;threshold=10&amp;filter=host%3Adb-1"

    assert link in editor.get(URL).content.decode()
    assert "/policies/add" not in viewer.get(URL).content.decode()


def test_findings_have_a_remedy_and_a_proposal(viewer):
    series = make_noisy_series()

    page = viewer.get(URL).content.decode().replace("\xa0", " ")

    assert f'href="/series/{series.pk}/"' in page
    assert "3 of 3 rated incidents were noise" in page
    assert "IOPS: a threshold of 10 % instead of 5 % leaves out 3 of 3 noise incidents." in page
    assert "precision 0 %" in page


@pytest.mark.parametrize(
    ("query", "text"),
    [("by=host", "db-1"), ("by=profile", "quick"), ("q=host:none", "host:none</code> matches no series")],
)
def test_groups_and_filters(viewer, query, text):
    make_noisy_series()

    response = viewer.get(f"{URL}?{query}")

    assert response.status_code == 200
    assert text in response.content.decode()


@pytest.mark.parametrize("query", ["by=nothing", "page=0", "page=x"])
def test_parameters_that_are_not_valid_are_named(viewer, query):
    response = viewer.get(f"{URL}?{query}")

    assert response.status_code == 400
    assert response.context["errors"]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("", "1 of 2 series needs work"),
        ("by=host", "1 of 2 hosts and pools needs work"),
        ("q=host:db-2", "no findings in 1 series"),
        ("from=2001-01-01&to=2001-01-02", "no series"),
    ],
)
def test_title_has_what_needs_work(query, title, viewer):
    make_noisy_series("db-1")
    make_series([1.0], host=make_host("db-2"), start_at=timezone.now())

    page = Page(viewer.get(f"{URL}?{query}"))

    assert f"Benchmark health: {title}" in page.words


def test_address_of_the_former_page_of_detection_status_leads_here(viewer):
    response = viewer.get("/incidents/status/?status=noisy&q=host:db-1")

    assert (response.status_code, response.url) == (301, f"{URL}?status=noisy&q=host:db-1")


def test_empty_installation_leads_to_hosts(viewer):
    page = viewer.get(URL).content.decode()

    assert "No series yet" in page
    assert "0 open" in page


def test_noise_is_of_the_metric_shown_and_leads_to_the_other(viewer):
    series = make_series([1.0], start_at=timezone.now())
    make_detection_result(
        series, metric="latency_p99_ns", status=DetectionStatus.NOISY, smallest_detectable_change=0.94
    )

    usual = Page(viewer.get(URL))
    tail = Page(viewer.get(f"{URL}?metric=latency_p99_ns"))

    assert "no findings in 1 series Noise in other metrics: 1 series in p99 latency." in usual.words
    assert "?metric=latency_p99_ns" in usual.links
    assert "Too noisy for detection in p99 latency; the smallest detectable change is 94 %." in tail.words
    assert f"/series/{series.pk}/?metric=latency_p99_ns" in tail.links


def test_incidents_without_a_verdict_lead_to_them_and_their_series(viewer):
    series = make_series([1.0], start_at=timezone.now())
    make_incident(changes=[make_change(series)], opened_at=timezone.now())

    page = Page(viewer.get(f"{URL}?q=host:{series.scope.removeprefix('host:')}&metric=iops&by=host"))

    query = f"q=host%3A{series.scope.removeprefix('host:')}"
    assert "Regressions: 1 open. No verdict in the last 90 days. Series of these regressions" in page.words
    assert {f"/incidents/?{query}&tab=open", f"/series/?{query}"} <= set(page.links)
