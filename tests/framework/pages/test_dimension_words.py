"""How values of dimensions are said and ordered."""

import pytest

from benchapp.series.read.titles import describe_setting, describe_value, order_value


@pytest.mark.parametrize(
    ("name", "value", "said", "setting"),
    [
        ("block_size_bytes", 4096, "4k", "4k blocks"),
        ("block_size_bytes", 32 * 2**20, "32M", "32M blocks"),
        ("file_size_bytes", 5 * 2**30, "5 GiB", "5 GiB files"),
        ("volume_size_bytes", 500_107_862_016, "465.8 GiB", "465.8 GiB volumes"),
        ("volume_count", 1, "1", "1 volume"),
        ("volume_count", 16, "16", "16 volumes"),
        ("provisioned_iops", 16_000, "16\u202f000", "16\u202f000 IOPS provisioned"),
        ("iodepth", 32, "32", "QD 32"),
        ("pattern", "randread", "random read", "random read"),
        ("pattern", "randrw write", "random read/write, writes", "random read/write, writes"),
        ("pattern", "randwrite sync", "random write, syncs", "random write, syncs"),
        ("is_direct", True, "direct", "direct I/O"),
        ("runtime_s", 16.0, "16 s", "16 s"),
        ("read_share_percent", 70, "70 %", "70 %"),
        ("host", "db-01", "db-01", "host db-01"),
        ("filesystem", None, "unknown", "unknown filesystem"),
    ],
)
def test_value_is_said_by_itself_and_without_a_header(name, value, said, setting):
    assert (describe_value(name, value), describe_setting(name, value)) == (said, setting)


def test_values_are_ordered_as_people_list_them():
    patterns = ["randwrite", None, "randread", "write", "trim", "read"]

    assert sorted(patterns, key=lambda value: order_value("pattern", value)) == [
        "read",
        "write",
        "randread",
        "randwrite",
        "trim",
        None,
    ]
    assert sorted([16, None, 2], key=lambda value: order_value("volume_count", value)) == [2, 16, None]
