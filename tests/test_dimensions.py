"""The registry of what series differ in."""

import pytest

from benchapp.catalog.dimensions import (
    ALIASES,
    DIMENSIONS,
    SERIES_DIMENSIONS,
    find_dimension,
    find_filter_dimension,
    get_filter_dimension,
    name_pattern,
    split_pattern,
)
from benchapp.models import ENVIRONMENT_FIELDS, Series

VIRTUAL = {"host", "pool", "pattern"}


def test_every_dimension_of_series_but_three_is_a_column_of_it() -> None:
    columns = {field.name for field in Series._meta.get_fields()}

    assert set(SERIES_DIMENSIONS) - VIRTUAL <= columns


def test_every_other_dimension_is_a_column_of_environments() -> None:
    assert set(DIMENSIONS) - set(SERIES_DIMENSIONS) == set(ENVIRONMENT_FIELDS) - {"facts"}


def test_short_names_lead_to_dimensions_and_hide_none() -> None:
    assert set(ALIASES.values()) <= set(DIMENSIONS)
    assert set(ALIASES) & set(DIMENSIONS) == set()


def test_names_of_filters_that_are_no_dimensions_of_charts_are_facts_of_runs() -> None:
    assert all(get_filter_dimension(name).group == "run" for name in ("profile", "sweep", "label.rack"))
    assert [find_dimension(name) for name in ("profile", "sweep", "label.rack")] == [None, None, None]
    assert find_filter_dimension("label.") is None


def test_companions_are_dimensions_themselves() -> None:
    named = {companion for dimension in DIMENSIONS.values() for companion in dimension.companions}

    assert named <= set(DIMENSIONS)


@pytest.mark.parametrize(
    ("name", "found"), [("bs", "block_size_bytes"), ("host", "host"), ("speed", None), ("", None)]
)
def test_dimension_is_found_by_either_name(name: str, found: str | None) -> None:
    dimension = find_dimension(name)

    assert (dimension and dimension.name) == found


@pytest.mark.parametrize(
    ("rw", "direction", "pattern"),
    [
        ("randread", "read", "randread"),
        ("write", "write", "write"),
        ("randrw", "read", "randrw read"),
        ("rw", "mixed", "rw mixed"),
        ("randwrite", "sync", "randwrite sync"),
    ],
)
def test_pattern_is_written_and_read(rw: str, direction: str, pattern: str) -> None:
    assert name_pattern(rw, direction) == pattern
    assert split_pattern(pattern) == (rw, direction)


def test_pattern_of_two_directions_leaves_them_open() -> None:
    assert split_pattern("randrw") == ("randrw", None)
