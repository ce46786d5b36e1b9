"""Versions of series."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.models import Level, Series
from benchapp.series.read.series import read_series_versions
from tests.detection.write.test_levels_any_order import STEPS, take
from tests.factories import make_series


@pytest.mark.django_db
def test_version_changes_with_each_writing_also_within_one_transaction() -> None:
    series = make_series([1.0])
    seen = [read_series_versions([series.pk])[series.pk]]

    with transaction.atomic():
        for _ in range(3):
            Series.objects.filter(pk=series.pk).update(judging_is_due=True)
            seen.append(read_series_versions([series.pk])[series.pk])

    assert len(set(seen)) == 4
    assert read_series_versions([series.pk])[series.pk] == seen[-1]


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=2, max_size=10))
@pytest.mark.django_db
def test_series_whose_level_changed_has_a_new_version_after_any_order_of_changes(
    steps: list[tuple[Any, ...]],
) -> None:
    with transaction.atomic():
        for step in (("arrive", 0, 100.0, 0), ("evaluate", 2), *steps, ("evaluate", 2)):
            versions, levels = _read_versions(), _read_levels()
            take(*step)
            after = _read_versions()
            changed = {series_id for series_id, *_ in levels ^ _read_levels()}

            assert all(after[each] != versions.get(each) for each in changed)
        transaction.set_rollback(True)


def _read_versions() -> dict[int, str]:
    return read_series_versions(list(Series.objects.values_list("id", flat=True)))


def _read_levels() -> set[tuple[Any, ...]]:
    return set(Level.objects.values_list("series_id", "metric", "n", "median", "p10", "p90", "to_at"))
