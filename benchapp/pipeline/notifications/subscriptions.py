"""Who wants to hear of what: made, changed, paused and removed by the person who gets it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from benchapp.grammar import LENGTH_MAXIMUM, BadFilter, parse_filter
from benchapp.models import Channel, Notice, NoticeState, Severity, Subscription, User
from benchapp.pipeline.access.throttle import LimitReached, count_attempt
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.notifications.channels.email import BadAddress, read_email_address
from benchapp.pipeline.notifications.channels.ssrf_guard import (
    AddressRefused,
    read_url,
    refuse_private_number,
)
from benchapp.pipeline.notifications.channels.webhook import make_secret
from benchapp.pipeline.notifications.delivery_times import due_at
from benchapp.pipeline.notifications.email_confirmation import (
    MailRefused,
    ask_confirmation,
    forget_request,
    is_refused,
    is_waiting_for_confirmation,
)
from benchapp.pipeline.notifications.enqueue import put_test
from benchapp.pipeline.notifications.outbox import lock_subscription, read_times

# More than anybody needs, and a bound of what one account can have this server send.
SUBSCRIPTIONS_MAXIMUM: Final = 20
TESTS_OF_PERSON_PER_HOUR: Final = 20
TESTS_OF_ADDRESS_PER_HOUR: Final = 10
_HOUR: Final = timedelta(hours=1)


class NotConfirmed(Exception):
    """An e-mail address whose holder has not confirmed it yet."""


class BadSubscription(Exception):
    """Something about a subscription that cannot be; field names it, the message says why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """What a person may say of a subscription; hours are UTC, quiet hours both or neither."""

    channel: str
    address: str
    filter: str = ""
    least_severity: str = Severity.LOW.value
    wants_silence: bool = True
    is_digest: bool = False
    digest_hour: int = 7
    quiet_from_hour: int | None = None
    quiet_to_hour: int | None = None


def create_subscription(owner: User, given: Mapping[str, Any]) -> Subscription:
    """Make a subscription; a webhook gets a secret, an unconfirmed e-mail address a mail. Raises BadSubscription.

    Where a limit of confirmation mails is reached the subscription is made, and the mail can be requested later.
    """
    wish = read_wish(given)
    with transaction.atomic():
        # Locked, so that two at once cannot pass the bound together.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        if Subscription.objects.filter(owner=owner).count() >= SUBSCRIPTIONS_MAXIMUM:
            raise BadSubscription("", f"you have {SUBSCRIPTIONS_MAXIMUM} subscriptions, which is the most")
        secret = make_secret() if wish.channel == Channel.WEBHOOK else ""
        made = Subscription.objects.create(owner=owner, secret=secret, **asdict(wish))
        try:
            with suppress(LimitReached):
                ask_confirmation(made)
        except MailRefused as error:
            raise BadSubscription("address", str(error)) from error
    return made


@retry_conflicts
def change_subscription(subscription: Subscription, given: Mapping[str, Any]) -> Subscription:
    """Give a subscription other words; its channel stays. Raises BadSubscription.

    What waits goes out by the new hours. Another e-mail address must be confirmed, unless this person did so before.
    """
    wish = read_wish({**given, "channel": subscription.channel})
    has_new_address = wish.address.lower() != subscription.address.lower()
    if has_new_address and is_refused(subscription.owner_id, wish.address):
        raise BadSubscription("address", f"the holder of {wish.address} asked this server not to write to it")
    with transaction.atomic():
        for name, value in asdict(wish).items():
            setattr(subscription, name, value)
        subscription.save(update_fields=list(asdict(wish)))
        _plan_anew(subscription)
        if has_new_address:
            forget_request(subscription, now=timezone.now())
    if has_new_address:
        # Behind the transaction, which has locked notices: a confirmation locks its address before them. Where the
        # process ends here, the first due notice has the mail sent.
        with suppress(LimitReached, MailRefused):
            ask_confirmation(subscription)
    return subscription


