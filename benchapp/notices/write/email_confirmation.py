"""Confirm e-mail addresses of subscriptions, and send the mails of accounts."""

import hashlib
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Lower
from django.utils import timezone

from benchapp.accounts.write.password_reset import create_reset_link, list_reset_users, sign_address
from benchapp.accounts.write.throttle import LimitReached, count_attempt
from benchapp.framework.write.audit import record_write
from benchapp.models import (
    WITHHELD,
    AuditKind,
    Channel,
    EmailAddress,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
    User,
)
from benchapp.notices.channels.email.transport import send_messages
from benchapp.notices.channels.transport import Message
from benchapp.notices.write.delivery_times import GIVE_UP_AFTER

# A mail sent on Friday may be read on Monday.
LINK_LIFETIME: Final = timedelta(days=3)
MAILS_OF_ADDRESS_PER_HOUR: Final = 1
MAILS_OF_PERSON_PER_DAY: Final = 10
MESSAGE_KIND: Final = "address.confirmation"
_KEY: Final = "confirmation "
_REQUESTS_MAXIMUM: Final = 50


class MailRefused(Exception):
    """The owner of an address blocked mail to it."""


def may_be_sent() -> Q:
    """Return the condition on notices that may be sent; to unconfirmed addresses only confirmation mails."""
    return ~Q(subscription__channel=Channel.EMAIL) | Q(key__startswith=_KEY) | Q(_has_confirmed_address())


def is_waiting_for_confirmation(subscription: Subscription) -> bool:
    """Return whether notices of a subscription are withheld because its address is not confirmed."""
    return subscription.channel == Channel.EMAIL and not _is_confirmed(
        subscription.owner_id, subscription.address
    )


def is_refused(owner_id: int, address: str) -> bool:
    """Return whether the owner of an address blocked mail and has not confirmed it for this person."""
    refused = RefusedAddress.objects.filter(pk=address.lower())
    return refused.exists() and not _is_confirmed(owner_id, address)


def ask_confirmation(subscription: Subscription, *, now: datetime | None = None) -> bool:
    """Queue a confirmation mail; False if none is needed. Raises LimitReached, MailRefused.

    The link is created when the mail is sent, so that the outbox contains no secret.
    """
    moment = now or timezone.now()
    address = subscription.address.lower()
    if subscription.channel != Channel.EMAIL:
        return False
    with transaction.atomic():
        EmailAddress.objects.get_or_create(owner_id=subscription.owner_id, address=address)
        stored = EmailAddress.objects.select_for_update(no_key=True).get(
            owner=subscription.owner_id, address=address
        )
        if stored.confirmed_at is not None:
            return False
        if is_refused(subscription.owner_id, address):
            raise MailRefused(f"the owner of {address} blocked mail from this server")
        # Raised within the transaction: a rejected attempt is counted in neither bucket.
        _count_mail(subscription.owner_id, address, now=moment)
        stored.asked_at = moment
        stored.save(update_fields=["asked_at"])
        _drop_confirmation_mails(Q(subscription__owner=subscription.owner_id), address, now=moment)
        Notice.objects.create(
            subscription=subscription,
            key=f"{_KEY}{moment.isoformat()}",
            body=_make_message(subscription.owner.username).to_json(),
            not_before_at=moment,
            created_at=moment,
        )
        record_write(AuditKind.EMAIL_ADDRESS, "confirmation_requested", object_id=stored.pk, name=address)
    return True


def prepare_confirmations(*, now: datetime) -> None:
    """Request missing confirmations; drop notices that were withheld for a day, with the reason in their log.

    Confirmations are missing for subscriptions from before confirmation existed, and for those that reached a limit.
    """
    waiting = Notice.objects.filter(
        ~_has_confirmed_address(),
        state=NoticeState.WAITING,
        subscription__channel=Channel.EMAIL,
        not_before_at__lte=now,
    ).exclude(key__startswith=_KEY)
    asked = EmailAddress.objects.filter(
        owner=OuterRef("owner"), address=Lower(OuterRef("address")), asked_at__isnull=False
    )
    never_asked = Subscription.objects.filter(
        ~Exists(asked), pk__in=waiting.values("subscription"), is_active=True, owner__is_active=True
    )
    for subscription in never_asked.select_related("owner").order_by("pk")[:_REQUESTS_MAXIMUM]:
        with suppress(LimitReached, MailRefused):
            ask_confirmation(subscription, now=now)
    # By the due time, not the creation: a digest waits for a day after its hour.
    _withhold(waiting.filter(not_before_at__lt=now - GIVE_UP_AFTER), now=now)


