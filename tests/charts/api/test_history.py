"""Histories, buckets, percentiles and histograms as the API answers them."""

import csv
import io
from datetime import timedelta

import pytest

from benchapp.charts.read.history import BUCKETS_DEFAULT, LINES_DEFAULT, LINES_MAXIMUM
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.models import DetectionResult, PlannedEvent, PlannedEventKind, Role, Scope
from benchapp.notices.write.thresholds import store_present_violations
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_points,
    make_run,
    make_series,
    make_token,
    make_user,
)
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db


def read_text(response):
    return (b"".join(response.streaming_content) if response.streaming else response.content).decode()


def read_csv(response):
    return list(csv.DictReader(io.StringIO(read_text(response), newline="")))


def read_header(response):
    return next(csv.reader(io.StringIO(read_text(response), newline="")))


def test_points_are_thinned_on_request_without_hiding_an_extreme(reader):
    series = make_series()
    times = [NOON + timedelta(minutes=place) for place in range(100)]
    make_points(series, make_run(), times, iops=lambda index: {40: 1.0, 60: 999.0}.get(index, 100.0))

    answer = reader.get(f"/api/v1/series/{series.id}/points?resolution=7&metrics=iops").json()

    buckets = answer["buckets"]
    assert (len(buckets), sum(bucket["n"] for bucket in buckets)) == (7, 100)
    assert min(bucket["iops_minimum"] for bucket in buckets) == 1.0
    assert max(bucket["iops_maximum"] for bucket in buckets) == 999.0
    assert {bucket["iops_median"] for bucket in buckets} == {100.0}
    assert (buckets[0]["from_at"], buckets[-1]["to_at"]) == ("2026-11-21T12:00:00Z", "2026-11-21T13:39:00Z")


def test_buckets_as_csv_have_the_same_columns(reader):
    series = make_series([1.0, 2.0, 3.0])

    (row,) = read_csv(reader.get(f"/api/v1/series/{series.id}/points?resolution=1&metrics=iops&format=csv"))

    assert (row["n"], row["iops_minimum"], row["iops_median"], row["iops_maximum"]) == (
        "3",
        "1",
        "2",
        "3",
    )


def test_history_of_several_series_in_one_answer(reader):
    first, second = make_series([10.0, 20.0]), make_series([5.0])
    calculate_levels()

    answer = reader.get(f"/api/v1/history?series={second.id},{first.id}&metrics=iops").json()

    assert [line["id"] for line in answer["lines"]] == [second.id, first.id]
    assert [(point["series"], point["iops"]) for point in answer["points"]] == [
        (second.id, 5.0),
        (first.id, 10.0),
        (first.id, 20.0),
    ]
    assert (answer["resolution"], answer["buckets"], answer["lines_left_out"]) == (None, [], 0)
    assert answer["lines"][1]["levels"]["iops"][0]["median"] == 15.0


def test_history_chosen_by_a_filter_as_csv(reader):
    series = make_series([10.0])
    make_series([11.0], direction="write")

    (row,) = read_csv(reader.get("/api/v1/history?q=direction:read&format=csv"))

    assert (row["series"], row["iops"], row["is_excluded"]) == (str(series.id), "10", "false")
    assert (row["scope"], row["filter"]) == (series.host.name, "direction:read")
    assert row["title"].startswith("4k random read")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("q=color:red", "q"),
        ("series=1,x", "series"),
        ("resolution=0", "resolution"),
        ("resolution=daily", "resolution"),
        ("metrics=speed", "metrics"),
    ],
)
def test_history_that_makes_no_sense_is_refused(reader, query, pointer):
    response = reader.get(f"/api/v1/history?{query}")

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)


def test_history_has_points_for_every_range_and_buckets_only_on_request(reader, monkeypatch):
    monkeypatch.setattr("benchapp.charts.read.history.POINTS_MAXIMUM", 2)
    series = make_series([10.0, 20.0, 30.0, 40.0])
    address = f"/api/v1/history?series={series.id}&metrics=iops"

    whole, few = (reader.get(f"{address}{more}").json() for more in ("", f"&from={NOON.isoformat()[:10]}"))
    automatic = reader.get(f"{address}&resolution=auto").json()
    chosen = reader.get(f"{address}&resolution=50").json()

    assert [point["iops"] for point in whole["points"]] == [10.0, 20.0, 30.0, 40.0]
    assert (whole["resolution"], whole["buckets"], few["resolution"]) == (None, [], None)
    assert (automatic["resolution"], automatic["points"]) == (BUCKETS_DEFAULT, [])
    assert (chosen["resolution"], sum(bucket["n"] for bucket in chosen["buckets"])) == (50, 4)


