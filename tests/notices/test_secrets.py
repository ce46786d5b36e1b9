"""No page, answer, file, notice or audit record has a secret of a subscription, or an address of another person."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from django.test import Client

from benchapp.models import AuditRecord, Channel, Notice, Role, Scope, Subscription, User
from benchapp.operation.configuration.document import BadConfiguration
from benchapp.operation.configuration.plan import apply_configuration, describe_step, export_configuration
from tests.access_table import TABLE
from tests.factories import make_token, make_user
from tests.received_notices import make_subscription
from tests.test_access import make_parts
from tests.visitors import sign_in_person

pytestmark = pytest.mark.django_db

READ = [route for route, rows in TABLE.items() if "GET" in {row.method for row in rows}]
ADDRESSES = {
    Channel.EMAIL: "planted-mail@example.org",
    Channel.SLACK: "https://hooks.example.org/planted-path",
    Channel.WEBHOOK: "https://hooks.example.org/planted-hook",
    Channel.APPRISE: "pover://planted-user@planted-token",
}
PLANTED = re.compile(r"planted-\w+|whsec_[\w+/]+")
# Where the owner reads the whole address.
WITH_ADDRESS = {
    "api/v1/subscriptions",
    "api/v1/subscriptions/<int:subscription_id>",
    "subscriptions/<int:subscription_id>/edit",
}


@pytest.fixture
def owner() -> User:
    return make_user(username="ben")


@pytest.fixture(autouse=True)
def without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pages", "api"):
        monkeypatch.setattr(f"benchapp.notices.{module}.wake_notify", lambda: True)


def plant(owner: User) -> list[Subscription]:
    """Make a subscription of each channel."""
    return [
        make_subscription(
            owner, channel=channel, address=address, paused_reason="20 failures", is_active=False
        )
        for channel, address in ADDRESSES.items()
    ]


def find_planted(client: Client, parts: dict[str, Any], routes: Iterable[str]) -> set[tuple[str, str]]:
    """Return the routes whose answers have something planted, and what; of lists also as files and of all people."""
    found = set()
    for route in routes:
        address = "/" + re.sub(r"<\w+:(\w+)>", lambda match: str(parts[match[1]]), route)
        for query in ("", "?all=1") if "subscription" in route else ("",):
            response = client.get(address + query)
            body = response.getvalue() if response.streaming else response.content
            text = f"{response.headers} {body.decode(errors='replace')}"
            found |= {(route, each) for each in PLANTED.findall(text)}
    return found


def test_only_the_owner_reads_an_address_and_nobody_a_secret(owner: User) -> None:
    parts, subscriptions, admin = make_parts(), plant(owner), make_user(Role.ADMIN)
    token = Client(headers={"Authorization": f"Bearer {make_token(Scope.ADMIN, created_by=admin)[1]}"})
    readers = {
        "owner": sign_in_person(owner),
        "viewer": sign_in_person(make_user()),
        "admin": sign_in_person(admin),
        "token": token,
    }
    own = [route for route in READ if "subscription" in route]
    others = [route for route in READ if route not in own and "image" not in route]

    found = {
        reader: {
            pair
            for subscription in subscriptions
            for pair in find_planted(client, {**parts, "subscription_id": subscription.pk}, own)
        }
        for reader, client in readers.items()
    }
    elsewhere = find_planted(readers["admin"], parts, others)

    texts = {"planted-mail", "planted-path", "planted-hook", "planted-user", "planted-token"}
    assert {text for _, text in found["owner"]} == texts
    assert {route for route, text in found["owner"] if text != "planted-mail"} == WITH_ADDRESS
    assert {text for reader in ("admin", "token") for _, text in found[reader]} == {"planted-mail"}
    assert found["viewer"] == set()
    assert {text for _, text in elsewhere} <= {"planted-mail"}


def test_secret_is_in_no_file_notice_or_audit_record_whatever_its_owner_does(owner: User) -> None:
    client = sign_in_person(owner)
    form = {"minimum_severity": "low", "further_runs": "3", "digest_hour": "7"}
    for channel, address in ADDRESSES.items():
        body = json.dumps({"channel": channel, "address": address})
        made = client.post("/api/v1/subscriptions", body, content_type="application/json").json()
        page = f"/subscriptions/{made['id']}"
        client.post(f"{page}/edit", {**form, "address": f"{address}-2"})
        for action, values in (("secret", {}), ("test", {}), ("active", {}), ("active", {"active": "yes"})):
            client.post(f"{page}/{action}", values)
    exported = export_configuration()
    with pytest.raises(BadConfiguration) as refused:
        apply_configuration(
            exported.replace("filter: ''", "filter: 'flavor:x'"), prune=True, dry_run=True, author=None
        )
    steps = apply_configuration("version: 1\nsubscriptions: []\n", prune=True, dry_run=False, author=None)
    audited = list(AuditRecord.objects.values("object_name", "before", "after"))

    texts = {
        "file": exported,
        "faults": " ".join(map(str, refused.value.faults)),
        "plan": str([line for step in steps for line in describe_step(step)]),
        "notices": str(list(Notice.objects.values())),
        "audit": json.dumps(audited),
    }

    assert len(audited) > 4 * len(ADDRESSES)
    assert not Subscription.objects.exists()
    for text in texts.values():
        assert set(PLANTED.findall(text)) <= {"planted-mail"}
