import csv
import gzip
import io
from datetime import timedelta

import pytest

from benchapp.catalog.metrics import CATALOG
from tests.factories import (
    NOON,
    make_detection_result,
    make_host,
    make_measurement,
    make_points,
    make_run,
    make_series,
    make_target,
)

pytestmark = pytest.mark.django_db


def read_csv(response):
    return list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))


def test_series_are_flat_rows(reader):
    series = make_series([10.0, 20.0], host=make_host("db-7"), target=make_target(filesystem="xfs"))

    (row,) = reader.get("/api/v1/series").json()["series"]

    assert (row["id"], row["host"], row["pool"], row["direction"]) == (series.id, "db-7", None, "read")
    assert (row["block_size_bytes"], row["iodepth"], row["filesystem"]) == (4096, 8, "xfs")
    assert (row["last_iops"], row["measurement_count"]) == (20.0, 2)


def test_queries_do_not_depend_on_the_number_of_series(reader, django_assert_num_queries):
    for _ in range(5):
        make_series([1.0])

    # The token, its last use, series, their newest points, levels of IOPS and of elapsed time.
    with django_assert_num_queries(6):
        reader.get("/api/v1/series")


def test_series_as_csv_are_defended_and_complete(reader):
    series = make_series([1.0], target=make_target(target_name="=cmd()"))

    (row,) = read_csv(reader.get("/api/v1/series?format=csv"))

    assert row["id"] == str(series.id)
    assert row["target_name"] == "'=cmd()"
    assert row["options"] == "{}"


@pytest.mark.parametrize(
    ("query", "is_found"),
    [("volume_count=4", True), ("volume_count=2", False), ("q=gp3", True), ("direction=write", False)],
)
def test_series_are_filtered(reader, query, is_found):
    make_series([1.0], target=make_target(volume_count=4, volume_type="gp3"))

    assert bool(reader.get(f"/api/v1/series?{query}").json()["series"]) is is_found


