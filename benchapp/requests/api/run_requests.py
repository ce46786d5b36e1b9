"""Run requests, and the policies of confirmation runs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema, extend_schema_field
from msgspec import Meta
from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.framework.api.answers import (
    PREFIX,
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
    PageParameters,
    SpanParameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.framework.api.permissions import (
    MayIngest,
    MayReadOrEdit,
    find_person,
    name_token,
    require_api_token,
)
from benchapp.framework.api.problems import (
    ErrorProblems,
    Problem,
    bad_value,
    map_errors,
    no_host,
    not_found,
    state_differs,
)
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.models import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_DEFAULT,
    DAILY_SHARE_MAXIMUM,
    Host,
    RunRequest,
    RunRequestState,
)
from benchapp.models.requests import read_value
from benchapp.requests.read.run_requests import (
    ConfirmationPool,
    HostPolicy,
    RequestFilter,
    list_confirmation_pools,
    page_run_requests,
    read_request_policy,
    read_run_request,
)
from benchapp.requests.write.polling import end_request, poll_host, release_request, start_request
from benchapp.requests.write.run_requests import (
    EXPIRY_DEFAULT,
    EXPIRY_MAXIMUM,
    EXPIRY_MINIMUM,
    BadConfirmationPolicy,
    RequestOrigin,
    RequestRefused,
    RequestSettled,
    UnknownRunRequest,
    cancel_run_request,
    repeat_run,
    request_run,
    set_confirmation_policy,
)

PARAMETERS_HELP: Final = "in base units, or text with a unit: `64MiB`, `10m`, `500us`"
_PROFILES_MAXIMUM: Final = 20
_PARAMETERS_MAXIMUM: Final = 50
_VALUES_MAXIMUM: Final = 50
QUIET_HOURS_PATTERN: Final = r"^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]\Z"
_DIRECTORIES_MAXIMUM: Final = 50
_PER_DAY_MAXIMUM: Final = 48
_DIRECTORY_MAXIMUM: Final = 4096
_REASON_MAXIMUM: Final = 1000
_NUMBER_MAXIMUM: Final = 2**63 - 1
_DURATION_MAXIMUM_S: Final = 366 * 86_400

_PROBLEMS: Final[ErrorProblems] = {
    UnknownRunRequest: partial(not_found, "requested run"),
    RequestRefused: lambda refusal: Problem(409, "run-request-refused", "Not requested", str(refusal)),
    RequestSettled: state_differs,
}


class RunRequestAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    host: str
    profile: str
    parameters: Annotated[
        Mapping[str, int | str],
        Meta(description="in base units; others have the default of the profile"),
    ]
    directory: str
    state: RunRequestState
    reason: Annotated[str, Meta(description="why it waits, failed or was declined; empty: nothing reported")]
    is_automatic: Annotated[bool, Meta(description="requested by the server to confirm a change")]
    repeats_run: Annotated[int | None, Meta(description="the run that it repeats")]
    created_by: str | None
    created_at: Time
    expires_at: Time
    started_at: Time | None
    duration_s: Annotated[float | None, Meta(description="estimated, as reported by the agent at its start")]
    progress: Annotated[
        float | None,
        Meta(description="share of duration_s that has passed, at most 0.99; null unless running"),
    ]
    finished_at: Time | None
    run: Annotated[int | None, Meta(description="the result, once it is stored")]
    url: str
    page: Annotated[str, Meta(description="page of the result, else of the host")]


@with_columns(RunRequestAnswer)
class ListedRunRequestAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A request in a list."""


class RunRequestPage(AnswerPage, kw_only=True, frozen=True):
    policy: Annotated[
        HostPolicy | None, Meta(description="what the host allows; null: its agent never polled")
    ]
    requests: Sequence[ListedRunRequestAnswer]


class OfferedRunAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: Annotated[UUID, Meta(description="also of the submission of its result")]
    profile: str
    parameters: Mapping[str, int | str]
    directory: str
    expires_at: Time


class RequestOfferAnswer(ApiAnswer, kw_only=True, frozen=True):
    request: Annotated[OfferedRunAnswer | None, Meta(description="null: nothing to run")]


REQUEST_COLUMNS: Final = list_columns(ListedRunRequestAnswer)


class RunRequestParameters(SpanParameters, PageParameters):
    """Which requests; the range is that of their creation."""

    columns = REQUEST_COLUMNS
    state = ChoiceParameter(choices=RunRequestState.values, required=False)
    sort = time_order_parameter("created_at")


