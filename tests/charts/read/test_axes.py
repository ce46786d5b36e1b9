"""Axes of charts: names of combined dimensions, and labels of their values."""

import pytest

from benchapp.catalog.grammar import Filter, write_filter
from benchapp.charts.read.axes import (
    BadAxis,
    add_axis_value,
    find_axis,
    make_axis,
    order_axis_value,
    parse_group,
    parse_groups,
    write_axis_value,
)

GIB = 2**30
LAYOUT = "volume_size_bytes,volume_type"


def test_short_names_of_combined_dimensions_become_full_ones():
    assert find_axis("volume_size, type") == LAYOUT
    assert find_axis("depth") == "iodepth"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group,volume_type", "groups cannot be combined with dimensions"),
        ("speed", "'speed' is not a valid dimension; available: host, pool"),
        ("volume_type,speed", "'speed' is not a valid dimension"),
        ("volume_type,", "'' is not a valid dimension"),
        ("type,volume_type", "combined dimensions must be different"),
        ("host,pool,rw,engine", "4 dimensions combined, at most 3 allowed"),
    ],
)
def test_invalid_axis_is_refused_with_the_available_dimensions(text, words):
    with pytest.raises(BadAxis, match=words):
        find_axis(text)


def test_parts_that_all_values_share_are_not_in_the_labels():
    values = [(20 * GIB, "standard", "xfs"), (200 * GIB, "standard", "xfs"), (200 * GIB, "io1", "xfs")]

    axis = make_axis(f"{LAYOUT},filesystem", values)

    assert axis.labels == ("20 GiB · standard", "200 GiB · standard", "200 GiB · io1")
    assert axis.ticks[2] == ("200 GiB", "io1")
    assert (axis.dimension.label, axis.name) == (
        "Volume size, volume type, filesystem",
        f"{LAYOUT},filesystem",
    )


def test_one_combination_keeps_all_its_parts():
    assert make_axis(LAYOUT, [(20 * GIB, "gp3")]).labels == ("20 GiB · gp3",)


@pytest.mark.parametrize(
    ("name", "values", "labels", "settings"),
    [
        (
            "volume_size_bytes,file_size_bytes",
            [(20 * GIB, 5 * GIB), (200 * GIB, 50 * GIB)],
            ("20 GiB volumes · 5 GiB files", "200 GiB volumes · 50 GiB files"),
            ("20 GiB volumes · 5 GiB files", "200 GiB volumes · 50 GiB files"),
        ),
        (
            "volume_count,volume_type",
            [(1, "gp3"), (4, "io2")],
            ("1 · gp3", "4 · io2"),
            ("1 volume · gp3", "4 volumes · io2"),
        ),
        (
            "volume_size_bytes,volume_type",
            [(10 * GIB, "gp3"), (20 * GIB, None), None],
            ("10 GiB · gp3", "20 GiB · unknown volume type", "unknown volume size · unknown volume type"),
            ("10 GiB · gp3", "20 GiB · unknown volume type", "unknown volume size · unknown volume type"),
        ),
        ("iodepth", [1, None], ("1", "unknown"), ("QD 1", "unknown queue depth")),
    ],
)
def test_numbers_are_named_where_they_could_be_mistaken(name, values, labels, settings):
    axis = make_axis(name, values)

    assert (axis.labels, axis.settings) == (labels, settings)


def test_combined_values_are_ordered_by_size_then_name_and_unknown_last():
    values = [None, (200 * GIB, "standard"), (20 * GIB, None), (200 * GIB, "io1"), (20 * GIB, "standard")]

    ordered = sorted(values, key=lambda value: order_axis_value(LAYOUT, value))

    assert ordered == [
        (20 * GIB, "standard"),
        (20 * GIB, None),
        (200 * GIB, "io1"),
        (200 * GIB, "standard"),
        None,
    ]


def test_combined_value_is_written_as_terms_of_a_filter():
    value = (20 * GIB, None)

    assert write_axis_value(LAYOUT, value) == "volume_size_bytes:20G volume_type:unknown"
    assert write_filter(add_axis_value(Filter(), LAYOUT, value)) == write_axis_value(LAYOUT, value)
    assert write_axis_value("volume_size_bytes", 20 * GIB) == "20G"
    assert (
        write_filter(add_axis_value(Filter(), LAYOUT, None))
        == "volume_size_bytes:unknown volume_type:unknown"
    )


def test_group_has_a_name_and_a_filter():
    group = parse_group("  200 GB   provisioned = type:io1 volume_size:200G ")

    assert (group.name, write_filter(group.filter)) == (
        "200 GB provisioned",
        "volume_type:io1 volume_size_bytes:200G",
    )
    assert parse_group("others =").filter == Filter()
    assert write_filter(parse_group("a=type=gp3").filter) == "volume_type:gp3"


def test_errors_name_the_group_and_the_others_are_read():
    texts = ["a = fs:xfs", "fs:xfs", "b = speed:9", "a = fs:ext4", f"{'n' * 61} = fs:xfs", "= fs:xfs"]

    groups, errors = parse_groups(texts)

    assert [group.name for group in groups] == ["a"]
    assert list(errors) == [1, 2, 3, 4, 5]
    assert errors[1].startswith("'fs:xfs' is not NAME = FILTER; write it as")
    assert errors[2].startswith("'b': Unknown filter 'speed'")
    assert errors[3] == "'a' is the name of an earlier group; names must be different"
    assert "longer than 60 characters" in errors[4]


def test_more_groups_than_the_maximum_are_errors():
    groups, errors = parse_groups([f"g{number} = depth:{number}" for number in range(14)])

    assert len(groups) == 12
    assert errors[12] == "'g12' is left out: at most 12 groups are allowed"
