"""Schedules of hosts: those that the server wants, next to those that they have; what their agents report."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

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
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    FilterParameters,
    PageParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.framework.api.permissions import MayIngest, MayRead, require_api_token
from benchapp.framework.api.problems import no_host
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.models import Host, InstalledSchedule
from benchapp.models.requests import DAY_MINUTES, describe_allowed
from benchapp.models.wanted_schedule import WANTED_SCHEDULES_MAXIMUM
from benchapp.requests.api.run_requests import (
    QUIET_HOURS_PATTERN,
    AllowedProfileInput,
    HoursField,
    ParameterValueField,
    check_parameter_names,
)
from benchapp.requests.read.schedules import (
    ComparedSchedule,
    HostSchedule,
    LineState,
    ScheduledHost,
    ScheduledProfile,
    ScheduleStatus,
    read_statuses,
)
from benchapp.requests.write.wanted_schedules import note_adoption
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import HostFilter, HostRow, page_hosts, read_host
from benchapp.storage.write.hosts import note_schedule


class ScheduleEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    profile: str
    every_s: int
    splay_s: Annotated[int, Meta(description="maximum random delay of a run")]
    directory: str
    at_minute: Annotated[
        int | None, Meta(description="after midnight, local time of the host; null: not reported")
    ]
    parameters: Annotated[
        Mapping[str, int | str] | None, Meta(description="in base units; null: not reported")
    ]
    is_from_server: Annotated[bool, Meta(description="adopted from the server")]
    last_run_at: Time | None
    expected_at: Time | None
    silent_since: Time | None


class ScheduleAnswer(ApiAnswer, kw_only=True, frozen=True):
    since_at: Time
    reported_by: str
    entries: Annotated[Sequence[ScheduleEntryAnswer], Meta(description="empty: nothing is scheduled")]


def describe_schedule(schedule: HostSchedule) -> ScheduleAnswer:
    """Return the answer for the schedule of a host."""
    return build(ScheduleAnswer, schedule, entries=list(map(describe_schedule_entry, schedule.entries)))


def describe_schedule_entry(entry: ScheduledProfile) -> ScheduleEntryAnswer:
    """Return the answer for a scheduled profile."""
    return build(
        ScheduleEntryAnswer,
        entry,
        last_run_at=entry.last_at,
        silent_since=entry.silent_at if entry.is_silent else None,
    )


class HostWantedAnswer(ApiAnswer, kw_only=True, frozen=True):
    wanted_id: Annotated[int, Meta(description="id of the wanted schedule")]
    is_own: Annotated[bool, Meta(description="of this host; false: of its pool")]
    every_s: int
    at_minute: Annotated[
        int, Meta(description="after midnight, local time of the host: its own start within the splay")
    ]
    directory: str
    parameters: Annotated[Mapping[str, int | str], Meta(description="in base units")]


class ScheduleLineAnswer(ApiAnswer, kw_only=True, frozen=True):
    profile: str
    state: Annotated[
        LineState,
        Meta(description="obsolete: adopted, and not wanted any more; own: set on the host, and not wanted"),
    ]
    reason: Annotated[str, Meta(description="why the host refuses it")]
    wanted: HostWantedAnswer | None
    installed: ScheduleEntryAnswer | None
    starts_at: Annotated[Sequence[Time], Meta(description="the next five, of the wanted schedule")]


class HostScheduleAnswer(ApiAnswer, kw_only=True, frozen=True):
    host: str
    pool: str
    is_different: Annotated[bool, Meta(description="the host does not run what is wanted")]
    is_adopting: Annotated[
        bool | None, Meta(description="[schedule] from_server of its agent; null: not reported")
    ]
    allows: Annotated[
        Sequence[str], Meta(description="profiles and parameters that it adopts, as [schedule] allow")
    ]
    directories: Annotated[Sequence[str], Meta(description="in which it adopts schedules")]
    reported_at: Annotated[Time | None, Meta(description="when its agent last asked for its schedule")]
    version: Annotated[str, Meta(description="of the wanted schedule")]
    is_current: Annotated[bool, Meta(description="its agent handled this version")]
    problem: Annotated[str, Meta(description="why its agent could install nothing; empty: none")]
    time_zone: Annotated[str, Meta(description="IANA name; empty: unknown, its times count as UTC")]
    since_at: Annotated[Time | None, Meta(description="when its schedule last changed; null: not reported")]
    reported_by: Annotated[str, Meta(description="token that reported its schedule")]
    expected_at: Annotated[Time | None, Meta(description="next expected run")]
    silent_since: Time | None
    lines: Sequence[ScheduleLineAnswer]
    url: str
    page: str


@with_columns(HostScheduleAnswer)
class ListedHostScheduleAnswer(ChosenColumns, kw_only=True, frozen=True):
    """The schedule of a host in a list."""


HOST_SCHEDULE_COLUMNS: Final = list_columns(ListedHostScheduleAnswer)


HostSchedulePage = define_answer("HostSchedulePage", AnswerPage, schedules=Sequence[ListedHostScheduleAnswer])


class OwnWantedEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    profile: str
    parameters: Mapping[str, int | str]
    directory: str
    every_s: int
    at_minute: int


class OwnWantedAnswer(ApiAnswer, kw_only=True, frozen=True):
    version: str
    wanted: Sequence[OwnWantedEntryAnswer]


class HostScheduleParameters(FilterParameters, PageParameters):
    """Which hosts: host and pool terms are compared with the host, all others must match one of its series."""

    columns = HOST_SCHEDULE_COLUMNS
    is_retired = flag_parameter()
    is_schedule_different = flag_parameter(
        help_text="true: hosts whose schedule differs from the one that the server wants"
    )


_ENTRIES_MAXIMUM: Final = 100
_EVERY_MINIMUM_S: Final = 60
_EVERY_MAXIMUM_S: Final = 366 * 86_400
# PATH_MAX of Linux.
_DIRECTORY_MAXIMUM: Final = 4096
_PROFILES_MAXIMUM: Final = 20
_DIRECTORIES_MAXIMUM: Final = 50
_HOURS_MAXIMUM: Final = 50
# Every five minutes.
_PER_DAY_MAXIMUM: Final = 288
_REASON_MAXIMUM: Final = 1000
# All that a pool and a host can want together.
_REFUSED_MAXIMUM: Final = 2 * WANTED_SCHEDULES_MAXIMUM


class ScheduleEntryInput(serializers.Serializer[Any]):
    """A scheduled profile of a host."""

    profile = serializers.CharField(max_length=100)
    every_s = serializers.IntegerField(min_value=_EVERY_MINIMUM_S, max_value=_EVERY_MAXIMUM_S)
    splay_s = serializers.IntegerField(required=False, default=0, min_value=0, max_value=_EVERY_MAXIMUM_S)
    directory = serializers.CharField(max_length=_DIRECTORY_MAXIMUM, trim_whitespace=False)
    at_minute = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=DAY_MINUTES - 1,
        help_text="after midnight, local time of the host",
    )
    parameters = serializers.DictField(
        child=ParameterValueField(),
        required=False,
        help_text="in base units, if they differ from the default",
    )
    is_from_server = serializers.BooleanField(required=False, help_text="adopted from the server")

    def validate_parameters(self, value: dict[str, Any]) -> dict[str, Any]:
        """Bound the number and the length of names."""
        return check_parameter_names(value)

    def to_internal_value(self, data: Any) -> Any:
        """Reject unknown members: a misspelled one would be lost silently."""
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, Mapping) else []
        if unknown:
            raise serializers.ValidationError(
                {unknown[0][:80]: [f"is unknown; available: {', '.join(self.fields)}"]}
            )
        return super().to_internal_value(data)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Reject a random delay that is not shorter than the interval."""
        if attrs["splay_s"] >= attrs["every_s"]:
            raise serializers.ValidationError(
                {"splay_s": [f"{attrs['splay_s']} s is not less than the interval, {attrs['every_s']} s"]}
            )
        return attrs


