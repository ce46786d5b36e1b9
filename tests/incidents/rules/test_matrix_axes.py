"""The dimensions of the affected matrix."""

from itertools import product
from typing import Any

from benchapp.incidents.rules.incidents import choose_axes, determines


def columns(names: str, *series: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    return dict(zip(names.split(), zip(*series, strict=True), strict=True))


def test_dimensions_of_the_affected_series_are_chosen() -> None:
    series = tuple(product(("read", "write"), (1, 2, 4), ("gp3", "io2")))
    affected = [pattern == "read" and kind == "gp3" for pattern, _, kind in series]

    assert choose_axes(columns("pattern volumes type", *series), affected) == ("pattern", "type")


def test_host_and_its_only_volume_are_not_both_axes() -> None:
    series = tuple(
        (host, volume, pattern)
        for host, volume in (("db-1", "nvme1"), ("db-2", "nvme2"), ("db-3", "nvme3"))
        for pattern in ("read", "write")
    )

    axes = choose_axes(columns("host volume pattern", *series), [host == "db-2" for host, _, _ in series])

    assert axes == ("host", "pattern")


def test_pattern_and_identical_block_size_are_not_both_axes() -> None:
    series = tuple(
        (pattern, size, volumes)
        for pattern, size in (("randread", 4096), ("write", 1048576))
        for volumes in (1, 2, 4, 8)
    )

    assert choose_axes(columns("pattern size volumes", *series), [True] * 8) == ("pattern", "volumes")


def test_dimension_that_is_finer_than_another_is_not_its_axis() -> None:
    series = tuple((host, host[:2], depth) for host in ("a1", "a2", "b1", "b2") for depth in (1, 32))

    assert choose_axes(columns("host rack depth", *series), [True] * 8) == ("host", "depth")


def test_one_varying_dimension_is_the_only_axis() -> None:
    series = tuple(("read", volumes) for volumes in (1, 2, 4))

    assert choose_axes(columns("pattern volumes", *series), [True, False, None]) == ("volumes",)


def test_of_dimensions_that_determine_each_other_the_first_is_the_only_axis() -> None:
    assert choose_axes(columns("volumes stripes", (1, 1), (2, 2), (4, 4)), [True] * 3) == ("volumes",)


def test_of_dependent_dimensions_the_finest_is_the_only_axis() -> None:
    series = (("a", "x"), ("b", "x"), ("c", "y"))

    assert choose_axes(columns("host rack", *series), [True, True, True]) == ("host",)


def test_nothing_varies_and_there_is_no_axis() -> None:
    assert choose_axes(columns("pattern volumes", ("read", 1), ("read", 1)), [True, False]) == ()
    assert choose_axes({"pattern": ()}, []) == ()


def test_without_unaffected_series_the_finest_division_is_chosen() -> None:
    series = tuple(product(("read", "write"), (1, 2, 4, 8), ("on", "off")))

    assert choose_axes(columns("pattern volumes direct", *series), [True] * 16) == ("pattern", "volumes")


def test_series_that_were_not_evaluated_do_not_count_as_unaffected() -> None:
    series = tuple(product(("read", "write"), (1, 2), ("gp3", "io2")))
    by_type = [kind == "gp3" for _, _, kind in series]
    unknown = [
        None if pattern == "write" else one for (pattern, _, _), one in zip(series, by_type, strict=True)
    ]

    assert choose_axes(columns("pattern volumes type", *series), unknown) == ("pattern", "type")


def test_mostly_empty_matrix_is_the_last_choice() -> None:
    # Every file size was measured once: with it each series has a cell to itself, and nearly all cells are empty.
    sizes = range(16)
    series = tuple((size, size % 2, size // 2 % 4) for size in (*sizes, *sizes[:2]))
    spread = [*series[:16], (0, 1, 0), (1, 0, 0)]

    assert choose_axes(columns("size direct depth", *spread), [True] * 18) == ("direct", "depth")


def test_empty_matrix_is_better_than_none() -> None:
    series = ((1, "a"), (2, "b"), (3, "c"), (4, "d"), (4, "a"), (1, "e"))

    assert choose_axes(columns("size name", *series), [True] * 6) == ("size", "name")


def test_determined_dimension() -> None:
    assert determines((1, 2, 2), ("a", "b", "b"))
    assert not determines((1, 2, 2), ("a", "b", "c"))
    assert determines((1, 2, 3), ("a", "b", "b"))
