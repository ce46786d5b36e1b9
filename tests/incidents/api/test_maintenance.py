"""Maintenance windows and expected changes over the API."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import PlannedEvent, PlannedEventKind, Role, Scope
from tests.factories import (
    NOON,
    make_host,
    make_incident,
    make_planned_event,
    make_series,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/planned-events"
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
    monkeypatch.setattr("benchapp.framework.api.list_entries.wake_up", lambda: calls.append("judge"))
    return calls


def send(client: Client, method: str, address: str = ADDRESS, **body: Any) -> Any:
    return getattr(client, method)(address, json.dumps(body), content_type="application/json")


def make_running(**fields: Any) -> PlannedEvent:
    now = timezone.now()
    return make_planned_event(from_at=now - HOUR, to_at=now + HOUR, **fields)


def test_expected_change_of_one_metric_and_direction_mutes_similar_changes(admin: Client) -> None:
    incident = make_incident()
    limits = {"kind": "change", "metric": "iops", "is_regression": True, "incident": incident.pk}

    made = send(admin, "post", **{**BODY, **limits})
    dry = send(admin, "post", **{**BODY, **limits, "dry_run": True})
    refused = send(admin, "post", **{**BODY, "metric": "iops"})
    unknown = send(admin, "post", **{**BODY, **limits, "incident": 999})

    assert (made.status_code, dry.status_code) == (201, 200)
    assert {name: made.json()[name] for name in limits} == limits
    assert (refused.status_code, refused.json()["pointer"]) == (400, "/metric")
    assert unknown.status_code == 400
    assert PlannedEvent.objects.count() == 1


def test_maintenance_is_scheduled_with_a_token_and_read(hints: list[str]) -> None:
    token, plaintext = make_token(Scope.ADMIN, created_by=make_user(Role.ADMIN, username="anna"))
    program = Client(headers={"Authorization": f"Bearer {plaintext}"})
    make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)

    response = send(program, "post", **BODY)

    made = response.json()
    assert response.status_code == 201
    assert response["Location"] == made["url"] == f"{ADDRESS}/{PlannedEvent.objects.get().pk}"
    assert (made["from_at"], made["ends_at"]) == ("2026-11-21T12:00:00Z", "2026-11-21T16:00:00Z")
    assert made["impact"] == {
        "series": 1,
        "hosts": 1,
        "host_names": ["db-7"],
        "runs": 2,
        "has_more_runs": False,
        "open_incidents": [],
    }
    (entry,) = made["activity"]
    assert (entry["action"], entry["by"], entry["via"]) == ("scheduled", "anna", f"bench_{token.public_id}")
    assert program.get(made["url"]).json() == made
    assert hints == ["judge"]


def test_dry_run_returns_the_impact_and_saves_nothing(admin: Client, hints: list[str]) -> None:
    make_series([1.0], host=make_host("db-7"), start_at=NOON)

    response = send(admin, "post", **BODY, dry_run=True)

    assert (response.status_code, response.json()["series"], response.json()["runs"]) == (200, 1, 1)
    assert (PlannedEvent.objects.count(), hints) == (0, [])
    assert send(admin, "post", **{**BODY, "filter": "x:y"}, dry_run=True).status_code == 400
    unknown = send(admin, "post", **BODY, incident=999, dry_run=True)
    assert unknown.status_code == 400
    assert "incident 999 does not exist" in unknown.content.decode()


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
def test_invalid_value_is_rejected_with_its_field(
    admin: Client, changes: dict[str, Any], pointer: str
) -> None:
    response = send(admin, "post", **{**BODY, **changes})

    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["pointer"] == pointer
    assert not PlannedEvent.objects.exists()


def test_list_is_filtered_by_state_and_kind_and_paginated(reader: Client) -> None:
    now = timezone.now()
    running = make_running()
    upcoming = make_planned_event(from_at=now + HOUR, to_at=now + 2 * HOUR, kind=PlannedEventKind.CHANGE)
    past = make_planned_event(from_at=now - 9 * HOUR, to_at=now + HOUR, ended_at=now - 8 * HOUR)
    canceled = make_running(canceled_at=now)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in reader.get(f"{ADDRESS}{query}").json()["planned_events"]]

    assert ids("?state=active") == [running.pk]
    assert ids("?state=upcoming") == [upcoming.pk]
    assert ids("?state=past") == [past.pk]
    assert ids("?state=canceled") == [canceled.pk]
    assert ids("?kind=change") == [upcoming.pk]
    first = reader.get(f"{ADDRESS}?limit=3").json()
    assert [row["id"] for row in first["planned_events"]] == [upcoming.pk, canceled.pk, running.pk]
    assert [row["id"] for row in reader.get(first["next"]).json()["planned_events"]] == [past.pk]
    assert reader.get(f"{ADDRESS}?state=late").status_code == 400


def test_event_is_ended_early_and_canceled_and_both_are_undone(admin: Client) -> None:
    address = f"{ADDRESS}/{make_running().pk}"

    ended = send(admin, "patch", address, is_ended=True).json()
    assert (ended["state"], ended["ends_at"]) == ("past", ended["ended_at"])
    assert send(admin, "patch", address, is_ended=False).json()["state"] == "active"
    assert admin.delete(address).status_code == 204
    assert admin.get(address).json()["state"] == "canceled"
    restored = send(admin, "patch", address, is_canceled=False).json()
    assert restored["state"] == "active"
    assert [entry["action"] for entry in restored["activity"]] == [
        "ended",
        "resumed",
        "canceled",
        "restored",
    ]


def test_action_that_the_state_does_not_allow_is_rejected(admin: Client) -> None:
    upcoming = make_planned_event(from_at=timezone.now() + HOUR, to_at=timezone.now() + 2 * HOUR)
    address = f"{ADDRESS}/{upcoming.pk}"

    refused = send(admin, "patch", address, is_ended=True)
    assert (refused.status_code, refused.json()["code"]) == (409, "state-differs")
    assert "cancel it instead" in refused.json()["detail"]
    assert send(admin, "patch", address).status_code == 400
    assert send(admin, "patch", address, is_ended=True, is_canceled=True).status_code == 400
    for method in ("get", "delete"):
        assert getattr(admin, method)(f"{ADDRESS}/999999").json()["code"] == "not-found"
