"""The fleet's benchmark in small: real noise through the pipeline, and what was planted comes out as planted."""

from datetime import datetime

import numpy as np
import pytest

from benchapp.intake.normalize.series_lookup import recalculate_environments
from benchapp.models import ChangeState, Host, Incident, Measurement, Run, Series, SeriesEnvironment
from benchmarks.fleet_confirmation import Confirmation
from benchmarks.fleet_months import PlantedEvent, list_events, make_months
from benchmarks.fleet_months_score import is_title_right
from benchmarks.fleet_noise import make_values, plant
from benchmarks.fleet_score import Score, describe_notices, score
from benchmarks.fleet_world import find_run, make_world, say_time, write_runs
from benchmarks.fleet_year import choose_planted, judge_all_due, live, plan_judging
from tests.factories import make_change

pytestmark = pytest.mark.django_db

HOSTS, CELLS, RUNS = 3, 20, 84


def live_through(planted_count: int, *, seed: int) -> Score:
    size = {"hosts": HOSTS, "cells": CELLS, "runs": RUNS, "seed": seed}
    planted = choose_planted(planted_count, **size)
    values = make_values(**size)
    plant(values, planted)
    world = make_world(values, hosts=HOSTS, planted=planted, seed=seed)
    live(world, plan_judging(RUNS, planted, every=12), judge=judge_all_due)
    assert list(describe_notices(world, weeks=3))[-1].endswith("| 0; 0 |")
    return score(world, planted)


def test_three_weeks_in_which_nothing_happens_open_no_incident() -> None:
    assert live_through(0, seed=5).false == ()


def test_planted_regressions_are_found_and_grouped_as_they_were_planted() -> None:
    result = live_through(2, seed=4)

    assert [(one.planted.kind, one.is_grouped) for one in result.found] == [
        ("host", True),
        ("volume type", True),
    ]
    # Three weeks, and one a week is what a fleet is allowed.
    assert len(result.false) <= 2
    for one in result.found:
        assert one.delay_runs is not None
        assert one.delay_runs <= 8
        assert one.size_error == pytest.approx(0, abs=3)
    wide = Incident.objects.get(scope="", merged_into=None)
    assert wide.common_factors[0]["dimension"] == "volume_type"


def test_runs_after_a_regression_are_judged_one_by_one() -> None:
    planted = choose_planted(1, hosts=HOSTS, cells=CELLS, runs=RUNS, seed=4)
    first = planted[0].run

    ends = [end for _, end in plan_judging(RUNS, planted, every=12)]

    assert ends[:1] == [24]
    assert set(range(first + 1, first + 9)) <= set(ends)
    assert ends[-1] == RUNS


def test_planted_events_of_two_months_change_the_metrics_of_their_cells() -> None:
    events = {event.name: event for event in list_events(4)}
    world = make_months(cells=4, seed=3)

    for name, metric, size in (
        ("host-03, for 40 runs", "iops", -0.2),
        ("host-06, improvement", "latency_mean_ns", 1 / 1.12 - 1),
        ("host-04, p99 latency alone", "latency_p99_ns", 0.5),
    ):
        event = events[name]
        rows = world.values[metric][sorted(event.cells)]
        before = np.median(rows[:, event.run - 30 : event.run], axis=1)
        after = np.median(rows[:, event.run : min(event.run + 30, event.until)], axis=1)
        assert np.median(after / before) - 1 == pytest.approx(size, abs=0.05)
        assert event.sizes[metric] == pytest.approx(size)


@pytest.mark.parametrize(
    ("title", "is_right"),
    [
        ("db-1: IOPS −17 % in 8 of 8 series", True),
        ("db-1: IOPS −19 % in 8 of 8 series", False),
        ("db-1: IOPS +15 % in 8 of 8 series", False),
        ("db-1: p99 latency +15 % in 8 of 8 series", False),
        ("db-1: IOPS decreased by 15 % between 1 and 9 May in 8 of 8 series", True),
        ("", False),
    ],
)
def test_title_is_right_with_a_metric_of_the_event_and_its_size(title: str, is_right: bool) -> None:
    event = PlantedEvent("db-1", frozenset({1}), 60, {"iops": -0.15, "latency_mean_ns": 0.18})

    assert is_title_right(title, event) is is_right


def test_fleet_has_the_counts_and_environments_that_the_pipeline_keeps() -> None:
    size = {"hosts": 2, "cells": 20, "runs": 4, "seed": 1}
    world = make_world(make_values(**size), hosts=2, planted=[], seed=1)
    for first in (0, 2):
        write_runs(world, first, first + 2)

    kept = set(SeriesEnvironment.objects.values_list("series_id", "environment_id", "first_at", "last_at"))
    recalculate_environments(world.series_ids)

    assert kept == set(
        SeriesEnvironment.objects.values_list("series_id", "environment_id", "first_at", "last_at")
    )
    assert len(kept) == 40
    assert [host.run_count for host in Host.objects.all()] == [
        Run.objects.filter(host=host).count() for host in Host.objects.all()
    ]


def test_unconfirmed_regression_is_followed_by_additional_runs() -> None:
    world = make_months(cells=4, seed=3, additional=2)
    write_runs(world, 0, 2)
    series = Series.objects.get(pk=world.series_ids[5])
    change = make_change(series, state=ChangeState.PROVISIONAL, found_at=say_time(1))
    judged: list[datetime] = []
    confirmation = Confirmation(world, judged.append)

    confirmation.confirm(2)

    # Series 5 is the second of host 2, whose layouts have a series each.
    added = list(Run.objects.filter(pk__gt=10**9).order_by("started_at"))
    assert [(one.host_id, one.target_id) for one in added] == [(world.host_ids[1], world.target_ids[1])] * 2
    assert [find_run(one.started_at) for one in added] == [1, 1]
    assert [one.iops for one in Measurement.objects.filter(run__in=added).order_by("started_at")] == [
        values["iops"][5, 1] for values in world.additional
    ]
    assert len(judged) == confirmation.count == 2

    change.state = ChangeState.CONFIRMED
    change.save()
    confirmation.confirm(2)

    assert confirmation.count == 2


def test_additional_runs_have_the_level_of_their_step_and_correlate_with_the_run_before() -> None:
    world = make_months(cells=4, seed=3, additional=1)
    earlier, later = (each["iops"] for each in (world.values, world.additional[0]))

    # Before the first event. Medians are those of the two months.
    share = later[:, :50] / np.median(earlier[:, :50], axis=1, keepdims=True)
    pairs = zip(earlier[:, :50], later[:, :50], strict=True)

    assert np.median(share) == pytest.approx(1, abs=0.02)
    assert np.median([np.corrcoef(*pair)[0, 1] for pair in pairs]) == pytest.approx(0.5, abs=0.15)
