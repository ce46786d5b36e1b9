"""The impact of a planned event, for its preview and its page."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q

from benchapp.catalog.grammar import BadFilter, Filter, parse_filter
from benchapp.models import Change, ChangeState, Host, Incident, Measurement, PlannedEvent, Run, Series
from benchapp.models.filtering import match_runs, match_series
from benchapp.models.host_filtering import match_hosts

# Counting stops here, so that the page is fast on any history.
RUNS_COUNTED: Final = 1000
HOSTS_NAMED: Final = 5
_INCIDENTS_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Impact:
    """Series, hosts, runs and incidents that match a filter and a period.

    series: those with measurements. hosts: active ones; series of pools count by their hosts; host_names: the first
    five by name. runs: RUNS_COUNTED + 1 for more. incidents: (id, title) of open regressions that started in the
    period, at most five.
    """

    series: int
    hosts: int
    host_names: tuple[str, ...]
    runs: int
    incidents: tuple[tuple[int, str], ...]

    @property
    def has_more_runs(self) -> bool:
        """Return whether there are more runs than were counted."""
        return self.runs > RUNS_COUNTED


def preview_impact(planned: PlannedEvent) -> Impact:
    """Return the impact of a filter and a period; empty if the filter is no longer valid. At most seven queries.

    Only incidents with changes of the metric and direction of the planned event are named.
    """
    from_at, to_at = planned.from_at, planned.ends_at
    try:
        filter = parse_filter(planned.filter)
    except BadFilter:
        return Impact(0, 0, (), 0, ())
    series = Series.objects.filter(match_series(filter), last_at__isnull=False)
    hosts = list(Host.objects.active().order_by("name"))
    inside = match_hosts(filter, hosts)
    names = [host.name for host in hosts if host.pk in inside]
    runs = Run.objects.filter(_match_runs(filter), started_at__gte=from_at, started_at__lt=to_at)
    return Impact(
        series=series.count(),
        hosts=len(names),
        host_names=tuple(names[:HOSTS_NAMED]),
        runs=runs.values("pk")[: RUNS_COUNTED + 1].count(),
        incidents=()
        if planned.is_regression is False
        else _list_incidents(filter, from_at, to_at, metric=planned.metric),
    )


def _match_runs(filter: Filter) -> Q:
    if not filter.words:
        return match_runs(filter)
    within = Measurement.objects.filter(match_series(filter, "series__"), run=OuterRef("pk"))
    return Q(Exists(within))


def _list_incidents(
    filter: Filter, from_at: datetime, to_at: datetime, *, metric: str
) -> tuple[tuple[int, str], ...]:
    began = Change.objects.filter(
        match_series(filter, "series__"),
        incident=OuterRef("pk"),
        started_at__gte=from_at,
        started_at__lt=to_at,
    ).exclude(state=ChangeState.WITHDRAWN)
    if metric:
        began = began.filter(metric=metric)
    found = Incident.objects.filter(Exists(began), is_regression=True, is_open=True)
    return tuple(found.order_by("-started_at", "-id").values_list("id", "title")[:_INCIDENTS_NAMED])
