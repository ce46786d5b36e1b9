"""Tokens of all scopes: list, create, change, rotate, revoke; and enroll new hosts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.accounts.read import page_tokens, read_one_token, read_tokens
from benchapp.accounts.write.tokens import (
    OVERLAP_MAXIMUM,
    TokenNotValid,
    UnknownToken,
    change_token,
    issue_enrollment_token,
    issue_token,
    revoke_token,
    rotate_token,
)
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
    MomentField,
    PageParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    text_parameter,
    time_order_parameter,
)
from benchapp.framework.api.permissions import (
    MayAdminister,
    MayEnroll,
    find_person,
    name_token,
    read_actor,
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
from benchapp.models import ApiToken, Host, Scope, follow_name
from benchapp.models.limits import find_obstacle
from benchapp.storage.read.hosts import read_host
from benchapp.storage.write.hosts import HOST_PATTERN, EnrollmentRefused, enroll_host

_PROBLEMS: Final[ErrorProblems] = {UnknownToken: partial(not_found, "token"), TokenNotValid: state_differs}


class TokenAnswer(ApiAnswer, kw_only=True, frozen=True):
    public_id: str
    scope: Scope
    host: Annotated[str | None, Meta(description="for the scope ingest")]
    pools: Annotated[Sequence[str], Meta(description="that the scope read is limited to; empty: all")]
    host_pattern: Annotated[str, Meta(description="of names that the scope enroll is limited to")]
    label: str
    created_at: Time
    created_by: str | None
    last_used_at: Annotated[Time | None, Meta(description="to 10 minutes")]
    expires_at: Annotated[Time | None, Meta(description="null: never")]
    revoked_at: Time | None
    url: str


@with_columns(TokenAnswer)
class ListedTokenAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A token has the columns that `fields` names."""


TOKEN_COLUMNS: Final = list_columns(ListedTokenAnswer)


TokenPage = define_answer("TokenPage", AnswerPage, tokens=Sequence[ListedTokenAnswer])


class CreatedTokenAnswer(ApiAnswer, kw_only=True, frozen=True):
    public_id: str
    scope: Scope
    host: Annotated[str | None, Meta(description="for the scope ingest")]
    pools: Annotated[Sequence[str], Meta(description="that the scope read is limited to; empty: all")]
    host_pattern: Annotated[str, Meta(description="of names that the scope enroll is limited to")]
    label: str
    created_at: Time
    expires_at: Annotated[Time | None, Meta(description="null: never")]
    token: Annotated[str, Meta(description="shown once; only a digest is stored")]
    url: str


class RotatedTokenAnswer(CreatedTokenAnswer, kw_only=True, frozen=True):
    """The new token. replaced: the old one, with its new expiry."""

    replaced: TokenAnswer


class EnrollmentAnswer(ApiAnswer, kw_only=True, frozen=True):
    host: str
    token: Annotated[str, Meta(description="the host's token, shown once")]
    url: str


TokenList = define_answer("TokenList", tokens=Sequence[TokenAnswer])
_SECRET = {"Cache-Control": "no-store"}


class TokenInput(serializers.Serializer[Any]):
    """A new token of a host."""

    label = serializers.CharField(  # type: ignore[assignment]  # a serializer has a label itself
        required=False, default="", allow_blank=True, max_length=100
    )
    expires_at = MomentField(required=False, allow_null=True, default=None)

    def validate_expires_at(self, value: Any) -> Any:
        """Reject an expiry in the past."""
        return _check_expiry(value)


def _check_expiry(value: datetime | None) -> datetime | None:
    """Return the expiry of a token; ValidationError if it is in the past."""
    if value is not None and value <= timezone.now():
        raise serializers.ValidationError("the expiry is in the past: use a later time, or null for none")
    return value