@retry_conflicts
def request_test(subscription: Subscription, by: User) -> bool:
    """Put a test notice into the outbox; False where there was one within this minute.

    Raises NotConfirmed, LimitReached.
    """
    if is_waiting_for_confirmation(subscription):
        raise NotConfirmed(
            f"{subscription.address} is not confirmed yet: its holder opens the link in the mail"
        )
    now = timezone.now()
    with transaction.atomic():
        if not put_test(subscription, now=now):
            return False
        # Raised within the transaction: a test that is refused is neither sent nor counted.
        counted = count_attempt("test person", str(by.pk), window=_HOUR, now=now)
        if counted.count > TESTS_OF_PERSON_PER_HOUR:
            raise LimitReached(
                f"one person can send {TESTS_OF_PERSON_PER_HOUR} tests an hour", counted.seconds_left
            )
        counted = count_attempt("test address", subscription.address.lower(), window=_HOUR, now=now)
        if counted.count > TESTS_OF_ADDRESS_PER_HOUR:
            raise LimitReached(
                f"one address gets at most {TESTS_OF_ADDRESS_PER_HOUR} tests an hour", counted.seconds_left
            )
    return True


@retry_conflicts
def resume_subscription(subscription_id: int) -> bool:
    """Let a subscription hear again, its failures forgotten; False where it does already, or is gone."""
    with transaction.atomic():
        stored = lock_subscription(subscription_id)
        if stored is None or stored.is_active:
            return False
        stored.is_active, stored.paused_reason, stored.failures = True, "", 0
        stored.save(update_fields=["is_active", "paused_reason", "failures"])
        _plan_anew(stored)
    return True


@retry_conflicts
def delete_subscription(subscription_id: int) -> None:
    """Delete a subscription with its notices; what is deleted already stays so."""
    with transaction.atomic():
        # Before its notices, which Django deletes first: senders lock them in this order too.
        Subscription.objects.select_for_update().filter(pk=subscription_id).first()
        Subscription.objects.filter(pk=subscription_id).delete()


def renew_secret(subscription: Subscription) -> str:
    """Give a webhook another secret and return it; the old one signs nothing any more. Raises BadSubscription."""
    if subscription.channel != Channel.WEBHOOK:
        raise BadSubscription("", "only webhooks have a secret")
    secret = make_secret()
    Subscription.objects.filter(pk=subscription.pk).update(secret=secret)
    return secret


def read_wish(given: Mapping[str, Any]) -> SubscriptionSettings:
    """Return what a person said, checked; what is left out is as by default. Raises BadSubscription."""
    known = {name: given[name] for name in SubscriptionSettings.__dataclass_fields__ if name in given}
    wish = SubscriptionSettings(**known)
    if wish.channel not in Channel.values:
        raise BadSubscription("channel", f"choose one of {', '.join(Channel.values)}")
    if wish.least_severity not in Severity.values:
        raise BadSubscription("least_severity", f"choose one of {', '.join(Severity.values)}")
    if (wish.quiet_from_hour is None) != (wish.quiet_to_hour is None):
        raise BadSubscription("quiet_to_hour", "quiet hours have a beginning and an end, or neither")
    if wish.quiet_from_hour is not None and wish.quiet_from_hour == wish.quiet_to_hour:
        raise BadSubscription(
            "quiet_to_hour", "quiet hours that end when they begin would be all of the day or none"
        )
    for name in ("digest_hour", "quiet_from_hour", "quiet_to_hour"):
        hour = getattr(wish, name)
        if hour is not None and not 0 <= hour <= 23:
            raise BadSubscription(name, "an hour is 0 to 23")
    _check_filter(wish.filter)
    _check_address(wish)
    return wish


def _check_filter(text: str) -> None:
    try:
        parse_filter(text)
    except BadFilter as error:
        raise BadSubscription("filter", str(error)) from error
    if len(text) > LENGTH_MAXIMUM:
        raise BadSubscription("filter", f"at most {LENGTH_MAXIMUM} characters")


def _check_address(wish: SubscriptionSettings) -> None:
    try:
        if wish.channel == Channel.EMAIL:
            read_email_address(wish.address)
        else:
            url = read_url(wish.address, ports=settings.WEBHOOK_PORTS)
            refuse_private_number(url, allowed=settings.WEBHOOK_ALLOW_PRIVATE)
    except (BadAddress, AddressRefused) as error:
        raise BadSubscription("address", str(error)) from error


def _plan_anew(subscription: Subscription) -> None:
    """Let what waits go out by the hours that are said now; what a sender holds at this moment is left alone."""
    times = read_times(subscription)
    waiting = Notice.objects.select_for_update(no_key=True).filter(
        subscription=subscription, state=NoticeState.WAITING
    )
    now = timezone.now()
    for notice in waiting:
        if not (notice.log and not notice.log[-1]["outcome"] and notice.not_before_at > now):
            Notice.objects.filter(pk=notice.pk).update(not_before_at=due_at(times, now))
