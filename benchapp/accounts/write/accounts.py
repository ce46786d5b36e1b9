"""Accounts from one-time links and OpenID Connect, roles, preferences, and limits for failed sign-ins.

The key of an account of OpenID Connect is issuer and subject of the verified ID token. A name or an address of the
provider gives no access to an existing account, unless the setting allows it for confirmed addresses.
"""

import hashlib
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.accounts.write.throttle import LimitReached, count_attempt, forget_attempt
from benchapp.accounts.write.tokens import revoke_links_of, revoke_token
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import (
    ApiToken,
    AuditKind,
    EmailAddress,
    ExternalIdentity,
    Incident,
    IncidentEvent,
    Invitation,
    PinnedChart,
    RateUnits,
    Role,
    SavedView,
    Scope,
    Subscription,
    Theme,
    User,
)
from benchapp.models.limits import find_obstacle, unlimited

LINK_LIFETIME: Final = timedelta(hours=24)
# Failed attempts in 15 minutes for one name from one address; typing errors need about three.
SIGN_IN_WINDOW: Final = timedelta(minutes=15)
SIGN_IN_ATTEMPTS: Final = 10
# Enough for typing errors of an office behind one address, too few to try a list of names.
SIGN_IN_ATTEMPTS_OF_ADDRESS: Final = 50
# For one name from all addresses: at most 4 800 attempts a day.
SIGN_IN_ATTEMPTS_OF_NAME: Final = 50
# Names of deleted accounts.
_RESERVED_NAME: Final = re.compile(r"deleted-\d+-*", re.ASCII | re.IGNORECASE)


class InvitationRefused(Exception):
    """A one-time link that is unknown, used or expired."""


@dataclass(frozen=True, slots=True)
class SignInSource:
    """The source of a sign-in attempt. known_browser: a secret from an earlier sign-in of this name, else "".

    A known browser has only its own limit, so that attempts from elsewhere cannot lock it out.
    """

    username: str
    address: str
    known_browser: str = ""


def create_setup_link() -> str | None:
    """Return the secret of a new setup link for the first admin; None if there is an admin.

    Earlier setup links become invalid.
    """
    if User.objects.filter(role=Role.ADMIN, is_active=True).exists():
        return None
    Invitation.objects.filter(created_by__isnull=True, used_at__isnull=True).delete()
    return create_invitation(role=Role.ADMIN, created_by=None)


@transaction.atomic
def create_invitation(*, role: Role, created_by: User | None, pools: Sequence[str] = ()) -> str:
    """Return the secret of a new one-time link that makes an account of this role within 24 hours.

    pools: that the account is limited to; none: everything. Raises ValidationError if the role has no limits.
    """
    _check_pools(role, pools)
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        digest=_digest(secret),
        role=role,
        pools=sorted(set(pools)),
        created_by=created_by,
        expires_at=timezone.now() + LINK_LIFETIME,
    )
    record_write(
        AuditKind.INVITATION,
        "created",
        object_id=invitation.pk,
        after=snapshot(invitation, "role", "pools", "expires_at"),
        by=created_by,
    )
    return secret


@transaction.atomic
def withdraw_invitation(invitation_id: int) -> bool:
    """Invalidate a pending invitation; False if it was used, has expired or does not exist."""
    now = timezone.now()
    invitation = Invitation.objects.select_for_update().open_at(now).filter(pk=invitation_id).first()
    if invitation is None:
        return False
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=now)
    before, after = {"expires_at": invitation.expires_at}, {"expires_at": now}
    record_write(AuditKind.INVITATION, "withdrawn", object_id=invitation.pk, before=before, after=after)
    return True


@transaction.atomic
def renew_invitation(invitation_id: int, *, by: User) -> str | None:
    """Return the secret of a new link of a pending invitation, for 24 hours; the earlier link becomes invalid.

    The person becomes the creator of the invitation: the link is invalid once that person is no longer an admin.
    None if the invitation was used, has expired or does not exist.
    """
    now, secret = timezone.now(), secrets.token_urlsafe(32)
    invitation = Invitation.objects.select_for_update().open_at(now).filter(pk=invitation_id).first()
    if invitation is None:
        return None
    expires_at = now + LINK_LIFETIME
    Invitation.objects.filter(pk=invitation.pk).update(
        digest=_digest(secret), created_by=by, expires_at=expires_at
    )
    before = snapshot(invitation, "created_by_id", "expires_at")
    after = {"created_by_id": by.pk, "expires_at": expires_at}
    record_write(AuditKind.INVITATION, "renewed", object_id=invitation.pk, before=before, after=after, by=by)
    return secret


