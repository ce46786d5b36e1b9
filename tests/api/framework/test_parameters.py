"""Query parameters of every list: unknown, repeated and bad ones are refused and named."""

import pytest

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
    problem = problem_of(reader, "/api/v1/runs/1?x=1")

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
        (f"host={'a' * 254}", "host"),
        ("cursor=nonsense", "cursor"),
    ],
)
def test_bad_value_is_refused_and_named(reader, query, pointer):
    problem = problem_of(reader, f"/api/v1/runs?{query}")

    assert problem["pointer"] == pointer
    assert problem["code"] in ("parameter-invalid", "cursor-invalid")


@pytest.mark.parametrize(
    "query",
    ["iodepth=99999999999", "iodepth=-1", "block_size_bytes=4k", "direction=up", "format=xml", "is_direct=2"],
)
def test_bad_value_of_a_series_filter_is_refused(reader, query):
    assert problem_of(reader, f"/api/v1/series?{query}")["pointer"] == query.partition("=")[0]


@pytest.mark.parametrize(
    "query", ["from=2026-11-21", "from=2026-11-21T10:00:00Z", "from=2026-11-21T10:00:00%2B02:00"]
)
def test_times_are_taken_as_day_or_moment(reader, query):
    assert reader.get(f"/api/v1/runs?{query}").status_code == 200


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
