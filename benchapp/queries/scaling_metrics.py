"""What a scaling picture can show: the metrics of the catalogue, and those made of one of them."""

from dataclasses import dataclass
from typing import Final, Literal

from benchapp.metrics import CATALOGUE, PERCENTILES, Metric, Unit


@dataclass(frozen=True, slots=True)
class ScalingMetric:
    """A metric of a picture. base: the metric of the catalogue that it is made of, in the same unit.

    is_per_volume: divided by the number of volumes. may_mix: the median over several series means something, which
    that of percentiles does not.
    """

    name: str
    base: str
    label: str
    unit: Unit
    better: Literal["higher", "lower"]
    is_per_volume: bool = False
    may_mix: bool = True

    @property
    def is_throughput(self) -> bool:
        """Say whether more volumes should give more of it."""
        return self.unit in ("operations/s", "bytes/s")


def _take(metric: Metric) -> ScalingMetric:
    may_mix = metric.name not in PERCENTILES
    return ScalingMetric(metric.name, metric.name, metric.label, metric.unit, metric.better, may_mix=may_mix)


SCALING_METRICS: Final[dict[str, ScalingMetric]] = {
    **{name: _take(metric) for name, metric in CATALOGUE.items()},
    "iops_per_volume": ScalingMetric(
        "iops_per_volume", "iops", "IOPS per volume", "operations/s", "higher", is_per_volume=True
    ),
    "bandwidth_per_volume": ScalingMetric(
        "bandwidth_per_volume",
        "bandwidth_bytes_per_s",
        "Bandwidth per volume",
        "bytes/s",
        "higher",
        is_per_volume=True,
    ),
}
# What a latency may be drawn over.
THROUGHPUTS: Final = ("iops", "bandwidth_bytes_per_s")
