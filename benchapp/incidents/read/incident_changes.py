"""The changes of one incident, sorted, and what they have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES
from benchapp.incidents.read.changes import ChangeRow, read_change_rows
from benchapp.incidents.read.shapes import ChangeColumn, ChangeOrder
from benchapp.incidents.rules.typical_change import measure_multiple
from benchapp.models import Change, ChangeState

# Workloads whose titles are compared; of more it is not known that all have the same.
_WORKLOADS_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class SortedChanges:
    """Changes of one incident in an order; the other fields are those of IncidentDetail."""

    changes: tuple[ChangeRow, ...]
    left_out: int
    largest: ChangeRow | None
    scopes: tuple[str, ...]
    workloads: tuple[str, ...]
    live_count: int


class _Key(NamedTuple):
    """What a change is sorted by."""

    id: int
    state: str
    metric: str
    relative: float
    before: float
    after: float
    started_at: Any
    confidence: float
    scope: str
    workload_id: int
    target_id: int
    direction: str

    @property
    def size(self) -> float:
        # Relative to the metric's threshold: 15 % of IOPS outweigh 20 % of p99 latency.
        return measure_multiple(self.relative, SMALLEST_CHANGES[self.metric])


_METRICS: Final = {name: place for place, name in enumerate(CATALOG)}
_STATES: Final = {state.value: place for place, state in enumerate(ChangeState)}
_SORT_KEYS: Final[dict[ChangeColumn, Callable[[_Key], Any]]] = {
    ChangeColumn.SERIES: lambda key: (key.scope, key.workload_id, key.direction, key.target_id),
    ChangeColumn.METRIC: lambda key: _METRICS[key.metric],
    ChangeColumn.BEFORE: lambda key: (_METRICS[key.metric], key.before),
    ChangeColumn.AFTER: lambda key: (_METRICS[key.metric], key.after),
    ChangeColumn.CHANGE: lambda key: key.size,
    ChangeColumn.SINCE: lambda key: key.started_at,
    ChangeColumn.STATE: lambda key: _STATES[key.state],
    ChangeColumn.CONFIDENCE: lambda key: key.confidence,
}


def read_incident_changes(incident_id: int, *, order: ChangeOrder, limit: int) -> SortedChanges:
    """Return the first changes of an incident in an order; two queries, one without changes.

    Of those beyond the limit only the columns of the order are read.
    """
    keys = [
        _Key(*row)
        for row in Change.objects.without_steps_of_drifts()
        .filter(incident_id=incident_id)
        .order_by("id")
        .values_list(
            *("id", "state", "metric", "relative", "before_median", "after_median", "started_at"),
            *("confidence", "series__scope", "series__workload_id", "series__target_id", "series__direction"),
        )
    ]
    live = sorted((key for key in keys if key.state != ChangeState.WITHDRAWN), key=lambda key: -key.size)
    shown = _sort(keys, order)[:limit]
    # One change for the title of each workload.
    samples = {(key.workload_id, key.direction): key.id for key in reversed(live)}
    if len(samples) > _WORKLOADS_MAXIMUM:
        samples = {}
    wanted = {*(key.id for key in (*shown, *live[:1])), *samples.values()}
    rows = {row.id: row for row in read_change_rows(Change.objects.filter(pk__in=wanted))} if wanted else {}
    titles = (rows[pk].series.workload_title for pk in samples.values() if pk in rows)
    return SortedChanges(
        changes=tuple(rows[key.id] for key in shown if key.id in rows),
        left_out=len(keys) - len(shown),
        largest=rows.get(live[0].id) if live else None,
        scopes=tuple(dict.fromkeys(key.scope for key in live)),
        workloads=tuple(dict.fromkeys(title.split(" · ")[0] for title in titles))[:2],
        live_count=len(live),
    )


def _sort(keys: Sequence[_Key], order: ChangeOrder) -> list[_Key]:
    """Return the changes in the order, the larger of equals first, withdrawn ones last."""
    by_size = sorted(keys, key=lambda key: (-key.size, key.id))
    ordered = sorted(by_size, key=_SORT_KEYS[order.column], reverse=order.is_descending)
    return sorted(ordered, key=lambda key: key.state == ChangeState.WITHDRAWN)
