import pytest
from django.db import OperationalError, connection
from django.test import override_settings

from benchapp.models import State
from benchapp.queries.missing_columns import check_columns
from tests.factories import make_host, make_run, make_submission


def test_process_is_alive_without_any_database(client):
    response = client.get("/healthz")

    assert response.json() == {"status": "ok", "instance": "tests"}


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_ready_without_a_broker(client):
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {"status": "ok", "database": "ok", "broker": "none"}


@pytest.mark.django_db
@override_settings(BROKER_URL="redis+socket:///nowhere/valkey.sock?virtual_host=0")
def test_broker_that_is_away_is_degraded_and_ready(client):
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {"status": "degraded", "database": "ok", "broker": "away"}


@pytest.mark.django_db
def test_broker_that_answers_is_ok(client, valkey_server):
    with override_settings(BROKER_URL=valkey_server.url):
        response = client.get("/readyz")

    assert response.json() == {"status": "ok", "database": "ok", "broker": "ok"}


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
