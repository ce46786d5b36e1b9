"""Hosts and their schedules."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.catalog.grammar import write_filter
from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Kind,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    PageParameters,
    Parameters,
    SpanParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    text_parameter,
)
from benchapp.framework.api.permissions import (
    MayEdit,
    MayIngest,
    MayRead,
    MayReadOrAdminister,
    MayReadOrEdit,
    find_person,
    read_actor,
    require_api_token,
)
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, no_host, not_found
from benchapp.framework.api.responses import answer_json, answer_lines
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.framework.read.pagination import match_times, read_page_by_time
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Attempt, Host, Severity, TargetMapping
from benchapp.requests.api.host_schedules import ScheduleAnswer, describe_schedule
from benchapp.storage.actions import preview_pool, set_pool
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import (
    HostFilter,
    HostRow,
    SeriesJoin,
    is_outdated,
    list_joins,
    list_mappings,
    page_hosts,
    read_host,
    read_host_histories,
)
from benchapp.storage.target_mappings import UnknownMapping, add_mapping, remove_mapping
from benchapp.storage.write.hosts import restore_host, retire_host


class HostAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    pool: Annotated[str, Meta(description="empty: no pool")]
    created_at: Time
    last_seen_at: Annotated[
        Time | None, Meta(description="last use of its token, to 10 minutes; imported results do not count")
    ]
    agent_version: str
    agent_installation: Annotated[
        str, Meta(description="checkout, container, deb, rpm, wheel or zipapp; empty: not reported")
    ]
    is_agent_outdated: Annotated[bool, Meta(description="older than the version that this server ships")]
    dropped_count: Annotated[int, Meta(description="results that the full spool of its agent dropped")]
    dropped_at: Annotated[
        Time | None, Meta(description="when it dropped the last one, by the clock of the host")
    ]
    clock_offset_s: Annotated[
        int | None,
        Meta(
            description="its clock is so much ahead, behind if negative, to 10 minutes; null: unknown, or up to 90 s"
        ),
    ]
    retired_at: Time | None
    run_count: int
    new_series_today: Annotated[int, Meta(description="series that its results added since midnight UTC")]
    new_series_per_day: Annotated[int, Meta(description="how many its results may add in a day")]
    last_run_id: int | None
    last_run_at: Time | None
    last_run_profile: str | None
    last_run_error: int | None
    kernel: Annotated[str | None, Meta(description="of the last run")]
    labels: Annotated[Mapping[str, str], Meta(description="of the last run")]
    incidents: Annotated[
        Sequence[int],
        Meta(description="open regressions of its series, or of its pool's series, newest first"),
    ]
    severity: Annotated[Severity | None, Meta(description="the highest of these incidents")]
    worst_change_relative: Annotated[
        float | None, Meta(description="largest change of these incidents, after / before - 1")
    ]
    worst_change_metric: str | None
    worst_change_at: Time | None
    worst_change_series_id: int | None
    worst_change_incident_id: int | None
    relative_level: Annotated[
        float | None,
        Meta(
            description="geometric mean over its series of current level / level 90 days ago; above 1 is better"
        ),
    ]
    expected_at: Time | None
    silent_since: Time | None
    failing_since: Annotated[
        Time | None,
        Meta(description="first result of a profile since its last valid value; null: not failing"),
    ]
    failing_reason: Annotated[
        str | None, Meta(description="of the newest result of the profile that has been failing for longest")
    ]
    failing: Annotated[
        Sequence[str],
        Meta(description="profiles that give no valid values, with their target, for longest first"),
    ]
    schedule: Annotated[ScheduleAnswer | None, Meta(description="null: not reported")]
    url: str
    page: str


class OwnHostAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    pool: str
    server_time: Time


class AttemptAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: Annotated[UUID, Meta(description="created by the agent")]
    started_at: Annotated[Time, Meta(description="by the clock of the host")]
    profile: str
    target_name: Annotated[str, Meta(description="directory or device; empty: unknown")]
    reason_code: str
    reason: str


AttemptPage = define_answer("AttemptPage", AnswerPage, attempts=Sequence[AttemptAnswer])


class AttemptParameters(SpanParameters, PageParameters):
    """Which attempts; the range is that of their start."""

    columns = list_columns(AttemptAnswer)


class HostAttempts(ApiView):
    """Runs of a host that could not start or were skipped."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_attempts",
        parameters=[AttemptParameters],
        responses=in_formats(AttemptPage, "the rows only"),
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        """List runs without a result, newest first, with their reasons."""
        wanted = read_parameters(request, AttemptParameters)
        host = Host.objects.filter(name=name.lower()).first()
        if host is None:
            raise no_host(name)
        page = take_page_request(wanted)
        span = match_times("started_at", wanted.get("from_at"), wanted.get("to_at"))
        rows = Attempt.objects.filter(span, host=host)
        return answer_list(
            request,
            AttemptPage,
            AttemptAnswer,
            page=page,
            read=lambda after, limit: read_page_by_time(
                rows, "started_at", after=after, limit=limit, oldest_first=False
            ),
            describe=lambda items: [
                AttemptAnswer(
                    id=item.sender_id,
                    started_at=item.started_at,
                    profile=item.profile,
                    target_name=item.target_name,
                    reason_code=item.reason_code,
                    reason=item.reason,
                )
                for item in items
            ],
            name="attempts",
        )


