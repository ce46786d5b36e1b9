"""Authentication by bearer token."""

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from benchapp.accounts.write.tokens import TokenRefused, read_token, require_format
from benchapp.framework.api.problems import Problem
from benchapp.framework.write.audit import note_token
from benchapp.models import ApiToken, Scope, note_reader


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
        token = authenticate_bearer(header)
        note_token(token)
        note_reader(is_stranger=token.scope not in (Scope.READ, Scope.ADMIN))
        return TokenUser(token), token

    def authenticate_header(self, request: Request) -> str:
        """Return the scheme for WWW-Authenticate."""
        return "Bearer"


def authenticate_bearer(header: str) -> ApiToken:
    """Return the valid token of an Authorization header; Problem 401 otherwise."""
    text = require_bearer(header)
    try:
        return read_token(text)
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


def _refuse(code: str, detail: str) -> Problem:
    return Problem(401, code, "Token rejected", detail, headers={"WWW-Authenticate": "Bearer"})
