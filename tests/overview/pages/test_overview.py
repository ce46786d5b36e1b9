"""The overview page."""

import itertools
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.fio.output import PARSER_VERSION
from benchapp.intake.importing.sample import load_sample
from benchapp.judge import judge_due, judge_series
from benchapp.models import Host, Run, State, Submission, User
from tests.detection.write.judging import make_level
from tests.factories import (
    calculate_levels,
    make_change,
    make_environment,
    make_host,
    make_incident,
    make_measurement,
    make_run,
    make_series,
    make_submission,
    make_target,
    make_user,
)
from tests.pages import Page
from tests.received_notices import make_subscription


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


def make_silent(host: Host, *, days: int = 3) -> None:
    entry = {"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/srv"}
    Host.objects.filter(pk=host.pk).update(
        schedule=[entry],
        schedule_since_at=timezone.now() - timedelta(days=days),
        schedule_reported_by="agent",
    )


def list_cells(page: Page) -> dict[str, dict[str, str | None]]:
    """Return the attributes of the cells of hosts by path."""
    start = next(place for place, (_, named) in enumerate(page.tags) if "data-host-strip" in named)
    cells = itertools.takewhile(lambda tag: tag[0] in ("a", "span"), page.tags[start + 1 :])
    return {str(named["href"]): named for tag, named in cells if tag == "a"}


def test_empty_server_shows_the_first_steps(viewer: Client) -> None:
    page = Page(viewer.get(reverse("home")))

    assert "Welcome to benchapp" in page.words
    assert "No results yet" in page.words
    assert "No run of your hosts is stored yet" in page.words
    assert "make up SAMPLE=1" in page.words
    assert sum(name == "button" and "data-copy" in named for name, named in page.tags) >= 3


def test_new_installation_names_its_sample_data(viewer: Client) -> None:
    load_sample()
    judge_due()
    add([1.0], host="db-01")

    page = Page(viewer.get(reverse("home")))

    assert "1 run stored besides the sample" in page.words
    assert re.search(r"runs of the host ebs-2013, published Amazon EBS benchmarks", page.words)
    assert "Next: three ways to get more results" in page.words
    # The sample is not a host that reports, and no host that needs attention.
    assert "of 1 host" in page.words
    assert list(list_cells(page)) == [reverse("host", args=["db-01"])]


def test_new_installation_ends_with_twenty_runs(viewer: Client) -> None:
    add([1.0] * 19, host="db-01")
    assert "New installation" in Page(viewer.get(reverse("home"))).words

    add([1.0], host="db-02")

    assert "New installation" not in Page(viewer.get(reverse("home"))).words


def test_open_changes_come_first(viewer: Client) -> None:
    add(make_level(100.0, 34), host="db-unchanged")
    add(make_level(100.0, 24) + make_level(80.0, 10), host="db-worse")
    add(make_level(100.0, 24) + make_level(130.0, 10), host="db-better")
    add([9.0], host="db-timed", metric="elapsed_s")

    words = Page(viewer.get(reverse("home"))).words
    series = words[words.index("Changed series") :]

    assert "1 open incident" in words
    assert "▼ −20 % since" in series
    assert series.index("db-worse") < series.index("db-better") < series.index("db-unchanged")
    assert "▲ +30 % since" in series
    assert "9.00 s" in series


def test_summary_has_the_numbers_of_the_pages_that_it_links(viewer: Client) -> None:
    now = timezone.now()
    series = [add([100.0] * 7 + [80.0] * 5, host=f"db-{number}") for number in range(3)]
    Host.objects.update(last_seen_at=now)
    Run.objects.filter(host__name="db-2").update(started_at=now - timedelta(days=8))
    make_silent(series[2].host)
    make_incident(changes=[make_change(series[0])], severity="medium", title="medium one")
    make_incident(changes=[make_change(series[1])], severity="high", title="severe one")
    make_incident(changes=[make_change(series[2])], state="resolved", title="resolved one")

    page = Page(viewer.get(reverse("home")))
    incidents = Page(viewer.get(reverse("incidents"))).words

    assert "2 open incidents, 1 silent host" in page.words
    assert "2 of 3 hosts have a run in the last 7 days." in page.words
    assert "2 open incidents. Most severe: severe one (high severity)." in page.words
    assert "1 host is silent: db-2." in page.words
    assert page.words.index("severe one") < page.words.index("medium one")
    assert "resolved one" not in page.words
    assert incidents.count("severe one") == incidents.count("medium one") == 1
    assert "1 silent" in Page(viewer.get(reverse("hosts"))).words


