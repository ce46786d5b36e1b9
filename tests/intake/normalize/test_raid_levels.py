"""The RAID level of a layout has one spelling, also that of results from before it had."""

from importlib import import_module
from unittest import mock
from uuid import uuid4

import pytest
from django.db import connection

from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts import metadata
from benchapp.models import Run, Scope, Series, Target
from tests.envelopes import make_envelope, pack_envelope
from tests.factories import make_host
from tests.intake.api.test_posts import post

pytestmark = pytest.mark.django_db
migration = import_module("benchapp.migrations.0063_raid_levels_have_one_spelling")


@pytest.fixture
def token() -> str:
    return issue_token(scope=Scope.INGEST, host=make_host("db-1"))[1]


def send(token: str, raid_level: str) -> None:
    target = {**make_envelope()["target"], "raid_level": raid_level}
    post(pack_envelope(id=str(uuid4()), target=target), token)
    normalize_batch()


def send_as_before(token: str, raid_level: str) -> None:
    """Store a run as it was stored before levels were normalized."""
    with mock.patch.object(metadata, "normalize_value", lambda _dimension, text: text.lower()):
        send(token, raid_level)


def migrate() -> None:
    with connection.schema_editor() as editor:
        migration.rename_levels(None, editor)


@pytest.mark.parametrize(
    ("level", "name"), [("0", "raid0"), ("RAID 0", "raid0"), ("raid-0", "raid0"), ("No RAID", "none")]
)
def test_series_of_another_spelling_continues(level: str, name: str, token: str) -> None:
    send_as_before(token, level)
    migrate()
    send(token, name)

    assert set(Series.objects.values_list("raid_level", "measurement_count")) == {(name, 2)}
    assert Target.objects.count() == 1


def test_both_spellings_of_one_host_become_one_layout_with_two_series(token: str) -> None:
    send_as_before(token, "0")
    send_as_before(token, "raid0")
    migrate()
    send(token, "0")

    assert sorted(Series.objects.values_list("raid_level", "measurement_count")) == [
        ("raid0", 1),
        ("raid0", 2),
    ]
    assert set(Run.objects.values_list("target__raid_level", flat=True)) == {"raid0"}
    assert Target.objects.count() == 1


def test_levels_without_a_number_stay(token: str) -> None:
    for level in ("mirror", "raidz1", "linear"):
        send(token, level)
    keys = set(Target.objects.values_list("key", flat=True))
    migrate()

    assert {bytes(key) for key in Target.objects.values_list("key", flat=True)} == {
        bytes(key) for key in keys
    }
