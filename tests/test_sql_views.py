"""Read-only SQL: the views show the numbers of the API, and their role can read nothing else."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection, migrations, models, transaction
from django.db.migrations.state import ProjectState

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.models import AuditRecord, Incident, Run, Scope, Series
from benchapp.models.limits import drop_policies, install_policies
from benchapp.series.write import exclude_run
from benchapp.sql_views import VIEW_PREFIX, list_views, replace_views
from tests.browser.world import make_world
from tests.factories import calculate_levels, make_environment, make_run, make_token

ROOT = Path(__file__).parent.parent
DOCS = (ROOT / "docs" / "clients.md").read_text()
QUERIES = re.findall(r"```sql\n(SELECT.*?)```", DOCS, re.DOTALL)
CREATE_ROLE = re.findall(r"```sql\n(CREATE ROLE.*?)```", DOCS, re.DOTALL)[0]
VIEWS = import_module("benchapp.migrations.0075_sql_views_have_the_device_class").VIEWS

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def database_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///the-tests-own")


def fetch(query: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def reader(tmp_path: Path) -> str:
    """Create a role for the views; the end of the test rolls it back."""
    assert "can read benchapp_v_changes, " in grant("sql_test_reader", tmp_path)
    return "sql_test_reader"


def grant(role: str, place: Path) -> str:
    """Run the command with a password in a file."""
    file, out = place / "password", io.StringIO()
    file.write_text("correct horse battery\n")
    call_command("grant_sql_access", role, password_file=file, stdout=out)
    return out.getvalue()


@contextmanager
def acting_as(role: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        # The end of a transaction that failed resets it, too.
        cursor.execute(f"SET LOCAL ROLE {role}")
        yield
        cursor.execute("RESET ROLE")


def is_refused(statement: str, role: str) -> bool:
    """Return whether PostgreSQL refuses a statement of a role for lack of privileges."""
    try:
        with transaction.atomic(), acting_as(role), connection.cursor() as cursor:
            cursor.execute(statement)
    except ProgrammingError as error:
        return "permission denied" in str(error)
    return False


def test_role_reads_the_views_and_nothing_else(reader: str, tmp_path: Path) -> None:
    make_world()

    with acting_as(reader):
        counts = {view: fetch(f"SELECT count(*) FROM {view}")[0]["count"] for view in list_views()}
    assert all(counts.values()), counts
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')"
        )
        others = [name for (name,) in cursor.fetchall()]
    assert {"benchapp_user", "benchapp_apitoken", "benchapp_submission", "django_session"} <= set(others)
    assert [name for name in others if not is_refused(f'SELECT * FROM "{name}"', reader)] == []
    assert is_refused("CREATE TABLE mine (id int)", reader)
    assert is_refused("DELETE FROM benchapp_v_hosts", reader)
    assert is_refused("UPDATE benchapp_v_hosts SET run_count = 0", reader)
    record = AuditRecord.objects.get(kind="sql_role")
    assert (record.via, record.action, record.object_id) == ("manage.py grant_sql_access", "granted", reader)
    assert record.after == {"views": list_views()}
    # Again: a new password, the same rights.
    grant(reader, tmp_path)
    assert not is_refused("SELECT * FROM benchapp_v_hosts", reader)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER ROLE {} SUPERUSER", "superuser"),
        ("GRANT pg_read_all_data TO {}", "member of pg_read_all_data"),
        ("GRANT SELECT ON benchapp_user TO PUBLIC", "may use benchapp_user"),
        ("GRANT SELECT (digest) ON benchapp_apitoken TO PUBLIC", "may use benchapp_apitoken"),
        ("GRANT INSERT ON benchapp_v_hosts TO PUBLIC", "may write benchapp_v_hosts"),
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "create tables"),
    ],
)
def test_role_with_other_rights_is_refused(reader: str, statement: str, reason: str, tmp_path: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.format(reader))

    with pytest.raises(CommandError, match=reason):
        grant(reader, tmp_path)


def test_account_without_the_right_to_create_roles_names_what_to_run(tmp_path: Path) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE sql_test_application NOSUPERUSER NOCREATEROLE")

    with (
        pytest.raises(CommandError, match="CREATE ROLE sql_test_reader LOGIN"),
        acting_as("sql_test_application"),
    ):
        grant("sql_test_reader", tmp_path)
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
        cursor.execute(CREATE_ROLE.replace("reader", "sql_test_reader"))
    # As the owner of the database, for a role that an administrator created: no password is asked for.
    call_command("grant_sql_access", "sql_test_reader", stdout=io.StringIO())
    assert not is_refused("SELECT * FROM benchapp_v_hosts", "sql_test_reader")


def test_numbers_of_the_views_are_those_of_the_api(client: Any) -> None:
    make_world()
    exclude_run(Run.objects.order_by("pk")[3].pk, None, reason="power test")
    calculate_levels(list(Series.objects.values_list("pk", flat=True)))
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {make_token(Scope.READ)[1]}"

    series = client.get("/api/v1/series?limit=1000").json()["series"]
    rows = {row["series_id"]: row for row in fetch("SELECT * FROM benchapp_v_series")}
    levels = ("level_metric", "level_median", "level_p10", "level_p90", "level_n", "previous_level_median")
    same = (
        *levels,
        "scope",
        "host",
        "pool",
        "direction",
        "rw",
        "iodepth",
        "volume_type",
        "measurement_count",
    )
    assert rows.keys() == {one["id"] for one in series}
    for one in series:
        assert {name: rows[one["id"]][name] for name in same} == {name: one[name] for name in same}

    incidents = client.get("/api/v1/incidents?limit=1000").json()["incidents"]
    found = {row["incident_id"]: row for row in fetch("SELECT * FROM benchapp_v_incidents")}
    assert found.keys() == {one["id"] for one in incidents} != set()
    for one in incidents:
        names = (
            "title",
            "scope",
            "state",
            "verdict",
            "severity",
            "relative",
            "change_count",
            "is_regression",
        )
        assert {name: found[one["id"]][name] for name in names} == {name: one[name] for name in names}

    answer = client.get("/api/v1/points?format=json")
    points = json.loads(b"".join(answer.streaming_content))["points"]
    names = ("iops", "latency_p99_ns", "host", "error", "is_excluded")
    stored = {(row["run_id"], row["series_id"]): row for row in fetch("SELECT * FROM benchapp_v_points")}
    assert len(stored) == len(points) > 100
    for one in points:
        row = stored[one["run"], one["series"]]
        assert {name: row[name] for name in names} == {name: one[name] for name in names}
        assert sorted(row["badges"]) == sorted(one["badges"])
    assert sum(not row["is_valid"] for row in stored.values()) == 4

    changes = client.get("/api/v1/changes?limit=1000").json()["changes"]
    assert {
        (row["change_id"], row["relative"], row["state"]) for row in fetch("SELECT * FROM benchapp_v_changes")
    } == {(one["id"], one["relative"], one["state"]) for one in changes}
    hosts = client.get("/api/v1/hosts").json()["hosts"]
    assert {(row["host"], row["pool"]) for row in fetch("SELECT * FROM benchapp_v_hosts")} == {
        (one["name"], one["pool"] or None) for one in hosts
    }


def test_every_view_and_column_is_documented() -> None:
    rows = fetch(
        "SELECT class.relname AS view, attname AS name, col_description(class.oid, attnum) AS comment"
        " FROM pg_class AS class JOIN pg_attribute ON attrelid = class.oid"
        f" WHERE starts_with(relname, '{VIEW_PREFIX}') AND relkind = 'v' AND attnum > 0"
    )

    assert [row for row in rows if not row["comment"]] == []
    assert (
        {row["view"] for row in rows}
        == set(list_views())
        == set(re.findall(r"^\| `(benchapp_v_\w+)` ", DOCS, re.M))
    )
    comments = {(row["view"], row["name"]): row["comment"] for row in rows}
    assert comments["benchapp_v_points", "latency_p99_ns"] == "99th percentile of the latency, ns"
    # What runs can be filtered by.
    facts = {name for name, one in DIMENSIONS.items() if one.group in ("target", "environment")}
    assert facts <= {row["name"] for row in rows if row["view"] == "benchapp_v_runs"}
    # No account, no token, no raw body.
    assert not {"assignee", "assignee_id", "body", "digest", "owner", "created_by"} & {
        row["name"] for row in rows
    }


def test_runs_have_the_class_of_their_device() -> None:
    make_run(environment=make_environment(device_class="nvme"))

    assert [row["device_class"] for row in fetch("SELECT * FROM benchapp_v_runs")] == ["nvme"]


def test_queries_of_the_documentation_run_as_the_role(reader: str) -> None:
    make_world()

    assert len(QUERIES) == 5
    with acting_as(reader):
        answers = [fetch(query) for query in QUERIES]
    current, daily, regressions, kernels, silent = answers
    depths = {(row["volume_type"], row["host"]) for row in current}
    assert ("gp3", "db-01") in depths
    assert sum(row["runs"] for row in daily) == 2 * 29
    assert {row["incident_id"] for row in regressions} == {Incident.objects.get(title__startswith="db-09").pk}
    assert {row["kernel"] for row in kernels} == {"5.15.0", "6.1.0"}
    assert {row["host"] for row in silent} >= {"db-09", "cache-07"}
    assert "db-01" not in {row["host"] for row in silent}


def test_replaced_views_keep_their_readers(reader: str) -> None:
    """As CONTRIBUTING describes it: a column is changed that a view reads."""
    wide = models.CharField(max_length=120, blank=True, default="")
    change = migrations.AlterField("host", "pool", wide)
    operations = replace_views(VIEWS, VIEWS, operations=[change])
    state = ProjectState.from_apps(import_module("django.apps").apps)
    # As `migrate` does before and after.
    drop_policies(plan=operations)

    with (
        pytest.raises(Exception, match="used by a view"),
        transaction.atomic(),
        connection.schema_editor() as editor,
    ):
        changed = state.clone()
        change.state_forwards("benchapp", changed)
        change.database_forwards("benchapp", editor, state, changed)
    with connection.schema_editor() as editor:
        for operation in operations:
            changed = state.clone()
            operation.state_forwards("benchapp", changed)
            operation.database_forwards("benchapp", editor, state, changed)
            state = changed
    install_policies()

    assert not is_refused("SELECT pool FROM benchapp_v_hosts", reader)
    assert is_refused("SELECT pool FROM benchapp_host", reader)
