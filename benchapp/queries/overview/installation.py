"""Whether this installation is new, and what of it is sample data."""

from dataclasses import dataclass
from typing import Final

from benchapp.models import Host, Run

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
    """Return what is stored; three queries for a new installation, else two. sample_host: the host of the sample."""
    sample_id = Host.objects.filter(name=sample_host).values_list("pk", flat=True).first()
    others = Run.objects.all() if sample_id is None else Run.objects.exclude(host_id=sample_id)
    runs = others[:_NEW_BELOW].count()
    if sample_id is None or runs == _NEW_BELOW:
        return Installation(runs, 0)
    return Installation(runs, Run.objects.filter(host_id=sample_id).count())