def test_one_series_with_its_etag(reader):
    series = make_series([1.0])

    response = reader.get(f"/api/v1/series/{series.id}")

    assert response.json()["points"] == f"/api/v1/series/{series.id}/points"
    again = reader.get(f"/api/v1/series/{series.id}", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_points_are_rows_in_the_order_of_time(reader):
    series = make_series([10.0, 20.0])

    body = reader.get(f"/api/v1/series/{series.id}/points?metrics=iops,latency_p99_ns").json()

    assert body["series"] == series.id
    assert [metric["name"] for metric in body["metrics"]] == ["iops", "latency_p99_ns"]
    assert body["metrics"][1] == {
        "name": "latency_p99_ns",
        "unit": "ns",
        "better": "lower",
        "label": "p99 latency",
    }
    first, second = body["points"]
    assert first == {
        "run": first["run"],
        "started_at": "2026-11-21T12:00:00Z",
        "error": 0,
        "badges": [],
        "is_excluded": False,
        "iops": 10.0,
        "latency_p99_ns": None,
    }
    assert (second["started_at"], second["iops"]) == ("2026-11-21T13:00:00Z", 20.0)


def test_points_have_all_metrics_by_default(reader):
    series = make_series([10.0])

    (point,) = reader.get(f"/api/v1/series/{series.id}/points").json()["points"]

    assert set(CATALOG) <= set(point)


def test_points_take_four_queries(reader, django_assert_num_queries):
    series = make_series([10.0, 20.0])

    # The token, its last use, the version, the points.
    with django_assert_num_queries(4):
        reader.get(f"/api/v1/series/{series.id}/points")


def test_points_of_a_span_newest_first_page_by_page(reader):
    series = make_series([10.0, 20.0, 30.0, 40.0])
    url = f"/api/v1/series/{series.id}/points?metrics=iops&sort=-started_at&limit=2&from=2026-11-21T13:00:00Z"

    first = reader.get(url)
    second = reader.get(first.json()["next"])

    assert [point["iops"] for point in first.json()["points"]] == [40.0, 30.0]
    assert [point["iops"] for point in second.json()["points"]] == [20.0]
    assert first.headers["Link"] == f'<{first.json()["next"]}>; rel="next"'
    assert "Link" not in second.headers


def test_points_as_csv_keep_their_numbers(reader):
    series = make_series([10.5, None])

    response = reader.get(f"/api/v1/series/{series.id}/points?format=csv&metrics=iops")

    rows = read_csv(response)
    assert [row["iops"] for row in rows] == ["10.5", ""]
    assert rows[0]["started_at"] == "2026-11-21T12:00:00Z"
    assert response.headers["Content-Disposition"] == f'attachment; filename="series-{series.id}-points.csv"'


def test_points_as_lines_of_json(reader):
    series = make_series([10.0, 20.0])

    response = reader.get(f"/api/v1/series/{series.id}/points?format=ndjson&metrics=iops")

    assert len(response.content.splitlines()) == 2


@pytest.mark.parametrize("answer_format", ["json", "csv"])
def test_points_with_their_level(reader, answer_format):
    series = make_series([10.0, 20.0, 30.0])

    response = reader.get(f"/api/v1/series/{series.id}/points?metrics=iops&rolling=3&format={answer_format}")

    last = response.json()["points"][-1] if answer_format == "json" else read_csv(response)[-1]
    levels = {name: float(last[name]) for name in ("iops_median", "iops_p10", "iops_p90")}
    assert levels == {"iops_median": 20.0, "iops_p10": 12.0, "iops_p90": 28.0}


def test_points_that_are_known_are_not_sent_again_until_one_arrives(reader, django_assert_num_queries):
    series = make_series([10.0])
    url = f"/api/v1/series/{series.id}/points"
    etag = reader.get(url).headers["ETag"]

    with django_assert_num_queries(2):  # the token and the version
        known = reader.get(url, headers={"If-None-Match": etag})
    other_metric = reader.get(f"{url}?metrics=iops", headers={"If-None-Match": etag})
    make_measurement(make_run(series.host, started_at=NOON - timedelta(days=9)), series)
    changed = reader.get(url, headers={"If-None-Match": etag})

    assert (known.status_code, known.content, known.headers["ETag"]) == (304, b"", etag)
    assert other_metric.status_code == 200
    assert changed.status_code == 200


def test_thousand_points_are_less_than_60_kilobytes_compressed(reader):
    host = make_host()
    series, run = make_series(host=host), make_run(host)
    times = [NOON + timedelta(minutes=7 * number, microseconds=number * 7919) for number in range(1000)]
    make_points(
        series,
        run,
        times,
        # As fio gives them: rates and means to six digits behind the point, percentiles from its buckets.
        iops=lambda number: 33_415 + (number * 104_729 % 1_000_003) / 1000,
        bandwidth_bytes_per_s=lambda number: 136_000_000 + number * 7919 % 1_000_003,
        latency_mean_ns=lambda number: 238_000 + (number * 15_485_863 % 1_000_000_007) / 1_000_000,
        latency_p50_ns=lambda number: 211_968 + 4096 * (number * 31 % 17),
        latency_p95_ns=lambda number: 333_824 + 4096 * (number * 37 % 19),
        latency_p99_ns=lambda number: 518_144 + 8192 * (number * 41 % 23),
        latency_p99_9_ns=lambda number: 1_056_768 + 16384 * (number * 43 % 29),
        latency_max_ns=lambda number: 4_000_000 + number * 15_485_863 % 3_000_017,
    )

    response = reader.get(f"/api/v1/series/{series.id}/points", headers={"Accept-Encoding": "gzip"})

    assert len(response.content) < 60_000
    assert gzip.decompress(response.content).count(b'"started_at"') == 1000


@pytest.mark.parametrize(
    "query", ["limit=10001", "metrics=secret", "metrics=", "rolling=2", "sort=id", "format=xml"]
)
def test_bad_parameter_of_points_is_named(reader, query):
    series = make_series([10.0])

    response = reader.get(f"/api/v1/series/{series.id}/points?{query}")

    assert response.status_code == 400
    assert response.json()["pointer"] == query.partition("=")[0]


def test_summary_of_a_metric(reader):
    series = make_series([10.0, 20.0, 30.0])

    body = reader.get(f"/api/v1/series/{series.id}/summary?metric=iops").json()

    assert body == {
        "series": series.id,
        "metric": "iops",
        "unit": "operations/s",
        "n": 3,
        "median": 20.0,
        "p10": 12.0,
        "p90": 28.0,
        "minimum": 10.0,
        "maximum": 30.0,
        "last": 30.0,
    }


def test_series_has_the_findings_about_its_variability_and_another_etag(reader):
    series = make_series([1000.0])
    before = reader.get(f"/api/v1/series/{series.pk}")
    increase = {"from_at": NOON.isoformat(), "before": 0.02, "after": 0.08}
    make_detection_result(series, spread_increase=increase)

    after = reader.get(f"/api/v1/series/{series.pk}", headers={"If-None-Match": before["ETag"]})

    assert before.json()["variability"] == []
    (found,) = after.json()["variability"]
    assert (found["metric"], found["two_states"]) == ("iops", None)
    assert found["spread_increase"] == {"from_at": "2026-11-21T12:00:00Z", "before": 0.02, "after": 0.08}
