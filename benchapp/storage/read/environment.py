"""Recent environment changes of a host."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection

from benchapp.series.read.environment_changes import (
    EnvironmentChange,
    FieldChange,
    compare_environments,
    read_environments,
)
from benchapp.series.read.selected_levels import NOW, LevelRange
from benchapp.storage.read.hosts import HostRow

# Newest runs that are searched: ten weeks of a sweep of 17 layouts, four times a day.
RUNS_MAXIMUM: Final = 5000
# Runs in another environment than the run before on the same target: a device is a fact of the target.
_CHANGED: Final = (
    "SELECT id, started_at, environment_id, before FROM (SELECT id, started_at, environment_id,"
    " lag(environment_id) OVER (PARTITION BY target_id ORDER BY started_at, id) AS before FROM ("
    "  SELECT id, started_at, target_id, environment_id FROM benchapp_run WHERE host_id = %s"
    "  AND (%s::timestamptz IS NULL OR started_at < %s)"
    "  ORDER BY started_at DESC, id DESC LIMIT %s) AS newest) AS runs"
    " WHERE before <> environment_id ORDER BY started_at, id"
)
_Found = tuple[int, datetime, int, int]


def list_host_environment_changes(
    host: HostRow, *, span: LevelRange = NOW, limit: int = 8
) -> list[EnvironmentChange]:
    """Return the newest environment changes in a time range, newest first; two queries.

    Among the newest 5 000 runs of the host until the end of the range. A change is listed once, with the first run on
    any target that has it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, [host.id, span.to_at, span.to_at, RUNS_MAXIMUM])
        found: list[_Found] = cursor.fetchall()
    if not found:
        return []
    environments = read_environments(each for row in found for each in row[2:])
    changes = list(_merge_changes(host.name, found, environments))[::-1]
    return [change for change in changes if span.from_at is None or change.at >= span.from_at][:limit]


def _merge_changes(
    host_name: str, found: Sequence[_Found], environments: Mapping[int, Mapping[str, Any]]
) -> Iterator[EnvironmentChange]:
    """Yield the changes without fields that another target has reported since they changed last."""
    latest: dict[str, FieldChange] = {}
    for run_id, at, after, before in found:
        changed = compare_environments(environments[before], environments[after])
        fields = tuple(field for field in changed if latest.get(field.name) != field)
        latest |= {field.name: field for field in fields}
        if fields:
            yield EnvironmentChange(at, run_id, host_name, fields)
