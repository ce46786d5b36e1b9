"""Create and revoke host tokens, and enroll new hosts."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.api.framework.answers import ApiAnswer, Time, build
from benchapp.api.framework.parameters import MomentField, refuse_parameters
from benchapp.api.framework.permissions import MayAdminister, MayEnroll, find_person, require_api_token
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import answer_json
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.hosts import no_host
from benchapp.api.resources.shapes import PREFIX
from benchapp.models import Host, Scope
from benchapp.pipeline.access.tokens import issue_token, revoke_token
from benchapp.pipeline.hosts import EnrollmentRefused, enroll_host
from benchapp.queries.hosts.hosts import read_host, read_tokens


class TokenAnswer(ApiAnswer, kw_only=True, frozen=True):
    public_id: str
    label: str
    created_at: Time
    created_by: str | None
    last_used_at: Time | None
    expires_at: Time | None
    revoked_at: Time | None


class NewTokenAnswer(ApiAnswer, kw_only=True, frozen=True):
    public_id: str
    host: str
    label: str
    created_at: Time
    expires_at: Time | None
    token: Annotated[str, Meta(description="shown once; only a digest is stored")]


class EnrollmentAnswer(ApiAnswer, kw_only=True, frozen=True):
    host: str
    token: Annotated[str, Meta(description="the host's token, shown once")]
    url: str


class TokenList(ApiAnswer, kw_only=True, frozen=True):
    tokens: Sequence[TokenAnswer]


_SECRET = {"Cache-Control": "no-store"}


class TokenInput(serializers.Serializer[Any]):
    """A new token."""

    label = serializers.CharField(  # type: ignore[assignment]  # a serializer has a label itself
        required=False, default="", allow_blank=True, max_length=100
    )
    expires_at = MomentField(required=False, allow_null=True, default=None)

    def validate_expires_at(self, value: Any) -> Any:
        """Reject an expiry in the past."""
        if value is not None and value <= timezone.now():
            raise serializers.ValidationError("the expiry is in the past: use a later time, or null for none")
        return value


class EnrollmentInput(serializers.Serializer[Any]):
    """A new host."""

    name = serializers.CharField(max_length=253)
    agent_version = serializers.CharField(required=False, default="", allow_blank=True, max_length=50)


class HostTokens(ApiView):
    """The tokens of one host."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="list_host_tokens", responses=TokenList)
    def get(self, request: Request, name: str) -> HttpResponse:
        """List a host's tokens without their secrets, newest first."""
        refuse_parameters(request)
        host = read_host(name.lower())
        if host is None:
            raise no_host(name)
        return answer_json(
            request, TokenList(tokens=[build(TokenAnswer, token) for token in read_tokens(host.id)])
        )

    @extend_schema(operation_id="create_host_token", request=TokenInput, responses={201: NewTokenAnswer})
    def post(self, request: Request, name: str) -> Response:
        """Create a token with which this host posts results; it is shown once."""
        refuse_parameters(request)
        wanted = read_body(request, TokenInput)
        host = Host.objects.filter(name=name.lower()).first()
        if host is None:
            raise no_host(name)
        token, plaintext = issue_token(
            scope=Scope.INGEST, host=host, created_by=find_person(request), **wanted
        )
        body = build(NewTokenAnswer, token, host=host.name, token=plaintext)
        return Response(body, status=201, headers=_SECRET)


class OneToken(ApiView):
    """One token."""

    permission_classes = [MayAdminister]

    @extend_schema(operation_id="revoke_token", responses={204: None})
    def delete(self, request: Request, public_id: str) -> Response:
        """Revoke a token immediately and permanently."""
        refuse_parameters(request)
        if not revoke_token(public_id):
            raise Problem(
                404,
                "not-found",
                "No such token",
                f"token {public_id[:20]!r} does not exist or is already revoked",
            )
        return Response(status=204)


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
            status = 409 if refusal.code == "host-exists" else 422
            raise Problem(status, refusal.code, "Not enrolled", str(refusal), pointer="/name") from refusal
        url = f"{PREFIX}/hosts/{host.name}"
        body = EnrollmentAnswer(host=host.name, token=plaintext, url=url)
        return Response(body, status=201, headers={**_SECRET, "Location": url})
