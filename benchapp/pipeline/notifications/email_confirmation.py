"""Confirm e-mail addresses: until its holder opens a link and agrees, an address gets the mail with that link only."""

import hashlib
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Lower
from django.utils import timezone

from benchapp.models import (
    WITHHELD,
    Channel,
    EmailAddress,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
)
from benchapp.pipeline.access.throttle import LimitReached, count_attempt
from benchapp.pipeline.notifications.delivery_times import GIVE_UP_AFTER
from benchapp.pipeline.notifications.message import Message

# A mail of Friday is read on Monday.
LINK_LIFETIME: Final = timedelta(days=3)
MAILS_OF_ADDRESS_PER_HOUR: Final = 1
MAILS_OF_PERSON_PER_DAY: Final = 10
MESSAGE_KIND: Final = "address.confirmation"
_KEY: Final = "confirmation "
_ASKED_AT_ONCE: Final = 50


class MailRefused(Exception):
    """The holder of an address asked that no mail is sent to it."""


def may_be_sent() -> Q:
    """Return the condition on notices that leaves what may go out: of an unconfirmed address the confirmation mail."""
    return ~Q(subscription__channel=Channel.EMAIL) | Q(key__startswith=_KEY) | Q(_has_confirmed_address())


def is_waiting_for_confirmation(subscription: Subscription) -> bool:
    """Say whether notices of a subscription are withheld because its address is not confirmed."""
    return subscription.channel == Channel.EMAIL and not _is_confirmed(
        subscription.owner_id, subscription.address
    )


def is_refused(owner_id: int, address: str) -> bool:
    """Say whether the holder of an address refused mail and has not confirmed it for this person."""
    refused = RefusedAddress.objects.filter(pk=address.lower())
    return refused.exists() and not _is_confirmed(owner_id, address)


def ask_confirmation(subscription: Subscription, *, now: datetime | None = None) -> bool:
    """Put a confirmation mail into the outbox; False where none is needed. Raises LimitReached, MailRefused.

    The link is made when the mail is sent, so that the outbox contains no secret.
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
            raise MailRefused(f"the holder of {address} asked this server not to write to it")
        # Raised within the transaction: an attempt that is refused counts in neither bucket.
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
    return True


def prepare_confirmations(*, now: datetime) -> None:
    """Ask for confirmations that were never asked for; drop what was withheld for a day, with the reason in its log.

    The first concerns subscriptions from before addresses were confirmed, and those that met a limit when made.
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
    for subscription in never_asked.select_related("owner").order_by("pk")[:_ASKED_AT_ONCE]:
        with suppress(LimitReached, MailRefused):
            ask_confirmation(subscription, now=now)
    # By when it was due, not made: what a digest gathers waits for a day after its hour.
    _withhold(waiting.filter(not_before_at__lt=now - GIVE_UP_AFTER), now=now)


def add_link(message: Message, subscription: Subscription) -> Message:
    """Return a confirmation mail with a new link; earlier links of this person and address stop working."""
    secret = secrets.token_urlsafe(32)
    EmailAddress.objects.filter(owner=subscription.owner_id, address=subscription.address.lower()).update(
        digest=_digest(secret), expires_at=timezone.now() + LINK_LIFETIME
    )
    path = f"/confirm-address/{secret}/"
    if settings.PUBLIC_URL:
        return replace(message, url=f"{settings.PUBLIC_URL}{path}", link_words="Confirm or refuse")
    # Without its own URL the server cannot name itself: the name in a request could be anybody's.
    return replace(message, details=(("Path to open on that server", path), *message.details))


def find_address(secret: str) -> EmailAddress | None:
    """Return the address that this link confirms now, or None."""
    found = EmailAddress.objects.filter(digest=_digest(secret), expires_at__gt=timezone.now())
    return found.select_related("owner").first()


def confirm_address(secret: str) -> bool:
    """Confirm the address of a link and use up the link; False where it is unknown, used or expired.

    What was withheld for less than a day goes out now.
    """
    now = timezone.now()
    with transaction.atomic():
        stored = _use_up(secret, now=now)
        if stored is None:
            return False
        EmailAddress.objects.filter(pk=stored.pk).update(confirmed_at=now)
        _drop_confirmation_mails(Q(subscription__owner=stored.owner_id), stored.address, now=now)
    return True


def refuse_address(secret: str) -> bool:
    """Send no confirmation mail to the address of a link again, whoever asks; False as in confirm_address.

    What its holder confirmed for other people stays confirmed.
    """
    now = timezone.now()
    with transaction.atomic():
        stored = _use_up(secret, now=now)
        if stored is None:
            return False
        RefusedAddress.objects.get_or_create(address=stored.address, defaults={"refused_at": now})
        _drop_confirmation_mails(Q(), stored.address, now=now)
    return True


def allow_address(address: str) -> bool:
    """Allow confirmation mails to an address again; False where they were allowed."""
    deleted, _ = RefusedAddress.objects.filter(pk=address.lower()).delete()
    return deleted == 1


def forget_request(subscription: Subscription, *, now: datetime) -> None:
    """Drop the confirmation mail that waits for a subscription: its address was changed."""
    Notice.objects.filter(subscription=subscription, state=NoticeState.WAITING, key__startswith=_KEY).update(
        state=NoticeState.DROPPED, settled_at=now
    )


def _has_confirmed_address() -> Exists:
    """Return the condition on notices that the address of their subscription is confirmed."""
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


def _use_up(secret: str, *, now: datetime) -> EmailAddress | None:
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
            f"The user {username} of benchapp{where} asked for notices of storage benchmarks to be sent to this "
            "address. Nothing else is sent to it until you confirm."
        ),
        details=(
            ("Not you?", "Open the same link and choose “Never write to this address again”."),
            ("Valid for", f"{LINK_LIFETIME.days} days"),
        ),
        thread="confirmation",
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
