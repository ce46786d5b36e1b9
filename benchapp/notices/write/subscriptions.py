"""Create, change, test, resume and delete subscriptions."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from benchapp.accounts.write.throttle import LimitReached, count_attempt
from benchapp.catalog.grammar import BadFilter
from benchapp.catalog.metrics import JUDGED_METRICS
from benchapp.catalog.thresholds import BadThreshold, parse_threshold
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.layouts.read.question import BadQuestion, canonicalize_question
from benchapp.models import (
    AuditKind,
    Channel,
    Notice,
    NoticeState,
    Severity,
    StoredLayoutAnswer,
    Subscription,
    User,
)
from benchapp.models.filtering import read_filter_to_store
from benchapp.notices.channels.posting import make_secret
from benchapp.notices.channels.transport import AddressRefused, get_transport
from benchapp.notices.write.delivery_times import due_at
from benchapp.notices.write.email_confirmation import (
    MailRefused,
    ask_confirmation,
    forget_request,
    is_refused,
    is_waiting_for_confirmation,
)
from benchapp.notices.write.enqueue import put_test
from benchapp.notices.write.outbox import lock_subscription, pause, read_times
from benchapp.notices.write.thresholds import (
    THRESHOLDS_MAXIMUM,
    TooManyViolations,
    store_present_violations,
)

# Limits what one account can have this server send.
SUBSCRIPTIONS_MAXIMUM: Final = 20
TESTS_OF_PERSON_PER_HOUR: Final = 20
TESTS_OF_ADDRESS_PER_HOUR: Final = 10
_HOUR: Final = timedelta(hours=1)


class NotConfirmed(Exception):
    """An e-mail address that is not confirmed yet."""


def create_subscription(owner: User, given: Mapping[str, Any]) -> Subscription:
    """Create a subscription; a webhook gets a secret, an unconfirmed e-mail address a mail. Raises BadValue.

    given: the columns of `Subscription.given` that differ from their default. If a limit of confirmation mails is
    reached, the subscription is created and the mail can be requested later.
    """
    made = Subscription(owner=owner, **given)
    check_subscription(made)
    with transaction.atomic():
        # Locked, so that concurrent requests cannot exceed the limit.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        if Subscription.objects.filter(owner=owner).count() >= SUBSCRIPTIONS_MAXIMUM:
            raise BadValue("", f"the limit of {SUBSCRIPTIONS_MAXIMUM} subscriptions is reached")
        made.secret = make_secret() if get_transport(made.channel).is_signed else ""
        made.save(force_insert=True)
        _store_violations(made, added=made.thresholds)
        try:
            with suppress(LimitReached):
                ask_confirmation(made)
        except MailRefused as error:
            raise BadValue("address", str(error)) from error
        _record(made, "created", after=_snapshot(made))
    return made


@retry_conflicts
def change_subscription(subscription: Subscription, given: Mapping[str, Any]) -> Subscription:
    """Change the given columns of a subscription, except its channel. Raises BadValue.

    Queued notices use the new delivery times. A new e-mail address must be confirmed unless this person did so before.
    """
    for name, value in {**given, "channel": subscription.channel}.items():
        setattr(subscription, name, value)
    check_subscription(subscription)
    with transaction.atomic():
        # Against detection, which writes violations of thresholds. What is stored may differ from what was read: by
        # another request, or by a first attempt.
        stored = Subscription.objects.select_for_update().filter(pk=subscription.pk).first() or subscription
        has_new_address = subscription.address.lower() != stored.address.lower()
        if has_new_address and is_refused(subscription.owner_id, subscription.address):
            raise BadValue("address", f"the owner of {subscription.address} blocked mail from this server")
        before = _snapshot(stored)
        earlier = set() if subscription.filter != stored.filter else set(stored.thresholds)
        if subscription.layout_question != stored.layout_question:
            StoredLayoutAnswer.objects.filter(subscription=subscription).delete()
        subscription.save(update_fields=Subscription.given)
        after = _snapshot(subscription)
        if subscription.address != stored.address:
            # The addresses of two webhooks of one host are the same without their secrets.
            after["has_new_address"] = True
        _record(subscription, "changed", before=before, after=after)
        _store_violations(
            subscription, added=[text for text in subscription.thresholds if text not in earlier]
        )
        _reschedule(subscription)
        if has_new_address:
            forget_request(subscription, now=timezone.now())
    if has_new_address:
        # After the transaction, which has locked notices: a confirmation locks its address before notices. If the
        # process ends here, the first due notice triggers the mail.
        with suppress(LimitReached, MailRefused):
            ask_confirmation(subscription)
    return subscription


@retry_conflicts
def request_test(subscription: Subscription, by: User) -> bool:
    """Queue a test notice; False if there was one within the last minute.

    Raises NotConfirmed, LimitReached.
    """
    if is_waiting_for_confirmation(subscription):
        raise NotConfirmed(
            f"{subscription.address} is not confirmed yet: open the link in the confirmation mail"
        )
    now = timezone.now()
    with transaction.atomic():
        if not put_test(subscription, now=now):
            return False
        # Raised within the transaction: a rejected test is neither sent nor counted.
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
        _record(subscription, "test_requested", by=by)
    return True


@retry_conflicts
def resume_subscription(subscription_id: int) -> bool:
    """Resume a subscription and reset its failures; False if it is active or deleted."""
    with transaction.atomic():
        stored = lock_subscription(subscription_id)
        if stored is None or stored.is_active:
            return False
        stored.is_active, stored.paused_reason, stored.failures = True, "", 0
        stored.save(update_fields=["is_active", "paused_reason", "failures"])
        _reschedule(stored)
        _record(stored, "resumed", before={"is_active": False}, after={"is_active": True})
    return True


@transaction.atomic
def pause_subscription(subscription_id: int, *, by: User) -> bool:
    """Pause a subscription for a person; False if it is already paused or deleted."""
    if not pause(subscription_id, f"paused by {by.username}"):
        return False
    stored = Subscription.objects.get(pk=subscription_id)
    _record(stored, "paused", before={"is_active": True}, after={"is_active": False}, by=by)
    return True


@retry_conflicts
def delete_subscription(subscription_id: int) -> None:
    """Delete a subscription with its notices; deleting it again changes nothing."""
    with transaction.atomic():
        # Before its notices, which Django deletes first: the lock order of senders.
        stored = Subscription.objects.select_for_update().filter(pk=subscription_id).first()
        if stored is not None:
            _record(stored, "deleted", before=_snapshot(stored))
            stored.delete()


@transaction.atomic
def renew_secret(subscription: Subscription) -> str:
    """Replace the secret of a webhook and return the new one. Raises BadValue."""
    if not get_transport(subscription.channel).is_signed:
        raise BadValue("", "only webhooks have a secret")
    secret = make_secret()
    Subscription.objects.filter(pk=subscription.pk).update(secret=secret)
    _record(subscription, "secret_renewed")
    return secret


def _snapshot(subscription: Subscription) -> dict[str, Any]:
    """Return the settings without the secret part of a webhook's address."""
    return {**snapshot(subscription, *Subscription.given), "address": subscription.display_address}


