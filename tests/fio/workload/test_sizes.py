"""fio's grammar of sizes and times."""

import pytest

from benchapp.fio.workload.sizes import parse_duration_s, parse_size


@pytest.mark.parametrize(
    ("text", "in_1024", "in_1000"),
    [
        ("4096", 4096, 4096),
        ("4096b", 4096, 4096),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4KB", 4096, 4000),
        ("4Ki", 4096, 4000),
        # Reversed on purpose: fio 3.33 was seen to do 4000-byte I/Os.
        ("4KiB", 4000, 4096),
        ("1m", 1048576, 1000000),
        ("1MiB", 1000000, 1048576),
        ("2g", 2147483648, 2000000000),
        ("1t", 1099511627776, 10**12),
        ("1p", 1125899906842624, 10**15),
        (" 8k ", 8192, 8000),
        ("008k", 8192, 8000),
        ("0x1000", 4096, 4096),
        ("0", 0, 0),
    ],
)
def test_size_in_either_base(text: str, in_1024: int, in_1000: int) -> None:
    assert parse_size(text) == in_1024
    assert parse_size(text, kb_base=1000) == in_1000


@pytest.mark.parametrize(
    "text", ["", "100%", "1.5m", "(2*4k)", "8*$mb_memory", "4x", "k", "-4k", "4k-8k", "25z", "9999999p", "٤k"]
)
def test_invalid_size_is_none(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        ("60s", 60.0),
        ("1m", 60.0),
        ("2h", 7200.0),
        ("1D", 86400.0),
        ("500ms", 0.5),
        ("5msec", 0.005),
        ("10us", 0.00001),
        ("0", 0.0),
        ("", None),
        ("1.5", None),
        ("1h30m", None),
        ("(60)", None),
    ],
)
def test_duration_in_seconds(text: str, seconds: float | None) -> None:
    found = parse_duration_s(text)

    assert found == (None if seconds is None else pytest.approx(seconds))


def test_bare_number_has_the_unit_of_its_option() -> None:
    assert parse_duration_s("500", unit="us") == pytest.approx(0.0005)
