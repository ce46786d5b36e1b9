"""A/B experiments, for programs."""

import csv
import io

import pytest

from tests.layouts.read.experiment_runs import make_experiment
from tests.layouts.read.test_experiment import VALUES

pytestmark = pytest.mark.django_db
ASKED = "/api/v1/experiment?a=label.arm:a&b=label.arm:b&from=2026-01-01"


def test_result_has_the_interval_of_every_look_the_checks_and_the_plan(reader):
    series = make_experiment(VALUES)

    answer = reader.get(ASKED).json()

    (row,) = answer["rows"]
    assert (row["a_series"], row["a_runs"], row["pairs"], row["outcome"]) == ([series.pk], 6, 6, "different")
    assert 1 < row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert [look["pairs"] for look in row["looks"]] == [1, 2, 3, 4, 5, 6]
    assert row["looks"][3]["low"] is None
    assert row["drift_p"] > 0.01
    assert (answer["difference"], answer["row_error_rate"]) == (0.05, 0.05)
    assert answer["plan"] == {"pairs": 5, "runs": 10, "order": "abbaabbaab"}
    (line,) = csv.DictReader(io.StringIO(reader.get(f"{ASKED}&format=csv").content.decode(), newline=""))
    assert (line["pairs"], line["outcome"], "looks" in line) == ("6", "different", False)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("b=label.arm:b&from=2026-01-01", "a"),
        ("a=label.arm:a&b=label.arm:b", "from"),
        ("a=depth:lots&b=x&from=2026-01-01", "a"),
        ("a=x&b=y&from=2026-01-01&metric=latency_max_ns", "metric"),
        ("a=x&b=y&from=2026-01-01&difference=0", "difference"),
    ],
)
def test_missing_or_invalid_parameters_are_named(reader, query, pointer):
    response = reader.get(f"/api/v1/experiment?{query}")

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)


def test_run_in_both_arms_is_a_problem(reader):
    make_experiment(VALUES)

    response = reader.get(ASKED.replace("b=label.arm:b", "b=label.arm:*"))

    assert (response.status_code, response.json()["code"]) == (400, "parameter-invalid")
    assert "match both arms" in response.json()["detail"]