def test_columns_of_the_csv_do_not_depend_on_the_range(reader, monkeypatch):
    monkeypatch.setattr("benchapp.charts.read.history.POINTS_MAXIMUM", 2)
    monkeypatch.setattr("benchapp.charts.read.history_rows._BATCH_ROWS", 3)
    series = make_series([10.0, 20.0, 30.0, 40.0])
    address = f"/api/v1/history?series={series.id}&metrics=iops&format=csv"

    whole, none = read_csv(reader.get(address)), reader.get(f"{address}&to=2001-01-01")
    (bucket,) = read_csv(reader.get(f"{address}&resolution=1"))
    no_bucket = reader.get(f"{address}&resolution=1&to=2001-01-01")

    assert [row["iops"] for row in whole] == ["10", "20", "30", "40"]
    named = ["series", "run", "started_at", "error", "is_excluded", "badges", "iops"]
    assert list(whole[0]) == [*named, "scope", "title", "filter", "thresholds"]
    assert read_header(none) == list(whole[0])
    assert bucket["iops_median"] == "25"
    assert read_header(no_bucket) == list(bucket)


def test_document_with_too_many_points_is_refused(reader, monkeypatch):
    monkeypatch.setattr("benchapp.charts.api.history.JSON_POINTS_MAXIMUM", 3)
    series = make_series([10.0, 20.0, 30.0, 40.0])
    address = f"/api/v1/history?series={series.id}"

    problem = reader.get(address)

    assert (problem.status_code, problem.json()["pointer"]) == (400, "resolution")
    assert reader.get(f"{address}&resolution=100").status_code == 200
    assert len(read_csv(reader.get(f"{address}&format=csv"))) == 4


@pytest.mark.parametrize("query", ["q=direction:read", "q=-volume_type:io2", "series={ids}"])
def test_csv_of_a_history_without_some_of_its_series_is_refused(reader, query):
    ids = ",".join(str(make_series([1.0]).id) for _ in range(LINES_MAXIMUM + 1))
    address = f"/api/v1/history?{query.format(ids=ids)}"

    response = reader.get(f"{address}&format=csv")

    assert (response.status_code, response.json()["pointer"]) == (400, "series")
    assert reader.get(address).json()["lines_left_out"] == 1


@pytest.mark.parametrize("query", ["", "q=-host:ebs-2013&"])
def test_csv_of_a_history_without_a_choice_has_six_series(reader, query):
    for _ in range(LINES_MAXIMUM + 1):
        make_series([1.0])

    assert len(read_csv(reader.get(f"/api/v1/history?{query}format=csv"))) == LINES_DEFAULT


def test_history_that_is_known_is_not_sent_again(reader):
    series = make_series([10.0])
    address = f"/api/v1/history?series={series.id}"
    etag = reader.get(address)["ETag"]

    assert reader.get(address, headers={"If-None-Match": etag}).status_code == 304
    make_measurement(make_run(started_at=NOON + timedelta(days=1)), series, iops=1.0)
    assert reader.get(address, headers={"If-None-Match": etag}).status_code == 200


def test_regression_of_a_series_that_is_not_shown_gives_another_etag(reader, monkeypatch):
    """The title of an image counts all series that got worse."""
    monkeypatch.setattr("benchapp.charts.read.history.LINES_DEFAULT", 1)
    series = [make_series([10.0] * 30 + [8.0] * 10) for _ in range(2)]
    incident = make_incident(changes=[make_change(each, at=series[0].last_at) for each in series])
    etag = reader.get("/api/v1/history")["ETag"]
    assert reader.get("/api/v1/history", headers={"If-None-Match": etag}).status_code == 304
    shown = reader.get("/api/v1/history").json()["lines"][0]["id"]

    incident.changes.exclude(series=shown).update(incident=None, state="withdrawn")

    assert reader.get("/api/v1/history", headers={"If-None-Match": etag}).status_code == 200


