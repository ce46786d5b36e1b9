"""Two months of a user's fleet: 11 hosts, 4 layouts, four runs a day, and planted events of many kinds.

The noise is that of `fleet_noise`; latencies follow from the IOPS. The events differ in size, reach, shape and metric:
steps of a host, a volume type and a stripe width, a temporary one, drifts, an improvement, new firmware on some hosts,
a latency percentile alone, a host that alternates between two levels, and one that becomes noisy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchapp.models import DetectionResult, Series
from benchmarks.fleet_noise import Array, make_metrics, make_values
from benchmarks.fleet_world import START, STEP, Layout, Upgrade, World, find_layouts, list_cells, write_world
from benchmarks.histories import make_generator, round_to_buckets

HOSTS: Final = 11
RUNS: Final = 240
LAYOUTS: Final = tuple(Layout(kind, width) for kind in ("gp3", "st1") for width in (1, 4))
# Of an additional run with the one before it, an assumption: they share the state of caches and neighbors.
CORRELATION: Final = 0.5
_SATURDAY: Final = 5
_WEEKEND_LOSS: Final = 0.15
# Run at which the level of the last host is accepted.
_ACCEPTED_RUN: Final = 40
_FIRMWARE_HOSTS: Final = (6, 7, 8)
_LATENCIES: Final = ("latency_mean_ns", "latency_p50_ns", "latency_p95_ns", "latency_p99_ns")


@dataclass(frozen=True, slots=True)
class PlantedEvent:
    """One planted event.

    run: index of its first run; until: of the first run after it. sizes: the expected relative change by metric, empty
    if no incident is expected. shape: step; drift: over 120 runs; comes and goes: 8 of each 20 runs. upgrade: what the
    environment of its hosts records.
    """

    name: str
    cells: frozenset[int]
    run: int
    sizes: Mapping[str, float]
    until: int = RUNS
    shape: str = "step"
    upgrade: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """Return whether it is a loss of IOPS, or a longer latency."""
        return self.sizes.get("iops", -1.0) < 0


def list_events(cells: int) -> tuple[PlantedEvent, ...]:
    """Return the events. cells: series of each host, a multiple of 4."""

    def of(*hosts: int, volume_type: str | None = None, stripe_count: int | None = None) -> frozenset[int]:
        layouts = find_layouts(LAYOUTS, volume_type=volume_type, stripe_count=stripe_count)
        chosen = (
            list_cells(HOSTS, cells, host=host, layouts=layouts, of=len(LAYOUTS))
            for host in hosts or range(HOSTS)
        )
        return frozenset().union(*chosen)

    return (
        PlantedEvent("host-01, new kernel", of(0), 60, _lose(0.08), upgrade={"kernel": "6.2.0"}),
        PlantedEvent("st1 on all hosts", of(volume_type="st1"), 110, _lose(0.15)),
        PlantedEvent("4 stripes on all hosts", of(stripe_count=4), 150, _lose(0.10)),
        PlantedEvent("host-03, for 40 runs", of(2), 50, _lose(0.20), until=90),
        PlantedEvent("host-05, drift", of(4), 70, _lose(0.20), shape="drift"),
        PlantedEvent("host-06, improvement", of(5), 125, _lose(-0.12)),
        PlantedEvent(
            "3 hosts, new firmware",
            of(*_FIRMWARE_HOSTS),
            180,
            _lose(0.06),
            upgrade={"device_firmware": "2.1"},
        ),
        PlantedEvent("host-04, p99 latency alone", of(3), 170, {"latency_p99_ns": 0.5}),
        PlantedEvent("host-10, comes and goes", of(9), 60, _lose(0.25), shape="comes and goes"),
        PlantedEvent("host-02, three times the noise", of(1), 110, {}, shape="noise"),
        PlantedEvent("host-11, drift from an accepted level", of(10), 70, _lose(0.20), shape="drift"),
    )


def make_months(*, cells: int, seed: int, additional: int = 0) -> World:
    """Write the fleet of the two months without runs.

    cells: series of each host, a multiple of 4. additional: runs that can follow each run.
    """
    events = list_events(cells)
    iops = make_values(hosts=HOSTS, cells=cells, runs=RUNS, seed=seed)
    generator = make_generator("fleet additional", seed)
    others = [iops]
    for _ in range(additional):
        others.append(_repeat(others[-1], iops, generator))
    scheduled, *repeated = [
        _make_metrics(each, events, cells=cells, seed=seed if number == 0 else seed * 1000 + number)
        for number, each in enumerate(others)
    ]
    upgrades = [_list_upgrades(host, events, cells, seed=seed) for host in range(HOSTS)]
    return write_world(scheduled, upgrades=upgrades, layouts=LAYOUTS, additional=repeated)


def _repeat(earlier: Array, iops: Array, generator: np.random.Generator) -> Array:
    """Return the IOPS of a run that follows each of `earlier`: correlated with it, otherwise as any run of its cell."""
    medians = np.median(iops, axis=1, keepdims=True)
    fresh = generator.permuted(iops, axis=1) - medians
    deviations = CORRELATION * (earlier - medians) + np.sqrt(1 - CORRELATION**2) * fresh
    return np.maximum(medians + deviations, 0.05 * medians)


def _make_metrics(iops: Array, events: Sequence[PlantedEvent], *, cells: int, seed: int) -> dict[str, Array]:
    """Return the metrics of all runs with the events. iops: without them; not changed."""
    iops = iops.copy()
    for event in events:
        _change_iops(iops, event)
    values = make_metrics(iops, works=cells // len(LAYOUTS), seed=seed)
    for event in events:
        if event.sizes and "iops" not in event.sizes:
            for metric, size in event.sizes.items():
                rows = sorted(event.cells)
                values[metric][rows, event.run : event.until] *= 1 + size
    for metric in _LATENCIES[1:]:
        values[metric] = round_to_buckets(values[metric])
    return values


def make_weekends(*, hosts: int, cells: int, seed: int) -> World:
    """Write a fleet of two months without runs, whose series lose 15 % on Saturdays and Sundays (UTC)."""
    iops = make_values(hosts=hosts, cells=cells, runs=RUNS, seed=seed)
    days = [(START + run * STEP).weekday() for run in range(RUNS)]
    iops[:, [day >= _SATURDAY for day in days]] *= 1 - _WEEKEND_LOSS
    values = make_metrics(iops, works=cells // len(LAYOUTS), seed=seed)
    for metric in _LATENCIES[1:]:
        values[metric] = round_to_buckets(values[metric])
    return write_world(values, upgrades=[[Upgrade(0, {"kernel": "6.0.0"})]] * hosts, layouts=LAYOUTS)


def accept_level_at(run: int) -> None:
    """Accept the level of the last host as its baseline after the 40th run, from its first run on."""
    if run != _ACCEPTED_RUN:
        return
    series = Series.objects.filter(host__name=f"host-{HOSTS:02}")
    DetectionResult.objects.filter(series__in=series).update(baseline_from_at=START)
    series.update(judging_is_due=True)


def _lose(share: float) -> dict[str, float]:
    """Return the changes of all metrics when the IOPS decrease by this share."""
    longer = 1 / (1 - share) - 1
    return {"iops": -share, "bandwidth_bytes_per_s": -share} | dict.fromkeys(_LATENCIES, longer)


def _change_iops(iops: Array, event: PlantedEvent) -> None:
    rows, place = sorted(event.cells), np.arange(RUNS)
    if event.shape == "noise":
        medians = np.median(iops[rows], axis=1, keepdims=True)
        later = iops[rows, event.run :]
        iops[rows, event.run :] = np.maximum(medians + 3 * (later - medians), 0.05 * medians)
        return
    size = event.sizes.get("iops", 0.0)
    since = place - event.run
    if event.shape == "drift":
        factor = 1 + size * np.clip(since / 120, 0, 1)
    elif event.shape == "comes and goes":
        factor = np.where((since >= 0) & (since % 20 < 8), 1 + size, 1.0)
    else:
        factor = np.where((since >= 0) & (place < event.until), 1 + size, 1.0)
    iops[rows] *= factor


def _list_upgrades(host: int, events: Sequence[PlantedEvent], cells: int, *, seed: int) -> list[Upgrade]:
    """Return the environments of a host: a harmless kernel on all hosts from run 30 on, and those of the events."""
    generator = make_generator("fleet upgrades", seed, host)
    facts = {"kernel": "6.0.0", "device_firmware": "2.0"}
    upgrades = [Upgrade(0, dict(facts))]
    harmless = 30 + int(generator.integers(-1, 2))
    changes = [(harmless, {"kernel": "6.1.0"})]
    changes += [
        (event.run, dict(event.upgrade)) for event in events if event.upgrade and host * cells in event.cells
    ]
    for run, changed in sorted(changes, key=lambda change: change[0]):
        facts |= changed
        upgrades.append(Upgrade(run, dict(facts)))
    return upgrades