class AnyTokenInput(TokenInput):
    """A new token of any scope."""

    scope = serializers.ChoiceField(choices=Scope.values)
    host = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=253, help_text="for the scope ingest only"
    )

    pools = serializers.ListField(
        child=serializers.CharField(max_length=100),
        required=False,
        default=list,
        max_length=100,
        help_text="for the scope read only: nothing else is read; empty: all",
    )
    host_pattern = serializers.RegexField(
        HOST_PATTERN,
        required=False,
        max_length=253,
        help_text="for the scope enroll only: a shell pattern of names",
    )

    def validate_pools(self, value: list[str]) -> list[str]:
        """Reject limits that PostgreSQL cannot enforce."""
        if value and (obstacle := find_obstacle()):
            raise serializers.ValidationError(obstacle)
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require a host for the scope ingest alone, and limits of scopes that have them."""
        for name, scope in (("pools", Scope.READ), ("host_pattern", Scope.ENROLL)):
            if attrs.get(name) and attrs["scope"] != scope:
                raise serializers.ValidationError({name: [f"is for the scope {scope} only"]})
        if (attrs["scope"] == Scope.INGEST) != bool(attrs["host"]):
            raise serializers.ValidationError(
                {"host": ["is required for the scope ingest, and for no other"]}
            )
        return attrs


class TokenChanges(serializers.Serializer[Any]):
    """What to change; members that are left out stay."""

    label = serializers.CharField(  # type: ignore[assignment]  # a serializer has a label itself
        required=False, allow_blank=True, max_length=100
    )
    expires_at = MomentField(required=False, allow_null=True, help_text="null: never")

    def validate_expires_at(self, value: Any) -> Any:
        """Reject an expiry in the past."""
        return _check_expiry(value)


class RotationInput(serializers.Serializer[Any]):
    """How long the old token stays valid."""

    overlap_s = serializers.IntegerField(
        required=False,
        default=86_400,
        min_value=0,
        max_value=int(OVERLAP_MAXIMUM.total_seconds()),
        help_text="seconds; 0: it expires now",
    )


class TokenParameters(PageParameters):
    """Which tokens to list."""

    columns = TOKEN_COLUMNS

    scope = ChoiceParameter(choices=Scope.values, required=False)
    host = text_parameter(253)
    valid = flag_parameter(source="is_valid", help_text="true: neither revoked nor expired")
    sort = time_order_parameter("created_at")


class EnrollmentInput(serializers.Serializer[Any]):
    """A new host."""

    name = serializers.CharField(max_length=253)
    agent_version = serializers.CharField(required=False, default="", allow_blank=True, max_length=50)


class HostTokens(ApiView):
    """The tokens of one host."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="list_host_tokens", responses=TokenList)
    def get(self, request: Request, name: str) -> HttpResponse:
        """List a host's tokens without their secrets, newest first by default."""
        refuse_parameters(request)
        host = read_host(name.lower())
        if host is None:
            raise no_host(name)
        tokens = [_describe_token(token) for token in read_tokens(host.id)]
        return answer_json(request, TokenList(tokens=tokens))

    @extend_schema(operation_id="create_host_token", request=TokenInput, responses={201: CreatedTokenAnswer})
    def post(self, request: Request, name: str) -> Response:
        """Create a token with which this host posts results; it is shown once."""
        refuse_parameters(request)
        wanted = read_body(request, TokenInput)
        host = Host.objects.filter(name=name.lower()).first()
        if host is None:
            raise no_host(name)
        token, plaintext = issue_token(
            scope=Scope.INGEST,
            host=host,
            created_by=find_person(request),
            via=name_token(request),
            **wanted,
        )
        return _answer_new(token, plaintext)


