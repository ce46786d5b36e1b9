"""API tokens and signed links: create, verify and revoke them."""

import hashlib
import hmac
import secrets
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import structlog
from django.core.signing import Signer
from django.db import connection, transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from benchapp.framework.read.replica import on_primary
from benchapp.framework.times import format_utc_moment
from benchapp.framework.write.audit import record_write
from benchapp.models import ApiToken, AuditKind, Host, Scope, SignedLink, User

log = structlog.get_logger(__name__)

_PREFIX: Final = "bench_"
_PUBLIC_LENGTH: Final = 12
_SECRET_LENGTH: Final = 43  # 256 bits in URL-safe base64
_CRC_LENGTH: Final = 8
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_LAST_USED_RESOLUTION: Final = timedelta(minutes=10)
# Less may be the time that a request takes, or a clock that was just set.
_CLOCK_OFFSET_FROM_S: Final = 90
# More has no meaning: a thousand days.
_CLOCK_OFFSET_MAXIMUM_S: Final = 86_400_000
ENROLLMENT_LIFETIME: Final = timedelta(hours=24)
# A secret that was replaced because it leaked must not be valid for longer.
OVERLAP_MAXIMUM: Final = timedelta(days=30)


class TokenRefused(Exception):
    """An invalid bearer token; `code` is stable, the message is for the operator."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownToken(LookupError):
    """There is no such token."""


class TokenNotValid(Exception):
    """The token is revoked or has expired; it cannot be changed any more."""


def parse_token(text: str) -> tuple[str, str] | None:
    """Split `bench_<12>_<43><CRC 8>` into public id and secret; None for a wrong format or CRC (a mistyped token)."""
    expected_length = len(_PREFIX) + _PUBLIC_LENGTH + 1 + _SECRET_LENGTH + _CRC_LENGTH
    if len(text) != expected_length or not text.startswith(_PREFIX) or not text.isascii():
        return None
    public_id, separator, rest = text[len(_PREFIX) :].partition("_")
    secret, crc = rest[:_SECRET_LENGTH], rest[_SECRET_LENGTH:]
    if len(public_id) != _PUBLIC_LENGTH or not separator or _checksum(public_id, secret) != crc:
        return None
    return public_id, secret


def require_format(text: str) -> tuple[str, str]:
    """Return public id and secret of a token without a query. Raises TokenRefused."""
    parsed = parse_token(text)
    if parsed is None:
        raise TokenRefused("token-malformed", "not a valid token: is it truncated or mistyped?")
    return parsed


@transaction.atomic
def issue_token(
    *,
    scope: Scope,
    host: Host | None = None,
    label: str = "",
    created_by: User | None = None,
    expires_at: datetime | None = None,
    via: str = "",
    pools: Sequence[str] = (),
    host_pattern: str = "",
) -> tuple[ApiToken, str]:
    """Create a token; return its row and its plain text, which is not stored.

    via: the token that asked for it, for the log.
    """
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
        pools=sorted(set(pools)),
        host_pattern=host_pattern,
    )
    _log("token.issued", row, by=created_by, via=via)
    after = {
        "scope": str(scope),
        "host": host.name if host else None,
        "label": label,
        "expires_at": expires_at,
        "pools": row.pools,
        "host_pattern": host_pattern,
    }
    record_write(AuditKind.TOKEN, "created", object_id=public_id, name=label, after=after, by=created_by)
    return row, f"{_PREFIX}{public_id}_{secret}{_checksum(public_id, secret)}"


def issue_enrollment_token(
    *,
    label: str = "",
    expires_at: datetime | None = None,
    created_by: User | None = None,
    via: str = "",
    host_pattern: str = "",
) -> tuple[ApiToken, str]:
    """Create a token that enrolls any number of hosts until it expires, by default for 24 hours.

    host_pattern: a shell pattern of their names; "" for any.
    """
    return issue_token(
        scope=Scope.ENROLL,
        label=label or "enrollment",
        created_by=created_by,
        expires_at=expires_at or timezone.now() + ENROLLMENT_LIFETIME,
        via=via,
        host_pattern=host_pattern.lower(),
    )


@transaction.atomic
def revoke_token(public_id: str, *, by: User | None = None, via: str = "") -> bool:
    """Revoke a token; False if it does not exist or is already revoked."""
    changed = ApiToken.objects.filter(public_id=public_id, revoked_at__isnull=True).update(
        revoked_at=timezone.now()
    )
    if changed:
        log.info("token.revoked", token=public_id, by=by.username if by else "", via=via)
        record_write(AuditKind.TOKEN, "revoked", object_id=public_id, by=by)
    return changed == 1


@transaction.atomic
def change_token(public_id: str, *, by: User | None, via: str = "", **changes: Any) -> ApiToken:
    """Change label or expires_at of a valid token and return it. Raises UnknownToken, TokenNotValid."""
    token = _lock_valid(public_id)
    before = {name: getattr(token, name) for name in changes}
    for name, value in changes.items():
        setattr(token, name, value)
    token.save(update_fields=list(changes))
    _log("token.changed", token, by=by, via=via, before=str(before), after=str(changes))
    record_write(
        AuditKind.TOKEN, "changed", object_id=public_id, name=token.label, before=before, after=changes, by=by
    )
    return token


@transaction.atomic
def rotate_token(
    public_id: str, *, overlap: timedelta, by: User | None, via: str = ""
) -> tuple[ApiToken, ApiToken, str]:
    """Replace a valid token: return the old one, the new one and its plain text.

    The new one has scope, limits, host, label and lifetime of the old one, which expires after the overlap, or earlier
    if it would have. Raises UnknownToken, TokenNotValid.
    """
    old, now = _lock_valid(public_id), timezone.now()
    lifetime = None if old.expires_at is None else old.expires_at - old.created_at
    new, plaintext = issue_token(
        scope=Scope(old.scope),
        host=old.host,
        label=old.label,
        created_by=by,
        expires_at=None if lifetime is None else now + lifetime,
        via=via,
        pools=old.pools,
        host_pattern=old.host_pattern,
    )
    before = {"expires_at": old.expires_at}
    old.expires_at = now + overlap if old.expires_at is None else min(old.expires_at, now + overlap)
    old.save(update_fields=["expires_at"])
    after = {"expires_at": old.expires_at, "replaced_by": new.public_id}
    record_write(
        AuditKind.TOKEN, "rotated", object_id=public_id, name=old.label, before=before, after=after, by=by
    )
    _log("token.rotated", old, by=by, via=via, replaced_by=new.public_id)
    return old, new, plaintext


def _lock_valid(public_id: str) -> ApiToken:
    found = ApiToken.objects.select_for_update(of=("self",)).select_related("host")
    token = found.filter(public_id=public_id).first()
    if token is None:
        raise UnknownToken(f"token {public_id[:20]!r} does not exist")
    if token.revoked_at is not None:
        raise TokenNotValid(f"token {public_id} was revoked: create another one")
    if token.expires_at is not None and token.expires_at <= timezone.now():
        raise TokenNotValid(f"token {public_id} has expired: create another one")
    return token


def _log(event: str, token: ApiToken, *, by: User | None, via: str, **more: str) -> None:
    log.info(
        event,
        token=token.public_id,
        scope=str(token.scope),
        host=token.host.name if token.host else "",
        by=by.username if by else "",
        via=via,
        **more,
    )


@on_primary()
def read_token(text: str, *, sent_at: datetime | None = None) -> ApiToken:
    """Return the valid token with its host and record its use. sent_at: sender's clock. Raises TokenRefused."""
    public_id, secret = require_format(text)
    token = _find_token(public_id)
    if token is None or not hmac.compare_digest(bytes(token.digest), _digest(secret)):
        raise TokenRefused("token-unknown", f"token {_PREFIX}{public_id}… is unknown")
    now = timezone.now()
    if token.revoked_at is not None:
        raise TokenRefused("token-revoked", f"{token} was revoked at {format_utc_moment(token.revoked_at)}")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenRefused("token-expired", f"{token} expired at {format_utc_moment(token.expires_at)}")
    if token.host is not None and token.host.retired_at is not None:
        raise TokenRefused(
            "host-retired", f"host {token.host.name} is retired: reactivate it or enroll it again"
        )
    _note_use(token, now, sent_at)
    return token


