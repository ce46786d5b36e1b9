"""Until its holder confirms an e-mail address, it gets the mail with the link and nothing else."""

import hashlib
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from benchapp.accounts.write.throttle import LimitReached
from benchapp.framework.env import EmailServer
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    WITHHELD,
    Channel,
    EmailAddress,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
    User,
)
from benchapp.notices.read import read_subscription
from benchapp.notices.write.email_confirmation import (
    MAILS_OF_PERSON_PER_DAY,
    MailRefused,
    allow_address,
    ask_confirmation,
    confirm_address,
    find_address,
    refuse_address,
)
from benchapp.notices.write.enqueue import enqueue, send_due
from benchapp.notices.write.subscriptions import (
    TESTS_OF_ADDRESS_PER_HOUR,
    TESTS_OF_PERSON_PER_HOUR,
    NotConfirmed,
    change_subscription,
    create_subscription,
    request_test,
)
from tests.factories import make_user
from tests.mail_server import MailServer, serve_mail
from tests.received_notices import make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db

WISH = {"channel": "email", "address": "anna@example.org"}


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    with serve_mail() as server:
        settings.EMAIL_SERVER = EmailServer("127.0.0.1", server.port, "", "", "none")
        settings.EMAIL_FROM = "benchapp <bench@example.org>"
        settings.PUBLIC_URL = "https://bench.example.org"
        yield server


@pytest.fixture
def anna() -> User:
    return make_user(username="anna")


def subjects(mail: MailServer) -> list[str]:
    return [str(letter.message["Subject"]) for letter in mail.letters]


def read_secret(mail: MailServer) -> str:
    """Return what the link of the newest mail ends in."""
    found = re.search(r"/confirm-address/([\w-]{43})/", mail.letters[-1].part("plain"))
    assert found is not None
    return found[1]


def read_row(subscription: Subscription) -> Subscription:
    row = read_subscription(subscription.pk, subscription.owner)
    assert row is not None
    return row


