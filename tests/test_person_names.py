"""Strangers read no user names: with public read, in shared studies, by signed links and with the token of a host."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.test import Client, override_settings

from benchapp.incidents.actions.triage import assign, comment
from benchapp.incidents.actions.undo import undo
from benchapp.models import (
    AuditKind,
    AuditRecord,
    DetectionPolicyLogEntry,
    PlannedEventLogEntry,
    Role,
    Run,
    SavedView,
    Scope,
    User,
    WantedSchedule,
)
from tests.access_table import TABLE
from tests.factories import NOON, make_host, make_token, make_user
from tests.test_access import make_parts
from tests.visitors import sign_in_person

pytestmark = pytest.mark.django_db

PLANTED = "planted-eve"
READ = [route for route, rows in TABLE.items() if "GET" in {row.method for row in rows}]
# As JSON or a page, and as the files that lists have; scopes whose changes a page shows.
QUERIES = ("", "?format=csv", "?format=ndjson", "?pool=")
# That show names to those who signed in.
WITH_NAMES = {
    "api/v1/corrections",
    "api/v1/corrections/<int:correction_id>",
    "api/v1/detection-dry-runs/<int:dry_run_id>",
    "api/v1/detection-policies",
    "api/v1/detection-policies/<int:policy_id>",
    "api/v1/hosts/<str:name>/requests",
    "api/v1/hosts/<str:name>/requests/<uuid:request_id>",
    "api/v1/incidents",
    "api/v1/incidents/<int:incident_id>",
    "api/v1/planned-events",
    "api/v1/planned-events/<int:planned_event_id>",
    "api/v1/prices",
    "api/v1/runs/<int:run_id>",
    "api/v1/studies",
    "api/v1/studies/<int:study_id>",
    "api/v1/studies/<int:study_id>/snapshot",
    "api/v1/target-mappings",
    "api/v1/wanted-schedules",
    "api/v1/wanted-schedules/<int:wanted_id>",
    "corrections/",
    "corrections/<int:correction_id>/",
    "hosts/<host_name:name>/",
    "hosts/<host_name:name>/settings/",
    "incidents/",
    "incidents/<int:incident_id>/",
    "maintenance/",
    "maintenance/<int:planned_event_id>/",
    "policies/",
    "policies/<int:policy_id>/",
    "prices/",
    "requests/",
    "runs/<int:run_id>/",
    "schedules/scope/",
    "studies/",
    "studies/<int:study_id>/",
    "views/",
}


def plant_names(parts: dict[str, Any]) -> User:
    """Make one person the maker of everything, also in tables that are added later; return the person."""
    eve = make_user(Role.EDITOR, username=PLANTED)
    comment(parts["incident_id"], by=eve, text="I look")
    undo(assign(parts["incident_id"], by=eve, to=eve).pk, by=eve)
    assign(parts["incident_id"], by=eve, to=eve)
    for entry, of in ((PlannedEventLogEntry, "planned_event"), (DetectionPolicyLogEntry, "policy")):
        entry.objects.create(
            **{f"{of}_id": parts[f"{of}_id"]}, at=NOON, action=entry._meta.get_field("action").choices[0][0]
        )
    WantedSchedule.objects.update(pool="")
    SavedView.objects.create(owner=eve, name="Disks", kind="scaling", is_shared=True)
    Run.objects.update(excluded_at=NOON, excluded_reason="noise")
    AuditRecord.objects.create(
        at=NOON, username=PLANTED, kind=AuditKind.SCHEDULE, object_id="pool:", action="saved"
    )
    for model in apps.get_app_config("benchapp").get_models():
        for field in model._meta.concrete_fields:
            if field.related_model is User:
                model.objects.update(**{field.name: eve})
    User.objects.exclude(pk=eve.pk).update(email=f"{PLANTED}@example.org")
    return eve


def find_names(client: Client, parts: dict[str, Any]) -> set[str]:
    """Return the routes whose answers have the planted name."""
    found = set()
    for route in READ:
        address = "/" + re.sub(r"<\w+:(\w+)>", lambda match: str(parts[match[1]]), route)
        for query in QUERIES:
            response = client.get(address + query)
            body = response.getvalue() if response.streaming else response.content
            if PLANTED.encode() in body + str(response.headers).encode():
                found.add(route)
    return found


def test_names_are_shown_to_those_who_signed_in_and_to_no_stranger() -> None:
    parts = make_parts()
    plant_names(parts)
    viewer = sign_in_person(make_user())
    host = Client(headers={"Authorization": f"Bearer {make_token(Scope.INGEST, host=make_host())[1]}"})

    with override_settings(PUBLIC_READ=True):
        # First those who see names: what is kept of their answers is not for strangers.
        shown = find_names(viewer, parts)
        leaked = find_names(Client(), parts) | find_names(host, parts)

    assert leaked == set()
    assert shown == WITH_NAMES


def test_stranger_reads_that_there_is_a_person() -> None:
    parts = make_parts()
    plant_names(parts)

    with override_settings(PUBLIC_READ=True):
        incident = Client().get(f"/api/v1/incidents/{parts['incident_id']}").json()

    assert incident["assignee"] == "a user"
    assert [(event["by"], event["text"]) for event in incident["events"]] == [
        ("a user", ""),
        ("a user", "I look"),
        ("a user", "to a user"),
        ("a user", "assigned"),
        ("a user", "to a user"),
    ]
