"""Findings about benchmarks themselves: too many incidents, mostly noise, no data, too noisy, never a change. Pure.

The counts are those of PERIOD_DAYS. The thresholds are conventions, chosen so that a benchmark with one real regression
a month is not listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from benchapp.catalog.metrics import CATALOG, format_percent, lower_label

PERIOD_DAYS: Final = 90
# Incidents of one series in the period: more than one a month.
MANY_OF_A_SERIES: Final = 4
# Of a host or a profile, which have many series: more than one a week.
MANY_OF_A_GROUP: Final = 13
# Verdicts before a share of noise is stated, and the share from which on it is reported.
RATED_MINIMUM: Final = 3
NOISE_SHARE: Final = 1 / 3
# Runs without any change; below, a rare change may not have occurred yet.
RUNS_WITHOUT_CHANGE: Final = 120
# Series of a group that never changed, before the group is reported.
SERIES_WITHOUT_CHANGE: Final = 5
# Share of the series of a group that are too noisy.
NOISY_SHARE: Final = 1 / 3
UNRESOLVED_DAYS: Final = 30
# A proposed threshold may leave out at most this share of the incidents that were rated as real.
REAL_LOSS_MAXIMUM: Final = 0.1


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Incidents by verdict; true ones are real, fixed, expected or environment."""

    real: int = 0
    fixed: int = 0
    expected: int = 0
    environment: int = 0
    noise: int = 0

    @property
    def rated(self) -> int:
        """Return the number of incidents with a verdict."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def precision(self) -> float | None:
        """Return the share of rated incidents that were no noise, 0 to 1; None without a verdict."""
        return 1 - self.noise / self.rated if self.rated else None

    @property
    def is_mostly_noise(self) -> bool:
        """Return whether more than a third of at least three rated incidents were noise."""
        return self.rated >= RATED_MINIMUM and self.noise > NOISE_SHARE * self.rated

    def plus(self, other: "VerdictCounts") -> "VerdictCounts":
        """Return the sums."""
        return VerdictCounts(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What is known about one series, or about all series of a host or profile.

    stale_count: series without a recent run. noisy_count: series too noisy for detection in the metrics asked for,
    buffered_count of these do not use direct I/O. spread_increase_count, two_states_count: series whose spread
    increased, or that have two states, in these metrics. metrics: the ones with such a finding.
    unchanged_count: series of RUNS_WITHOUT_CHANGE runs or more in which no change was ever detected.
    incident_count: incidents of the period. unresolved_count: open ones older than UNRESOLVED_DAYS.
    smallest_detectable_change: the largest of these series, relative; None if unknown.
    """

    series_count: int
    stale_count: int
    noisy_count: int
    buffered_count: int
    spread_increase_count: int
    two_states_count: int
    unchanged_count: int
    incident_count: int
    unresolved_count: int
    verdicts: VerdictCounts
    smallest_detectable_change: float | None
    metrics: tuple[str, ...]

    @property
    def metrics_text(self) -> str:
        """Return "IOPS" or "IOPS and elapsed time"."""
        return " and ".join(lower_label(CATALOG[name].label) for name in self.metrics)

    @property
    def is_group(self) -> bool:
        """Return whether these are several series."""
        return self.series_count > 1


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One finding; remedy: what to do about it."""

    code: str
    text: str
    remedy: str


# What each finding says about how many series, hosts or profiles: "4 too noisy for detection".
FINDING_SUMMARIES: Final = {
    "no-data": "without recent runs",
    "unresolved": f"with incidents open for more than {UNRESOLVED_DAYS} days",
    "mostly-noise": "with incidents that are mostly noise",
    "many-incidents": "with many incidents",
    "high-spread": "too noisy for detection",
    "spread-increased": "with more spread than before",
    "two-states": "alternating between two states",
    "never-changed": "never changed",
}


def find_health_problems(facts: HealthFacts) -> tuple[HealthFinding, ...]:
    """Return the findings, the most urgent first; () for a benchmark without any."""
    found = (
        _find_stale(facts),
        _find_unresolved(facts),
        _find_noise_verdicts(facts),
        _find_many(facts),
        _find_noisy(facts),
        _find_spread_increase(facts),
        _find_two_states(facts),
        _find_unchanged(facts),
    )
    return tuple(finding for finding in found if finding is not None)


def _find_stale(facts: HealthFacts) -> HealthFinding | None:
    if facts.stale_count < facts.series_count:
        return None
    return HealthFinding(
        "no-data",
        "no recent runs",
        "Check the schedule and the agent of the host, or retire the host.",
    )


def _find_unresolved(facts: HealthFacts) -> HealthFinding | None:
    count = facts.unresolved_count
    if not count:
        return None
    noun = "incident is" if count == 1 else "incidents are"
    return HealthFinding(
        "unresolved",
        f"{count} {noun} open for more than {UNRESOLVED_DAYS} days",
        "Resolve them with a verdict, or accept the new level as baseline.",
    )


def _find_noise_verdicts(facts: HealthFacts) -> HealthFinding | None:
    verdicts = facts.verdicts
    if not verdicts.is_mostly_noise:
        return None
    return HealthFinding(
        "mostly-noise",
        f"{verdicts.noise} of {verdicts.rated} rated incidents were noise",
        "Raise the threshold, or make the benchmark steadier: longer runtime, nothing else on the host.",
    )


def _find_many(facts: HealthFacts) -> HealthFinding | None:
    limit = MANY_OF_A_GROUP if facts.is_group else MANY_OF_A_SERIES
    if facts.incident_count < limit:
        return None
    return HealthFinding(
        "many-incidents",
        f"{facts.incident_count} incidents in {PERIOD_DAYS} days",
        "Look for a common cause (backups, neighbors, thermal limits); schedule maintenance windows for known ones.",
    )


def _find_noisy(facts: HealthFacts) -> HealthFinding | None:
    if not facts.noisy_count or facts.noisy_count < NOISY_SHARE * facts.series_count:
        return None
    smallest = facts.smallest_detectable_change
    size = f"; the smallest detectable change is {format_percent(smallest)}" if smallest is not None else ""
    which = f"{facts.noisy_count} of {facts.series_count} series are " if facts.is_group else ""
    steps = ["Run longer or with a ramp time", *(["use direct I/O"] if facts.buffered_count else [])]
    return HealthFinding(
        "high-spread",
        f"{which}too noisy for detection in {facts.metrics_text}{size}",
        f"{', '.join(steps)}, and repeat runs.",
    )


def _find_spread_increase(facts: HealthFacts) -> HealthFinding | None:
    count = facts.spread_increase_count
    if not count or count < NOISY_SHARE * facts.series_count:
        return None
    which = f" in {count} of {facts.series_count} series" if facts.is_group else ""
    return HealthFinding(
        "spread-increased",
        f"the standard deviation of {facts.metrics_text} increased{which}",
        "Compare the environment before and after, and look for other load on the host or its storage.",
    )


def _find_two_states(facts: HealthFacts) -> HealthFinding | None:
    count = facts.two_states_count
    if not count or count < NOISY_SHARE * facts.series_count:
        return None
    which = f"{count} of {facts.series_count} series alternate" if facts.is_group else "alternates"
    return HealthFinding(
        "two-states",
        f"{which} between two states of {facts.metrics_text}",
        "Look for what differs between the runs of both: cache, burst credits, placement, time of day.",
    )


def _find_unchanged(facts: HealthFacts) -> HealthFinding | None:
    minimum = SERIES_WITHOUT_CHANGE if facts.is_group else 1
    if facts.unchanged_count < minimum or facts.unchanged_count < facts.series_count:
        return None
    return HealthFinding(
        "never-changed",
        f"no change in {RUNS_WITHOUT_CHANGE} runs or more",
        "Check that it measures the device: a cache or a provisioned limit hides changes.",
    )


@dataclass(frozen=True, slots=True)
class ThresholdProposal:
    """A threshold that would have left out noise; relative sizes.

    noise_left_out of noise incidents and real_left_out of true ones are smaller than the threshold.
    """

    threshold: float
    noise_left_out: int
    noise: int
    real_left_out: int
    real: int


def propose_threshold(
    *, noise_sizes: Sequence[float], real_sizes: Sequence[float], threshold: float
) -> ThresholdProposal | None:
    """Return the smallest threshold, in whole percent, that leaves out the most noise and few true incidents.

    noise_sizes, real_sizes: relative sizes (positive) of incidents with a verdict. threshold: the one in use. A
    proposal leaves out at most REAL_LOSS_MAXIMUM of the true incidents; None if no larger threshold leaves out noise.
    """
    best: ThresholdProposal | None = None
    for percent in sorted({_next_percent(size) for size in noise_sizes}):
        candidate = percent / 100
        if candidate <= threshold:
            continue
        noise_left_out = sum(size < candidate for size in noise_sizes)
        real_left_out = sum(size < candidate for size in real_sizes)
        if real_left_out > REAL_LOSS_MAXIMUM * len(real_sizes):
            break
        if best is None or noise_left_out > best.noise_left_out:
            best = ThresholdProposal(
                candidate, noise_left_out, len(noise_sizes), real_left_out, len(real_sizes)
            )
    return best


def _next_percent(size: float) -> int:
    """Return the smallest whole percentage above a relative size."""
    return int(size * 100 + 1e-9) + 1
