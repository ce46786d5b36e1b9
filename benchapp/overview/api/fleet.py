"""The fleet over time: series that are worse, throughput, changes per week, submissions per day."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from benchapp import __version__
from benchapp.framework.api.answers import PREFIX, ApiAnswer, Time, build, define_answer, list_columns
from benchapp.framework.api.openapi import in_formats, make_schema
from benchapp.framework.api.parameters import (
    DaysParameters,
    FilterParameters,
    FormatParameters,
    read_parameters,
    refuse_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.responses import answer_json, answer_lines, answer_not_modified, is_known
from benchapp.framework.api.view import ApiView
from benchapp.overview.read.fleet import (
    CHANGE_DAYS,
    DAYS,
    INGEST_DAYS,
    METRIC,
    SERIES_COUNTED_MAXIMUM,
    ChangeWeek,
    IngestDay,
    RegressedDay,
    read_change_weeks,
    read_fleet_days,
    read_ingest_health,
    read_regressed_days,
)


class FleetLevelsParameters(DaysParameters, FormatParameters):
    """Which days."""

    usual_days = DAYS


class FleetChangesParameters(DaysParameters, FormatParameters):
    """The weeks of which days."""

    usual_days = CHANGE_DAYS


class FleetSubmissionsParameters(DaysParameters, FormatParameters):
    """Which days."""

    usual_days = INGEST_DAYS


class FleetRegressionsParameters(DaysParameters, FilterParameters, FormatParameters):
    """The days, and the series that count."""

    usual_days = DAYS


class FleetDayAnswer(ApiAnswer, kw_only=True, frozen=True):
    pattern: Annotated[
        str, Meta(description="read, write, randread, randwrite, unknown-read or unknown-write")
    ]
    day: Annotated[date, Meta(description="UTC")]
    median: Annotated[float, Meta(description="over the series; 1 is the level of the series")]
    p10: float
    p90: float
    n: Annotated[int, Meta(description="series with a valid run until that day that are not stale")]


class FleetLevelsAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    first: Annotated[date, Meta(description="first of the days")]
    days: Sequence[FleetDayAnswer]


class FleetRegressionsAnswer(ApiAnswer, kw_only=True, frozen=True):
    series_count: Annotated[
        int, Meta(description=f"measured in these days; more than {SERIES_COUNTED_MAXIMUM} are not counted")
    ]
    days: Sequence[RegressedDay]


FleetChangesAnswer = define_answer("FleetChangesAnswer", weeks=Sequence[ChangeWeek])


class FleetSubmissionsAnswer(ApiAnswer, kw_only=True, frozen=True):
    oldest_at: Annotated[Time | None, Meta(description="when the first of the waiting was received")]
    days: Sequence[IngestDay]


class FleetRegressions(ApiView):
    """Series that are worse than their earlier level."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_fleet_regressions",
        parameters=[FleetRegressionsParameters],
        responses=in_formats(FleetRegressionsAnswer, "only the days"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Count the series that were worse than their earlier level, by day."""
        wanted = read_parameters(request, FleetRegressionsParameters)
        answer_format = wanted["format"]
        found = read_regressed_days(wanted["days"], wanted["match"])
        if answer_format == "json":
            answer = FleetRegressionsAnswer(series_count=found.series_count, days=found.days)
            return answer_json(request, answer)
        return answer_lines(
            request,
            found.days,
            columns=list_columns(RegressedDay),
            answer_format=answer_format,
            file_name="fleet-regressions",
        )


class FleetLevels(ApiView):
    """Throughput of the fleet."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_fleet_levels",
        parameters=[FleetLevelsParameters],
        responses=in_formats(FleetLevelsAnswer, "only the days"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the throughput by pattern and day, each series relative to its level when the days began."""
        wanted = read_parameters(request, FleetLevelsParameters)
        answer_format = wanted["format"]
        fleet = read_fleet_days(wanted["days"])
        dates = fleet.range.dates
        days = [
            build(FleetDayAnswer, day, pattern=line.pattern, day=dates[place])
            for line in fleet.patterns
            for place, day in enumerate(line.days)
            if day
        ]
        if answer_format == "json":
            answer = FleetLevelsAnswer(
                metric=METRIC,
                first=fleet.range.first,
                days=days,
            )
            return answer_json(request, answer)
        return answer_lines(
            request,
            days,
            columns=list_columns(FleetDayAnswer),
            answer_format=answer_format,
            file_name="fleet-levels",
            context={"metric": METRIC, "unit": "ratio"},
        )


class FleetChanges(ApiView):
    """Changes per week."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_fleet_changes",
        parameters=[FleetChangesParameters],
        responses=in_formats(FleetChangesAnswer, "only the weeks"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Count the series with a change by week, in the whole weeks of the range."""
        wanted = read_parameters(request, FleetChangesParameters)
        answer_format = wanted["format"]
        weeks = read_change_weeks(wanted["days"])
        if answer_format == "json":
            return answer_json(request, FleetChangesAnswer(weeks=weeks))
        return answer_lines(
            request,
            weeks,
            columns=list_columns(ChangeWeek),
            answer_format=answer_format,
            file_name="fleet-changes",
        )


class FleetSubmissions(ApiView):
    """Submissions per day."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_fleet_submissions",
        parameters=[FleetSubmissionsParameters],
        responses=in_formats(FleetSubmissionsAnswer, "only the days"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Count submissions by day of receipt and present state."""
        wanted = read_parameters(request, FleetSubmissionsParameters)
        answer_format = wanted["format"]
        days, oldest_at = read_ingest_health(wanted["days"])
        if answer_format == "json":
            return answer_json(request, FleetSubmissionsAnswer(oldest_at=oldest_at, days=days))
        return answer_lines(
            request,
            days,
            columns=list_columns(IngestDay),
            answer_format=answer_format,
            file_name="fleet-submissions",
        )


class IndexAnswer(ApiAnswer, kw_only=True, frozen=True):
    version: str
    resources: Mapping[str, str]


RESOURCES = {
    "hosts": f"{PREFIX}/hosts",
    "runs": f"{PREFIX}/runs",
    "series": f"{PREFIX}/series",
    "dimensions": f"{PREFIX}/dimensions",
    "scaling": f"{PREFIX}/scaling",
    "matrix": f"{PREFIX}/matrix",
    "comparison": f"{PREFIX}/comparison",
    "changes": f"{PREFIX}/changes",
    "incidents": f"{PREFIX}/incidents",
    "incident_feed": f"{PREFIX}/incidents/feed",
    "status_badge": f"{PREFIX}/status-badge",
    "chart_images": f"{PREFIX}/charts/history.svg",
    "links": f"{PREFIX}/links",
    "planned_events": f"{PREFIX}/planned-events",
    "studies": f"{PREFIX}/studies",
    "submissions": f"{PREFIX}/submissions",
    "subscriptions": f"{PREFIX}/subscriptions",
    "fio": f"{PREFIX}/fio",
    "enrollments": f"{PREFIX}/enrollments",
    "schema": f"{PREFIX}/schema",
    "errors": "/docs/errors",
}


class Index(ApiView):
    """The list of resources; public, as it has no data."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(operation_id="read_index", responses=IndexAnswer, auth=[])
    def get(self, request: Request) -> HttpResponse:
        """List the resources."""
        refuse_parameters(request)
        return answer_json(request, IndexAnswer(version=__version__, resources=RESOURCES))


class Schema(ApiView):
    """The OpenAPI document; public like the index."""

    permission_classes = [AllowAny]
    authentication_classes = []

    @extend_schema(operation_id="read_schema", responses=OpenApiTypes.OBJECT, auth=[])
    def get(self, request: Request) -> HttpResponse:
        """Read the OpenAPI document of this API."""
        refuse_parameters(request)
        document, etag = make_schema()
        if is_known(request, etag):
            return answer_not_modified(etag)
        return answer_json(request, document, headers={"ETag": etag})
