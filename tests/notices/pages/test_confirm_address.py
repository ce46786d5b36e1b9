"""The page behind the link of a confirmation mail, and what a subscription shows until the link is used."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from benchapp.framework.env import EmailServer
from benchapp.models import EmailAddress, Notice, NoticeState, RefusedAddress, Scope, Subscription, User
from benchapp.notices.write.email_confirmation import ask_confirmation
from benchapp.notices.write.enqueue import enqueue, send_due
from benchapp.operation.log_masking import mask_secrets
from tests.factories import make_token, make_user
from tests.mail_server import MailServer, serve_mail
from tests.received_notices import make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db

FORM = {
    "channel": "email",
    "address": "anna@example.org",
    "minimum_severity": "low",
    "further_runs": "3",
    "digest_hour": "7",
    "notify_incidents": "on",
}


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    with serve_mail() as server:
        settings.EMAIL_SERVER = EmailServer("127.0.0.1", server.port, "", "", "none")
        settings.EMAIL_FROM = "benchapp <bench@example.org>"
        settings.PUBLIC_URL = "http://testserver"
        yield server


@pytest.fixture
def anna() -> User:
    return make_user(username="anna")


@pytest.fixture
def client(anna: User) -> Client:
    client = Client()
    client.force_login(anna)
    return client


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Send at once instead of asking a broker."""
    calls: list[str] = []

    def send() -> bool:
        calls.append("notify")
        return send_due() >= 0

    for module in ("pages", "api"):
        monkeypatch.setattr(f"benchapp.notices.{module}.wake_notify", send)
    return calls


def read_link(mail: MailServer) -> str:
    found = re.search(r"http://testserver(/confirm-address/[\w-]{43}/)", mail.letters[-1].part("plain"))
    assert found is not None
    return found[1]


def subscribe(client: Client, **changes: str) -> Subscription:
    client.post(reverse("add_subscription"), {**FORM, **changes})
    return Subscription.objects.get()


def test_loop_of_create_test_and_remove_sends_one_mail(mail: MailServer, client: Client) -> None:
    for _ in range(21):
        client.post(reverse("add_subscription"), {**FORM, "address": "victim@example.org"})
        for subscription in Subscription.objects.all():
            client.post(reverse("test_subscription", args=[subscription.pk]))
            send_due()
            client.post(reverse("remove_subscription", args=[subscription.pk]))

    assert len(mail.letters) == 1


def test_new_subscription_waits_for_confirmation_and_can_be_asked_for_again(
    mail: MailServer, client: Client
) -> None:
    stored = subscribe(client)

    page = client.get(reverse("subscription", args=[stored.pk])).content.decode()
    again = client.post(reverse("send_confirmation", args=[stored.pk]), follow=True).content.decode()

    assert len(mail.letters) == 1
    assert "anna@example.org: waiting for confirmation" in page
    assert "Resend confirmation" in page
    assert "Send test" not in page
    assert re.search(r"Mail not sent: .* within the last hour; try again in \d+ minutes\.", again)
    assert "waiting for confirmation<" in client.get(reverse("subscriptions")).content.decode()


def test_opening_the_link_changes_nothing(mail: MailServer, client: Client) -> None:
    subscribe(client)
    link = read_link(mail)

    for ask in (Client().get, Client().head, Client().get):
        assert ask(link).status_code == 200

    assert EmailAddress.objects.get().confirmed_at is None
    assert not RefusedAddress.objects.exists()


def test_stranger_confirms_with_the_link_and_notices_go_out(mail: MailServer, client: Client) -> None:
    stored = subscribe(client, filter="host:secret-*")
    link = read_link(mail)
    stranger = Client(enforce_csrf_checks=True)

    form = stranger.get(link)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.content.decode())
    assert token is not None
    answer = stranger.post(link, {"choice": "confirm", "csrfmiddlewaretoken": token[1]})

    assert "Send notifications to anna@example.org?" in form.content.decode()
    assert "anna@example.org is confirmed" in answer.content.decode()
    for page in (form, answer):
        assert "secret-" not in page.content.decode()
        assert "no-store" in page["Cache-Control"]
        assert page["X-Robots-Tag"] == "noindex, nofollow"
        assert page["Referrer-Policy"] == "same-origin"
    assert EmailAddress.objects.get().confirmed_at is not None
    assert Client().get(link).status_code == 410
    assert Client().post(link, {"choice": "refuse"}).status_code == 410
    enqueue([make_event(make_incident(host="secret-1")).pk])
    send_due()
    assert len(mail.letters) == 2
    page = client.get(reverse("subscription", args=[stored.pk])).content.decode()
    assert "Address confirmed" in page
    assert "Send test" in page


