"""Published limits of volume types and instance types."""

from datetime import date
from pathlib import Path

import pytest
from django.test import override_settings

from benchapp.framework.read.limits import LIMIT_COLUMNS, BadLimitsFile, parse_known_limits, read_known_limits
from benchapp.operation.checks import check_limits_file

HEAD = ",".join(LIMIT_COLUMNS)
MIB = 2**20


def test_shipped_limits_have_a_source_and_a_day() -> None:
    known = read_known_limits()

    gp3, instance = known[False, "gp3"], known[True, "m5.4xlarge"]
    assert (gp3.iops, gp3.bandwidth_bytes_per_s) == (16_000, 1000 * MIB)
    assert (instance.iops, instance.bandwidth_bytes_per_s) == (18_750, 593.75e6)
    assert all(limit.source and limit.as_of <= date(2026, 1, 1) for limit in known.values())


def test_rows_of_the_user_s_file_are_added_and_replace_those_of_the_same_type(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(
        f"# ours\n{HEAD}\nGP3,,80000,,2000,2026-01-01,vendor\nnas,,5000,100,,2026-01-01,datasheet\n"
    )

    with override_settings(LIMITS_FILE=str(own)):
        known = read_known_limits()

    assert (known[False, "gp3"].iops, known[False, "nas"].bandwidth_bytes_per_s) == (80_000, 100e6)
    assert (True, "m5.4xlarge") in known


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("gp3,,fast,,,2026-01-01,x", "own.csv, line 2, iops: 'fast' is not a number above 0"),
        ("gp3,m5,1,,,2026-01-01,x", "line 2, volume_type: state either"),
        ("gp3,,1,2,3,2026-01-01,x", "line 2, mib_per_s: state either"),
        ("gp3,,,,,2026-01-01,x", "line 2, iops: the limit is missing"),
        ("gp3,,1,,,May 2026,x", "line 2, as_of: 'May 2026' is not a valid day"),
        ("gp3,,1,,,2026-01-01,", "line 2, source: the cell is empty"),
        ("gp3,,1", "line 2: 3 cells, but 7 columns"),
    ],
)
def test_invalid_row_is_named_by_line_and_column(line: str, error: str) -> None:
    with pytest.raises(BadLimitsFile, match=error):
        parse_known_limits(f"{HEAD}\n{line}\n", origin="own.csv")


def test_invalid_file_is_an_error_of_the_system_checks(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("type,limit\n")

    with override_settings(LIMITS_FILE=str(own)):
        (found,) = check_limits_file(None)
    with override_settings(LIMITS_FILE=str(tmp_path / "absent.csv")):
        (absent,) = check_limits_file(None)

    assert "own.csv, line 1: the columns must be" in found.msg
    assert "absent.csv" in absent.msg
    assert check_limits_file(None) == []


@pytest.mark.parametrize(
    ("name", "size_bytes", "iops", "bandwidth_mib_per_s"),
    [
        ("gp2", 100 * 2**30, 300, 250),
        ("gp2", 20 * 2**30, 100, 250),
        ("gp2", 8 * 2**40, 16_000, 250),
        ("gp2", None, 16_000, 250),
        ("st1", 2 * 2**40, 500, 80),
        ("st1", 16 * 2**40, 500, 500),
        ("gp3", 100 * 2**30, 16_000, 1000),
    ],
)
def test_sustained_limit_of_a_volume_depends_on_its_size(
    name: str, size_bytes: int | None, iops: float, bandwidth_mib_per_s: float
) -> None:
    limit = read_known_limits()[False, name].at_size(size_bytes)

    assert (limit.iops, limit.bandwidth_bytes_per_s) == (iops, bandwidth_mib_per_s * MIB)
