"""Before and after an upgrade: compared on all hosts, from the overview, a table or a tick."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.grammar import parse_filter
from benchapp.charts.read.comparison import Side, compare_sides
from benchapp.models import Series
from benchapp.overview.read.page import list_recent_changes
from tests.factories import (
    add_measurements,
    calculate_levels,
    make_change,
    make_environment,
    make_host,
    make_measurement,
    make_planned_event,
    make_run,
    make_runs,
    make_series,
)
from tests.pages import Page
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
OLD, NEW = "5.15.0-91", "6.1.0-18"
HOUR = timedelta(hours=1)


def plant(name: str, old: list[float], new: list[float]) -> Series:
    """Make a host with hourly runs, the first ones with the old kernel."""
    host = make_host(name)
    series = make_series(host=host)
    start = timezone.now().replace(microsecond=0) - 60 * HOUR
    kernels = [make_environment(kernel=OLD)] * len(old) + [make_environment(kernel=NEW)] * len(new)
    times = [start + number * HOUR for number in range(len(kernels))]
    runs = make_runs(host, times, target=series.target, environments=kernels)
    add_measurements(series, runs, [{"iops": value} for value in [*old, *new]])
    series.refresh_from_db()
    return series


def spread(level: float, count: int) -> list[float]:
    return [level + number % 3 - 1 for number in range(count)]


@shared_rows
def fleet() -> dict[str, Series]:
    """db-9 lost 22 % with the upgrade, db-1 and db-2 nothing, db-3 was not upgraded."""
    made = {
        "db-1": plant("db-1", spread(1000, 12), spread(1000, 12)),
        "db-2": plant("db-2", spread(500, 12), spread(501, 12)),
        "db-3": plant("db-3", spread(1000, 24), []),
        "db-9": plant("db-9", spread(1000, 12), spread(780, 12)),
    }
    runs = made["db-9"].measurements.order_by("started_at")
    make_change(made["db-9"], at=runs[12].started_at, before=1000.0, after=780.0)
    calculate_levels()
    return made


def test_sides_are_the_runs_with_each_kernel(fleet: dict[str, Series]) -> None:
    found = compare_sides(
        Side(parse_filter("kernel:5.15*")), Side(parse_filter("kernel:6.1*")), metrics=["iops"]
    )

    medians = {
        pair.a_scopes[0]: (pair.comparison.a.median, pair.comparison.b.median, pair.comparison.a.n)
        for pair in found.pairs
    }
    assert medians == {
        "host:db-1": (1000, 1000, 12),
        "host:db-2": (500, 501, 12),
        "host:db-9": (1000, 780, 12),
    }
    assert [each.series for each in found.only_a] == [fleet["db-3"].pk]
    assert ("kernel", (OLD,), (NEW,)) in [(each.name, each.a, each.b) for each in found.environment]


def test_side_is_the_latest_level_that_has_such_runs(fleet: dict[str, Series]) -> None:
    # The change comes two runs after the upgrade: the runs with the old kernel are all in the first level.
    series = plant("db-5", spread(1000, 12), [*spread(1000, 2), *spread(700, 10)])
    make_change(series, at=series.measurements.order_by("started_at")[14].started_at)
    calculate_levels()

    found = compare_sides(
        Side(parse_filter("kernel:5.15* host:db-5")),
        Side(parse_filter("kernel:6.1* host:db-5")),
        metrics=["iops"],
    )

    (pair,) = found.pairs
    assert (pair.comparison.a.n, pair.comparison.b.n, pair.comparison.b.median) == (12, 10, 700)


def test_runs_during_maintenance_do_not_count(fleet: dict[str, Series]) -> None:
    runs = fleet["db-1"].measurements.order_by("started_at")
    make_planned_event(
        filter="host:db-1",
        from_at=runs[12].started_at,
        to_at=runs[15].started_at,
    )
    calculate_levels()

    found = compare_sides(
        Side(parse_filter("kernel:5.15*")),
        Side(parse_filter("kernel:6.1*")),
        common=parse_filter("host:db-1"),
        metrics=["iops"],
    )

    assert [(pair.comparison.a.n, pair.comparison.b.n) for pair in found.pairs] == [(12, 9)]


def test_common_fact_limits_both_sides_to_its_runs(fleet: dict[str, Series]) -> None:
    found = compare_sides(
        Side(parse_filter("host:db-1")),
        Side(parse_filter("host:db-9")),
        common=parse_filter("kernel:5.15*"),
        metrics=["iops"],
    )

    assert [(pair.comparison.a.median, pair.comparison.b.median) for pair in found.pairs] == [(1000, 1000)]


def test_page_and_answer_name_the_worst_host_first(viewer: Client, fleet: dict[str, Series]) -> None:
    sides = {"a": "kernel:5.15*", "b": "kernel:6.1*"}

    page = Page(viewer.get(reverse("compare"), sides))
    answer = viewer.get("/api/v1/comparison", sides).json()

    assert [(each["scope"], each["worse"]) for each in answer["scopes"]] == [
        ("host:db-9", 1),
        ("host:db-1", 0),
        ("host:db-2", 0),
    ]
    assert answer["scopes"][0]["differences"] == [
        {
            "pattern": "randread",
            "metric": "iops",
            "is_worse": True,
            "relative": pytest.approx(-0.22),
            "count": 1,
            "series_count": 1,
        }
    ]
    assert "1 of 3 hosts is worse: db-9: random read, IOPS −22 % (1 of 1 series)." in page.words
    table = page.words[page.words.index("By host") :]
    assert table.index("db-9") < table.index("db-1") < table.index("db-2") < table.index("All")


def test_recent_change_is_listed_once_with_its_hosts(
    fleet: dict[str, Series], django_assert_num_queries
) -> None:
    with django_assert_num_queries(2):
        (change,) = list_recent_changes()

    assert (change.name, change.before, change.after) == ("kernel", OLD, NEW)
    assert change.scopes == ("db-1", "db-2", "db-9")
    assert change.since_at == min(
        series.measurements.order_by("started_at")[12].started_at
        for name, series in fleet.items()
        if name != "db-3"
    )


def test_facts_that_were_not_reported_before_are_no_change() -> None:
    host = make_host("db-7")
    series = make_series(host=host)
    for day, facts in enumerate(({}, {"device_firmware": "1.0"})):
        at = timezone.now() - timedelta(days=3 - day)
        make_measurement(
            make_run(host, environment=make_environment(**facts), started_at=at), series, iops=1.0
        )

    assert list_recent_changes() == []


def test_overview_links_a_recent_change_to_its_comparison(viewer: Client, fleet: dict[str, Series]) -> None:
    page = Page(viewer.get("/"))

    (link,) = [url for url in page.links if "kernel" in url and url.startswith("/compare/")]
    assert parse_qs(urlsplit(link).query) == {"a": [f"kernel:{OLD}"], "b": [f"kernel:{NEW}"]}
    assert "Kernel 5.15.0-91 → 6.1.0-18" in page.words or "kernel 5.15.0-91 → 6.1.0-18" in page.words
    assert "1 of 3 hosts is worse: db-9" in Page(viewer.get(link)).words


def test_history_offers_the_comparison_of_an_environment_change(
    viewer: Client, fleet: dict[str, Series]
) -> None:
    page = Page(viewer.get(reverse("history"), {"q": "host:db-9"}))
    line = viewer.get("/api/v1/history", {"q": "host:db-9"}).json()["lines"][0]

    compare = f"/compare/?a=kernel:{OLD}&b=kernel:{NEW}"
    assert compare in page.links
    assert [field["compare"] for change in line["environment_changes"] for field in change["fields"]] == [
        compare
    ]
