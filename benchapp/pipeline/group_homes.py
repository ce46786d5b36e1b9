"""The incidents that there are: which a change may join, and which it opens again."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Max, Min

from benchapp.analysis.baselines import DRIFT_METHOD
from benchapp.analysis.grouping import Span
from benchapp.models import Change, ChangeState, Incident, IncidentState, Verdict
from benchapp.pipeline.group_candidates import Candidate

# Days after it was resolved in which the same counts as the same again.
_RELAPSE: Final = timedelta(days=14)
# Of the cells that moved now, those that the incident held: fewer are another event that touches it.
_RELAPSED_SHARE: Final = 0.5
_RELAPSING: Final = (Verdict.FIXED, Verdict.REAL, Verdict.ENVIRONMENT, Verdict.NOISE)


def read_spans(scope: str, *, is_regression: bool) -> list[Span]:
    """Return the open incidents that hold live changes of a scope, with the time of these."""
    rows = (
        Change.objects.filter(series__scope=scope, is_regression=is_regression, incident__merged_into=None)
        .exclude(state=ChangeState.WITHDRAWN)
        .exclude(method=DRIFT_METHOD)
        .exclude(incident=None)
        .exclude(incident__state=IncidentState.RESOLVED)
        .values("incident_id")
        .annotate(first=Min("started_at"), last=Max("started_at"))
        .values_list("incident_id", "first", "last")
    )
    return [Span(*row) for row in rows]


def find_relapsed(believed: Sequence[Candidate], *, now: datetime) -> Incident | None:
    """Return the incident, resolved within 14 days, whose cells moved the same way again; locked."""
    cells = {(candidate.series_id, candidate.metric) for candidate in believed}
    rows = (
        Change.objects.filter(
            series_id__in={series_id for series_id, _ in cells},
            is_regression=believed[0].is_regression,
            incident__state=IncidentState.RESOLVED,
            incident__verdict__in=_RELAPSING,
            incident__resolved_at__gte=now - _RELAPSE,
            incident__merged_into=None,
        )
        .exclude(method=DRIFT_METHOD)
        .values_list("incident_id", "series_id", "metric")
        .distinct()
    )
    counts = Counter(incident_id for incident_id, *cell in rows if tuple(cell) in cells)
    if not counts:
        return None
    incident_id, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    if count < _RELAPSED_SHARE * len(cells):
        return None
    return Incident.objects.select_for_update().get(pk=incident_id)
