"""Which runs would decide between the two best layouts."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from benchapp.layouts.rules.next_runs import (
    LayoutCandidate,
    RunReason,
    count_required_runs,
    find_spread,
    list_gap_reasons,
    plan_decision,
)
from benchapp.layouts.rules.ranking import Requirement

REQUIRED = Requirement(iops=10_000.0, latency_p99_ns=3e6)


@dataclass(frozen=True)
class Level:
    median: float | None
    p10: float
    p90: float


@dataclass(frozen=True)
class Levels:
    iops: Level | None
    latency_p99_ns: Level | None
    bandwidth_bytes_per_s: Level | None = None


def make_candidate(p10: float = 12_000.0, p90: float = 12_200.0, **fields: Any) -> LayoutCandidate:
    latency = fields.pop("latency", Level(2e6, 1.98e6, 2.02e6))
    is_met = p10 >= 10_000 and latency is not None
    values: dict[str, Any] = {
        "verdict": "meets" if is_met else "misses" if p10 < 10_000 else "unknown",
        "lacks": () if is_met else ("iops",) if p10 < 10_000 else ("latency_p99_ns",),
        "levels": Levels(Level((p10 + p90) / 2, p10, p90), latency),
        "n": 10,
        "age": timedelta(days=1),
        "price": 100.0,
        "margin": p10 / 10_000 - 1,
    }
    return LayoutCandidate(**values | fields)


def plan(*candidates: LayoutCandidate, has_prices: bool = True) -> list[tuple[int, str, int | None]]:
    found = plan_decision(candidates, REQUIRED, has_prices=has_prices)
    return [(place, reason.name, reason.runs) for place, reason in found]


@pytest.mark.parametrize(
    ("spread", "gap", "runs"),
    # (1.709 · 2.802 · spread / gap)²
    [(0.05, 0.1, 6), (0.05, 0.05, 23), (0.01, 0.1, 1), (0.05, 0.04, None), (0.05, 0.0, None)],
)
def test_runs_follow_from_spread_and_gap(spread: float, gap: float, runs: int | None) -> None:
    assert count_required_runs(spread, gap) == runs


def test_spread_is_that_of_the_deciles_and_ten_percent_below_three_runs() -> None:
    level = Level(100.0, 95.0, 105.0)

    assert find_spread(level, 10) == pytest.approx(0.03905, abs=1e-4)
    assert find_spread(level, 2) == 0.10
    assert find_spread(Level(100.0, 100.0, 100.0), 10) == 0.01


def test_nothing_is_measured_if_the_cheapest_layout_is_certain() -> None:
    assert plan(make_candidate(), make_candidate(price=50.0, p10=5_000.0, p90=5_100.0)) == []
    assert plan(make_candidate(price=50.0), make_candidate(n=1)) == []
    assert plan() == []


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (make_candidate(n=2, p10=10_500.0, p90=10_900.0), (0, "few-runs", 1)),
        (make_candidate(age=timedelta(days=190)), (0, "old", 3)),
        (make_candidate(latency=None), (0, "unknown", 3)),
        # Gap 0.0488, spread 0.0391: 15 runs.
        (make_candidate(p10=10_500.0, p90=11_606.0), (0, "near-requirement", 5)),
        (make_candidate(p10=10_001.0, p90=12_000.0), (0, "near-requirement", None)),
    ],
)
def test_reason_and_runs_of_an_uncertain_candidate(
    candidate: LayoutCandidate, reason: tuple[int, str, int | None]
) -> None:
    assert plan(candidate) == [reason]


def test_cheaper_layout_that_may_meet_is_measured_before_the_certain_one() -> None:
    near = make_candidate(p10=9_700.0, p90=10_500.0, price=50.0)

    # Gap 0.0305, spread 0.0309: 24 runs.
    assert plan(make_candidate(), near) == [(1, "near-requirement", 14)]
    assert (
        plan(make_candidate(), make_candidate(p10=9_700.0, p90=10_500.0, price=50.0, lacks=("iops", "price")))
        == []
    )


def test_without_prices_near_margins_are_told_apart() -> None:
    first, second = make_candidate(12_000.0, 12_400.0), make_candidate(11_700.0, 12_100.0)

    found = plan_decision([first, second], REQUIRED, has_prices=False)

    # Gap 0.0253; spreads 0.0128 and 0.0131: 13 runs of each.
    assert [(place, reason.name, reason.runs) for place, reason in found] == [
        (0, "near-rival", 3),
        (1, "near-rival", 3),
    ]
    assert isinstance(found[0][1], RunReason) and found[0][1].gap == pytest.approx(0.0253, abs=1e-4)
    assert plan(first, make_candidate(10_700.0, 10_900.0), has_prices=False) == []


@pytest.mark.parametrize(
    ("p90", "n", "is_stale", "expected"),
    [
        (102.0, 10, False, []),
        (102.0, 2, False, [("few-runs", 1)]),
        (102.0, 10, True, [("old", 1)]),
        # Spread 0.0781: (1.96 · 1.2533 · 0.0781 / 0.05)² = 14.7.
        (116.4, 10, False, [("wide", 5)]),
        (160.0, 10, False, [("wide", None)]),
    ],
)
def test_level_of_a_chart_is_measured_again_if_it_is_uncertain(
    p90: float, n: int, is_stale: bool, expected: list[tuple[str, int | None]]
) -> None:
    level = Level(100.0, p90 / 1.2216 if p90 == 116.4 else 99.0, p90)

    found = list_gap_reasons(level, n, is_stale=is_stale)

    assert [(reason.name, reason.runs) for reason in found] == expected
