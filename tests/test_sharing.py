"""Which tests a process is given in one go, and in which order."""

import pytest

from tests.sharing import (
    BROWSER_PAGES_FILES,
    DIVIDED,
    SLOW_PATHS,
    find_repeated,
    is_slow,
)
from tests.stack import ROOT


def test_ids_of_several_tests_are_found():
    assert find_repeated(["a.py::test_x[1]", "a.py::test_x[2]", "a.py::test_y", "a.py::test_y"]) == [
        "a.py::test_y"
    ]


@pytest.mark.parametrize("path", [*SLOW_PATHS, *DIVIDED, *BROWSER_PAGES_FILES])
def test_named_file_is_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(
    ("nodeid", "markers", "fixtures", "expected"),
    [
        ("tests/fio/test_values.py::test_it", ["parametrize"], ["tmp_path"], False),
        ("tests/fio/test_values.py::test_it", ["fio"], [], True),
        ("tests/web/test_it.py::test_it", ["parametrize", "browser"], [], True),
        ("tests/web/test_it.py::test_it", ["django_db"], [], True),
        ("tests/api/test_it.py::test_it", [], ["client", "valkey_server"], True),
        ("tests/test_ci_gate.py::test_it", [], [], True),
        ("tests/test_fleet.py::test_it", [], ["db"], True),
        ("tests/agent/running/test_locks.py::test_it", [], [], True),
        ("tests/agent/sweeping/test_sweep_loops.py::test_it[xfs]", [], [], True),
        ("tests/browser/test_ways.py::test_it", [], [], True),
    ],
)
def test_fast_run_leaves_out_slow_units_and_marked_tests(nodeid, markers, fixtures, expected):
    assert is_slow(nodeid, markers=markers, fixtures=fixtures) is expected
