"""The overview page."""

from datetime import timedelta

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Host, State
from benchapp.pipeline.judge import judge_series
from tests.factories import make_change, make_host, make_incident, make_series, make_submission, make_target
from tests.pipeline.detection.judging import make_level
from tests.web.pages import Page


def add(values, *, host: str, metric: str = "iops"):
    series = make_series(
        values,
        host=make_host(host),
        target=make_target(volume_type="gp3"),
        metric=metric,
        start_at=timezone.now() - timedelta(days=len(values)),
        step=timedelta(days=1),
    )
    judge_series([series.pk])
    return series


def test_empty_server_shows_the_first_steps(viewer: Client) -> None:
    page = Page(viewer.get(reverse("home")))

    assert "Welcome to benchapp" in page.words
    assert "No results yet" in page.words


def test_recent_changes_are_first_and_in_the_title(viewer: Client) -> None:
    add(make_level(100.0, 34), host="db-unchanged")
    add(make_level(100.0, 24) + make_level(80.0, 10), host="db-worse")
    add(make_level(100.0, 24) + make_level(130.0, 10), host="db-better")
    add([9.0], host="db-timed", metric="elapsed_s")

    words = Page(viewer.get(reverse("home"))).words

    assert "1 series regressed in 1 open incident" in words
    assert "▼ −20.0 % since" in words
    assert words.index("db-worse") < words.index("db-better") < words.index("db-unchanged")
    assert "▲ +30.0 % since" in words
    assert "9.00 s" in words


def test_title_counts_open_incidents_and_their_series(viewer: Client) -> None:
    series = [add([100.0] * 7 + [80.0] * 5, host=f"db-{number}") for number in range(3)]
    make_incident(changes=[make_change(series[0]), make_change(series[1])])
    make_incident(changes=[make_change(series[2])])

    words = Page(viewer.get(reverse("home"))).words

    assert "3 series regressed in 2 open incidents" in words


def test_title_reports_no_changes(viewer: Client) -> None:
    add([100.0] * 12, host="db-01")

    words = Page(viewer.get(reverse("home"))).words

    assert "No open regressions" in words
    assert "No silent hosts; no uploads rejected" in words


def test_silent_hosts_and_rejected_uploads_need_attention(viewer: Client) -> None:
    series = add([1.0], host="db-01")
    entry = {"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/srv"}
    Host.objects.filter(pk=series.host_id).update(
        schedule=[entry], schedule_since_at=timezone.now() - timedelta(days=3), schedule_reported_by="agent"
    )
    now = timezone.now()
    make_submission(state=State.REJECTED, received_at=now, settled_at=now)
    make_submission(state=State.REJECTED, received_at=now - timedelta(days=8), settled_at=now)
    make_submission(state=State.RECEIVED, received_at=now)

    page = Page(viewer.get(reverse("home")))

    assert "1 host silent; 1 upload rejected" in page.words
    assert "1 upload waiting" in page.words
    assert reverse("host", args=["db-01"]) in page.links


def test_chart_pages_are_linked(viewer: Client) -> None:
    add([1.0], host="db-01")

    page = Page(viewer.get(reverse("home")))

    assert {reverse(name) for name in ("scaling", "matrix", "history", "compare")} <= set(page.links)


def test_overview_runs_as_many_queries_for_many_series_as_for_one(
    viewer: Client, django_assert_num_queries
) -> None:
    for number in range(4):
        add([1.0], host=f"db-{number}")

    # Session, person; runs, measurements, counts; series, their last points, levels, marks; uploads rejected and
    # waiting; scheduled hosts; studies.
    with django_assert_num_queries(15):
        viewer.get(reverse("home"))
