"""Provenance of each value of a direction: the printed value and its conversion, or why it is absent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from benchapp.catalog.metrics import CATALOG, PERCENTILES
from benchapp.fio.merging.directions import find_weight
from benchapp.fio.report import Direction, Latency, Note, Samples, SteadyState
from benchapp.intake.normalize.measurement import describe_missing


@dataclass(frozen=True, slots=True)
class DerivedValue:
    """One value. value: in the base unit `unit`, None if absent.

    printed_as: the value in the fio output and its conversion, empty if unknown. how: derivation.
    code: reason of absence, stable; reason: the same as text.
    """

    name: str
    label: str
    unit: str
    value: float | None
    printed_as: str
    how: str
    code: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DerivedPercentile:
    """One percentile, per cent and ns."""

    percent: float
    ns: float


@dataclass(frozen=True, slots=True)
class DerivedPercentiles:
    """All percentiles of one distribution. kind: clat or lat; how: derivation, or reason of absence."""

    kind: str
    printed_as: str
    how: str
    code: str | None
    values: tuple[DerivedPercentile, ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """One part of a workload. value: canonical; source: where it was reported, or that it was not."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class MergedJob:
    """One entry of fio's report. index: its position; clones: jobs that fio summed into it, None if unknown."""

    index: int
    name: str
    hostname: str | None
    clones: int | None


@dataclass(frozen=True, slots=True)
class MeasurementProvenance:
    """One measurement, at its position in the run's table.

    jobs: the merged entries, truncated; job_count: the jobs in all of them, None if unknown.
    """

    position: int
    job_name: str
    hostname: str | None
    groupid: int
    direction: str
    error: int
    numjobs: int | None
    job_count: int | None
    jobs: tuple[MergedJob, ...]
    workload: tuple[WorkloadPart, ...]
    values: tuple[DerivedValue, ...]
    percentiles: DerivedPercentiles

    def is_stored_as(self, job_name: str, direction: str) -> bool:
        """Return whether the stored measurement at this position is the same; another parser may have found others."""
        return direction == self.direction and job_name == self.job_name[:200]


@dataclass(frozen=True, slots=True)
class TotalProvenance:
    """Total of one fio group in one direction, or in all ("total").

    job_names: truncated.
    """

    groupid: int
    job_names: tuple[str, ...]
    direction: str
    values: tuple[DerivedValue, ...]


@dataclass(frozen=True, slots=True)
class LatencyShare:
    """Percentage of I/Os below below_ns and at or above the previous bound; None: the rest."""

    below_ns: int | None
    percent: float


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """Values of one entry of the fio report besides its directions.

    is_aggregate: fio's total over servers, not stored. depth: iodepth level → percentage of I/Os.
    """

    index: int
    name: str
    hostname: str | None
    groupid: int
    clones: int | None
    error: int
    is_aggregate: bool
    cpu_user_percent: float | None
    cpu_system_percent: float | None
    context_switches: int | None
    depth: Mapping[str, float]
    latency_shares: tuple[LatencyShare, ...]
    steady_state: SteadyState | None


@dataclass(frozen=True, slots=True)
class ReportedDisk:
    """Disk statistics reported by fio. is_member: of the preceding md or dm device."""

    name: str
    is_member: bool
    read_ios: int | None
    write_ios: int | None
    read_busy_s: float | None
    write_busy_s: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True)
class ReportProvenance:
    """Provenance of one document of a fio output, by the current parser.

    document: its index, documents: their count. format_version: of terse; has_precise_values: False if the format
    rounds. measurements, totals, jobs, disks: one page of each, from `position` on; next_position: of the next page,
    None on the last one. measurement_count: on all pages. warnings, messages: of the whole output; messages are lines
    outside of reports.
    """

    format: str
    format_version: int | None
    has_precise_values: bool
    is_partial: bool
    fio_version: str
    parser_version: int
    documents: int
    document: int
    started_at: datetime | None
    finished_at: datetime | None
    measurement_count: int
    position: int
    next_position: int | None
    measurements: tuple[MeasurementProvenance, ...]
    totals: tuple[TotalProvenance, ...]
    jobs: tuple[ReportedJob, ...]
    disks: tuple[ReportedDisk, ...]
    warnings: tuple[Note, ...]
    messages: tuple[str, ...]


