"""The state of a host: its levels next to those of its peers, incidents, environment changes."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.metrics import format_signed_percent, format_value
from benchapp.judge import judge_due
from benchapp.models import Host, Incident, Level, Measurement, Series
from benchapp.series.read.selected_levels import LevelRange, make_level_range
from benchapp.storage.read import patterns
from benchapp.storage.read.hosts import list_host_environment_changes, read_host
from benchapp.storage.read.patterns import HostPattern, read_host_patterns
from tests.detection.write.judging import make_cells, make_level
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_attempt,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_workload,
)
from tests.pages import Page
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def add(name: str, value: float, **fields: Any) -> Series:
    """Make a series of a new host at one level, up to an hour ago."""
    host = fields.pop("host", None) or make_host(name)
    return add_series([value] * 4, host=host, start_at=timezone.now() - 4 * HOUR, **fields)


def read(name: str) -> list[HostPattern]:
    host = read_host(name)
    assert host is not None
    return read_host_patterns(host)


def get(client: Client, name: str) -> Page:
    name, _, query = name.partition("?")
    return Page(client.get(reverse("host", args=[name]), query_params=parse_qs(query)))


def test_level_is_compared_with_the_current_levels_of_equal_workloads_on_the_same_layout(
    viewer: Client,
) -> None:
    gp3 = make_target(volume_type="gp3")
    own = add("db-1", 770.0, target=gp3)
    for number, value in enumerate((1000.0, 900.0, 1100.0)):
        add(f"peer-{number}", value, target=gp3)
    # Another layout, another workload, a retired host, a series that is no longer measured: no peers.
    add("other-layout", 10.0, target=make_target(volume_type="io2"))
    add("other-workload", 10.0, target=gp3, workload=make_workload(iodepth=64))
    add("retired", 10.0, target=gp3, host=make_host("retired", retired_at=NOON))
    stale = add("stale", 10.0, target=gp3)
    Series.objects.filter(pk=stale.pk).update(last_at=timezone.now() - 20 * DAY)

    (pattern,) = read("db-1")
    page = get(viewer, "db-1")

    assert pattern.comparison is not None
    assert (pattern.comparison.n, pattern.comparison.median) == (3, 1000.0)
    assert (pattern.comparison.minimum, pattern.comparison.maximum) == (900.0, 1100.0)
    assert pattern.comparison.own == Level.objects.get(series=own, metric="iops").median == 770.0
    assert pattern.comparison.relative == pytest.approx(-0.23)
    assert page.words.count("23 % below the median of 3 peers") == 2  # summary and table
    assert "900 IOPS – 1 100 IOPS" in page.words.replace("\u202f", " ")
    assert "Random read is 23 % below" in page.words
    assert f"/series/{own.pk}/" in page.links


def test_host_better_than_its_peers_is_not_worse(viewer: Client) -> None:
    add("db-1", 1300.0)
    add("db-2", 1000.0)

    page = get(viewer, "db-1")

    assert "30 % above 1 peer" in page.words
    assert "1 pattern at most 5 % below the peers." in page.words


def test_lower_elapsed_time_is_better() -> None:
    add("db-1", 20.0, metric="elapsed_s")
    add("db-2", 10.0, metric="elapsed_s")

    (slow,), (fast,) = read("db-1"), read("db-2")

    assert (slow.is_worse, fast.is_worse) == (True, False)


def test_of_many_peers_those_measured_last_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PEERS_MAXIMUM", 2)
    for number, value in enumerate((500.0, 1000.0, 2000.0, 3000.0)):
        series = add(f"db-{number}", value)
        Series.objects.filter(pk=series.pk).update(last_at=timezone.now() - (9 - number) * HOUR)

    (pattern,) = read("db-0")

    assert pattern.comparison is not None
    assert (pattern.comparison.n, pattern.comparison.median) == (2, 2500.0)


def test_host_without_peers_says_so(viewer: Client) -> None:
    add("db-1", 1000.0)

    words = get(viewer, "db-1").words

    assert "No peers: no other host or pool measures the same workload on the same layout." in words


def test_host_of_a_pool_is_compared_with_the_other_hosts_of_the_pool(viewer: Client) -> None:
    hosts = [make_host(f"db-{number}", pool="blue") for number in range(4)]
    series = make_series(host=hosts[0], pool="blue")
    start = timezone.now() - 30 * HOUR
    for number, host in enumerate(hosts):
        # The last host has two runs only.
        for run in range(6 if number < 3 else 2):
            moment = start + (4 * run + number) * HOUR
            make_measurement(
                make_run(host, started_at=moment), series, iops=700.0 if number == 0 else 1000.0 + number
            )
    # A failed and an excluded run do not count.
    make_measurement(make_run(hosts[0], started_at=start + 28 * HOUR), series, iops=1.0, error=5)
    excluded = make_measurement(make_run(hosts[0], started_at=start + 29 * HOUR), series, iops=1.0)
    Measurement.objects.filter(pk=excluded.pk).update(is_excluded=True)
    calculate_levels()

    (pattern,) = read("db-0")
    page = get(viewer, "db-0")

    assert pattern.comparison is not None
    assert (pattern.comparison.own, pattern.comparison.n, pattern.comparison.median) == (700.0, 2, 1001.5)
    assert pattern.level.median == Level.objects.get(series=series, metric="iops").median
    assert "30 % below the median of 2 other hosts of pool blue" in page.words
    assert "Series are shared by the hosts of pool blue" in page.words


def test_pattern_of_several_series_shows_the_worst_and_the_typical_deviation(viewer: Client) -> None:
    hosts = make_host("db-1"), make_host("db-2")
    for depth, value in ((1, 1000.0), (2, 950.0), (4, 500.0)):
        add("", value, host=hosts[0], workload=make_workload(iodepth=depth))
        add("", 1000.0, host=hosts[1], workload=make_workload(iodepth=depth))
    write = add("", 10.0, host=hosts[0], workload=make_workload(rw="write"), direction="write")

    patterns = read("db-1")
    page = get(viewer, "db-1")

    assert [pattern.pattern for pattern in patterns] == ["write", "randread"]
    assert patterns[0].series.id == write.pk
    assert patterns[0].comparison is None
    assert patterns[1].level.median == 500.0
    assert (patterns[1].series_count, patterns[1].compared_count) == (3, 3)
    assert patterns[1].typical_relative == pytest.approx(-0.05)
    assert "−5.0 % in the median of 3 series" in page.words
    links = [parse_qs(link.partition("?")[2]) for link in page.links if link.startswith("/series/?")]
    assert {"q": ["host:db-1 pattern:randread"]} in links


def test_regression_shows_on_list_page_and_answer_with_the_same_numbers(viewer: Client) -> None:
    values = make_level(1000.0, 30) + make_level(780.0, 10)
    (series,) = make_cells(make_host("db-1"), [values], start_at=timezone.now() - 40 * HOUR)
    judge_due()
    level = Level.objects.get(series=series, metric="iops", is_current=True)

    page = get(viewer, "db-1")
    listed = Page(viewer.get(reverse("hosts"))).words
    answer = viewer.get("/api/v1/hosts/db-1").json()

    relative = format_signed_percent(answer["worst_change_relative"])
    assert f"1 open regression, IOPS {relative} since" in page.words
    assert f"▼ IOPS {relative} since" in listed
    assert f"{format_value(level.median, 'operations/s')} IOPS" in page.words
    assert f"/incidents/{Incident.objects.get().pk}/" in page.links
    end = f"{answer['relative_level'] * 100:.0f} %"
    charts = [tag for name, tag in page.tags if name == "svg"]
    assert [str(chart["aria-label"]).partition(" of")[0] for chart in charts] == [f"random read: {end}"]
    assert {"q": ["host:db-1 pattern:randread"]} in [
        parse_qs(link.partition("?")[2]) for link in page.links if link.startswith("/history/?")
    ]


def test_environment_changes_are_listed_once_with_a_comparison(viewer: Client) -> None:
    host = make_host("db-1")
    targets = [make_target(volume_type=kind) for kind in ("gp3", "io2")]
    kernels = ["6.1", "6.1", "6.8", "6.8", "6.1"]
    runs = []
    for place, kernel in enumerate(kernels):
        for number, target in enumerate(targets):
            # Each target has its own device: no change.
            environment = make_environment(kernel=kernel, device_model=f"disk {number}")
            moment = NOON + place * DAY + number * HOUR
            runs.append(make_run(host, target=target, environment=environment, started_at=moment))

    row = read_host("db-1")
    assert row is not None
    changes = list_host_environment_changes(row)
    page = get(viewer, "db-1")

    found = [(change.run, [(f.name, f.before, f.after) for f in change.fields]) for change in changes]
    assert found == [
        (runs[8].pk, [("kernel", "6.8", "6.1")]),
        (runs[4].pk, [("kernel", "6.1", "6.8")]),
    ]
    assert f"/compare/?kind=environment&selected={runs[4].pk}" in page.links
    assert "kernel 6.1 → 6.8" in page.words


def test_new_host_has_an_empty_state(viewer: Client) -> None:
    make_host("new")

    words = get(viewer, "new").words

    for text in ("No open regressions.", "No levels yet", "No environment changes recorded.", "No runs yet"):
        assert text in words
    assert "History, 90 days" not in words


def test_new_host_has_no_levels_yet_in_a_range_until_later(viewer: Client) -> None:
    make_host("new")

    words = get(viewer, "new?to=2100-01-01").words

    assert "No levels yet" in words
    assert "No levels in this time range" not in words


def test_number_of_queries_does_not_depend_on_series_and_peers(
    viewer: Client, django_assert_num_queries: Any
) -> None:
    hosts = [make_host(f"db-{number}") for number in range(4)]
    for host in hosts:
        for depth in (1, 2, 4):
            for rw, direction in (("randread", "read"), ("randwrite", "write")):
                add("", 100.0, host=host, workload=make_workload(iodepth=depth, rw=rw), direction=direction)

    with django_assert_num_queries(24):
        viewer.get(reverse("host", args=["db-0"]))
    assert Host.objects.count() == 4


@shared_rows
def changed() -> Series:
    """Make a series of db-1 that was 1 000 until 21 days ago, and 780 since; the last run is an hour old."""
    start = timezone.now() - HOUR - 43 * DAY
    values = make_level(1000.0, 24) + make_level(780.0, 20)
    (series,) = make_cells(make_host("db-1"), [values], start_at=start, step=DAY)
    judge_due()
    return series


def write_day(days_ago: int) -> str:
    return f"{timezone.now() - days_ago * DAY:%Y-%m-%d}"


def test_levels_and_history_are_those_of_the_time_range(viewer: Client, changed: Series) -> None:
    add("db-2", 500.0, target=changed.target, workload=changed.workload)
    host = read_host("db-1")
    assert host is not None
    asked = {"from": write_day(40), "to": write_day(31)}

    page = Page(viewer.get("/hosts/db-1/", asked))
    (pattern,) = read_host_patterns(
        host, span=make_level_range(timezone.now() - 40 * DAY, timezone.now() - 30 * DAY)
    )

    assert pattern.level.median == pytest.approx(1000.0, rel=0.01)
    assert (pattern.comparison, pattern.mark) == (None, None)
    assert format_value(pattern.level.median, "operations/s").split()[0] in page.words
    assert "Time range: levels as of" in page.words
    assert "History, 10 days until" in page.words
    assert "Levels of an earlier time are not compared with peers." in page.words
    assert "Compared with peers" not in page.words
    kept = f"from={asked['from']}T00:00:00Z&to={write_day(30)}T00:00:00Z"
    linked = [link.partition("?")[0] for link in page.links if kept in link.replace("%3A", ":")]
    assert set(linked) >= {
        *(f"/{name}/" for name in ("series", "scaling", "matrix", "history")),
        f"/series/{changed.pk}/",
    }
    image = viewer.get("/api/v1/charts/host.svg", {"host": "db-1", **asked}).content.decode()
    assert "levels as of" in image
    assert "open regression" not in image


def test_histories_begin_with_the_first_run_and_say_so(viewer: Client, changed: Series) -> None:
    host = Page(viewer.get("/hosts/db-1/")).words
    long, short = (Page(viewer.get(f"/series/{changed.pk}/?from=-{days}d")).words for days in (90, 10))

    shown = re.search(r"History, (\d+) days, no runs in (\d+) days before", host)
    assert shown and int(shown[1]) in (44, 45) and int(shown[1]) + int(shown[2]) == 90
    assert "The chart begins with the first run, " in long
    assert "The chart begins with the first run, " not in short


def test_pattern_of_an_earlier_time_shows_the_series_that_was_measured_last_then(changed: Series) -> None:
    host = changed.host
    assert host is not None
    ended_at = timezone.now() - 30 * DAY
    # Newer at that time, older today.
    other = add_series(
        [2000.0] * 4, host=host, start_at=ended_at - 4 * HOUR, workload=make_workload(iodepth=64)
    )
    row = read_host("db-1")
    assert row is not None

    (past,) = read_host_patterns(row, span=make_level_range(None, ended_at))
    (now,) = read_host_patterns(row)

    assert (past.series.id, past.level.median) == (other.pk, 2000.0)
    assert (now.series.id, now.series_count) == (changed.pk, 2)


def test_runs_and_environment_changes_are_those_of_the_time_range(viewer: Client, changed: Series) -> None:
    run = make_run(
        changed.host,
        target=changed.target,
        started_at=timezone.now() - 20 * DAY,
        environment=make_environment(kernel="6.9.9"),
    )
    host = read_host("db-1")
    assert host is not None

    ranges = [
        (None, None),
        (timezone.now() - 21 * DAY, timezone.now() - 19.5 * DAY),
        (timezone.now() - 3 * DAY, None),
        (None, timezone.now() - 30 * DAY),
    ]
    found = [
        [change.run for change in list_host_environment_changes(host, span=LevelRange(*bounds))]
        for bounds in ranges
    ]
    page = get(viewer, "db-1?from=-3d")

    assert [run.pk in ids for ids in found] == [True, True, False, False]
    assert f"/runs/{run.pk}/" not in page.links
    assert len([link for link in page.links if re.fullmatch(r"/runs/\d+/", link)]) >= 3


@pytest.mark.parametrize(
    "query",
    ["from=2019-01-01&to=2019-01-31", "to=2019-01-31", "from=2100-01-01", "from=2100-01-01&to=2100-01-31"],
)
def test_range_without_levels_offers_to_remove_it(viewer: Client, changed: Series, query: str) -> None:
    page = get(viewer, f"db-1?{query}&zone=UTC")

    assert re.search(
        r"No levels in this time range: (levels as of|series with runs since) .* Remove the", page.words
    )
    assert "?zone=UTC" in page.links


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("from=soon", "From is not a valid date"),
        ("from=2026-10-02&to=2026-10-01", "From is after To"),
        ("from=-2000d", "From: 2000 days are more than the 366"),
        ("to=9998-01-01", "To: the year 9998 is not from 1000 to 8999"),
    ],
)
def test_bad_range_is_an_error_and_no_level_is_shown(
    viewer: Client, changed: Series, query: str, message: str
) -> None:
    answer = viewer.get(f"/hosts/db-1/?{query}")
    page = Page(answer)

    assert answer.status_code == 400
    assert message in page.words
    assert "Current levels" not in page.words


def test_run_that_did_not_start_is_shown_with_its_reason(viewer: Client) -> None:
    make_attempt(make_host("db-1"), reason="not enough space: <b>/data</b>")

    page, empty = get(viewer, "db-1"), get(viewer, "db-1?from=2020-01-01&to=2020-01-02")

    assert "Runs without a result" in page.words
    assert "not enough space: <b>/data</b>" in page.words
    assert "Runs without a result" not in empty.words


def run_step(step: int, *, ended_s: float, **conditions: Any) -> None:
    """Make the newest run of host db-1: a step of a sweep that ended this many seconds ago."""
    ended_at = timezone.now() - timedelta(seconds=ended_s)
    told = {"sweep_step": step, "sweep_steps": 12, "sweep_left_s": 1800, **conditions}
    make_run(
        Host.objects.get(name="db-1"),
        started_at=ended_at - timedelta(minutes=3),
        finished_at=ended_at,
        sweep_id=uuid4(),
        command={"conditions": told},
    )


def test_sweep_that_runs_shows_its_steps_and_the_time_that_is_left(viewer: Client) -> None:
    make_host("db-1")

    run_step(3, ended_s=60)

    page = get(viewer, "db-1")
    assert "Sweep: 3 of 12 steps, about 28 min left" in page.words
    assert page.has("progress")
    assert any(link.startswith("/scaling/?q=sweep:") for link in page.links)


@pytest.mark.parametrize(
    ("step", "ended_s", "conditions"),
    [
        (12, 10, {"sweep_left_s": 0}),
        (3, 3700, {}),
        (3, 10, {"sweep_steps": "12"}),
        (3, 10, {"sweep_left_s": 10**18}),
        (-1, 10, {}),
    ],
    ids=["finished", "stopped", "text", "absurd", "negative"],
)
def test_sweep_that_does_not_run_is_not_shown(
    viewer: Client, step: int, ended_s: float, conditions: dict[str, Any]
) -> None:
    make_host("db-1")

    run_step(step, ended_s=ended_s, **conditions)

    assert not get(viewer, "db-1").has("progress")