_TOKEN_COLUMNS: Final = [field.attname for field in ApiToken._meta.concrete_fields]
# Without the schedule, which no POST needs: a raw query returns JSON undecoded.
_HOST_COLUMNS: Final = [field.attname for field in Host._meta.concrete_fields if field.attname != "schedule"]
# Only column names of the models are inserted.
_FIND_TOKEN: Final = (
    "SELECT "  # noqa: S608
    + ", ".join([*(f"t.{name}" for name in _TOKEN_COLUMNS), *(f"h.{name}" for name in _HOST_COLUMNS)])
    + " FROM benchapp_apitoken t LEFT JOIN benchapp_host h ON h.id = t.host_id WHERE t.public_id = %s"
)


def _find_token(public_id: str) -> ApiToken | None:
    """Return the token with its host. Raw SQL, as every POST needs it: the ORM takes longer than PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND_TOKEN, [public_id])
        row = cursor.fetchone()
    if row is None:
        return None
    token = ApiToken.from_db(connection.alias, _TOKEN_COLUMNS, row[: len(_TOKEN_COLUMNS)])
    if token.host_id is not None:
        token.host = Host.from_db(connection.alias, _HOST_COLUMNS, row[len(_TOKEN_COLUMNS) :])
    return token


def _note_use(token: ApiToken, now: datetime, sent_at: datetime | None) -> None:
    if token.last_used_at is None or now - token.last_used_at >= _LAST_USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        if token.host is not None:
            offset_s = token.host.clock_offset_s if sent_at is None else _measure_offset(sent_at, now)
            _note_host(token.host.pk, now, offset_s)


def _measure_offset(sent_at: datetime, now: datetime) -> int | None:
    """Return by how many seconds the clock of a sender is ahead; negative: behind; None up to 90 s."""
    offset_s = round((sent_at - now).total_seconds())
    if abs(offset_s) <= _CLOCK_OFFSET_FROM_S:
        return None
    return max(-_CLOCK_OFFSET_MAXIMUM_S, min(offset_s, _CLOCK_OFFSET_MAXIMUM_S))


def _note_host(host_id: int, now: datetime, clock_offset_s: int | None) -> None:
    """Note when a host was last seen. Skipped while a worker stores its results, so that no POST waits for that."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_host SET last_seen_at = %s, clock_offset_s = %s WHERE id ="
            " (SELECT id FROM benchapp_host WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED)",
            [now, clock_offset_s, host_id],
        )


