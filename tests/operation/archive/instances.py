"""Two instances in one database: what one has is exported, the database is emptied, and imports it with other ids."""

import io
import re
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.test import Client

from benchapp.models import Host, Run, Scope, Series, Submission
from benchapp.operation.archive.tables import TABLES
from tests.factories import make_token

# Ids of the other instance are above this, each table's in a range of its own.
_RANGE = 10**9
_LISTS = (
    "hosts",
    "series?limit=1000",
    "runs?limit=1000",
    "changes?limit=1000",
    "incidents?limit=1000",
    "planned-events",
    "detection-policies",
    "studies",
    "points?format=json",
    "submissions?limit=1000",
)


def export(path: Path, **options: Any) -> str:
    """Run `manage.py export` and return what it printed."""
    out = io.StringIO()
    call_command("export", str(path), stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def import_archive(path: Path, **options: Any) -> str:
    """Run `manage.py import_archive` and return what it printed."""
    out = io.StringIO()
    call_command("import_archive", str(path), stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def read_ids() -> dict[str, list[int]]:
    """Return the ids of each table in ascending order."""
    return {
        name: sorted(table.model.objects.values_list("pk", flat=True))
        for name, table in TABLES.items()
        if name not in ("authors", "submissions")
    }


def start_other_instance() -> None:
    """Empty all tables of archives but accounts, and give each another range of ids."""
    sources = [table.source for name, table in TABLES.items() if name != "authors"]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(sources)} CASCADE")
    restart_ids(_RANGE)


def restart_ids(range_size: int = 0) -> None:
    """Let the ids of each table begin behind so many times its place; at 1 for the tests that follow."""
    with connection.cursor() as cursor:
        for place, (name, table) in enumerate(TABLES.items(), 1):
            if name not in ("authors", "submissions"):
                cursor.execute(f"ALTER TABLE {table.source} ALTER id RESTART WITH {place * range_size + 1}")


def read_answers(back: dict[int, int] | None = None) -> dict[str, Any]:
    """Return the API's answers about everything; back: the ids of the first instance by those of the other one."""
    _, token = make_token(Scope.READ)
    client = Client(headers={"Authorization": f"Bearer {token}"})
    details = {
        "incidents": "incidents",
        "studies": "studies",
        "planned_events": "planned-events",
        "detection_policies": "detection-policies",
    }
    paths = [f"/api/v1/{name}" for name in _LISTS]
    paths += [
        f"/api/v1/{details[name]}/{pk}"
        for name, table in TABLES.items()
        if name in details
        for pk in table.model.objects.order_by("pk").values_list("pk", flat=True)
    ]
    series = Series.objects.filter(measurement_count__gt=0).order_by("pk").values_list("pk", flat=True)
    paths += [f"/api/v1/series/{pk}{part}" for pk in series for part in ("", "/summary", "/detection")]
    # Each fourth: they differ in their numbers, which are points.
    paths += [f"/api/v1/runs/{pk}" for pk in Run.objects.order_by("pk").values_list("pk", flat=True)[::4]]
    paths += [
        f"/api/v1/hosts/{name}" for name in Host.objects.order_by("name").values_list("name", flat=True)
    ]

    def translate(text: str) -> str:
        return re.sub(
            r"(?<!\d)\d{10,11}(?!\d)", lambda number: str((back or {}).get(int(number[0]), number[0])), text
        )

    answers = {}
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.content[:500])
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        answers[translate(path)] = translate(body.decode())
    return answers


def read_bodies() -> dict[Any, tuple[Any, ...]]:
    """Return the stored bytes of each submission, and what is stored about it."""
    return {
        row.pk: (bytes(row.body) if row.body is not None else None, bytes(row.digest), row.state, row.reason)
        for row in Submission.objects.all()
    }
