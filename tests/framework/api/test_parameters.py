"""Query parameters of every list: unknown, repeated and bad ones are refused and named."""

import json
import re
from datetime import timedelta

import pytest
from django.test import Client, RequestFactory
from rest_framework.request import Request

from benchapp.catalog.dimensions import FILTER_DIMENSIONS
from benchapp.catalog.grammar import TERMS_MAXIMUM, parse_filter
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.parameters import FilterParameters, read_parameters
from benchapp.framework.api.problems import Problem
from benchapp.models import Role, Scope
from tests.factories import (
    NOON,
    make_change,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_run,
    make_run_request,
    make_series,
    make_submission,
    make_token,
    make_user,
)

LISTS = ["/api/v1/hosts", "/api/v1/runs", "/api/v1/series", "/api/v1/submissions"]


def problem_of(client, url):
    response = client.get(url)
    assert response.status_code == 400, response.content
    assert response.headers["Content-Type"] == "application/problem+json"
    return response.json()


@pytest.mark.parametrize("url", LISTS)
def test_unknown_parameter_is_refused_with_the_valid_ones(reader, url):
    problem = problem_of(reader, f"{url}?hots=a")

    assert (problem["code"], problem["pointer"]) == ("parameter-unknown", "hots")
    assert {"cursor", "limit"} <= set(problem["valid"])
    assert problem["detail"] == f"unknown parameter 'hots'. Valid parameters: {', '.join(problem['valid'])}"


def test_view_without_parameters_takes_none(reader):
    problem = problem_of(reader, "/api/v1/series/1?x=1")

    assert (problem["code"], problem["valid"]) == ("parameter-unknown", [])


def test_parameter_given_twice_is_refused(reader):
    problem = problem_of(reader, "/api/v1/runs?host=a&host=b")

    assert (problem["code"], problem["pointer"]) == ("parameter-repeated", "host")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("from=0001-01-01T00:00:00%2B14:00", "from"),
        ("sort=id", "sort"),
        ("fields=id,secret", "fields"),
        ("has_failed=maybe", "has_failed"),
        ("host=%00", "host"),
        (f"host={'a' * 2001}", "host"),
        ("host=", "host"),
        ('host="a', "host"),
        ("iodepth=deep", "iodepth"),
        ("cursor=nonsense", "cursor"),
    ],
)
def test_bad_value_is_refused_and_named(reader, query, pointer):
    problem = problem_of(reader, f"/api/v1/runs?{query}")

    assert problem["pointer"] == pointer
    assert problem["code"] in ("parameter-invalid", "cursor-invalid")


LISTS_WITH_A_FILTER = [
    "/api/v1/series",
    "/api/v1/runs",
    "/api/v1/changes",
    "/api/v1/incidents",
    "/api/v1/matrix",
    "/api/v1/scaling",
    "/api/v1/history",
    "/api/v1/comparison?a=host:x&b=host:y",
    "/api/v1/dimensions/host/values",
]


# Every list, and every kind of value, which one parser reads for all lists.
@pytest.mark.parametrize(
    ("url", "query"),
    [
        *((url, "iodepth=deep") for url in LISTS_WITH_A_FILTER),
        *(("/api/v1/series", query) for query in ("block_size_bytes=4q", "is_direct=2", "volume_count=4..1")),
    ],
)
def test_dimension_is_refused_as_its_term_is(reader, url, query):
    name, _, value = query.partition("=")
    address = f"{url}{'&' if '?' in url else '?'}"

    own = problem_of(reader, f"{address}{query}")
    term = problem_of(reader, f"{address}q={name}:{value}")

    assert (own["code"], own["pointer"]) == ("parameter-invalid", name)
    assert own["detail"].removeprefix(f"{name}: ") == term["detail"].removeprefix("q: ")


@pytest.mark.parametrize("url", LISTS_WITH_A_FILTER)
def test_every_dimension_is_a_parameter_where_q_is_one(reader, url):
    problem = problem_of(reader, f"{url}{'&' if '?' in url else '?'}hots=a")

    assert {"q", *FILTER_DIMENSIONS} <= set(problem["valid"])