def _record(
    subscription: Subscription,
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    by: User | None = None,
) -> None:
    record_write(
        AuditKind.SUBSCRIPTION,
        action,
        object_id=subscription.pk,
        name=str(subscription),
        before=before,
        after=after,
        by=by,
    )


def check_subscription(subscription: Subscription) -> None:
    """Write the given values in their canonical form. Raises BadValue."""
    # A preview has no owner.
    if subscription.owner_id and subscription.owner.pools:
        raise BadValue("", "an account that is limited to pools gets no notices")
    if subscription.channel not in Channel.values:
        raise BadValue("channel", f"choose one of {', '.join(Channel.values)}")
    if subscription.minimum_severity not in Severity.values:
        raise BadValue("minimum_severity", f"choose one of {', '.join(Severity.values)}")
    if (subscription.quiet_from_hour is None) != (subscription.quiet_to_hour is None):
        raise BadValue("quiet_to_hour", "quiet hours need both a start and an end")
    if (
        subscription.quiet_from_hour is not None
        and subscription.quiet_from_hour == subscription.quiet_to_hour
    ):
        raise BadValue("quiet_to_hour", "quiet hours cannot start and end at the same hour")
    for name in ("digest_hour", "quiet_from_hour", "quiet_to_hour"):
        hour = getattr(subscription, name)
        if hour is not None and not 0 <= hour <= 23:
            raise BadValue(name, "an hour is 0 to 23")
    try:
        get_transport(subscription.channel).check_address(subscription.address)
    except AddressRefused as error:
        raise BadValue("address", str(error)) from error
    subscription.metrics = _read_metrics(subscription.metrics)
    subscription.thresholds = _read_thresholds(subscription.thresholds)
    try:
        subscription.filter = read_filter_to_store(subscription.filter)
    except BadFilter as error:
        raise BadValue("filter", str(error)) from error
    if question := subscription.layout_question.strip():
        try:
            question = canonicalize_question(question)
        except BadQuestion as error:
            raise BadValue("layout_question", str(error)) from error
    subscription.layout_question = question


def _read_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics in the order of the catalog, each once. Raises BadValue."""
    for name in names:
        if name not in JUDGED_METRICS:
            raise BadValue("metrics", f"{str(name)[:40]!r} is not one of {', '.join(JUDGED_METRICS)}")
    return [name for name in JUDGED_METRICS if name in names]


def _read_thresholds(texts: Iterable[str]) -> list[str]:
    """Return the canonical texts of thresholds, each once. Raises BadValue."""
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise BadValue("thresholds", f"{str(text)[:40]} is not a text: write p99 < 5 ms")
        try:
            found.append(parse_threshold(text).text)
        except BadThreshold as error:
            raise BadValue("thresholds", str(error)) from error
    if len(found) > THRESHOLDS_MAXIMUM:
        raise BadValue("thresholds", f"at most {THRESHOLDS_MAXIMUM} thresholds; these are {len(found)}")
    return list(dict.fromkeys(found))


def _store_violations(subscription: Subscription, *, added: Sequence[str]) -> None:
    try:
        store_present_violations(subscription, added=added)
    except TooManyViolations as error:
        raise BadValue("thresholds", str(error)) from error


def _reschedule(subscription: Subscription) -> None:
    """Apply the delivery times to queued notices; claimed notices are not changed."""
    times = read_times(subscription)
    waiting = Notice.objects.select_for_update(no_key=True).filter(
        subscription=subscription, state=NoticeState.WAITING
    )
    now = timezone.now()
    for notice in waiting:
        if not (notice.log and not notice.log[-1]["outcome"] and notice.not_before_at > now):
            Notice.objects.filter(pk=notice.pk).update(not_before_at=due_at(times, now))
