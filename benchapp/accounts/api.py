"""Signed links: an address that can be read without a token until it expires."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

import structlog
from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.accounts.read import LinkRow, belongs_to, page_links
from benchapp.accounts.write.tokens import LinkRefused, check_link, make_link, revoke_link
from benchapp.charts.images.frame import FORMATS
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
    MomentField,
    PageParameters,
    Parameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    text_parameter,
    time_order_parameter,
)
from benchapp.framework.api.permissions import (
    MayAdminister,
    MayRead,
    find_person,
    is_signed_in,
    read_api_token,
)
from benchapp.framework.api.problems import Problem, bad_value, not_found
from benchapp.framework.api.view import ApiView, read_body
from benchapp.models import Scope, SignedLink
from benchapp.models.limits import limit_person, limit_token, unlimited

log = structlog.get_logger(__name__)

IMAGE_KINDS: Final = (
    "history",
    "percentiles",
    "scaling",
    "matrix",
    "comparison",
    "layouts",
    "host",
    "incident",
)
SIGNED_PATHS: Final = (
    f"{PREFIX}/status-badge",
    f"{PREFIX}/incidents/feed",
    *(f"{PREFIX}/charts/{kind}.{suffix}" for kind in IMAGE_KINDS for suffix in FORMATS),
)
LIFETIME_MAXIMUM: Final = timedelta(days=366)
_OWN_PARAMETERS: Final = {"link", "expires", "signature"}


class SignedParameters(Parameters):
    """What a signed link has beside the parameters of its address."""

    link = serializers.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, help_text="of a signed link: its id"
    )
    expires = serializers.IntegerField(
        required=False, min_value=0, max_value=2**33, help_text="of a signed link: seconds since 1970"
    )
    signature = text_parameter(100, help_text="of a signed link")


class MayReadOrHasLink(BasePermission):
    """MayRead, or a signed link of this address that has not ended."""

    message = MayRead.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may read; Problem 403 for a link that is not valid or has ended."""
        if "signature" not in request.query_params:
            return MayRead().has_permission(request, view)
        query = [(name, value) for name, values in request.query_params.lists() for value in values]
        try:
            with unlimited():
                link = check_link(request.path, query)
        except LinkRefused as refusal:
            raise Problem(403, "forbidden", "Not allowed", str(refusal)) from refusal
        if link is not None:
            # As its maker.
            if link.token is not None:
                limit_token(link.token)
            else:
                limit_person(link.created_by)
        return True


class LinkInput(serializers.Serializer[Any]):
    """The address to sign, and until when."""

    url = serializers.CharField(max_length=4000, help_text=f"path and query: {', '.join(SIGNED_PATHS)}")
    expires_at = MomentField(help_text="at most 366 days from now: +30d, 2026-12-31")


class LinkAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    url: str
    expires_at: Annotated[Time, Meta(description="of the token, if that expires earlier")]


@with_columns(LinkRow)
class ListedLinkAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A link has the columns that `fields` names."""


LinkPage = define_answer("LinkPage", AnswerPage, links=Sequence[ListedLinkAnswer])


class LinkParameters(PageParameters):
    """Which links to list."""

    columns = list_columns(ListedLinkAnswer)

    valid = flag_parameter(source="is_valid", help_text="true: can be read now")
    sort = time_order_parameter("created_at")


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

    @extend_schema(
        operation_id="list_links",
        parameters=[LinkParameters],
        responses=in_formats(LinkPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List one's own signed links without their signatures, newest first; as admin those of everybody."""
        wanted = read_parameters(request, LinkParameters)
        page = take_page_request(wanted)
        oldest_first = take_oldest_first(wanted)
        return answer_list(
            request,
            LinkPage,
            ListedLinkAnswer,
            page=page,
            read=lambda after, limit: page_links(
                _choose_links(request), after=after, limit=limit, oldest_first=oldest_first, **wanted
            ),
            describe=lambda rows: [build(ListedLinkAnswer, row) for row in rows],
            name="links",
        )

    @extend_schema(operation_id="create_link", request=LinkInput, responses={201: LinkAnswer})
    def post(self, request: Request) -> Response:
        """Sign the address of a badge, a feed or an image of a chart, to be read without a token until it expires.

        The link ends earlier if it is revoked, and with the token or the account that made it.
        """
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
        if _OWN_PARAMETERS & {name for name, _ in query}:
            raise _bad("url", "the address is signed already")
        link, url = make_link(
            address.path,
            query,
            expires_at=expires_at,
            by=find_person(request),
            token=read_api_token(request),
        )
        log.info("link.signed", link=link.pk, url=wanted["url"][:200], expires_at=link.expires_at.isoformat())
        return Response(
            LinkAnswer(id=link.pk, url=make_base_url(request) + url, expires_at=link.expires_at), status=201
        )


class OneLink(ApiView):
    """One signed link."""

    permission_classes = [MayShare]

    @extend_schema(operation_id="revoke_link", responses={204: None})
    def delete(self, request: Request, link_id: int) -> Response:
        """End a signed link immediately and permanently; one's own, as admin any."""
        refuse_parameters(request)
        if not SignedLink.objects.filter(_choose_links(request), pk=link_id).exists():
            raise not_found("signed link", f"signed link {link_id} does not exist")
        revoke_link(link_id)
        return Response(status=204)


def _choose_links(request: Request) -> Q:
    """Return the links that a request may see and revoke."""
    if MayAdminister().has_permission(request, None):
        return Q()
    return belongs_to(find_person(request), read_api_token(request))


def make_base_url(request: HttpRequest | Request) -> str:
    """Return the base URL of this server, without a trailing slash."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def _bad(pointer: str, detail: str) -> Problem:
    return bad_value(detail, pointer=f"/{pointer}")
