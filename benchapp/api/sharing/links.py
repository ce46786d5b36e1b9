"""Signed links: an address that can be read without a token until it expires."""

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import structlog
from django.conf import settings
from django.core.signing import Signer
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.api.framework.answers import ApiAnswer, Time
from benchapp.api.framework.parameters import MomentField, Parameters, refuse_parameters, text_parameter
from benchapp.api.framework.permissions import MayRead, is_signed_in, read_api_token
from benchapp.api.framework.problems import Problem, bad_value
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX
from benchapp.charts.images.options import FORMATS
from benchapp.models import AuditKind, Scope
from benchapp.pipeline.audit import record_write

log = structlog.get_logger(__name__)

IMAGE_KINDS: Final = ("history", "scaling", "matrix", "comparison", "host")
SIGNED_PATHS: Final = (
    f"{PREFIX}/status-badge",
    f"{PREFIX}/incidents/feed",
    *(f"{PREFIX}/charts/{kind}.{suffix}" for kind in IMAGE_KINDS for suffix in FORMATS),
)
LIFETIME_MAXIMUM: Final = timedelta(days=366)
_SIGNER: Final = Signer(salt="benchapp.api.sharing.links")


class SignedParameters(Parameters):
    """What a signed link has beside the parameters of its address."""

    expires = serializers.IntegerField(
        required=False, min_value=0, max_value=2**33, help_text="of a signed link: seconds since 1970"
    )
    signature = text_parameter(100, help_text="of a signed link")


class MayReadOrHasLink(BasePermission):
    """MayRead, or a signed link of this address that has not expired."""

    message = MayRead.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may read; Problem 403 for a link that is not valid or has expired."""
        if "signature" not in request.query_params:
            return MayRead().has_permission(request, view)
        _check_link(request)
        return True


class LinkInput(serializers.Serializer[Any]):
    """The address to sign, and until when."""

    url = serializers.CharField(max_length=4000, help_text=f"path and query: {', '.join(SIGNED_PATHS)}")
    expires_at = MomentField(help_text="at most 366 days from now: +30d, 2026-12-31")


class LinkAnswer(ApiAnswer, kw_only=True, frozen=True):
    url: str
    expires_at: Time


class MayShare(BasePermission):
    """Signed-in users, and tokens that read: a link outlives public reading."""

    message = MayRead.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may make a link."""
        token = read_api_token(request)
        return is_signed_in(request) if token is None else token.scope in (Scope.READ, Scope.ADMIN)


class Links(ApiView):
    """Signed links."""

    permission_classes = [MayShare]

    @extend_schema(operation_id="create_link", request=LinkInput, responses={201: LinkAnswer})
    def post(self, request: Request) -> Response:
        """Sign the address of a badge, a feed or an image of a chart, to be read without a token until it expires."""
        refuse_parameters(request)
        wanted = read_body(request, LinkInput)
        address, expires_at = urlsplit(wanted["url"]), wanted["expires_at"]
        if address.scheme or address.netloc or address.fragment or address.path not in SIGNED_PATHS:
            raise _bad("url", f"{wanted['url'][:80]!r} cannot be signed; valid: {', '.join(SIGNED_PATHS)}")
        if not timezone.now() < expires_at <= timezone.now() + LIFETIME_MAXIMUM:
            raise _bad(
                "expires_at", f"a link lasts at most {LIFETIME_MAXIMUM.days} days, and not into the past"
            )
        query = parse_qsl(address.query, keep_blank_values=True)
        if {"expires", "signature"} & {name for name, _ in query}:
            raise _bad("url", "the address is signed already")
        url = sign_address(address.path, query, expires_at=expires_at)
        log.info("link.signed", url=wanted["url"][:200], expires_at=expires_at.isoformat())
        record_write(AuditKind.LINK, "signed", name=wanted["url"], after={"expires_at": expires_at})
        return Response(LinkAnswer(url=make_base_url(request) + url, expires_at=expires_at), status=201)


def sign_address(path: str, query: list[tuple[str, str]], *, expires_at: datetime) -> str:
    """Return path and query with the end of the link and its signature, which covers both."""
    bounded = [*query, ("expires", str(int(expires_at.timestamp())))]
    return f"{path}?{urlencode([*bounded, ('signature', _SIGNER.signature(_write(path, bounded)))])}"


def make_base_url(request: HttpRequest | Request) -> str:
    """Return the base URL of this server, without a trailing slash."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def _check_link(request: Request) -> None:
    pairs = [(name, value) for name, values in request.query_params.lists() for value in values]
    given = [value for name, value in pairs if name == "signature"]
    signed = [pair for pair in pairs if pair[0] != "signature"]
    wanted = _SIGNER.signature(_write(request.path, signed))
    if len(given) != 1 or not constant_time_compare(given[0], wanted):
        raise Problem(403, "forbidden", "Not allowed", "the signature is not valid for this address")
    if timezone.now().timestamp() >= int(dict(signed).get("expires", "0")):
        raise Problem(403, "forbidden", "Not allowed", "this link has expired; ask for a new one")


def _write(path: str, query: list[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(sorted(query))}"


def _bad(pointer: str, detail: str) -> Problem:
    return bad_value(detail, pointer=f"/{pointer}")
