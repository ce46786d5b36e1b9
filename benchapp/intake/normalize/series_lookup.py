"""Which stored series a measurement belongs to: by its key, or by the targets that it had before its name was known."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchapp.intake.normalize.plan import Plan, PlannedMeasurement, PlannedRun
from benchapp.models import Series
from benchapp.storage.write.identity import series_key

PlannedSeries = Mapping[bytes, tuple[PlannedRun, PlannedMeasurement]]


@dataclass(frozen=True, slots=True)
class FoundSeries:
    """Ids by planned key; a key in neither is a new series.

    ids: existing series. continued: series of the same storage without this name, each for the first key that comes.
    """

    ids: dict[bytes, int]
    continued: dict[bytes, int]

    def find(self, key: bytes) -> int | None:
        """Return the series that gets the measurement of a key; None for a new one."""
        return self.ids.get(key) or self.continued.get(key)


def list_planned(plans: Iterable[Plan]) -> dict[bytes, tuple[PlannedRun, PlannedMeasurement]]:
    """Return what is planned by the key of its series, in order."""
    return {each.series_key: (run, each) for plan in plans for run in plan.runs for each in run.measurements}


def find_series(planned: PlannedSeries) -> FoundSeries:
    """Return the series of planned measurements; one query, three if any is not known by its key."""
    ids = _find_keys(planned)
    left = {key: each for key, each in planned.items() if key not in ids}
    if not left:
        return FoundSeries(ids, {})
    ids |= _find_renamed(left)
    former_keys = {
        key: list(_list_former_keys(run, measurement))
        for key, (run, measurement) in left.items()
        if key not in ids
    }
    former = _find_keys(set().union(*former_keys.values()))
    continued: dict[bytes, int] = {}
    taken: set[int] = set()
    for key, candidates in former_keys.items():
        series_id = next((former[each] for each in candidates if each in former), None)
        if series_id is not None and series_id not in taken:
            continued[key] = series_id
            taken.add(series_id)
    return FoundSeries(ids, continued)


def _find_keys(keys: Iterable[bytes]) -> dict[bytes, int]:
    rows = Series.objects.filter(key__in=list(keys)).values_list("key", "pk")
    return {bytes(key): pk for key, pk in rows}


def _list_former_keys(run: PlannedRun, measurement: PlannedMeasurement) -> Iterator[bytes]:
    for target_key in measurement.target.former_keys:
        yield series_key(
            scope=run.source.scope,
            target_key=target_key,
            workload_key=measurement.workload_key,
            direction=measurement.direction,
        )


def _find_renamed(planned: PlannedSeries) -> dict[bytes, int]:
    """Return the series that go on under another name than that of the measurement."""
    wanted: dict[tuple[str, bytes, str], list[tuple[str, bytes]]] = defaultdict(list)
    for key, (run, each) in planned.items():
        wanted[run.source.scope, each.workload_key, each.direction].append((each.target.key.hex(), key))
    rows = Series.objects.filter(
        scope__in={scope for scope, *_ in wanted},
        workload__key__in={workload_key for _, workload_key, _ in wanted},
        former_targets__overlap=[target_key for pairs in wanted.values() for target_key, _ in pairs],
    )
    columns = ("pk", "scope", "workload__key", "direction", "former_targets")
    found: dict[bytes, int] = {}
    for pk, scope, workload_key, direction, former_targets in rows.order_by("pk").values_list(*columns):
        for target_key, key in wanted.get((scope, bytes(workload_key), direction), ()):
            if target_key in former_targets:
                found.setdefault(key, pk)
    return found
