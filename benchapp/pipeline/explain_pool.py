"""Of a pool's history, which the hosts of the pool share: which of them moved."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet
from psycopg import sql

from benchapp.metrics import CATALOGUE
from benchapp.models import Change

# Changes that are looked into; a pool's hosts move alike in all of them or in none.
_CHANGES_MAXIMUM: Final = 50
# Of the way from the old level to the new one.
MOVED_SHARE: Final = 0.5
_LEVELS: Final = (
    "SELECT host.name, wanted.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY m.{metric}) FROM"
    " unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[]) AS wanted(id, series_id, since, until)"
    " JOIN benchapp_measurement m ON m.series_id = wanted.series_id AND m.started_at BETWEEN since AND until"
    " AND m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL"
    " JOIN benchapp_run run ON run.id = m.run_id JOIN benchapp_host host ON host.id = run.host_id"
    " GROUP BY 1, 2"
)


def explain_pool(changes: QuerySet[Change], scope: str) -> Iterator[dict[str, Any]]:
    """Say which hosts of a pool moved, where not all did; of those that ran since."""
    shares = read_shares(list(changes.order_by("-confidence", "id")[:_CHANGES_MAXIMUM]))
    moved = sorted(host for host, share in shares.items() if share >= MOVED_SHARE)
    fine = len(shares) - len(moved)
    if not moved or not fine:
        return
    words = (
        f"host {moved[0]} only: its pool is fine"
        if len(moved) == 1
        else f"{len(moved)} hosts of {len(shares)}"
    )
    yield {"dimension": "host", "value": ", ".join(moved), "share": 1.0, "words": words}


def read_shares(changes: Iterable[Change]) -> dict[str, float]:
    """Return how much of the way to the new level each host went, in the middle of the changes."""
    by_metric: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.after_median != change.before_median:
            by_metric[change.metric].append(change)
    ways: dict[str, list[float]] = defaultdict(list)
    for metric, members in by_metric.items():
        known = {change.pk: change for change in members}
        for host, change_id, level in _read_levels(metric, members):
            change = known[change_id]
            way = change.after_median - change.before_median
            ways[host].append((level - change.before_median) / way)
    return {host: median(parts) for host, parts in ways.items()}


def _read_levels(metric: str, changes: list[Change]) -> list[tuple[str, int, float]]:
    query = sql.SQL(_LEVELS).format(metric=sql.Identifier(CATALOGUE[metric].name))
    with connection.cursor() as cursor:
        cursor.execute(
            query.as_string(cursor.connection),
            [
                [change.pk for change in changes],
                [change.series_id for change in changes],
                [change.started_at for change in changes],
                [change.evidence["points_to"] for change in changes],
            ],
        )
        return list(cursor.fetchall())
