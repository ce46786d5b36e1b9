"""Which tests a process is given in one go, and in which order."""

import pytest

from tests.sharing import SECONDS, find_unit, order_units
from tests.stack import ROOT


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/fio/test_values.py::test_it[a::b]", "tests/fio/test_values.py"),
        ("tests/browser/test_ways.py::test_it", "tests/browser"),
        (
            "tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]",
            "tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]",
        ),
    ],
)
def test_unit_is_a_file_a_folder_or_a_test(nodeid, unit):
    assert find_unit(nodeid) == unit


def test_slow_units_come_first_and_the_others_in_their_order():
    units = ["tests/api/test_a.py", "tests/browser", "tests/api/test_b.py", "tests/chaos/test_chaos.py"]

    assert order_units(units) == [
        "tests/browser",
        "tests/chaos/test_chaos.py",
        "tests/api/test_a.py",
        "tests/api/test_b.py",
    ]


@pytest.mark.parametrize("unit", SECONDS)
def test_unit_with_a_known_time_is_there(unit):
    assert (ROOT / unit.split("::")[0]).exists()
