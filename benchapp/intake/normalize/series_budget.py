"""How many new series the results of a host may add in a day, UTC by the server's clock."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from benchapp.intake.normalize.plan import Plan
from benchapp.intake.normalize.series_lookup import find_series, list_planned
from benchapp.models import Host

_COUNT = (
    "UPDATE benchapp_host AS host SET new_series_on = %(day)s, new_series_count = added.count"
    " + CASE WHEN host.new_series_on = %(day)s THEN host.new_series_count ELSE 0 END"
    " FROM unnest(%(ids)s::bigint[], %(counts)s::int[]) AS added(id, count) WHERE host.id = added.id"
)


@dataclass(frozen=True, slots=True)
class NewSeries:
    """added: number of new series of the plans that may be stored, by host; refused: reason by submission."""

    added: Mapping[int, int]
    refused: Mapping[UUID, str]


def judge_new_series(plans: Sequence[Plan], *, now: datetime) -> NewSeries:
    """Return which plans would exceed the budget of their host; two queries, one if no series is new.

    Reads without a lock: concurrent workers may exceed a budget by what each stores in one batch.
    """
    keys = [set(list_planned([plan])) for plan in plans]
    found = find_series(list_planned(plans))
    known = {*found.ids, *found.continued}
    if all(of_plan <= known for of_plan in keys):
        return NewSeries({}, {})
    hosts = Host.objects.in_bulk({plan.source.host_id for plan in plans})
    used = {host_id: host.count_new_series(now) for host_id, host in hosts.items()}
    added: Counter[int] = Counter()
    refused: dict[UUID, str] = {}
    for plan, of_plan in zip(plans, keys, strict=True):
        new, host_id = of_plan - known, plan.source.host_id
        left = max(0, settings.HOST_NEW_SERIES_PER_DAY - used[host_id] - added[host_id])
        if len(new) > left:
            refused[plan.source.submission_id] = _describe(len(new), left)
            continue
        known |= new
        added[host_id] += len(new)
    return NewSeries({host_id: count for host_id, count in added.items() if count}, refused)


def count_new_series(added: Mapping[int, int], *, now: datetime) -> None:
    """Add these numbers to the hosts. Call it in the transaction that stored the series, which has locked the hosts."""
    if added:
        with connection.cursor() as cursor:
            values: dict[str, Any] = {
                "day": now.astimezone(UTC).date(),
                "ids": list(added),
                "counts": list(added.values()),
            }
            cursor.execute(_COUNT, values)


def _describe(count: int, left: int) -> str:
    return (
        f"the result has {count} new series; this host may add {left} more until midnight UTC"
        f" ({settings.HOST_NEW_SERIES_PER_DAY} per day, BENCHAPP_HOST_NEW_SERIES_PER_DAY). Each combination of layout,"
        " workload and direction is a series: check for options that differ in every run"
    )
