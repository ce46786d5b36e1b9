"""One direction of one entry of fio's JSON, in base units."""

from collections.abc import Mapping
from typing import Any, Final

from benchapp.fio.json_latency import read_latency
from benchapp.fio.numbers import read_amount, read_count
from benchapp.fio.report import Direction, DirectionName, Samples
from benchapp.fio.version import Version

Raw = Mapping[str, Any]

# From this version the samples of clones are added up, before they were averaged over jobs.
_SAMPLES_SUMMED: Final[Version] = (3, 13, 0)
# Before this one an inverted test left the samples at 0 or stale.
_SAMPLES_RELIABLE: Final[Version] = (2, 0, 15)
_KIB: Final = 1024


def read_direction(
    name: DirectionName, raw: Raw, *, version: Version, clones: int, is_asked: bool
) -> Direction | None:
    """Return the values of one direction; None if it did no I/O and was not asked to.

    version and clones decide what fio's samples mean.
    """
    if name == "sync":
        return _read_sync(raw)
    if not raw.get("io_bytes") and not raw.get("total_ios") and not raw.get("runtime"):
        return _describe_idle(name) if is_asked else None
    io_bytes = _read_io_bytes(raw)
    total_ios = read_count(raw.get("total_ios"))
    runtime_ms = read_count(raw.get("runtime"))
    missing: dict[str, str] = {}
    iops = read_amount(raw.get("iops"))
    bandwidth = _read_bandwidth(raw, io_bytes, runtime_ms)
    if runtime_ms == 0:
        missing["iops"] = missing["bandwidth_bytes_per_s"] = "zero-runtime"
        iops = bandwidth = None
    completion = read_latency(raw, "clat")
    total = read_latency(raw, "lat")
    submission = read_latency(raw, "slat")
    bandwidth_samples = _read_bandwidth_samples(raw, version, clones, missing)
    iops_samples = _read_iops_samples(raw, version, clones, missing)
    direction = Direction(
        name,
        io_bytes,
        total_ios,
        None if iops is None else float(iops),
        bandwidth,
        None if runtime_ms is None else runtime_ms / 1000,
        submission,
        completion,
        total,
        bandwidth_samples,
        iops_samples,
        missing,
    )
    _explain_totals(direction, raw, missing)
    _explain_latency(direction, raw, missing)
    return direction


def _describe_idle(name: DirectionName) -> Direction:
    missing = dict.fromkeys(
        ("iops", "bandwidth_bytes_per_s", "latency", "percentiles", "bandwidth_samples", "iops_samples"),
        "no-io",
    )
    return Direction(name, 0, 0, None, None, None, missing=missing)


def _read_sync(raw: Raw) -> Direction | None:
    total_ios = read_count(raw.get("total_ios"))
    if not total_ios:
        return None
    total = read_latency(raw, "lat")
    missing = dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s", "runtime_s"), "not-reported")
    direction = Direction("sync", None, total_ios, None, None, None, total=total, missing=missing)
    _explain_latency(direction, raw, missing)
    return direction


def _read_io_bytes(raw: Raw) -> int | None:
    """Read io_bytes, which was KiB before 2.21; io_kbytes came with bytes, and so, later, did ns."""
    count = read_count(raw.get("io_bytes"))
    if count is None or "io_kbytes" in raw or "clat_ns" in raw or "lat_ns" in raw:
        return count
    return read_count(count * _KIB)


def _read_bandwidth(raw: Raw, io_bytes: int | None, runtime_ms: int | None) -> float | None:
    """Prefer bw_bytes (3.2) to what can be calculated, and both to bw, which is KiB/s cut to whole ones."""
    exact = read_amount(raw.get("bw_bytes"))
    if exact is not None:
        return float(exact)
    if io_bytes is not None and runtime_ms:
        return io_bytes * 1000 / runtime_ms
    coarse = read_amount(raw.get("bw"))
    return None if coarse is None else float(coarse * _KIB)


def _explain_totals(direction: Direction, raw: Raw, missing: dict[str, str]) -> None:
    for value, name, key in (
        (direction.io_bytes, "io_bytes", "io_bytes"),
        (direction.total_ios, "total_ios", "total_ios"),
        (direction.iops, "iops", "iops"),
        (direction.bandwidth_bytes_per_s, "bandwidth_bytes_per_s", "bw"),
        (direction.runtime_s, "runtime_s", "runtime"),
    ):
        if value is None and name not in missing:
            missing[name] = "out-of-range" if type(raw.get(key)) in (int, float) else "not-reported"


def _explain_latency(direction: Direction, raw: Raw, missing: dict[str, str]) -> None:
    completion, total = direction.completion, direction.total
    if completion is None and total is None:
        has_any = any(key.startswith(("clat", "lat")) for key in raw)
        missing["latency"] = missing["percentiles"] = "not-measured" if has_any else "not-reported"
        return
    if not (completion and completion.percentiles) and not (total and total.percentiles):
        missing["percentiles"] = "not-reported"
    if direction.name == "sync":
        return
    for latency, name in ((direction.submission, "submission"), (completion, "completion"), (total, "total")):
        if latency is None:
            missing[name] = "not-measured"


def _read_bandwidth_samples(
    raw: Raw, version: Version, clones: int, missing: dict[str, str]
) -> Samples | None:
    samples = _read_samples(raw, ("bw_min", "bw_max", "bw_mean", "bw_dev", "bw_samples"), scale=_KIB)
    return _judge_samples(samples, "bandwidth_samples", version=version, clones=clones, missing=missing)


def _read_iops_samples(raw: Raw, version: Version, clones: int, missing: dict[str, str]) -> Samples | None:
    if "iops_mean" not in raw:
        missing["iops_samples"] = "not-reported"
        return None
    samples = _read_samples(
        raw, ("iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"), scale=1
    )
    return _judge_samples(samples, "iops_samples", version=version, clones=clones, missing=missing)


def _judge_samples(
    samples: Samples | None, name: str, *, version: Version, clones: int, missing: dict[str, str]
) -> Samples | None:
    if version < _SAMPLES_RELIABLE and version[0]:
        missing[name] = "unreliable-version"
    elif samples is None:
        missing[name] = "short-run"
    elif clones > 1 and version < _SAMPLES_SUMMED:
        missing[name] = "per-job-samples"
    else:
        return samples
    return None


def _read_samples(raw: Raw, keys: tuple[str, str, str, str, str], *, scale: int) -> Samples | None:
    minimum, maximum, mean, stddev = (read_amount(raw.get(key)) for key in keys[:4])
    count = read_count(raw.get(keys[4]))
    if minimum is None or maximum is None or mean is None or stddev is None:
        return None
    if count == 0 or (count is None and not maximum and not mean):
        return None
    return Samples(minimum * scale, maximum * scale, mean * scale, stddev * scale, count)
