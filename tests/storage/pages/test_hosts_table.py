"""The table of hosts: its numbers, its order, its groups."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.metrics import format_signed_percent
from benchapp.judge import judge_due
from benchapp.models import SAMPLE_HOST, Change, Host, Incident, Level, Series
from tests.detection.write.judging import make_cells, make_level
from tests.factories import add_series, make_change, make_environment, make_host, make_incident, make_run
from tests.pages import Page
from tests.shared_rows import shared_rows
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def plant(name: str, level: float, *, kernel: str = "6.1.0", **fields: Any) -> Series:
    """Make a host with a series of 40 hourly runs up to now, the last ten at a level, and detect its changes."""
    values = make_level(1000.0, 30) + make_level(level, 10)
    (series,) = make_cells(
        make_host(name, **fields),
        [values],
        start_at=timezone.now() - len(values) * HOUR,
        kernels=[kernel] * len(values),
    )
    judge_due()
    return series


def list_names(response: Any) -> list[str]:
    """Return the hosts of the table in its order."""
    text = response.content.decode().partition("<table")[2].partition("</table>")[0]
    return re.findall(r'<th scope="row" class="name"><a href="/hosts/([^/]+)/">', text)


def list_group_names(response: Any) -> list[str]:
    return re.findall(r'scope="rowgroup">([^<]*) <span', response.content.decode())


def test_heading_does_not_count_the_host_of_the_sample(viewer: Client) -> None:
    make_host(SAMPLE_HOST)
    alone = Page(viewer.get("/hosts/"))
    make_host("db-1")

    both = Page(viewer.get("/hosts/"))

    assert "Sample data" in alone.words
    assert "1 host, and sample data" in both.words
    assert SAMPLE_HOST in both.words


def test_row_has_incident_worst_change_history_kernel_and_runs_as_the_answer_has_them(viewer: Client) -> None:
    slow = plant("db-1", 780.0, kernel="6.8.0", agent_version="1.2.3")
    plant("db-2", 1000.0)
    incident, change = Incident.objects.get(), Change.objects.get(incident__isnull=False)
    levels = Level.objects.filter(series=slow, metric="iops").order_by("from_at")

    response = viewer.get(reverse("hosts"))
    page = Page(response)
    first, second = viewer.get("/api/v1/hosts").json()["hosts"]

    assert "2 hosts, 1 with open regressions" in page.words
    assert [link for link in page.links if "/incidents/" in link and link != "/incidents/"] == [
        f"/incidents/{incident.pk}/"
    ]
    assert f"/series/{slow.pk}/" in page.links
    assert (first["incidents"], first["severity"]) == ([incident.pk], incident.severity)
    assert first["worst_change_relative"] == change.relative
    assert (first["worst_change_series_id"], first["worst_change_metric"]) == (slow.pk, "iops")
    assert f"▼ IOPS {format_signed_percent(change.relative)}" in page.words
    ratio = levels[1].median / levels[0].median
    assert first["relative_level"] == pytest.approx(ratio, abs=1e-6)
    assert format_signed_percent(ratio - 1) in page.words
    assert (first["kernel"], first["run_count"], first["agent_version"]) == ("6.8.0", 40, "1.2.3")
    assert "6.8.0" in page.words
    assert (second["incidents"], second["severity"], second["worst_change_relative"]) == ([], None, None)
    assert second["relative_level"] == 1.0
    assert viewer.get("/api/v1/hosts/db-1").json()["relative_level"] == first["relative_level"]


def test_hosts_of_a_pool_show_the_incident_of_the_pool_and_a_filter_for_several(viewer: Client) -> None:
    make_host("db-1", pool="blue")
    make_host("db-2", pool="blue")
    series = add_series([100.0, 80.0], pool="blue")
    for metric in ("iops", "latency_p99_ns"):
        make_incident(changes=[make_change(series, metric=metric, is_regression=True)], scope="pool:blue")

    page = Page(viewer.get(reverse("hosts"), {"q": "host:db-*"}))

    assert page.links.count("/incidents/?q=pool%3Ablue") == 2
    assert page.words.count("2, Medium") == 2


def test_host_without_runs_shows_none_of_the_numbers(viewer: Client) -> None:
    make_host("new")

    words = Page(viewer.get(reverse("hosts"))).words

    assert "none yet" in words
    assert "History90 days, relative level" in words


@shared_rows
def three() -> Client:
    """Make three hosts that differ in every column; give a client of a viewer."""
    now = timezone.now()
    kernels = {"db-2": "6.1.9", "db-10": "6.1.10", "db-9": "5.15.0"}
    for place, (name, kernel) in enumerate(kernels.items()):
        host = make_host(name, pool=("", "blue", "blue")[place], agent_version=f"1.{9 + place}.0")
        for run in range(place + 1):
            make_run(
                host,
                started_at=now - timedelta(days=place, hours=run),
                environment=make_environment(kernel=kernel),
                labels={"rack": "r1"} if name != "db-9" else {},
            )
        series = add_series(
            [100.0, 70.0 + place], host=host, pool=host.pool, start_at=now - timedelta(days=9)
        )
        if name != "db-2":
            severity = "high" if name == "db-9" else "low"
            make_incident(changes=[make_change(series)], severity=severity, scope=series.scope)
        Host.objects.filter(pk=host.pk).update(run_count=place + 1)
    make_host("new")
    return sign_in()


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("", ["db-9", "db-10", "db-2", "new"]),
        ("name", ["db-2", "db-9", "db-10", "new"]),
        ("-name", ["new", "db-10", "db-9", "db-2"]),
        ("kernel", ["db-9", "db-2", "db-10", "new"]),
        ("-kernel", ["db-10", "db-2", "db-9", "new"]),
        ("agent", ["db-2", "db-10", "db-9", "new"]),
        ("pool", ["db-9", "db-10", "db-2", "new"]),
        ("-runs", ["db-9", "db-10", "db-2", "new"]),
        ("-last_run", ["db-2", "db-10", "db-9", "new"]),
        ("last_run", ["db-9", "db-10", "db-2", "new"]),
        ("-incidents", ["db-9", "db-10", "db-2", "new"]),
        ("-worst", ["db-9", "db-10", "db-2", "new"]),
    ],
)
def test_every_column_orders_the_table_and_unknown_comes_last(
    three: Client, sort: str, names: list[str]
) -> None:
    response = three.get(reverse("hosts"), {"sort": sort})

    assert list_names(response) == names


def test_history_orders_by_its_end(viewer: Client) -> None:
    plant("db-1", 780.0)
    plant("db-2", 1300.0)
    plant("db-3", 1000.0)

    assert list_names(viewer.get(reverse("hosts"), {"sort": "history"})) == ["db-1", "db-3", "db-2"]


def test_header_links_reverse_the_order_and_keep_the_rest_of_the_address(three: Client) -> None:
    page = Page(three.get(reverse("hosts"), {"sort": "-worst", "group": "pool", "q": "host:db-*"}))

    heads = [tag for name, tag in page.tags if name == "th" and tag.get("aria-sort")]
    assert [head["aria-sort"] for head in heads] == ["descending"]
    assert "?group=pool&q=host%3Adb-%2A&sort=worst" in page.links
    assert "?group=pool&q=host%3Adb-%2A&sort=-runs" in page.links
    hidden = [tag for name, tag in page.tags if name == "input" and tag.get("name") == "sort"]
    assert [tag["value"] for tag in hidden] == ["-worst"]


@pytest.mark.parametrize(
    ("group", "groups", "names"),
    [
        ("pool", ["pool blue", "no pool"], ["db-9", "db-10", "db-2", "new"]),
        ("label:rack", ["rack r1", "rack unknown"], ["db-10", "db-2", "db-9", "new"]),
        (
            "kernel",
            ["kernel 5.15.0", "kernel 6.1.9", "kernel 6.1.10", "kernel unknown"],
            ["db-9", "db-2", "db-10", "new"],
        ),
    ],
)
def test_groups_have_a_heading_with_their_state(
    three: Client, group: str, groups: list[str], names: list[str]
) -> None:
    response = three.get(reverse("hosts"), {"group": group})

    assert list_group_names(response) == groups
    assert list_names(response) == names
    assert '<option value="label:rack"' in response.content.decode()


def test_group_by_pool_summarizes_its_hosts(three: Client) -> None:
    assert "pool blue 2 hosts, 2 with open regressions" in Page(three.get("/hosts/?group=pool")).words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"sort": "speed"}, "Sort: 'speed' is not a column. Valid values: name, pool,"),
        ({"group": "rack"}, "Group: 'rack' is not valid. Valid values: pool, kernel, label:NAME."),
        ({"page": "0"}, "Page: '0' is not a page number."),
    ],
)
def test_parameter_that_is_not_valid_is_named(viewer: Client, query: dict[str, str], words: str) -> None:
    make_host("db-1")

    response = viewer.get(reverse("hosts"), query)

    assert response.status_code == 400
    assert words in Page(response).words


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("q=host:db-2", ["db-2"]),
        ("q=pool:blue", ["db-9", "db-10"]),
        ("q=NEW", ["new"]),
        ("text=new", ["new"]),
        ("pool=blue", ["db-9", "db-10"]),
        ("q=rw:randread+-pool:blue", ["db-2"]),
    ],
)
def test_filter_selects_hosts_by_name_pool_and_series(three: Client, query: str, names: list[str]) -> None:
    assert list_names(three.get(f"{reverse('hosts')}?{query}")) == names


def test_500_hosts_take_as_many_queries_as_five_and_pages_of_100(
    viewer: Client, django_assert_num_queries: Any
) -> None:
    Host.objects.bulk_create(Host(name=f"db-{number:03}", run_count=number) for number in range(500))

    # Session, person, hosts, failures, last runs, marks, series of the page, new incidents of the bar.
    with django_assert_num_queries(11):
        response = viewer.get(reverse("hosts"), {"sort": "-runs", "page": "2"})

    assert list_names(response) == [f"db-{number:03}" for number in range(399, 299, -1)]
    page = Page(response)
    assert "500 hosts" in page.words
    assert "Hosts 101–200 of 500" in page.words
    assert {"?sort=-runs&page=1", "?sort=-runs&page=3"} <= set(page.links)
    # Uncompressed, with the commands that install the agent.
    assert len(response.content) < 80_000
