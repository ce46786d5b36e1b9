"""Columns of numbers."""

from types import SimpleNamespace

import pytest

from benchapp.framework.pages.number_columns import (
    Scale,
    choose_scale,
    find_reason,
    format_scaled,
    make_cells,
    make_columns,
)

MS = Scale(1e6, "ms")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (87_600, "0.0876"),
        (240_000, "0.240"),
        (999_700, "1.00"),
        (2_200_000, "2.20"),
        (73_600_000, "73.6"),
        (999_600_000, "1\u202f000"),
        (3_252_000_000, "3\u202f252"),
    ],
)
def test_value_under_a_header_has_three_digits_or_is_whole(given: float | None, shown: str) -> None:
    assert format_scaled(given, MS) == shown


def test_unit_is_chosen_by_the_middle_of_the_range() -> None:
    assert choose_scale([198_000.0, 73_600_000.0, None], "ns") == MS


def test_iops_need_no_unit_name() -> None:
    assert choose_scale([33_415.0], "operations/s") == Scale(1.0, "")


def test_unit_is_chosen_without_known_values() -> None:
    assert choose_scale([None, 0.0], "bytes/s") == Scale(1e6, "MB/s")
    assert choose_scale([None], "ns") == Scale(1e6, "ms")


def test_all_latencies_share_one_unit() -> None:
    row = SimpleNamespace(latency_mean_ns=241_000.0, latency_max_ns=73_600_000.0)

    columns = make_columns([row], ["latency_mean_ns", "latency_max_ns"])

    assert [column.scale for column in columns] == [MS, MS]


def test_cell_has_the_raw_value() -> None:
    row = SimpleNamespace(iops=33_415.26)

    (cell,) = make_cells(row, make_columns([row], ["iops"]))

    assert (cell.text, cell.raw, cell.reason) == ("33\u202f415", 33_415.26, "")


@pytest.mark.parametrize(
    ("missing", "metric", "reason"),
    [
        ({"percentiles": "clones-without-bins"}, "latency_p99_ns", "several concurrent jobs"),
        ({"latency": "not-measured"}, "latency_max_ns", "measurement disabled in the fio options"),
        ({"all": "job-failed"}, "iops", "the job failed before its first measurement"),
        ({"iops": "a-new-code"}, "iops", "a new code"),
        ({}, "iops", "fio printed no value"),
        ({"percentiles": "clones-without-bins"}, "latency_mean_ns", "fio printed no value"),
    ],
)
def test_missing_value_has_its_reason(missing: dict[str, str], metric: str, reason: str) -> None:
    assert find_reason(missing, metric).startswith(reason)


def test_seconds_and_nanoseconds_have_separate_units() -> None:
    assert choose_scale([0.116, 3.118], "s") == Scale(1.0, "s")
    assert choose_scale([3e9], "ns") == Scale(1e9, "s")


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([(1000.0, None)], ["iops"]),
        ([(None, 3.1)], ["elapsed_s"]),
        ([(1000.0, None), (None, 3.1)], ["iops", "elapsed_s"]),
        ([(None, None)], ["iops"]),
        ([], ["iops"]),
    ],
)
def test_elapsed_time_is_a_column_if_a_row_has_it(
    rows: list[tuple[float | None, float | None]], shown: list[str]
) -> None:
    given = [SimpleNamespace(iops=iops, elapsed_s=elapsed_s) for iops, elapsed_s in rows]

    assert [column.metric for column in make_columns(given, ["iops", "elapsed_s"])] == shown