class ScheduleInput(serializers.Serializer[Any]):
    """The schedule of a host; an empty list: nothing is scheduled."""

    entries = serializers.ListField(child=ScheduleEntryInput(), allow_empty=True, max_length=_ENTRIES_MAXIMUM)


class OwnSchedule(ApiView):
    """The schedule of the host of the request's token."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="read_own_schedule", responses=HostScheduleAnswer)
    def get(self, request: Request) -> HttpResponse:
        """Read wanted and installed schedules of this host, and its next expected runs."""
        refuse_parameters(request)
        return answer_json(request, _read_schedule(_require_host(request).name))

    @extend_schema(operation_id="replace_own_schedule", request=ScheduleInput, responses=ScheduleAnswer)
    def put(self, request: Request) -> HttpResponse:
        """Replace the schedule of this host, which is used to detect silent hosts."""
        refuse_parameters(request)
        own = _require_host(request)
        wanted = read_body(request, ScheduleInput)
        entries = [InstalledSchedule(**entry) for entry in wanted["entries"]]
        note_schedule(own.pk, entries, reported_by=str(require_api_token(request)))
        host = read_host(own.name)
        if host is None or host.schedule is None:
            raise RuntimeError(f"host {own.name} lost its schedule during the request")
        return answer_json(request, describe_schedule(host.schedule))


class RefusedScheduleInput(serializers.Serializer[Any]):
    """A wanted schedule that the host does not adopt."""

    profile = serializers.CharField(max_length=100)
    reason = serializers.CharField(max_length=_REASON_MAXIMUM)


class AdoptionInput(serializers.Serializer[Any]):
    """What the host adopts of the server's schedules, and the result of the last adoption."""

    is_allowed = serializers.BooleanField(help_text="[schedule] from_server")
    profiles = serializers.ListField(
        child=AllowedProfileInput(), allow_empty=True, max_length=_PROFILES_MAXIMUM, help_text="empty: none"
    )
    directories = serializers.ListField(
        child=serializers.CharField(max_length=_DIRECTORY_MAXIMUM, trim_whitespace=False),
        allow_empty=True,
        max_length=_DIRECTORIES_MAXIMUM,
    )
    per_day = serializers.IntegerField(
        min_value=1, max_value=_PER_DAY_MAXIMUM, help_text="scheduled runs within 24 hours"
    )
    quiet_hours = serializers.ListField(
        child=HoursField(QUIET_HOURS_PATTERN),
        allow_empty=True,
        max_length=_HOURS_MAXIMUM,
        help_text="local time of the host: 08:00-18:00",
    )
    version = serializers.CharField(
        allow_blank=True, max_length=64, help_text="of the last adoption; empty: none yet"
    )
    refused = serializers.ListField(
        child=RefusedScheduleInput(), allow_empty=True, max_length=_REFUSED_MAXIMUM
    )
    problem = serializers.CharField(
        allow_blank=True, max_length=_REASON_MAXIMUM, help_text="why nothing was installed; empty: none"
    )