def test_title_reports_no_incidents(viewer: Client) -> None:
    add([100.0] * 12, host="db-01")
    Submission.objects.update(parser_version=PARSER_VERSION)

    words = Page(viewer.get(reverse("home"))).words

    assert "No open incidents" in words
    assert "Nothing: no silent or failing hosts" in words


def test_cells_show_regression_silence_failure_and_age(viewer: Client) -> None:
    now = timezone.now()
    worse = add([100.0] * 12, host="db-worse")
    make_incident(changes=[make_change(worse, before=100.0, after=70.0)])
    make_silent(worse.host)
    make_silent(add([100.0], host="db-silent").host)
    make_run(make_host("db-failed"), started_at=now - timedelta(days=2), error=5)
    make_run(make_host("db-fresh"), started_at=now)
    make_run(make_host("db-old"), started_at=now - timedelta(days=9))
    make_host("db-none")
    make_host("db-retired", retired_at=now)

    page = Page(viewer.get(reverse("home")))
    cells = list_cells(page)

    assert "✕ db-failed" in page.words
    assert "d✕" not in page.words
    kinds = {path.split("/")[2]: named["class"] for path, named in cells.items()}
    assert kinds == {
        "db-failed": "recent",
        "db-fresh": "fresh",
        "db-none": "none",
        "db-old": "old",
        "db-silent": "silent",
        "db-worse": "worse-2",
    }
    titles = {path.split("/")[2]: str(named["title"]) for path, named in cells.items()}
    assert "▼ IOPS −30 % since" in titles["db-worse"]
    assert "silent for 22 h" in titles["db-worse"]
    assert "failed: error 5 (Input/output error)" in titles["db-failed"]
    assert "last run 9 d ago" in titles["db-old"]
    assert "no runs" in titles["db-none"]


def test_what_needs_attention_is_linked_to_its_action(editor: Client) -> None:
    now = timezone.now()
    series = add([100.0] * 12, host="db-01")
    make_silent(series.host)
    make_incident(changes=[make_change(series)], severity="high", state="new")
    failed = make_run(make_host("db-02", agent_version="0.0.9"), started_at=now, error=5)
    reason = {"reason_code": "no-report", "reason": "the output contains no report"}
    make_submission(state=State.REJECTED, received_at=now, settled_at=now, **reason)
    make_submission(state=State.REJECTED, received_at=now - timedelta(days=8), settled_at=now, **reason)
    make_submission(state=State.RECEIVED, received_at=now - timedelta(minutes=10))
    Submission.objects.filter(state=State.STORED).update(parser_version=PARSER_VERSION)
    make_submission(state=State.STORED, received_at=now, settled_at=now, parser_version=1)
    person = User.objects.get()
    paused = make_subscription(person, is_active=False, paused_reason="20 failures in a row")

    page = Page(editor.get(reverse("home")))
    words = page.words[page.words.index("Needs attention") :]

    assert "1 incident high severity not acknowledged for" in words
    assert "db-01 silent for 22 h" in words
    assert f"Run {failed.pk} failed latest run of db-02, error 5" in words
    assert "1 upload rejected in the last 7 days: no-report" in words
    assert "1 upload waiting to be processed, oldest received 10 min ago" in words
    assert f"Subscription {paused.pk} paused no notifications: 20 failures in a row" in words
    assert "1 upload older parser the worker reads them again" in words
    assert "db-02 outdated agent 0.0.9; this server ships 0.1.0" in words
    assert {
        "/incidents/?tab=new",
        "/uploads/?state=rejected&reason=no-report",
        "/uploads/?state=received",
        reverse("subscription", args=[paused.pk]),
        reverse("run", args=[failed.pk]),
    } <= set(page.links)


