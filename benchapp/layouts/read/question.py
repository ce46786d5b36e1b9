"""A question for a layout: what is required, what may vary, and which measurements count."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from benchapp.catalog.grammar import Filter, Term, parse_term
from benchapp.layouts.rules.ranking import Requirement

PricedParts = Literal["all", "volumes"]
PRICED_PARTS: Final[Mapping[PricedParts, str]] = {
    "all": "Volumes and instance",
    "volumes": "Volumes only",
}
PATTERNS: Final[Mapping[str, str]] = {
    "randread": "Random read",
    "randwrite": "Random write",
    "read": "Sequential read",
    "write": "Sequential write",
    "randrw": "Random mixed",
    "rw": "Sequential mixed",
    "unknown-read": "Read, sequential or random",
    "unknown-write": "Write, sequential or random",
}
# Dimensions that may be one value instead.
VARYING: Final = ("volume_type", "volume_count", "stripe_count", "instance_type", "filesystem")
# Beyond what one host delivers; also the largest numbers of the form and of the API.
REQUIRED_MAXIMUM: Final = 1e9
AGE_MAXIMUM_DAYS: Final = 3650
_DIRECTIONS: Final = {
    **dict.fromkeys(("randread", "read", "unknown-read"), ("read",)),
    **dict.fromkeys(("randwrite", "write", "unknown-write"), ("write",)),
}
_MB: Final = 10**6
_GB: Final = 10**9
_MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class LayoutQuestion:
    """What is asked for. Numbers are in the units of their names; None: anything.

    filter: whose measurements count. block_size: values as in a filter; "" for the most usual. read_share: percent, of
    mixed patterns. region: of the prices; "" without one, None for the default. vary: of VARYING, those that may have
    any value. max_age_days: of the newest run.
    """

    filter: Filter
    iops: float | None = None
    mb_per_s: float | None = None
    p99_ms: float | None = None
    capacity_gb: float | None = None
    max_price: float | None = None
    pattern: str = "randread"
    read_share: int | None = None
    block_size: str = ""
    region: str | None = None
    price_of: PricedParts = "all"
    vary: tuple[str, ...] = VARYING
    max_age_days: int | None = None

    @property
    def is_mixed(self) -> bool:
        """Return whether the pattern has reads and writes, so that a load has to name its read share."""
        return self.pattern not in _DIRECTIONS

    @property
    def has_throughput(self) -> bool:
        """Return whether a throughput is required, without which there is nothing to rank."""
        return self.iops is not None or self.mb_per_s is not None

    @property
    def requirement(self) -> Requirement:
        """Return what is required, in base units."""
        return Requirement(
            iops=self.iops,
            bandwidth_bytes_per_s=_multiply(self.mb_per_s, _MB),
            latency_p99_ns=_multiply(self.p99_ms, _MS),
            capacity_bytes=_multiply(self.capacity_gb, _GB),
            price=self.max_price,
        )

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the directions whose throughput is added."""
        return _DIRECTIONS.get(self.pattern, ("read", "write"))

    @property
    def maximum_age(self) -> timedelta | None:
        """Return how old the newest run may be."""
        return None if self.max_age_days is None else timedelta(days=self.max_age_days)

    def make_filter(self) -> Filter:
        """Return the filter of the measurements of this workload. Raises BadFilter."""
        terms: list[Term] = [
            parse_term("rw", self.pattern),
            parse_term("direction", ",".join(self.directions)),
        ]
        if self.block_size:
            terms.append(parse_term("block_size_bytes", self.block_size))
        if self.read_share is not None and self.is_mixed:
            terms.append(parse_term("read_share_percent", str(self.read_share)))
        return self.filter.with_terms(terms)


def _multiply(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor
