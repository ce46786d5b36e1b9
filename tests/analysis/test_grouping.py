"""Which findings are believed, and which moved together."""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.analysis.grouping import Moment, Span, cluster_moments, find_home, find_threshold

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = 3600.0


def at(key: int, hours: float, *, interval_s: float = HOUR) -> Moment:
    return Moment(key, NOON + timedelta(hours=hours), interval_s)


@pytest.mark.parametrize(
    ("chances", "family", "expected"),
    [
        ([], 10, 0.0),
        ([0.004], 10, 0.004),  # 1 · 0.05 / 10 = 0.005
        ([0.006], 10, 0.0),
        ([0.006, 0.009], 10, 0.009),  # the second lifts the first: 2 · 0.05 / 10 = 0.010
        ([0.006, 0.011], 10, 0.0),
        ([0.001, 0.2, 0.014], 10, 0.001),
        ([0.01] * 3, 3, 0.01),
        ([0.01] * 3, 1, 0.01),  # more found than judged: a family is never smaller
    ],
)
def test_threshold_of_benjamini_and_hochberg(chances: list[float], family: int, expected: float) -> None:
    assert find_threshold(chances, family=family, level=0.05) == expected


def test_same_and_neighbouring_runs_are_together_and_a_day_is_not() -> None:
    clusters = cluster_moments([at(3, 30), at(1, 0), at(2, 1)])

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[1, 2], [3]]


def test_chain_of_small_distances_ends() -> None:
    clusters = cluster_moments([at(key, float(key)) for key in range(6)])

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("hours", "interval_hours", "is_together"),
    [
        (24.0, 24, True),  # daily runs, the day after
        (29.9, 24, True),
        (30.1, 24, False),
        (31.0, 168, False),  # weekly runs: the sweep, not the week
        (0.9, 0, True),  # no interval is known
        (1.1, 0, False),
    ],
)
def test_reach_is_the_interval_of_the_runs_and_a_day_at_most(
    hours: float, interval_hours: float, is_together: bool
) -> None:
    moments = [at(1, 0, interval_s=interval_hours * HOUR), at(2, hours, interval_s=interval_hours * HOUR)]

    assert (len(cluster_moments(moments)) == 1) == is_together


def test_nearest_span_within_reach_is_home() -> None:
    spans = [
        Span(1, NOON - timedelta(hours=3), NOON - timedelta(hours=1)),
        Span(2, NOON + timedelta(hours=1), NOON + timedelta(hours=9)),
    ]

    assert find_home(spans, [at(7, -0.9)]) == spans[0]
    assert find_home(spans, [at(7, 5)]) == spans[1]
    assert find_home(spans, [at(7, 11)]) is None
    assert find_home([], [at(7, 0)]) is None
