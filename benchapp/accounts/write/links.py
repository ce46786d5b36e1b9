"""Signed links: make, check and revoke them."""

from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.core.signing import Signer
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from benchapp.framework.write.audit import record_write
from benchapp.models import ApiToken, AuditKind, SignedLink, User

# As in links of before they had an id: these stay valid.
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


def check_link(path: str, query: Query) -> None:
    """Raise LinkRefused unless the query has a signature of this address, and the link has not ended."""
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
        is_open = opened.filter(pk=int(members["link"])).exists()
    else:
        address = write_address(path, [pair for pair in signed if pair[0] != "expires"])
        alike = SignedLink.objects.filter(
            is_numbered=False, url=address, expires_at=datetime.fromtimestamp(expires_at_s, tz=now.tzinfo)
        )
        # Without a row nobody knows who made it.
        is_open = not alike.exists() or opened.filter(pk__in=alike).exists()
    if not is_open:
        raise LinkRefused("this link was revoked, or ended with the account or token that made it")


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
