"""Make, read and revoke the tokens with which machines speak to us."""

import hashlib
import hmac
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.utils import timezone

from benchapp.models import ApiToken, Host, Scope, User

_PREFIX: Final = "bench_"
_PUBLIC_LENGTH: Final = 12
_SECRET_LENGTH: Final = 43  # 256 bits in URL-safe base64
_CRC_LENGTH: Final = 8
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_LAST_USED_RESOLUTION: Final = timedelta(minutes=10)
ENROLLMENT_LIFETIME: Final = timedelta(hours=24)


class TokenRefused(Exception):
    """A bearer token that opens nothing; `code` is stable, the message is for the operator."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """The two parts of a token whose form and CRC are right."""

    public_id: str
    secret: str


def parse_token(text: str) -> ParsedToken | None:
    """Split `bench_<12>_<43><CRC 8>`; None when the form or the CRC is wrong (a cut or mistyped token)."""
    expected_length = len(_PREFIX) + _PUBLIC_LENGTH + 1 + _SECRET_LENGTH + _CRC_LENGTH
    if len(text) != expected_length or not text.startswith(_PREFIX) or not text.isascii():
        return None
    public_id, separator, rest = text[len(_PREFIX) :].partition("_")
    secret, crc = rest[:_SECRET_LENGTH], rest[_SECRET_LENGTH:]
    if len(public_id) != _PUBLIC_LENGTH or not separator or _checksum(public_id, secret) != crc:
        return None
    return ParsedToken(public_id, secret)


def require_form(text: str) -> ParsedToken:
    """Return the parts of a token, without asking the database; TokenRefused where it is not one."""
    parsed = parse_token(text)
    if parsed is None:
        raise TokenRefused("token-malformed", "this is no token of ours: was it cut or mistyped?")
    return parsed


def issue_token(
    *,
    scope: Scope,
    host: Host | None = None,
    label: str = "",
    created_by: User | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token; return its row and its plain text, which nobody can read again."""
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(_PUBLIC_LENGTH))
    secret = secrets.token_urlsafe(32)
    row = ApiToken.objects.create(
        public_id=public_id,
        digest=_digest(secret),
        scope=scope,
        host=host,
        label=label,
        created_by=created_by,
        expires_at=expires_at,
    )
    return row, f"{_PREFIX}{public_id}_{secret}{_checksum(public_id, secret)}"


def issue_enrollment_token(*, created_by: User | None = None) -> tuple[ApiToken, str]:
    """Make a token that enrolls hosts for the next 24 hours."""
    return issue_token(
        scope=Scope.ENROLL,
        label="enrollment",
        created_by=created_by,
        expires_at=timezone.now() + ENROLLMENT_LIFETIME,
    )


def revoke_token(public_id: str) -> bool:
    """Revoke a token; False when there is none or it is revoked already."""
    changed = ApiToken.objects.filter(public_id=public_id, revoked_at__isnull=True).update(
        revoked_at=timezone.now()
    )
    return changed == 1


def read_token(text: str) -> ApiToken:
    """Return the valid token (with its host) that this text is, and note its use; TokenRefused otherwise."""
    parsed = require_form(text)
    token = _find_token(parsed.public_id)
    if token is None or not hmac.compare_digest(bytes(token.digest), _digest(parsed.secret)):
        raise TokenRefused("token-unknown", f"token {_PREFIX}{parsed.public_id}… is not known here")
    now = timezone.now()
    if token.revoked_at is not None:
        raise TokenRefused("token-revoked", f"{token} was revoked at {token.revoked_at:%Y-%m-%d %H:%M} UTC")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenRefused("token-expired", f"{token} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC")
    if token.host is not None and token.host.retired_at is not None:
        raise TokenRefused(
            "host-retired", f"host {token.host.name} is retired: bring it back, or enroll anew"
        )
    _note_use(token, now)
    return token


_TOKEN_COLUMNS: Final = [field.attname for field in ApiToken._meta.concrete_fields]
# Without the schedule, which no POST needs: JSON comes undecoded out of a query of our own.
_HOST_COLUMNS: Final = [field.attname for field in Host._meta.concrete_fields if field.attname != "schedule"]
# The names put together here are those of our own columns.
_FIND_TOKEN: Final = (
    "SELECT "  # nosec B608
    + ", ".join([*(f"t.{name}" for name in _TOKEN_COLUMNS), *(f"h.{name}" for name in _HOST_COLUMNS)])
    + " FROM benchapp_apitoken t LEFT JOIN benchapp_host h ON h.id = t.host_id WHERE t.public_id = %s"
)


def _find_token(public_id: str) -> ApiToken | None:
    """Return the token with its host. Written out, as every POST asks this: the ORM takes longer than PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND_TOKEN, [public_id])
        row = cursor.fetchone()
    if row is None:
        return None
    token = ApiToken.from_db(connection.alias, _TOKEN_COLUMNS, row[: len(_TOKEN_COLUMNS)])
    if token.host_id is not None:
        token.host = Host.from_db(connection.alias, _HOST_COLUMNS, row[len(_TOKEN_COLUMNS) :])
    return token


def _note_use(token: ApiToken, now: datetime) -> None:
    if token.last_used_at is None or now - token.last_used_at >= _LAST_USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def _digest(secret: str) -> bytes:
    # The secret has 256 bits: a slow or peppered hash would add nothing but cost and a way to lock out the fleet.
    return hashlib.sha256(secret.encode()).digest()


def _checksum(public_id: str, secret: str) -> str:
    return f"{zlib.crc32(f'{public_id}_{secret}'.encode()):08x}"
