"""What the answers about changes and incidents hold."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    Output,
    PageOutput,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    real,
    text,
    time,
)
from benchapp.api.rows import PREFIX, Row
from benchapp.metrics import CATALOGUE
from benchapp.models import ChangeState, IncidentState, Severity, Verdict
from benchapp.queries.changes import ChangeRow
from benchapp.queries.incident_rows import EventRow, IncidentDetail, IncidentRow


class ChangeOutput(Output):
    id = number()
    series = number()
    scope = text(help_text="pool:NAME or host:NAME")
    workload = text()
    target = text()
    metric = text()
    unit = text()
    run = maybe_number()
    last_good_run = maybe_number()
    started_at = time()
    state = serializers.ChoiceField(choices=ChangeState.values)
    is_regression = serializers.BooleanField()
    before_median = real(help_text="in the metric's base unit")
    before_n = number()
    before_spread = real(help_text="robust standard deviation")
    after_median = real()
    after_n = number()
    after_spread = real()
    relative = real(help_text="after / before − 1")
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    confidence = real(help_text="0 to 1")
    method = text()
    incident = maybe_number()
    found_at = time()
    updated_at = time()
    withdrawn_at = maybe_time()
    evidence = serializers.DictField(help_text="the points used and the tests' results")
    page = text()


CHANGE_COLUMNS: Final = tuple(ChangeOutput().fields)


class ChangePage(PageOutput):
    changes = ChangeOutput(many=True)


class ExplainedByOutput(Output):
    dimension = text()
    value = text()
    share = real(help_text="of the series that moved")
    words = text()


class SuspectOutput(Output):
    name = text()
    before = maybe_text()
    after = maybe_text()
    share = real(help_text="of the changes that it came with")
    came_with = maybe_number()
    changes = maybe_number()
    hosts_moved = number(help_text="other hosts that it came to within 14 days, and that moved too")
    hosts_fine = number(help_text="other hosts that it came to, and that stayed fine")
    fine_hosts = serializers.ListField(child=text(), help_text="the first five of these")
    words = text()


class IncidentEventOutput(Output):
    id = number()
    at = time()
    by = maybe_text()
    kind = text()
    words = text()
    undone_at = maybe_time()


class IncidentRowOutput(Output):
    id = number()
    title = text()
    scope = text(help_text="pool:NAME or host:NAME; empty where it is of several")
    state = serializers.ChoiceField(choices=IncidentState.values)
    verdict = serializers.ChoiceField(choices=[each.value for each in Verdict if each], allow_null=True)
    severity = serializers.ChoiceField(choices=Severity.values)
    is_regression = serializers.BooleanField(help_text="false: an improvement")
    started_at = time()
    relative = real(help_text="of its worst change: after / before − 1")
    relative_low = maybe_real(help_text="of the 95 % interval of that")
    relative_high = maybe_real()
    change_count = number()
    series_count = number()
    explained_by = ExplainedByOutput(many=True, help_text="what explains most of it, first")
    suspects = SuspectOutput(many=True, help_text="what else changed at that time, the likeliest first")
    assignee = maybe_text()
    link = maybe_text()
    snoozed_until = maybe_time()
    recovered_at = maybe_time()
    merged_into = maybe_number()
    opened_at = time()
    updated_at = time()
    resolved_at = maybe_time()
    url = text()
    page = text()


INCIDENT_COLUMNS: Final = tuple(IncidentRowOutput().fields)
# What older incidents do not tell of their suspects.
_SUSPECT: Final[Row] = {
    "came_with": None,
    "changes": None,
    "hosts_moved": 0,
    "hosts_fine": 0,
    "fine_hosts": [],
}


class IncidentOutput(IncidentRowOutput):
    changes = ChangeOutput(many=True, help_text="the furthest first, at most 500")
    changes_left_out = number()
    events = IncidentEventOutput(many=True, help_text="oldest first")


class IncidentPage(PageOutput):
    incidents = IncidentRowOutput(many=True)


def change_row(change: ChangeRow) -> Row:
    """Return a change as the API tells it."""
    row: dict[str, Any] = {
        name: getattr(change, name) for name in CHANGE_COLUMNS if name in ChangeRow.__dataclass_fields__
    }
    row |= {
        "series": change.series.id,
        "scope": change.series.scope,
        "workload": change.series.workload_title,
        "target": change.series.target_title,
        "unit": CATALOGUE[change.metric].unit,
        "run": change.run_id,
        "last_good_run": change.last_good_run_id,
        "incident": change.incident_id,
        "page": f"/series/{change.series.id}/?metric={change.metric}",
    }
    return {name: row[name] for name in CHANGE_COLUMNS}


def incident_row(incident: IncidentRow) -> Row:
    """Return an incident in a list."""
    row: dict[str, Any] = {
        name: getattr(incident, name) for name in INCIDENT_COLUMNS if name in IncidentRow.__dataclass_fields__
    }
    row |= {
        "suspects": [_SUSPECT | suspect for suspect in incident.suspects],
        "verdict": incident.verdict or None,
        "assignee": incident.assignee_name or None,
        "link": incident.link or None,
        "merged_into": incident.merged_into_id,
        "url": f"{PREFIX}/incidents/{incident.id}",
        "page": f"/incidents/{incident.id}/",
    }
    return {name: row[name] for name in INCIDENT_COLUMNS}


def incident_detail(detail: IncidentDetail) -> Row:
    """Return one incident with its changes and its timeline."""
    return {
        **incident_row(detail.row),
        "changes": list(map(change_row, detail.changes)),
        "changes_left_out": detail.changes_left_out,
        "events": list(map(_event_row, detail.events)),
    }


def _event_row(event: EventRow) -> Row:
    return {
        "id": event.id,
        "at": event.at,
        "by": event.by_name or None,
        "kind": event.kind,
        "words": event.words,
        "undone_at": event.undone_at,
    }
