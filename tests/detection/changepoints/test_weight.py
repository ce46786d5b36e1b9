"""What the evidence of a boundary weighs together, and how long a stay is no mere visit."""

from dataclasses import replace

import numpy as np
import pytest

from benchapp.detection.changepoints.detector import ChangeEvidence, weigh_evidence, weigh_stay

PLAIN = ChangeEvidence(rank_score=4.0, spreads=2.0, novelty=0.8, correlation=0.0, places=65)


def test_evidence_is_summed() -> None:
    """−ln p 10.36 + 6 · 0.8 + 4 · ln 2 − 2.5 · ln 65 = 7.50, over 6."""
    assert weigh_evidence(PLAIN) == pytest.approx(1.25, abs=0.01)


@pytest.mark.parametrize(
    "weaker",
    [
        {"rank_score": 3.0},
        {"spreads": 1.2},
        {"novelty": 0.3},
        {"correlation": 0.3},
        {"places": 120},
    ],
)
def test_each_piece_of_evidence_can_decide(weaker: dict[str, float]) -> None:
    assert weigh_evidence(PLAIN) > 1 > weigh_evidence(replace(PLAIN, **weaker))


def test_weak_ranks_are_made_up_for_by_size_and_novelty() -> None:
    """Three points beyond all of twenty cannot have a greater rank score than 3.25."""
    three = ChangeEvidence(rank_score=3.25, spreads=2.0, novelty=0.6, correlation=0.0, places=23)

    assert weigh_evidence(replace(three, rank_score=2.7, novelty=0.1)) < 1
    assert weigh_evidence(replace(three, rank_score=2.7, novelty=1.0, spreads=5.0)) > 1


def test_beyond_all_measure_size_makes_up_for_nothing_more() -> None:
    assert weigh_evidence(replace(PLAIN, spreads=6.0)) == weigh_evidence(replace(PLAIN, spreads=1e9))


def test_stay_is_weighed_against_how_long_visits_lasted() -> None:
    """One old point in four is low: alone each time, or five in a row."""
    alone = np.tile([10.0, 10.0, 10.0, 4.0], 10)
    in_rows = np.tile([10.0] * 15 + [4.0] * 5, 2)
    new = np.full(10, 4.0)

    assert weigh_stay(alone, new) > 1 > weigh_stay(in_rows, new)


def test_stay_grows_with_each_point() -> None:
    old = np.tile([10.0, 10.0, 10.0, 4.0], 10)

    weights = [weigh_stay(old, np.full(points, 4.0)) for points in (3, 6, 12)]

    assert weights == sorted(weights)
    assert weights[0] < 1 < weights[-1]


def test_level_that_comes_back_is_no_stay() -> None:
    old = np.tile([10.0, 10.0, 10.0, 4.0], 10)

    assert weigh_stay(old, np.array([4.0] * 9 + [9.0])) == 0.0


def test_stay_above_is_weighed_like_one_below() -> None:
    old, new = np.tile([10.0, 10.0, 10.0, 4.0], 10), np.full(10, 4.0)

    assert weigh_stay(-old, -new) == weigh_stay(old, new)
