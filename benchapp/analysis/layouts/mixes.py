"""The throughput of a mix of reads and writes, from measured mixes of other shares: pure.

Between two measured shares the service times are interpolated: by the utilization law of operational analysis (Denning
and Buzen, 1978) a resource that all operations use is busy for the sum of their service times, so that 1 / X of a mix
is the weighted mean of the 1 / X of its parts. For a fixed number of outstanding operations the same follows from
Little's law, if the mean latency of each kind does not depend on the mix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

# "one-share": a single share was measured. "outside": a smaller or larger share than all measured ones.
# "not-positive": a throughput of 0.
MixRefusal = Literal["one-share", "outside", "not-positive"]
REFUSALS: Final[tuple[MixRefusal, ...]] = ("one-share", "outside", "not-positive")


@dataclass(frozen=True, slots=True)
class MixLevel:
    """The measured throughput of reads and writes together. read_share: of the operations, from 0 to 1."""

    read_share: float
    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class MixEstimate:
    """The throughput of a mix that was not measured, interpolated between two measured shares.

    value: from the medians. low: from p10, if reads and writes share one resource. high: from p90, if they do not, so
    that each part alone is the limit; not below the estimate from p90. below, above: the measured shares, from 0 to 1.
    """

    read_share: float
    value: float
    low: float
    high: float
    below: float
    above: float


def estimate_mix(levels: Sequence[MixLevel], read_share: float) -> MixLevel | MixEstimate | MixRefusal:
    """Return the measured level of a share, else an estimate between its neighbors, else why there is none.

    levels: at most one for each share, in any order.
    """
    measured = next((level for level in levels if level.read_share == read_share), None)
    if measured is not None:
        return measured
    below = max(
        (level for level in levels if level.read_share < read_share),
        key=lambda level: level.read_share,
        default=None,
    )
    above = min(
        (level for level in levels if level.read_share > read_share),
        key=lambda level: level.read_share,
        default=None,
    )
    if below is None or above is None:
        return "one-share" if len(levels) < 2 else "outside"
    if min(below.p10, above.p10) <= 0:
        return "not-positive"
    weight = (read_share - below.read_share) / (above.read_share - below.read_share)
    return MixEstimate(
        read_share=read_share,
        value=_share_resource(below.median, above.median, weight),
        low=_share_resource(below.p10, above.p10, weight),
        high=max(
            _share_resource(below.p90, above.p90, weight),
            min(below.p90 / (1 - weight), above.p90 / weight, *_list_pure_bounds(levels, read_share)),
        ),
        below=below.read_share,
        above=above.read_share,
    )


def _list_pure_bounds(levels: Sequence[MixLevel], read_share: float) -> Iterator[float]:
    """Yield what pure reads and pure writes allow, if they were measured: neither kind is faster in a mix."""
    for level in levels:
        if level.read_share == 1:
            yield level.p90 / read_share
        elif level.read_share == 0:
            yield level.p90 / (1 - read_share)


def _share_resource(below: float, above: float, weight: float) -> float:
    """Return the throughput whose service time is the mean of two; weight: of `above`."""
    return 1 / ((1 - weight) / below + weight / above)
