"""Levels of series day by day, relative to the level of each when the period began."""

from datetime import timedelta
from typing import Any

import pytest

from benchapp.models import Level, Series
from benchapp.queries.series.relative_levels import average_by_group, read_relative_levels
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
    for (days, median), end in zip(levels, ends, strict=True):
        times: dict[str, Any] = {"from_at": NOON - days * DAY, "to_at": NOON - end * DAY}
        Level.objects.create(
            series=series,
            metric=metric,
            median=median,
            n=9,
            first_run_id=1,
            is_current=end == last,
            **times,
            **values,
        )
    return series


def read(*series: Series) -> list[list[float]]:
    """Return the ratios of five days, rounded; −1 for a day without a level."""
    levels = read_relative_levels([one.pk for one in series], days=5, now=NOON)
    return [[-1 if ratio != ratio else round(ratio, 3) for ratio in row] for row in levels.ratios.tolist()]


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
    assert read(plant(*levels)) == [ratios]


def test_ratio_of_elapsed_time_is_above_one_if_it_became_shorter() -> None:
    assert read(plant((30, 20.0), (1, 10.0), metric="elapsed_s")) == [[1, 1, 1, 2, 2]]


def test_series_that_is_no_longer_measured_ends_with_its_last_run() -> None:
    stale = plant((90, 1000), last=40)
    slow = plant((400, 1000), last=12)

    levels = read_relative_levels([stale.pk, slow.pk], days=60, now=NOON)

    assert [sum(ratio == ratio for ratio in row) for row in levels.ratios.tolist()] == [20, 60]


def test_series_without_levels_has_no_ratios_and_the_order_is_that_of_the_ids() -> None:
    first, second = plant((30, 1000), (1, 900)), plant((30, 1000))
    empty = make_series()

    assert read(second, empty, first) == [[1] * 5, [-1] * 5, [1, 1, 1, 0.9, 0.9]]
    assert read() == []


def test_average_is_the_geometric_mean_of_the_series_of_a_day() -> None:
    series = [plant((30, 1000), (1, 500)), plant((3, 1000), (1, 2000)), plant((30, 100), (1, 90))]
    levels = read_relative_levels([one.pk for one in series], days=5, now=NOON)

    averages = average_by_group(levels, ["a", "a", "b"])

    assert averages == {"a": (1.0, 1.0, 1.0, 1.0, 1.0), "b": (1.0, 1.0, 1.0, 0.9, 0.9)}
    assert average_by_group(levels, ["x", "y", "z"])["y"][0] is None


def test_one_query_reads_all_series(django_assert_num_queries: Any) -> None:
    series = [plant((30, 1000)) for _ in range(5)]

    # Beside Django's cursor.
    with django_assert_num_queries(0):
        read(*series)
