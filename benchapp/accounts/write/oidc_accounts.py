"""The account of a person who signs in with an OpenID Connect provider.

The key is issuer and subject of the verified ID token. A name or an address of the provider gives no access to an
existing account, unless the setting allows it for confirmed addresses.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db import transaction

from benchapp.accounts.write.accounts import change_role, check_username, record_account
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import AuditKind, ExternalIdentity, Role, User

# Highest first.
_ORDER: Final = (Role.ADMIN, Role.EDITOR, Role.VIEWER)


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An OpenID Connect provider. roles: of groups, "*" for everybody; empty: roles are set on the page People."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: str
    username_claim: str
    groups_claim: str
    roles: Mapping[str, str]
    links_by_email: bool


class SignInRefused(Exception):
    """A person whom the provider knows, but who may not sign in; the message gives the reason."""


def read_provider() -> OidcProvider | None:
    """Return the provider of the settings or None."""
    given: dict[str, Any] | None = settings.OIDC
    return None if given is None else OidcProvider(**given)


def choose_role(groups: Collection[str], roles: Mapping[str, str]) -> Role | None:
    """Return the highest role of these groups; "*" is everybody. None if no group has one."""
    found = {roles[group] for group in (*groups, "*") if group in roles}
    return next((role for role in _ORDER if role.value in found), None)


def read_groups(claims: Mapping[str, Any], claim: str) -> list[str]:
    """Return the groups of a claim: a list of texts, or one text."""
    value = claims.get(claim)
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


@retry_conflicts
@transaction.atomic
def find_or_create_account(claims: Mapping[str, Any], provider: OidcProvider) -> User:
    """Return the active account of verified claims, with its role of today; a new one for an unknown person.

    Raises SignInRefused.
    """
    role = choose_role(read_groups(claims, provider.groups_claim), provider.roles)
    if provider.roles and role is None:
        raise SignInRefused("none of your groups has a role on this server")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise SignInRefused("the provider sent no valid subject")
    known = (
        ExternalIdentity.objects.select_related("user")
        .filter(issuer=provider.issuer, subject=subject)
        .first()
    )
    user = known.user if known else _link_by_email(claims, provider)
    if user is None:
        return _create(claims, provider, subject=subject, role=role or Role.VIEWER)
    if not user.is_active:
        raise SignInRefused("the account is deactivated")
    if known is None:
        ExternalIdentity.objects.create(user=user, issuer=provider.issuer, subject=subject)
        record_account(user, "linked", None, {"issuer": provider.issuer})
    if role is not None and user.role != role:
        try:
            change_role(user, role)
        except ValidationError as error:
            raise SignInRefused(" ".join(error.messages)) from error
        user.refresh_from_db(fields=["role"])
    return user


def _link_by_email(claims: Mapping[str, Any], provider: OidcProvider) -> User | None:
    """Return the one account whose confirmed address the provider has verified, too; None unless the setting is on."""
    address = claims.get("email")
    if (
        not provider.links_by_email
        or claims.get("email_verified") is not True
        or not isinstance(address, str)
    ):
        return None
    found = User.objects.filter(email__iexact=address, is_active=True).exclude(email="")[:2]
    return found[0] if len(found) == 1 else None


def _create(claims: Mapping[str, Any], provider: OidcProvider, *, subject: str, role: Role) -> User:
    name = claims.get(provider.username_claim)
    if not isinstance(name, str) or not name:
        raise SignInRefused(f"the provider sent no {provider.username_claim}")
    user = User(username=name, role=role, password=make_password(None))
    try:
        check_username(user)
    except ValidationError as error:
        if User.objects.filter(username=name).exists():
            raise SignInRefused(f"the name {name} belongs to another account of this server") from error
        raise SignInRefused(f"{name[:150]!r} cannot be a user name: {' '.join(error.messages)}") from error
    user.save(force_insert=True)
    ExternalIdentity.objects.create(user=user, issuer=provider.issuer, subject=subject)
    after = {**snapshot(user, "username", "role"), "issuer": provider.issuer}
    record_write(AuditKind.ACCOUNT, "created", object_id=user.pk, name=user.username, after=after, by=user)
    return user
