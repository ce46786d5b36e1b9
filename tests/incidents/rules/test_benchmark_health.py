import pytest

from benchapp.incidents.rules.benchmark_health import (
    HealthFacts,
    VerdictCounts,
    find_health_problems,
    propose_threshold,
)

GOOD = {
    "series_count": 1,
    "stale_count": 0,
    "noisy_count": 0,
    "buffered_count": 0,
    "spread_increase_count": 0,
    "two_states_count": 0,
    "unchanged_count": 0,
    "incident_count": 3,
    "unresolved_count": 0,
    "verdicts": VerdictCounts(real=2, noise=1),
    "smallest_detectable_change": 0.04,
    "metrics": ("iops",),
}


def codes_of(**changed):
    return [finding.code for finding in find_health_problems(HealthFacts(**{**GOOD, **changed}))]


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, []),
        ({"stale_count": 1}, ["no-data"]),
        ({"series_count": 9, "stale_count": 8}, []),
        ({"unresolved_count": 1}, ["unresolved"]),
        ({"verdicts": VerdictCounts(real=1, noise=1)}, []),
        ({"verdicts": VerdictCounts(real=1, noise=2)}, ["mostly-noise"]),
        ({"verdicts": VerdictCounts(environment=1, fixed=1, noise=1)}, []),
        ({"incident_count": 4}, ["many-incidents"]),
        ({"series_count": 9, "incident_count": 12}, []),
        ({"series_count": 9, "incident_count": 13}, ["many-incidents"]),
        ({"noisy_count": 1}, ["high-spread"]),
        ({"series_count": 9, "noisy_count": 2}, []),
        ({"series_count": 9, "noisy_count": 3}, ["high-spread"]),
        ({"spread_increase_count": 1}, ["spread-increased"]),
        ({"series_count": 9, "spread_increase_count": 2}, []),
        ({"two_states_count": 1}, ["two-states"]),
        ({"series_count": 9, "two_states_count": 3}, ["two-states"]),
        ({"unchanged_count": 1}, ["never-changed"]),
        ({"series_count": 4, "unchanged_count": 4}, []),
        ({"series_count": 5, "unchanged_count": 5}, ["never-changed"]),
        (
            {"stale_count": 1, "noisy_count": 1, "unresolved_count": 2},
            ["no-data", "unresolved", "high-spread"],
        ),
    ],
)
def test_findings_by_facts(changed, codes):
    assert codes_of(**changed) == codes


def test_a_noisy_series_has_its_smallest_detectable_change_in_the_text():
    (finding,) = find_health_problems(
        HealthFacts(**{**GOOD, "noisy_count": 1, "smallest_detectable_change": 0.43})
    )

    assert "43 %" in finding.text


@pytest.mark.parametrize(
    ("verdicts", "precision"),
    [
        (VerdictCounts(), None),
        (VerdictCounts(real=3, noise=1), 0.75),
        (VerdictCounts(expected=1, environment=1), 1.0),
        (VerdictCounts(noise=2), 0.0),
    ],
)
def test_precision_is_the_share_without_noise(verdicts, precision):
    assert verdicts.precision == precision


@pytest.mark.parametrize(
    ("noise", "real", "expected"),
    [
        ([0.06, 0.07, 0.09], [0.3, 0.4], (0.1, 3, 0)),
        # 10 % of ten true incidents may be lost, not more.
        ([0.06, 0.20], [0.10, *[0.3] * 9], (0.21, 2, 1)),
        ([0.06, 0.20], [0.10, 0.11, *[0.3] * 8], (0.07, 1, 0)),
        ([0.06], [0.055, 0.3], None),
        ([0.04], [], None),
        ([], [0.3], None),
    ],
)
def test_a_threshold_leaves_out_noise_and_few_true_incidents(noise, real, expected):
    proposal = propose_threshold(noise_sizes=noise, real_sizes=real, threshold=0.05)

    found = proposal and (proposal.threshold, proposal.noise_left_out, proposal.real_left_out)
    assert found == expected


@pytest.mark.parametrize(
    ("buffered_count", "remedy"),
    [
        (0, "Run longer or with a ramp time, and repeat runs."),
        (1, "Run longer or with a ramp time, use direct I/O, and repeat runs."),
    ],
)
def test_direct_io_is_advised_where_it_is_off(buffered_count: int, remedy: str) -> None:
    (finding,) = find_health_problems(
        HealthFacts(**{**GOOD, "noisy_count": 1, "buffered_count": buffered_count})
    )

    assert finding.remedy == remedy
