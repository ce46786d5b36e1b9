import csv
import io
from datetime import timedelta

import pytest

from benchapp.catalog.dimensions import FILTER_DIMENSIONS
from benchapp.charts.api.scaling import ScalingParameters
from benchapp.charts.read.series_columns import read_table
from tests.ebs import make_ebs_series
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def ebs() -> None:
    """Make the series of a sweep over two file sizes."""
    make_ebs_series(2)


def test_cells_are_rows_with_what_was_chosen(reader):
    make_ebs_series(2, 3)

    body = reader.get("/api/v1/scaling").json()

    assert (body["x"], body["color"], body["facet"], body["over"]) == ("volume_count", "pattern", None, None)
    assert body["metric"] == {"name": "iops", "unit": "operations/s", "better": "higher", "label": "IOPS"}
    assert body["fixed"] == [{"dimension": "file_size_bytes", "values": ["5G"]}]
    assert body["filter"] == "file_size_bytes:5G"
    assert body["counts"]["shown"] == 20
    assert (body["is_cut"], body["is_thinned"]) == (False, False)
    first = body["cells"][0]
    assert first == {
        "metric": "iops",
        "facet": None,
        "color": "read",
        "x": "1",
        "state": "measured",
        "median": 16730.0,
        "p10": 16730.0,
        "p90": 16730.0,
        "n": 1,
        "last_at": "2026-11-21T12:00:00Z",
        "over": None,
        "ideal": 16730.0,
        "efficiency": 1.0,
        "settings": "file_size_bytes:5G",
        "targets_missed": [],
        "limit": None,
        "limit_value": None,
        "change_metric": None,
        "change_relative": None,
        "change_state": None,
        "incident": None,
        "regressed_count": 0,
        "earlier_median": None,
        "series": first["series"],
    }


def test_more_series_than_are_read_are_reported(reader, monkeypatch):
    make_ebs_series(2, 3)
    monkeypatch.setitem(read_table.__kwdefaults__, "maximum", 19)

    assert reader.get("/api/v1/scaling").json()["is_cut"] is True
    for name in ("scaling", "matrix"):
        text = reader.get(f"/api/v1/{name}", {"format": "csv"}).content.decode()
        stated = {(row["is_cut"], row["is_thinned"]) for row in csv.DictReader(text.splitlines())}
        assert (name, stated) == (name, {("true", "false")})
        lines = reader.get(f"/api/v1/{name}", {"format": "ndjson"})
        assert (name, lines["X-Is-Cut"], lines["X-Is-Thinned"]) == (name, "true", "false")


def test_lines_name_in_headers_what_the_chart_fixed_and_hid(reader):
    make_ebs_series(2, 3)

    assert reader.get("/api/v1/scaling?format=csv")["X-Fixed"] == "file_size_bytes:5G"
    for name in ("scaling", "matrix", "layouts"):
        query = {"iops": "1"} if name == "layouts" else {}
        page = reader.get(f"/api/v1/{name}", query).json()
        hidden = page.get("counts", {}).get(
            "hidden_by_fixed", page.get("omitted", page).get("hidden_by_fixed")
        )
        for answer_format in ("csv", "ndjson"):
            lines = reader.get(f"/api/v1/{name}", query | {"format": answer_format})
            fixed = [term.partition(":")[0] for term in lines["X-Fixed"].split()]
            assert fixed == [
                each["dimension"] if name in ("scaling", "matrix") else each for each in page["fixed"]
            ]
            assert lines["X-Hidden-By-Fixed"] == str(hidden)


def test_cells_as_csv_have_their_values_as_the_filter_writes_them(reader):
    make_ebs_series(2, 3)

    response = reader.get(
        "/api/v1/scaling?format=csv&x=file_size&color=volume_count&q=rw:randread&facet=instance_type"
    )

    rows = list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))
    assert (rows[0]["facet"], rows[0]["color"], rows[0]["x"], rows[0]["median"]) == (
        "c1.xlarge",
        "1",
        "5G",
        "14311",
    )
    assert (
        response.headers["Content-Disposition"]
        == 'attachment; filename="scaling-iops-over-file_size_bytes.csv"'
    )