def test_history_has_the_planned_events_of_its_series_and_another_etag(reader, monkeypatch):
    monkeypatch.setattr("benchapp.incidents.read.maintenance.MARKS_MAXIMUM", 3)
    first, second = (make_series([10.0, 11.0], host=make_host(name)) for name in ("db-1", "db-2"))
    address = f"/api/v1/history?series={first.id},{second.id}"
    etag = reader.get(address)["ETag"]
    hour = timedelta(hours=1)
    make_planned_event(filter="", from_at=NOON - 2 * hour, to_at=NOON - hour, reason="too old to be read")
    note = EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.NOTE, filter="host:db-2", from_at=NOON, to_at=None, reason="new rack"
        ),
        by=None,
    )
    window = make_planned_event(
        filter="rw:randread", from_at=NOON - hour, to_at=NOON + 9 * hour, ended_at=NOON
    )
    make_planned_event(filter="host:db-3", from_at=NOON)

    response = reader.get(address, headers={"If-None-Match": etag})
    later = reader.get(f"{address}&from=2026-11-21T12:00:00Z&to=2026-11-21T13:00:00Z").json()
    EVENTS.cancel(note.pk, by=None)

    answer = response.json()
    assert response.status_code == 200
    assert [(each["id"], each["kind"], each["series"]) for each in answer["planned_events"]] == [
        (note.pk, "note", [second.id]),
        (window.pk, "maintenance", [first.id, second.id]),
    ]
    assert answer["planned_events"][0]["reason"] == "new rack"
    assert answer["planned_events"][0]["ends_at"] == answer["planned_events"][0]["from_at"]
    assert answer["planned_events_left_out"] == 1
    # The window ended when the range starts; the note is of that time.
    assert [each["id"] for each in later["planned_events"]] == [note.pk]
    assert note.pk not in [each["id"] for each in reader.get(address).json()["planned_events"]]


def test_history_whose_change_came_to_an_incident_is_sent_again(reader):
    series = make_series([1000.0, 850.0])
    change = make_change(series)
    address = f"/api/v1/history?series={series.id}"
    etag = reader.get(address)["ETag"]

    incident = make_incident(changes=[change])
    response = reader.get(address, headers={"If-None-Match": etag})

    assert response.status_code == 200
    assert response.json()["lines"][0]["changes"][0]["incident"] == incident.id


def test_percentiles_over_time_without_what_too_few_samples_say(reader):
    series = make_series()
    percentiles = {"50": 200_000, "90": 300_000, "99.99": 727_000}
    fields = {"latency_p50_ns": 200_000.0, "latency_p99_ns": None, "percentiles": percentiles}
    make_measurement(make_run(), series, total_ios=50_000, **fields)
    later = make_run(started_at=NOON + timedelta(hours=1))
    make_measurement(later, series, total_ios=2_000_000, **fields)

    few, many = reader.get(f"/api/v1/series/{series.id}/percentiles").json()["columns"]

    assert (few["p50"], few["p90"], few["p99"], few["p99_99"]) == (200_000.0, 300_000.0, None, None)
    assert many["p99_99"] == 727_000.0
    assert (many["last_run"], many["runs"]) == (later.id, 1)


def test_percentiles_of_many_runs_are_medians_of_runs(reader):
    series = make_series()
    times = [NOON + timedelta(minutes=place) for place in range(9)]
    make_points(series, make_run(), times, latency_p50_ns=lambda index: index + 1.0, percentiles={"50": 1})

    (column,) = reader.get(f"/api/v1/series/{series.id}/percentiles?resolution=1").json()["columns"]

    assert (column["runs"], column["p50"]) == (9, 5.0)


def test_histograms_over_time_leave_out_what_failed_or_is_excluded(reader):
    series = make_series()
    for hour, fields in enumerate(({}, {"error": 5}, {"is_excluded": True})):
        run = make_run(started_at=NOON + timedelta(hours=hour))
        make_measurement(run, series, latency_bins=[68, 5, 0, 7], **fields)

    answer = reader.get(f"/api/v1/series/{series.id}/histogram").json()
    cells = read_csv(reader.get(f"/api/v1/series/{series.id}/histogram?format=csv"))

    assert answer["first_bucket"] == 68
    assert [column["counts"] for column in answer["columns"]] == [[5, 0, 7]]
    assert [(cell["bucket"], cell["operations"]) for cell in cells] == [("68", "5"), ("70", "7")]
    assert (cells[0]["from_ns"], cells[0]["runs"]) == ("131072", "1")


