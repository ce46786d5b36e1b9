"""Clusters of simultaneous changes."""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.incidents.rules.incidents import (
    IncidentSpan,
    Moment,
    cluster_moments,
    find_event_window,
    find_matching_incident,
)

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = 3600.0


def at(key: int, hours: float, *, interval_s: float = HOUR) -> Moment:
    return Moment(key, NOON + timedelta(hours=hours), interval_s)


def test_same_and_neighbouring_runs_are_together_and_a_day_is_not() -> None:
    clusters = cluster_moments([at(3, 30), at(1, 0), at(2, 1)])

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[1, 2], [3]]


def test_chain_of_small_distances_ends() -> None:
    clusters = cluster_moments([at(key, float(key)) for key in range(6)])

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[0, 1, 2], [3, 4, 5]]


def test_chance_change_shortly_before_does_not_part_what_began_at_once() -> None:
    moments = [at(1, -1.2), at(2, 0), at(3, 0), at(4, 1.2), at(5, 1.2)]

    clusters = cluster_moments(moments)

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[1, 2, 3, 4, 5]]


def test_densest_moment_defines_the_cluster() -> None:
    moments = [at(1, 0), at(2, 1), at(3, 2), at(4, 2), at(5, 3), at(6, 3), at(7, 4.5)]

    clusters = cluster_moments(moments)

    assert [[moment.key for moment in cluster] for cluster in clusters] == [[1], [2, 3, 4, 5, 6], [7]]


@pytest.mark.parametrize(
    ("hours", "interval_hours", "is_together"),
    [
        (24.0, 24, True),  # daily runs, the day after
        (29.9, 24, True),
        (30.1, 24, False),
        (44.9, 36, True),  # runs every 36 h
        (45.1, 36, False),
        (209.0, 168, True),  # weekly runs, the week after
        (211.0, 168, False),
        (0.9, 0, True),  # no interval is known
        (1.1, 0, False),
    ],
)
def test_reach_is_the_interval_of_the_runs_and_a_quarter(
    hours: float, interval_hours: float, is_together: bool
) -> None:
    moments = [at(1, 0, interval_s=interval_hours * HOUR), at(2, hours, interval_s=interval_hours * HOUR)]

    assert (len(cluster_moments(moments)) == 1) == is_together


def test_nearest_span_within_reach_is_home() -> None:
    spans = [
        IncidentSpan(1, NOON - timedelta(hours=3), NOON - timedelta(hours=1)),
        IncidentSpan(2, NOON + timedelta(hours=1), NOON + timedelta(hours=9)),
    ]

    assert find_matching_incident(spans, [at(7, -0.9)]) == spans[0]
    assert find_matching_incident(spans, [at(7, 5)]) == spans[1]
    assert find_matching_incident(spans, [at(7, 13.9)]) == spans[1]
    assert find_matching_incident(spans, [at(7, 14.1)]) is None
    assert find_matching_incident([], [at(7, 0)]) is None


def test_incident_may_span_twice_around_a_moment() -> None:
    early, late = (
        IncidentSpan(1, NOON, NOON),
        IncidentSpan(1, NOON + timedelta(hours=2), NOON + timedelta(hours=2)),
    )

    assert find_matching_incident([late, early], [at(7, 1)]) == early
    assert find_matching_incident([early, early], [at(7, 1)]) == early


@pytest.mark.parametrize(
    ("interval_hours", "hours"),
    [([], 1.0), ([0.2], 1.0), ([1, 1, 1], 4.0), ([6], 24.0), ([36, 36, 1], 144.0), ([168], 672.0)],
)
def test_window_between_hosts_is_in_usual_intervals_at_least_an_hour(
    interval_hours: list[float], hours: float
) -> None:
    assert find_event_window([each * HOUR for each in interval_hours]) == timedelta(hours=hours)
