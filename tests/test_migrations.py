"""Landed migrations stay as they are, and a database of any landed state becomes today's.

A database keeps the names of the migrations that it has applied, not what was in them. 0001 was edited after it had
landed: databases of its first variant lack the column `benchapp_submission.scope`, which 0011 adds. 0005 was edited
too, without a difference in what it does. `tests/data/migrations/oldest_schema.sql` is a database of the first variant
of 0001; its later states are those on its way through the other migrations.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from psycopg import sql

from benchapp.accounts.write.accounts import create_invitation
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posts import answer_post
from benchapp.intake.api.submissions import describe_validation
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import (
    Invitation,
    Notice,
    PlannedEventLogEntry,
    Role,
    Scope,
    Series,
    State,
    Study,
    Submission,
)
from benchapp.operation.embedded.servers import find_installation
from tests.envelopes import pack_envelope
from tests.factories import NOON, make_incident, make_token, make_user
from tests.received_notices import make_event, make_subscription

ROOT = Path(__file__).parent.parent
MIGRATIONS = ROOT / "benchapp" / "migrations"
KEPT = ROOT / "tests" / "data" / "migrations"
NAMES = sorted(path.stem for path in MIGRATIONS.glob("[0-9]*.py"))
# Of db-1, the one host in the kept database.
TOKEN_OF_KEPT_HOST = "bench_0bc358464nx6_jIZA8zpu4hq59qbXcz0_l9SmAK6KBSoj1-NyPniAqssb812ef2e"
STORED, REFUSED, WAITING = UUID(int=1), UUID(int=2), UUID(int=3)

# Columns by name, not by position: what a later migration adds comes last, and nothing depends on the order.
# Casts and parentheses of constraints are left out: a dump that is loaded again has them in other places.
CATALOG = r"""
SELECT 'column', c.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attidentity, a.attstorage, pg_get_expr(d.adbin, d.adrelid))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname,
       regexp_replace(pg_get_constraintdef(oid), '::(text|character varying)(\[\])?|[()]', '', 'g')
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'migration', app, name, '' FROM django_migrations
"""


@pytest.mark.parametrize("name", NAMES)
def test_migration_is_the_one_that_landed(name: str) -> None:
    file = KEPT / f"{name}.sha256"
    command = f"sha256sum benchapp/migrations/{name}.py > tests/data/migrations/{name}.sha256"

    assert file.exists(), f"{name} is new: write down its digest once it is final, with `{command}`"
    assert (
        file.read_text().split()[0] == hashlib.sha256((MIGRATIONS / f"{name}.py").read_bytes()).hexdigest()
    ), (
        f"{name} has landed and was changed: databases that have applied it will not apply it again."
        f" Take the change back and write a new migration. Only where it has never been on a shared branch: `{command}`"
    )


def test_no_migration_that_landed_is_gone() -> None:
    assert sorted(path.stem for path in KEPT.glob("*.sha256")) == NAMES


@contextmanager
def use_database(name: str, *, role: str = "") -> Iterator[None]:
    """Work on another database of the server, with the rights of a role."""
    usual = {key: connection.settings_dict[key] for key in ("NAME", "OPTIONS")}
    connection.close()
    connection.settings_dict["NAME"] = name
    if role:
        connection.settings_dict["OPTIONS"] = usual["OPTIONS"] | {"options": f"-c role={role}"}
    ContentType.objects.clear_cache()
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(usual)
        ContentType.objects.clear_cache()


@pytest.fixture(scope="module")
def migrated_template(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Migrate a database that holds what the first commits kept, with planned events of 0012; return its name.

    As in compose, its owner is no superuser.
    """
    name = f"{connection.settings_dict['NAME']}_kept"
    role = f"{name}_owner"
    with django_db_blocker.unblock():
        _drop(name)
        _run_beside(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))
        create_as_compose(name, role=role, secrets=tmp_path_factory.mktemp("secrets"))
        with psycopg.connect(**_parameters(name), options=f"-c role={role}") as loading:
            loading.execute((KEPT / "oldest_schema.sql").read_bytes())
        with use_database(name, role=role):
            migrate("benchapp", "0012")
            add_events_of_0012()
            migrate()
    yield name
    with django_db_blocker.unblock():
        _drop(name)
        _run_beside(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def create_as_compose(name: str, *, role: str, secrets: Path) -> None:
    """Run the script by which compose creates the database and its owner, with other names."""
    (secrets / "database_password").write_text("0123456789abcdef")
    script = (ROOT / "tools" / "create-database.sql").read_text().replace("/run/secrets", str(secrets))
    for word, own_name in (("ROLE", role), ("OWNER", role), ("DATABASE", name)):
        script = script.replace(f"{word} benchapp", f"{word} {own_name}")
    done = subprocess.run(
        [
            find_installation() / "bin" / "psql",
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            os.environ["DATABASE_URL"],
        ],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _create(name: str, template: str) -> None:
    _run_beside(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, (name, template))))


