import re
import shutil
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest
from django.db import OperationalError, connection
from django.test import override_settings
from django.utils import timezone

from benchapp.charts.read.history import LINES_DEFAULT
from benchapp.framework.readiness import check_columns
from benchapp.intake.api.posts import find_shortage
from benchapp.models import SAMPLE_HOST, Heartbeat, Notice, PinnedChart, Pulse, State
from tests.factories import (
    add_series,
    make_change,
    make_host,
    make_incident,
    make_run,
    make_series,
    make_submission,
    make_user,
)
from tests.received_notices import make_subscription

OPERATIONS = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


def test_process_is_alive_without_any_database(client):
    response = client.get("/healthz")

    assert response.json() == {"status": "ok", "instance": "tests"}


@pytest.fixture(autouse=True)
def without_data_directory(settings, tmp_path):
    settings.DATA_DIR = tmp_path / "none"


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_ready_without_a_broker(client):
    Heartbeat.objects.record(Pulse.WORKER)

    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "can_store": True,
        "database": "ok",
        "broker": "none",
        "worker": "ok",
        "beat": "none",
        "oldest_waiting_s": 0.0,
        "disk": {"status": "none"},
    }


@pytest.mark.django_db
@override_settings(BROKER_URL="redis+socket:///nowhere/valkey.sock?virtual_host=0")
def test_broker_that_is_away_is_degraded_and_ready(client):
    Heartbeat.objects.record(Pulse.WORKER)

    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json() | {"status": "degraded", "can_store": True, "broker": "away"} == response.json()


@pytest.mark.django_db
def test_without_a_worker_results_are_accepted_and_not_stored(client, valkey_server):
    Heartbeat.objects.record(Pulse.BEAT)
    with override_settings(BROKER_URL=valkey_server.url):
        response = client.get("/readyz")

    assert response.status_code == 200
    expected = {"status": "degraded", "can_store": False, "broker": "ok", "worker": "silent", "beat": "ok"}
    assert response.json() | expected == response.json()


@pytest.mark.django_db
def test_beat_whose_tasks_reach_no_worker_is_degraded_and_can_store(client, valkey_server):
    Heartbeat.objects.record(Pulse.WORKER)
    with override_settings(BROKER_URL=valkey_server.url):
        response = client.get("/readyz")

    expected = {"status": "degraded", "can_store": True, "worker": "ok", "beat": "silent"}
    assert response.json() | expected == response.json()


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_submission_that_waits_for_more_than_five_minutes_is_degraded(client):
    Heartbeat.objects.record(Pulse.WORKER)
    make_submission(state=State.RECEIVED, received_at=timezone.now() - timedelta(minutes=6))

    answer = client.get("/readyz").json()

    assert (answer["status"], answer["can_store"]) == ("degraded", True)
    assert 360 <= answer["oldest_waiting_s"] < 420


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_database_behind_the_code_is_not_ready(client, monkeypatch):
    monkeypatch.setattr(
        "benchapp.framework.readiness._list_migrations", lambda: frozenset({("benchapp", "9999_to_come")})
    )

    response = client.get("/readyz")

    assert (response.status_code, response.json()["database"]) == (503, "not-migrated")


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_migrated_database_that_lacks_a_column_is_not_ready_and_the_log_names_it(client, caplog):
    check_columns.cache_clear()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE benchapp_submission DROP COLUMN scope CASCADE")

    response = client.get("/readyz")

    assert (response.status_code, response.json()["database"]) == (503, "columns-missing")
    assert "benchapp_submission.scope" in caplog.text


@pytest.mark.django_db
@override_settings(BROKER_URL="")
def test_columns_are_read_once_by_a_process_whose_database_has_them(client, django_assert_num_queries):
    check_columns.cache_clear()
    client.get("/readyz")

    with django_assert_num_queries(4) as asked:
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
    make_host("retired", retired_at=timezone.now())
    make_host(SAMPLE_HOST)
    make_submission(state=State.RECEIVED)

    lines = reader.get("/metrics").content.decode().splitlines()

    assert 'benchapp_submissions{state="received"} 1.0' in lines
    assert 'benchapp_submissions{state="rejected"} 0.0' in lines
    assert "benchapp_runs 1.0" in lines
    assert "benchapp_hosts 2.0" in lines
    assert any(line.startswith("benchapp_oldest_received_age_seconds ") for line in lines)


@pytest.mark.django_db
def test_metrics_are_openmetrics_for_who_accepts_it(reader):
    accept = "application/openmetrics-text; version=1.0.0"

    answer, plain = reader.get("/metrics", headers={"Accept": accept}), reader.get("/metrics")

    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.content.endswith(b"\n# EOF\n")
    assert plain.headers["Content-Type"].startswith("text/plain")
    assert b"# EOF" not in plain.content
    assert "Accept" in answer.headers["Vary"]