def read_match(query):
    """Return the filter of a query."""
    return read_parameters(Request(RequestFactory().get("/", query)), FilterParameters)["match"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, ""),
        ({"volume_type": "gp3"}, "volume_type:gp3"),
        ({"volume_type": "gp3,io2", "host": "db-*"}, "host:db-* volume_type:gp3,io2"),
        ({"block_size_bytes": "4k", "iodepth": ">=8"}, "block_size_bytes:4k iodepth:>=8"),
        ({"block_size_bytes": "4096", "volume_count": "1..16"}, "block_size_bytes:4k volume_count:1..16"),
        ({"filesystem": "unknown", "is_direct": "true"}, "is_direct:yes filesystem:unknown"),
        ({"pattern": "randrw read"}, 'pattern:"randrw read"'),
        ({"target_name": '"a, b",c'}, 'target_name:"a, b",c'),
        ({"q": "-fs:xfs words", "host": "a"}, "-filesystem:xfs host:a words"),
        ({"q": "host:b", "host": "a"}, "host:b host:a"),
    ],
)
def test_dimensions_are_terms_beside_q(query, text):
    assert read_match(query) == parse_filter(text)


def test_all_terms_together_have_the_maximum_of_a_filter():
    query = {"q": "iodepth:1 " * TERMS_MAXIMUM}

    assert len(read_match(query).terms) == TERMS_MAXIMUM
    with pytest.raises(Problem, match="at most 40 terms") as caught:
        read_match({**query, "host": "a"})
    assert caught.value.pointer == "q"


def test_unknown_format_is_refused(reader):
    assert problem_of(reader, "/api/v1/series?format=xml")["pointer"] == "format"


@pytest.mark.parametrize(
    "query", ["from=2026-11-21", "from=2026-11-21T10:00:00Z", "from=2026-11-21T10:00:00%2B02:00"]
)
def test_times_are_taken_as_day_or_moment(reader, query):
    assert reader.get(f"/api/v1/runs?{query}").status_code == 200


@pytest.mark.parametrize("url", ["/api/v1/series", "/api/v1/runs", "/api/v1/points", "/api/v1/history"])
def test_range_that_ends_before_it_begins_is_refused(reader, url):
    response = reader.get(url, {"from": "2026-05-12", "to": "2026-05-12"})

    assert response.status_code == 400
    assert (response.json()["pointer"], response.json()["detail"]) == ("from", "from: must be before to")


def test_cursor_of_another_list_is_refused(reader):
    assert problem_of(reader, "/api/v1/submissions?cursor=AAYO9_s-AAAAAAAAAAAABw")["code"] == "cursor-invalid"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "name"),
    [("host=%FF", "host"), ("q=a&host=%C3", "host"), ("a%20b=%ED%A0%80", "a b"), ("%FF=1", "\ufffd")],
)
def test_query_that_is_not_utf_8_is_a_400_that_names_the_parameter(reader, query, name):
    problem = reader.get(f"/api/v1/runs?{query}")
    page = reader.get(f"/runs/?{query}")

    assert (problem.status_code, problem.json()["code"]) == (400, "parameter-invalid")
    assert problem.json()["pointer"] == name
    assert page.status_code == 400
    assert f"parameter &#x27;{name}&#x27;" in page.content.decode()


@pytest.mark.django_db
def test_query_of_utf_8_is_decoded(reader):
    response = reader.get("/api/v1/runs?host=%C3%BC%F0%9F%98%80")

    assert (response.status_code, response.json()["runs"]) == (200, [])


def list_operations():
    """Return method and address of every operation that Django answers, with an id for each part of a path."""
    paths = make_schema()[0]["paths"]
    return [
        (method, re.sub(r"\{(\w+)\}", lambda part: IDS.get(part[1], "1"), path))
        for path, operations in paths.items()
        for method in operations
        # Answered before Django: tests/intake/api.
        if method in METHODS and (method, path) not in INTAKE
    ]


METHODS = {"get", "post", "put", "patch", "delete"}
# Answered before Django, with tests in tests/intake/api.
INTAKE = {
    ("post", "/api/v1/submissions"),
    ("post", "/api/v1/submissions/batch"),
    ("post", "/api/v1/fio"),
}
NO_UUID = "00000000-0000-4000-8000-000000000000"
IDS = {
    "submission_id": NO_UUID,
    "bulk": NO_UUID,
    "request_id": NO_UUID,
    "name": "db-1",
    "dimension_name": "host",
    "public_id": "0" * 12,
    "image_format": "svg",
}


def test_unknown_parameter_is_refused_by_every_operation(client_of):
    own, enroll = client_of(Scope.INGEST, make_host("me")), client_of(Scope.ENROLL)
    _, token = make_token(Scope.ADMIN, created_by=make_user(Role.ADMIN))
    admin = Client(headers={"Authorization": f"Bearer {token}"})

    accepted = []
    for method, url in list_operations():
        client = (
            own
            if re.match("/api/v1/hosts/me(/|$)", url)
            else enroll
            if url.endswith("/enrollments")
            else admin
        )
        body = {} if method == "get" else {"content_type": "application/json"}
        answer = getattr(client, method)(f"{url}?hots=1", **body)
        if (answer.status_code, answer.json().get("code")) != (400, "parameter-unknown"):
            accepted.append((method, url, answer.status_code, answer.content[:200]))

    assert accepted == []


