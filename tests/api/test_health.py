import shutil
from unittest.mock import ANY

import pytest
from django.db import OperationalError, connection
from django.test import override_settings

from benchapp.api.ingest.limits import find_shortage
from benchapp.models import State
from benchapp.queries.missing_columns import check_columns
from tests.factories import make_host, make_run, make_submission


def test_process_is_alive_without_any_database(client):
    response = client.get("/healthz")

    assert response.json() == {"status": "ok", "instance": "tests"}


@pytest.fixture(autouse=True)
def without_data_directory(settings, tmp_path):
    settings.DATA_DIR = tmp_path / "none"


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_ready_without_a_broker(client):
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {"status": "ok", "database": "ok", "broker": "none", "disk": {"status": "none"}}


@pytest.mark.django_db
@override_settings(BROKER_URL="redis+socket:///nowhere/valkey.sock?virtual_host=0")
def test_broker_that_is_away_is_degraded_and_ready(client):
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {
        "status": "degraded",
        "database": "ok",
        "broker": "away",
        "disk": {"status": "none"},
    }


@pytest.mark.django_db
def test_broker_that_answers_is_ok(client, valkey_server):
    with override_settings(BROKER_URL=valkey_server.url):
        response = client.get("/readyz")

    assert response.json() == {"status": "ok", "database": "ok", "broker": "ok", "disk": {"status": "none"}}


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_database_behind_the_code_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(
        "benchapp.api.health._list_migrations", lambda: frozenset({("benchapp", "9999_to_come")})
    )

    response = client.get("/readyz")

    assert (response.status_code, response.json()["database"]) == (503, "not-migrated")


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_migrated_database_that_lacks_a_column_is_not_ready_and_the_log_names_it(client, caplog):
    check_columns.cache_clear()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE benchapp_submission DROP COLUMN scope")

    response = client.get("/readyz")

    assert (response.status_code, response.json()["database"]) == (503, "columns-missing")
    assert "benchapp_submission.scope" in caplog.text


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_columns_are_read_once_by_a_process_whose_database_has_them(client, django_assert_num_queries):
    check_columns.cache_clear()
    client.get("/readyz")

    with django_assert_num_queries(2) as asked:
        client.get("/readyz")

    assert not any("attname" in query["sql"] for query in asked.captured_queries)


@override_settings(BROKER_URL="")
def test_database_that_is_away_is_not_ready(client, monkeypatch):
    def refuse(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr("django.db.backends.base.base.BaseDatabaseWrapper.ensure_connection", refuse)

    response = client.get("/readyz")

    assert (response.status_code, response.json()["status"]) == (503, "unavailable")
    assert response.headers["Retry-After"] == "15"


@pytest.mark.django_db
def test_metrics_count_what_there_is(reader):
    make_run(make_host("a"))
    make_submission(state=State.RECEIVED)

    lines = reader.get("/metrics").content.decode().splitlines()

    assert 'benchapp_submissions{state="received"} 1.0' in lines
    assert 'benchapp_submissions{state="rejected"} 0.0' in lines
    assert "benchapp_runs 1.0" in lines
    assert "benchapp_hosts 2.0" in lines
    assert any(line.startswith("benchapp_oldest_received_age_seconds ") for line in lines)


@pytest.mark.django_db
def test_metrics_are_for_who_may_read(client):
    assert client.get("/metrics").status_code == 401
    with override_settings(PUBLIC_READ=True):
        assert client.get("/metrics").status_code == 200


@pytest.fixture
def disk(settings, tmp_path, monkeypatch):
    """Give what sets the free space of the data directory's disk."""
    settings.DATA_DIR = tmp_path
    settings.DISK_RESERVE_BYTES = 1000

    def set_free(free_bytes):
        usage = shutil.disk_usage(tmp_path)._replace(free=free_bytes)
        monkeypatch.setattr("benchapp.api.ingest.limits.shutil.disk_usage", lambda path: usage)

    return set_free


@pytest.mark.django_db
@override_settings(BROKER_URL="")
@pytest.mark.parametrize(
    ("free_bytes", "status", "disk_status"), [(999, "degraded", "disk-low"), (1000, "ok", "ok")]
)
def test_disk_that_is_low_is_degraded_and_ready(client, disk, tmp_path, free_bytes, status, disk_status):
    disk(free_bytes)

    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json()["status"] == status
    assert response.json()["disk"] == {
        "status": disk_status,
        "path": str(tmp_path),
        "free_bytes": free_bytes,
        "reserve_bytes": 1000,
    }


@pytest.mark.django_db
@pytest.mark.parametrize(("free_bytes", "is_low"), [(999, 1), (1000, 0)])
def test_metrics_tell_when_results_are_refused_for_the_disk(reader, disk, free_bytes, is_low):
    disk(free_bytes)

    lines = reader.get("/metrics").content.decode().splitlines()

    assert f"benchapp_disk_low {is_low}.0" in lines
    assert f"benchapp_disk_free_bytes {free_bytes}.0" in lines
    assert "benchapp_disk_reserve_bytes 1000.0" in lines
    assert (find_shortage() == ("disk-low", ANY)) is bool(is_low)


@pytest.mark.django_db
def test_metrics_have_no_disk_where_there_is_no_data_directory(reader):
    assert "benchapp_disk" not in reader.get("/metrics").content.decode()
