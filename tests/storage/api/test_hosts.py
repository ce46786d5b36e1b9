from datetime import timedelta

import pytest
from django.test import Client
from structlog.testing import capture_logs

from benchapp.models import Host, Scope
from tests.factories import NOON, add_series, make_attempt, make_host, make_run, make_series, make_token

pytestmark = pytest.mark.django_db


def test_hosts_are_listed_by_name_without_their_tokens(reader):
    make_run(make_host("b"), error=5)
    make_token(host=make_host("a", pool="blue"))

    body = reader.get("/api/v1/hosts").json()

    assert [(host["name"], host["pool"], host["run_count"]) for host in body["hosts"]] == [
        ("a", "blue", 0),
        ("b", "", 1),
    ]
    assert body["hosts"][1]["last_run_error"] == 5
    assert body["next"] is None
    assert "token" not in str(body)


def test_queries_do_not_depend_on_the_number_of_hosts(reader, django_assert_num_queries):
    for _ in range(5):
        add_series([100.0])

    # The token, its last use, hosts, failures, last runs, marks, series; levels are read beside Django's cursor.
    with django_assert_num_queries(8):
        reader.get("/api/v1/hosts")


def test_columns_are_chosen_by_fields(reader):
    make_host("a")

    assert reader.get("/api/v1/hosts?fields=name,run_count").json()["hosts"] == [
        {"name": "a", "run_count": 0}
    ]


@pytest.mark.parametrize(
    ("query", "names"), [("pool=blue", ["a"]), ("text=B", ["a", "b"]), ("is_retired=true", ["b"])]
)
def test_hosts_are_filtered(reader, query, names):
    make_host("a", pool="blue")
    make_host("b", retired_at=NOON)

    assert [host["name"] for host in reader.get(f"/api/v1/hosts?{query}").json()["hosts"]] == names


def test_bad_cursor_is_refused(reader):
    assert reader.get("/api/v1/hosts?cursor=b").json()["code"] == "cursor-invalid"


def test_one_host(reader):
    make_host("db-7", agent_version="0.1.0")

    body = reader.get("/api/v1/hosts/DB-7").json()

    assert (body["name"], body["agent_version"]) == ("db-7", "0.1.0")
    assert (body["url"], body["page"]) == ("/api/v1/hosts/db-7", "/hosts/db-7/")


def test_host_asks_who_it_is(client_of):
    host = make_host("db-7", pool="db")

    body = client_of(Scope.INGEST, host).get("/api/v1/hosts/me").json()

    assert (body["name"], body["pool"]) == ("db-7", "db")
    assert body["server_time"].endswith("Z")


def test_only_a_host_has_a_self(reader):
    assert reader.get("/api/v1/hosts/me").status_code == 403


def test_move_to_a_pool_is_previewed(reader):
    make_series([1.0, 2.0], host=make_host("db-7"))

    body = reader.get("/api/v1/hosts/DB-7/pool-move?pool=blue").json()

    assert body == {
        "from_scope": "host:db-7",
        "to_scope": "pool:blue",
        "series": 1,
        "joined": 0,
        "shared": 0,
        "measurements": 2,
        "incidents": [],
        "joins": [],
    }
    assert reader.get("/api/v1/hosts/nobody/pool-move?pool=blue").status_code == 404
    assert reader.get("/api/v1/hosts/db-7/pool-move").json()["series"] == 0


def test_admin_sets_the_pool_and_retires_a_host(admin):
    host = make_host("db-7")
    _, plaintext = make_token(host=host)
    with capture_logs() as lines:
        changed = admin.patch(
            "/api/v1/hosts/DB-7", {"pool": "blue", "is_retired": True}, content_type="application/json"
        )
    retired = Client(headers={"Authorization": f"Bearer {plaintext}"}).get("/api/v1/hosts/me")
    restored = admin.patch(
        "/api/v1/hosts/db-7", {"is_retired": False, "pool": ""}, content_type="application/json"
    )

    assert changed.status_code == 200
    assert (changed.json()["pool"], changed.json()["retired_at"] is None) == ("blue", False)
    assert (retired.status_code, retired.json()["code"]) == (401, "host-retired")
    assert (restored.json()["pool"], restored.json()["retired_at"]) == ("", None)
    # Besides, a broker that is not there may be named.
    of_host = [line for line in lines if line["event"].startswith("host.")]
    assert [(line["event"], line["host"]) for line in of_host] == [
        ("host.pool_set", "db-7"),
        ("host.retired", "db-7"),
    ]
    assert of_host[0]["via"].startswith("bench_")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"pool": "x" * 101}, "/pool"), ({"is_retired": "maybe"}, "/is_retired"), ({"name": "db-8"}, "/name")],
)
def test_wrong_change_of_a_host_is_named_and_changes_nothing(admin, body, pointer):
    make_host("db-7", pool="blue")

    response = admin.patch("/api/v1/hosts/db-7", {"pool": "red"} | body, content_type="application/json")

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    assert Host.objects.get(name="db-7").pool == "blue"


def test_attempts_of_a_host_are_listed_newest_first_in_pages(reader):
    for number, name in enumerate(("a", "a", "a", "b")):
        host = Host.objects.filter(name=name).first() or make_host(name)
        make_attempt(host, target_name=f"/mnt/{number}", started_at=NOON + timedelta(hours=number))

    first = reader.get("/api/v1/hosts/a/attempts?limit=2").json()
    second = reader.get(first["next"]).json()

    assert [row["target_name"] for row in first["attempts"] + second["attempts"]] == [
        "/mnt/2",
        "/mnt/1",
        "/mnt/0",
    ]
    assert (first["attempts"][0]["reason_code"], second["next"]) == ("busy", None)
    assert reader.get("/api/v1/hosts/nobody/attempts").status_code == 404