def test_combined_axis_has_values_as_terms_of_a_filter(reader):
    make_ebs_series(4, 6, 8)

    body = reader.get(
        "/api/v1/scaling?q=file_size:50G volumes:4 rw:randread&x=volume_size,volume_type"
    ).json()

    assert body["x"] == "volume_size_bytes,volume_type"
    assert {cell["x"]: cell["median"] for cell in body["cells"]} == {
        "volume_size_bytes:20G volume_type:standard": 1620.0,
        "volume_size_bytes:200G volume_type:provisioned-iops": 8191.0,
        "volume_size_bytes:200G volume_type:standard": 1344.0,
    }


def test_groups_are_listed_with_their_filters(reader):
    make_ebs_series(4, 6, 8)
    groups = "group=small%3Dvolume_size:20G&group=promised%3Dtype:prov*"

    body = reader.get(f"/api/v1/scaling?q=file_size:50G volumes:4 rw:randread&{groups}").json()

    assert body["x"] == "group"
    assert {cell["x"]: cell["median"] for cell in body["cells"]} == {"small": 1620.0, "promised": 8191.0}
    assert body["groups"] == [
        {"name": "small", "filter": "volume_size_bytes:20G", "matching": 1, "shown": 1},
        {"name": "promised", "filter": "volume_type:prov*", "matching": 1, "shown": 1},
    ]
    assert body["counts"]["ungrouped"] == 1


def test_cells_name_the_targets_that_they_miss(reader, ebs):
    body = reader.get("/api/v1/scaling?q=bs:4k rw:randread&target=iops:24000:Database").json()

    assert [cell["targets_missed"] for cell in body["cells"]] == [["Database"], [], [], [], []]


@pytest.mark.parametrize(("metric", "unit"), [("iops_per_volume", "operations/s"), ("elapsed_s", "s")])
def test_csv_has_the_unit_of_every_metric(metric, unit, reader, ebs):
    response = reader.get(f"/api/v1/scaling?format=csv&metric={metric}&x=volume_count")

    assert response.status_code == 200
    assert {row["unit"] for row in csv.DictReader(response.content.decode().splitlines())} == {unit}


def test_cells_name_the_limit_that_applies_also_in_csv(reader, ebs):
    url = "/api/v1/scaling?q=bs:4k rw:randread&limit=volume:10k*n&limit=instance:25000"

    body = reader.get(url).json()
    rows = list(csv.DictReader(io.StringIO(reader.get(f"{url}&format=csv").content.decode(), newline="")))

    assert [(cell["limit"], cell["limit_value"]) for cell in body["cells"]] == [
        ("volume", 10_000.0),
        ("volume", 20_000.0),
        *[("instance", 25_000.0)] * 3,
    ]
    assert [row["limit"] for row in rows] == ["volume", "volume", "instance", "instance", "instance"]


def test_cells_of_several_metrics_name_their_metric(reader, ebs):
    body = reader.get("/api/v1/scaling?q=rw:read&metric=bandwidth,iops").json()
    csv_answer = reader.get("/api/v1/scaling?q=rw:read&metric=bandwidth,iops&format=csv")

    assert (body["metric"]["name"], [each["name"] for each in body["more_metrics"]]) == (
        "bandwidth_bytes_per_s",
        ["iops"],
    )
    assert [cell["metric"] for cell in body["cells"]] == ["bandwidth_bytes_per_s"] * 5 + ["iops"] * 5
    rows = list(csv.DictReader(io.StringIO(csv_answer.content.decode(), newline="")))
    assert [row["metric"] for row in rows] == [cell["metric"] for cell in body["cells"]]
    # What the JSON page states once.
    assert [row["unit"] for row in rows] == ["bytes/s"] * 5 + ["operations/s"] * 5
    assert {(row["x_dimension"], row["filter"]) for row in rows} == {(body["x"], body["filter"])}