def test_series_without_bins_has_an_empty_histogram(reader):
    series = make_series([1.0])

    answer = reader.get(f"/api/v1/series/{series.id}/histogram").json()

    assert (answer["first_bucket"], answer["columns"]) == (None, [])


@pytest.mark.parametrize("name", ["percentiles", "histogram"])
def test_latencies_of_no_series_are_not_found(reader, name):
    assert reader.get(f"/api/v1/series/77/{name}").status_code == 404


def test_history_asks_as_much_for_many_series_as_for_one(reader, django_assert_num_queries):
    for _ in range(5):
        make_series([1.0, 2.0])

    # Token and its last use; count, worse ones, series, last points, versions; levels; environment changes; policies;
    # marks and increases in spread, both also for the ETag.
    with django_assert_num_queries(16):
        reader.get("/api/v1/history")


def test_history_has_the_increases_in_spread_of_its_metrics_and_another_etag(reader):
    series = make_series([1000.0, 1001.0])
    result = make_detection_result(series)
    path = f"/api/v1/history?series={series.id}&metrics=iops,latency_mean_ns"
    before = reader.get(path)

    found = {"from_at": NOON.isoformat(), "before": 0.02, "after": 0.08}
    DetectionResult.objects.filter(pk=result.pk).update(spread_increase=found)
    after = reader.get(path, headers={"If-None-Match": before["ETag"]})

    assert before.json()["lines"][0]["spread_increases"] == []
    assert (after.status_code, after.json()["lines"][0]["spread_increases"]) == (
        200,
        [{"metric": "iops", "from_at": "2026-11-21T12:00:00Z", "before": 0.02, "after": 0.08}],
    )


def test_history_has_the_thresholds_of_own_subscriptions_and_another_etag(client):
    anna, ben = make_user(username="anna"), make_user(username="ben")
    slow = add_series([9e6] * 3, metric="latency_p99_ns", host=make_host("db-1"))
    other = add_series([1e6] * 3, metric="latency_p99_ns", host=make_host("web-1"))
    address = f"/api/v1/history?series={slow.pk},{other.pk}&metrics=latency_p99_ns"
    client.force_login(anna)
    before = client.get(address)
    texts = ["p99 latency < 5 ms", "IOPS > 10k"]
    store_present_violations(
        make_subscription(anna, thresholds=texts, filter="host:db-*"), added=["p99 latency < 5 ms"]
    )
    make_subscription(ben, thresholds=["p99 latency < 7 ms"], channel="slack")

    after = client.get(address)

    assert before.json()["thresholds"] == []
    assert after["ETag"] != before["ETag"]
    assert after.json()["thresholds"] == [
        {
            "text": "p99 latency < 5 ms",
            "metric": "latency_p99_ns",
            "comparison": "<",
            "value": 5e6,
            "series": [slow.pk],
            "violated": [{"series": slow.pk, "since_at": "2026-11-21T12:00:00Z"}],
        }
    ]
    rows = read_csv(client.get(f"{address}&format=csv"))
    assert {(row["series"], row["thresholds"]) for row in rows} == {
        (str(slow.pk), "p99 latency < 5 ms"),
        (str(other.pk), ""),
    }
    image = client.get(f"/api/v1/charts/history.svg?series={slow.pk}&metrics=latency_p99_ns")
    assert image.status_code == 200
    client.force_login(ben)
    assert [each["text"] for each in client.get(address).json()["thresholds"]] == ["p99 latency < 7 ms"]


@pytest.mark.parametrize(("scope", "count"), [(Scope.READ, 0), (Scope.ADMIN, 1)])
def test_token_has_the_thresholds_of_its_owner_if_it_may_read_the_subscriptions(client, scope, count):
    anna = make_user(Role.ADMIN, username="anna")
    series = add_series([9e6] * 3, metric="latency_p99_ns")
    make_subscription(anna, thresholds=["p99 latency < 5 ms"])
    _, token = make_token(scope, created_by=anna)

    answer = client.get(
        f"/api/v1/history?series={series.pk}&metrics=latency_p99_ns",
        headers={"Authorization": f"Bearer {token}"},
    )

    assert len(answer.json()["thresholds"]) == count
