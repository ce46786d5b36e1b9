"""The recipe "Add a column to a list": where the column of a new entry is seen."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

from tests.recipes import Tree

FIELD = '    ticket = models.CharField(max_length=60, blank=True, default="")\n'
HEAD, CELL = '<th scope="col">Ticket</th>', "<td>{{ row.ticket }}</td>"
FACT = "<div><dt>Ticket</dt><dd>{{ row.ticket }}</dd></div>\n"
INPUT = '<input type="text" name="ticket" maxlength="60" aria-label="Ticket" value="{{ ticket }}">\n'
# Texts, and before which text of their file they are inserted.
TEXTS = {
    "benchapp/models/detection_policy.py": (
        ('"ticket", ', '"reason")'),
        (FIELD, "    reason = models"),
    ),
    "templates/policies/detection_policies.html": (
        (HEAD, '<th scope="col" class="number minor">Default</th>'),
        (CELL, '<td class="number minor">{{ default }}</td>'),
    ),
    "templates/policies/detection_policy.html": ((FACT, "<div><dt>Status</dt>"),),
    "benchapp/models/planned_event.py": (('"ticket", ', '"reason")'), (FIELD, "    reason = models")),
    "templates/incidents/maintenance/planned_events.html": (
        (HEAD, '<th scope="col">Type</th>'),
        (CELL, "<td>{{ row.get_kind_display|lower }}</td>"),
    ),
    "benchapp/models/subscription.py": (
        ('"ticket", ', '"thresholds", "layout_question"'),
        (FIELD, "    layout_question = models"),
    ),
    "templates/notices/subscriptions.html": (
        (HEAD, '<th scope="col">Delivery (UTC)</th>'),
        (CELL.replace("row", "subscription"), '<td>{% include "notices/_subscription_hours.html" %}</td>'),
    ),
    "templates/notices/subscription.html": ((FACT.replace("row", "subscription"), "<div><dt>Owner</dt>"),),
    "templates/incidents/maintenance/planned_event.html": ((FACT, "<div><dt>State</dt>"),),
    "benchapp/models/price.py": (('"ticket", ', '"currency"'), (FIELD, "    created_by = models")),
    "templates/layouts/prices.html": (
        (HEAD, '<th scope="col">Currency</th>'),
        (CELL.replace("row", "price"), "<td>{{ price.currency }}</td>"),
    ),
    "benchapp/models/study.py": (
        ('"ticket", ', '"panels")'),
        (FIELD, "    owner = models.ForeignKey(User, null=True"),
    ),
    "templates/reports/_study_fields.html": ((INPUT, '    <label for="study-text">'),),
    "templates/reports/studies.html": (
        (HEAD, '<th scope="col">Owner</th>'),
        (CELL.replace("row", "study"), "<td>{% if study.owner_name %}"),
    ),
    "templates/reports/study.html": (
        (
            f'<dl class="facts">{FACT.strip()}</dl>\n'.replace("row", "study"),
            '{% include "reports/_study_body',
        ),
    ),
    "benchapp/models/wanted_schedule.py": (
        ('"ticket", ', "*of_a_run)"),
        (FIELD, "    updated_at = models"),
    ),
    "templates/requests/schedules/_wanted_table.html": (
        (HEAD, '<th scope="col">Changed</th>'),
        (CELL.replace("row", "line.row"), '<td class="time">{{ line.row.updated_at'),
    ),
}
# In a transaction that is rolled back: the database of the tests does not keep the column.
SCRIPT = """
import json, re, sys
from unittest.mock import patch
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.test.utils import setup_test_environment
from benchapp.operation.configuration.plan import apply_configuration, export_configuration
from benchapp.models import AuditRecord, Role, User

def show(path, page, body, form, kind, query):
    name = path.replace("-", "_")
    added = client.post(f"/{page}/add", {**body, **form, "ticket": "OPS-1"})
    answer = client.post(f"/api/v1/{path}", {**body, "ticket": "OPS-2"}, content_type="application/json")
    refused = client.post(f"/api/v1/{path}", {**body, "ticket": "x" * 61}, content_type="application/json")
    exported = export_configuration()
    apply_configuration(exported.replace("OPS-2", "OPS-3"), prune=True, dry_run=False, author=None)
    rows = client.get(f"/api/v1/{path}{query}").json()[name]
    audited = AuditRecord.objects.filter(kind=kind)
    return {
        "form": 'name="ticket" maxlength="60"' in client.get(f"/{page}/add").content.decode(),
        "list page": "<td>OPS-1</td>" in client.get(f"/{page}/").content.decode(),
        "entry page": "<dd>OPS-1</dd>" in client.get(added["Location"]).content.decode(),
        "API": [answer.json()["ticket"], refused.json()["pointer"]],
        "rows in effect": sorted(row["ticket"] for row in rows if row.get("canceled_at") is None),
        "CSV": not query or "OPS-1" in b"".join(client.get(f"/api/v1/{path}{query}&format=csv")).decode(),
        "configuration": exported.partition(name)[2].count("ticket: OPS-"),
        "audit": sorted(row.after["ticket"] for row in audited if "ticket" in row.after),
    }

