"""Histories of a made-up storage metric with known changes: nine kinds of noise, each with spread 1 around 0.

Independent of any data set: drawn anew from a seed, with parameters drawn, too, so that a detector tuned to one
seed gains nothing on the next.
"""

import zlib
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

LEVEL: Final = 50_000.0
# The first completion-latency bucket of fio that is wider than 1 ns begins at 128; 64 buckets an octave from there on.
BUCKETS_PER_OCTAVE: Final = 64


def make_generator(*key: object) -> Generator:
    """Return the random numbers of a key: the same on every machine."""
    return np.random.default_rng(zlib.crc32("/".join(map(str, key)).encode()))


def make_history(
    kind: str, points: int, *, variation: float, generator: Generator, change: tuple[int, float] | None = None
) -> list[float]:
    """Return a history of positive values with a coefficient of variation, and from an index on a relative change."""
    noise = KINDS[kind](points, generator)
    level = np.full(points, LEVEL)
    if change:
        level[change[0] :] *= 1 + change[1]
    values = level * np.maximum(1 + variation * noise, 0.01)
    return (round_to_buckets(values) if kind == "buckets" else values).tolist()


def make_troubled(runs: int, *, generator: Generator, change: tuple[int, float]) -> list[float]:
    """Return a young history in which 10 to 25 % of the runs are low by 8 to 30 %, and its relative change."""
    noise = generator.uniform(0.01, 0.04) * generator.standard_normal(runs)
    is_low = generator.random(runs) < generator.uniform(0.1, 0.25)
    lost = is_low * generator.uniform(0.08, 0.3, runs)
    level = np.where(np.arange(runs) < change[0], 1.0, 1 + change[1])
    return (LEVEL * level * (1 + noise) * (1 - lost)).tolist()


def _make_even(points: int, generator: Generator) -> Array:
    return generator.standard_normal(points)


def _make_tails(points: int, generator: Generator) -> Array:
    """Laplace's double exponential one time, Student's t with 4 degrees of freedom the other."""
    if generator.random() < 0.5:
        return generator.laplace(0, 1 / np.sqrt(2), points)
    return generator.standard_t(4, points) / np.sqrt(2)


def _make_spikes(points: int, generator: Generator) -> Array:
    """One run in fifty to twenty went wrong, two times in three for the worse."""
    noise = generator.standard_normal(points)
    spikes = generator.random(points) < generator.uniform(0.02, 0.05)
    sides = np.where(generator.random(points) < 2 / 3, -1.0, 1.0)
    return noise + spikes * sides * generator.uniform(4, 15, points)


def _make_states(points: int, generator: Generator) -> Array:
    """Two states, drawn for each run: a cache that misses one time in ten to three."""
    share = generator.uniform(0.1, 0.3)
    return _mix_states(generator.random(points) < share, share, generator)


def _make_sticky_states(points: int, generator: Generator) -> Array:
    """Two states that last: two to four runs in the rare one, five to twelve in the other."""
    stay_rare, stay_usual = 1 - 1 / generator.uniform(2, 4), 1 - 1 / generator.uniform(5, 12)
    share = (1 - stay_usual) / (2 - stay_usual - stay_rare)
    draws = generator.random(points + 1)
    states = np.zeros(points, dtype=bool)
    is_rare = bool(draws[-1] < share)
    for place in range(points):
        states[place] = is_rare
        is_rare = bool(draws[place] < stay_rare) if is_rare else bool(draws[place] >= stay_usual)
    return _mix_states(states, share, generator)


def _mix_states(states: npt.NDArray[np.bool_], share: float, generator: Generator) -> Array:
    """Nine tenths of the variance lie between the states."""
    apart = np.sqrt(0.9 / (share * (1 - share)))
    return np.sqrt(0.1) * generator.standard_normal(len(states)) - apart * (states - share)


def _make_correlated(points: int, generator: Generator) -> Array:
    """An autoregressive chain; lag-1 correlation 0.3 to 0.7."""
    correlation = generator.uniform(0.3, 0.7)
    shocks = generator.standard_normal(points) * np.sqrt(1 - correlation**2)
    noise = np.empty(points)
    last = generator.standard_normal()
    for place, shock in enumerate(shocks.tolist()):
        last = correlation * last + shock
        noise[place] = last
    return noise


def _make_skewed(points: int, generator: Generator) -> Array:
    """The long right tail of latencies: log-normal."""
    shape = generator.uniform(0.4, 0.8)
    raw = generator.lognormal(0, shape, points)
    mean, variance = np.exp(shape**2 / 2), np.expm1(shape**2) * np.exp(shape**2)
    return (raw - mean) / np.sqrt(variance)


def _make_drift(points: int, generator: Generator) -> Array:
    """One to three spreads in a hundred runs, up or down."""
    slope = generator.uniform(0.01, 0.03) * generator.choice([-1, 1])
    return generator.standard_normal(points) + slope * np.arange(points)


def round_to_buckets(values: Array) -> Array:
    """Return values rounded down to the beginning of their bucket in fio."""
    width = 2.0 ** np.floor(np.log2(values)) / BUCKETS_PER_OCTAVE
    return np.floor(values / width) * width


KINDS: Final[dict[str, Callable[[int, Generator], Array]]] = {
    "even": _make_even,
    "tails": _make_tails,
    "spikes": _make_spikes,
    "states": _make_states,
    "sticky states": _make_sticky_states,
    "correlated": _make_correlated,
    "skewed": _make_skewed,
    "buckets": _make_even,
    "drift": _make_drift,
}
# A drift is no step, but a staircase is the best that a list of steps can say of it: counted apart.
STATIONARY: Final = tuple(kind for kind in KINDS if kind != "drift")
