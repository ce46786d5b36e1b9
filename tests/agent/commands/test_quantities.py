"""Parsing and formatting of sizes, counts and durations."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.quantities import (
    format_change,
    format_duration,
    format_size,
    format_value,
    parse_count,
    parse_duration,
    parse_size,
)

CHANGE_CASES = json.loads((Path(__file__).parents[2] / "data" / "change_cases.json").read_text())
FORMAT_CASES = json.loads((Path(__file__).parents[2] / "data" / "format_cases.json").read_text())


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4 kib", 4096),
        ("4KB", 4000),
        ("64m", 67108864),
        ("500G", 536870912000),
        ("500GiB", 536870912000),
        ("500GB", 500000000000),
        ("1.5k", 1536),
    ],
)
def test_size_is_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "k", "-1", "4x", "4 k k", "1e9", "9999999999p", "٤"])
def test_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "count"), [("8", 8), (" 16 ", 16), ("16k", 16000), ("1M", 1000000), ("0", 0)]
)
def test_count_is_read(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5", "3000000000", "³", "1" * 30])
def test_invalid_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("6h", 21600), ("30d", 2592000), ("30D", 2592000)],
)
def test_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-5", "1.5h", "1w"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (67108864, "64 MiB"), (1610612736, "1.5 GiB")]
)
def test_size_is_shown(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (18, "18 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_duration_is_shown(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "case", [case for case in FORMAT_CASES if case["unit"] in ("operations/s", "bytes/s", "ns", "s")]
)
def test_value_is_shown_as_on_the_pages(case: dict[str, Any]) -> None:
    assert format_value(case["value"], case["unit"]) == case["text"]


@pytest.mark.parametrize("case", CHANGE_CASES, ids=lambda case: case["text"])
def test_change_is_shown_as_on_the_pages(case: dict[str, Any]) -> None:
    assert format_change(case["relative"]) == case["text"]
