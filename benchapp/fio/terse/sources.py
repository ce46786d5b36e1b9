"""The source of each value of a terse line, or the reason for its absence."""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from benchapp.fio.value_sources import ValueSources

_BANDWIDTH_SOURCES: Final = {
    "exact": "io in KiB × 1024 / runtime; the printed bw, cut to whole KiB/s, agrees",
    "decimal": "io in KiB × 1024 / runtime; the printed bw is in kB/s of 1000 bytes, as fio 2.0 has it",
    "printed": "bw in KiB/s × 1024; io and runtime would give another",
}
_SOURCES: Final = {
    "io_bytes": "io in KiB × 1024",
    "iops": "iops, cut to a whole number",
    "runtime_s": "runtime in ms",
    "submission": "slat in µs × 1000",
    "completion": "clat in µs × 1000",
    "total": "lat in µs × 1000",
    "percentiles": "P%=µs × 1000; of clat, unless lat_percentiles was set, which terse does not say",
    "bandwidth_samples": "bw min, max, mean and dev in KiB/s × 1024",
    "iops_samples": "iops min, max, mean and stdev",
}
# The values that may be absent, with the default reason.
_REASONS: Final = {
    **dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s", "runtime_s"), "out-of-range"),
    **dict.fromkeys(("bandwidth_samples", "iops_samples"), "short-run"),
    **dict.fromkeys(("submission", "completion", "total"), "not-measured"),
}
VALUES: Final = (*_REASONS, "percentiles")


class TerseState(Struct, frozen=True, gc=False):
    """Everything that determines sources and reasons. rates: the reason for their absence, or empty."""

    reasons: tuple[tuple[str, str], ...]
    rates: str
    bandwidth_source: str
    is_per_job: bool
    has_iops_samples: bool
    absent: tuple[bool, ...]


@lru_cache(maxsize=1024)
def collect_terse_sources(state: TerseState) -> ValueSources:
    """Return the reason for each absent value and the source of each other; a text has few different states."""
    absent = [name for name, is_absent in zip(VALUES, state.absent, strict=True) if is_absent]
    missing: dict[str, str] = {"total_ios": "not-in-format", **dict(state.reasons)}
    if state.rates:
        missing["iops"] = state.rates
    if state.rates == "zero-runtime":
        missing["bandwidth_bytes_per_s"] = state.rates
    if state.is_per_job:
        missing["bandwidth_samples"] = "per-job-samples"
    if not state.has_iops_samples:
        missing["iops_samples"] = "not-in-format"
    for name in absent:
        if name in _REASONS:
            missing.setdefault(name, _REASONS[name])
    if "completion" in absent and "total" in absent:
        missing["latency"] = missing["percentiles"] = missing.get("completion", "not-measured")
    elif "percentiles" in absent:
        missing["percentiles"] = "not-reported"
    every = {**_SOURCES, "bandwidth_bytes_per_s": _BANDWIDTH_SOURCES[state.bandwidth_source]}
    return ValueSources(missing, {name: source for name, source in every.items() if name not in missing})
