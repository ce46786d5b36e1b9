"""Which tests a process is given in one go, and in which order."""

from types import SimpleNamespace

import pytest

from tests.sharing import (
    BROWSER,
    BROWSER_PAGES,
    BROWSER_PAGES_FILES,
    DIVIDED,
    SLOW_PATHS,
    find_repeated,
    find_unit,
    is_slow,
    list_test_files,
    pytest_collection,
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


@pytest.fixture
def checkout(tmp_path):
    for name in ("a/test_1.py", "a/test_2.py", "b/test_3.py", "b/world.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["."], ["a/test_1.py", "a/test_2.py", "b/test_3.py"]),
        (["b", "b/test_3.py"], ["b/test_3.py"]),
        (["a/test_2.py::test_it[a::b]", "a/test_1.py"], ["a/test_1.py", "a/test_2.py"]),
    ],
)
def test_files_of_a_run_are_those_of_its_arguments(arguments, names, checkout):
    assert list_test_files(arguments, checkout) == [checkout / name for name in names]


def test_processes_import_each_file_first_in_one_of_them(checkout, monkeypatch):
    imported = []

    def import_module(name):
        imported.append(name)
        raise ImportError

    monkeypatch.setattr("importlib.import_module", import_module)
    for worker in ({"workerid": "gw0", "workercount": 2}, {"workerid": "gw1", "workercount": 2}, None):
        config = SimpleNamespace(args=["."], rootpath=checkout, workerinput=worker)
        pytest_collection(SimpleNamespace(config=config))

    assert imported == ["a.test_1", "b.test_3", "a.test_2"]


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
