"""The overview page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.fio.output import PARSER_VERSION
from benchapp.intake.importing.sample import load_sample
from benchapp.judge import judge_series
from benchapp.models import Host, Run, State, Submission, User
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
    make_workload,
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


def list_squares(page: Page) -> dict[str, tuple[str | None, str]]:
    """Return kind and text of the square of each host."""
    titles = [
        (named["class"], str(named["title"])) for tag, named in page.tags if tag == "i" and named.get("title")
    ]
    return {title.partition(":")[0]: (kind, title.partition(": ")[2]) for kind, title in titles}


def mature() -> None:
    """Store twenty runs, so that the installation is no longer new."""
    add([100.0] * 20, host="lab-1")


def test_empty_server_shows_the_first_steps(viewer: Client) -> None:
    page = Page(viewer.get(reverse("home")))

    assert "Welcome to benchapp" in page.words
    assert "No results yet" in page.words
    assert sum(name == "button" and "data-copy" in named for name, named in page.tags) >= 3


def test_sample_alone_is_shown_as_a_chart_and_named(viewer: Client) -> None:
    load_sample()

    page = Page(viewer.get(reverse("home")))

    assert "No results of your hosts yet: this is the sample" in page.words
    assert "Published Amazon EBS benchmarks of 2013, none of them measured by this server" in page.words
    assert "levels off at" in page.words
    assert any("data-scaling" in named for _, named in page.tags)
    assert f"{reverse('hosts')}#add" in page.links


def test_first_run_is_shown_as_a_chart_with_the_next_step(viewer: Client) -> None:
    load_sample()
    run = make_run(make_host("db-01"))
    make_measurement(run, make_series(workload=make_workload(rw="randread")), iops=73_200.0)
    make_measurement(run, make_series(workload=make_workload(rw="read")), bandwidth_bytes_per_s=1.24e9)
    calculate_levels()

    page = Page(viewer.get(reverse("home")))

    assert "db-01: random read 73 200 IOPS, sequential read 1.24 GB/s" in page.words
    assert "ebs-2013" not in page.words
    assert any("data-scaling" in named for _, named in page.tags)
    assert "1 of 20 runs" in page.words
    assert "schedule install" in page.words
    assert {reverse("run", args=[run.pk]), "/scaling/?q=host:ebs-2013"} <= set(page.links)


def test_new_installation_ends_with_twenty_runs(viewer: Client) -> None:
    add([1.0] * 19, host="db-01")
    assert "19 of 20 runs" in Page(viewer.get(reverse("home"))).words

    add([1.0], host="db-02")

    assert "of 20 runs" not in Page(viewer.get(reverse("home"))).words


def test_title_has_the_numbers_of_the_pages_that_the_overview_links(viewer: Client) -> None:
    now = timezone.now()
    series = [add([100.0] * 7 + [80.0] * 5, host=f"db-{number}") for number in range(3)]
    Host.objects.update(last_seen_at=now)
    Run.objects.filter(host__name="db-2").update(started_at=now - timedelta(days=8))
    make_silent(series[2].host)
    make_incident(changes=[make_change(series[0])], severity="medium", title="medium one")
    make_incident(changes=[make_change(series[1])], severity="high", title="severe one (−9 to −30 %) of db-1")
    make_incident(changes=[make_change(series[2])], state="resolved", title="resolved one")

    page = Page(viewer.get(reverse("home")))
    incidents = Page(viewer.get(reverse("incidents"))).words

    assert "severe one of db-1; 1 more open incident, 1 silent host" in page.words
    assert "2 of 3 hosts ran in the last 7 days" in page.words
    assert "1 silent: db-2 for " in page.words
    assert page.words.index("severe one (") < page.words.index("medium one")
    assert "resolved one" not in page.words
    assert incidents.count("severe one") == incidents.count("medium one") == 1
    assert "1 silent" in Page(viewer.get(reverse("hosts"))).words


def test_title_reports_no_incidents(viewer: Client) -> None:
    mature()
    Submission.objects.update(parser_version=PARSER_VERSION)

    words = Page(viewer.get(reverse("home"))).words

    assert "No open incidents" in words
    assert "1 unchanged" in words
    assert "Needs attention" not in words


def test_squares_and_list_show_the_same_hosts(viewer: Client) -> None:
    now = timezone.now()
    mature()
    worse = add([100.0] * 12, host="db-worse")
    make_incident(changes=[make_change(worse, before=100.0, after=70.0)])
    make_silent(worse.host)
    make_silent(add([100.0], host="db-silent").host)
    make_run(make_host("db-failed"), started_at=now - timedelta(days=2), error=5)
    make_host("db-none")
    make_host("db-retired", retired_at=now)

    page = Page(viewer.get(reverse("home")))
    squares = list_squares(page)

    assert {name: kind for name, (kind, _) in squares.items()} == {
        "db-failed": "unchanged",
        "db-none": "none",
        "db-silent": "silent",
        "db-worse": "regressed",
        "lab-1": "unchanged",
    }
    assert squares["db-worse"][1].startswith("▼ IOPS −30 % since")
    assert "failed: error 5 (Input/output error)" in squares["db-failed"][1]
    assert squares["db-none"][1] == "no runs"
    assert (
        "2 unchanged 1 regressed: db-worse 2 silent: db-worse for 22 h, db-silent for 22 h 1 without runs"
        in page.words
    )
    assert {"/hosts/db-worse/", "/hosts/db-silent/"} <= set(page.links)


def test_hosts_with_trouble_are_shown_before_those_seen_least_recently(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mature()
    worse = add([100.0] * 12, host="db-worse")
    make_incident(changes=[make_change(worse, before=100.0, after=70.0)])
    failing = make_host("db-failing")
    for day in range(3):
        make_run(failing, started_at=timezone.now() - timedelta(hours=day), error=5)
    make_host("db-never")
    Host.objects.exclude(name="db-never").update(last_seen_at=timezone.now())
    monkeypatch.setattr("benchapp.overview.read.page.HOSTS_MAXIMUM", 2)

    page = Page(viewer.get(reverse("home")))

    assert list(list_squares(page)) == ["db-failing", "db-worse"]
    assert "2 other hosts not shown." in page.words


def test_hosts_are_grouped_by_name(viewer: Client) -> None:
    mature()
    for name in ("web-1", "web-2", "cache01", "9"):
        make_host(name)

    groups = viewer.get(reverse("home")).context["host_groups"]

    assert [(name, squares.count("<i ")) for name, squares in groups] == [
        ("", 1),
        ("cache", 1),
        ("lab", 1),
        ("web", 2),
    ]


def test_change_names_the_incident_whose_likely_cause_it_is(viewer: Client) -> None:
    mature()
    host = make_host("db-1")
    series = make_series(host=host)
    for hour, kernel in enumerate(("5.15", "6.1")):
        at = timezone.now() - timedelta(days=2) + timedelta(hours=hour)
        run = make_run(host, started_at=at, environment=make_environment(kernel=kernel))
        make_measurement(run, series, iops=1000.0)
    before = Page(viewer.get(reverse("home"))).words
    suspect = {"name": "kernel", "before": "5.15", "after": "6.1"}
    row = make_incident(changes=[make_change(series)], suspects=[suspect])

    page = Page(viewer.get(reverse("home")))

    assert "Kernel 5.15 → 6.1db-1no open incident" in before
    assert "Kernel 5.15 → 6.1db-1▼ −15 % 1 series" in page.words
    assert page.links.count(reverse("incident", args=[row.pk])) == 2
    assert "/compare/?a=kernel:5.15&b=kernel:6.1" in page.links


def test_what_needs_attention_is_linked_to_its_action(editor: Client) -> None:
    now = timezone.now()
    mature()
    make_incident(changes=[make_change(add([100.0] * 12, host="db-01"))], severity="high", state="new")
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
    mature()
    make_subscription(make_user(), is_active=False, paused_reason="20 failures in a row")

    assert "paused" not in Page(viewer.get(reverse("home"))).words


@pytest.mark.parametrize("count", [3, 500])
def test_overview_runs_as_many_queries_for_500_hosts_as_for_3(
    viewer: Client, django_assert_num_queries, count: int
) -> None:
    for number in range(3):
        add([1.0] * 8, host=f"db-{number}")
    Host.objects.bulk_create(Host(name=f"web-{number}") for number in range(count - 3))
    make_silent(Host.objects.latest("pk"))

    # Session, person; open incidents; installation; pins; totals, hosts, schedules, failures, newest runs, marks;
    # incidents; uploads rejected, waiting, outdated; subscriptions; environment changes.
    with django_assert_num_queries(18):
        viewer.get(reverse("home"))


def test_filter_selects_what_the_overview_shows(viewer: Client) -> None:
    mature()
    for name in ("db-1", "web-1"):
        host = make_host(name)
        series = make_series([1000.0, 850.0], host=host)
        make_incident(changes=[make_change(series)], title=f"{name}: IOPS down")
    calculate_levels()

    page = Page(viewer.get("/", {"q": "host:db-*"}))
    everything = Page(viewer.get("/"))

    assert "db-1: IOPS down" in page.words and "web-1" not in page.words
    assert list(list_squares(page)) == ["db-1"]
    assert {"/incidents/?q=host%3Adb-%2A", "/hosts/?q=host%3Adb-%2A"} <= set(page.links)
    assert [named["data-deferred"] for _, named in page.tags if "data-deferred" in named] == [
        "/overview/charts/regressions/?q=host%3Adb-%2A"
    ]
    assert set(list_squares(everything)) == {"db-1", "lab-1", "web-1"}


def test_environment_changes_of_the_overview_follow_the_filter(viewer: Client) -> None:
    for name, kernel in (("db-1", "6.1"), ("web-1", "6.6")):
        host = make_host(name)
        series = make_series(host=host)
        for hour, own in enumerate(("5.15", kernel)):
            at = timezone.now() - timedelta(days=2) + timedelta(hours=hour)
            run = make_run(host, started_at=at, environment=make_environment(kernel=own))
            make_measurement(run, series, iops=1000.0)

    page = Page(viewer.get("/", {"q": "host:db-1"}))

    assert "Kernel 5.15 → 6.1" in page.words
    assert "6.6" not in page.words


def test_filter_without_matches_is_no_new_installation(viewer: Client) -> None:
    add([1000.0], host="db-1")

    page = Page(viewer.get("/", {"q": "host:nobody"}))

    assert "No hosts match" in page.words
    assert "Host nobody · 0 of 0 hosts ran in the last 7 days" in page.words
    assert "host:nobody matches no hosts. Try host:db-1." in page.words


def test_invalid_filter_of_the_overview_is_an_error(viewer: Client) -> None:
    add([1000.0], host="db-1")

    response = viewer.get("/", {"q": "speed:9"})

    assert response.status_code == 400
    assert "Unknown filter" in Page(response).words
