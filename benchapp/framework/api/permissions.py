"""Who sends a request, and what roles and scopes allow."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from benchapp.accounts.write.tokens import TokenRefused, read_token, require_format
from benchapp.framework.api.problems import Problem
from benchapp.framework.write.audit import note_token
from benchapp.models import ApiToken, Role, Scope, User, note_reader
from benchapp.models.limits import limit_token


class TokenUser:
    """Represents a token where DRF expects a user."""

    is_authenticated = True
    is_active = True
    is_anonymous = False
    is_staff = False
    is_superuser = False
    username = ""

    def __init__(self, token: ApiToken) -> None:
        self.token = token
        self.pk = f"token-{token.pk}"


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer bench_…`; request.auth is then the ApiToken."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return the token as user and as token; None without the header Authorization."""
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        token = authenticate_bearer(header, date=request.headers.get("Date", ""))
        note_token(token)
        note_reader(is_stranger=token.scope not in (Scope.READ, Scope.ADMIN))
        limit_token(token)
        return TokenUser(token), token

    def authenticate_header(self, request: Request) -> str:
        """Return the scheme for WWW-Authenticate."""
        return "Bearer"


def authenticate_bearer(header: str, *, date: str = "") -> ApiToken:
    """Return the valid token of an Authorization header; Problem 401 otherwise. date: the header Date, if sent."""
    text = require_bearer(header)
    try:
        return read_token(text, sent_at=_read_date(date))
    except TokenRefused as refusal:
        raise _refuse(refusal.code, str(refusal)) from refusal


def require_bearer(header: str) -> str:
    """Return the well-formed token of the header without a database query; Problem 401 otherwise."""
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise _refuse("token-missing", "send the token as `Authorization: Bearer bench_…`")
    try:
        require_format(text.strip())
    except TokenRefused as refusal:
        raise _refuse(refusal.code, str(refusal)) from refusal
    return text.strip()


def _read_date(header: str) -> datetime | None:
    """Return the time of a header Date; None if it is missing or no time."""
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse(code: str, detail: str) -> Problem:
    return Problem(401, code, "Token rejected", detail, headers={"WWW-Authenticate": "Bearer"})


class MayRead(BasePermission):
    """Everybody if BENCHAPP_PUBLIC_READ is on; otherwise signed-in users and tokens with the scope read or admin.

    A host's own token (ingest) reads only through views that set `admits_ingest`: the credential of one host must
    not give access to the others.
    """

    message = "this token cannot read; use one with the scope read or admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may read."""
        token = read_api_token(request)
        if token is None:
            return settings.PUBLIC_READ or is_signed_in(request)
        if token.scope == Scope.INGEST and getattr(view, "admits_ingest", False):
            return True
        return settings.PUBLIC_READ or token.scope in (Scope.READ, Scope.ADMIN)


class MayReadRaw(BasePermission):
    """Signed-in users and tokens with the scope read or admin, also if BENCHAPP_PUBLIC_READ is on."""

    message = "raw output requires a signed-in user, or a token with the scope read or admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may read what hosts sent."""
        token = read_api_token(request)
        return is_signed_in(request) if token is None else token.scope in (Scope.READ, Scope.ADMIN)


class MayIngest(BasePermission):
    """Hosts only, with their own token."""

    message = "this requires the token of a host"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the request comes from a host."""
        token = read_api_token(request)
        return token is not None and token.scope == Scope.INGEST


class MayEnroll(BasePermission):
    """Enrollment tokens, and tokens with the scope admin."""

    message = "this requires an enrollment token; an admin creates one on the page Hosts"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may enroll hosts."""
        token = read_api_token(request)
        return token is not None and token.scope in (Scope.ENROLL, Scope.ADMIN)


class MayEdit(BasePermission):
    """Signed-in editors and admins, and tokens with the scope admin."""

    message = "this requires the role editor or admin, or a token with the scope admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may edit."""
        return _has_role(request, Role.EDITOR)


class MayReadOrEdit(BasePermission):
    """MayRead for safe methods, MayEdit for the others."""

    message = MayEdit.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request is allowed."""
        kind = MayRead if request.method in SAFE_METHODS else MayEdit
        return kind().has_permission(request, view)


class MayAdminister(BasePermission):
    """Signed-in admins, and tokens with the scope admin."""

    message = "this requires the role admin, or a token with the scope admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request may change hosts and tokens."""
        return _has_role(request, Role.ADMIN)


class MayReadOrAdminister(BasePermission):
    """MayRead for safe methods, MayAdminister for the others."""

    message = MayAdminister.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether this request is allowed."""
        kind = MayRead if request.method in SAFE_METHODS else MayAdminister
        return kind().has_permission(request, view)


def require_editor(authorization: str, cookies: str) -> None:
    """Check MayEdit by the headers only; Problem 401 or 403 if it does not apply.

    For checks before a large body is read; the view checks again.
    """
    if authorization:
        may_edit = authenticate_bearer(authorization).scope == Scope.ADMIN
    else:
        request = HttpRequest()
        request.session = SessionStore(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME))
        person = get_user(request)
        if not isinstance(person, User):
            raise Problem(
                401,
                "token-missing",
                "Not signed in",
                "a body of this size requires the role editor; sign in, or send a token with the scope admin",
                headers={"WWW-Authenticate": "Bearer"},
            )
        may_edit = person.has_role(Role.EDITOR)
    if not may_edit:
        raise Problem(403, "forbidden", "Not allowed", MayEdit.message)


def read_api_token(request: Request) -> ApiToken | None:
    """Return the token of the request; None for a user or an anonymous request."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def find_person(request: Request) -> User | None:
    """Return the user responsible for a request: the user or the owner of the token; None without an owner."""
    token = read_api_token(request)
    if token is not None:
        return token.created_by
    return request.user if isinstance(request.user, User) else None


def name_token(request: Request) -> str:
    """Return the token of the request for the log; "" without one."""
    token = read_api_token(request)
    return f"bench_{token.public_id}" if token else ""


def read_actor(request: Request) -> dict[str, Any]:
    """Return who is responsible for a write, for its log: by, the user, and via, the token."""
    return {"by": find_person(request), "via": name_token(request)}


def require_api_token(request: Request) -> ApiToken:
    """Return the token of a request that requires one; NotAuthenticated without a token."""
    token = read_api_token(request)
    if token is None:
        raise NotAuthenticated
    return token


def find_ingest_host(request: Request) -> int | None:
    """Return the id of the host whose own token the request has; None for all others, who may read every host."""
    token = read_api_token(request)
    return (
        token.host_id
        if token is not None and token.scope == Scope.INGEST and not settings.PUBLIC_READ
        else None
    )


def _has_role(request: Request, role: Role) -> bool:
    """Return whether a request is of a signed-in user with at least this role, or has a token with the scope admin."""
    token = read_api_token(request)
    if token is not None:
        return token.scope == Scope.ADMIN
    return is_signed_in(request) and isinstance(request.user, User) and request.user.has_role(role)


def is_signed_in(request: Request) -> bool:
    """Return whether the request comes from a signed-in user."""
    return bool(request.user and request.user.is_authenticated)
