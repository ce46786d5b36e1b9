"""Every write of a person, a token or a command leaves an audit record; none has a secret."""

import hashlib
import json
import re
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core.management import call_command
from django.db import ProgrammingError, transaction
from django.test import Client, override_settings
from django.utils import timezone

from benchapp.accounts.write.accounts import create_invitation
from benchapp.accounts.write.password_reset import create_reset_link, sign_address
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.write.audit import forget_old_audit_records, record_write
from benchapp.incidents.actions.triage import acknowledge
from benchapp.incidents.actions.undo import take_bulk_steps
from benchapp.models import (
    AuditKind,
    AuditRecord,
    EmailAddress,
    Invitation,
    PinnedChart,
    Role,
    SavedView,
    Scope,
    State,
    Study,
    User,
)
from tests.access_table import WEB
from tests.factories import (
    make_change,
    make_correction,
    make_detection_policy,
    make_dry_run,
    make_environment,
    make_host,
    make_incident,
    make_planned_event,
    make_price,
    make_request_policy,
    make_run,
    make_run_request,
    make_series,
    make_signed_link,
    make_spare_hosts,
    make_submission,
    make_target_mapping,
    make_token,
    make_user,
    make_wanted_schedule,
)
from tests.framework.api.test_openapi import EXAMPLES_OF_ANSWERS, OF_A_HOST, REQUEST_OF_HOST
from tests.received_notices import make_subscription

PASSWORD = "correct horse battery"
LINK_SECRET = "s" * 43
# Operations and forms without an audit record, and why.
NOT_RECORDED = {
    "POST /api/v1/fio": "a submission is its own record",
    "POST /api/v1/submissions": "a submission is its own record",
    "POST /api/v1/submissions/batch": "a submission is its own record",
    "POST /uploads/add": "a submission is its own record",
    "POST /incidents/<int:incident_id>/baseline/": "previews what accepting the selected series changes",
    "POST /reset-password/": "the worker records the link that it sends",
    "POST /account/email": "sends a link; its confirmation and the removal of an address are recorded",
    "POST /sign-out/": "ends the own session alone",
}


@pytest.fixture
def admin_user(db: Any, monkeypatch: pytest.MonkeyPatch) -> User:
    # Those of production take 100 MiB.
    monkeypatch.setattr(Argon2PasswordHasher, "memory_cost", 64)
    monkeypatch.setattr(Argon2PasswordHasher, "time_cost", 1)
    user = make_user(Role.ADMIN, username="anna")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def parts(admin_user: User) -> dict[str, Any]:
    """Make one of everything that a write needs; return the parts of addresses."""
    make_spare_hosts()
    host = make_host("db-7", pool="")
    make_request_policy(host)
    series = make_series([10.0, 10.0, 30.0], host=host)
    token, _ = make_token(Scope.READ, created_by=admin_user)
    panel = {"kind": "scaling", "query": "x=volume_count", "title": "", "text": ""}
    triaged = make_incident()
    bulk = take_bulk_steps({triaged.pk: partial(acknowledge, triaged.pk, by=admin_user)})
    pin = PinnedChart.objects.create(owner=admin_user, position=0, kind="scaling", query="x=1")
    PinnedChart.objects.create(owner=admin_user, position=1, kind="scaling", query="x=2")
    view = SavedView.objects.create(owner=admin_user, name="First", kind="scaling", query="x=1")
    rejected = make_submission(host, state=State.REJECTED, reason_code="no-report")
    subscription = make_subscription(admin_user)
    unconfirmed = make_subscription(admin_user, address="bob@example.org", is_confirmed=False)
    webhook = make_subscription(admin_user, channel="webhook", address="https://hooks.example.org/key")
    EmailAddress.objects.create(
        owner=admin_user,
        address="bob@example.org",
        digest=hashlib.sha256(LINK_SECRET.encode()).digest(),
        expires_at=timezone.now() + timedelta(days=1),
    )
    hour = timedelta(hours=1)
    active = make_planned_event(from_at=timezone.now() - hour, to_at=timezone.now() + hour)
    return {
        "name": "db-7",
        "run_id": make_run(
            host,
            profile="quick",
            command={"parameters": {}},
            environment=make_environment(facts={"directory": "/data"}),
        ).id,
        "series_id": series.pk,
        "submission_id": str(rejected.pk),
        "public_id": token.public_id,
        "incident_id": make_incident(changes=[make_change(series)]).pk,
        "bulk": str(UUID(bulk.bulk)),
        "study_id": Study.objects.create(title="Disks", panels=[panel], owner=admin_user).pk,
        "planned_event_id": active.pk,
        "correction_id": make_correction().pk,
        "policy_id": make_detection_policy().pk,
        "dry_run_id": make_dry_run().pk,
        "price_id": make_price().pk,
        "mapping_id": make_target_mapping().pk,
        "link_id": make_signed_link(created_by=make_user()).pk,
        "wanted_id": make_wanted_schedule().pk,
        "request_id": make_run_request(host).pk,
        "subscription_id": subscription.pk,
        "unconfirmed_id": unconfirmed.pk,
        "webhook_id": webhook.pk,
        "user_id": make_user(Role.VIEWER, username="bob").pk,
        "pin_id": pin.pk,
        "view_id": view.pk,
        "secret": create_invitation(role=Role.EDITOR, created_by=admin_user),
        "invitation_id": Invitation.objects.get().pk,
        "address_secret": sign_address(admin_user, "anna@example.org"),
        "reset_secret": create_reset_link(User.objects.get(username="bob"), created_by=admin_user),
        "token": LINK_SECRET,
    }


