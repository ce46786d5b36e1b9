"""Dimension values that distinguish changed series from the others."""

from typing import Any

from benchapp.incidents.rules.incidents import find_common_factors


def cells(*values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(("volume_type", "stripe_count"), each, strict=True)) for each in values]


def explain(changed: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = find_common_factors(changed, others, ("volume_type", "stripe_count"))
    return [
        (*each.dimensions, *each.values, each.share, each.share_of_others, each.coverage) for each in found
    ]


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


WORKLOADS = ("pattern", "block", "depth", "type")


def find(changed: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    rows = ([dict(zip(WORKLOADS, each, strict=True)) for each in side] for side in (changed, others))
    found = find_common_factors(
        *rows, WORKLOADS, paired=("pattern", "block", "type"), names=[("pattern", "block")]
    )
    return [(each.dimensions, each.values) for each in found]


def test_two_dimensions_together_explain_what_neither_does_alone() -> None:
    changed = [("randread", "4k", 32, "gp3"), ("randread", "4k", 32, "io2")]
    others = [
        ("randread", "16k", 16, "gp3"),
        ("randread", "16k", 32, "io2"),
        ("randwrite", "4k", 16, "gp3"),
        ("randwrite", "4k", 32, "io2"),
    ]

    assert find(changed, others)[0] == (("pattern", "block"), ("randread", "4k"))


def test_name_that_people_know_comes_before_what_separates_as_well() -> None:
    changed = [("randread", "4k", 32, "gp3"), ("randread", "4k", 32, "io2")]
    others = [("read", "1M", 8, "gp3"), ("write", "1M", 8, "io2")]

    assert find(changed, others) == [
        (("pattern", "block"), ("randread", "4k")),
        (("pattern",), ("randread",)),
        (("block",), ("4k",)),
        (("depth",), (32,)),
    ]


def test_pair_comes_behind_a_single_dimension_that_separates_as_well() -> None:
    changed = [("randread", "4k", 32, "st1"), ("read", "4k", 32, "st1")]
    others = [("randread", "4k", 32, "io2"), ("read", "4k", 32, "io2")]

    assert find(changed, others) == [(("type",), ("st1",))]