_SUM: Final = "sum of {n} {parts}"
_MAXIMUM_TIME: Final = "maximum of {n} {parts}"
_WEIGHTED: Final = "mean of {n} {parts}, weighted by their {weight}"
_POOLED: Final = "pooled over {n} {parts}: within them and between their means"
_MINIMUM_OF: Final = "minimum of {n} {parts}"
_MAXIMUM_OF: Final = "maximum of {n} {parts}"
_BINS: Final = "merged from the histogram bins of {n} {parts}"
_KINDS: Final = {"clat": "completion", "lat": "total"}


@dataclass(frozen=True, slots=True)
class ValueParts:
    """Parts of a direction: those of several entries or groups with I/O; `name` is their plural.

    clones: jobs that fio summed into a single entry; None if unknown.
    """

    directions: tuple[Direction, ...]
    name: str
    clones: int | None = 1

    def describe(self, rule: str, *, source: str = "") -> str:
        """Return the merge rule as text; without a merge, that the value is as printed.

        source: of the merged direction, which names the weights of a mean.
        """
        if len(self.directions) > 1:
            return rule.format(n=len(self.directions), parts=self.name, weight=find_weight(source))
        is_sum = self.clones is not None and self.clones > 1
        return f"as printed by fio, sum of {self.clones} jobs" if is_sum else "as printed by fio"


@dataclass(frozen=True, slots=True)
class _ValueSpec:
    """One value. key: its name in `missing` and `sources`; other_keys: further names there; read: gets the value."""

    name: str
    label: str
    unit: str
    key: str
    rule: str
    read: Callable[[Direction], float | None]
    other_keys: tuple[str, ...] = ()


def _of_latency(key: str, field: str) -> Callable[[Direction], float | None]:
    def read(direction: Direction) -> float | None:
        latency: Latency | None = getattr(direction, key)
        value: float | None = getattr(latency, field) if latency else None
        return value

    return read


def _of_samples(key: str, field: str) -> Callable[[Direction], float | None]:
    def read(direction: Direction) -> float | None:
        samples: Samples | None = getattr(direction, key)
        value: float | None = getattr(samples, field) if samples else None
        return value

    return read


# By the field of the latency distribution.
_LATENCY_RULES: Final = {
    "mean_ns": _WEIGHTED,
    "stddev_ns": _POOLED,
    "minimum_ns": _MINIMUM_OF,
    "maximum_ns": _MAXIMUM_OF,
}
# Name → label and field of the latency distribution: of values that are no metrics, and of metrics.
_LATENCIES: Final = {
    "latency_stddev_ns": ("Standard deviation of latency", "stddev_ns"),
    "latency_min_ns": ("Minimum latency", "minimum_ns"),
} | {metric.name: (metric.label, metric.latency_field) for metric in CATALOG.values() if metric.latency_field}
_ELAPSED: Final = "elapsed_s"


def _of_direction(name: str, label: str, unit: str, rule: str = _SUM) -> _ValueSpec:
    return _ValueSpec(name, label, unit, name, rule, attrgetter(name))


_TOTALS: Final = (
    *(
        _of_direction(name, metric.label, metric.unit)
        for name, metric in CATALOG.items()
        if not metric.latency_field and metric.percentile is None and name != _ELAPSED
    ),
    _of_direction("io_bytes", "Data transferred", "bytes"),
    _of_direction("total_ios", "I/Os", "operations"),
    _of_direction("runtime_s", "Actual runtime", "s", _MAXIMUM_TIME),
)
_SAMPLES: Final = (
    _ValueSpec(
        "bandwidth_samples_mean",
        "Mean of fio's bandwidth samples",
        "bytes/s",
        "bandwidth_samples",
        _SUM,
        _of_samples("bandwidth_samples", "mean"),
    ),
    _ValueSpec(
        "iops_samples_mean",
        "Mean of fio's IOPS samples",
        "operations/s",
        "iops_samples",
        _SUM,
        _of_samples("iops_samples", "mean"),
    ),
)
_OTHER_LATENCIES: Final = (
    _ValueSpec(
        "submission_mean_ns",
        "Mean submission latency (slat)",
        "ns",
        "submission",
        _WEIGHTED,
        _of_latency("submission", "mean_ns"),
    ),
    _ValueSpec(
        "completion_mean_ns",
        "Mean completion latency (clat)",
        "ns",
        "completion",
        _WEIGHTED,
        _of_latency("completion", "mean_ns"),
    ),
    _ValueSpec(
        "total_mean_ns", "Mean total latency (lat)", "ns", "total", _WEIGHTED, _of_latency("total", "mean_ns")
    ),
)


