"""Maintenance windows and expected changes: listed, said, ended early, taken back.

The shapes of maintenance windows and expected changes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.api.framework.output_fields import (
    Output,
    PageOutput,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import PageParameters, read_parameters, refuse_parameters
from benchapp.api.framework.permissions import MayReadOrEdit, find_person, read_api_token
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import answer_json, answer_rows
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX, Row
from benchapp.models import ExpectationAct, ExpectationKind
from benchapp.pipeline.maintenance.expectations import (
    REASON_MAXIMUM,
    BadExpectation,
    NotSchedulable,
    UnknownExpectation,
    end_expectation,
    expect,
    put_back,
    read_plan,
    resume_expectation,
    take_back,
)
from benchapp.pipeline.maintenance.impact import RUNS_COUNTED, Impact, preview_impact
from benchapp.queries.maintenance import (
    ExpectationDetail,
    ExpectationRow,
    ExpectationState,
    list_expectations,
    read_expectation,
)
from benchapp.queue import wake_up


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


def expectation_detail(detail: ExpectationDetail, reach: Impact) -> Row:
    """Return one expectation with what it reaches and its trail."""
    return {
        **expectation_row(detail.row),
        "reach": reach_row(reach),
        "events": [
            {"at": event.at, "act": event.act.value, "by": event.by_name or None, "via": event.via}
            for event in detail.trail
        ],
    }


def reach_row(reach: Impact) -> Row:
    """Return what a filter and a span reach."""
    return {
        "series": reach.series,
        "hosts": reach.hosts,
        "host_names": list(reach.host_names),
        "runs": min(reach.runs, RUNS_COUNTED),
        "has_more_runs": reach.has_more_runs,
        "open_incidents": [incident_id for incident_id, _ in reach.incidents],
    }


class ExpectationParameters(PageParameters):
    """Which expectations."""

    state = serializers.ChoiceField(choices=ExpectationState.values, required=False)
    kind = serializers.ChoiceField(choices=ExpectationKind.values, required=False)


class ExpectationInput(serializers.Serializer[Any]):
    """What is expected, of what, when and why."""

    kind = serializers.ChoiceField(choices=ExpectationKind.values)
    filter = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="as in the filter bar; empty: everything",
    )
    from_at = serializers.DateTimeField(help_text="RFC 3339, inclusive")
    to_at = serializers.DateTimeField(help_text="RFC 3339, exclusive")
    reason = serializers.CharField(max_length=REASON_MAXIMUM)
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="only tell what it would reach; nothing is kept"
    )


class ExpectationChanges(serializers.Serializer[Any]):
    """What to do with it; what is left out stays."""

    is_ended = serializers.BooleanField(
        required=False, help_text="true: end it now; false: let it hold until its planned end again"
    )
    is_taken_back = serializers.BooleanField(
        required=False, help_text="true: as DELETE; false: let it hold again"
    )


class Expectations(ApiView):
    """All expectations."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_expectations", parameters=[ExpectationParameters], responses=ExpectationPage
    )
    def get(self, request: Request) -> HttpResponse:
        """List maintenance windows and expected changes, those that begin last first."""
        wanted = read_parameters(request, ExpectationParameters)
        page = list_expectations(
            [ExpectationState(wanted["state"])] if "state" in wanted else [],
            now=timezone.now(),
            kind=ExpectationKind(wanted["kind"]) if "kind" in wanted else None,
            after=wanted.get("cursor"),
            limit=wanted["limit"],
        )
        return answer_rows(
            request,
            [expectation_row(row) for row in page.items],
            name="expectations",
            columns=EXPECTATION_COLUMNS,
            next_cursor=page.next_cursor,
        )

    @extend_schema(
        operation_id="create_expectation",
        request=ExpectationInput,
        responses={201: ExpectationOutput, 200: ReachOutput},
    )
    def post(self, request: Request) -> HttpResponse | Response:
        """Say a maintenance or an expected change; a dry run answers 200 with what it would reach."""
        refuse_parameters(request)
        wanted = read_body(request, ExpectationInput)
        is_dry = wanted.pop("dry_run")
        with _name_faults():
            if is_dry:
                plan = read_plan(**wanted)
                return answer_json(
                    request, reach_row(preview_impact(plan.filter, from_at=plan.from_at, to_at=plan.to_at))
                )
            made = expect(**wanted, **_name_doer(request))
        wake_up()
        row = _detail(made.pk)
        return Response(row, status=201, headers={"Location": row["url"]})


class OneExpectation(ApiView):
    """One expectation."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_expectation", responses=ExpectationOutput)
    def get(self, request: Request, expectation_id: int) -> HttpResponse:
        """Read one maintenance window or expected change, with what it reaches and who did what to it."""
        refuse_parameters(request)
        return answer_json(request, _detail(expectation_id))

    @extend_schema(operation_id="change_expectation", request=ExpectationChanges, responses=ExpectationOutput)
    def patch(self, request: Request, expectation_id: int) -> HttpResponse:
        """End it early, or undo what was done to it: one of both."""
        refuse_parameters(request)
        wanted = read_body(request, ExpectationChanges)
        if len(wanted) != 1:
            raise Problem(400, "value-invalid", "Bad value", "say one of is_ended and is_taken_back")
        act = {
            ("is_ended", True): end_expectation,
            ("is_ended", False): resume_expectation,
            ("is_taken_back", True): take_back,
            ("is_taken_back", False): put_back,
        }[next(iter(wanted.items()))]
        with _name_faults():
            act(expectation_id, **_name_doer(request))
        wake_up()
        return answer_json(request, _detail(expectation_id))

    @extend_schema(operation_id="take_back_expectation", responses={204: None})
    def delete(self, request: Request, expectation_id: int) -> Response:
        """Take it back, as if it had never been said; its row and its trail stay, and PATCH puts it back."""
        refuse_parameters(request)
        with _name_faults():
            take_back(expectation_id, **_name_doer(request))
        wake_up()
        return Response(status=204)


def _name_doer(request: Request) -> dict[str, Any]:
    token = read_api_token(request)
    return {"by": find_person(request), "via": f"bench_{token.public_id}" if token else ""}


def _detail(expectation_id: int) -> Row:
    detail = _find(expectation_id)
    row = detail.row
    return expectation_detail(detail, preview_impact(row.filter, from_at=row.from_at, to_at=row.over_at))


def _find(expectation_id: int) -> ExpectationDetail:
    detail = read_expectation(expectation_id, now=timezone.now())
    if detail is None:
        raise _no_expectation(f"there is no expectation {expectation_id}")
    return detail


@contextmanager
def _name_faults() -> Iterator[None]:
    try:
        yield
    except UnknownExpectation as error:
        raise _no_expectation(str(error)) from error
    except NotSchedulable as error:
        raise Problem(409, "state-differs", "Not in this state", str(error)) from error
    except BadExpectation as error:
        raise Problem(
            400, "value-invalid", "Bad value", str(error), pointer=f"/{error.field}" if error.field else None
        ) from error


def _no_expectation(detail: str) -> Problem:
    return Problem(404, "not-found", "No such expectation", detail)
