"""Changes: the list, and what they look like in other answers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import (
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    PageParameters,
    SpanParameters,
    flag_parameter,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.changes import CHANGE_SORTS, ChangeRow, list_changes
from benchapp.models import ChangeState


class ChangeAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    series: int
    scope: Annotated[str, Meta(description="pool:NAME or host:NAME")]
    workload: str
    target: str
    metric: str
    unit: str
    run: int | None
    last_good_run: int | None
    started_at: Time
    state: ChangeState
    is_regression: bool
    before_median: Annotated[float, Meta(description="in the metric's base unit")]
    before_n: int
    before_spread: Annotated[float, Meta(description="robust standard deviation")]
    after_median: float
    after_n: int
    after_spread: float
    relative: Annotated[float, Meta(description="after / before − 1")]
    relative_low: Annotated[float | None, Meta(description="of its 95 % interval")]
    relative_high: float | None
    confidence: Annotated[float, Meta(description="0 to 1")]
    method: str
    is_young: Annotated[
        bool, Meta(description="found with the usual spread of comparable series: fewer than 15 runs")
    ]
    incident: int | None
    found_at: Time
    updated_at: Time
    withdrawn_at: Time | None
    evidence: Annotated[Mapping[str, Any], Meta(description="the points used and the tests' results")]
    level_from_at: Annotated[
        Time, Meta(description="first run of the new level; of a drift, of the newest one")
    ]
    slope_per_day: Annotated[
        float | None, Meta(description="of a drift, relative; null for a change of level")
    ]
    continues: Annotated[
        bool | None, Meta(description="whether a drift continues; null for a change of level")
    ]
    recovers_from: Annotated[
        float | None,
        Meta(description="relative size of the regression that this improvement ends; null if it ends none"),
    ]
    page: str


@with_columns(ChangeAnswer)
class ListedChangeAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A change has the columns that `fields` names."""


CHANGE_COLUMNS: Final = list_columns(ChangeAnswer)


ChangePage = define_answer("ChangePage", AnswerPage, changes=Sequence[ListedChangeAnswer])


def describe_change(change: ChangeRow) -> ChangeAnswer:
    """Return a change."""
    slope = change.slope
    return build(
        ChangeAnswer,
        change,
        series=change.series.id,
        scope=change.series.scope,
        workload=change.series.workload_title,
        target=change.series.target_title,
        unit=CATALOG[change.metric].unit,
        run=change.run_id,
        last_good_run=change.last_good_run_id,
        incident=change.incident_id,
        slope_per_day=slope and slope.per_day,
        continues=slope and slope.continues,
        page=f"/series/{change.series.id}/?metric={change.metric}",
    )


class ChangeParameters(FilterParameters, SpanParameters, PageParameters):
    """Which changes; withdrawn ones only with state=withdrawn."""

    columns = CHANGE_COLUMNS

    incident = serializers.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, help_text="its changes, however many there are"
    )
    metric = ChoiceParameter(choices=tuple(CATALOG), required=False)
    state = ChoiceParameter(choices=ChangeState.values, required=False)
    is_regression = flag_parameter()
    sort = ChoiceParameter(
        choices=CHANGE_SORTS,
        required=False,
        default="-started_at",
        help_text="size: of the relative change, whatever its direction",
    )


class Changes(ApiView):
    """All changes."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_changes",
        parameters=[ChangeParameters],
        responses=in_formats(ChangePage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List detected changes, latest start first, or by `sort`."""
        wanted = read_parameters(request, ChangeParameters)
        page = take_page_request(wanted)
        sort = wanted.pop("sort")
        return answer_list(
            request,
            ChangePage,
            ListedChangeAnswer,
            page=page,
            read=lambda after, limit: list_changes(**wanted, after=after, limit=limit, sort=sort),
            describe=lambda changes: [build(ListedChangeAnswer, describe_change(each)) for each in changes],
            name="changes",
            context={"filter": write_filter(wanted["match"])},
        )