def test_parameters_of_the_page_are_taken_also_those_of_its_drawing(reader, ebs):
    response = reader.get(
        "/api/v1/scaling?q=bs:4k&draw=lines&scale=log&ideal=1&limit=a:16000&limit=b:2000*n&any=filesystem"
    )

    assert response.status_code == 200


def test_past_and_ghost_come_from_the_measurements(reader):
    start_at = NOON - timedelta(days=30)
    make_series(
        [100.0, 200.0, 900.0],
        target=make_target(volume_count=1),
        start_at=start_at,
        step=timedelta(days=10),
    )
    calculate_levels()

    (cell,) = reader.get("/api/v1/scaling?as_of=2026-11-05&compare_days=5").json()["cells"]

    assert (cell["median"], cell["earlier_median"], cell["n"]) == (150.0, 100.0, 2)


@pytest.mark.parametrize(
    ("query", "pointer", "words"),
    [
        ("x=speed", "x", "'speed' is not a valid dimension"),
        ("metric=speed", "metric", "'speed' is not a valid metric; available: iops"),
        ("over=iops&metric=iops", "over", "iops is not a latency"),
        ("group=fast", "group", "group 1: 'fast' is not NAME = FILTER"),
        ("target=fast", "target", "is not METRIC:VALUE:NAME"),
        ("limit=fast", "limit", "is not NAME:VALUE"),
        ("compare_days=0", "compare_days", "greater than or equal to 1"),
        ("as_of=x", "as_of", "Date has wrong format"),
        ("q=speed:9", "q", "Unknown filter"),
        ("speed=9", "speed", "Valid parameters: agent_version, any, as_of"),
        ("any=speed", "any", "'speed' is not a valid dimension"),
        ("x=iodepth&x=numjobs", "x", "occurs 2 times"),
    ],
)
def test_parameter_that_makes_no_sense_is_a_problem_that_names_it(query, pointer, words, reader):
    response = reader.get(f"/api/v1/scaling?{query}")

    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["pointer"] == pointer
    assert words in response.json()["detail"]


@pytest.mark.parametrize("answer_format", ["json", "csv", "ndjson"])
def test_fixed_dimensions_are_in_the_body_and_in_a_header(answer_format, reader):
    for number in range(16):
        host = make_host(f"db-{number:02}")
        for count in (1, 2):
            target = make_target(volume_type="gp3", volume_count=count)
            make_series([100.0 + number], metric="latency_p99_ns", host=host, target=target)
    calculate_levels()

    for count in (1, 2):
        target = make_target(volume_type="st1", volume_count=count)
        make_series([50.0], metric="latency_p99_ns", host=host, target=target)
    calculate_levels()

    for path, fixed, hidden in (("scaling", "volume_type:gp3", "2"), ("matrix", "volume_type:gp3", "2")):
        asked = f"/api/v1/{path}?format={answer_format}&metric=latency_p99_ns"
        response, refused = reader.get(asked), reader.get(f"{asked}&fix=none")

        assert fixed in response.content.decode()
        assert response.headers["X-Fixed"].startswith(fixed)
        assert response.headers["X-Hidden-By-Fixed"] == hidden
        assert (refused.status_code, refused.json()["pointer"]) == (400, "fix")
        assert f"several values of {fixed.partition(':')[0]}" in refused.json()["detail"]


def test_every_option_is_a_parameter():
    names = set(ScalingParameters().fields) - set(FILTER_DIMENSIONS) - {"format", "q", "from", "to", "as_of"}

    assert names == {
        *("x", "metric", "color", "facet", "over", "any", "compare_days", "runs", "model", "predict"),
        *("limit", "target", "group", "draw", "scale", "ideal"),
    }


def test_empty_server_has_an_empty_picture(reader):
    body = reader.get("/api/v1/scaling").json()

    assert (body["counts"]["filled"], body["fixed"]) == (0, [])


def test_chart_takes_two_queries_for_the_token_and_two_more(reader, django_assert_num_queries, ebs):
    with django_assert_num_queries(4):  # snapshot and marks
        reader.get("/api/v1/scaling")


