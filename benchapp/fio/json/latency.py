"""One latency distribution of fio's JSON, in ns."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import astuple

from benchapp.fio.json.shape import Amount, Bins, Percentiles, PrintedJob, PrintedLatency
from benchapp.fio.numbers import BIGINT_MAXIMUM
from benchapp.fio.report import USUAL_PERCENTS, Latency

# fio's own limit.
_PERCENTILES_MAXIMUM: Final = 20
_BOUNDS_FROM_US: Final = (
    *(2_000, 4_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 750_000, 1_000_000),
    *(2_000_000, 4_000_000, 10_000_000, 20_000_000, 50_000_000),
    *(100_000_000, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000, 2_000_000_000, None),
)
_BOUNDS: Final = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, *_BOUNDS_FROM_US)


def read_json_latency(printed: PrintedLatency | None, scale: int) -> Latency | None:
    """Read slat, clat or lat, of which one unit is `scale` ns; None where fio counted no samples."""
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
