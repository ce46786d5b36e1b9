"""Levels of series day by day, relative to the level of each when the period began."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg import sql

from benchapp.framework.read.days import DayRange
from benchapp.models import Level, Series
from benchapp.series.read.selected_levels import read_relative_levels
from tests.factories import NOON, make_series

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def plant(*levels: tuple[float, float], metric: str = "iops", last: float = 0) -> Series:
    """Make a series with levels, (days before noon, median), and a last run so many days before noon."""
    series = make_series()
    first = levels[0][0]
    Series.objects.filter(pk=series.pk).update(
        first_at=NOON - first * DAY, last_at=NOON - last * DAY, measurement_count=40
    )
    ends = [*(days for days, _ in levels[1:]), last]
    values = dict.fromkeys(("p10", "p90", "minimum", "maximum", "last"), 1.0)
    previous: float | None = None
    for (days, median), end in zip(levels, ends, strict=True):
        times: dict[str, Any] = {"from_at": NOON - days * DAY, "to_at": NOON - end * DAY}
        times["previous_until_at"] = None if previous is None else times["from_at"]
        Level.objects.create(
            series=series,
            metric=metric,
            median=median,
            previous_median=previous,
            n=9,
            first_run_id=1,
            is_current=end == last,
            **times,
            **values,
        )
        previous = median
    return series


def read(groups: Sequence[Sequence[Series]], days: int = 5) -> list[list[float]]:
    """Return the averages of each group on these days, rounded; −1 for a day without a level."""
    pairs = [(series.pk, place) for place, group in enumerate(groups) for series in group]
    found = read_relative_levels(
        sql.SQL(
            "SELECT id, place, last_at FROM benchapp_series"
            " JOIN unnest(%(ids)s::bigint[], %(places)s::integer[]) AS wanted(id, place) USING (id)"
        ),
        {"ids": [pk for pk, _ in pairs], "places": [place for _, place in pairs]},
        days=DayRange(NOON, days),
    )
    averages = [found.get(place, (None,) * days) for place in range(len(groups))]
    return [[-1 if one is None else round(one, 3) for one in row] for row in averages]


@pytest.mark.parametrize(
    ("levels", "ratios"),
    [
        ([(30, 1000)], [1, 1, 1, 1, 1]),
        # The level changes in the night before the last day.
        ([(30, 1000), (0.5, 780)], [1, 1, 1, 1, 0.78]),
        # What changed before the period is its beginning.
        ([(30, 1000), (20, 500), (2, 600)], [1, 1, 1.2, 1.2, 1.2]),
        # A series that began within it: relative to its first level.
        ([(3, 1000), (1, 900)], [-1, 1, 1, 0.9, 0.9]),
        # Two changes between two of the days.
        ([(30, 1000), (1.9, 10), (1.1, 800)], [1, 1, 1, 0.8, 0.8]),
    ],
)
def test_level_of_each_day_is_relative_to_the_first(
    levels: list[tuple[float, float]], ratios: list[float]
) -> None:
    assert read([[plant(*levels)]]) == [ratios]


def test_ratio_of_elapsed_time_is_above_one_if_it_became_shorter() -> None:
    assert read([[plant((30, 20.0), (1, 10.0), metric="elapsed_s")]]) == [[1, 1, 1, 2, 2]]


def test_series_that_is_no_longer_measured_ends_with_its_last_run() -> None:
    stale = plant((90, 1000), last=40)
    slow = plant((400, 1000), last=12)

    changed = plant((90, 1000), (50, 500), last=40)

    assert [sum(one > 0 for one in row) for row in read([[stale], [slow], [changed]], days=60)] == [
        20,
        60,
        20,
    ]


def test_series_without_levels_has_no_history() -> None:
    first, second, empty = plant((30, 1000), (1, 900)), plant((30, 1000)), make_series()

    assert read([[second], [empty], [first]]) == [[1] * 5, [-1] * 5, [1, 1, 1, 0.9, 0.9]]
    assert read([]) == []


def test_level_of_zero_has_no_history() -> None:
    assert read([[plant((30, 0.0))], [plant((30, 0.0), (1, 900))]]) == [[-1] * 5] * 2


def test_average_is_the_geometric_mean_of_the_series_of_a_day() -> None:
    halved, doubled = plant((30, 1000), (1, 500)), plant((3, 1000), (1, 2000))

    assert read([[halved, doubled, plant((30, 7.0))], [doubled, halved]]) == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
    ]
    assert read([[plant((30, 100), (1, 40)), plant((2, 100), (1, 90))]]) == [[1, 1, 1, 0.6, 0.6]]


def test_three_queries_read_all_series(django_assert_num_queries: Any) -> None:
    series = [plant((30, 1000), (1, 900)) for _ in range(5)]

    # The newest audit records and the series; their levels are read beside Django's cursor.
    with django_assert_num_queries(2):
        read([series])
