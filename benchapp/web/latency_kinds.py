"""Which of fio's latencies the columns of a run are of: total (lat) or completion (clat)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from benchapp.queries.runs import MeasurementRow

KIND_NAMES: Final = {"lat": "total latency (lat)", "clat": "completion latency (clat)"}
# The first parser took mean and maximum from where the percentiles came from.
_FIRST_WITH_TOTAL: Final = 2


@dataclass(frozen=True, slots=True)
class LatencyKinds:
    """lat or clat, of mean and maximum and of the percentiles; empty where there are none."""

    mean: str
    percentiles: str


def find_kinds(measurement: MeasurementRow, *, parser_version: int) -> LatencyKinds:
    """Return of which latencies the metrics of a measurement are; parser_version: of its run."""
    has_mean = measurement.latency_mean_ns is not None or measurement.latency_max_ns is not None
    if parser_version < _FIRST_WITH_TOTAL:
        mean = measurement.latency_kind
    else:
        mean = "clat" if "total" in measurement.missing else "lat"
    return LatencyKinds(mean if has_mean else "", measurement.latency_kind if measurement.percentiles else "")


def choose_usual(kinds: Iterable[LatencyKinds]) -> LatencyKinds:
    """Return what holds for most rows, for each of the two among those that have any."""
    kept = list(kinds)
    return LatencyKinds(
        _find_commonest(one.mean for one in kept), _find_commonest(one.percentiles for one in kept)
    )


def say_kinds(kinds: LatencyKinds) -> str:
    """Say in a sentence of which latencies the columns are; empty where there are none."""
    if kinds.mean and kinds.mean == kinds.percentiles:
        return f"Mean, max and percentiles: {KIND_NAMES[kinds.mean]}."
    parts = [("Mean and max", kinds.mean), ("Percentiles", kinds.percentiles)]
    return " ".join(f"{columns}: {KIND_NAMES[kind]}." for columns, kind in parts if kind)


def say_unusual(kinds: LatencyKinds, usual: LatencyKinds) -> str:
    """Say in a row what differs there from the usual; empty where nothing does."""
    parts = [
        ("mean, max", kinds.mean, usual.mean),
        ("percentiles", kinds.percentiles, usual.percentiles),
    ]
    return "; ".join(f"{columns}: {kind}" for columns, kind, most in parts if kind and kind != most)


def _find_commonest(kinds: Iterable[str]) -> str:
    return next((kind for kind, _ in Counter(kind for kind in kinds if kind).most_common(1)), "")
