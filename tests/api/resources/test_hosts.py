import pytest

from benchapp.models import Scope
from tests.factories import NOON, add_series, make_host, make_run, make_token

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

    # The token, its last use, hosts, last runs, marks, series; levels are read beside Django's cursor.
    with django_assert_num_queries(6):
        reader.get("/api/v1/hosts")


def test_pages_of_hosts_follow_each_other(reader):
    for name in ("a", "b", "c"):
        make_host(name)

    first = reader.get("/api/v1/hosts?limit=2").json()
    second = reader.get(first["next"]).json()

    assert [host["name"] for host in (*first["hosts"], *second["hosts"])] == ["a", "b", "c"]


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


def test_one_host(reader):
    make_host("db-7", agent_version="0.1.0")

    body = reader.get("/api/v1/hosts/DB-7").json()

    assert (body["name"], body["agent_version"]) == ("db-7", "0.1.0")
    assert (body["url"], body["page"]) == ("/api/v1/hosts/db-7", "/hosts/db-7/")


def test_unknown_host_is_named(reader):
    response = reader.get("/api/v1/hosts/nobody")

    assert response.status_code == 404
    assert response.json()["detail"] == "host 'nobody' does not exist"


def test_host_asks_who_it_is(client_of):
    host = make_host("db-7", pool="db")

    body = client_of(Scope.INGEST, host).get("/api/v1/hosts/me").json()

    assert (body["name"], body["pool"]) == ("db-7", "db")
    assert body["server_time"].endswith("Z")


def test_only_a_host_has_a_self(reader):
    assert reader.get("/api/v1/hosts/me").status_code == 403