def _digest(secret: str) -> bytes:
    # The secret has 256 bits: a slow or peppered hash would add cost and a denial-of-service risk without benefit.
    return hashlib.sha256(secret.encode()).digest()


def _checksum(public_id: str, secret: str) -> str:
    return f"{zlib.crc32(f'{public_id}_{secret}'.encode()):08x}"


# Named like a module of before, and never to be changed: links that people have stay valid.
_SIGNER: Final = Signer(salt="benchapp.accounts.api.links")

Query = list[tuple[str, str]]


class LinkRefused(Exception):
    """A link that is not valid, or not any more; the message is for its reader."""


@transaction.atomic
def make_link(
    path: str, query: Query, *, expires_at: datetime, by: User | None, token: ApiToken | None
) -> tuple[SignedLink, str]:
    """Store a link and return it with path and query of its address.

    It ends at expires_at, or with its token, which may expire earlier, or the account.
    """
    now = timezone.now()
    # Those that expired: nobody misses them, and their audit records remain.
    SignedLink.objects.filter(expires_at__lte=now).delete()
    if token is not None and token.expires_at is not None:
        expires_at = min(expires_at, token.expires_at)
    link = SignedLink.objects.create(
        url=write_address(path, query), created_by=by, token=token, created_at=now, expires_at=expires_at
    )
    bounded = [*query, ("link", str(link.pk)), ("expires", str(int(expires_at.timestamp())))]
    record_write(AuditKind.LINK, "signed", object_id=link.pk, name=link.url, after={"expires_at": expires_at})
    return link, f"{path}?{urlencode([*bounded, ('signature', _sign(path, bounded))])}"


def check_link(path: str, query: Query) -> SignedLink | None:
    """Return the link of an address with its signature, None for one of nobody. Raises LinkRefused."""
    signed = [(name, value) for name, value in query if name != "signature"]
    signatures = [value for name, value in query if name == "signature"]
    if len(signatures) != 1 or not constant_time_compare(signatures[0], _sign(path, signed)):
        raise LinkRefused("the signature is not valid for this address")
    members = dict(signed)
    expires_at_s, now = int(members.get("expires", "0")), timezone.now()
    if expires_at_s <= now.timestamp():
        raise LinkRefused("this link has expired; ask for a new one")
    opened = SignedLink.objects.open_at(now)
    if "link" in members:
        found = opened.filter(pk=int(members["link"]))
    else:
        address = write_address(path, [pair for pair in signed if pair[0] != "expires"])
        alike = SignedLink.objects.filter(
            is_numbered=False, url=address, expires_at=datetime.fromtimestamp(expires_at_s, tz=now.tzinfo)
        )
        # Without a row nobody knows who made it.
        if not alike.exists():
            return None
        found = opened.filter(pk__in=alike)
    link = found.select_related("token", "created_by").first()
    if link is None:
        raise LinkRefused("this link was revoked, or ended with the account or token that made it")
    return link


@transaction.atomic
def revoke_link(link_id: int) -> None:
    """End a link; nothing happens if it was revoked before."""
    now = timezone.now()
    if SignedLink.objects.filter(pk=link_id, revoked_at__isnull=True).update(revoked_at=now):
        url = SignedLink.objects.values_list("url", flat=True).get(pk=link_id)
        record_write(AuditKind.LINK, "revoked", object_id=link_id, name=url)


def revoke_links_of(user: User) -> None:
    """End the links that a person made, also with tokens; each has its audit record."""
    links = SignedLink.objects.open_at(timezone.now()).filter(created_by=user)
    for link_id in list(links.order_by("pk").values_list("pk", flat=True)):
        revoke_link(link_id)


def write_address(path: str, query: Query) -> str:
    """Return path and query, with the parameters in the order of their names."""
    return f"{path}?{urlencode(sorted(query))}" if query else path


def _sign(path: str, query: Query) -> str:
    return _SIGNER.signature(write_address(path, query))
