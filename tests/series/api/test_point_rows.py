import csv
import io
import json
from datetime import timedelta

import pytest

from benchapp.models import Run
from benchapp.series.read.points import MEASUREMENT_COLUMNS
from tests.factories import (
    NOON,
    make_environment,
    make_host,
    make_measurement,
    make_points,
    make_run,
    make_series,
    make_target,
)

pytestmark = pytest.mark.django_db
URL = "/api/v1/points"


def read(client, query=""):
    response = client.get(f"{URL}?{query}")
    assert response.status_code == 200, response.json()
    return response.getvalue()


def read_points(client, query=""):
    body = json.loads(read(client, query))
    assert body["count"] == len(body["points"])
    return body["points"]


def read_csv(client, query=""):
    text = read(client, f"format=csv&{query}").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_point_has_the_facts_of_its_run_series_and_environment(reader):
    host = make_host("db-7", pool="db")
    series = make_series(pool="db", target=make_target(volume_type="gp3", volume_count=4))
    run = make_run(host, environment=make_environment(kernel="6.5.1"), labels={"rack": "r1"})
    make_measurement(run, series, iops=1000.0, latency_p99_ns=None, badges=[{"code": "too-short"}])

    (point,) = read_points(reader)

    assert (point["series"], point["run"], point["started_at"]) == (series.id, run.id, "2026-11-21T12:00:00Z")
    assert (point["host"], point["pool"], point["labels"]) == ("db-7", "db", {"rack": "r1"})
    assert (point["pattern"], point["direction"], point["block_size_bytes"]) == ("randread", "read", 4096)
    assert (point["volume_type"], point["volume_count"], point["kernel"]) == ("gp3", 4, "6.5.1")
    assert (point["iops"], point["latency_p99_ns"]) == (1000.0, None)
    assert (point["badges"], point["error"], point["is_excluded"]) == (["too-short"], 0, False)


def test_json_has_every_column(reader):
    make_series([1.0])

    (point,) = read_points(reader)

    assert set(point) == set(MEASUREMENT_COLUMNS)


def test_all_points_come_without_a_limit(reader):
    series = make_series()
    make_points(series, make_run(), [NOON + timedelta(minutes=index) for index in range(2500)], iops=float)

    points = read_points(reader, "metrics=iops&fields=series")

    assert [point["iops"] for point in points] == [float(index) for index in range(2500)]


def test_points_are_ordered_by_series_and_then_by_time(reader):
    first, second = make_series([1.0, 2.0]), make_series([3.0, 4.0], start_at=NOON - timedelta(days=1))

    assert [point["iops"] for point in read_points(reader)] == [1.0, 2.0, 3.0, 4.0]
    assert [point["iops"] for point in read_points(reader, "sort=started_at")] == [3.0, 4.0, 1.0, 2.0]
    newest = read_points(reader, "sort=-started_at&limit=1")
    assert [point["series"] for point in newest] == [first.id]
    assert second.id > first.id


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("q=host:db-1", [1.0]),
        ("host=db-*", [1.0, 2.0]),
        ("q=-host:db-1", [2.0]),
        ("volume_type=gp3", [1.0]),
        ("kernel=6.5*", [2.0]),
        ("q=volume_type:gp3 kernel:6.5*", []),
        ("q=randread", [1.0, 2.0]),
        ("from=2026-11-21T13:00:00Z", [2.0]),
        ("to=2026-11-21T13:00:00Z", [1.0]),
    ],
)
def test_points_are_filtered(reader, query, values):
    make_series([1.0], host=make_host("db-1"), target=make_target(volume_type="gp3"))
    other = make_series(host=make_host("db-2"), target=make_target(volume_type="io2"))
    run = make_run(
        other.host, started_at=NOON + timedelta(hours=1), environment=make_environment(kernel="6.5.0")
    )
    make_measurement(run, other, iops=2.0)

    assert [point["iops"] for point in read_points(reader, query)] == values


def test_points_of_series_by_id(reader):
    first, _, third = (make_series([value]) for value in (1.0, 2.0, 3.0))

    points = read_points(reader, f"series={third.id},{first.id}")

    assert [point["iops"] for point in points] == [1.0, 3.0]


def test_a_filter_by_host_finds_the_runs_of_that_host_in_the_series_of_a_pool(reader):
    series = make_series(pool="db")
    for name, value in (("db-1", 1.0), ("db-2", 2.0)):
        make_measurement(make_run(make_host(name, pool="db")), series, iops=value)

    assert [point["iops"] for point in read_points(reader, "host=db-2")] == [2.0]
    assert len(read_points(reader, "pool=db")) == 2


