"""How much an incident matters."""

import pytest

from benchapp.analysis.incidents.severity import Weight, judge_severity


def iops(relative: float, *, is_confirmed: bool = True) -> Weight:
    return Weight(relative, 0.05, is_confirmed)


@pytest.mark.parametrize(
    ("weights", "cells", "all_cells", "expected"),
    [
        ([iops(-0.06)], 1, 10, "low"),
        ([iops(-0.15)], 1, 10, "medium"),
        ([iops(-0.30)], 1, 10, "high"),
        ([iops(-0.30, is_confirmed=False)], 1, 10, "medium"),
        ([iops(-0.06)] * 5, 5, 10, "medium"),  # half of what is measured there
        ([iops(-0.06)] * 20, 20, 1000, "medium"),  # or twenty of however many
        ([iops(-0.15)] * 5, 5, 10, "high"),
        ([iops(-0.15)] * 4, 4, 10, "medium"),
        ([iops(-0.06), iops(-0.06), iops(-0.9)], 3, 100, "low"),  # one wild cell does not make it high
        ([Weight(0.30, 0.20, is_confirmed=True)], 1, 10, "low"),  # p99
        ([Weight(1.60, 0.20, is_confirmed=True)], 1, 10, "high"),
        ([iops(-1.0)], 1, 1, "high"),  # nothing is left
        ([iops(-0.06, is_confirmed=False)], 1, 1, "low"),
    ],
)
def test_severity_is_of_size_breadth_and_confidence(
    weights: list[Weight], cells: int, all_cells: int, expected: str
) -> None:
    assert judge_severity(weights, cells=cells, all_cells=all_cells) == expected