def make_link_secret() -> str:
    """Return the secret of a new link."""
    return secrets.token_urlsafe(32)


def add_link(message: Message, secret: str) -> Message:
    """Return a confirmation mail with a link, which is not valid yet."""
    path = f"/confirm-address/{secret}/"
    if settings.PUBLIC_URL:
        return replace(message, url=f"{settings.PUBLIC_URL}{path}", link_text="Confirm or refuse")
    # Without PUBLIC_URL there is no trusted host name: the Host header of a request can be forged.
    return replace(message, details=(("Path on that server", path), *message.details))


def store_link(secret: str, subscription: Subscription) -> None:
    """Make the link of a sent mail valid; earlier links of this person and address become invalid.

    Not before the mail is sent: the link of an earlier mail works until a newer one arrives.
    """
    EmailAddress.objects.filter(owner=subscription.owner_id, address=subscription.address.lower()).update(
        digest=_digest(secret), expires_at=timezone.now() + LINK_LIFETIME
    )


def find_address(secret: str) -> EmailAddress | None:
    """Return the address of a valid link, or None."""
    found = EmailAddress.objects.filter(digest=_digest(secret), expires_at__gt=timezone.now())
    return found.select_related("owner").first()


def confirm_address(secret: str) -> bool:
    """Confirm the address of a link and invalidate the link; False if it is unknown, used or expired.

    Notices that were withheld for less than a day are sent now.
    """
    now = timezone.now()
    with transaction.atomic():
        stored = _invalidate_link(secret, now=now)
        if stored is None:
            return False
        EmailAddress.objects.filter(pk=stored.pk).update(confirmed_at=now)
        record_write(AuditKind.EMAIL_ADDRESS, "confirmed", object_id=stored.pk, name=stored.address)
        _drop_confirmation_mails(Q(subscription__owner=stored.owner_id), stored.address, now=now)
    return True


def refuse_address(secret: str) -> bool:
    """Block confirmation mails to the address of a link for all users; False as in confirm_address.

    Confirmations for other people remain valid.
    """
    now = timezone.now()
    with transaction.atomic():
        stored = _invalidate_link(secret, now=now)
        if stored is None:
            return False
        RefusedAddress.objects.get_or_create(address=stored.address, defaults={"refused_at": now})
        record_write(AuditKind.EMAIL_ADDRESS, "blocked", object_id=stored.pk, name=stored.address)
        _drop_confirmation_mails(Q(), stored.address, now=now)
    return True


@transaction.atomic
def allow_address(address: str) -> bool:
    """Unblock confirmation mails to an address; False if they were not blocked."""
    deleted, _ = RefusedAddress.objects.filter(pk=address.lower()).delete()
    if deleted:
        record_write(AuditKind.EMAIL_ADDRESS, "unblocked", name=address.lower())
    return deleted == 1


def forget_request(subscription: Subscription, *, now: datetime) -> None:
    """Drop the queued confirmation mail of a subscription whose address changed."""
    Notice.objects.filter(subscription=subscription, state=NoticeState.WAITING, key__startswith=_KEY).update(
        state=NoticeState.DROPPED, settled_at=now
    )


def _has_confirmed_address() -> Exists:
    """Return the condition on notices that their subscription's address is confirmed."""
    return Exists(
        EmailAddress.objects.filter(
            owner=OuterRef("subscription__owner"),
            address=Lower(OuterRef("subscription__address")),
            confirmed_at__isnull=False,
        )
    )


def _is_confirmed(owner_id: int, address: str) -> bool:
    return EmailAddress.objects.filter(
        owner=owner_id, address=address.lower(), confirmed_at__isnull=False
    ).exists()


