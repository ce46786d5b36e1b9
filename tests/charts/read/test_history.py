"""Histories of several series: which, named how, thinned when, with which levels and changes."""

from datetime import timedelta

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.charts.read.history import choose_series, read_history
from tests.factories import (
    NOON,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_points,
    make_run,
    make_series,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def choose(text="", **options):
    return choose_series(parse_filter(text), **options)


def test_series_come_in_the_order_of_their_ids_each_once():
    first, second = make_series([1.0]), make_series([1.0])

    chosen = choose(ids=[second.id, first.id, second.id, 999_999])

    assert [row.id for row in chosen.rows] == [second.id, first.id]
    assert chosen.left_out == 0


def test_filter_chooses_the_freshest_and_counts_what_is_left_out():
    for number in range(5):
        make_series([1.0], start_at=NOON + number * HOUR)

    chosen = choose("rw:randread", limit=2)

    assert sorted(row.last_at for row in chosen.rows) == [NOON + 3 * HOUR, NOON + 4 * HOUR]
    assert (chosen.total, chosen.left_out, chosen.has_more) == (5, 3, False)


def test_nothing_asked_for_gives_the_freshest_six():
    for _ in range(8):
        make_series([1.0])

    assert len(choose().rows) == 6


def test_lines_are_named_by_what_they_differ_in_alone():
    host = make_host("db-01")
    for volumes in (1, 4):
        make_series([1.0], host=host, target=make_target(volume_count=volumes, stripe_count=volumes))

    assert sorted(choose().names) == ["1 volume", "4 volumes"]


def test_lines_are_not_named_by_what_is_unknown_of_them():
    host = make_host("db-01")
    for level in ("", "0", "5"):
        make_series([1.0], host=host, target=make_target(volume_count=4 if level else 1, raid_level=level))

    assert sorted(choose().names) == ["1 volume", "4 volumes · RAID0", "4 volumes · RAID5"]


def test_lines_that_differ_in_nothing_that_is_known_have_their_number():
    host = make_host("db-01")
    first = make_series([1.0], host=host, workload=make_workload(options={"fsync": 1}))
    second = make_series([1.0], host=host, workload=make_workload(options={"fsync": 8}))

    assert set(choose().names) == {f"db-01 #{first.id}", f"db-01 #{second.id}"}


def test_points_carry_their_badges_and_what_failed_or_is_excluded():
    series = make_series([10.0])
    make_measurement(make_run(series.host, started_at=NOON + HOUR), series, iops=1.0, error=5)
    make_measurement(make_run(series.host, started_at=NOON + 2 * HOUR), series, iops=2.0, is_excluded=True)
    badge = {"code": "cached", "sentence": "", "numbers": {}}
    make_measurement(make_run(series.host, started_at=NOON + 3 * HOUR), series, iops=3.0, badges=[badge])

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    points = line.points.points
    assert points.has_failed.tolist() == [False, True, False, False]
    assert points.is_excluded.tolist() == [False, False, True, False]
    assert points.is_doubtful.tolist() == [False, False, False, True]
    assert [line.points.codes_at(place) for place in (0, 3)] == [(), ("cached",)]
    assert points.values["iops"].tolist() == [10.0, 1.0, 2.0, 3.0]


def test_code_of_a_badge_that_is_not_known_is_left_out():
    series = make_series()
    badges = [{"code": "of-tomorrow", "sentence": "", "numbers": {}}]
    make_measurement(make_run(), series, iops=3.0, badges=badges)

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    assert line.points.codes_at(0) == ()


def test_span_is_inclusive_at_its_start_and_exclusive_at_its_end():
    series = make_series([10.0, 20.0, 30.0])

    history = read_history(
        choose(ids=[series.id]), metrics=["iops"], from_at=NOON + HOUR, to_at=NOON + 2 * HOUR
    )

    assert history.lines[0].points.points.values["iops"].tolist() == [20.0]


def test_level_is_of_the_whole_history_whatever_the_span():
    series = make_series([10.0, 20.0, 30.0])
    calculate_levels()

    history = read_history(choose(ids=[series.id]), metrics=["iops"], from_at=NOON + 2 * HOUR)

    (level,) = history.lines[0].levels["iops"]
    assert (level.n, level.median, level.from_at, level.to_at) == (3, 20.0, NOON, NOON + 2 * HOUR)


def test_more_than_two_thousand_points_come_as_buckets(monkeypatch):
    monkeypatch.setattr("benchapp.charts.read.history.POINTS_MAXIMUM", 100)
    series = make_series()
    times = [NOON + timedelta(minutes=place) for place in range(500)]
    make_points(series, make_run(), times, iops=lambda index: 9999.0 if index == 250 else 10.0)

    history = read_history(choose(ids=[series.id]), metrics=["iops"], resolution=60)

    buckets = history.lines[0].parts[0].buckets
    assert history.resolution == 60
    assert len(buckets.n) <= 60
    assert buckets.n.sum() == 500
    assert buckets.spreads["iops"].maximum.max() == 9999.0


def test_of_very_many_runs_the_newest_of_each_line_are_read(monkeypatch):
    monkeypatch.setattr("benchapp.charts.read.history.RUNS_MAXIMUM", 6)
    long, short = make_series([1.0, 2.0, 3.0, 4.0, 5.0]), make_series([1.0, 2.0])

    history = read_history(choose(ids=[long.id, short.id]), metrics=["iops"])
    part = read_history(choose(ids=[long.id, short.id]), metrics=["iops"], to_at=NOON + HOUR)

    assert [line.points.points.values["iops"].tolist() for line in history.lines] == [
        [3.0, 4.0, 5.0],
        [1.0, 2.0],
    ]
    assert (history.newest, part.newest) == (3, None)


@pytest.mark.usefixtures("web_cache")
def test_second_look_does_not_ask_for_environment_changes(django_assert_num_queries):
    series = [make_series([1.0, 2.0]) for _ in range(4)]
    ids = [each.id for each in series]

    with django_assert_num_queries(4):  # count, series, their last points, their versions
        chosen = choose(ids=ids)
    # Points are read beside Django.
    # levels, environment changes, changes of level, policies, variability, planned events
    with django_assert_num_queries(6):
        read_history(chosen, metrics=["iops"])
    with django_assert_num_queries(5):  # levels, changes of level, policies, variability, planned events
        read_history(chosen, metrics=["iops"])


def test_change_of_kernel_is_told_with_before_and_after():
    host = make_host("db-01")
    series = make_series(host=host)
    old, new = make_environment(kernel="5.15", cpu_count=8), make_environment(kernel="6.1", cpu_count=8)
    for hour, environment in enumerate((old, old, new, new)):
        run = make_run(host, started_at=NOON + hour * HOUR, environment=environment)
        make_measurement(run, series, iops=1.0)

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    (change,) = line.environments.changes
    assert (change.at, change.host) == (NOON + 2 * HOUR, "db-01")
    assert [(each.label, each.before, each.after) for each in change.fields] == [("kernel", "5.15", "6.1")]


def test_hosts_of_a_pool_are_each_held_against_themselves():
    one, two = make_host("db-01", pool="db"), make_host("db-02", pool="db")
    series = make_series(pool="db", host=one)
    ours, theirs = make_environment(kernel="5.15"), make_environment(kernel="6.1")
    for hour, (host, environment) in enumerate(((one, ours), (two, theirs), (one, ours), (two, theirs))):
        make_measurement(
            make_run(host, started_at=NOON + hour * HOUR, environment=environment), series, iops=1.0
        )

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    assert [
        (change.host, [(each.name, each.before, each.after) for each in change.fields])
        for change in line.environments.changes
    ] == [("db-02", [("host", None, "db-02")])]


def test_facts_are_compared_one_by_one():
    host = make_host()
    series = make_series(host=host)
    for hour, depth in enumerate((256, 512)):
        environment = make_environment(facts={"nr_requests": depth, "mitigations": "auto"})
        run = make_run(host, started_at=NOON + hour * HOUR, environment=environment)
        make_measurement(run, series, iops=1.0)

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    (change,) = line.environments.changes
    assert [(each.label, each.before, each.after) for each in change.fields] == [
        ("nr requests", "256", "512")
    ]


def test_first_run_with_a_known_agent_version_is_no_change():
    host = make_host()
    series = make_series(host=host)
    for hour, version in enumerate((None, "0.1.0", "0.2.0")):
        environment = make_environment(kernel="6.1", agent_version=version)
        make_measurement(
            make_run(host, started_at=NOON + hour * HOUR, environment=environment), series, iops=1.0
        )

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    (change,) = line.environments.changes
    assert [(each.label, each.before, each.after) for each in change.fields] == [("agent", "0.1.0", "0.2.0")]


def test_first_run_that_tells_its_zone_is_no_change():
    host = make_host()
    series = make_series(host=host)
    for hour, facts in enumerate(({}, {"time_zone": "UTC"}, {"time_zone": "Europe/Berlin"}, {})):
        environment = make_environment(kernel="6.1", facts=facts)
        make_measurement(
            make_run(host, started_at=NOON + hour * HOUR, environment=environment), series, iops=1.0
        )

    (line,) = read_history(choose(ids=[series.id]), metrics=["iops"]).lines

    (change,) = line.environments.changes
    assert change.at == NOON + 2 * HOUR
    assert [(each.label, each.before, each.after) for each in change.fields] == [
        ("time zone", "UTC", "Europe/Berlin")
    ]
