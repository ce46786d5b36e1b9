"""What was computed of a series is kept until the series changes; of too many, what is asked for goes on being kept."""

import pytest
from django.db import transaction

from benchapp.models import Series
from benchapp.queries.series_versions import VersionedCache, read_series_versions
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


def test_value_is_made_once_for_each_version() -> None:
    kept, made = VersionedCache[str](9), []

    def load(ids: list[int]) -> dict[int, str]:
        made.append(ids)
        return {series_id: f"of {series_id}" for series_id in ids}

    for versions in ({1: "a", 2: "a"}, {1: "a", 2: "a"}, {1: "a", 2: "b"}):
        assert kept.read(versions, "iops", load=load) == {1: "of 1", 2: "of 2"}

    assert made == [[1, 2], [2]]


def test_what_was_asked_for_least_lately_falls_out() -> None:
    kept, made = VersionedCache[int](2), []

    def read(series_id: int) -> None:
        kept.read({series_id: "a"}, None, load=lambda ids: made.extend(ids) or {series_id: 0})

    for series_id in (1, 2, 1, 3, 1, 2):
        read(series_id)

    assert made == [1, 2, 3, 2]
