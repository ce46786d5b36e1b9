"""Subscriptions over the API: a person's own."""

import json
from typing import Any

import pytest
from django.test import Client

from benchapp.layouts.texts import NotAnswerable, find_layout_answer
from benchapp.models import Channel, Notice, Role, Scope, Subscription, User
from benchapp.notices.write.layout_answers import notify_layout_answers
from tests.factories import NOON, add_series, make_host, make_token, make_user
from tests.planted_layouts import plant_layouts
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/subscriptions"


@pytest.fixture
def anna() -> User:
    return make_user(username="anna")


@pytest.fixture
def client(anna: User, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr("benchapp.notices.api.wake_notify", lambda: True)
    client = Client()
    client.force_login(anna)
    return client


def post(client: Client, **body: Any) -> Any:
    return client.post(ADDRESS, json.dumps(body), content_type="application/json")


def test_webhook_is_made_and_its_secret_shown_once(client: Client) -> None:
    response = post(client, channel="webhook", address="https://hooks.example.org/x", filter="host:db-*")

    made = response.json()
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    assert made["secret"] == Subscription.objects.get().secret
    assert made["secret"].startswith("whsec_")
    (told,) = client.get(ADDRESS).json()["subscriptions"]
    assert "secret" not in told
    assert (told["owner"], told["address"], told["url"]) == (
        "anna",
        "https://hooks.example.org/x",
        made["url"],
    )


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"address": "http://x.example.org:9200/"}, "/address"),
        ({"address": "https://[::1]/"}, "/address"),
        ({"filter": "flavour:sweet"}, "/filter"),
        ({"quiet_from_hour": 3}, "/quiet_to_hour"),
        ({"digest_hour": 24}, "/digest_hour"),
        ({"metrics": ["latency_p95_ns"]}, "/metrics/0"),
        ({"thresholds": ["p99 < 5"]}, "/thresholds"),
        ({"layout_question": "pattern=randread"}, "/layout_question"),
        ({"thresholds": ["iops > 1"] * 11}, "/thresholds"),
        ({"owner": "ben"}, "/owner"),
        ({"secret": "whsec_mine"}, "/secret"),
        ({"is_active": False}, "/is_active"),
    ],
)
def test_what_cannot_be_is_named(client: Client, changes: dict[str, Any], pointer: str) -> None:
    response = post(client, **{"channel": "slack", "address": "https://x.example.org/", **changes})

    assert response.status_code == 400
    assert pointer in json.dumps(response.json())
    assert not Subscription.objects.exists()


def test_test_is_accepted_and_waits_in_the_outbox(client: Client, anna: User) -> None:
    stored = make_subscription(anna)

    assert client.post(f"{ADDRESS}/{stored.pk}/test").status_code == 202
    assert Notice.objects.get().key.startswith("test ")


def test_paused_one_is_not_tested(client: Client, anna: User) -> None:
    stored = make_subscription(anna, is_active=False)

    assert client.post(f"{ADDRESS}/{stored.pk}/test").status_code == 409


def test_own_is_removed_and_anothers_is_not_there(client: Client, anna: User) -> None:
    own, other = make_subscription(anna), make_subscription()

    assert client.delete(f"{ADDRESS}/{own.pk}").status_code == 204
    assert client.delete(f"{ADDRESS}/{other.pk}").status_code == 404
    assert list(Subscription.objects.all()) == [other]


def test_token_acts_for_the_person_who_made_it(anna: User) -> None:
    make_subscription()
    own = make_subscription(anna, channel=Channel.SLACK)
    _, secret = make_token(Scope.ADMIN, created_by=anna)

    answer = Client(headers={"Authorization": f"Bearer {secret}"}).get(ADDRESS).json()

    assert [each["id"] for each in answer["subscriptions"]] == [own.pk]


def test_admin_sees_anothers_without_its_secret_path() -> None:
    other = make_subscription(channel=Channel.SLACK, address="https://hooks.example.org/T0/SECRET")
    admin = Client()
    admin.force_login(make_user(Role.ADMIN))

    assert admin.get(f"{ADDRESS}/{other.pk}").json()["address"] == "https://hooks.example.org/…"


def test_thresholds_are_answered_with_their_values_and_violations(client: Client) -> None:
    violating = add_series([9e6] * 3, metric="latency_p99_ns", host=make_host("db-1"))
    post(
        client,
        channel="slack",
        address="https://hooks.example.org/x",
        metrics=["iops"],
        thresholds=["p99 5ms", "bw >= 200 MB/s"],
    )

    (listed,) = client.get(ADDRESS).json()["subscriptions"]
    read = client.get(listed["url"]).json()

    assert listed["metrics"] == ["iops"]
    assert listed["thresholds"] == [
        {
            "text": "p99 latency < 5 ms",
            "metric": "latency_p99_ns",
            "comparison": "<",
            "value": 5e6,
            "violations": 1,
        },
        {
            "text": "bandwidth >= 200 MB/s",
            "metric": "bandwidth_bytes_per_s",
            "comparison": ">=",
            "value": 2e8,
            "violations": 0,
        },
    ]
    (violation,) = read["violations"]
    assert (violation["series"], violation["value"], violation["is_notified"]) == (violating.pk, 9e6, False)
    assert violation["since_at"] == NOON.isoformat().replace("+00:00", "Z")


def test_layout_question_is_answered_with_its_remembered_answer(client: Client) -> None:
    plant_layouts()
    made = post(
        client,
        channel="slack",
        address="https://hooks.example.org/x",
        notify_incidents=False,
        layout_question="p99_ms=3.0&iops=20000",
    ).json()
    before = client.get(made["url"]).json()
    notify_layout_answers(find_layout_answer, refusal=NotAnswerable)

    answer = client.get(made["url"]).json()["layout_answer"]

    assert (made["layout_question"], made["notify_incidents"]) == ("iops=20000&p99_ms=3", False)
    assert before["layout_answer"] is None
    assert "meets the requirement for USD 581 per month" in answer["sentence"]
    assert (answer["best"]["verdict"], answer["best"]["runs"], answer["changed_at"]) == ("meets", 3, None)
    assert "of 20\u202f000 IOPS" in answer["lacks"]
