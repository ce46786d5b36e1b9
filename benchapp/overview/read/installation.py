"""Whether this installation is new, and what of it is sample data."""

from dataclasses import dataclass
from typing import Final

from benchapp.framework.read.binary_columns import fetch_rows

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
    ((sample_id, runs),) = fetch_rows(
        "SELECT sample.id, (SELECT count(*) FROM ("
        "  SELECT FROM benchapp_run WHERE host_id IS DISTINCT FROM sample.id LIMIT %s) AS others)"
        " FROM (SELECT max(id) AS id FROM benchapp_host WHERE name = %s) AS sample",
        [_NEW_BELOW, sample_host],
    )
    if sample_id is None or runs == _NEW_BELOW:
        return Installation(runs, 0)
    ((sample_runs,),) = fetch_rows("SELECT count(*) FROM benchapp_run WHERE host_id = %s", [sample_id])
    return Installation(runs, sample_runs)
