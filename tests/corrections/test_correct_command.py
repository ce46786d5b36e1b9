"""`manage.py correct` does what pages and the API do."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.models import Correction, Host, Run
from tests.corrections.test_corrections import finish, store
from tests.corrections.test_rename import plant_fleet
from tests.factories import make_host

pytestmark = pytest.mark.django_db


def correct(*words: str) -> Any:
    written = StringIO()
    call_command("correct", *words, stdout=written)
    text = written.getvalue()
    return json.loads(text) if text.startswith("{") else text.strip()


def test_deletion_is_previewed_applied_and_undone() -> None:
    store(2)
    which = ("deletion", "filter=host:db-1", "reason=trial")

    assert (correct(*which)["runs"], Run.objects.count(), Correction.objects.count()) == (2, 2, 0)
    assert correct(*which, "--apply").startswith("deletion ")
    finish()
    assert not Run.objects.exists()
    assert correct("undo", f"id={Correction.objects.get().pk}", "--apply").endswith("(undoing)")
    finish()
    assert Run.objects.count() == 2


def test_relabeling_retention_and_names() -> None:
    plant_fleet()
    make_host("db-9")
    retention = ("retention", "tier=points", "keep_days=30", "reason=space")

    assert correct(*retention)["retention"]["rows"] >= 0
    assert correct("rename", "scope=host:db-1", "name=web-1")["runs"] == 40
    assert not Host.objects.filter(name="web-1").exists()
    assert correct("rename", "scope=host:db-1", "name=web-1", "--apply")["to_scope"] == "host:web-1"
    assert correct("merge", "host=db-4", "into=web-1", "--apply")["to_host"] == "web-1"
    assert correct("split", "host=web-1", "name=db-4", "--apply")["from_host"] == "web-1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("deletion", "filter"), "'filter' is not NAME=VALUE"),
        (("deletion", "filtre=a"), "unknown member 'filtre'. Valid members: kind, filter"),
        (("deletion", "filter=host:db-1", "reason=x"), "filter: no run matches"),
        (("retention", "tier=points", "keep_days=3", "reason=x"), "keep_days: keep from 30"),
        (("retention", "tier=all", "keep_days=30", "reason=x"), "tier: "),
        (("rename", "scope=host:db-1", "name=web-1"), "scope: host db-1 does not exist"),
        (("undo", "id=7", "--apply"), "correction 7 does not exist"),
        (("undo", "id=7"), "undo has no preview"),
    ],
)
def test_wrong_members_are_named(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError) as refused:
        correct(*words)

    assert text in str(refused.value)
