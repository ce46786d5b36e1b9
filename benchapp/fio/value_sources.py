"""Sources of the values of a direction: what fio printed for each, or why it is missing."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

# The reason codes of report.py that are used here; any other fact is a source.
_REASONS: Final = frozenset(
    (
        "clones",
        "clones-disagree",
        "clones-missing",
        "clones-without-bins",
        "groups-without-bins",
        "groups-without-counts",
        "no-io",
        "not-a-number",
        "not-in-format",
        "not-measured",
        "not-reported",
        "out-of-range",
        "per-job-samples",
        "short-run",
        "unreliable-version",
        "zero-runtime",
    )
)
# Of a direction without I/O.
IDLE: Final[Mapping[str, str]] = dict.fromkeys(
    ("iops", "bandwidth_bytes_per_s", "latency", "percentiles", "bandwidth_samples", "iops_samples"), "no-io"
)


class SourceFacts(Struct, frozen=True, gc=False):
    """For each value its source, the reason code for its absence, or None for neither."""

    io_bytes: str | None = None
    total_ios: str | None = None
    iops: str | None = None
    bandwidth_bytes_per_s: str | None = None
    runtime_s: str | None = None
    submission: str | None = None
    completion: str | None = None
    total: str | None = None
    latency: str | None = None
    percentiles: str | None = None
    bandwidth_samples: str | None = None
    iops_samples: str | None = None
    short_ios: str | None = None
    dropped_ios: str | None = None


class ValueSources(Struct, frozen=True, gc=False):
    """missing and sources of a direction, as in report.py."""

    missing: Mapping[str, str]
    sources: Mapping[str, str]


@lru_cache(maxsize=1024)
def collect_sources(facts: SourceFacts) -> ValueSources:
    """Split facts into missing values and sources; cached, as a text has few different combinations."""
    missing: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name in facts.__struct_fields__:
        fact = getattr(facts, name)
        if fact is not None:
            (missing if fact in _REASONS else sources)[name] = fact
    return ValueSources(missing, sources)