@pytest.mark.parametrize("url", ["/api/v1/runs", "/api/v1/series", "/api/v1/points"])
def test_invalid_sort_lists_the_valid_ones(reader, url):
    problem = problem_of(reader, f"{url}?sort=size")

    assert "'size' is not a valid value. Valid values: " in problem["detail"]
    assert "started_at" in problem["detail"] or "last_at" in problem["detail"]


@pytest.mark.parametrize("since", ["-7d", "2026-11-14", "1794657600", "1794657600000", "2026-11-14T12:00Z"])
def test_time_of_every_form_bounds_the_points(reader, since, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON)
    series = make_series([1.0])
    make_measurement(make_run(started_at=NOON - timedelta(days=8)), series, iops=2.0)

    for address in (f"/api/v1/series/{series.pk}/points", "/api/v1/points", "/api/v1/history"):
        points = reader.get(address, {"from": since, "metrics": "iops"})
        rows = json.loads(b"".join(points.streaming_content) if points.streaming else points.content)[
            "points"
        ]
        assert [row["iops"] for row in rows] == [1.0]


# Lists of what is configured, which is not of a time: the present state of all of it.
_CONFIGURATION = {"detection-policies", "links", "schedules", "studies", "tokens", "wanted-schedules"}


def test_every_list_of_events_takes_from_and_to_and_no_synonym() -> None:
    lists = {
        path.removeprefix("/api/v1/"): {each["name"] for each in item["get"]["parameters"]}
        for path, item in make_schema()[0]["paths"].items()
        if any(each["name"] == "cursor" for each in item.get("get", {}).get("parameters", ()))
    }

    assert {path for path, names in lists.items() if not {"from", "to"} <= names} == _CONFIGURATION
    assert not {"since", "until"} & set().union(*lists.values())


def test_range_of_a_list_is_that_of_its_rows(reader) -> None:
    host = make_host("db-1")
    series = make_series([1.0], host=host)
    make_incident(changes=[make_change(series, at=NOON)], started_at=NOON)
    make_planned_event(from_at=NOON, to_at=NOON + timedelta(hours=1))
    make_run_request(host, created_at=NOON)
    make_submission(host, received_at=NOON)
    rows = {
        "changes": "changes",
        "hosts": "hosts",
        "hosts/db-1/requests": "requests",
        "incidents": "incidents",
        "planned-events": "planned_events",
        "runs": "runs",
        "series": "series",
        "submissions": "submissions",
    }

    def count(path: str, **bounds: str) -> int:
        return len(reader.get(f"/api/v1/{path}", bounds).json()[rows[path]])

    day = {"from": "2026-11-21", "to": "2026-11-22"}
    assert {path for path in rows if not count(path, **day)} == set()
    assert {path for path in rows if count(path, **{"from": "2026-11-23"})} == set()
    assert {path for path in rows if count(path, to="2026-11-21")} == set()


def test_every_answer_has_an_etag_and_is_not_sent_again(client_of):
    own, admin = client_of(Scope.INGEST, make_host("me")), client_of(Scope.ADMIN)
    make_incident(changes=[make_change(make_series([1.0]))])
    unknown = []
    for method, url in list_operations():
        client = own if url == "/api/v1/hosts/me" else admin
        if method != "get":
            continue
        answer = client.get(url)
        if answer.streaming:
            answer.close()  # its cursor must not wait for the garbage collector, which may run amid another query
        if answer.status_code != 200 or answer.streaming:
            continue
        again = client.get(url, headers={"If-None-Match": answer.headers.get("ETag", "")})
        if again.status_code != 304 and "server_time" not in answer.json():
            unknown.append(url)

    assert unknown == []


@pytest.mark.parametrize("moment", ["-30d", "%20-30d", "-30d%20"])
def test_answer_about_a_time_relative_to_now_is_sent_again(moment, reader, monkeypatch):
    series = make_series([1.0])
    address = f"/api/v1/series/{series.pk}/points?from={moment}"
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON)
    etag = reader.get(address).headers["ETag"]
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(days=40))

    answer = reader.get(address, headers={"If-None-Match": etag})

    assert (answer.status_code, answer.json()["points"]) == (200, [])
