"""Provenance of each value of a direction: the printed value and its conversion, or why it is absent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from benchapp.catalog.metrics import CATALOG, PERCENTILES
from benchapp.fio.merging.directions import find_weight
from benchapp.fio.report import Direction, Latency, Samples
from benchapp.intake.normalize.missing_reasons import describe_missing
from benchapp.intake.provenance.shapes import DerivedPercentile, DerivedPercentiles, DerivedValue

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

    clones: jobs that fio summed into a single entry.
    """

    directions: tuple[Direction, ...]
    name: str
    clones: int = 1

    def describe(self, rule: str, *, source: str = "") -> str:
        """Return the merge rule as text; without a merge, that the value is as printed.

        source: of the merged direction, which names the weights of a mean.
        """
        if len(self.directions) > 1:
            return rule.format(n=len(self.directions), parts=self.name, weight=find_weight(source))
        return f"as printed by fio, sum of {self.clones} jobs" if self.clones > 1 else "as printed by fio"


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
        jobs = f"one group of {parts.clones} jobs" if parts.clones > 1 else "one job"
        how = f"as printed by fio for {jobs}"
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
