"""The section "Requested runs" of pages: what it shows to whom, and its buttons."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Host, Role, Run, RunRequest, RunRequestState
from tests.factories import (
    make_change,
    make_environment,
    make_host,
    make_incident,
    make_measurement,
    make_request_policy,
    make_run,
    make_run_request,
    make_series,
    make_user,
)
from tests.pages import Page

BUTTON = "Run again</button>"


@pytest.fixture
def host(db: Any) -> Host:
    """Make a host that allows requests."""
    host = make_host("db-7")
    make_request_policy(host, quiet_hours=["08:00-18:00"])
    return host


@pytest.fixture
def run(host: Host) -> Run:
    """Make a run that the host allows to repeat."""
    return make_run(
        host,
        profile="quick",
        command={"parameters": {"runtime": 5}},
        environment=make_environment(facts={"directory": "/data"}),
    )


def sign_in(role: Role) -> Client:
    """Return the client of a person."""
    client = Client()
    client.force_login(make_user(role))
    return client


def test_editor_requests_the_run_again_from_each_page_and_it_is_listed_there(host: Host, run: Run) -> None:
    series = make_series(host=host)
    make_measurement(run, series, iops=100.0)
    series.measurement_count, series.last_at = 1, run.started_at
    series.save(update_fields=["measurement_count", "last_at"])
    incident = make_incident(changes=[make_change(series)])
    client = sign_in(Role.EDITOR)
    places = {
        f"/runs/{run.pk}/": {},
        f"/series/{series.pk}/": {"series": series.pk},
        f"/incidents/{incident.pk}/": {"incident": incident.pk},
        f"/hosts/{host.name}/": {},
    }

    for place, hidden in places.items():
        page = client.get(place).content.decode()
        assert BUTTON in page and "quick runtime=5 on db-7, in /data" in page, place
        answer = client.post("/requests/add", {"runs": run.pk, "next": place, **hidden})
        assert answer.headers["Location"] == place
        created = RunRequest.objects.get()
        assert (created.parameters, created.repeats) == ({"runtime": 5}, run)
        assert created.created_by is not None
        assert 'id="run-requests"' in client.get(place).content.decode()
        assert f"/hosts/db-7/requests/{created.pk}/cancel" in client.get(place).content.decode()
        created.delete()


@pytest.mark.parametrize(("course", "is_offered"), [("suspected", True), ("lasting", False)])
def test_suspected_incident_offers_a_run_to_editors(
    host: Host, run: Run, course: str, is_offered: bool
) -> None:
    series = make_series(host=host)
    make_measurement(run, series, iops=100.0)
    place = f"/incidents/{make_incident(changes=[make_change(series)], course=course).pk}/"

    offer = "A run now tells sooner"

    assert (offer in sign_in(Role.EDITOR).get(place).content.decode()) is is_offered
    assert offer not in sign_in(Role.VIEWER).get(place).content.decode()


def test_viewer_sees_requests_without_buttons_and_nothing_where_there_are_none(host: Host, run: Run) -> None:
    client = sign_in(Role.VIEWER)
    assert "run-requests" not in client.get(f"/runs/{run.pk}/").content.decode()
    now = timezone.now()
    make_run_request(
        host,
        repeats=run,
        state=RunRequestState.RUNNING,
        started_at=now - timedelta(seconds=40),
        duration_s=400.0,
    )

    page = client.get(f"/runs/{run.pk}/").content.decode()

    assert re.search(r">1\d %, about 5 min left<", page)
    assert BUTTON not in page and "/cancel" not in page


def test_obstacle_is_named_unless_the_host_allows_nothing(host: Host, run: Run) -> None:
    other = make_run(make_host("db-8"), profile="quick")
    run.profile = "saturation"
    run.save(update_fields=["profile"])
    client = sign_in(Role.EDITOR)

    assert "the host does not allow this profile" in client.get(f"/runs/{run.pk}/").content.decode()
    assert "run-requests" not in client.get(f"/runs/{other.pk}/").content.decode()


def test_refusal_is_shown_and_nothing_is_stored(host: Host, run: Run) -> None:
    host.request_policy.policy["per_day"] = 1
    host.request_policy.save()
    make_run_request(host)

    answer = sign_in(Role.EDITOR).post("/requests/add", {"runs": run.pk}, follow=True)

    assert "Not requested: db-7: the host allows no more runs within 24 hours." in answer.content.decode()
    assert RunRequest.objects.count() == 1


def test_runs_behind_a_refused_one_are_requested(host: Host, run: Run) -> None:
    others = [make_run(make_host(name), profile="quick") for name in ("db-1", "db-2")]
    runs = f"{others[0].pk},{run.pk},{others[1].pk}"

    answer = sign_in(Role.EDITOR).post("/requests/add", {"runs": runs}, follow=True).content.decode()

    assert "Not requested: db-1: the run was not sent" in answer and "; db-2: the run was not sent" in answer
    assert "1 run requested of db-7." in answer
    assert RunRequest.objects.get().repeats == run


@pytest.mark.parametrize("runs", ["", "x", "1,2,3,4", "0", "1;2"])
def test_form_with_other_runs_is_refused(host: Host, runs: str) -> None:
    answer = sign_in(Role.EDITOR).post("/requests/add", {"runs": runs}, follow=True)

    assert "Not requested: " in answer.content.decode()


def test_pending_request_is_canceled_and_a_running_one_is_not(host: Host) -> None:
    pending = make_run_request(host)
    running = make_run_request(host, state=RunRequestState.RUNNING)
    client = sign_in(Role.EDITOR)

    for request in (pending, running):
        client.post(f"/hosts/{host.name}/requests/{request.pk}/cancel", {"next": "/hosts/db-7/"})
        request.refresh_from_db()

    assert (pending.state, running.state) == (RunRequestState.CANCELED, RunRequestState.RUNNING)
    assert client.post(f"/hosts/db-9/requests/{running.pk}/cancel").status_code == 404


def test_settings_of_a_host_show_what_it_allows(host: Host) -> None:
    client = sign_in(Role.VIEWER)

    page = client.get("/hosts/db-7/settings/").content.decode()
    other = client.get(f"/hosts/{make_host('db-8').name}/settings/").content.decode()

    assert "quick runtime=4..30" in page and "08:00-18:00" in page and "4 runs within 24 hours" in page
    assert "This host allows no requests." in other


def test_page_lists_requests_of_all_hosts_and_saves_the_policy_of_a_pool(host: Host) -> None:
    make_run_request(host)
    editor = sign_in(Role.EDITOR)

    answer = editor.post("/requests/confirmation", {"pool": "", "runs": "2", "share": "7.5"}, follow=True)
    bad = editor.post("/requests/confirmation", {"pool": "", "runs": "9", "share": "5"}, follow=True)
    page = sign_in(Role.VIEWER).get("/requests/").content.decode()

    assert "Saved." in answer.content.decode() and "Not saved:" in bad.content.decode()
    assert "2, at most 7.5 % of the day" in page and '<a href="/hosts/db-7/">db-7</a>' in page
    assert "<form" not in page.partition('id="confirmation"')[2].partition('id="list"')[0]


def test_title_counts_the_requests_of_all_pages(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.requests.pages.run_requests.ROWS_ON_A_PAGE", 1)
    for state in (RunRequestState.PENDING, RunRequestState.PENDING, RunRequestState.RUNNING):
        make_run_request(host, state=state)
    client = sign_in(Role.VIEWER)

    first = Page(client.get("/requests/"))
    after = next(link for link in first.links if "after=" in link)
    second = Page(client.get(f"/requests/{after.removeprefix('/requests/')}"))
    none = Page(client.get("/requests/?from=2020-01-01&to=2020-02-01"))

    assert "Requested runs: 1 running, 2 waiting" in first.words
    assert "Requested runs: 1 running, 2 waiting" in second.words
    assert "Requested runs: none waits or runs" in none.words