def find_new(ask: Any) -> list[AuditRecord]:
    """Return the records that a request makes, and roll them back."""
    before = set(AuditRecord.objects.values_list("pk", flat=True))
    with transaction.atomic():
        response = ask()
        found = list(AuditRecord.objects.exclude(pk__in=before))
        transaction.set_rollback(True)
    assert response.status_code < 400, (response.request["PATH_INFO"], response.content.decode())
    return found


def test_every_write_of_the_api_is_recorded(parts: dict[str, Any], admin_user: User) -> None:
    writes = {
        f"{method.upper()} {path}"
        for path, operations in make_schema()[0]["paths"].items()
        for method in operations
        if method != "get"
    } - set(NOT_RECORDED)
    other = make_host("db-8")
    make_run_request(other, id=REQUEST_OF_HOST)
    own = {
        "admin": make_token(Scope.ADMIN, created_by=admin_user)[1],
        "host": make_token(Scope.INGEST, host=other)[1],
    }
    bodies = {"POST /api/v1/incidents/bulk": {"incidents": [parts["incident_id"]], "action": "acknowledge"}}
    recorded = set()

    for actor, examples in (("admin", EXAMPLES_OF_ANSWERS), ("host", OF_A_HOST)):
        client = Client(headers={"Authorization": f"Bearer {own[actor]}"})
        for method, path, _, body in examples:
            operation = f"{method} {path.replace('unconfirmed_id', 'subscription_id')}"
            if method == "GET" or (body or {}).get("dry_run"):
                continue
            address = path.format(**parts | ({"request_id": REQUEST_OF_HOST} if actor == "host" else {}))
            send = partial(
                client.generic,
                method,
                address,
                json.dumps(bodies.get(operation, body)),
                content_type="application/json",
            )
            if operation == "DELETE /api/v1/studies/{study_id}/snapshot":
                client.post(address)
            if operation == "DELETE /api/v1/runs/{run_id}/exclusion":
                client.put(address, {"reason": "noise"}, content_type="application/json")
            for record in find_new(send):
                assert record.via.startswith("bench_")
                assert (record.username, record.address) == ("anna" if actor == "admin" else "", "127.0.0.1")
                recorded.add(operation)

    assert recorded == writes


