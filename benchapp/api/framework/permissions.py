"""Who may ask what of the API."""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from benchapp.api.framework.authentication import authenticate_bearer
from benchapp.api.framework.problems import Problem
from benchapp.models import ApiToken, Role, Scope, User


class MayRead(BasePermission):
    """Everybody where BENCHAPP_PUBLIC_READ is on; else who is signed in, and tokens that read.

    A host's own token (ingest) reads only through views that set `admits_ingest`: who holds one host's
    credential must not see the others.
    """

    message = "this token does not read: use one of the scope read or admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether this request may read."""
        token = read_api_token(request)
        if token is None:
            return settings.PUBLIC_READ or is_signed_in(request)
        if token.scope == Scope.INGEST and getattr(view, "admits_ingest", False):
            return True
        return settings.PUBLIC_READ or token.scope in (Scope.READ, Scope.ADMIN)


class MayIngest(BasePermission):
    """A host with its own token, and nobody else."""

    message = "this is for a host's own token"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether a host asks."""
        token = read_api_token(request)
        return token is not None and token.scope == Scope.INGEST


class MayEnroll(BasePermission):
    """Who holds an enrolment token, or a token of an admin."""

    message = "this takes an enrolment token: an admin makes one on the page Hosts"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether this request may make hosts known."""
        token = read_api_token(request)
        return token is not None and token.scope in (Scope.ENROLL, Scope.ADMIN)


class MayEdit(BasePermission):
    """Editors and admins, signed in, or a token of the scope admin."""

    message = "this needs an editor: a person of the role editor or admin, or a token of the scope admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether this request may judge what was measured."""
        token = read_api_token(request)
        if token is not None:
            return token.scope == Scope.ADMIN
        return is_signed_in(request) and isinstance(request.user, User) and request.user.has_role(Role.EDITOR)


class MayReadOrEdit(BasePermission):
    """Whoever may read reads; editors and tokens of the scope admin write."""

    message = MayEdit.message

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether this request may do what it asks for."""
        kind = MayRead if request.method in SAFE_METHODS else MayEdit
        return kind().has_permission(request, view)


class MayAdminister(BasePermission):
    """Admins, signed in or by a token of the scope admin."""

    message = "this needs an admin: a person of the role admin, or a token of the scope admin"

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether this request may change hosts and tokens."""
        token = read_api_token(request)
        if token is not None:
            return token.scope == Scope.ADMIN
        return is_signed_in(request) and isinstance(request.user, User) and request.user.has_role(Role.ADMIN)


def require_editor(authorization: str, cookies: str) -> None:
    """Let pass what MayEdit does, by the headers alone; Problem 401 or 403 otherwise.

    For what must be known before a large body is read; the view checks again, behind it.
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
                "a body of this size needs an editor: sign in, or send a token of the scope admin",
                headers={"WWW-Authenticate": "Bearer"},
            )
        may_edit = person.has_role(Role.EDITOR)
    if not may_edit:
        raise Problem(403, "forbidden", "Not allowed", MayEdit.message)


def read_api_token(request: Request) -> ApiToken | None:
    """Return the token that the request came with, None for a person or a stranger."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def find_person(request: Request) -> User | None:
    """Return who answers for a request: who asks, or who made the token; None for a token that nobody made."""
    token = read_api_token(request)
    if token is not None:
        return token.created_by
    return request.user if isinstance(request.user, User) else None


def require_api_token(request: Request) -> ApiToken:
    """Return the token of a request that no person may make; NotAuthenticated where it has none."""
    token = read_api_token(request)
    if token is None:
        raise NotAuthenticated
    return token


def is_signed_in(request: Request) -> bool:
    """Say whether a person asks who is signed in."""
    return bool(request.user and request.user.is_authenticated)