def find_invitation(secret: str) -> Invitation | None:
    """Return the invitation that this link opens now, or None."""
    return Invitation.objects.open_at(timezone.now()).filter(digest=_digest(secret)).first()


@transaction.atomic
def accept_invitation(secret: str, username: str, *, password: str) -> User:
    """Create the account and invalidate the link in one transaction.

    Raises InvitationRefused, or ValidationError for the user name or the password.
    """
    now = timezone.now()
    invitation = Invitation.objects.select_for_update().open_at(now).filter(digest=_digest(secret)).first()
    if invitation is None:
        raise InvitationRefused("this link was already used, has expired, or is not valid")
    user = User(username=username, role=invitation.role, pools=invitation.pools)
    check_username(user)
    validate_password(password, user)
    user.set_password(password)
    user.save()
    Invitation.objects.filter(pk=invitation.pk, used_at__isnull=True).update(used_at=now)
    after = {**snapshot(user, "username", "role", "pools"), "invitation": invitation.pk}
    record_write(AuditKind.ACCOUNT, "created", object_id=user.pk, name=user.username, after=after, by=user)
    return user


def check_username(user: User) -> None:
    """Raise ValidationError for a name that is taken, reserved or invalid."""
    user.full_clean(exclude=["password"])
    if _RESERVED_NAME.fullmatch(user.username):
        raise ValidationError(
            {"username": "Names like deleted-1 belong to deleted accounts: choose another one."}
        )


def _check_pools(role: Role, pools: Sequence[str]) -> None:
    if pools and role != Role.VIEWER:
        raise ValidationError(f"An {role.value} sees everything: choose no pools, or the role viewer.")


def change_role(user: User, role: Role, pools: Sequence[str] | None = None) -> None:
    """Change the role of a person, and the pools that it is limited to; None: as before.

    Its subscriptions are paused once it is limited. Raises ValidationError for the last admin, and for limits of
    another role than viewer.
    """
    limits = sorted(set(user.pools if pools is None else pools))
    _check_pools(role, limits)
    with transaction.atomic():
        if role != Role.ADMIN:
            _require_another_admin(user)
            _revoke_credentials(user)
        before, after = snapshot(user, "role", "pools"), {"role": role.value, "pools": limits}
        record_account(user, "role_changed", before, after)
        User.objects.filter(pk=user.pk).update(role=role, pools=limits)
        if limits:
            active = Subscription.objects.filter(owner=user, is_active=True)
            active.update(is_active=False, paused_reason="the account is limited to pools")


def set_active(user: User, *, is_active: bool) -> None:
    """Activate or deactivate an account. Raises ValidationError for the last admin."""
    with transaction.atomic():
        if not is_active:
            _require_another_admin(user)
            _revoke_credentials(user)
            revoke_links_of(user)
        action = "activated" if is_active else "deactivated"
        record_account(user, action, {"is_active": user.is_active}, {"is_active": is_active})
        User.objects.filter(pk=user.pk).update(is_active=is_active)


@retry_conflicts
@transaction.atomic
def delete_account(user: User) -> str:
    """Delete an account, and return its new name, under which studies, triage and comments remain.

    Its links, also signed ones, and tokens become invalid, except tokens of hosts. Its subscriptions, e-mail
    addresses, pinned charts and saved views are deleted, incidents assigned to it are unassigned. The new name replaces
    the earlier one in the texts that contain it. Raises ValidationError for the last admin.
    """
    # Also what a limited person does not see.
    with unlimited():
        return _delete_account(user)