def test_runs_are_in_the_cells_on_request_and_rows_of_csv(reader):
    series = add_series([100.0, 120.0], host=make_host("db-02"), target=make_target(volume_count=2))

    (cell,) = reader.get("/api/v1/scaling?runs=1").json()["cells"]
    csv_text = reader.get("/api/v1/scaling?runs=1&format=csv").content.decode()

    assert [(run["host"], run["series"], run["value"], run["over"]) for run in cell["runs"]] == [
        ("db-02", series.pk, 100.0, None),
        ("db-02", series.pk, 120.0, None),
    ]
    rows = list(csv.DictReader(io.StringIO(csv_text, newline="")))
    assert [(row["x"], row["n"], row["run"], row["value"]) for row in rows] == [
        ("2", "2", str(cell["runs"][0]["run"]), "100"),
        ("2", "2", str(cell["runs"][1]["run"]), "120"),
    ]


def test_runs_of_a_group_of_runs_have_its_environment(reader):
    host, layout = make_host("db-02"), make_target(volume_count=2)
    series = make_series(host=host, target=layout)
    for hour, (kernel, iops) in enumerate((("5.15", 100.0), ("6.1", 110.0), ("5.15", 120.0))):
        run = make_run(
            host, started_at=NOON + timedelta(hours=hour), environment=make_environment(kernel=kernel)
        )
        make_measurement(run, series, iops=iops)
    calculate_levels()

    cells = reader.get("/api/v1/scaling?runs=1&x=kernel").json()["cells"]

    found = {cell["x"]: (cell["n"], [run["value"] for run in cell["runs"]]) for cell in cells}
    assert found == {"5.15": (2, [100.0, 120.0]), "6.1": (1, [110.0])}


def test_models_of_the_curves_have_parameters_shares_and_predictions(reader, ebs):
    body = reader.get(
        "/api/v1/scaling", {"q": "bs:4k rw:randread", "model": "1", "predict": "3,16,24,25"}
    ).json()

    (model,) = body["models"]
    assert (model["model"], model["refusal"], model["color"]) == ("saturation", None, "randread")
    assert model["one"]["low"] < model["one"]["value"] < model["one"]["high"]
    assert model["limit"]["low"] < 30_000 < model["limit"]["high"]
    assert (model["contention"], model["coherency"]) == (None, None)
    assert model["peak_width"] == model["knee_width"] == 3
    assert model["shares"][0]["share"] == pytest.approx(model["one"]["value"] / model["limit"]["value"])
    assert next(row["model"] for row in model["criteria"]) == "saturation"
    assert model["range_width"] == 24
    assert [(row["width"], row["is_measured"]) for row in model["predictions"]] == [
        (3, False),
        (16, True),
        (24, False),
    ]
    assert model["outside"] == [25]


def test_curve_that_no_model_describes_has_the_reason(reader):
    make_ebs_series(1)

    body = reader.get("/api/v1/scaling", {"q": "bs:4k rw:randwrite", "model": "1", "predict": "6"}).json()

    (model,) = body["models"]
    assert (model["model"], model["refusal"], model["criteria"]) == (None, "no-fit", [])
    assert "width 4" in model["reason"]
    assert model["outside"] == [6]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"model": "1", "metric": "p99"}, "model"),
        ({"model": "1", "metric": "iops_per_volume"}, "model"),
        ({"model": "1", "x": "pattern"}, "model"),
        ({"predict": "6"}, "predict"),
        ({"model": "1", "predict": "0"}, "predict"),
        ({"model": "1", "predict": "1,2,3,4,5,6,7,8,9"}, "predict"),
        ({"model": "1", "predict": "six"}, "predict"),
    ],
)
def test_models_that_do_not_apply_are_refused(reader, query, pointer, ebs):
    response = reader.get("/api/v1/scaling", query)

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)


def test_models_are_calculated_on_request_only(reader, ebs):
    assert reader.get("/api/v1/scaling").json()["models"] is None