class Tokens(ApiView):
    """All tokens."""

    permission_classes = [MayAdminister]

    @extend_schema(
        operation_id="list_tokens",
        parameters=[TokenParameters],
        responses=in_formats(TokenPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List tokens of all scopes without their secrets, newest first."""
        wanted = read_parameters(request, TokenParameters)
        page = take_page_request(wanted)
        oldest_first = take_oldest_first(wanted)
        return answer_list(
            request,
            TokenPage,
            ListedTokenAnswer,
            page=page,
            read=lambda after, limit: page_tokens(
                **wanted, after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda tokens: [build(ListedTokenAnswer, _describe_token(each)) for each in tokens],
            name="tokens",
        )

    @extend_schema(operation_id="create_token", request=AnyTokenInput, responses={201: CreatedTokenAnswer})
    def post(self, request: Request) -> Response:
        """Create a token of any scope; it is shown once. Without an expiry, one of the scope enroll lasts 24 hours."""
        refuse_parameters(request)
        wanted = read_body(request, AnyTokenInput)
        scope, name = Scope(wanted.pop("scope")), wanted.pop("host")
        by, via = find_person(request), name_token(request)
        if scope == Scope.ENROLL:
            del wanted["pools"]
            return _answer_new(*issue_enrollment_token(created_by=by, via=via, **wanted))
        host = Host.objects.filter(name=follow_name("host", name.lower())).first() if name else None
        if name and host is None:
            raise bad_value(f"host {name[:100]!r} does not exist", pointer="/host")
        return _answer_new(*issue_token(scope=scope, host=host, created_by=by, via=via, **wanted))


class OneToken(ApiView):
    """One token."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="read_token", responses=TokenAnswer)
    def get(self, request: Request, public_id: str) -> HttpResponse:
        """Read a token without its secret."""
        refuse_parameters(request)
        return answer_json(request, _describe_token(_find_token(public_id)))

    @extend_schema(operation_id="change_token", request=TokenChanges, responses=TokenAnswer)
    def patch(self, request: Request, public_id: str) -> HttpResponse:
        """Change label or expiry of a valid token. An enrollment token always has an expiry."""
        refuse_parameters(request)
        wanted = read_body(request, TokenChanges)
        if wanted.get("expires_at", "") is None and _find_token(public_id).scope == Scope.ENROLL:
            raise bad_value("an enrollment token needs an expiry", pointer="/expires_at")
        with map_errors(_PROBLEMS):
            change_token(public_id, **read_actor(request), **wanted)
        return answer_json(request, _describe_token(_find_token(public_id)))

    @extend_schema(operation_id="revoke_token", responses={204: None})
    def delete(self, request: Request, public_id: str) -> Response:
        """Revoke a token immediately and permanently."""
        refuse_parameters(request)
        if not revoke_token(public_id, **read_actor(request)):
            raise not_found(
                "token",
                f"token {public_id[:20]!r} does not exist or is already revoked",
            )
        return Response(status=204)


class TokenRotation(ApiView):
    """Replacement of a token."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="rotate_token", request=RotationInput, responses={201: RotatedTokenAnswer})
    def post(self, request: Request, public_id: str) -> Response:
        """Create a token that replaces this one, which expires after the overlap; the new one is shown once.

        It has scope, host, label and lifetime of the old one.
        """
        refuse_parameters(request)
        wanted = read_body(request, RotationInput)
        with map_errors(_PROBLEMS):
            old, token, plaintext = rotate_token(
                public_id,
                overlap=timedelta(seconds=wanted["overlap_s"]),
                **read_actor(request),
            )
        body = build(
            RotatedTokenAnswer,
            token,
            **_describe_new(token, plaintext),
            replaced=_describe_token(_find_token(old.public_id)),
        )
        return Response(body, status=201, headers=_SECRET)


class Enrollments(ApiView):
    """Enrollment of hosts."""

    permission_classes = [MayEnroll]

    @extend_schema(operation_id="enroll_host", request=EnrollmentInput, responses={201: EnrollmentAnswer})
    def post(self, request: Request) -> Response:
        """Create a host and its token, which is shown once."""
        refuse_parameters(request)
        wanted = read_body(request, EnrollmentInput)
        token = require_api_token(request)
        try:
            host, plaintext = enroll_host(
                wanted["name"], enrollment=token, agent_version=wanted["agent_version"]
            )
        except EnrollmentRefused as refusal:
            status = {"host-exists": 409, "host-name-not-allowed": 403}.get(refusal.code, 422)
            raise Problem(status, refusal.code, "Not enrolled", str(refusal), pointer="/name") from refusal
        url = f"{PREFIX}/hosts/{host.name}"
        body = EnrollmentAnswer(host=host.name, token=plaintext, url=url)
        return Response(body, status=201, headers={**_SECRET, "Location": url})


def _describe_token(token: ApiToken) -> TokenAnswer:
    return build(
        TokenAnswer,
        token,
        scope=Scope(token.scope),
        host=token.host.name if token.host else None,
        created_by=token.created_by.username if token.created_by else None,
        url=_token_url(token.public_id),
    )


def _answer_new(token: ApiToken, plaintext: str) -> Response:
    body = build(CreatedTokenAnswer, token, **_describe_new(token, plaintext))
    return Response(body, status=201, headers={**_SECRET, "Location": body.url})


def _describe_new(token: ApiToken, plaintext: str) -> dict[str, Any]:
    return {
        "scope": Scope(token.scope),
        "host": token.host.name if token.host else None,
        "token": plaintext,
        "url": _token_url(token.public_id),
    }


def _token_url(public_id: str) -> str:
    return f"{PREFIX}/tokens/{public_id}"


def _find_token(public_id: str) -> ApiToken:
    token = read_one_token(public_id)
    if token is None:
        raise not_found("token", f"token {public_id[:20]!r} does not exist")
    return token