def _delete_account(user: User) -> str:
    _require_another_admin(user)
    # As changes of saved views and new subscriptions do: none are added or changed meanwhile.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    _revoke_credentials(user)
    revoke_links_of(user)
    now, name = timezone.now(), f"deleted-{user.pk}"
    while User.objects.filter(username=name).exclude(pk=user.pk).exists():
        name += "-"
    record_account(user, "deleted", snapshot(user, "username", "role"), None)
    Incident.objects.filter(assignee=user).update(assignee=None, updated_at=now)
    # The texts of incidents.actions.triage.assign and notices.write.subscriptions.pause_subscription.
    IncidentEvent.objects.filter(kind="assigned", text=f"to {user.username}").update(text=f"to {name}")
    paused = Q(paused_reason=f"paused by {user.username}")
    # Before their notices, which Django deletes first: the lock order of senders.
    list(
        Subscription.objects.select_for_update()
        .filter(paused | Q(owner=user))
        .order_by("pk")
        .values_list("pk")
    )
    Subscription.objects.filter(paused).update(paused_reason=f"paused by {name}")
    for owned in (Subscription, EmailAddress, PinnedChart, SavedView):
        owned.objects.filter(owner=user).delete()
    ExternalIdentity.objects.filter(user=user).delete()
    User.objects.filter(pk=user.pk).update(
        username=name,
        password=make_password(None),
        email="",
        first_name="",
        last_name="",
        role=Role.VIEWER,
        is_active=False,
        last_login=None,
        deleted_at=now,
        time_zone="",
        rate_units=RateUnits.SI,
        theme=Theme.SYSTEM,
        default_filter="",
        pools=[],
    )
    return name


@transaction.atomic
def change_password(user: User, password: str) -> None:
    """Set a validated password; other sessions of the user end."""
    user.set_password(password)
    user.save(update_fields=["password"])
    record_account(user, "password_changed", None, None)


def record_sign_in(user: User) -> None:
    """Record a successful sign-in; failed ones are only counted, as anybody can cause them."""
    record_write(AuditKind.ACCOUNT, "signed_in", object_id=user.pk, name=user.username, by=user)


