"""Dimension values that distinguish changed series from the others."""

from typing import Any

from benchapp.analysis.incidents.common_factors import find_common_factors


def cells(*values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(("volume_type", "stripe_count"), each, strict=True)) for each in values]


def explain(changed: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = find_common_factors(changed, others, ("volume_type", "stripe_count"))
    return [(each.dimension, each.value, each.share, each.share_of_others, each.coverage) for each in found]


def test_value_that_only_the_changed_have_explains_them() -> None:
    changed = cells(("standard", 1), ("standard", 2), ("standard", 4))
    others = cells(("io1", 1), ("io1", 2), ("io1", 4))

    assert explain(changed, others) == [("volume_type", "standard", 1.0, 0.0, 1.0)]


def test_one_stripe_width_of_all_volume_types() -> None:
    changed = cells(("standard", 16), ("io1", 16))
    others = cells(("standard", 1), ("io1", 1), ("standard", 8), ("io1", 8))

    assert explain(changed, others) == [("stripe_count", 16, 1.0, 0.0, 1.0)]


def test_value_that_some_others_have_too_explains_less() -> None:
    changed = cells(("standard", 16), ("standard", 8))
    others = cells(("io1", 1), ("io1", 2), ("io1", 4), ("standard", 1))

    assert explain(changed, others) == [("volume_type", "standard", 1.0, 0.25, 2 / 3)]


def test_what_is_unknown_or_common_explains_nothing() -> None:
    assert explain(cells((None, 1), ("", 1)), cells(("io1", 1), ("io1", 1))) == []


def test_no_factor_if_all_series_changed() -> None:
    assert explain(cells(("standard", 1)), []) == []
    assert explain([], cells(("standard", 1))) == []


def test_one_cell_is_itself_and_has_nothing_in_common() -> None:
    assert explain(cells(("standard", 1)), cells(("io1", 1))) == []
