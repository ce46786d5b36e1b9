"""Settings of notices: read strictly, and a dangerous mix is said."""

from ipaddress import ip_network
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from structlog.testing import capture_logs

from benchapp.framework.env import EmailServer, read_email_server, read_ports
from benchapp.operation.checks import check_email, check_proxies, check_webhooks, log_warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "smtps://bench:p%40ss@mail.example.org",
            EmailServer("mail.example.org", 465, "bench", "p@ss", "tls"),
        ),
        ("smtp+starttls://mail.example.org", EmailServer("mail.example.org", 587, "", "", "starttls")),
        ("smtp://127.0.0.1:1025/", EmailServer("127.0.0.1", 1025, "", "", "none")),
    ],
)
def test_mail_server_is_read(monkeypatch: pytest.MonkeyPatch, text: str, expected: EmailServer) -> None:
    monkeypatch.setenv("BENCHAPP_EMAIL_URL", text)

    assert read_email_server("BENCHAPP_EMAIL_URL") == expected


def test_no_mail_server_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHAPP_EMAIL_URL", " ")

    assert read_email_server("BENCHAPP_EMAIL_URL") is None


@pytest.mark.parametrize(
    "text",
    [
        "mail.example.org",
        "https://mail.example.org",
        "smtp://",
        "smtp://h:x/",
        "smtp://u:p/w@host",
        "smtp://h?a=b",
    ],
)
def test_mail_server_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BENCHAPP_EMAIL_URL", text)

    with pytest.raises(ImproperlyConfigured, match="BENCHAPP_EMAIL_URL") as error:
        read_email_server("BENCHAPP_EMAIL_URL")

    assert "p/w" not in str(error.value)


@pytest.mark.parametrize(("text", "expected"), [("", (80, 443)), ("8065, 443", (8065, 443))])
def test_ports_are_read(monkeypatch: pytest.MonkeyPatch, text: str, expected: tuple[int, ...]) -> None:
    monkeypatch.setenv("BENCHAPP_WEBHOOK_PORTS", text)

    assert read_ports("BENCHAPP_WEBHOOK_PORTS", default=(80, 443)) == expected


@pytest.mark.parametrize("text", ["0", "65536", "http", "-1", "4 43", "٣"])
def test_what_is_no_port_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BENCHAPP_WEBHOOK_PORTS", text)

    with pytest.raises(ImproperlyConfigured, match="BENCHAPP_WEBHOOK_PORTS"):
        read_ports("BENCHAPP_WEBHOOK_PORTS", default=())


@pytest.mark.parametrize(
    ("server", "public_url", "expected"),
    [
        (None, "", []),
        (EmailServer("mail", 25, "u", "p", "none"), "https://b", ["benchapp.E003"]),
        (EmailServer("127.0.0.1", 25, "u", "p", "none"), "https://b", []),
        (EmailServer("mail", 587, "u", "p", "starttls"), "https://b", []),
        (EmailServer("mail", 25, "", "", "none"), "", ["benchapp.W002"]),
    ],
)
def test_password_in_clear_and_missing_links_are_said(
    settings: Any, server: EmailServer | None, public_url: str, expected: list[str]
) -> None:
    settings.EMAIL_SERVER, settings.PUBLIC_URL = server, public_url

    assert [message.id for message in check_email(None)] == expected


@pytest.mark.parametrize(
    ("public_url", "proxies", "expected"),
    [
        ("https://bench.example.org", [], ["benchapp.W004"]),
        ("https://bench.example.org", [ip_network("10.0.0.1")], []),
        ("http://127.0.0.1:8000", [], []),
        ("", [], []),
    ],
)
def test_https_without_a_trusted_proxy_is_warned_of_and_logged(
    settings: Any, public_url: str, proxies: list[Any], expected: list[str]
) -> None:
    settings.PUBLIC_URL, settings.TRUSTED_PROXIES = public_url, proxies

    with capture_logs() as lines:
        log_warnings()

    assert [message.id for message in check_proxies(None)] == expected
    assert [line["id"] for line in lines if line["id"] == "benchapp.W004"] == expected


@pytest.mark.parametrize(
    ("network", "is_said"),
    [
        ("0.0.0.0/0", True),
        ("::/0", True),
        ("127.0.0.1", True),
        ("169.254.169.254", True),
        ("10.7.0.0/16", False),
    ],
)
def test_networks_that_reach_too_far_are_said(settings: Any, network: str, is_said: bool) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = [ip_network(network)]

    assert bool(check_webhooks(None)) is is_said