def test_failed_and_excluded_points_are_marked_and_left_out_on_request(reader):
    series = make_series([1.0])
    make_measurement(make_run(started_at=NOON + timedelta(hours=1)), series, iops=2.0, error=5)
    make_measurement(make_run(started_at=NOON + timedelta(hours=2)), series, iops=3.0, is_excluded=True)

    points = read_points(reader)
    assert [(point["error"], point["is_excluded"]) for point in points] == [(0, False), (5, False), (0, True)]
    assert [point["iops"] for point in read_points(reader, "valid=true")] == [1.0]
    assert [point["iops"] for point in read_points(reader, "valid=false")] == [2.0, 3.0]


def test_the_long_shape_has_a_row_for_each_known_value(reader):
    series = make_series()
    make_measurement(make_run(), series, iops=5.0, latency_p99_ns=None, elapsed_s=2.0)

    rows = read_points(reader, "shape=long&metrics=iops,latency_p99_ns,elapsed_s&fields=series")

    assert rows == [
        {"series": series.id, "metric": "iops", "unit": "operations/s", "value": 5.0},
        {"series": series.id, "metric": "elapsed_s", "unit": "s", "value": 2.0},
    ]


def test_labels_are_columns_on_request(reader):
    make_measurement(make_run(labels={"rack": "r1", "row": "7"}), make_series(), iops=1.0)
    make_measurement(make_run(), make_series(), iops=2.0)

    rows = read_csv(reader, "fields=label.rack,series,label.none&metrics=iops")

    assert [(row["label.rack"], row["label.none"], row["iops"]) for row in rows] == [
        ("r1", "", "1"),
        ("", "", "2"),
    ]
    assert list(rows[0]) == ["label.rack", "series", "label.none", "iops"]


def test_csv_is_quoted_and_escaped(reader):
    run = make_run(labels={"a": "=1+1"}, profile="=cmd()")
    make_measurement(run, make_series(), iops=-1.5)

    text = read(reader, "format=csv&fields=profile,label.a,started_at,is_excluded,badges,labels&metrics=iops")

    assert text.decode().splitlines() == [
        '"profile","label.a","started_at","is_excluded","badges","labels","iops"',
        '"\'=cmd()","\'=1+1","2026-11-21T12:00:00Z","false","[]","{""a"":""=1+1""}","-1.5"',
    ]


def test_empty_lists_are_complete_in_every_format(reader):
    assert json.loads(read(reader)) == {"points": [], "count": 0}
    assert read(reader, "format=ndjson") == b""
    assert read(reader, "format=csv&fields=series&metrics=iops") == b'"series","iops"\r\n'


def test_ndjson_has_a_row_in_each_line(reader):
    make_series([1.0, 2.0])

    lines = read(reader, "format=ndjson&fields=error&metrics=iops").splitlines()

    assert [json.loads(line) for line in lines] == [{"error": 0, "iops": 1.0}, {"error": 0, "iops": 2.0}]


def test_parquet_has_typed_columns(reader):
    parquet = pytest.importorskip("pyarrow.parquet")
    make_measurement(make_run(labels={"rack": "r1"}), make_series(), iops=1.5, badges=[{"code": "cached"}])

    table = parquet.read_table(io.BytesIO(read(reader, "format=parquet")))

    (row,) = table.to_pylist()
    assert set(row) == set(MEASUREMENT_COLUMNS)
    assert (row["started_at"], row["iops"], row["is_direct"]) == (NOON, 1.5, True)
    assert (row["badges"], row["labels"]) == (["cached"], '{"rack":"r1"}')
    assert parquet.read_table(io.BytesIO(read(reader, "format=parquet&host=none"))).num_rows == 0


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("fields=nothing", "fields"),
        ("fields=label.", "fields"),
        ("metrics=speed", "metrics"),
        ("sort=iops", "sort"),
        ("limit=0", "limit"),
        ("series=1,x", "series"),
        (f"series={'9' * 5000}", "series"),
        (f"series={2**63}", "series"),
        ("cursor=1", "cursor"),
        ("format=xml", "format"),
    ],
)
def test_parameters_that_are_not_valid_are_named(reader, query, name):
    response = reader.get(f"{URL}?{query}")

    assert response.status_code == 400
    assert response.json()["pointer"] == name


def test_the_number_of_queries_does_not_depend_on_the_number_of_points(reader, django_assert_max_num_queries):
    for _ in range(4):
        make_series([1.0, 2.0])
    assert Run.objects.count() == 8

    # The token, its last use, a savepoint and its release, hosts, series, environments.
    with django_assert_max_num_queries(7):
        assert len(read_points(reader)) == 8