def _count_mail(owner_id: int, address: str, *, now: datetime) -> None:
    by_address = count_attempt("confirm address", address, window=timedelta(hours=1), now=now)
    if by_address.count > MAILS_OF_ADDRESS_PER_HOUR:
        raise LimitReached(
            "a confirmation mail was sent to this address within the last hour", by_address.seconds_left
        )
    by_person = count_attempt("confirm person", str(owner_id), window=timedelta(days=1), now=now)
    if by_person.count > MAILS_OF_PERSON_PER_DAY:
        raise LimitReached(
            f"one person can request {MAILS_OF_PERSON_PER_DAY} confirmation mails a day",
            by_person.seconds_left,
        )


def _invalidate_link(secret: str, *, now: datetime) -> EmailAddress | None:
    stored = (
        EmailAddress.objects.select_for_update(no_key=True)
        .filter(digest=_digest(secret), expires_at__gt=now)
        .first()
    )
    if stored is not None:
        EmailAddress.objects.filter(pk=stored.pk).update(digest=None, expires_at=None)
    return stored


def _drop_confirmation_mails(whose: Q, address: str, *, now: datetime) -> None:
    Notice.objects.filter(
        whose,
        subscription__channel=Channel.EMAIL,
        subscription__address__iexact=address,
        state=NoticeState.WAITING,
        key__startswith=_KEY,
    ).update(state=NoticeState.DROPPED, settled_at=now)


def _withhold(notices: QuerySet[Notice], *, now: datetime) -> None:
    entry = [{"at": now.isoformat(), "outcome": WITHHELD}]
    notices.update(
        state=NoticeState.DROPPED,
        settled_at=now,
        log=Func(
            F("log"),
            Value(entry, output_field=JSONField()),
            template="(%(expressions)s)",
            arg_joiner=" || ",
            output_field=JSONField(),
        ),
    )


def _make_message(username: str) -> Message:
    where = f" at {settings.PUBLIC_URL}" if settings.PUBLIC_URL else ""
    return Message(
        kind=MESSAGE_KIND,
        subject="Confirm this e-mail address",
        sentence=(
            f"User {username} of benchapp{where} requested storage benchmark notifications for this address. "
            "No other mail is sent until you confirm."
        ),
        details=(
            ("Not requested by you?", "Open the link and choose “Never write to this address again”."),
            ("Valid for", f"{LINK_LIFETIME.days} days"),
        ),
        thread="confirmation",
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


_VALID: Final = ("Valid for", "24 hours, once")


def send_reset_links(login: str) -> int:
    """Send a link to each user whom a user name or address means; return their number. Raises NotDelivered."""
    users = list_reset_users(login)
    for user in users:
        secret = create_reset_link(user, created_by=user)
        _send(
            user.email,
            Message(
                kind="account.password_reset",
                subject=f"New password for {user.username}",
                sentence=f"Somebody asked for a new password of {user.username} at {settings.PUBLIC_URL}.",
                details=(
                    ("Not requested by you?", "Ignore this mail: the password does not change."),
                    _VALID,
                ),
                url=f"{settings.PUBLIC_URL}/reset-password/{secret}/",
                link_text="Set a new password",
            ),
        )
    return len(users)


def send_address_link(user_id: int, address: str) -> bool:
    """Send the link that confirms an address of a user; False for an unknown user. Raises NotDelivered."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return False
    _send(
        address,
        Message(
            kind="account.email",
            subject="Confirm this e-mail address",
            sentence=(
                f"User {user.username} of benchapp at {settings.PUBLIC_URL} wants to get links for a lost password at"
                " this address."
            ),
            details=(("Not requested by you?", "Ignore this mail: the address is not used."), _VALID),
            url=f"{settings.PUBLIC_URL}/account/email/{sign_address(user, address)}/",
            link_text="Confirm the address",
        ),
    )
    return True


def _send(address: str, message: Message) -> None:
    if settings.EMAIL_SERVER is not None:
        send_messages(address, [message], message_id=str(uuid4()), thread="account", at=timezone.now())