def derive_values(
    direction: Direction,
    parts: ValueParts,
    *,
    kind: str,
    values: Mapping[str, float | None],
    missing: Mapping[str, str],
) -> tuple[DerivedValue, ...]:
    """Return the values of a direction in display order: rates, latency metrics, supporting values.

    kind: clat or lat, of the percentiles; values: the percentile metrics, without withheld ones;
    missing: name of an absent value → reason code.
    """
    if direction.elapsed_s is None:
        specs = [*_TOTALS, *_list_latency_specs("total" if direction.total else "completion")]
    else:
        specs = [_of_direction(_ELAPSED, CATALOG[_ELAPSED].label, "s")]
    derived = [_derive(spec, direction, parts, missing=missing, value=spec.read(direction)) for spec in specs]
    if direction.elapsed_s is None:
        rule = _BINS if _was_merged(parts) else ""
        for name in PERCENTILES:
            label, keys = CATALOG[name].label, (_KINDS.get(kind, ""),)
            spec = _ValueSpec(name, label, "ns", "percentiles", rule, _take_none, other_keys=keys)
            derived.append(_derive(spec, direction, parts, missing=missing, value=values.get(name)))
    others = [spec for spec in (*_OTHER_LATENCIES, *_SAMPLES) if direction.elapsed_s is None]
    return (
        *derived,
        *(_derive(spec, direction, parts, missing=missing, value=spec.read(direction)) for spec in others),
    )


def derive_total(direction: Direction, parts: ValueParts) -> tuple[DerivedValue, ...]:
    """Return the values of several concurrent groups: rates, sums, mean latency and percentiles."""
    kind = "clat" if direction.completion is not None else "lat"
    of_kind = direction.completion if kind == "clat" else direction.total
    percentiles = dict(of_kind.percentiles) if of_kind else {}
    values = {name: percentiles.get(percent) for name, percent in PERCENTILES.items()}
    derived = derive_values(direction, parts, kind=kind, values=values, missing=direction.missing)
    return tuple(value for value in derived if value.name not in {spec.name for spec in _SAMPLES})


def derive_percentiles(
    direction: Direction, parts: ValueParts, *, kind: str, latency: Latency | None
) -> DerivedPercentiles:
    """Return the percentiles with their derivation, or why there are none."""
    found = latency.percentiles if latency else ()
    code = None if found else _find_code(direction.missing, "percentiles", "percentiles")
    if code is not None:
        how = f"withheld: {describe_missing(code)}" if "bins" in code else f"none: {describe_missing(code)}"
    elif _was_merged(parts):
        how = parts.describe(_BINS)
    else:
        how = "as printed by fio"
        if parts.clones:
            how += f" for one group of {parts.clones} jobs" if parts.clones > 1 else " for one job"
    return DerivedPercentiles(
        kind=kind,
        printed_as=_find_source(direction, parts, "percentiles", _KINDS.get(kind, "")) if found else "",
        how=how,
        code=code,
        values=tuple(DerivedPercentile(percent, value) for percent, value in found),
    )


def _list_latency_specs(key: str) -> list[_ValueSpec]:
    return [
        _ValueSpec(name, label, "ns", key, _LATENCY_RULES[field], _of_latency(key, field))
        for name, (label, field) in _LATENCIES.items()
    ]


def _derive(
    spec: _ValueSpec,
    direction: Direction,
    parts: ValueParts,
    *,
    missing: Mapping[str, str],
    value: float | None,
) -> DerivedValue:
    code = None if value is not None else _find_code(missing, spec.name, spec.key)
    return DerivedValue(
        name=spec.name,
        label=spec.label,
        unit=spec.unit,
        value=value,
        printed_as="" if value is None else _find_source(direction, parts, spec.key, *spec.other_keys),
        how="" if value is None else parts.describe(spec.rule, source=direction.sources.get(spec.key, "")),
        code=code,
        reason=None if code is None else describe_missing(code),
    )


def _find_code(missing: Mapping[str, str], name: str, key: str) -> str:
    names = (
        name,
        key,
        "latency" if key in ("completion", "total", "submission", "percentiles") else key,
        "all",
    )
    return next((missing[each] for each in names if each in missing), "not-reported")


def _find_source(direction: Direction, parts: ValueParts, *keys: str) -> str:
    """Return the printed value: of the direction, or of the first part if merged."""
    own, first = direction.sources, parts.directions[0].sources if parts.directions else {}
    for sources in (first, own) if _was_merged(parts) else (own, first):
        for key in keys:
            if key in sources:
                return sources[key]
    return ""


def _take_none(direction: Direction) -> None:
    """Return None, for values that are passed separately."""


def _was_merged(parts: ValueParts) -> bool:
    return len(parts.directions) > 1