@extend_schema_field({"anyOf": [{"type": "integer"}, {"type": "string"}]})
class ParameterValueField(serializers.Field[Any, Any, Any, Any]):
    """A whole number in the base unit of the parameter, or text."""

    def to_internal_value(self, data: Any) -> int | str:
        """Return the value."""
        if isinstance(data, int) and not isinstance(data, bool) and abs(data) <= _NUMBER_MAXIMUM:
            return data
        if isinstance(data, str) and len(data) <= _DIRECTORY_MAXIMUM and "\x00" not in data:
            return data
        raise serializers.ValidationError("expected a whole number in the base unit, or text")

    def to_representation(self, value: Any) -> Any:
        """Return the value."""
        return value


class RunParametersField(serializers.DictField):
    """Parameters of a run, as the forms read them."""

    child = ParameterValueField()

    def to_internal_value(self, data: Any) -> dict[str, int | str]:
        """Return the values in base units."""
        values: dict[str, int | str] = super().to_internal_value(data)
        for name, value in values.items():
            try:
                values[name] = read_value(name, value)
            except ValueError as error:
                raise serializers.ValidationError({name: [str(error)]}) from None
        return values


class _StrictInput(serializers.Serializer[Any]):
    """Rejects unknown members: a misspelled one would be lost silently."""

    def to_internal_value(self, data: Any) -> Any:
        """Check the names of the members."""
        unknown = sorted(map(str, set(data) - set(self.fields))) if isinstance(data, Mapping) else []
        if unknown:
            raise serializers.ValidationError(
                {unknown[0][:80]: [f"is unknown; available: {', '.join(self.fields)}"]}
            )
        return super().to_internal_value(data)


class AllowedValuesInput(_StrictInput):
    """Allowed values of a parameter: a list, or a range with both ends."""

    values = serializers.ListField(
        child=ParameterValueField(), required=False, allow_empty=False, max_length=_VALUES_MAXIMUM
    )
    minimum = serializers.IntegerField(required=False, min_value=-_NUMBER_MAXIMUM, max_value=_NUMBER_MAXIMUM)
    maximum = serializers.IntegerField(required=False, min_value=-_NUMBER_MAXIMUM, max_value=_NUMBER_MAXIMUM)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require a list or a range."""
        if set(attrs) not in ({"values"}, {"minimum", "maximum"}):
            raise serializers.ValidationError("expected values, or minimum and maximum")
        return attrs


def check_parameter_names(value: dict[str, Any]) -> dict[str, Any]:
    """Bound the number and the length of names of parameters."""
    if len(value) > _PARAMETERS_MAXIMUM or any(len(name) > 100 or "\x00" in name for name in value):
        raise serializers.ValidationError(
            f"at most {_PARAMETERS_MAXIMUM} names of at most 100 characters, without NUL"
        )
    return value


class AllowedProfileInput(_StrictInput):
    """An allowed profile. parameters: those that a request may set."""

    profile = serializers.CharField(max_length=100)
    parameters = serializers.DictField(child=AllowedValuesInput())

    def validate_parameters(self, value: dict[str, Any]) -> dict[str, Any]:
        """Bound the number and the length of names."""
        return check_parameter_names(value)


@extend_schema_field(
    {"type": "string", "pattern": QUIET_HOURS_PATTERN.replace("\\Z", "$"), "example": "08:00-18:00"}
)
class HoursField(serializers.RegexField):
    """A time of the day to another one."""


class HostPollInput(serializers.Serializer[Any]):
    """What the host allows, and whether it starts a run now."""

    profiles = serializers.ListField(
        child=AllowedProfileInput(), allow_empty=True, max_length=_PROFILES_MAXIMUM, help_text="empty: none"
    )
    directories = serializers.ListField(
        child=serializers.CharField(max_length=_DIRECTORY_MAXIMUM, trim_whitespace=False),
        allow_empty=True,
        max_length=_DIRECTORIES_MAXIMUM,
    )
    per_day = serializers.IntegerField(min_value=1, max_value=_PER_DAY_MAXIMUM)
    quiet_hours = serializers.ListField(
        child=HoursField(QUIET_HOURS_PATTERN),
        allow_empty=True,
        max_length=_VALUES_MAXIMUM,
        help_text="local time of the host: 08:00-18:00",
    )
    waits_for = serializers.ChoiceField(
        choices=("quota", "quiet-hours"),
        required=False,
        allow_null=True,
        help_text="null: it starts a run now",
    )
    waits_until = serializers.DateTimeField(required=False, allow_null=True)


class OwnRequestReport(serializers.Serializer[Any]):
    """What the host reports about a request."""

    state = serializers.ChoiceField(
        choices=("pending", "running", "failed", "declined"),
        help_text="running: it starts; pending: it starts later; done follows from its result",
    )
    duration_s = serializers.FloatField(
        required=False, min_value=0, max_value=_DURATION_MAXIMUM_S, help_text="estimated; with running"
    )
    reason = serializers.CharField(
        required=False, max_length=_REASON_MAXIMUM, help_text="with pending, failed and declined"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require what belongs to the state."""
        needed = "duration_s" if attrs["state"] == "running" else "reason"
        if set(attrs) != {"state", needed}:
            raise serializers.ValidationError(
                {needed: [f"{attrs['state']} requires {needed}, and nothing else"]}
            )
        return attrs


