"""One direction of one entry of fio's JSON, in base units."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from benchapp.fio.json.shape import (
    Amount,
    Bins,
    Percentiles,
    PrintedDirection,
    PrintedJob,
    PrintedLatency,
    list_odd,
)
from benchapp.fio.numbers import BIGINT_MAXIMUM, SAMPLES_SUMMED, Version, read_amount, read_count
from benchapp.fio.report import (
    IDLE,
    USUAL_PERCENTS,
    Direction,
    DirectionName,
    Latency,
    Samples,
    SourceFacts,
    collect_sources,
)

# fio's own limit.
_PERCENTILES_MAXIMUM: Final = 20
_BOUNDS_FROM_US: Final = (
    *(2_000, 4_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 750_000, 1_000_000),
    *(2_000_000, 4_000_000, 10_000_000, 20_000_000, 50_000_000),
    *(100_000_000, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000, 2_000_000_000, None),
)
_BOUNDS: Final = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, *_BOUNDS_FROM_US)


def read_json_latency(printed: PrintedLatency | None, scale: int) -> Latency | None:
    """Read slat, clat or lat in units of `scale` ns; None where fio counted no samples."""
    if printed is None:
        return None
    count, minimum, maximum, mean = printed.N, printed.min, printed.max, printed.mean
    # Before 3.18 there is no N: all zeros mean that nothing was measured.
    if count == 0 or (count is None and not minimum and not maximum and not mean):
        return None
    if minimum is not None and maximum is not None and minimum > maximum:
        return None
    stddev, percentiles, bins = printed.stddev, printed.percentile, printed.bins
    if scale != 1:
        minimum, maximum = _convert(minimum, scale), _convert(maximum, scale)
        mean, stddev = _convert(mean, scale), _convert(stddev, scale)
    return Latency(
        minimum,
        maximum,
        mean,
        stddev,
        count,
        _read_percentiles(percentiles, scale) if percentiles else (),
        _read_bins(bins, scale) if bins else None,
    )


def _convert(value: Amount | None, scale: int) -> Amount | None:
    if value is None:
        return None
    scaled = round(value * scale, 3) if type(value) is float else value * scale
    return scaled if scaled <= BIGINT_MAXIMUM else None


def _read_percentiles(printed: Percentiles, scale: int) -> tuple[tuple[float, float], ...]:
    """Read percentiles, ascending; fio before 3.4 pads unused slots with the key 0.00. None of more than fio prints."""
    if len(printed) > _PERCENTILES_MAXIMUM:
        return ()
    # Compared with at once, as it is most of the work.
    if scale == 1 and tuple(printed) == USUAL_PERCENTS:
        return tuple(printed.items())
    percentiles = [
        (percent, amount * scale)
        for percent, amount in printed.items()
        if percent and amount * scale <= BIGINT_MAXIMUM
    ]
    percentiles.sort()
    return tuple(percentiles)


def _read_bins(printed: Bins, scale: int) -> Mapping[int, int] | None:
    """Read a histogram, ascending by value; None if a value is out of range."""
    values = list(printed)
    in_order = sorted(values)
    if in_order[-1] * scale > BIGINT_MAXIMUM:
        return None
    if scale == 1 and values == in_order:
        return printed
    return {value * scale: printed[value] for value in in_order}


def read_json_shares(job: PrintedJob) -> tuple[tuple[int | None, float], ...]:
    """Read latency_ns (2.99), _us and _ms: (upper bound in ns, per cent of I/Os), ascending; None is above all."""
    if job.latency_us is None or job.latency_ms is None:
        return ()
    shares = astuple(job.latency_us) + astuple(job.latency_ms)
    if job.latency_ns is None:
        return tuple(zip(_BOUNDS_FROM_US, shares, strict=True))
    return tuple(zip(_BOUNDS, astuple(job.latency_ns) + shares, strict=True))


# Before this one an inverted test left the samples at 0 or stale.
_SAMPLES_RELIABLE: Final[Version] = (2, 0, 15)
_KIB: Final = 1024
_US_IN_NS: Final = 1000
_NEEDED: Final = ("io_bytes", "total_ios", "runtime")
_BANDWIDTH_SAMPLES: Final = "bw_min, bw_max, bw_mean, bw_dev in KiB/s × 1024"
_IOPS_SAMPLES: Final = "iops_min, iops_max, iops_mean, iops_stddev"


class _SourceTexts(Struct, frozen=True, gc=False):
    """The source texts of latencies and of their percentiles, in one unit."""

    submission: str
    completion: str
    total: str
    of_completion: str
    of_total: str
    both: str
    mislabeled: str


def _make_source_texts(suffix: str, conversion: str) -> _SourceTexts:
    slat, clat, lat = (kind + suffix for kind in ("slat", "clat", "lat"))
    return _SourceTexts(
        submission=slat + conversion,
        completion=clat + conversion,
        total=lat + conversion,
        of_completion=f"percentile of {clat}{conversion}",
        of_total=f"percentile of {lat}{conversion}",
        both=f"percentile of {clat} and {lat}{conversion}",
        mislabeled=f"percentile of {clat}{conversion}, where this version prints those of {lat}",
    )


_IN_NS: Final = _make_source_texts("_ns", "")
_IN_US: Final = _make_source_texts("", " in µs × 1000")


class Printing(Struct, frozen=True, gc=False):
    """The properties that determine how an entry is read: the version and the number of clones summed into it.

    is_mislabeled: percentiles of lat are printed under clat_ns.
    """

    version: Version
    clones: int
    is_mislabeled: bool


def is_idle(printed: PrintedDirection) -> bool:
    """Return whether a direction has no I/O and no run time; fio prints all directions, used or not."""
    if printed.total_ios or printed.io_bytes or printed.runtime:
        return False
    odd = list_odd(printed)
    return not odd or not any(key in odd for key in _NEEDED)


def describe_idle(name: DirectionName) -> Direction:
    """Return a configured direction without I/O."""
    return Direction(name, 0, 0, None, None, None, missing=IDLE)


def read_json_direction(name: DirectionName, printed: PrintedDirection, printing: Printing) -> Direction:
    """Return the values of read, write, trim or mixed."""
    odd = list_odd(printed)
    runtime_ms = printed.runtime
    io_bytes, io_fact = _read_io_bytes(printed, odd)
    iops, iops_fact = _read_iops(printed, odd)
    bandwidth, bandwidth_fact = _read_bandwidth(printed, io_bytes, odd)
    latencies = _read_latencies(printed, is_mislabeled=printing.is_mislabeled)
    bandwidth_samples, bandwidth_samples_fact = _read_bandwidth_samples(printed, printing)
    iops_samples, iops_samples_fact = _read_iops_samples(printed, printing)
    account = collect_sources(
        SourceFacts(
            io_fact,
            "total_ios" if printed.total_ios is not None else odd.get("total_ios", "not-reported"),
            iops_fact,
            bandwidth_fact,
            "runtime in ms ÷ 1000" if runtime_ms is not None else odd.get("runtime", "not-reported"),
            *latencies.facts,
            bandwidth_samples_fact,
            iops_samples_fact,
            None if printed.short_ios is None else "short_ios",
            None if printed.drop_ios is None else "drop_ios",
        )
    )
    return Direction(
        name,
        io_bytes,
        printed.total_ios,
        iops,
        bandwidth,
        None if runtime_ms is None else runtime_ms / 1000,
        latencies.submission,
        latencies.completion,
        latencies.total,
        bandwidth_samples,
        iops_samples,
        account.missing,
        account.sources,
        printed.short_ios,
        printed.drop_ios,
    )


def read_sync(printed: PrintedDirection) -> Direction:
    """Return the latency of fsync and the like, the only value that fio prints for them."""
    total = _read_kind(printed.lat_ns, printed.lat)
    texts = _IN_NS if printed.lat_ns else _IN_US
    absent = "not-measured" if printed.lat_ns or printed.lat else "not-reported"
    percentiles = "not-reported" if total else absent
    account = collect_sources(
        SourceFacts(
            io_bytes="not-reported",
            total_ios="total_ios",
            iops="not-reported",
            bandwidth_bytes_per_s="not-reported",
            runtime_s="not-reported",
            total=texts.total if total else None,
            latency=None if total else absent,
            percentiles=texts.of_total if total and total.percentiles else percentiles,
        )
    )
    return Direction(
        "sync",
        None,
        printed.total_ios,
        None,
        None,
        None,
        total=total,
        missing=account.missing,
        sources=account.sources,
    )


def _read_io_bytes(printed: PrintedDirection, odd: Mapping[str, str]) -> tuple[int | None, str]:
    """Read io_bytes, which was KiB before 2.21; io_kbytes came with bytes, and so, later, did ns."""
    count = printed.io_bytes
    if count is None:
        return None, odd.get("io_bytes", "not-reported")
    if printed.io_kbytes is not None or printed.clat_ns or printed.lat_ns or "io_kbytes" in odd:
        return count, "io_bytes"
    count = read_count(count * _KIB)
    return count, "out-of-range" if count is None else "io_bytes in KiB × 1024"


def _read_iops(printed: PrintedDirection, odd: Mapping[str, str]) -> tuple[float | None, str]:
    if printed.runtime == 0:
        return None, "zero-runtime"
    if printed.iops is None:
        return None, odd.get("iops", "not-reported")
    return float(printed.iops), "iops"


def _read_bandwidth(
    printed: PrintedDirection, io_bytes: int | None, odd: Mapping[str, str]
) -> tuple[float | None, str]:
    """Prefer bw_bytes (3.2) to what can be calculated, and both to bw, which is KiB/s cut to whole ones."""
    if printed.runtime == 0:
        return None, "zero-runtime"
    if printed.bw_bytes is not None:
        return float(printed.bw_bytes), "bw_bytes"
    if io_bytes is not None and printed.runtime:
        bandwidth = read_amount(io_bytes * 1000 / printed.runtime)
        return bandwidth, "out-of-range" if bandwidth is None else "io_bytes × 1000 ÷ runtime in ms"
    if printed.bw is None:
        return None, odd.get("bw", odd.get("bw_bytes", "not-reported"))
    bandwidth = read_amount(float(printed.bw * _KIB))
    return bandwidth, "out-of-range" if bandwidth is None else "bw in KiB/s × 1024"


def _read_kind(in_ns: PrintedLatency | None, in_us: PrintedLatency | None) -> Latency | None:
    """Read one kind of latency, in the unit of its key."""
    return read_json_latency(in_us, _US_IN_NS) if in_ns is None else read_json_latency(in_ns, 1)


class _Latencies(Struct, gc=False):
    """slat, clat and lat; facts: of each of them, of latency as such, and of percentiles."""

    submission: Latency | None
    completion: Latency | None
    total: Latency | None
    facts: tuple[str | None, str | None, str | None, str | None, str | None]


def _read_latencies(printed: PrintedDirection, *, is_mislabeled: bool) -> _Latencies:
    submission = _read_kind(printed.slat_ns, printed.slat)
    completion = _read_kind(printed.clat_ns, printed.clat)
    total = _read_kind(printed.lat_ns, printed.lat)
    texts = _IN_NS if printed.clat_ns or printed.lat_ns else _IN_US
    if completion is None and total is None:
        absent = "not-measured" if _has_any(printed) else "not-reported"
        known = texts.submission if submission else None
        return _Latencies(submission, None, None, (known, None, None, absent, absent))
    if is_mislabeled and completion and total:
        percentiles = texts.mislabeled if completion.percentiles else "not-reported"
        total = replace(total, percentiles=completion.percentiles, bins=completion.bins)
        completion = replace(completion, percentiles=(), bins=None)
    elif completion and completion.percentiles:
        percentiles = texts.both if total and total.percentiles else texts.of_completion
    else:
        percentiles = texts.of_total if total and total.percentiles else "not-reported"
    facts = (
        texts.submission if submission else "not-measured",
        texts.completion if completion else "not-measured",
        texts.total if total else "not-measured",
        None,
        percentiles,
    )
    return _Latencies(submission, completion, total, facts)


def _has_any(printed: PrintedDirection) -> bool:
    return any((printed.clat_ns, printed.lat_ns, printed.clat, printed.lat))


def _read_bandwidth_samples(printed: PrintedDirection, printing: Printing) -> tuple[Samples | None, str]:
    samples = _make_samples(
        (printed.bw_min, printed.bw_max, printed.bw_mean, printed.bw_dev), printed.bw_samples, scale=_KIB
    )
    return (samples, _BANDWIDTH_SAMPLES) if (fact := _judge(samples, printing)) is None else (None, fact)


def _read_iops_samples(printed: PrintedDirection, printing: Printing) -> tuple[Samples | None, str]:
    if printed.iops_mean is None:
        return None, list_odd(printed).get("iops_mean", "not-reported")
    samples = _make_samples(
        (printed.iops_min, printed.iops_max, printed.iops_mean, printed.iops_stddev),
        printed.iops_samples,
        scale=1,
    )
    return (samples, _IOPS_SAMPLES) if (fact := _judge(samples, printing)) is None else (None, fact)


def _judge(samples: Samples | None, printing: Printing) -> str | None:
    """Return why samples are absent or unusable; None if they are valid."""
    if printing.version < _SAMPLES_RELIABLE and printing.version[0]:
        return "unreliable-version"
    if samples is None:
        return "short-run"
    return "per-job-samples" if printing.clones > 1 and printing.version < SAMPLES_SUMMED else None


def _make_samples(
    values: tuple[Amount | None, Amount | None, Amount | None, Amount | None],
    count: int | None,
    *,
    scale: int,
) -> Samples | None:
    minimum, maximum, mean, stddev = values
    if minimum is None or maximum is None or mean is None or stddev is None:
        return None
    if count == 0 or (count is None and not maximum and not mean):
        return None
    if scale == 1:
        return Samples(minimum, maximum, mean, stddev, count)
    if max(minimum, maximum, mean, stddev) * scale > BIGINT_MAXIMUM:
        return None
    return Samples(minimum * scale, maximum * scale, mean * scale, stddev * scale, count)