@with_columns(HostAnswer)
class HostRowAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A host in a list."""


HostPage = define_answer("HostPage", AnswerPage, hosts=Sequence[HostRowAnswer])
HOST_COLUMNS: Final = list_columns(HostRowAnswer)


def _describe_hosts(kind: type[Kind], hosts: Sequence[HostRow]) -> list[Kind]:
    histories = read_host_histories(hosts)
    return [_describe_host(kind, host, histories.get(host.scope, ())) for host in hosts]


def _describe_host(kind: type[Kind], host: HostRow, history: Sequence[float | None]) -> Kind:
    last, schedule = host.last_run, host.schedule
    worst = host.mark.largest if host.mark else None
    return build(
        kind,
        host,
        last_run_id=last.id if last else None,
        last_run_at=last.started_at if last else None,
        last_run_profile=last.profile if last else None,
        last_run_error=last.error if last else None,
        incidents=host.mark.incident_ids if host.mark else (),
        severity=host.mark.severity if host.mark else None,
        worst_change_relative=worst.relative if worst else None,
        worst_change_metric=worst.metric if worst else None,
        worst_change_at=worst.started_at if worst else None,
        worst_change_series_id=worst.series_id if worst else None,
        worst_change_incident_id=worst.incident_id if worst else None,
        relative_level=history[-1] if history else None,
        expected_at=schedule.expected_at if schedule else None,
        silent_since=schedule.silent_since if schedule else None,
        failing_reason=host.failing[0].reason if host.failing else None,
        failing=[each.name for each in host.failing],
        schedule=describe_schedule(schedule) if schedule else None,
        is_agent_outdated=is_outdated(host.agent_version, read_agent_version()),
        new_series_per_day=settings.HOST_NEW_SERIES_PER_DAY,
        url=f"{PREFIX}/hosts/{host.name}",
        page=f"/hosts/{host.name}/",
    )


class HostParameters(FilterParameters, SpanParameters, PageParameters):
    """Which hosts, with a run in the range: host and pool terms are compared with the host, all others must match one
    of its series.
    """

    columns = HOST_COLUMNS
    text = text_parameter(200, help_text="part of the name or the pool")
    is_retired = flag_parameter()
    is_agent_outdated = flag_parameter()
    is_schedule_different = flag_parameter(
        help_text="true: hosts whose schedule differs from the one that the server wants"
    )
    is_failing = flag_parameter(help_text="true: hosts with a profile that gives no valid values")
    sort = ChoiceParameter(choices=("name", "-name"), required=False, default="name")


class Hosts(ApiView):
    """All hosts."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_hosts",
        parameters=[HostParameters],
        responses=in_formats(HostPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List hosts by name."""
        wanted = read_parameters(request, HostParameters)
        page = take_page_request(wanted)
        is_descending = wanted.pop("sort") == "-name"
        chosen = HostFilter(**wanted, shipped_version=read_agent_version())
        return answer_list(
            request,
            HostPage,
            HostRowAnswer,
            page=page,
            read=lambda after, limit: page_hosts(
                chosen, after=after, limit=limit, is_descending=is_descending
            ),
            describe=lambda hosts: _describe_hosts(HostRowAnswer, hosts),
            name="hosts",
            context={"filter": write_filter(wanted["match"])},
        )


class OwnHost(ApiView):
    """The host of the request's token."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="read_own_host", responses=OwnHostAnswer)
    def get(self, request: Request) -> HttpResponse:
        """Return the host of the token and the server's time, for `agent check`."""
        refuse_parameters(request)
        host = require_api_token(request).host
        if host is None:
            raise NotAuthenticated
        return answer_json(request, build(OwnHostAnswer, host, server_time=timezone.now()))


_POOL_MAXIMUM: Final = 100


class HostChanges(serializers.Serializer[Any]):
    """What to change; members that are left out stay."""

    pool = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=_POOL_MAXIMUM,
        help_text="empty: none. All results of the host move to the series of the pool",
    )
    is_retired = serializers.BooleanField(
        required=False, help_text="true: its history is kept, its tokens are rejected; false: reactivate it"
    )


