"""The fleet's benchmark in small: real noise through the pipeline, and what was planted comes out as planted."""

import pytest

from benchapp.models import Incident
from benchmarks.fleet_noise import make_values, plant
from benchmarks.fleet_score import Score, score
from benchmarks.fleet_world import make_world
from benchmarks.fleet_year import choose_planted, judge_all_due, live, plan_judging

pytestmark = pytest.mark.django_db

HOSTS, CELLS, RUNS, SEED = 3, 20, 84, 4
SIZE = {"hosts": HOSTS, "cells": CELLS, "runs": RUNS, "seed": SEED}


def live_through(planted_count: int) -> Score:
    planted = choose_planted(planted_count, **SIZE)
    values = make_values(**SIZE)
    plant(values, planted)
    world = make_world(values, hosts=HOSTS, planted=planted)
    live(world, planted, every=12, judge=judge_all_due)
    return score(world, planted)


def test_three_weeks_in_which_nothing_happens_open_no_incident() -> None:
    assert live_through(0).false == ()


def test_planted_regressions_are_found_and_grouped_as_they_were_planted() -> None:
    result = live_through(2)

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
    planted = choose_planted(1, **SIZE)
    first = planted[0].run

    ends = [end for _, end in plan_judging(RUNS, planted, every=12)]

    assert ends[:1] == [24]
    assert set(range(first + 1, first + 9)) <= set(ends)
    assert ends[-1] == RUNS
