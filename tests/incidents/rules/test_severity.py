"""Severity of incidents: the table of cases in docs/incidents.md."""

import re
from pathlib import Path

import pytest

from benchapp.incidents.rules.incidents import ChangeSize, MetricSize, judge_severity, summarize_metrics

DOCS = Path(__file__).parents[3] / "docs" / "incidents.md"
# Metric → its threshold.
THRESHOLDS = {"IOPS": 0.05, "mean latency": 0.10, "p99 latency": 0.20}


def summarize(*changes: tuple[str, float], series: int = 1) -> tuple[MetricSize, ...]:
    """Return the sizes of the same changes, (metric, relative), in a number of series."""
    return summarize_metrics(
        [
            ChangeSize(series_id, metric, relative, THRESHOLDS[metric])
            for series_id in range(series)
            for metric, relative in changes
        ],
        preference=list(THRESHOLDS),
    )


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

    assert parsed
    assert (
        judge_severity(
            summarize(*parsed, series=affected),
            series=affected,
            reach=affected / measured,
            is_brief=confirmed == "no",
        )
        == severity
    )


def judge(sizes: tuple[MetricSize, ...], *, series: int, reach: float) -> str:
    return judge_severity(sizes, series=series, reach=reach, is_brief=False)


def test_single_outlier_does_not_decide() -> None:
    changes = [
        ChangeSize(number, "IOPS", relative, 0.05) for number, relative in enumerate((-0.06, -0.06, -0.9))
    ]

    assert judge(summarize_metrics(changes, preference=["IOPS"]), series=3, reach=0.03) == "low"


def test_metric_that_changed_in_few_series_does_not_decide() -> None:
    changes = [ChangeSize(number, "IOPS", -0.06, 0.05) for number in range(9)]
    rare = [ChangeSize(number, "p99 latency", 9.0, 0.2) for number in range(4)]

    sizes = summarize_metrics([*changes, *rare], preference=list(THRESHOLDS))

    assert judge(sizes, series=9, reach=0.03) == "low"


def test_large_change_of_another_metric_in_as_many_series_decides() -> None:
    sizes = summarize(("IOPS", -0.06), ("p99 latency", 1.6), series=4)

    assert (sizes[0].metric, judge(sizes, series=4, reach=0.1)) == ("IOPS", "high")


def test_all_series_of_a_volume_type_are_a_wide_reach() -> None:
    assert judge(summarize(("IOPS", -0.06), series=4), series=4, reach=1.0) == "medium"
    assert judge(summarize(("IOPS", -0.06), series=4), series=4, reach=0.1) == "low"


def test_nothing_left_is_high() -> None:
    assert judge(summarize(("IOPS", -1.0)), series=1, reach=1.0) == "high"


@pytest.mark.parametrize("loss", [0.3, 0.75, 1.0])
def test_burst_of_one_series_is_not_high(loss: float) -> None:
    assert judge_severity(summarize(("IOPS", -loss)), series=1, reach=1.0, is_brief=True) == "medium"


def test_severity_grows_with_size_share_and_duration() -> None:
    ranks = ["low", "medium", "high"]
    cases = [
        [
            ranks.index(judge_severity(summarize(("IOPS", -loss)), series=6, reach=reach, is_brief=is_brief))
            for loss in (0.03, 0.06, 0.1, 0.15, 0.25, 0.5)
        ]
        for is_brief, reach in ((True, 0.1), (True, 0.5), (False, 0.5), (False, 1.0))
    ]

    assert all(case == sorted(case) for case in [*cases, *map(list, zip(*cases, strict=True))])
