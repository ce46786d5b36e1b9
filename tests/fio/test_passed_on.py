"""Outputs of fio as people and log collectors pass them on: prefixed, quoted, mixed, abridged, wrapped, or of others.

expected/passed_on.csv has their values, from the JSON of the same run; `precision` says how exact a format is.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.report import Direction, Group, Report

DATA: Final = Path(__file__).parents[1] / "data/fio/passed_on"
TABLE: Final = Path(__file__).parent / "expected/passed_on.csv"
# Relative, and the unit that a format cuts off: KiB of bytes, whole IOPS.
TOLERANCES: Final = {"text": 0.006, "terse": 0.002, "json": 1e-6}

Row = dict[str, str]


def read_table() -> dict[str, list[Row]]:
    files: defaultdict[str, list[Row]] = defaultdict(list)
    with TABLE.open(newline="") as table:
        for row in csv.DictReader(table):
            files[row["file"]].append(row)
    return dict(files)


FILES: Final = read_table()
READ: Final = {name: rows for name, rows in FILES.items() if not rows[0]["refusal"]}
REFUSED: Final = {name: rows[0]["refusal"] for name, rows in FILES.items() if rows[0]["refusal"]}


def list_results(report: Report) -> list[tuple[int, Group, Direction]]:
    return [
        (number, group, direction)
        for number, document in enumerate(report.documents)
        for group in document.groups
        for direction in group.directions
        if direction.name != "sync" and (direction.io_bytes or direction.total_ios or direction.iops)
    ]


def is_near(value: float | None, expected: str, tolerance: float, unit: float) -> bool:
    return not expected or (
        value is not None and abs(value - float(expected)) <= tolerance * float(expected) + unit
    )


def agrees(group: Group, direction: Direction, row: Row) -> bool:
    tolerance, kib = TOLERANCES[row["precision"]], 0 if row["precision"] == "json" else 1024
    percentiles = dict(direction.completion.percentiles) if direction.completion else {}
    block_size = group.options.get("bs", "0")
    size = int(block_size.removesuffix("k")) * (1024 if block_size.endswith("k") else 1)
    return (
        (group.name, direction.name, group.hostname or "") == (row["job"], row["direction"], row["hostname"])
        and is_near(direction.iops, row["iops"], tolerance, 1)
        and is_near(direction.bandwidth_bytes_per_s, row["bandwidth_bytes_per_s"], tolerance, kib + 1)
        and is_near(direction.io_bytes, row["io_bytes"], tolerance, kib)
        and is_near(direction.total_ios, row["total_ios"], 0, 0)
        and is_near(direction.runtime_s and direction.runtime_s * 1000, row["runtime_ms"], 0, 1e-6)
        and is_near(direction.total and direction.total.mean_ns, row["lat_mean_ns"], tolerance, 1)
        and is_near(percentiles.get(99.0), row["clat_p99_ns"], 0.01, 1000)
        and (not row["block_size"] or size == int(row["block_size"]))
    )


@pytest.mark.parametrize("name", READ)
def test_values_are_those_of_the_run(name: str) -> None:
    report = read_output((DATA / name).read_bytes())

    results = list_results(report)

    assert len(results) == len(READ[name])
    assert {number for number, _, _ in results} == {int(row["document"]) for row in READ[name]}
    for row in READ[name]:
        assert any(agrees(group, direction, row) for _, group, direction in results), row


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_what_the_text_is(name: str) -> None:
    with pytest.raises(UnreadableOutput) as refusal:
        read_output((DATA / name).read_bytes())

    assert REFUSED[name] in refusal.value.detail