def record_account(
    user: User, action: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    """Write the audit record of an action on an account."""
    record_write(AuditKind.ACCOUNT, action, object_id=user.pk, name=user.username, before=before, after=after)


def count_sign_in_attempt(source: SignInSource, *, now: datetime | None = None) -> None:
    """Count one attempt before the password is checked. Raises LimitReached; rejected attempts are not counted.

    forget_sign_in_attempt removes a successful one, so that only failures are limited, also concurrent ones. The limit
    for one name from one address is checked first, so that it protects the wider limits.
    """
    moment = now or timezone.now()
    with transaction.atomic():
        for kind, who, attempts_maximum in _list_buckets(source):
            counted = count_attempt(kind, who, window=SIGN_IN_WINDOW, now=moment)
            if counted.count > attempts_maximum:
                raise LimitReached("too many failed sign-ins", counted.seconds_left)


def forget_sign_in_attempt(source: SignInSource) -> None:
    """Remove a successful attempt from the counts."""
    for kind, who, _ in _list_buckets(source):
        forget_attempt(kind, who)


def count_password_check(user: User) -> None:
    """Count one attempt of a signed-in user to confirm something by the password. Raises LimitReached.

    As `count_sign_in_attempt`, but attempts to sign in from elsewhere do not reach this limit.
    """
    counted = count_attempt("own password", str(user.pk), window=SIGN_IN_WINDOW, now=timezone.now())
    if counted.count > SIGN_IN_ATTEMPTS:
        raise LimitReached("too many wrong passwords", counted.seconds_left)


def forget_password_check(user: User) -> None:
    """Remove a successful attempt from the count."""
    forget_attempt("own password", str(user.pk))


def _list_buckets(source: SignInSource) -> list[tuple[str, str, int]]:
    """Return the buckets of an attempt: kind, key and maximum in a window."""
    name = source.username.lower()
    if source.known_browser:
        return [("sign-in browser", f"{name}|{source.known_browser}", SIGN_IN_ATTEMPTS)]
    network = network_of(source.address)
    return [
        ("sign-in", f"{name}|{network}", SIGN_IN_ATTEMPTS),
        ("sign-in address", network, SIGN_IN_ATTEMPTS_OF_ADDRESS),
        ("sign-in name", name, SIGN_IN_ATTEMPTS_OF_NAME),
    ]


def network_of(address: str) -> str:
    """Return the network of one person: the /64 of an IPv6 address, else the IPv4 address, also of a mapped one."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    # ::ffff:192.0.2.1, as a socket for both versions has it.
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network(f"{address}/64", strict=False))


def _revoke_credentials(user: User) -> None:
    """Revoke links and tokens that a person created as admin; host tokens are kept, so that hosts can report.

    Each has its audit record.
    """
    invitations = Invitation.objects.open_at(timezone.now()).filter(created_by=user)
    for invitation_id in list(invitations.order_by("pk").values_list("pk", flat=True)):
        withdraw_invitation(invitation_id)
    tokens = ApiToken.objects.filter(created_by=user, revoked_at__isnull=True).exclude(scope=Scope.INGEST)
    for public_id in list(tokens.order_by("pk").values_list("public_id", flat=True)):
        revoke_token(public_id)


def _require_another_admin(user: User) -> None:
    # Locked in the order of ids, so that two admins who demote each other cannot both succeed.
    admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
    if {admin.pk for admin in admins} == {user.pk}:
        raise ValidationError(f"{user.username} is the last admin: create another one first")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# Highest first.
_ORDER: Final = (Role.ADMIN, Role.EDITOR, Role.VIEWER)


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An OpenID Connect provider. roles: of groups, "*" for everybody; empty: roles are set on the page People.

    pools: of groups of viewers who see these alone; empty: pools are set on the page People, too.
    """

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: str
    username_claim: str
    groups_claim: str
    roles: Mapping[str, str]
    pools: Mapping[str, Sequence[str]]
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


def choose_pools(groups: Collection[str], role: Role | None, provider: OidcProvider) -> list[str] | None:
    """Return the pools that a person of these groups is limited to: of all groups, none if one has no limit.

    "*" counts if no other group gives the role. None: as set on the page People.
    """
    if role != Role.VIEWER:
        return []
    viewing = [group for group in groups if provider.roles.get(group) == Role.VIEWER] or ["*"]
    limits = [provider.pools.get(group, ()) for group in viewing]
    found = sorted({pool for limit in limits for pool in limit}) if all(limits) else []
    return found if provider.pools else None


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
    groups = read_groups(claims, provider.groups_claim)
    role = choose_role(groups, provider.roles)
    if provider.roles and role is None:
        raise SignInRefused("none of your groups has a role on this server")
    pools = choose_pools(groups, role, provider)
    if pools and (obstacle := find_obstacle()):
        raise SignInRefused(f"your groups are limited to pools, but {obstacle}")
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
        return _create(claims, provider, subject=subject, role=role or Role.VIEWER, pools=pools or [])
    if not user.is_active:
        raise SignInRefused("the account is deactivated")
    if known is None:
        ExternalIdentity.objects.create(user=user, issuer=provider.issuer, subject=subject)
        record_account(user, "linked", None, {"issuer": provider.issuer})
    if role is not None and (user.role, user.pools) != (role, user.pools if pools is None else pools):
        try:
            change_role(user, role, pools)
        except ValidationError as error:
            raise SignInRefused(" ".join(error.messages)) from error
        user.refresh_from_db(fields=["role", "pools"])
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


def _create(
    claims: Mapping[str, Any], provider: OidcProvider, *, subject: str, role: Role, pools: list[str]
) -> User:
    name = claims.get(provider.username_claim)
    if not isinstance(name, str) or not name:
        raise SignInRefused(f"the provider sent no {provider.username_claim}")
    user = User(username=name, role=role, pools=pools, password=make_password(None))
    try:
        check_username(user)
    except ValidationError as error:
        if User.objects.filter(username=name).exists():
            raise SignInRefused(f"the name {name} belongs to another account of this server") from error
        raise SignInRefused(f"{name[:150]!r} cannot be a user name: {' '.join(error.messages)}") from error
    user.save(force_insert=True)
    ExternalIdentity.objects.create(user=user, issuer=provider.issuer, subject=subject)
    after = {**snapshot(user, "username", "role", *(["pools"] if pools else [])), "issuer": provider.issuer}
    record_write(AuditKind.ACCOUNT, "created", object_id=user.pk, name=user.username, after=after, by=user)
    return user


def save_preferences(
    user: User, *, time_zone: str, rate_units: RateUnits, theme: Theme, default_filter: str
) -> None:
    """Save what pages show to a user. default_filter: in the canonical form (`read_filter_to_store`)."""
    _save(user, time_zone=time_zone, rate_units=rate_units, theme=theme, default_filter=default_filter)


def save_theme(user: User, theme: Theme) -> None:
    """Save the theme of a user, which the switch in the header sets, too."""
    _save(user, theme=theme)


@transaction.atomic
def _save(user: User, **fields: str) -> None:
    # Two forms that are sent at the same time: the record of the second has the values of the first.
    stored = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    record_write(
        AuditKind.ACCOUNT,
        "preferences_changed",
        object_id=user.pk,
        name=user.username,
        before=snapshot(stored, *fields),
        after=fields,
    )
    User.objects.filter(pk=user.pk).update(**fields)
