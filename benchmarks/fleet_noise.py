"""Noise of a fleet's cells as real fio histories have it, and what is planted in them. Plain numbers.

205 histories of a storage client had a coefficient of variation of 3.7 % in the middle (quartiles 2.3 and 7.5 %, 90th
percentile 14 %) and a lag-1 correlation of .15 in the middle (90th percentile .6); a cell's are drawn from curves
through these. Its kind is drawn, too: even, heavy tails, spikes, skewed, buckets, states that come and go, and the
hardest, states that last. A tenth of the variance is common to all cells of a host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from benchmarks.histories import KINDS, make_generator, round_to_buckets

Array = npt.NDArray[np.float64]
Kind = Literal["host", "volume type", "stripe width"]

# Shares of the kinds: there is no count of real ones; two in ten have states, as caches do.
MIXTURE: Final = {
    "even": 0.30,
    "tails": 0.20,
    "spikes": 0.15,
    "skewed": 0.10,
    "buckets": 0.05,
    "states": 0.10,
    "sticky states": 0.10,
}
# These say themselves how one run hangs on the one before.
_WITH_STATES: Final = ("states", "sticky states")
_MEDIAN_VARIATION: Final = 0.037
# Of the logarithm, below and above the median: through the quartiles and the 90th percentile.
_VARIATION_SPREADS: Final = (0.70, 1.04)
_MOST_VARIATION: Final = 0.30
# Weibull's through .15 at the median and .6 at the 90th percentile.
_CORRELATION_SHAPE: Final = 0.866
_CORRELATION_SCALE: Final = 0.229
_MOST_CORRELATION: Final = 0.8
_COMMON_SHARE: Final = 0.1
_LEVEL_IOPS: Final = 20_000.0
# The metrics of a run, derived from its IOPS.
METRICS: Final = (
    "iops",
    "bandwidth_bytes_per_s",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p95_ns",
    "latency_p99_ns",
)
BLOCK_SIZE_BYTES: Final = 4096
_PATTERNS: Final = 4
# Percentiles relative to the mean latency, and their variation from run to run beyond that of the mean.
_PERCENTILES: Final = {
    "latency_p50_ns": (0.9, 0.01),
    "latency_p95_ns": (1.8, 0.03),
    "latency_p99_ns": (3.0, 0.05),
}
# Submission of a request is not part of its latency.
_MEAN_VARIATION: Final = 0.005


@dataclass(frozen=True, slots=True)
class Planted:
    """One regression. host: its number, None for all; cells: their numbers in the fleet; run: index of the first bad
    one; size: 0.1 is 10 % less."""

    kind: Kind
    text: str
    host: int | None
    cells: frozenset[int]
    run: int
    size: float


def make_values(*, hosts: int, cells: int, runs: int, seed: int) -> Array:
    """Return IOPS of a fleet in which nothing happens, a row for each cell of each host, a column for each run."""
    rows = []
    for host in range(hosts):
        generator = make_generator("fleet host", seed, host)
        common = _correlate(generator.standard_normal(runs), _draw_correlation(generator))
        rows += [_make_cell(seed, host, cell, common) for cell in range(cells)]
    return np.array(rows)


def plant(values: Array, planted: Sequence[Planted]) -> None:
    """Put the regressions into the values, in place; they last."""
    for one in planted:
        cells = sorted(one.cells)
        values[cells, one.run :] *= 1 - one.size


def find_iodepth(workload: int) -> int:
    """Return the depth of a workload by its number: four patterns of each depth."""
    return int(2 ** (workload // _PATTERNS))


def make_metrics(iops: Array, *, works: int, seed: int) -> dict[str, Array]:
    """Return the metrics of a real run by name, from IOPS; percentiles are in fio's buckets.

    works: workloads of each layout. Requests in flight / IOPS is the mean latency (Little's law).
    """
    generator = make_generator("fleet metrics", seed)
    depths = np.array([find_iodepth(cell % works) for cell in range(len(iops))])[:, np.newaxis]
    mean = depths * 1e9 / iops * (1 + _MEAN_VARIATION * generator.standard_normal(iops.shape))
    found = {"iops": iops, "bandwidth_bytes_per_s": iops * BLOCK_SIZE_BYTES, "latency_mean_ns": mean}
    for metric, (share, variation) in _PERCENTILES.items():
        found[metric] = round_to_buckets(
            mean * share * np.exp(variation * generator.standard_normal(iops.shape))
        )
    return found


def _make_cell(seed: int, host: int, cell: int, common: Array) -> Array:
    generator = make_generator("fleet cell", seed, host, cell)
    kind = str(generator.choice(list(MIXTURE), p=list(MIXTURE.values())))
    noise = KINDS[kind](len(common), generator)
    if kind not in _WITH_STATES:
        noise = _correlate(noise, _draw_correlation(generator))
    mixed = np.sqrt(1 - _COMMON_SHARE) * noise + np.sqrt(_COMMON_SHARE) * common
    level = _LEVEL_IOPS * np.exp(generator.normal(0, 1))
    return level * np.maximum(1 + _draw_variation(generator) * mixed, 0.05)


def _draw_variation(generator: np.random.Generator) -> float:
    score = generator.standard_normal()
    spread = _VARIATION_SPREADS[int(score > 0)]
    return float(min(_MEDIAN_VARIATION * np.exp(spread * score), _MOST_VARIATION))


def _draw_correlation(generator: np.random.Generator) -> float:
    return float(min(_CORRELATION_SCALE * generator.weibull(_CORRELATION_SHAPE), _MOST_CORRELATION))


def _correlate(shocks: Array, correlation: float) -> Array:
    """Return an autoregressive chain of shocks of spread 1, of spread 1 itself."""
    noise = np.empty_like(shocks)
    last = shocks[0]
    share = np.sqrt(1 - correlation**2)
    for place, shock in enumerate(shocks.tolist()):
        last = correlation * last + share * shock
        noise[place] = last
    return noise
