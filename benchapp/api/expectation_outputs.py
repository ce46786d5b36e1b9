"""The shapes of maintenance windows and expected changes."""

from dataclasses import asdict
from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import Output, PageOutput, maybe_text, maybe_time, number, text, time
from benchapp.api.rows import PREFIX, Row
from benchapp.models import ExpectationAct, ExpectationKind
from benchapp.pipeline.expectation_scope import RUNS_COUNTED, Reach
from benchapp.queries.expectations import ExpectationDetail, ExpectationRow, ExpectationState


class ExpectationRowOutput(Output):
    id = number()
    kind = serializers.ChoiceField(choices=ExpectationKind.values)
    state = serializers.ChoiceField(choices=ExpectationState.values)
    filter = text(help_text="as in the filter bar; empty: everything")
    from_at = time()
    to_at = time()
    over_at = serializers.DateTimeField(help_text="until when it holds, exclusive: its end, planned or early")
    reason = text()
    created_by = maybe_text()
    created_at = time()
    ended_by = maybe_text()
    ended_at = maybe_time()
    taken_back_by = maybe_text()
    taken_back_at = maybe_time()
    url = text()
    page = text()


class ReachOutput(Output):
    series = number(help_text="that the filter leaves")
    hosts = number(help_text="in service")
    host_names = serializers.ListField(child=text(), help_text="the first five")
    runs = number(help_text=f"that lie within already, counted up to {RUNS_COUNTED}")
    has_more_runs = serializers.BooleanField(help_text=f"there are more than {RUNS_COUNTED}")
    open_incidents = serializers.ListField(
        child=serializers.IntegerField(), help_text="regressions that began within it, at most five"
    )


class ExpectationEventOutput(Output):
    at = time()
    act = serializers.ChoiceField(choices=ExpectationAct.values)
    by = maybe_text()
    via = text(help_text="the program's token; empty for a person")


class ExpectationOutput(ExpectationRowOutput):
    reach = ReachOutput()
    events = ExpectationEventOutput(many=True, help_text="oldest first")


class ExpectationPage(PageOutput):
    expectations = ExpectationRowOutput(many=True)


EXPECTATION_COLUMNS: Final = tuple(ExpectationRowOutput().fields)


def expectation_row(row: ExpectationRow) -> Row:
    """Return an expectation in a list."""
    told: dict[str, Any] = asdict(row) | {
        "kind": row.kind.value,
        "state": row.state.value,
        "created_by": row.created_by_name or None,
        "ended_by": row.ended_by_name or None,
        "taken_back_by": row.taken_back_by_name or None,
        "url": f"{PREFIX}/expectations/{row.id}",
        "page": f"/expectations/{row.id}/",
    }
    return {name: told[name] for name in EXPECTATION_COLUMNS}


def expectation_detail(detail: ExpectationDetail, reach: Reach) -> Row:
    """Return one expectation with what it reaches and its trail."""
    return {
        **expectation_row(detail.row),
        "reach": reach_row(reach),
        "events": [
            {"at": event.at, "act": event.act.value, "by": event.by_name or None, "via": event.via}
            for event in detail.trail
        ],
    }


def reach_row(reach: Reach) -> Row:
    """Return what a filter and a span reach."""
    return {
        "series": reach.series,
        "hosts": reach.hosts,
        "host_names": list(reach.host_names),
        "runs": min(reach.runs, RUNS_COUNTED),
        "has_more_runs": reach.has_more_runs,
        "open_incidents": [incident_id for incident_id, _ in reach.incidents],
    }
