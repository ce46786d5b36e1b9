"""Severity of incidents: the table of cases in docs/incidents.md."""

import re
from pathlib import Path

import pytest

from benchapp.analysis.incidents.severity import Weight, judge_severity

DOCS = Path(__file__).parents[3] / "docs" / "incidents.md"
# Metric → its threshold.
THRESHOLDS = {"IOPS": 0.05, "mean latency": 0.10, "p99 latency": 0.20}


def weigh(*changes: tuple[str, float], series: int = 1, is_confirmed: bool = True) -> list[Weight]:
    """Return the same changes, (metric, relative), in a number of series."""
    return [
        Weight(series_id, relative, THRESHOLDS[metric], is_confirmed)
        for series_id in range(series)
        for metric, relative in changes
    ]


def read_cases() -> list[tuple[str, ...]]:
    """Return the rows of the table of cases in the docs."""
    section = DOCS.read_text().partition("### Severity\n")[2].partition("\n##")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in row) for row in rows[2:]]


def test_docs_have_cases_of_every_severity() -> None:
    assert {row[3] for row in read_cases()} == {"low", "medium", "high"}


@pytest.mark.parametrize(("changes", "series", "confirmed", "severity"), read_cases())
def test_case_of_the_docs(changes: str, series: str, confirmed: str, severity: str) -> None:
    parsed = [
        (metric, float(f"{'-' if sign == '−' else ''}{percent}") / 100)
        for metric, sign, percent in re.findall(r"(IOPS|mean latency|p99 latency) ([−+])(\d+) %", changes)
    ]
    affected, measured = map(int, re.findall(r"\d+", series))
    weights = weigh(*parsed, series=affected, is_confirmed=confirmed == "yes")

    assert parsed
    assert judge_severity(weights, reach=affected / measured) == severity


def test_single_outlier_does_not_decide() -> None:
    weights = [Weight(number, relative, 0.05, True) for number, relative in enumerate((-0.06, -0.06, -0.9))]

    assert judge_severity(weights, reach=0.03) == "low"


def test_all_series_of_a_volume_type_are_a_wide_reach() -> None:
    assert judge_severity(weigh(("IOPS", -0.06), series=4), reach=1.0) == "medium"
    assert judge_severity(weigh(("IOPS", -0.06), series=4), reach=0.1) == "low"


def test_nothing_left_is_high() -> None:
    assert judge_severity(weigh(("IOPS", -1.0)), reach=1.0) == "high"