def show_prices():
    price = {"currency": "USD", "valid_from": "2026-01-01", "per_gib_month": 0.08}
    client.post("/prices/add", {**price, "volume_type": "gp2", "ticket": "PRC-1"})
    for ticket in ("PRC-2", "x" * 61):
        prices = {"prices": [{**price, "volume_type": "gp3", "ticket": ticket}]}
        answer = client.put("/api/v1/prices", prices, content_type="application/json")
    csv = client.get("/api/v1/prices?format=csv").content.decode()
    client.put("/api/v1/prices", csv.replace("PRC-2", "PRC-3"), content_type="text/csv")
    exported = export_configuration()
    apply_configuration(exported.replace("PRC-3", "PRC-4"), prune=True, dry_run=False, author=None)
    page = client.get("/prices/").content.decode()
    audited = AuditRecord.objects.filter(kind="price", after__has_key="ticket")
    return {
        "form": 'name="ticket"' in client.get("/prices/add").content.decode(),
        "list page": ["<td>PRC-1</td>" in page, "<td>PRC-4</td>" in page],
        "API": [row["ticket"] for row in client.get("/api/v1/prices").json()["prices"]],
        "refused": answer.json()["pointer"],
        "CSV": "PRC-2" in csv,
        "configuration": exported.count("ticket: PRC-"),
        "audit": sorted(row.after["ticket"] for row in audited),
    }

def show_schedules():
    schedule = {"pool": "blue", "profile": "quick", "directory": "/data"}
    path, steady = "/api/v1/wanted-schedules", {**schedule, "profile": "steady", "every_s": 3600}
    client.post("/schedules/save", {**schedule, "every": "6h", "ticket": "SCH-1"})
    for ticket in ("SCH-2", "x" * 61):
        answer = client.post(path, {**steady, "ticket": ticket}, content_type="application/json")
    exported = export_configuration()
    apply_configuration(exported.replace("SCH-2", "SCH-3"), prune=True, dry_run=False, author=None)
    page = client.get("/schedules/scope/?pool=blue").content.decode()
    audited = [record.after for record in AuditRecord.objects.filter(kind="schedule")]
    return {
        "form": 'name="ticket" maxlength="60"' in page,
        "list page": ["<td>SCH-1</td>" in page, "<td>SCH-3</td>" in page],
        "API": [row["ticket"] for row in client.get(f"{path}?fields=ticket").json()["wanted_schedules"]],
        "refused": answer.json()["pointer"],
        "CSV": "SCH-3" in b"".join(client.get(f"{path}?format=csv")).decode(),
        "configuration": exported.count("ticket: SCH-"),
        "audit": sorted(re.findall("ticket SCH-.", str(audited))),
    }

setup_test_environment()
queue = "benchapp.framework.queue"
with patch(f"{queue}.wake_up"), patch(f"{queue}.wake_notify"), transaction.atomic():
    import benchapp.urls
    call_command("migrate", verbosity=0)
    client = Client()
    client.force_login(User.objects.create(username="anna", role=Role.EDITOR))
    shown = [show(*arguments) for arguments in json.loads(sys.argv[1])]
    prices, schedules = show_prices(), show_schedules()
    transaction.set_rollback(True)
print(json.dumps([shown, prices, schedules]))
"""


def test_column_is_a_field_with_a_name_and_its_places_in_templates(db: None, tmp_path: Path) -> None:
    tree = Tree(tmp_path, recipe="Add a column to a list", parts=("benchapp", "templates"))
    now, query = datetime.now(UTC), "?fields=ticket,canceled_at"
    span = {"from_at": now.isoformat(), "to_at": (now + timedelta(days=1)).isoformat()}
    policy = {"metric": "iops", "smallest_change": 0.2, "filter": "host:db-1", "reason": "noisy"}
    hook = {"channel": "slack", "address": "https://hooks.example.org/x", "filter": "host:db-1"}
    times = {"minimum_severity": "low", "further_runs": "3", "digest_hour": "7"}
    event = {"kind": "change", **span, "filter": "host:db-1", "reason": "new rack"}
    lists = [
        (
            "detection-policies",
            "policies",
            policy,
            {"threshold": "20", "filter": ""},
            "detection_policy",
            query,
        ),
        ("planned-events", "maintenance", event, {"zone": "UTC", "filter": ""}, "planned_event", query),
        ("subscriptions", "subscriptions", hook, times, "subscription", ""),
        ("studies", "studies", {"title": "Disks"}, {"title": "Volumes"}, "study", "?fields=ticket"),
    ]

    for name, inserted in TEXTS.items():
        for text, before in inserted:
            tree.insert(name, text, before=before)
    migration = tree.make_migration("tickets")
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    printed = tree.run_script(SCRIPT, json.dumps(lists), DATABASE_URL=database.geturl())
    shown, prices, schedules = json.loads(printed)

    assert migration.count("migrations.AddField(") == len(lists) + 2
    assert shown == [
        {
            "form": True,
            "list page": True,
            "entry page": True,
            "API": ["OPS-2", "/ticket"],
            "rows in effect": ["OPS-1", "OPS-3"],
            "CSV": True,
            "configuration": 2,
            "audit": ["OPS-1", "OPS-2", "OPS-3"],
        }
    ] * len(lists)
    assert prices == {
        "form": True,
        "list page": [True, True],
        "API": ["PRC-1", "PRC-4"],
        "refused": "/prices/0/ticket",
        "CSV": True,
        "configuration": 2,
        "audit": ["PRC-1", "PRC-2", "PRC-3", "PRC-4"],
    }
    assert schedules == {
        "form": True,
        "list page": [True, True],
        "API": ["SCH-1", "SCH-3"],
        "refused": "/ticket",
        "CSV": True,
        "configuration": 2,
        "audit": ["ticket SCH-1", "ticket SCH-2", "ticket SCH-3"],
    }
    # With the migration four for each list, five for studies, three for prices and for wanted schedules.
    assert len(tree.changed) == 3 + 3 + 3 + 4 + 2 + 2
