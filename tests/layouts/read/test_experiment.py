"""The runs of two arms, and what they are paired and planned by."""

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.layouts.read import experiment as module
from benchapp.layouts.read.experiment import BadExperiment, Experiment, read_experiment
from tests.factories import NOON, add_series, make_host
from tests.layouts.read.experiment_runs import make_experiment

pytestmark = pytest.mark.django_db
A = [1000, 1010, 990, 1005, 995, 1000]
B = [1100, 1100, 1085, 1110, 1090, 1105]
# In ABBA order.
VALUES = [A[0], B[0], B[1], A[1], A[2], B[2], B[3], A[3], A[4], B[4], B[5], A[5]]


def make(a="label.arm:a", b="label.arm:b", *, q="", **fields):
    return Experiment(
        parse_filter(a), parse_filter(b), **{"from_at": NOON, "common": parse_filter(q), **fields}
    )


def test_arms_of_one_series_are_paired_in_time(django_assert_max_num_queries):
    series = make_experiment(VALUES)

    with django_assert_max_num_queries(9):
        found = read_experiment(make())

    (row,) = found.rows
    assert (row.a.series_ids, row.a.runs, row.b.runs, row.pairs, row.unpaired) == ((series.pk,), 6, 6, 6, 0)
    assert row.result.last.ratio == pytest.approx(1.1, abs=0.005)
    assert (row.result.outcome, row.is_worse, row.check.caveats) == ("different", False, ())
    assert row.is_spread_measured
    assert (found.row_error_rate, found.only_a, found.only_b, found.is_cut) == (0.05, 0, 0, False)


def test_run_with_repetitions_is_in_one_pair_with_their_median():
    make_experiment(VALUES, repetitions=(0.5, 1.0, 1.02))

    (row,) = read_experiment(make()).rows

    assert (row.a.runs, row.b.runs, row.pairs, row.unpaired) == (6, 6, 6, 0)
    assert (row.a.median, row.b.median) == (1000, 1100)
    assert row.check.caveats == ()


def test_runs_before_the_start_do_not_count_and_a_lower_latency_is_better():
    make_experiment([1e6 * value for value in VALUES], metric="latency_mean_ns")

    (row,) = read_experiment(make(metric="latency_mean_ns", from_at=NOON.replace(hour=14))).rows

    assert (row.a.runs, row.b.runs) == (5, 5)
    assert row.is_worse is True


def test_rows_share_the_error_rate():
    for host in ("db-1", "db-2"):
        make_experiment(VALUES, host=host)

    found = read_experiment(make())

    assert [row.pairs for row in found.rows] == [6, 6]
    assert found.row_error_rate == 0.025
    assert found.rows[0].title.endswith("db-1")


def test_experiment_without_runs_is_planned_from_the_level():
    add_series([1000, 1050, 950, 1020, 980, 1000, 1030, 970], host=make_host("db-1"))

    found = read_experiment(make(q="host:db-1", from_at=NOON.replace(year=2030)))

    (row,) = found.rows
    assert (row.result, row.is_spread_measured, row.pairs) == (None, False, 0)
    assert row.spread == pytest.approx(0.042, abs=0.005)
    assert row.required_pairs == found.plan.pairs
    assert found.plan.order == ("abba" * found.plan.pairs)[: 2 * found.plan.pairs]
    assert (
        read_experiment(make(q="host:db-1", from_at=NOON.replace(year=2030), difference=0.001)).plan is None
    )


def test_runs_of_an_arm_count_before_the_other_has_any():
    make_experiment([1000, 1050, 950, 1020, 980, 1000], order="aaaaaa")

    for arms, runs in ((("label.arm:a", "label.arm:b"), (6, 0)), (("label.arm:b", "label.arm:a"), (0, 6))):
        (row,) = read_experiment(make(*arms)).rows
        assert (row.a.runs, row.b.runs, row.unpaired, row.result) == (*runs, 6, None)


def test_run_in_both_arms_and_too_many_rows_are_refused(monkeypatch):
    make_experiment(VALUES)

    with pytest.raises(BadExperiment, match="match both arms"):
        read_experiment(make("label.arm:a", "label.arm:*"))
    monkeypatch.setattr(module, "EXPERIMENT_ROWS_MAXIMUM", 0)
    with pytest.raises(BadExperiment, match="Narrow the common filter"):
        read_experiment(make())
