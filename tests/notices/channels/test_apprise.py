"""Notices to services by Apprise: which URLs are allowed, and where they lead."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Channel
from benchapp.models.subscription import hide_secret
from benchapp.notices.channels.apprise import transport
from benchapp.notices.channels.apprise.transport import check_service_url, send_to_service
from benchapp.notices.channels.transport import AddressRefused, NotDelivered, get_transport, make_test_message
from benchapp.notices.write.subscriptions import create_subscription
from benchapp.operation.configuration.sections import make_reference
from tests.factories import NOON, make_user
from tests.hook_server import serve_hook
from tests.received_notices import make_subscription

KEY = "a0b1c2d3e4f5a6b7c8d9e0f1a2b3"
# URL → the one host that gets the notice.
LEADS_TO = {
    "ntfy://bench-alerts": "ntfy.sh",
    f"pagerduty://{KEY}@{KEY}?region=eu": "events.eu.pagerduty.com",
    "opsgenie://a0b1c2d3-1234-4abc-9def-000000000000": "api.opsgenie.com",
    f"discord://4174216298/{KEY}": "discord.com",
    "tgram://123456789:abcdefg_hijklmnop/12315544": "api.telegram.org",
    f"pover://{KEY}aa@{KEY}bb": "api.pushover.net",
    f"workflows://prod-15.uksouth.logic.azure.com:443/{KEY}/{KEY}": "prod-15.uksouth.logic.azure.com",
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Collect the requests of Apprise, each answered with 200."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def answer(session: requests.Session, method: str, url: str, **options: Any) -> requests.Response:
        calls.append((url, options))
        response = requests.Response()
        response.status_code, response._content = 200, b'{"status": 1, "ok": true, "requestId": "x"}'
        return response

    monkeypatch.setattr(requests.Session, "request", answer)
    return calls


@pytest.mark.parametrize("address", LEADS_TO)
def test_service_gets_the_notice_at_its_host_without_redirects(
    address: str, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    send_to_service(address, title="4 regressions", text="db-1: IOPS −20 %")

    assert {urlsplit(url).hostname for url, _ in sent} == {LEADS_TO[address]}
    assert {urlsplit(url).scheme for url, _ in sent} == {"https"}
    for _, options in sent:
        assert (options["allow_redirects"], options["verify"], options["timeout"]) == (
            False,
            True,
            (4.0, 4.0),
        )


@pytest.mark.parametrize(
    "address",
    [
        "json://127.0.0.1/x",
        "https://discord.com/api/webhooks/1/2",
        "file:///etc/passwd",
        "ntfy://10.0.0.1/topic",
        "ntfys://ntfy.example/topic",
        "ntfy://topic?mode=private",
        "ntfy://topic?attach=http://169.254.169.254/",
        f"workflows://evil.example:443/{KEY}/{KEY}",
        f"workflows://logic.azure.com.evil.example:443/{KEY}/{KEY}",
        f"workflows://x.logic.azure.com:443/{KEY}/{KEY}?template=/etc/passwd",
        f"discord://1/{KEY}?avatar_url=http://10.0.0.1/",
        f"discord://1/{KEY}?priority=x;template=/etc/secret.json;verify=no",
        f"discord://1/{KEY}?priority=x%3Btemplate=http://127.0.0.1/",
        "pagerduty://",
        "ntfy://a b",
        "ntfy://" + "x" * 500,
        "ntfy://[::1/topic",
    ],
)
def test_other_services_hosts_and_parameters_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        check_service_url(address)


@pytest.mark.parametrize("address", ["ntfy://10.0.0.1\\@ntfy.sh", "ntfy://ntfy.example\\@10.0.0.1/topic"])
def test_url_that_apprise_reads_in_another_way_is_not_used(
    address: str, sent: list[tuple[str, dict[str, Any]]], settings: Any
) -> None:
    settings.APPRISE_HOSTS = ["ntfy.example"]

    with pytest.raises(NotDelivered):
        send_to_service(address, title="x", text="x")

    assert sent == []


def test_operator_allows_a_server_whose_answer_is_the_outcome(db: None, settings: Any) -> None:
    settings.APPRISE_HOSTS = ["127.0.0.1"]
    message = make_test_message("everything", base_url="https://bench.example")
    with serve_hook() as hook:
        subscription = make_subscription(
            channel=Channel.APPRISE, address=f"ntfy://127.0.0.1:{hook.port}/bench"
        )
        hook.status = 200
        channel = get_transport(subscription.channel)
        outcome = channel.send(subscription, [message], message_id="m-1", at=NOON)
        hook.status, hook.headers = 302, {"Location": hook.url}
        with pytest.raises(NotDelivered, match="did not accept"):
            channel.send(subscription, [message], message_id="m-1", at=NOON)

    assert outcome == "delivered: ntfy"
    assert len(hook.requests) == 2
    body = json.loads(hook.requests[0].body)
    assert (body["topic"], message.subject in body["title"]) == ("bench", True)


def test_address_is_checked_when_it_is_saved_without_loading_apprise(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_make_service", lambda address: pytest.fail("loaded"))
    owner = make_user()

    made = create_subscription(owner, {"channel": "apprise", "address": "ntfy://bench-alerts"})
    with pytest.raises(BadValue, match="BENCHAPP_APPRISE_HOSTS") as refused:
        create_subscription(owner, {"channel": "apprise", "address": "ntfy://10.0.0.1/x"})

    assert (made.secret, refused.value.field) == ("", "address")


@pytest.mark.parametrize("address", LEADS_TO)
def test_no_part_of_a_service_url_but_its_scheme_is_shown_or_exported(address: str) -> None:
    scheme = address.partition(":")[0]

    assert hide_secret(Channel.APPRISE, address) == f"{scheme}://…"
    assert make_reference(Channel.APPRISE, address).startswith(f"${{APPRISE_{scheme.upper()}_")


def test_url_in_which_apprise_finds_further_parameters_is_not_used(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(transport, "check_service_url", lambda text: None)

    with pytest.raises(NotDelivered, match="further parameters"):
        send_to_service(f"discord://1/{KEY}?priority=x;template=/etc/secret.json", title="x", text="x")

    assert sent == []


def test_what_is_resolved_pages_nobody(sent: list[tuple[str, dict[str, Any]]]) -> None:
    paging, chat = (address for address in LEADS_TO if address.startswith(("pagerduty", "discord")))

    outcomes = [
        send_to_service(address, title="resolved", text="x", is_problem=False) for address in (paging, chat)
    ]

    assert outcomes == ["not sent: what is resolved pages nobody", "delivered: Discord"]
    assert [urlsplit(url).hostname for url, _ in sent] == ["discord.com"]


def test_key_of_another_form_is_reported_in_the_delivery_log() -> None:
    with pytest.raises(NotDelivered, match="does not accept this URL"):
        send_to_service("opsgenie://x?region=mars", title="x", text="x")
