"""Suspected changes and the states of a finding."""

import math

import numpy as np
import pytest

from benchapp.analysis.changepoints.v1 import ChangePoint, find_changes
from benchapp.analysis.detection.suspicion_test import (
    Finding,
    Stage,
    Suspicion,
    describe_confidence,
    suspect_newest,
    track_findings,
)

STEADY = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0] * 4


def make_change(index: int) -> ChangePoint:
    (change,) = find_changes([100.0] * 30 + [80.0] * 10)
    return ChangePoint(index, *(getattr(change, name) for name in list(ChangePoint.__slots__)[1:]))


def track(findings, *indices: int, runs: int, suspicion: Suspicion | None = None) -> tuple[Finding, ...]:
    return track_findings(findings, [make_change(index) for index in indices], suspicion, runs=runs)


def make_suspicion(index: int) -> Suspicion:
    return Suspicion(index=index, far_runs=2, relative_change=-0.2, spreads=9.0)


def test_two_newest_outliers_are_suspected() -> None:
    suspicion = suspect_newest([*STEADY, 80.0, 81.0])

    assert suspicion is not None
    assert (suspicion.index, suspicion.far_runs) == (24, 2)
    assert suspicion.relative_change == pytest.approx(-0.195)


def test_two_of_the_three_newest_suffice() -> None:
    suspicion = suspect_newest([*STEADY, 80.0, 100.0, 81.0])

    assert suspicion is not None
    assert suspicion.index == 24


@pytest.mark.parametrize(
    "newest",
    [
        [80.0],  # one is a spike
        [80.0, 100.0],  # it is over
        [80.0, 120.0],  # to both sides
        [97.5, 97.4],  # no farther than before
        [80.0, 81.0, math.nan],  # the newest is no number
    ],
)
def test_less_is_not_suspected(newest: list[float]) -> None:
    assert suspect_newest([*STEADY, *newest]) is None


def test_state_within_the_range_of_the_level_is_not_suspected() -> None:
    level = [*STEADY]
    level[5] = 80.0

    assert suspect_newest([*level, 80.5, 81.0]) is None


def test_change_below_the_threshold_is_not_suspected() -> None:
    level = [100.0, 100.1] * 10

    assert suspect_newest([*level, 97.0, 97.0], least_relative_change=0.05) is None
    assert suspect_newest([*level, 97.0, 97.0], least_relative_change=0.02) is not None


def test_only_the_current_level_counts() -> None:
    values = [50.0] * 20 + STEADY + [50.0, 50.0]

    assert suspect_newest(values) is None
    assert suspect_newest(values, [20]) is not None


def test_under_ten_known_runs_nothing_is_suspected() -> None:
    assert suspect_newest([100.0] * 9 + [100.0, 50.0, 50.0]) is None
    assert suspect_newest([100.0] * 10 + [100.0, 50.0, 50.0]) is not None


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 40, [math.nan] * 40, [0.0] * 20 + [1e308, 1e308]])
def test_any_values_are_accepted(values: list[float]) -> None:
    suspicion = suspect_newest(values)

    assert suspicion is None or suspicion.relative_change is None


def test_suspicion_is_rare_in_heavy_tails() -> None:
    values = (100 + np.random.default_rng(5).standard_t(3, 400)).tolist()

    assert sum(suspect_newest(values[:count]) is not None for count in range(30, 400)) <= 2


def test_suspicion_becomes_provisional_then_confirmed() -> None:
    suspected = track((), runs=32, suspicion=make_suspicion(30))
    provisional = track(suspected, 30, runs=33)
    waiting = track(provisional, 30, runs=37)
    confirmed = track(waiting, 30, runs=38)

    stages = [findings[0].stage for findings in (suspected, provisional, waiting, confirmed)]
    assert stages == [Stage.SUSPECTED, Stage.PROVISIONAL, Stage.PROVISIONAL, Stage.CONFIRMED]
    assert all(len(findings) == 1 for findings in (suspected, provisional, waiting, confirmed))
    assert confirmed[0].first_seen_runs == 32


def test_suspicion_without_a_change_is_withdrawn_after_five_runs() -> None:
    suspected = track((), runs=32, suspicion=make_suspicion(30))

    assert track(suspected, runs=36)[0].stage == Stage.SUSPECTED
    assert track(suspected, runs=37)[0].stage == Stage.WITHDRAWN
    assert track(suspected, runs=37, suspicion=make_suspicion(30))[0].stage == Stage.SUSPECTED


def test_change_that_does_not_last_is_withdrawn_and_stays_in_the_list() -> None:
    provisional = track((), 30, runs=33)

    withdrawn = track(provisional, runs=34)

    assert [finding.stage for finding in withdrawn] == [Stage.WITHDRAWN]
    assert withdrawn[0].change == provisional[0].change


def test_withdrawn_finding_is_followed_by_a_new_one() -> None:
    withdrawn = track(track((), 30, runs=33), runs=34)

    again = track(withdrawn, 31, runs=40)

    assert [(finding.stage, finding.index) for finding in again] == [
        (Stage.WITHDRAWN, 30),
        (Stage.PROVISIONAL, 31),
    ]


def test_shifted_change_within_a_few_runs_is_the_same() -> None:
    moved = track(track((), 30, runs=33), 33, runs=36)

    assert len(moved) == 1
    assert (moved[0].first_index, moved[0].index, moved[0].found_since_runs) == (30, 33, 33)


def test_change_far_away_is_another() -> None:
    assert [finding.index for finding in track(track((), 30, runs=50), 30, 36, runs=51)] == [30, 36]


def test_tracking_is_idempotent() -> None:
    once = track(track((), 30, runs=33), 30, 60, runs=63, suspicion=make_suspicion(90))

    assert track(once, 30, 60, runs=63, suspicion=make_suspicion(90)) == once


def test_change_of_old_history_is_provisional_until_seen_for_five_runs() -> None:
    """What is found when a history is imported has not been watched yet."""
    assert track((), 30, runs=200)[0].stage == Stage.PROVISIONAL


def test_confidence_is_described() -> None:
    assert [describe_confidence(share) for share in (1.0, 0.9999, 0.995, 0.9, 0.4)] == [
        "practically certain",
        "practically certain",
        "very likely",
        "likely",
        "uncertain",
    ]