def _drop(name: str) -> None:
    _run_beside(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


def _parameters(name: str) -> dict[str, Any]:
    parameters = connection.get_connection_params()
    return {key: parameters[key] for key in ("host", "port", "user", "password") if key in parameters} | {
        "dbname": name
    }


def _run_beside(statement: sql.Composed) -> None:
    with psycopg.connect(**_parameters("postgres"), autocommit=True) as maintenance:
        maintenance.execute(statement)


@pytest.fixture
def kept_database(transactional_db: None, migrated_template: str) -> Iterator[None]:
    """Work on a copy of the migrated database."""
    name = f"{migrated_template}_copy"
    _drop(name)
    _create(name, migrated_template)
    try:
        with use_database(name):
            yield
    finally:
        _drop(name)


def read_catalog() -> set[tuple[str, str, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(CATALOG)
        return set(cursor.fetchall())


def migrate(*to: str) -> None:
    call_command("migrate", *to, verbosity=0, interactive=False)


def post(body: bytes) -> int:
    headers = {"authorization": f"Bearer {TOKEN_OF_KEPT_HOST}"}
    return answer_post(
        Post("/api/v1/submissions", "", headers, Wire(body, False)), validate=describe_validation
    ).status


def test_oldest_database_gets_the_schema_of_a_fresh_one(
    transactional_db: None, migrated_template: str
) -> None:
    fresh = read_catalog()
    with use_database(migrated_template):
        migrated = read_catalog()

    assert sorted(migrated - fresh) == []
    assert sorted(fresh - migrated) == []


def test_role_of_compose_is_no_superuser_and_owns_what_it_has_migrated(
    transactional_db: None, migrated_template: str
) -> None:
    with psycopg.connect(**_parameters(migrated_template)) as migrated:
        owners = migrated.execute(
            "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        rights = migrated.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles WHERE rolname = %s",
            owners[0],
        ).fetchall()

    assert owners == [(f"{migrated_template}_owner",)]
    assert rights == [(False, False, False, True)]


def test_oldest_database_takes_what_its_host_posts(kept_database: None) -> None:
    new_id = uuid4()
    status = post(pack_envelope(id=str(new_id)))
    batch = normalize_batch()

    states = dict(Submission.objects.values_list("id", "state"))
    assert status == 202
    assert set(batch.stored) == {WAITING, new_id}
    assert states == {
        STORED: State.STORED,
        REFUSED: State.REJECTED,
        WAITING: State.STORED,
        new_id: State.STORED,
    }


def test_what_was_stored_of_old_keeps_the_pool_that_it_was_measured_in(kept_database: None) -> None:
    scopes = dict(Submission.objects.values_list("id", "scope"))
    assert scopes == {STORED: "pool:fast", REFUSED: "", WAITING: ""}
    assert Series.objects.get().scope == "pool:fast"


def add_events_of_0012() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO benchapp_expectation (kind, filter, from_at, to_at, reason, created_at)"
            " VALUES ('change', '', '2026-01-01', '2026-01-02', 'rollout', now()) RETURNING id"
        )
        (event_id,) = cursor.fetchone()
        cursor.executemany(
            "INSERT INTO benchapp_expectationevent (expectation_id, at, via, act) VALUES (%s, now(), '', %s)",
            [(event_id, act) for act in ("said", "ended", "resumed", "taken_back", "put_back")],
        )


def test_stored_actions_of_planned_events_are_renamed(kept_database: None) -> None:
    actions = list(PlannedEventLogEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["scheduled", "ended", "resumed", "canceled", "restored"]


def test_names_in_stored_json_are_renamed_and_restored(db: None) -> None:
    suspect = {"name": "kernel", "came_with": 3, "hosts_moved": 1, "hosts_fine": 2, "fine_hosts": ["db-2"]}
    query = "x=volume_count&colour=rw&ceiling=3000&ghost=30&hold=bs:4k&q=colour"
    incident = make_incident(suspects=[suspect])
    event = make_event(incident, "merged", before={"scope": "host:db-1", "moved": {"7": [1, 2]}})
    study = Study.objects.create(
        title="Disks", panels=[{"kind": "scaling", "query": query, "title": "Disks"}]
    )
    names = import_module("benchapp.migrations.0014_stored_names_are_renamed")

    names.rename_stored_names(apps, None)

    for row in (incident, event, study):
        row.refresh_from_db()
    assert incident.suspects == [
        {
            "name": "kernel",
            "coincides_with": 3,
            "hosts_regressed": 1,
            "hosts_unaffected": 2,
            "unaffected_hosts": ["db-2"],
        }
    ]
    assert event.before == {"scope": "host:db-1", "changes_from": {"7": [1, 2]}}
    assert study.panels[0]["query"] == "x=volume_count&color=rw&limit=3000&compare_days=30&fix=bs:4k&q=colour"
    names.restore_stored_names(apps, None)
    for row in (incident, event, study):
        row.refresh_from_db()
    assert (incident.suspects, study.panels[0]["query"]) == ([suspect], query)
    assert event.before["moved"] == {"7": [1, 2]}


def test_texts_of_the_charts_of_a_study_are_renamed_and_restored(db: None) -> None:
    panels = [
        {"kind": "scaling", "query": "", "title": "A", "words": "*a*"},
        {"kind": "matrix", "query": "", "title": "B"},
    ]
    disks = Study.objects.create(title="Disks", panels=panels)
    empty = Study.objects.create(title="Empty", panels=[])
    (rename,) = import_module("benchapp.migrations.0026_text_of_study_panels").Migration.operations

    with connection.cursor() as cursor:
        cursor.execute(rename.sql)
        for study in (disks, empty):
            study.refresh_from_db()
        renamed = [disks.panels, empty.panels]
        cursor.execute(rename.reverse_sql)
    disks.refresh_from_db()

    assert renamed == [[{"kind": "scaling", "query": "", "title": "A", "text": "*a*"}, panels[1]], []]
    assert disks.panels == panels


def test_texts_of_stored_incidents_and_notices_are_renamed_and_restored(db: None) -> None:
    factors = [{"dimension": "volume_type", "value": "gp3", "words": "all with gp3"}]
    suspects = [{"name": "kernel", "before": "words", "words": 'the "words": 6.1'}]
    incident = make_incident(common_factors=factors, suspects=suspects)
    body = {
        "levels": [{"name": "IOPS", "before_words": "100", "after_words": "80", "words": "−20 %"}],
        "link_words": "Incident 1",
        "details": [["Severity", "low"]],
        "facts": {"event": {"id": 3, "words": ""}, "incident": {"suspects": suspects}},
    }
    notice = Notice.objects.create(
        subscription=make_subscription(), key="notice", body=body, not_before_at=NOON, created_at=NOON
    )
    names = import_module("benchapp.migrations.0028_text_in_stored_incidents_and_notices")
    renamed = [{"name": "kernel", "before": "words", "text": 'the "words": 6.1'}]

    names.rename_texts(apps, None)

    incident.refresh_from_db()
    notice.refresh_from_db()
    assert incident.common_factors == [{"dimension": "volume_type", "value": "gp3", "text": "all with gp3"}]
    assert incident.suspects == renamed
    assert notice.body == {
        "levels": [{"name": "IOPS", "before_text": "100", "after_text": "80", "text": "−20 %"}],
        "link_text": "Incident 1",
        "details": [["Severity", "low"]],
        "facts": {"event": {"id": 3, "text": ""}, "incident": {"suspects": renamed}},
    }
    names.restore_texts(apps, None)
    incident.refresh_from_db()
    notice.refresh_from_db()
    assert (incident.common_factors, incident.suspects, notice.body) == (factors, suspects, body)


def test_keys_in_bodies_of_notices_are_renamed_and_restored(db: None) -> None:
    factors = [{"dimension": "volume_type", "value": "gp3"}]
    bodies = [
        {"told_in": "hosts silent with host 1"},
        {"kind": "incident.opened", "facts": {"incident": {"id": 1, "explained_by": factors}}},
        {"kind": "test", "facts": {}},
    ]
    subscription = make_subscription()
    for number, body in enumerate(bodies):
        Notice.objects.create(
            subscription=subscription, key=f"notice {number}", body=body, not_before_at=NOON, created_at=NOON
        )
    names = import_module("benchapp.migrations.0015_detection_results")

    names.rename_keys(apps, None)

    assert list(Notice.objects.order_by("key").values_list("body", flat=True)) == [
        {"reported_in": "hosts silent with host 1"},
        {"kind": "incident.opened", "facts": {"incident": {"id": 1, "common_factors": factors}}},
        {"kind": "test", "facts": {}},
    ]
    names.restore_keys(apps, None)
    assert list(Notice.objects.order_by("key").values_list("body", flat=True)) == bodies


def test_what_is_limited_ends_with_its_limits(db: None) -> None:
    people = [make_user(pools=pools) for pools in (["db"], [])]
    tokens = [make_token(Scope.READ, pools=pools)[0] for pools in (["db"], [])]
    tokens += [make_token(Scope.ENROLL, host_pattern="db-*")[0]]
    for pools in (["db"], []):
        create_invitation(role=Role.VIEWER, created_by=None, pools=pools)
    limits = import_module("benchapp.migrations.0090_limits_end_with_their_accounts")

    limits.close(apps, None)

    for row in (*people, *tokens):
        row.refresh_from_db()
    assert [person.is_active for person in people] == [False, True]
    assert [token.revoked_at is None for token in tokens] == [False, True, False]
    assert [invitation.pools for invitation in Invitation.objects.all()] == [[]]
