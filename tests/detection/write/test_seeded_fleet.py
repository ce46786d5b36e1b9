"""What detection finds in a seeded fleet stays the same: a faster calculation is not another one."""

from benchapp.detection.write.metric import judge_metric
from benchmarks.fleet_noise import make_values

# Of each cell: changes, status, runs needed for a change of 5 %, first run of the level, two states, spread increase.
FOUND = [
    ([150, 250], "STEADY", 13, 250, True, False),
    ([], "STEADY", None, 0, False, False),
    ([], "TOO_NOISY", None, 0, True, False),
    ([249], "TOO_NOISY", None, 249, False, False),
    ([150], "STEADY", None, 150, False, False),
    ([], "STEADY", None, 0, False, False),
    ([150], "TOO_NOISY", None, 150, False, False),
    ([], "TOO_NOISY", None, 0, False, False),
    ([146], "TOO_NOISY", None, 146, False, False),
    ([250], "STEADY", 7, 250, False, False),
    ([150], "STEADY", 15, 150, False, False),
    ([], "STEADY", None, 0, False, False),
    ([150, 250], "STEADY", 24, 250, False, False),
    ([], "STEADY", 9, 0, False, False),
    ([149], "TOO_NOISY", None, 149, False, False),
    ([250], "STEADY", 6, 250, False, False),
    ([150], "TOO_NOISY", None, 150, False, False),
    ([], "TOO_NOISY", None, 0, False, False),
    ([150, 250], "TOO_NOISY", None, 250, False, False),
    ([], "STEADY", 25, 0, False, False),
    ([150], "STEADY", 34, 150, True, False),
    ([250], "STEADY", None, 250, False, False),
    ([150], "STEADY", 11, 150, False, False),
    ([], "STEADY", 7, 0, False, False),
]


def test_findings_in_a_seeded_fleet_are_the_same() -> None:
    """Every second cell loses 20 % at run 150, every third gains 15 % at run 250."""
    values = make_values(hosts=1, cells=24, runs=300, seed=7)
    values[::2, 150:] *= 0.8
    values[::3, 250:] *= 1.15

    results = [judge_metric(row, smallest_change=0.05) for row in values]

    assert [
        (
            [change.index for change in result.changes],
            result.state.state.name,
            result.state.runs_needed,
            result.level_start,
            result.two_states is not None,
            result.spread_increase is not None,
        )
        for result in results
    ] == FOUND
