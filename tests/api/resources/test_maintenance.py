"""Maintenance windows and expected changes over the API."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Expectation, ExpectationEvent, ExpectationKind, Role, Scope
from tests.factories import NOON, make_expectation, make_host, make_series, make_token, make_user

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/expectations"
BODY = {
    "kind": "maintenance",
    "filter": "host:db-7",
    "from_at": "2026-11-21T12:00:00Z",
    "to_at": "2026-11-21T17:00:00+01:00",
    "reason": "new disks",
}
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the hints instead of asking a broker."""
    calls: list[str] = []
    monkeypatch.setattr("benchapp.api.resources.maintenance.wake_up", lambda: calls.append("judge"))
    return calls


def send(client: Client, method: str, address: str = ADDRESS, **body: Any) -> Any:
    return getattr(client, method)(address, json.dumps(body), content_type="application/json")


def make_running(**fields: Any) -> Expectation:
    now = timezone.now()
    return make_expectation(from_at=now - HOUR, to_at=now + HOUR, **fields)


def test_maintenance_is_said_by_a_program_and_read_back(hints: list[str]) -> None:
    token, plaintext = make_token(Scope.ADMIN, created_by=make_user(Role.ADMIN, username="anna"))
    program = Client(headers={"Authorization": f"Bearer {plaintext}"})
    make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)

    response = send(program, "post", **BODY)

    made = response.json()
    assert response.status_code == 201
    assert response["Location"] == made["url"] == f"{ADDRESS}/{Expectation.objects.get().pk}"
    assert (made["from_at"], made["over_at"]) == ("2026-11-21T12:00:00Z", "2026-11-21T16:00:00Z")
    assert made["reach"] == {
        "series": 1,
        "hosts": 1,
        "host_names": ["db-7"],
        "runs": 2,
        "has_more_runs": False,
        "open_incidents": [],
    }
    (event,) = made["events"]
    assert (event["act"], event["by"], event["via"]) == ("said", "anna", f"bench_{token.public_id}")
    assert program.get(made["url"]).json() == made
    assert hints == ["judge"]


def test_dry_run_tells_what_it_would_reach_and_keeps_nothing(admin: Client, hints: list[str]) -> None:
    make_series([1.0], host=make_host("db-7"), start_at=NOON)

    response = send(admin, "post", **BODY, dry_run=True)

    assert (response.status_code, response.json()["series"], response.json()["runs"]) == (200, 1, 1)
    assert (Expectation.objects.count(), hints) == (0, [])
    assert send(admin, "post", **{**BODY, "filter": "x:y"}, dry_run=True).status_code == 400


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"kind": "party"}, "/kind"),
        ({"filter": "flavour:sweet"}, "/filter"),
        ({"to_at": "2026-11-21T12:00:00Z"}, "/to_at"),
        ({"from_at": "yesterday"}, "/from_at"),
        ({"reason": ""}, "/reason"),
        ({"reason": "x" * 501}, "/reason"),
        ({"created_by": "ben"}, "/created_by"),
    ],
)
def test_what_cannot_be_is_named(admin: Client, changes: dict[str, Any], pointer: str) -> None:
    response = send(admin, "post", **{**BODY, **changes})

    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["pointer"] == pointer
    assert not Expectation.objects.exists()


def test_list_is_chosen_by_state_and_kind_and_comes_in_pages(reader: Client) -> None:
    now = timezone.now()
    running = make_running()
    coming = make_expectation(from_at=now + HOUR, to_at=now + 2 * HOUR, kind=ExpectationKind.CHANGE)
    past = make_expectation(from_at=now - 9 * HOUR, to_at=now + HOUR, ended_at=now - 8 * HOUR)
    taken_back = make_running(taken_back_at=now)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in reader.get(f"{ADDRESS}{query}").json()["expectations"]]

    assert ids("?state=running") == [running.pk]
    assert ids("?state=coming") == [coming.pk]
    assert ids("?state=past") == [past.pk]
    assert ids("?state=taken_back") == [taken_back.pk]
    assert ids("?kind=change") == [coming.pk]
    first = reader.get(f"{ADDRESS}?limit=3").json()
    assert [row["id"] for row in first["expectations"]] == [coming.pk, taken_back.pk, running.pk]
    assert [row["id"] for row in reader.get(first["next"]).json()["expectations"]] == [past.pk]
    assert reader.get(f"{ADDRESS}?state=late").status_code == 400


def test_one_is_ended_early_taken_back_and_both_are_undone(admin: Client) -> None:
    address = f"{ADDRESS}/{make_running().pk}"

    ended = send(admin, "patch", address, is_ended=True).json()
    assert (ended["state"], ended["over_at"]) == ("past", ended["ended_at"])
    assert send(admin, "patch", address, is_ended=False).json()["state"] == "running"
    assert admin.delete(address).status_code == 204
    assert admin.get(address).json()["state"] == "taken_back"
    put_back = send(admin, "patch", address, is_taken_back=False).json()
    assert put_back["state"] == "running"
    assert [event["act"] for event in put_back["events"]] == ["ended", "resumed", "taken_back", "put_back"]


def test_what_cannot_be_done_is_told_with_the_state(admin: Client) -> None:
    coming = make_expectation(from_at=timezone.now() + HOUR, to_at=timezone.now() + 2 * HOUR)
    address = f"{ADDRESS}/{coming.pk}"

    refused = send(admin, "patch", address, is_ended=True)
    assert (refused.status_code, refused.json()["code"]) == (409, "state-differs")
    assert "take it back instead" in refused.json()["detail"]
    assert send(admin, "patch", address).status_code == 400
    assert send(admin, "patch", address, is_ended=True, is_taken_back=True).status_code == 400
    for method in ("get", "delete"):
        assert getattr(admin, method)(f"{ADDRESS}/999999").json()["code"] == "not-found"


@pytest.mark.parametrize("scope", [Scope.READ, Scope.INGEST, Scope.ENROLL])
def test_tokens_that_may_not_edit_change_nothing(client_of: Callable[..., Client], scope: Scope) -> None:
    client, held = client_of(scope), make_running()

    assert send(client, "post", **BODY).status_code == 403
    assert send(client, "patch", f"{ADDRESS}/{held.pk}", is_ended=True).status_code == 403
    assert client.delete(f"{ADDRESS}/{held.pk}").status_code == 403
    assert not ExpectationEvent.objects.exists()


def test_editors_edit_and_viewers_read(person: Callable[[Role], Client]) -> None:
    held = make_running()
    viewer = person(Role.VIEWER)

    assert viewer.get(f"{ADDRESS}/{held.pk}").status_code == 200
    assert viewer.delete(f"{ADDRESS}/{held.pk}").status_code == 403
    assert person(Role.EDITOR).delete(f"{ADDRESS}/{held.pk}").status_code == 204
