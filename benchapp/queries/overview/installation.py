"""Whether this installation is new, and what of it is sample data."""

from dataclasses import dataclass
from typing import Final

from django.db import connection

# Of a series with so many runs a change opens an incident (pipeline.detection): an installation with fewer runs in all
# has nothing to report yet.
_NEW_BELOW: Final = 20


@dataclass(frozen=True, slots=True)
class Installation:
    """What is stored. runs: without the sample, at most 20; sample_runs: of the sample, 0 unless is_new."""

    runs: int
    sample_runs: int

    @property
    def is_new(self) -> bool:
        """Return whether there are fewer than 20 runs besides the sample."""
        return self.runs < _NEW_BELOW


def read_installation(*, sample_host: str) -> Installation:
    """Return what is stored; two queries for a new installation, else one. sample_host: the host of the sample."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sample.id, (SELECT count(*) FROM ("
            "  SELECT FROM benchapp_run WHERE host_id IS DISTINCT FROM sample.id LIMIT %s) AS others)"
            " FROM (SELECT max(id) AS id FROM benchapp_host WHERE name = %s) AS sample",
            [_NEW_BELOW, sample_host],
        )
        sample_id, runs = cursor.fetchone()
        if sample_id is None or runs == _NEW_BELOW:
            return Installation(runs, 0)
        cursor.execute("SELECT count(*) FROM benchapp_run WHERE host_id = %s", [sample_id])
        (sample_runs,) = cursor.fetchone()
    return Installation(runs, sample_runs)
