"""A host tells what it runs by itself; readers see when it is expected and when it is silent."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.models import Scope
from tests.factories import make_host, make_run

pytestmark = pytest.mark.django_db

OWN = "/api/v1/hosts/me/schedule"
ENTRY = {"profile": "quick", "every_s": 21600, "splay_s": 600, "directory": "/data"}


@pytest.fixture
def host():
    return make_host("db-7")


@pytest.fixture
def tell(client_of, host):
    """Give a function that puts a body as the host."""
    client = client_of(Scope.INGEST, host)
    return lambda body: client.put(OWN, body, content_type="application/json")


def test_host_tells_its_schedule_and_readers_see_it(tell, reader, host):
    told = tell({"entries": [ENTRY]})

    assert told.status_code == 200
    (entry,) = told.json()["entries"]
    assert {name: entry[name] for name in ENTRY} == ENTRY
    body = reader.get("/api/v1/hosts/db-7").json()
    assert body["schedule"]["entries"][0]["every_s"] == 21600
    assert body["schedule"]["reported_by"].startswith("bench_")
    assert body["expected_at"] == entry["expected_at"] is not None
    assert body["silent_since"] is None


def test_host_that_told_nothing_has_no_schedule(reader, host):
    body = reader.get("/api/v1/hosts/db-7").json()

    assert (body["schedule"], body["expected_at"], body["silent_since"]) == (None, None, None)


def test_empty_schedule_is_one_with_nothing_to_expect(tell, reader):
    tell({"entries": [ENTRY]})

    assert tell({"entries": []}).status_code == 200
    body = reader.get("/api/v1/hosts/db-7").json()
    assert (body["schedule"]["entries"], body["expected_at"]) == ([], None)


def test_silent_host_says_since_when(reader, host):
    now = timezone.now()
    host.schedule, host.schedule_since_at = [ENTRY], now - timedelta(days=9)
    host.save(update_fields=["schedule", "schedule_since_at"])
    make_run(host, profile="quick", started_at=now - timedelta(days=2))

    (listed,) = reader.get("/api/v1/hosts").json()["hosts"]

    (entry,) = listed["schedule"]["entries"]
    since = now - timedelta(days=2) + timedelta(hours=6, minutes=10) + timedelta(hours=1, minutes=30)
    assert listed["silent_since"] == entry["silent_since"]
    assert listed["silent_since"][:19] == since.isoformat()[:19]
    assert listed["expected_at"] is None


def test_splay_is_none_where_it_is_left_out(tell):
    entry = {name: ENTRY[name] for name in ("profile", "every_s", "directory")}

    assert tell({"entries": [entry]}).json()["entries"][0]["splay_s"] == 0


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/entries", "value-invalid"),
        ([], None, "value-invalid"),
        ({"entries": {}}, "/entries", "value-invalid"),
        ({"entries": ["quick"]}, "/entries/0", "value-invalid"),
        ({"entries": [ENTRY] * 101}, "/entries", "value-invalid"),
        ({"entries": [], "name": "x"}, "/name", "member-unknown"),
        ({"entries": [ENTRY, {**ENTRY, "every": 5}]}, "/entries/1/every", "value-invalid"),
        ({"entries": [{**ENTRY, "every_s": 59}]}, "/entries/0/every_s", "value-invalid"),
        ({"entries": [{**ENTRY, "every_s": 10**30}]}, "/entries/0/every_s", "value-invalid"),
        ({"entries": [{**ENTRY, "every_s": "6h"}]}, "/entries/0/every_s", "value-invalid"),
        ({"entries": [{**ENTRY, "splay_s": -1}]}, "/entries/0/splay_s", "value-invalid"),
        ({"entries": [{**ENTRY, "splay_s": 21600}]}, "/entries/0/splay_s", "value-invalid"),
        ({"entries": [{**ENTRY, "profile": ""}]}, "/entries/0/profile", "value-invalid"),
        ({"entries": [{**ENTRY, "profile": "x" * 101}]}, "/entries/0/profile", "value-invalid"),
        ({"entries": [{**ENTRY, "directory": "/a\x00b"}]}, "/entries/0/directory", "value-invalid"),
        ({"entries": [{**ENTRY, "directory": "/" + "x" * 4096}]}, "/entries/0/directory", "value-invalid"),
        ({"entries": [{**ENTRY, "directory": None}]}, "/entries/0/directory", "value-invalid"),
    ],
)
def test_what_is_no_schedule_is_refused_and_changes_nothing(tell, host, body, pointer, code):
    response = tell(body)

    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert (response.json()["code"], response.json().get("pointer")) == (code, pointer)
    host.refresh_from_db()
    assert host.schedule is None


def test_only_a_host_tells_its_schedule(reader, admin):
    for client in (reader, admin):
        assert client.put(OWN, {"entries": []}, content_type="application/json").status_code == 403


def test_list_of_hosts_takes_one_query_more_for_their_schedules(reader, django_assert_num_queries):
    for _ in range(5):
        make_host(schedule=[ENTRY], schedule_since_at=timezone.now())

    # The token, its last use, hosts, failures, last scheduled runs, last runs, marks, audit records, series.
    with django_assert_num_queries(9):
        reader.get("/api/v1/hosts")
