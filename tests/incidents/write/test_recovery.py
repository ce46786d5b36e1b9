"""Recovery of an incident by what its pooled levels show; the values of its series alone decide nothing here."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.incidents.write.incidents import _is_back
from benchapp.models import Change, NewestValues
from tests.factories import NOON

LATER = NOON + timedelta(days=3)
RETURNED = {"has_returned": True, "is_nearer_before": True}
NEARER = {"has_returned": False, "is_nearer_before": True}
LOW = {"has_returned": False, "is_nearer_before": False}


def make_pooled_change(series_id: int, pooled: dict[str, bool], *, hours: int = 0) -> Change:
    """Return a change from 1 000 to 970 of a series that is measured every hour."""
    return Change(
        series_id=series_id,
        metric="iops",
        method=POOLED_METHOD,
        started_at=NOON + timedelta(hours=hours),
        before_median=1000.0,
        after_median=970.0,
        before_spread=30.0,
        after_spread=30.0,
        evidence={"interval_s": 3600.0, "pooled": pooled},
    )


def is_back(changes: Sequence[Change], *, silent: Sequence[int] = ()) -> bool:
    """Return whether the incident of these changes is back; silent: series without runs for days."""
    levels = {
        (change.series_id, change.metric): NewestValues(
            # Half way between both levels.
            recent=[985.0] * 10,
            to_at=NOON + timedelta(hours=10) if change.series_id in silent else LATER,
        )
        for change in changes
    }
    return _is_back(changes, levels)


@pytest.mark.parametrize(("returned", "expected"), [(6, True), (4, True), (3, False)])
def test_pooled_levels_of_two_thirds_of_the_series_have_returned(returned: int, expected: bool) -> None:
    changes = [make_pooled_change(number, RETURNED if number < returned else NEARER) for number in range(6)]

    assert is_back(changes) is expected


def test_no_pooled_level_is_nearer_to_the_new_level() -> None:
    changes = [make_pooled_change(number, RETURNED) for number in range(5)]

    assert is_back([*changes, make_pooled_change(5, NEARER)])
    assert not is_back([*changes, make_pooled_change(5, LOW)])


def test_newest_change_of_a_series_counts() -> None:
    others = [make_pooled_change(number, RETURNED) for number in range(3)]
    earlier, newest = make_pooled_change(3, LOW), make_pooled_change(3, RETURNED, hours=20)

    assert is_back([*others, earlier, newest])
    assert not is_back([*others, make_pooled_change(3, RETURNED), make_pooled_change(3, LOW, hours=20)])


def test_series_that_are_no_longer_measured_have_no_part() -> None:
    measured = [make_pooled_change(number, RETURNED) for number in range(3)]
    silent = [make_pooled_change(number, LOW) for number in range(3, 9)]

    assert is_back([*measured, *silent], silent=range(3, 9))
    assert not is_back([*measured, *silent])


def test_change_more_than_100_sweeps_ago_is_no_evidence() -> None:
    changes = [make_pooled_change(number, RETURNED) for number in range(5)]

    assert is_back([*changes, make_pooled_change(5, RETURNED, hours=-20)])
    assert not is_back([*changes, make_pooled_change(5, RETURNED, hours=-40)])
