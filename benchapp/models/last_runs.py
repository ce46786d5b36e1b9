"""The latest run of each scheduled profile."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection


def read_last_runs(wanted: Sequence[tuple[int, str, datetime]]) -> dict[tuple[int, str], datetime]:
    """Return when the latest run of each (host id, profile, since) started, by host id and profile; one query.

    Each is read from the newer end of the index run_by_host; runs before `since` are not read.
    """
    if not wanted:
        return {}
    hosts, profiles, moments = zip(*wanted, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wanted.host_id, wanted.profile, last.started_at"
            " FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[]) AS wanted(host_id, profile, since_at)"
            " JOIN LATERAL (SELECT started_at FROM benchapp_run WHERE host_id = wanted.host_id"
            " AND profile = wanted.profile AND started_at >= wanted.since_at"
            " ORDER BY started_at DESC LIMIT 1) AS last ON true",
            [list(hosts), list(profiles), list(moments)],
        )
        rows: list[tuple[int, str, datetime]] = cursor.fetchall()
    return {(host_id, profile): started_at for host_id, profile, started_at in rows}