def test_paused_subscriptions_of_others_are_not_shown(viewer: Client) -> None:
    add([1.0], host="db-01")
    make_subscription(make_user(), is_active=False, paused_reason="20 failures in a row")

    assert "paused" not in Page(viewer.get(reverse("home"))).words


def test_chart_pages_are_linked(viewer: Client) -> None:
    add([1.0], host="db-01")

    page = Page(viewer.get(reverse("home")))

    assert {reverse(name) for name in ("scaling", "matrix", "history", "compare")} <= set(page.links)


@pytest.mark.parametrize("count", [3, 500])
def test_overview_runs_as_many_queries_for_500_hosts_as_for_3(
    viewer: Client, django_assert_num_queries, count: int
) -> None:
    for number in range(3):
        add([1.0], host=f"db-{number}")
    Host.objects.bulk_create(Host(name=f"web-{number}") for number in range(count - 3))
    make_silent(Host.objects.latest("pk"))

    # Session, person; runs (2), measurements, counts; installation; totals, hosts, schedules, failures,
    # newest runs, marks; incidents; uploads rejected, waiting, outdated; subscriptions; pins; environment changes;
    # series, their rows, last points, levels (2), marks; studies; new incidents.
    with django_assert_num_queries(28):
        viewer.get(reverse("home"))


def test_filter_selects_what_the_overview_shows(viewer: Client) -> None:
    for name in ("db-1", "web-1"):
        host = make_host(name)
        series = make_series([1000.0, 850.0], host=host)
        make_incident(changes=[make_change(series)], title=f"{name}: IOPS down")
    calculate_levels()

    page = Page(viewer.get("/", {"q": "host:db-*"}))
    everything = Page(viewer.get("/"))

    assert "db-1: IOPS down" in page.words and "web-1" not in page.words
    assert page.words.count("1 open incident") >= 1
    assert list(list_cells(page)) == ["/hosts/db-1/"]
    assert "These charts show the whole fleet" in page.words
    assert "uploads and subscriptions of the whole server" in page.words
    assert {"/incidents/?q=host%3Adb-%2A", "/hosts/?q=host%3Adb-%2A", "/runs/?q=host%3Adb-%2A"} <= set(
        page.links
    )
    assert set(list_cells(everything)) == {"/hosts/db-1/", "/hosts/web-1/"}
    assert "of the whole fleet" not in everything.words


def test_environment_changes_of_the_overview_follow_the_filter(viewer: Client) -> None:
    for name, kernel in (("db-1", "6.1"), ("web-1", "6.6")):
        host = make_host(name)
        series = make_series(host=host)
        for hour, own in enumerate(("5.15", kernel)):
            at = timezone.now() - timedelta(days=2) + timedelta(hours=hour)
            run = make_run(host, started_at=at, environment=make_environment(kernel=own))
            make_measurement(run, series, iops=1000.0)

    page = Page(viewer.get("/", {"q": "host:db-1"}))

    assert "kernel 5.15 → 6.1" in page.words
    assert "6.6" not in page.words


def test_filter_without_matches_is_no_new_installation(viewer: Client) -> None:
    add([1000.0], host="db-1")

    page = Page(viewer.get("/", {"q": "host:nobody"}))

    assert "Welcome" not in page.words
    assert "No hosts match the filter." in page.words
    assert "host:nobody matches no runs. Try host:db-1." in page.words


def test_invalid_filter_of_the_overview_is_an_error(viewer: Client) -> None:
    add([1000.0], host="db-1")

    response = viewer.get("/", {"q": "speed:9"})

    assert response.status_code == 400
    assert "Unknown filter" in Page(response).words
