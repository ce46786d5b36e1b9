"""Charts as SVG and PNG: what they show, how they are bounded, and who may read them."""

import struct
from datetime import timedelta
from unittest import mock
from xml.etree import ElementTree

import pytest
from django.test import Client

from benchapp.charts.images import frame
from benchapp.models import DetectionResult, Series
from tests.ebs import make_ebs_series
from tests.factories import (
    NOON,
    add_series,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_series,
    make_workload,
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

SVG = "{http://www.w3.org/2000/svg}"
KINDS = {
    "history": "series={series}",
    "scaling": "q=host:db-1",
    "matrix": "q=host:db-1",
    "comparison": "a=host:db-1&b=host:db-2",
    "layouts": "iops=500",
    "host": "host=db-1",
    "percentiles": "series={series}",
    "incident": "incident={incident}",
}
PERCENTILES = {"50": 100_000, "90": 150_000, "95": 180_000, "99": 400_000, "99.9": 900_000}


@pytest.fixture(autouse=True)
def at_noon(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON)


@shared_rows
def series() -> Series:
    """Make a series of db-1 with a regression; db-2 measured the same."""
    with mock.patch("django.utils.timezone.now", lambda: NOON):
        own, _ = (
            add_series([1000.0, 1010.0, 1020.0, 800.0, 810.0, 820.0], host=make_host(name))
            for name in ("db-1", "db-2")
        )
    return own


@pytest.fixture
def incident(series):
    """Give an incident of the series: 1 010 to 810 IOPS."""
    at = NOON + timedelta(hours=3)
    change = make_change(series, at=at, before=1010.0, after=810.0)
    return make_incident(changes=[change])


def read_texts(answer):
    """Return the texts of an SVG as one."""
    root = ElementTree.fromstring(answer.content)
    return "\n".join(part.text or "" for part in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_an_svg_and_a_png_that_depend_on_its_data_alone(reader, series, incident, kind):
    query = KINDS[kind].format(series=series.pk, incident=incident.pk)

    drawn = [reader.get(f"/api/v1/charts/{kind}.svg?{query}") for _ in range(2)]
    image = reader.get(f"/api/v1/charts/{kind}.png?{query}&width=400&height=300&scale_factor=2&theme=dark")
    known = reader.get(
        f"/api/v1/charts/{kind}.svg?{query}", headers={"If-None-Match": drawn[0].headers["ETag"]}
    )

    root = ElementTree.fromstring(drawn[0].content)
    assert [answer.headers["Content-Type"] for answer in drawn] == ["image/svg+xml; charset=utf-8"] * 2
    assert drawn[0].content == drawn[1].content
    assert root.attrib["width"] == "1200"
    assert {part.tag for part in root.iter()} & {
        f"{SVG}script",
        f"{SVG}foreignObject",
        f"{SVG}image",
    } == set()
    # The policy of all answers forbids inline styles.
    assert [part.tag for part in root.iter() if part.tag == f"{SVG}style" or "style" in part.attrib] == []
    assert (image.headers["Content-Type"], image.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", image.content[16:24]) == (800, 600)
    assert known.status_code == 304
    assert reader.get(f"/api/v1/charts/{kind}.gif?{query}").status_code == 404


@pytest.mark.parametrize("size", ["width=400&height=300", "width=320&height=240&metrics=iops,latency_p99_ns"])
def test_title_of_the_value_axis_is_above_its_labels_in_a_small_image(reader, series, size):
    drawn = reader.get(f"/api/v1/charts/history.svg?q=host:db-1&{size}").content.decode()

    assert "rotate(-90" not in drawn
    assert ("too low for this chart" in drawn) == ("metrics" in size)


def test_history_names_host_metric_filter_runs_spread_changes_and_zone(reader, series):
    make_incident(changes=[make_change(series, before=1000.0, after=800.0, started_at=NOON)])

    texts = read_texts(
        reader.get("/api/v1/charts/history.svg?q=host:db-1&metrics=iops,latency_p99_ns&time_zone=Asia/Tokyo")
    )
    page = reader.get("/api/v1/history?q=host:db-1").json()["lines"][0]

    level = page["levels"]["iops"][-1]
    for part in (
        "4k random read on db-1",
        "db-1",
        "Filter: host:db-1",
        "6 runs of 1 series",
        "Asia/Tokyo",
        "p99 latency",
    ):
        assert part in texts
    assert f"n = {level['n']}" in texts
    assert "p10–p90" in texts
    assert "▼ 20 %, incident" in texts


def test_image_of_a_history_marks_an_increased_standard_deviation(reader, series):
    result = make_detection_result(series)
    before = reader.get("/api/v1/charts/history.svg?q=host:db-1")
    found = {"from_at": NOON.isoformat(), "before": 0.02, "after": 0.08}
    DetectionResult.objects.filter(pk=result.pk).update(spread_increase=found)

    after = reader.get(
        "/api/v1/charts/history.svg?q=host:db-1", headers={"If-None-Match": before.headers["ETag"]}
    )

    assert "increased standard deviation" not in read_texts(before)
    assert (after.status_code, "increased standard deviation" in read_texts(after)) == (200, True)
    assert b"<pattern" in after.content


def test_image_of_a_history_names_its_planned_events(reader, series):
    make_planned_event(filter="host:db-1", from_at=series.first_at, reason="moved to rack 7")

    texts = read_texts(reader.get("/api/v1/charts/history.svg?q=host:db-1"))

    assert "moved to rack 7" in texts
    assert "Shaded: maintenance" in texts


def test_texts_are_escaped_and_cut_to_the_width(reader, series):
    title = '"><script>alert(1)</script>&amp; $x^2$ \x08中 ' + "long " * 30

    answer = reader.get("/api/v1/charts/history.svg", {"title": title[:200], "width": 800, "height": 300})

    texts = read_texts(answer)
    assert b"<script" not in answer.content
    assert '"><script>alert(1)</script>&amp; $x^2$ □' in texts
    assert "…" in texts


@pytest.mark.parametrize(
    ("address", "pointer"),
    [
        ("history.png?width=2400&height=2400&scale_factor=3", "scale_factor"),
        ("history.svg?width=100", "width"),
        ("history.svg?time_zone=Mars/Base", "time_zone"),
        ("history.svg?time_zone=../etc/passwd", "time_zone"),
        ("history.svg?time_zone=Europe", "time_zone"),
        ("history.svg?metrics=iops,latency_p50_ns,latency_p95_ns,latency_p99_ns", "metrics"),
        ("history.svg?format=csv", "format"),
        ("history.svg?resolution=1", "resolution"),
        ("scaling.svg?x=nothing", "x"),
        ("matrix.svg?x=nothing", "x"),
        ("comparison.svg?a=nothing:1", "a"),
        ("host.svg", "host"),
        ("percentiles.svg", "series"),
        ("percentiles.svg?series=1&from=soon", "from"),
        ("incident.svg?incident=x", "incident"),
    ],
)
def test_a_parameter_that_is_not_valid_is_refused(reader, address, pointer):
    answer = reader.get(f"/api/v1/charts/{address}")

    assert (answer.status_code, answer.json()["pointer"]) == (400, pointer)


def test_charts_without_data_say_so(reader):
    found = {
        kind: read_texts(reader.get(f"/api/v1/charts/{kind}.svg?{query}"))
        for kind, query in {
            "history": "q=host:none",
            "scaling": "q=host:none",
            "matrix": "q=host:none",
            "comparison": "a=host:none&b=host:other",
        }.items()
    }
    make_host("db-3")

    assert "No series match." in found["history"]
    assert "No series match, or none has a value." in found["scaling"]
    assert "No series match." in found["matrix"]
    assert "No matching series." in found["comparison"]
    assert "No levels yet" in read_texts(reader.get("/api/v1/charts/host.svg?host=db-3"))
    for address in ("host.svg?host=none", "percentiles.svg?series=999", "incident.svg?incident=999"):
        assert reader.get(f"/api/v1/charts/{address}").status_code == 404


def test_percentiles_have_their_newest_values_and_what_they_leave_out(reader, series):
    make_measurement(
        series.measurements.order_by("started_at").last().run,
        series,
        ordinal=1,
        iops=820.0,
        percentiles=PERCENTILES,
        latency_p50_ns=100_000,
        latency_p99_ns=400_000,
        total_ios=10**6,
    )
    address = f"/api/v1/charts/percentiles.svg?series={series.pk}"

    texts = read_texts(reader.get(address))
    empty = read_texts(reader.get(f"{address}&to=2000-01-01"))

    assert "Latency percentiles over time · db-1" in texts
    for label in ("p50 100 µs", "p90 150 µs", "p99 400 µs", "n = 1 run"):
        assert label in texts
    assert "fewer than 10 samples" in texts
    assert "No percentiles" in empty


def test_incident_has_both_sides_of_its_largest_change(reader, incident):
    texts = read_texts(reader.get(f"/api/v1/charts/incident.svg?incident={incident.pk}"))
    none = read_texts(reader.get(f"/api/v1/charts/incident.svg?incident={make_incident().pk}"))

    assert incident.title in texts
    assert "median 1\u202f010 IOPS, p10–p90 1\u202f002 to 1\u202f018, n = 3" in texts
    assert "before: 3 runs" in texts
    assert "after: 3 runs" in texts
    assert "IOPS −20 %" in texts
    assert "all changes of this incident were withdrawn" in none


def test_matrix_and_comparison_are_as_high_as_their_rows_need(reader):
    host = make_host("db-1")
    for depth in (1, 2, 4, 8):
        make_series([1000.0] * 3, host=host, workload=make_workload(iodepth=depth))

    heights = [
        float(
            ElementTree.fromstring(reader.get(f"/api/v1/charts/matrix.svg?{query}").content).attrib["height"]
        )
        for query in ("rows=iodepth&x=volume_count&facet=none", "rows=volume_count&x=iodepth&facet=none")
    ]

    assert heights[0] > heights[1] >= 240


@pytest.mark.parametrize("kind", KINDS)
def test_image_is_read_by_a_signed_link_until_it_expires(reader, series, incident, kind, monkeypatch):
    query = KINDS[kind].format(series=series.pk, incident=incident.pk)
    address = f"/api/v1/charts/{kind}.png?{query}&width=400&height=300"
    other = "matrix" if kind == "scaling" else "scaling"
    made = reader.post(
        "/api/v1/links", {"url": address, "expires_at": "+30d"}, content_type="application/json"
    )
    url = made.json()["url"]

    answers = [Client().get(each).status_code for each in (url, url.replace(kind, other, 1), address)]
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOON + timedelta(days=31))

    assert (made.status_code, answers, Client().get(url).status_code) == (201, [200, 403, 401], 403)


def test_too_many_waiting_requests_are_turned_away(reader, series):
    with frame._DRAWING:
        for _ in range(frame.WAITING_MAXIMUM):
            frame._WAITING.acquire()
        try:
            answer = reader.get("/api/v1/charts/history.svg")
        finally:
            for _ in range(frame.WAITING_MAXIMUM):
                frame._WAITING.release()

    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, "busy", "2")
    assert reader.get("/api/v1/charts/history.svg").status_code == 200


def test_scaling_model_is_drawn_with_its_predictions(reader):
    make_ebs_series(2)
    address = "/api/v1/charts/scaling.svg?q=bs:4k+rw:randread"

    modeled = reader.get(f"{address}&model=1&predict=3,24").content.decode()

    texts = [element.text for element in ElementTree.fromstring(modeled).iter(f"{SVG}text")]
    assert {"3", "24"} <= {(text or "").strip() for text in texts}
    assert len(modeled) > len(reader.get(f"{address}&draw=lines").content)


def test_footer_of_a_saved_image_has_the_address_of_its_page_and_the_time(reader, series):
    page = "http://testserver/scaling/?" + "&".join(f"q=host:db-{number}" for number in range(20))

    words = read_texts(reader.get("/api/v1/charts/scaling.svg", {"page": page, "time_zone": "Europe/Berlin"}))

    assert f"{NOON:%Y} 13:00 UTC+1 ·" in words
    assert page in words.replace("\n", "")


def test_image_that_needs_many_rows_is_drawn_at_a_smaller_scale(reader, series):
    for number in range(40):
        add_series([1000.0], host=make_host(f"many-{number:02}"))

    image = reader.get("/api/v1/charts/comparison.png?a=host:db-1&b=host:db-2&scale_factor=3").content
    tall = reader.get("/api/v1/charts/matrix.png?rows=host&x=volume_count&scale_factor=3").content

    width, height = struct.unpack(">II", tall[16:24])
    assert struct.unpack(">II", image[16:20] + image[16:20])[0] == 3600
    assert (width, height > 1600) == (1200, True)
