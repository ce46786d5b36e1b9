"""Recent environment changes of the fleet: which fact changed, on how many hosts, since when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from benchapp.catalog.dimensions import FACT_NAMES
from benchapp.catalog.grammar import Filter
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import Environment, Series, SeriesEnvironment
from benchapp.models.filtering import match_series

RECENT: Final = timedelta(days=90)
# Newest first: those of a host are as many as it has series.
_ROWS_MAXIMUM: Final = 2000
# The environment that began last before the new one; NEWEST: a query of the new ones.
_READ: Final = (
    "SELECT series.scope, earlier.environment_id, begun.environment_id, min(begun.first_at)"
    " FROM benchapp_seriesenvironment AS begun"
    " JOIN benchapp_series series ON series.id = begun.series_id"
    " CROSS JOIN LATERAL (SELECT environment_id FROM benchapp_seriesenvironment"
    "  WHERE series_id = begun.series_id AND first_at < begun.first_at"
    "  ORDER BY first_at DESC LIMIT 1) AS earlier WHERE begun.id IN (NEWEST) GROUP BY 1, 2, 3"
)


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A fact that changed from one value to another. scopes: names of the hosts and pools; since_at: on the first."""

    name: str
    before: Any
    after: Any
    scopes: tuple[str, ...]
    since_at: datetime


def list_recent_changes(filter: Filter | None = None, *, now: datetime | None = None) -> list[RecentChange]:
    """Return the changes of the last 90 days between known values, the newest first; two queries.

    Of the newest 2 000 environments that began on a series of the filter.
    """
    begun = SeriesEnvironment.objects.filter(first_at__gte=(now or timezone.now()) - RECENT)
    if filter:
        begun = begun.filter(series__in=Series.objects.filter(match_series(filter)))
    text, values = begun.order_by("-first_at").values("pk")[:_ROWS_MAXIMUM].query.sql_with_params()
    rows = fetch_rows(_READ.replace("NEWEST", text), values)
    if not rows:
        return []
    facts = Environment.objects.in_bulk({each for _, before, after, _ in rows for each in (before, after)})
    return _group(rows, facts)


def _group(rows: Sequence[tuple[Any, ...]], facts: Mapping[int, Environment]) -> list[RecentChange]:
    found: dict[tuple[str, Any, Any], dict[str, datetime]] = {}
    for scope, before_id, after_id, at in rows:
        for name in FACT_NAMES:
            before, after = (getattr(facts[each], name) for each in (before_id, after_id))
            # What only one agent version reports has not changed.
            if before == after or before in (None, "") or after in (None, ""):
                continue
            scopes = found.setdefault((name, before, after), {})
            own = scope.partition(":")[2]
            scopes[own] = min(at, scopes.get(own, at))
    changes = [
        RecentChange(*key, scopes=tuple(sorted(scopes)), since_at=min(scopes.values()))
        for key, scopes in found.items()
    ]
    order = {name: place for place, name in enumerate(FACT_NAMES)}
    return sorted(changes, key=lambda change: (-change.since_at.timestamp(), order[change.name]))