class OwnAdoption(ApiView):
    """What the host of the request's token adopts."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="adopt_own_schedule", request=AdoptionInput, responses=OwnWantedAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Report what this host adopts, and return the schedule that is wanted of it; for `bench-agent poll`."""
        refuse_parameters(request)
        host, given = _require_host(request), read_body(request, AdoptionInput)
        policy = {name: given.pop(name) for name in ("profiles", "directories", "per_day", "quiet_hours")}
        note_adoption(host.pk, {**given, "policy": policy})
        status = _read_statuses([_require_row(host.name)])[host.pk]
        wanted = [line.wanted for line in status.lines if line.wanted is not None]
        return answer_json(
            request,
            OwnWantedAnswer(
                version=status.version, wanted=[build(OwnWantedEntryAnswer, each) for each in wanted]
            ),
        )


class Schedules(ApiView):
    """The schedules of all hosts."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_schedules",
        parameters=[HostScheduleParameters],
        responses=in_formats(HostSchedulePage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List wanted and installed schedules of hosts, by name."""
        wanted = read_parameters(request, HostScheduleParameters)
        page = take_page_request(wanted)
        chosen = HostFilter(**wanted, shipped_version=read_agent_version())
        return answer_list(
            request,
            HostSchedulePage,
            ListedHostScheduleAnswer,
            page=page,
            read=lambda after, limit: page_hosts(chosen, after=after, limit=limit),
            describe=lambda hosts: _describe_hosts(ListedHostScheduleAnswer, hosts),
            name="schedules",
            context={"filter": write_filter(chosen.match)},
        )


class OneHostSchedule(ApiView):
    """The schedule of one host."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_host_schedule", responses=HostScheduleAnswer)
    def get(self, request: Request, name: str) -> HttpResponse:
        """Read wanted and installed schedules of a host, and its next expected runs."""
        refuse_parameters(request)
        return answer_json(request, _read_schedule(name))


def _require_host(request: Request) -> Host:
    host = require_api_token(request).host
    if host is None:
        raise NotAuthenticated
    return host


def _require_row(name: str) -> HostRow:
    row = read_host(name.lower())
    if row is None:
        raise no_host(name)
    return row


def _read_schedule(name: str) -> HostScheduleAnswer:
    return _describe_hosts(HostScheduleAnswer, [_require_row(name)])[0]


def _read_statuses(rows: Sequence[HostRow]) -> dict[int, ScheduleStatus]:
    hosts = [
        ScheduledHost(
            id=row.id,
            name=row.name,
            pool=row.pool,
            is_retired=row.retired_at is not None,
            installed=row.schedule.entries if row.schedule else (),
        )
        for row in rows
    ]
    return read_statuses(hosts, now=timezone.now())


def _describe_hosts(kind: type[Kind], rows: Sequence[HostRow]) -> list[Kind]:
    statuses = _read_statuses(rows)
    return [_describe_host(kind, row, statuses[row.id]) for row in rows]


def _describe_host(kind: type[Kind], row: HostRow, status: ScheduleStatus) -> Kind:
    adoption, schedule = status.adoption, row.schedule
    return build(
        kind,
        status,
        host=row.name,
        pool=row.pool,
        is_adopting=adoption.is_allowed if adoption else None,
        allows=describe_allowed(adoption.policy["profiles"]) if adoption else (),
        directories=adoption.policy["directories"] if adoption else (),
        reported_at=adoption.reported_at if adoption else None,
        problem=adoption.problem if adoption else "",
        since_at=schedule.since_at if schedule else None,
        reported_by=schedule.reported_by if schedule else "",
        expected_at=schedule.expected_at if schedule else None,
        silent_since=schedule.silent_since if schedule else None,
        lines=list(map(_describe_line, status.lines)),
        url=f"{PREFIX}/hosts/{row.name}/schedule",
        page=f"/hosts/{row.name}/settings/",
    )


def _describe_line(line: ComparedSchedule) -> ScheduleLineAnswer:
    installed = line.installed
    return build(
        ScheduleLineAnswer,
        line,
        wanted=build(HostWantedAnswer, line.wanted) if line.wanted else None,
        installed=describe_schedule_entry(installed) if isinstance(installed, ScheduledProfile) else None,
    )
