"""What series differ in, and filters in the API."""

import pytest

from benchapp.catalog.dimensions import FILTER_DIMENSIONS
from benchapp.catalog.grammar import parse_filter
from tests.factories import make_host, make_measurement, make_run, make_series, make_target

pytestmark = pytest.mark.django_db


def test_dimensions_are_listed_with_names_and_examples(reader):
    rows = reader.get("/api/v1/dimensions").json()["dimensions"]

    assert [row["name"] for row in rows] == list(FILTER_DIMENSIONS)
    block = next(row for row in rows if row["name"] == "block_size_bytes")
    assert (block["label"], block["kind"], block["short"]) == ("Block size", "size", "bs")
    assert block["aliases"] == ["bs", "block_size"]
    assert block["values"] == "/api/v1/dimensions/block_size_bytes/values"


def test_labels_of_runs_are_dimensions_and_their_values_are_counted_in_runs(reader):
    host = make_host("db-01")
    for rack, profile in (("r1", "nightly"), ("r1", "weekly"), ("r2", "nightly")):
        make_run(host, labels={"rack": rack}, profile=profile)

    *_, last = reader.get("/api/v1/dimensions").json()["dimensions"]
    answer = reader.get(last["values"], {"profile": "nightly,weekly", "q": "label.rack:r1"}).json()

    assert (last["name"], last["group"], last["short"]) == ("label.rack", "run", "label.rack")
    assert [(row["value"], row["runs"], row["series"], row["is_chosen"]) for row in answer["values"]] == [
        ("r1", 2, None, True),
        ("r2", 1, None, False),
    ]
    assert answer["values"][1]["q"] == "profile:nightly,weekly label.rack:r2"
    assert (answer["count"], answer["is_partial"]) == (2, False)


def test_label_whose_name_cannot_be_in_a_filter_is_not_offered(reader):
    make_run(make_host("db-01"), labels={"a b": "1", "a:b": "1", 'a"b': "1", "a,b": "1", "<a>": "1"})

    rows = reader.get("/api/v1/dimensions").json()["dimensions"]

    assert [row["name"] for row in rows if row["group"] == "run"] == ["profile", "sweep", "label.<a>"]
    assert reader.get("/api/v1/dimensions/label.a%20b/values").status_code == 404
    assert reader.get(rows[-1]["values"].replace("<a>", "%3Ca%3E")).json()["values"][0]["q"] == "label.<a>:1"


@pytest.mark.parametrize("name", ["app/branch", "a%2Fb", "a?b#c", "a/values", "ä"])
def test_label_with_special_characters_in_its_name_has_a_valid_address(reader, name):
    make_run(make_host("db-01"), labels={name: "main"})

    *_, row = reader.get("/api/v1/dimensions").json()["dimensions"]
    answer = reader.get(row["values"])

    assert (answer.status_code, row["name"]) == (200, f"label.{name}")
    assert [(value["value"], value["q"]) for value in answer.json()["values"]] == [
        ("main", f"label.{name}:main")
    ]


def test_every_example_is_of_the_filters_language(reader):
    rows = reader.get("/api/v1/dimensions").json()["dimensions"]

    for row in rows:
        for example in row["examples"]:
            assert [term.dimension for term in parse_filter(example).terms] == [row["name"]]


def test_values_come_with_counts_and_with_the_filter_that_takes_them(reader):
    make_series([1.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))
    make_series([1.0], host=make_host("db-02"), target=make_target(volume_type="a b"))

    answer = reader.get("/api/v1/dimensions/type/values?q=host:db-02 type:gp3").json()

    assert answer == {
        "dimension": "volume_type",
        "values": [
            {
                "value": "a b",
                "text": '"a b"',
                "label": "a b",
                "series": 1,
                "runs": None,
                "is_chosen": False,
                "q": 'host:db-02 volume_type:"a b"',
            }
        ],
        "count": 1,
        "is_cut": False,
        "is_partial": False,
    }


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/dimensions/speed/values", 404, "'speed' is not a valid dimension. Available: host,"),
        ("/api/v1/dimensions/bs/values?q=bs:fast", 400, "q: block_size_bytes:fast is not a valid size"),
        ("/api/v1/dimensions/bs/values?limit=201", 400, "limit: "),
        ("/api/v1/dimensions?q=bs:4k", 400, "unknown parameter 'q'"),
        ("/api/v1/series?q=speed:4", 400, "q: Unknown filter 'speed'"),
        ("/api/v1/runs?q=speed:4", 400, "q: Unknown filter 'speed'"),
        ("/api/v1/series?q=" + "a" * 2001, 400, "q: "),
    ],
)
def test_invalid_request_names_the_problem(path, status, detail, reader):
    response = reader.get(path)

    assert response.status_code == status
    assert detail in response.json()["detail"]


@pytest.mark.parametrize(
    ("query", "count"),
    [("q=type:gp3", 1), ("q=-type:gp3", 1), ("q=type:gp*,io2 host:db-*&rw=randread", 2), ("q=", 2)],
)
def test_series_and_runs_take_the_same_filter(query, count, reader):
    for name, kind in (("db-01", "gp3"), ("db-02", "io2")):
        host, target = make_host(name), make_target(volume_type=kind)
        make_measurement(make_run(host, target=target), iops=1.0)

    assert len(reader.get(f"/api/v1/series?{query}").json()["series"]) == count
    assert len(reader.get(f"/api/v1/runs?{query}").json()["runs"]) == count


def test_values_take_one_query_beside_the_token(reader, django_assert_num_queries):
    make_series([1.0])

    with django_assert_num_queries(3):
        reader.get("/api/v1/dimensions/host/values")
