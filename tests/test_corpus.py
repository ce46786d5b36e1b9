"""Data outside the repository: one skipped test where it is absent, and every test where it is there."""

import pytest

from tests import corpus
from tests.stack import ROOT

pytest_plugins = ("pytester",)

TESTS = """
import pytest

@pytest.mark.corpus
@pytest.mark.parametrize("number", range(3))
def test_of_the_data(number):
    assert number < 2

@pytest.mark.corpus
def test_also_of_the_data():
    pass

def test_of_the_repository():
    pass
"""


@pytest.fixture
def run_with_data(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Give a project with tests of data that lies in the folders `public` and `seeds`."""
    monkeypatch.setattr(corpus, "PUBLIC", pytester.path / "public")
    monkeypatch.setattr(corpus, "SEEDS", pytester.path / "seeds")
    pytester.makeini("[pytest]\nmarkers = corpus: reads data that is not committed\n")
    pytester.makepyfile(TESTS)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:django", "-p", "tests.corpus", "-rs", *options)


def test_absent_data_is_one_skipped_test_with_count_and_reason(run_with_data: pytest.Pytester) -> None:
    (run_with_data.path / "seeds").mkdir()

    result = run(run_with_data)

    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED*4 tests need data that is not at {run_with_data.path}/public"])


def test_every_test_runs_and_fails_by_name_where_the_data_is_there(run_with_data: pytest.Pytester) -> None:
    (run_with_data.path / "seeds").mkdir()
    (run_with_data.path / "public").mkdir()

    result = run(run_with_data, "-rf")

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["FAILED*test_of_the_data[[]2[]]*"])


def test_only_our_own_outputs_are_committed() -> None:
    assert sorted(path.name for path in (ROOT / "tests" / "data" / "fio").iterdir()) == [
        "README.md",
        "generated",
        "logs",
        "passed_on",
        "terse",
        "versions",
    ]