class OneHost(ApiView):
    """One host."""

    permission_classes = [MayReadOrAdminister]

    @extend_schema(operation_id="read_host", responses=HostAnswer)
    def get(self, request: Request, name: str) -> HttpResponse:
        """Read one host."""
        refuse_parameters(request)
        host = read_host(name.lower())
        if host is None:
            raise no_host(name)
        return answer_json(request, _describe_hosts(HostAnswer, [host])[0])

    @extend_schema(operation_id="change_host", request=HostChanges, responses=HostAnswer)
    def patch(self, request: Request, name: str) -> HttpResponse:
        """Set the pool of a host, retire it, or reactivate it with its tokens."""
        refuse_parameters(request)
        wanted, own = read_body(request, HostChanges), name.lower()
        actor = read_actor(request)
        with transaction.atomic():
            if read_host(own) is None:
                raise no_host(name)
            if "pool" in wanted:
                set_pool(own, wanted["pool"], **actor)
            if "is_retired" in wanted:
                (retire_host if wanted["is_retired"] else restore_host)(own, **actor)
        wake_up()
        host = read_host(own)
        if host is None:
            raise no_host(name)
        return answer_json(request, _describe_hosts(HostAnswer, [host])[0])


class PoolMoveAnswer(ApiAnswer, kw_only=True, frozen=True):
    from_scope: Annotated[str, Meta(description="pool:NAME or host:NAME")]
    to_scope: str
    series: Annotated[int, Meta(description="with results of the host")]
    joined: Annotated[int, Meta(description="of these, joined with results that the new scope has already")]
    shared: Annotated[int, Meta(description="of these, divided: results of other hosts stay")]
    measurements: int
    incidents: Annotated[Sequence[int], Meta(description="unresolved, they follow; newest first")]
    joins: Annotated[Sequence[SeriesJoin], Meta(description="series that join, the largest difference first")]


class PoolMoveParameters(Parameters):
    """The pool to preview."""

    pool = text_parameter(_POOL_MAXIMUM, allow_blank=True, default="", help_text="empty, the default: none")


class HostPoolMove(ApiView):
    """What a move to another pool would change."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="preview_pool_move", parameters=[PoolMoveParameters], responses=PoolMoveAnswer
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """Return what `PATCH /hosts/{name}` with this pool would move; changes nothing."""
        wanted = read_parameters(request, PoolMoveParameters)
        host = Host.objects.filter(name=name.lower()).first()
        if host is None:
            raise no_host(name)
        move = preview_pool(host, wanted["pool"])
        ids = [incident_id for incident_id, _ in move.incidents]
        joins = list_joins(move.joined_pairs)
        return answer_json(request, build(PoolMoveAnswer, move, incidents=ids, joins=joins))


_PROBLEMS: Final[ErrorProblems] = {
    UnknownMapping: partial(not_found, "target mapping"),
    BadValue: bad_value,
}


class TargetMappingInput(serializers.ModelSerializer[Any]):
    """A pattern and the name of its targets."""

    class Meta:
        model = TargetMapping
        fields = TargetMapping.given
        # Saving says in words that there is one.
        validators = ()
        extra_kwargs: Final = {
            "scope": {"help_text": "host:NAME or pool:NAME"},
            "pattern": {
                "help_text": "shell pattern with *, ? and […], compared with the name and the path; * matches slashes"
            },
        }


@with_columns({"id": int}, list_given(TargetMappingInput))
class TargetMappingAnswer(ApiAnswer, kw_only=True, frozen=True):
    created_by: str | None
    created_at: Time


TargetMappingsAnswer = define_answer("TargetMappingsAnswer", target_mappings=Sequence[TargetMappingAnswer])


class TargetMappings(ApiView):
    """All mappings of names of targets."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_target_mappings",
        parameters=[FormatParameters],
        responses=in_formats(TargetMappingsAnswer, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponse:
        """List the mappings of all hosts and pools, by scope and pattern."""
        answer_format = read_parameters(request, FormatParameters)["format"]
        rows = [_describe(each) for each in list_mappings()]
        if answer_format == "json":
            return answer_json(request, TargetMappingsAnswer(target_mappings=rows))
        columns = list_columns(TargetMappingAnswer)
        return answer_lines(
            request, rows, columns=columns, answer_format=answer_format, file_name="target-mappings"
        )

    @extend_schema(
        operation_id="add_target_mapping",
        request=TargetMappingInput,
        responses={201: TargetMappingAnswer},
    )
    def post(self, request: Request) -> Response:
        """Name the targets of a host or pool that match a pattern; workers read its history again."""
        refuse_parameters(request)
        given = read_body(request, TargetMappingInput)
        with map_errors(_PROBLEMS):
            added = add_mapping(TargetMapping(**given), by=find_person(request))
        wake_up()
        return Response(_describe(added), status=201)


class OneTargetMapping(ApiView):
    """One mapping of names of targets."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="remove_target_mapping", responses={204: None})
    def delete(self, request: Request, mapping_id: int) -> Response:
        """Remove a mapping; workers read the history again, which undoes it."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            remove_mapping(mapping_id, by=find_person(request))
        wake_up()
        return Response(status=204)


def _describe(mapping: TargetMapping) -> TargetMappingAnswer:
    return build(TargetMappingAnswer, mapping, created_by=mapping.created_by_name or None)