def list_forms(parts: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return route, address and form of every POST of the pages."""
    times = {"zone": "UTC", "from_at": "2026-12-31T00:00", "to_at": "2027-01-01T00:00"}
    plan = {**times, "kind": "maintenance", "reason": "disks"}
    correct = {
        "filter": f"host:{parts['name']}",
        "zone": "UTC",
        "reason": "trial",
        "apply": "yes",
    }
    study = Study.objects.get()
    policy = {"metric": "iops", "threshold": "12", "filter": "host:db-7", "label": "", "reason": "noisy"}
    email = {
        "channel": "email",
        "address": "c@example.org",
        "minimum_severity": "low",
        "further_runs": "3",
        "digest_hour": "7",
    }
    passwords = {"password": PASSWORD, "password_again": PASSWORD}
    own = {
        "overview/pins/add": {"kind": "scaling", "query": "x=3"},
        "views/add": {"kind": "scaling", "query": "x=3", "name": "Second"},
        "views/<int:view_id>/change": {"do": "share"},
        "overview/pins/<int:pin_id>/change": {"do": "down"},
        "schedules/save": {"pool": "blue", "profile": "quick", "every": "6h", "directory": "/data"},
        "requests/add": {"runs": parts["run_id"]},
        "requests/confirmation": {"pool": "", "runs": "3", "share": "5"},
        "runs/<int:run_id>/exclude": {"reason": "noise"},
        "incidents/bulk": {"incident": parts["incident_id"], "do": "acknowledge", "action": "acknowledge"},
        "incidents/bulk/undo": {"bulk": UUID(parts["bulk"]).hex},
        "maintenance/add": plan,
        "corrections/delete": correct,
        "corrections/relabel": {**correct, "new.volume_type": "gp3"},
        "corrections/retention": {"tier": "output", "keep_days": "30", "reason": "space", "apply": "yes"},
        "rename": {"scope": "host:spare-3", "name": "spare-4"},
        "split": {"scope": "host:spare-1", "name": "spare-2"},
        "policies/add": policy,
        "prices/add": {
            "volume_type": "io2",
            "currency": "USD",
            "valid_from": "2026-01-01",
            "per_gib_month": "0.1",
        },
        "prices/<int:price_id>/change": {"do": "remove"},
        "studies/add": {"title": "New"},
        "studies/<int:study_id>/edit": {"title": "Changed", "do": "save", "version": study.version},
        "studies/<int:study_id>/share": {"share": "yes"},
        "studies/<int:study_id>/snapshot": {"snapshot": "yes"},
        "hosts/add": {"name": "db-10"},
        "hosts/<host_name:name>/pool": {"pool": "blue"},
        "hosts/<host_name:name>/target-name": {
            "scope": f"host:{parts['name']}",
            "pattern": "nvme*n1",
            "target_name": "nvme",
        },
        "hosts/<host_name:name>/retired": {"retired": "yes"},
        "tokens/add": {"scope": "read", "label": "x"},
        "uploads/retry": {"reason": "no-report"},
        "subscriptions/add": email,
        "subscriptions/<int:subscription_id>/edit": email,
        "subscriptions/<int:subscription_id>/active": {"active": "no"},
        "confirm-address/<share_token:token>/": {"choice": "confirm"},
        "people/invite": {"role": "editor"},
        "people/<int:user_id>/role": {"role": "editor"},
        "people/<int:user_id>/active": {"active": "no"},
        "account/": {
            "old_password": PASSWORD,
            "new_password1": PASSWORD[::-1],
            "new_password2": PASSWORD[::-1],
        },
        "sign-in/": {"username": "anna", "password": PASSWORD},
        "setup/<str:secret>/": {"username": "carl", **passwords},
        "reset-password/<str:secret>/": passwords,
        "account/preferences": {"time_zone": "UTC", "rate_units": "binary", "theme": "dark"},
        "account/theme": {"theme": "light"},
        "account/delete": {"password": PASSWORD},
    }
    other_ids = {
        "reset-password/<str:secret>/": {"secret": parts["reset_secret"]},
        "account/email/<str:secret>/": {"secret": parts["address_secret"]},
        "subscriptions/<int:subscription_id>/secret": {"subscription_id": parts["webhook_id"]},
        "subscriptions/<int:subscription_id>/confirmation": {"subscription_id": parts["unconfirmed_id"]},
    }
    forms = []
    for route, rows in WEB.items():
        if not any(row.method == "POST" for row in rows) or f"POST /{route}" in NOT_RECORDED:
            continue
        values = {**parts, "action": "acknowledge", **other_ids.get(route, {})}
        address = "/" + re.sub(r"<\w+:(\w+)>", lambda match, values=values: str(values[match[1]]), route)
        forms.append((route, address, own.get(route, {})))
    return forms


def test_every_form_is_recorded(parts: dict[str, Any], admin_user: User) -> None:
    anonymous = ("sign-in/", "setup/<str:secret>/", "reset-password/<str:secret>/")
    make_user(Role.ADMIN, username="other")
    before = {
        "runs/<int:run_id>/include": f"/runs/{parts['run_id']}/exclude",
        "corrections/<int:correction_id>/restore": f"/corrections/{parts['correction_id']}/cancel",
        "policies/<int:policy_id>/restore": f"/policies/{parts['policy_id']}/cancel",
        "maintenance/<int:planned_event_id>/restore": f"/maintenance/{parts['planned_event_id']}/cancel",
        "maintenance/<int:planned_event_id>/resume": f"/maintenance/{parts['planned_event_id']}/end",
    }
    forms = list_forms(parts)
    missing = []

    for route, address, form in forms:
        client = Client()
        if route not in anonymous:
            client.force_login(admin_user)

        def send(
            client: Client = client, address: str = address, form: Any = form, route: str = route
        ) -> Any:
            if route in before:
                client.post(before[route], {"reason": "noise"})
                AuditRecord.objects.all().delete()
            if "apply" in form:
                form = {**form, "seen": client.post(address, form).context["seen"]}
            return client.post(address, form)

        records = find_new(send)
        if not records:
            missing.append(route)
        for record in records:
            assert (record.via, record.address) == ("", "127.0.0.1")

    assert missing == []
    assert len(forms) > 40


def test_record_has_what_changed_and_no_secret(parts: dict[str, Any], admin_user: User) -> None:
    client = Client()
    client.force_login(admin_user)
    AuditRecord.objects.all().delete()

    client.post(f"/hosts/{parts['name']}/pool", {"pool": "blue"})
    client.post(f"/subscriptions/{parts['webhook_id']}/secret")
    client.post(f"/subscriptions/{parts['webhook_id']}/remove")
    client.post("/people/invite", {"role": "editor"})
    client.post("/tokens/add", {"scope": "read", "label": "cron"})
    client.post(f"/studies/{parts['study_id']}/share", {"share": "yes"})

    stored = list(AuditRecord.objects.order_by("pk"))
    assert (stored[0].kind, stored[0].object_id, stored[0].action) == ("host", "db-7", "pool_set")
    assert (stored[0].before, stored[0].after) == ({"pool": ""}, {"pool": "blue"})
    everything = json.dumps(list(AuditRecord.objects.values("before", "after", "object_name")))
    assert len(stored) == 6
    assert "/key" not in everything
    assert str(Study.objects.get().share_token) not in everything


def test_command_is_named_and_has_no_user(db: Any) -> None:
    call_command("setup_link")

    record = AuditRecord.objects.get()
    assert (record.via, record.username, record.kind) == ("manage.py setup_link", "", "invitation")


def test_write_that_changes_nothing_is_not_recorded(parts: dict[str, Any], admin_user: User) -> None:
    client = Client()
    client.force_login(admin_user)

    assert find_new(partial(client.post, f"/hosts/{parts['name']}/pool", {"pool": ""})) == []


def test_record_that_is_stored_cannot_be_changed(db: Any) -> None:
    record_write(AuditKind.HOST, "created", object_id="db-1")

    with pytest.raises(ProgrammingError, match="cannot be changed"), transaction.atomic():
        AuditRecord.objects.update(username="mallory")


def test_old_records_are_deleted_after_the_retention_time(db: Any) -> None:
    now = timezone.now()
    for days in (11, 9):
        at = now - timedelta(days=days)
        AuditRecord.objects.create(at=at, kind=AuditKind.HOST, action="created", object_id=days)

    with override_settings(AUDIT_RETENTION_DAYS=0):
        assert forget_old_audit_records(now=now) == 0
    with override_settings(AUDIT_RETENTION_DAYS=10):
        assert forget_old_audit_records(now=now, limit=1) == 1

    assert [record.object_id for record in AuditRecord.objects.all()] == ["9"]


def test_api_lists_records_by_user_kind_object_and_time(parts: dict[str, Any], admin_user: User) -> None:
    AuditRecord.objects.all().delete()
    for name in ("db-1", "db-2"):
        record_write(AuditKind.HOST, "created", object_id=name, after={"pool": name}, by=admin_user)
    record_write(AuditKind.STUDY, "created", object_id=3, name="Disks")
    client = Client()
    client.force_login(admin_user)

    def read(query: str) -> list[str]:
        return [row["object_id"] for row in client.get(f"/api/v1/audit?{query}").json()["records"]]

    assert read("") == ["3", "db-2", "db-1"]
    assert read("username=anna&object_id=db-1") == ["db-1"]
    assert read("kind=study") == ["3"]
    assert read("to=-1d") == []
    first = client.get("/api/v1/audit?limit=2").json()
    assert [row["object_id"] for row in client.get(first["next"]).json()["records"]] == ["db-1"]
    lines = b"".join(client.get("/api/v1/audit?format=csv&fields=object_id,after")).decode().splitlines()
    assert lines == [
        '"object_id","after"',
        '"3",""',
        '"db-2","{""pool"":""db-2""}"',
        '"db-1","{""pool"":""db-1""}"',
    ]


def test_page_shows_changes_escaped_with_a_link_to_the_object(admin_user: User) -> None:
    record_write(
        AuditKind.INCIDENT,
        "resolved",
        object_id=12,
        before={"state": "new"},
        after={"state": "<b>", "text": "x" * 200},
        by=admin_user,
    )
    record_write(
        AuditKind.SCHEDULE,
        "created",
        object_id="pool:",
        name="hosts without a pool",
        after={"quick": "daily"},
    )
    client = Client()
    client.force_login(admin_user)

    text = client.get("/audit/").content.decode()
    empty = client.get("/audit/?username=nobody").content.decode()
    wrong = client.get("/audit/?from=nonsense")

    assert '<a href="/incidents/12/">Incident 12</a>' in text
    assert '<th scope="row" class="phrase">Schedule<span class="sub">hosts without a pool</span>' in text
    assert "state: new → &lt;b&gt;" in text
    assert f"after: {'x' * 200}" in text
    assert "No records match" in empty
    assert wrong.status_code == 400
