"""E-mail over a real SMTP conversation on loopback."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from benchapp.framework.env import EmailServer
from benchapp.notices.channels.email.transport import (
    NotificationEmail,
    make_message,
    read_email_address,
    send_email,
)
from benchapp.notices.channels.transport import AddressRefused, NotDelivered
from tests.mail_server import MailServer, serve_mail

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with serve_mail() as server:
        yield server


def make_letter(**changes: Any) -> NotificationEmail:
    values = {
        "sender": "benchapp <bench@example.org>",
        "to": "anna@example.org",
        "subject": "Regression",
        "text": "p99 µs → ms\n.\n",
        "html": "<p>p99</p>",
        "message_id": "msg_1@bench.example.org",
        "thread_id": "incident-12@bench.example.org",
        "sent_at": NOON,
        **changes,
    }
    return NotificationEmail(**values)


def make_server(port: int, **changes: Any) -> EmailServer:
    values = {"user": "", "password": "", "security": "none", **changes}
    return EmailServer(host="127.0.0.1", port=port, **values)


def test_email_has_text_html_and_stable_id(mail: MailServer) -> None:
    assert send_email(make_letter(), make_server(mail.port)) == "delivered: accepted by the mail server"

    (letter,) = mail.letters
    assert (letter.sender, letter.recipients) == ("bench@example.org", ["anna@example.org"])
    assert letter.part("plain") == "p99 µs → ms\r\n.\r\n"
    assert letter.part("html").strip() == "<p>p99</p>"
    assert letter.message["Message-ID"] == "<msg_1@bench.example.org>"
    assert letter.message["References"] == "<incident-12@bench.example.org>"
    assert letter.message["Auto-Submitted"] == "auto-generated"


def test_subject_cannot_add_a_header(mail: MailServer) -> None:
    send_email(make_letter(subject="a\r\nBcc: eve@example.org\n\nbody"), make_server(mail.port))

    (letter,) = mail.letters
    assert letter.message["Subject"] == "a Bcc: eve@example.org body"
    assert letter.message["Bcc"] is None
    assert letter.recipients == ["anna@example.org"]


@pytest.mark.parametrize(
    "address",
    [
        "anna@example.org\r\nBcc: eve@example.org",
        "anna@example.org, eve@example.org",
        "anna@example.org;eve@example.org",
        "Anna <anna@example.org>",
        "anna",
        "@example.org",
        "anna@",
        "anna@localhost",
        "",
        "anna@@example.org",
        "a" * 250 + "@example.org",
        'anna"@example.org',
        "änna@example.org",
    ],
)
def test_what_is_not_one_bare_address_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        read_email_address(address)


@pytest.mark.parametrize(
    "address", ["anna@example.org", "a.b+bench@sub.example.co.uk", "x_y@xn--exmple-cua.org"]
)
def test_usual_addresses_are_accepted(address: str) -> None:
    assert read_email_address(f" {address} ") == address


def test_line_break_in_the_address_never_reaches_a_header() -> None:
    with pytest.raises(AddressRefused):
        make_message(make_letter(to="a@example.org\nBcc: eve@example.org"))


@pytest.mark.parametrize(
    ("verb", "answer", "words"),
    [
        ("RCPT", "550 no such mailbox", "refused the address: 550 no such mailbox"),
        ("MAIL", "451 come back later", "answered 451: come back later"),
        ("DATA", "552 too much", "answered 552: too much"),
    ],
)
def test_rejection_is_reported_with_the_answer(mail: MailServer, verb: str, answer: str, words: str) -> None:
    mail.answers[verb] = answer

    with pytest.raises(NotDelivered, match=words):
        send_email(make_letter(), make_server(mail.port))


@pytest.mark.parametrize("answer", ["", "500 what"])
def test_trouble_with_the_goodbye_is_no_failure(mail: MailServer, answer: str) -> None:
    """The letter was taken: were this a failure, it would be sent again."""
    if answer:
        mail.answers["QUIT"] = answer
    else:
        mail.drops_after = "QUIT"

    assert send_email(make_letter(), make_server(mail.port)).startswith("delivered")


def test_password_does_not_go_over_a_server_that_cannot_encrypt(mail: MailServer) -> None:
    with pytest.raises(NotDelivered, match="STARTTLS"):
        send_email(make_letter(), make_server(mail.port, user="u", password="secret", security="starttls"))

    assert not [command for command in mail.commands if command.startswith("AUTH")]


def test_unavailable_server_is_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(NotDelivered, match="no e-mail sent"):
        send_email(make_letter(), make_server(port))