class RunRequestInput(serializers.Serializer[Any]):
    """A run to repeat, or a profile with its parameters and a directory."""

    repeats_run = serializers.IntegerField(
        required=False, min_value=1, max_value=_NUMBER_MAXIMUM, help_text="a run of this host"
    )
    profile = serializers.CharField(required=False, max_length=100)
    parameters = RunParametersField(required=False, help_text=PARAMETERS_HELP)
    directory = serializers.CharField(
        required=False,
        max_length=_DIRECTORY_MAXIMUM,
        trim_whitespace=False,
        help_text="of the policy's directories",
    )
    expires_s = serializers.IntegerField(
        required=False,
        default=int(EXPIRY_DEFAULT.total_seconds()),
        min_value=int(EXPIRY_MINIMUM.total_seconds()),
        max_value=int(EXPIRY_MAXIMUM.total_seconds()),
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require a run, or profile and directory."""
        named = set(attrs) - {"expires_s"}
        if named != {"repeats_run"} and not {"profile", "directory"} <= named <= {
            "profile",
            "parameters",
            "directory",
        }:
            raise serializers.ValidationError(
                {"profile": ["name repeats_run alone, or profile and directory, and parameters if any"]}
            )
        return attrs


class HostRequests(ApiView):
    """The requests of one host."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_run_requests",
        parameters=[RunRequestParameters],
        responses=in_formats(RunRequestPage, "the rows only"),
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        """List requests of a host, newest first by default, and what the host allows."""
        wanted, own = read_parameters(request, RunRequestParameters), name.lower()
        if not Host.objects.filter(name=own).exists():
            raise no_host(name)
        policy = read_request_policy(own)
        page, oldest_first = take_page_request(wanted), take_oldest_first(wanted)
        chosen = RequestFilter(host_name=own, **wanted)
        return answer_list(
            request,
            RunRequestPage,
            ListedRunRequestAnswer,
            page=page,
            read=lambda after, limit: page_run_requests(
                chosen, after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda rows: [build(ListedRunRequestAnswer, _describe_request(row)) for row in rows],
            name="requests",
            about={"policy": policy},
        )

    @extend_schema(
        operation_id="create_run_request", request=RunRequestInput, responses={201: RunRequestAnswer}
    )
    def post(self, request: Request, name: str) -> Response:
        """Request a run: of a profile that the host allows, or again a run of the host."""
        refuse_parameters(request)
        wanted, own = read_body(request, RunRequestInput), name.lower()
        origin = RequestOrigin(by=find_person(request), via=name_token(request))
        expires_in = timedelta(seconds=wanted["expires_s"])
        with map_errors(_PROBLEMS):
            if "repeats_run" in wanted:
                created = repeat_run(
                    wanted["repeats_run"], expires_in=expires_in, origin=origin, host_name=own
                )
            else:
                created = request_run(
                    own,
                    wanted["profile"],
                    parameters=wanted.get("parameters", {}),
                    directory=wanted["directory"],
                    expires_in=expires_in,
                    origin=origin,
                )
        answer = _describe_request(_find(own, created.pk))
        return Response(answer, status=201, headers={"Location": answer.url})


class OneHostRequest(ApiView):
    """One request of a host."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_run_request", responses=RunRequestAnswer)
    def get(self, request: Request, name: str, request_id: UUID) -> HttpResponse:
        """Read one request."""
        refuse_parameters(request)
        return answer_json(request, _describe_request(_find(name.lower(), request_id)))

    @extend_schema(operation_id="cancel_run_request", responses={204: None})
    def delete(self, request: Request, name: str, request_id: UUID) -> Response:
        """Cancel a pending request."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            cancel_run_request(name.lower(), request_id, by=find_person(request))
        return Response(status=204)


class NextOwnRequest(ApiView):
    """The next request of the host of the request's token."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="poll_own_requests", request=HostPollInput, responses=RequestOfferAnswer)
    def post(self, request: Request) -> HttpResponse:
        """Report what this host allows, and return the run that it shall start next; for `bench-agent poll`."""
        refuse_parameters(request)
        wanted = read_body(request, HostPollInput)
        waits_for, waits_until = wanted.pop("waits_for", None) or "", wanted.pop("waits_until", None)
        offered = poll_host(_require_host(request), wanted, waits_for=waits_for, waits_until=waits_until)
        offer = build(OfferedRunAnswer, offered) if offered else None
        return answer_json(request, RequestOfferAnswer(request=offer))


class OneOwnRequest(ApiView):
    """A request of the host of the request's token."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="report_own_request", request=OwnRequestReport, responses=RunRequestAnswer)
    def patch(self, request: Request, request_id: UUID) -> HttpResponse:
        """Report the start of a request, or why it is not run; for `bench-agent poll`."""
        refuse_parameters(request)
        wanted, host_id = read_body(request, OwnRequestReport), _require_host(request)
        with map_errors(_PROBLEMS):
            if wanted["state"] == "running":
                changed = start_request(host_id, request_id, duration_s=wanted["duration_s"])
            elif wanted["state"] == "pending":
                changed = release_request(host_id, request_id, reason=wanted["reason"])
            else:
                state = RunRequestState(wanted["state"])
                changed = end_request(host_id, request_id, state=state, reason=wanted["reason"])
        return answer_json(request, _describe_request(_find(changed.host.name, request_id)))


def _require_host(request: Request) -> int:
    host_id = require_api_token(request).host_id
    if host_id is None:
        raise NotAuthenticated
    return host_id


def _find(host_name: str, request_id: UUID) -> RunRequest:
    row = read_run_request(host_name, request_id)
    if row is None:
        raise not_found("requested run", f"host {host_name[:100]!r} has no request {request_id}")
    return row


def _describe_request(row: RunRequest) -> RunRequestAnswer:
    return build(
        RunRequestAnswer,
        row,
        host=row.host.name,
        repeats_run=row.repeats_id,
        created_by=row.created_by_name or None,
        run=row.run_id,
        url=f"{PREFIX}/hosts/{row.host.name}/requests/{row.id}",
        page=f"/runs/{row.run_id}/" if row.run_id else f"/hosts/{row.host.name}/",
    )


ConfirmationPoliciesAnswer = define_answer(
    "ConfirmationPoliciesAnswer", confirmation_policies=Sequence[ConfirmationPool]
)


class ConfirmationPolicyInput(serializers.Serializer[Any]):
    """The policy of one pool."""

    pool = serializers.CharField(allow_blank=True, max_length=100, help_text="empty: hosts without a pool")
    runs = serializers.IntegerField(
        min_value=0, max_value=CONFIRMATION_RUNS_MAXIMUM, help_text="0 removes the policy"
    )
    daily_share = serializers.FloatField(
        required=False, default=DAILY_SHARE_DEFAULT, max_value=DAILY_SHARE_MAXIMUM
    )


class ConfirmationPolicies(ApiView):
    """The policies of all pools."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="list_confirmation_policies", responses=ConfirmationPoliciesAnswer)
    def get(self, request: Request) -> HttpResponse:
        """List all pools with their policy of automatic confirmation, by name."""
        refuse_parameters(request)
        return _answer(request)

    @extend_schema(
        operation_id="set_confirmation_policy",
        request=ConfirmationPolicyInput,
        responses=ConfirmationPoliciesAnswer,
    )
    def put(self, request: Request) -> HttpResponse:
        """Set the policy of one pool, and return those of all."""
        refuse_parameters(request)
        wanted = read_body(request, ConfirmationPolicyInput)
        try:
            set_confirmation_policy(
                wanted["pool"],
                runs=wanted["runs"],
                daily_share=wanted["daily_share"],
                by=find_person(request),
            )
        except BadConfirmationPolicy as error:
            raise bad_value(error) from error
        return _answer(request)


def _answer(request: Request) -> HttpResponse:
    rows = list_confirmation_pools()
    return answer_json(request, ConfirmationPoliciesAnswer(confirmation_policies=rows))