def let_time_pass(hours: float) -> None:
    """Make all that was asked for and counted so much older."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_throttle SET window_started_at = window_started_at - %s * interval '1 hour'",
            [hours],
        )


def test_new_address_gets_one_mail_with_a_link_and_no_notice(mail: MailServer, anna: User) -> None:
    subscription = create_subscription(anna, WISH)
    enqueue([make_event(make_incident()).pk])

    send_due()

    (letter,) = mail.letters
    secret = read_secret(mail)
    assert letter.recipients == ["anna@example.org"]
    assert letter.message["Subject"] == "[benchapp] Confirm this e-mail address"
    assert "User anna of benchapp at https://bench.example.org" in " ".join(letter.part("plain").split())
    assert "Never write to this address again" in letter.part("plain")
    assert f'href="https://bench.example.org/confirm-address/{secret}/"' in letter.part("html")
    assert "/subscriptions/" not in letter.part("plain")
    row = read_row(subscription)
    assert (row.address_state, row.confirmed_at, row.waiting) == ("unconfirmed", None, 1)


def test_link_is_stored_as_a_hash_only(mail: MailServer, anna: User) -> None:
    create_subscription(anna, WISH)
    send_due()

    secret = read_secret(mail)

    assert bytes(EmailAddress.objects.get().digest or b"") == hashlib.sha256(secret.encode()).digest()
    assert secret not in str(list(Notice.objects.values()))


def test_confirmation_lets_out_what_waited_and_uses_up_the_link(mail: MailServer, anna: User) -> None:
    subscription = create_subscription(anna, WISH)
    enqueue([make_event(make_incident()).pk])
    send_due()
    secret = read_secret(mail)

    assert confirm_address(secret) is True
    send_due()

    assert subjects(mail)[1:] == ["[benchapp] Worse, medium: p99 latency up 38 % on db-07"]
    assert read_row(subscription).address_state == "confirmed"
    assert read_row(subscription).confirmed_at is not None
    assert confirm_address(secret) is False
    assert refuse_address(secret) is False


def test_link_expires(mail: MailServer, anna: User) -> None:
    create_subscription(anna, WISH)
    send_due()
    secret = read_secret(mail)
    address = find_address(secret)
    assert address is not None
    assert address.expires_at is not None
    assert timedelta(days=2.9) < address.expires_at - timezone.now() < timedelta(days=3)

    EmailAddress.objects.update(expires_at=timezone.now())

    assert find_address(secret) is None
    assert confirm_address(secret) is False


def test_unconfirmed_address_gets_no_test(mail: MailServer, anna: User) -> None:
    subscription = create_subscription(anna, WISH)

    with pytest.raises(NotConfirmed, match=r"anna@example.org is not confirmed yet"):
        request_test(subscription, anna)

    send_due()
    assert subjects(mail) == ["[benchapp] Confirm this e-mail address"]


def test_create_and_remove_again_and_again_sends_one_mail(mail: MailServer, anna: User) -> None:
    for address in ("eve@example.org", "Eve@Example.org") * 10:
        subscription = create_subscription(anna, {**WISH, "address": address})
        send_due()
        subscription.delete()

    assert len(mail.letters) == 1


def test_mail_is_sent_again_after_an_hour_and_the_first_link_stops(mail: MailServer, anna: User) -> None:
    subscription = create_subscription(anna, WISH)
    send_due()
    first = read_secret(mail)
    with pytest.raises(LimitReached, match=r"within the last hour; try again in \d+ minutes") as problem:
        ask_confirmation(subscription)
    assert 3500 < problem.value.wait_s <= 3600

    let_time_pass(1.01)
    assert ask_confirmation(subscription) is True
    send_due()

    assert len(mail.letters) == 2
    assert find_address(first) is None
    assert find_address(read_secret(mail)) is not None


@pytest.mark.parametrize("is_refused", [False, True])
def test_mail_that_cannot_be_sent_leaves_the_earlier_link_valid(
    mail: MailServer, anna: User, settings: Any, is_refused: bool
) -> None:
    subscription = create_subscription(anna, WISH)
    send_due()
    secret = read_secret(mail)
    let_time_pass(1.01)
    assert ask_confirmation(subscription) is True

    if is_refused:
        mail.answers["RCPT"] = "451 later"
    else:
        settings.EMAIL_SERVER = None
    send_due()

    assert len(mail.letters) == 1
    assert confirm_address(secret) is True


def test_one_address_gets_one_mail_an_hour_whoever_asks(mail: MailServer, anna: User) -> None:
    create_subscription(anna, WISH)
    other = create_subscription(make_user(username="ben"), WISH)
    send_due()

    assert len(mail.letters) == 1
    assert read_row(other).confirmation_asked_at is None
    with pytest.raises(LimitReached):
        ask_confirmation(other)


def test_one_person_requests_so_many_mails_a_day(mail: MailServer, anna: User) -> None:
    for number in range(MAILS_OF_PERSON_PER_DAY + 3):
        last = create_subscription(anna, {**WISH, "address": f"a{number}@example.org"})
    send_due()

    assert len(mail.letters) == MAILS_OF_PERSON_PER_DAY
    with pytest.raises(LimitReached, match="10 confirmation mails a day; try again in 24 hours"):
        ask_confirmation(last)
    # What meets the limit of a person does not count for the address.
    create_subscription(make_user(username="ben"), {**WISH, "address": last.address})
    assert Notice.objects.filter(subscription__owner__username="ben").count() == 1


def test_confirmation_is_shared_by_person_and_address_and_survives_edits(
    mail: MailServer, anna: User
) -> None:
    first = create_subscription(anna, WISH)
    send_due()
    confirm_address(read_secret(mail))

    change_subscription(first, {**WISH, "address": "ANNA@example.org", "filter": "host:db-*"})
    second = create_subscription(anna, WISH)
    others = create_subscription(make_user(username="ben"), WISH)

    states = [read_row(each).address_state for each in (first, second, others)]
    assert states == ["confirmed", "confirmed", "unconfirmed"]


def test_another_address_must_be_confirmed(mail: MailServer, anna: User) -> None:
    subscription = create_subscription(anna, WISH)
    change_subscription(subscription, {**WISH, "address": "eve@example.org"})

    send_due()

    assert [letter.recipients for letter in mail.letters] == [["eve@example.org"]]
    assert find_address(read_secret(mail)).address == "eve@example.org"  # type: ignore[union-attr]


def test_address_of_ones_own_account_is_confirmed_as_any_other(mail: MailServer, anna: User) -> None:
    User.objects.filter(pk=anna.pk).update(email="anna@example.org")

    assert read_row(create_subscription(anna, WISH)).address_state == "unconfirmed"


def test_refused_address_gets_no_mail_from_anybody_until_it_is_allowed_again(
    mail: MailServer, anna: User
) -> None:
    subscription = create_subscription(anna, WISH)
    send_due()
    assert refuse_address(read_secret(mail)) is True
    let_time_pass(1.01)
    ben = make_user(username="ben")

    with pytest.raises(MailRefused):
        ask_confirmation(subscription)
    with pytest.raises(BadValue, match="blocked mail from this server") as problem:
        create_subscription(ben, {**WISH, "address": "Anna@example.org"})
    assert problem.value.field == "address"
    elsewhere = make_subscription(ben, address="ben@example.org")
    with pytest.raises(BadValue, match="blocked mail from this server"):
        change_subscription(elsewhere, WISH)
    assert Subscription.objects.get(pk=elsewhere.pk).address == "ben@example.org"
    send_due()
    assert len(mail.letters) == 1
    assert read_row(subscription).address_state == "refused"

    assert (allow_address("ANNA@example.org"), allow_address("anna@example.org")) == (True, False)
    create_subscription(ben, WISH)
    send_due()
    assert len(mail.letters) == 2


def test_refusal_of_one_request_leaves_what_was_confirmed(mail: MailServer, anna: User) -> None:
    confirmed = make_subscription(anna)
    create_subscription(make_user(username="ben"), WISH)
    send_due()

    refuse_address(read_secret(mail))

    assert read_row(confirmed).address_state == "confirmed"
    assert RefusedAddress.objects.get().address == "anna@example.org"
    assert change_subscription(confirmed, {**WISH, "filter": "host:db-*"}).filter == "host:db-*"


def test_subscription_of_before_is_asked_for_with_its_first_due_notice(mail: MailServer) -> None:
    subscription = make_subscription(is_confirmed=False)
    send_due()
    assert mail.letters == []

    enqueue([make_event(make_incident()).pk])
    send_due()
    send_due()

    assert subjects(mail) == ["[benchapp] Confirm this e-mail address"]
    confirm_address(read_secret(mail))
    send_due()
    assert len(mail.letters) == 2
    assert read_row(subscription).waiting == 0


def test_notice_of_an_unconfirmed_address_is_dropped_after_a_day_with_the_reason_and_counted(
    mail: MailServer,
) -> None:
    subscription = make_subscription(is_confirmed=False)
    hook = make_subscription(channel=Channel.WEBHOOK, is_active=False)
    day = timezone.now() - timedelta(hours=25)
    for whose, key in ((subscription, "old"), (hook, "of a webhook")):
        Notice.objects.create(subscription=whose, key=key, created_at=day, not_before_at=day)
    # Of a digest: made longer ago, due an hour ago.
    Notice.objects.create(
        subscription=subscription, key="new", created_at=day, not_before_at=day + timedelta(hours=24)
    )

    send_due()

    old = Notice.objects.get(key="old")
    assert (old.state, [entry["outcome"] for entry in old.log]) == (NoticeState.DROPPED, [WITHHELD])
    assert Notice.objects.get(key="new").state == NoticeState.WAITING
    row = read_row(subscription)
    assert (row.withheld, row.waiting) == (1, 1)
    assert read_row(hook).withheld == 0


def test_mail_without_a_public_url_names_the_path(mail: MailServer, anna: User, settings: Any) -> None:
    settings.PUBLIC_URL = ""
    create_subscription(anna, WISH)

    send_due()

    assert f"Path on that server: /confirm-address/{read_secret(mail)}/" in mail.letters[0].part("plain")


def test_mail_that_failed_is_sent_again_with_a_link_that_works(mail: MailServer, anna: User) -> None:
    create_subscription(anna, WISH)
    mail.answers["RCPT"] = "451 later"
    send_due()
    assert mail.letters == []

    mail.answers.clear()
    Notice.objects.update(not_before_at=timezone.now())
    send_due()

    assert find_address(read_secret(mail)) is not None


def make_tests(subscription: Subscription, by: User, count: int) -> None:
    for number in range(count):
        assert request_test(subscription, by)
        Notice.objects.filter(key__startswith="test ").update(key=f"earlier {subscription.pk} {number}")


def test_one_address_gets_so_many_tests_an_hour(anna: User) -> None:
    first, second = make_subscription(anna), make_subscription(anna)
    make_tests(first, anna, TESTS_OF_ADDRESS_PER_HOUR)

    with pytest.raises(LimitReached, match=r"at most 10 tests an hour; try again in \d+ minutes"):
        request_test(second, anna)

    assert Notice.objects.filter(subscription=second).count() == 0


def test_one_person_sends_so_many_tests_an_hour(anna: User) -> None:
    for name in ("a", "b"):
        each = make_subscription(anna, channel=Channel.SLACK, address=f"https://{name}.example.org/")
        make_tests(each, anna, TESTS_OF_PERSON_PER_HOUR // 2)
    third = make_subscription(anna)

    with pytest.raises(LimitReached, match="one person can send 20 tests an hour"):
        request_test(third, anna)

    let_time_pass(1.01)
    assert request_test(third, anna) is True


@pytest.mark.django_db(transaction=True)
def test_many_who_ask_at_the_same_time_send_one_mail(anna: User) -> None:
    subscription = make_subscription(anna, is_confirmed=False)
    outcomes: list[str] = []
    start = threading.Barrier(6)

    def ask() -> None:
        start.wait(60)
        try:
            outcomes.append(str(ask_confirmation(subscription)))
        except LimitReached:
            outcomes.append("limit")
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(outcomes) == ["True", *["limit"] * 5]
    assert Notice.objects.count() == 1