def test_holder_who_refuses_gets_nothing_again(mail: MailServer, client: Client) -> None:
    stored = subscribe(client)

    answer = Client().post(read_link(mail), {"choice": "refuse"}).content.decode()
    page = client.get(reverse("subscription", args=[stored.pk])).content.decode()
    again = client.post(reverse("add_subscription"), FORM)

    assert "No more mail to anna@example.org" in answer
    assert "anna@example.org: mail refused" in page
    assert "Resend confirmation" not in page
    assert again.status_code == 400
    assert "blocked mail from this server" in again.content.decode()
    assert len(mail.letters) == 1


def test_operator_allows_a_refused_address_again() -> None:
    RefusedAddress.objects.create(address="anna@example.org", refused_at="2026-11-21T12:00Z")

    call_command("allow_email_address", "Anna@example.org")

    assert not RefusedAddress.objects.exists()
    with pytest.raises(CommandError, match="is not blocked"):
        call_command("allow_email_address", "anna@example.org")


@pytest.mark.parametrize("choice", ["", "both"])
def test_post_without_a_choice_asks_again(mail: MailServer, client: Client, choice: str) -> None:
    subscribe(client)
    link = read_link(mail)

    assert "Send notifications to" in Client().post(link, {"choice": choice}).content.decode()
    assert EmailAddress.objects.get().confirmed_at is None


def test_secret_of_a_link_is_masked_in_logs() -> None:
    assert mask_secrets("GET /confirm-address/mistyped/ 410") == "GET /confirm-address/***/ 410"


def test_withheld_notices_are_counted_on_the_page(mail: MailServer, client: Client, anna: User) -> None:
    stored = make_subscription(anna, is_confirmed=False)
    make_old = {"created_at": "2026-11-01T12:00Z", "not_before_at": "2026-11-01T12:00Z"}
    for number in range(3):
        Notice.objects.create(subscription=stored, key=f"old {number}", **make_old)

    send_due()

    page = client.get(reverse("subscription", args=[stored.pk])).content.decode()
    assert "<dt>Not sent (address not confirmed)</dt><dd>3 notices</dd>" in page
    assert page.count("not sent: the address was not confirmed within a day") == 3
    assert "3 not sent (address not confirmed)" in client.get(reverse("subscriptions")).content.decode()


def test_paused_subscription_asks_for_no_confirmation(client: Client, anna: User) -> None:
    stored = make_subscription(anna, is_confirmed=False, is_active=False)

    page = client.post(reverse("send_confirmation", args=[stored.pk]), follow=True).content.decode()

    assert "resume it first" in page
    assert not Notice.objects.exists()


def test_api_shows_the_state_of_an_address_and_limits_with_retry_after(
    mail: MailServer, client: Client
) -> None:
    address = "/api/v1/subscriptions"
    body = {"channel": "email", "address": "anna@example.org"}

    made = client.post(address, body, content_type="application/json").json()

    assert (made["address_state"], made["confirmed_at"], made["withheld"]) == ("unconfirmed", None, 0)
    assert made["confirmation_asked_at"] is not None
    assert len(mail.letters) == 1
    test = client.post(f"{made['url']}/test")
    assert (test.status_code, test.json()["title"]) == (409, "Not confirmed")
    again = client.post(f"{made['url']}/confirmation")
    assert (again.status_code, again.json()["code"]) == (429, "quota-exceeded")
    assert 3500 < int(again["Retry-After"]) <= 3600
    Client().post(read_link(mail), {"choice": "confirm"})
    row = client.get(made["url"]).json()
    assert row["address_state"] == "confirmed"
    assert row["confirmed_at"] is not None
    assert client.post(f"{made['url']}/confirmation").status_code == 409
    assert client.post(f"{made['url']}/test").status_code == 202
    assert client.post(f"{made['url']}/test").status_code == 429
    assert Notice.objects.filter(key__startswith="test ", state=NoticeState.SENT).count() == 1


def test_subscription_made_with_a_token_is_confirmed_too(mail: MailServer, anna: User) -> None:
    token = make_token(Scope.ADMIN, created_by=anna)[1]
    program = Client(headers={"Authorization": f"Bearer {token}"})
    body = {"channel": "email", "address": "anna@example.org"}

    made = program.post("/api/v1/subscriptions", body, content_type="application/json").json()

    assert (made["owner"], made["address_state"]) == ("anna", "unconfirmed")
    assert program.post(f"{made['url']}/test").status_code == 409
    assert program.post(f"{made['url']}/confirmation").status_code == 429
    assert len(mail.letters) == 1


def test_api_refuses_confirmation_mails_in_another_persons_name(client: Client) -> None:
    other = make_subscription(is_confirmed=False)

    assert client.post(f"/api/v1/subscriptions/{other.pk}/confirmation").status_code == 404
    assert ask_confirmation(other) is True