@pytest.mark.django_db
def test_metrics_count_what_waits_and_what_is_wrong(reader):
    hourly = [{"profile": "", "every_s": 3600, "splay_s": 0, "directory": "/"}]
    host = make_host("db-1", schedule=hourly, schedule_since_at=timezone.now() - timedelta(days=30))
    series = make_series([1.0], host=host)
    make_incident(changes=[make_change(series)], severity="high")
    make_incident(severity="low", state="resolved", verdict="noise")
    due = timezone.now() - timedelta(seconds=90)
    Notice.objects.create(subscription=make_subscription(), key="test", not_before_at=due, created_at=due)

    lines = dict(line.rsplit(" ", 1) for line in reader.get("/metrics").content.decode().splitlines())

    assert lines['benchapp_open_incidents{severity="high"}'] == "1.0"
    assert lines['benchapp_open_incidents{severity="low"}'] == "0.0"
    assert lines['benchapp_notices{state="waiting"}'] == "1.0"
    assert lines['benchapp_notices{state="failed"}'] == "0.0"
    assert float(lines["benchapp_oldest_notice_age_seconds"]) >= 90
    assert (lines["benchapp_silent_hosts"], lines["benchapp_series_to_evaluate"]) == ("1.0", "1.0")


@pytest.mark.django_db
def test_metrics_have_the_pinned_series_and_no_more_than_a_hundred(reader, monkeypatch):
    owner, hosts = make_user(), [make_host(f'db-"{number}"') for number in range(3)]
    first, second, _ = (add_series([10.0, 20.0, 30.0], host=host) for host in hosts)
    for query in (f"series={second.pk}", 'q=host:"db-""0"""', "q=host:[:", f"series={second.pk},x"):
        PinnedChart.objects.create(owner=owner, position=1, kind="history", query=query)
    PinnedChart.objects.create(owner=owner, position=2, kind="scaling", query="")

    text = reader.get("/metrics").content.decode()
    lines = [line for line in text.splitlines() if line.startswith("benchapp_pinned_series_level_median{")]
    monkeypatch.setattr("benchapp.reports.read.PINNED_SERIES_MAXIMUM", 1)
    bounded = reader.get("/metrics").content.decode()

    assert len(lines) == 2
    assert all(line.endswith(" 20.0") for line in lines)
    assert f'series="{first.pk}"' in lines[1]
    assert 'scope="host:db-\\"0\\""' in lines[1]
    assert (
        f'benchapp_pinned_series_last_value{{metric="iops",scope="host:db-\\"1\\"",series="{second.pk}"'
        in text
    )
    assert bounded.count("benchapp_pinned_series_level_median{") == 1


@pytest.mark.django_db
def test_metrics_of_a_pinned_chart_without_a_filter_have_the_series_that_it_shows(reader):
    for number in range(8):
        add_series([10.0], host=make_host(f"db-{number}"))
    PinnedChart.objects.create(owner=make_user(), position=1, kind="history", query="")

    text = reader.get("/metrics").content.decode()

    assert text.count("benchapp_pinned_series_last_value{") == LINES_DEFAULT
    assert "benchapp_pinned_series_omitted 0.0" in text.splitlines()


@pytest.mark.django_db
def test_pinned_series_are_left_out_if_their_filters_take_too_long(reader, monkeypatch):
    def choose_slowly(*_, **__):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")

    add_series([10.0], host=make_host("db-1"))
    PinnedChart.objects.create(owner=make_user(), position=1, kind="history", query="")
    monkeypatch.setattr("benchapp.reports.read.SERIES_TIMEOUT_S", 0.01)
    monkeypatch.setattr("benchapp.reports.read.choose_series", choose_slowly)

    answer = reader.get("/metrics")

    lines = answer.content.decode().splitlines()
    assert answer.status_code == 200
    assert "benchapp_pinned_series_omitted 1.0" in lines
    assert not [line for line in lines if line.startswith("benchapp_pinned_series_last_value")]
    assert [line for line in lines if line.startswith("benchapp_runs ")]


@pytest.fixture
def disk(settings, tmp_path, monkeypatch):
    """Give what sets the free space of the data directory's disk."""
    settings.DATA_DIR = tmp_path
    settings.DISK_RESERVE_BYTES = 1000

    def set_free(free_bytes):
        usage = shutil.disk_usage(tmp_path)._replace(free=free_bytes)
        monkeypatch.setattr("benchapp.framework.readiness.shutil.disk_usage", lambda path: usage)

    return set_free


@pytest.mark.django_db
@override_settings(BROKER_URL="")
@pytest.mark.parametrize(
    ("free_bytes", "status", "disk_status"), [(999, "degraded", "disk-low"), (1000, "ok", "ok")]
)
def test_disk_that_is_low_is_degraded_and_ready(client, disk, tmp_path, free_bytes, status, disk_status):
    disk(free_bytes)
    Heartbeat.objects.record(Pulse.WORKER)

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


@pytest.mark.django_db
def test_every_metric_is_documented(reader, disk):
    owner, series = make_user(), add_series([10.0])
    PinnedChart.objects.create(owner=owner, position=1, kind="history", query=f"series={series.pk}")
    documented = re.findall(
        r"`(\w+)(?:\{\w+\})?`", OPERATIONS.partition("## Metrics")[2].partition("\n## ")[0]
    )

    lines = reader.get("/metrics").content.decode().splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}

    prefix = "benchapp_pinned_series"
    assert names == {
        prefix + name if name.startswith("_") else name
        for name in documented
        if name not in ("metric", "Accept")
    }
