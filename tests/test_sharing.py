"""Which tests a process is given in one go, and in which order."""

import pytest

from tests.sharing import (
    BROWSER,
    BROWSER_PAGES,
    BROWSER_PAGES_FILES,
    SECONDS,
    find_repeated,
    find_unit,
    is_slow,
    order_units,
)
from tests.stack import ROOT


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/fio/test_values.py::test_it[a::b]", "tests/fio/test_values.py"),
        ("tests/browser/test_ways.py::test_it", BROWSER),
        ("tests/browser/test_scaling.py::test_it", BROWSER_PAGES),
        (
            "tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]",
            "tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]",
        ),
    ],
)
def test_unit_is_a_file_or_files_with_shared_servers_or_a_test(nodeid, unit):
    assert find_unit(nodeid) == unit


def test_slow_units_come_first_and_the_others_in_their_order():
    units = ["tests/api/test_a.py", "tests/browser", "tests/api/test_b.py", "tests/chaos/test_chaos.py"]

    assert order_units(units) == [
        "tests/browser",
        "tests/chaos/test_chaos.py",
        "tests/api/test_a.py",
        "tests/api/test_b.py",
    ]


def test_ids_of_several_tests_are_found():
    assert find_repeated(["a.py::test_x[1]", "a.py::test_x[2]", "a.py::test_y", "a.py::test_y"]) == [
        "a.py::test_y"
    ]


@pytest.mark.parametrize("path", [*sorted(SECONDS.keys() - {BROWSER_PAGES}), *BROWSER_PAGES_FILES])
def test_unit_with_a_known_time_is_there(path):
    assert (ROOT / path.split("::")[0]).exists()


@pytest.mark.parametrize(
    ("nodeid", "markers", "fixtures", "expected"),
    [
        ("tests/fio/test_values.py::test_it", ["parametrize"], ["tmp_path"], False),
        ("tests/fio/test_values.py::test_it", ["fio"], [], True),
        ("tests/web/test_it.py::test_it", ["parametrize", "browser"], [], True),
        ("tests/web/test_it.py::test_it", ["django_db"], [], True),
        ("tests/api/test_it.py::test_it", [], ["client", "valkey_server"], True),
        ("tests/test_wide.py::test_it", [], [], True),
        ("tests/agent/running/test_locks.py::test_it", [], [], True),
        ("tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]", [], [], True),
        ("tests/browser/test_ways.py::test_it", [], [], True),
    ],
)
def test_fast_run_leaves_out_slow_units_and_marked_tests(nodeid, markers, fixtures, expected):
    assert is_slow(nodeid, markers=markers, fixtures=fixtures) is expected
