import json
from datetime import timedelta

import pytest

from benchapp.framework.api import lists
from benchapp.framework.api.openapi import make_schema
from benchapp.models import Host, Scope, Study
from tests.factories import (
    NOON,
    make_change,
    make_detection_policy,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_run,
    make_run_request,
    make_series,
    make_target,
    make_token,
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def two_of_each() -> int:
    """Make two of everything that is listed, with values of every kind; return the id of a series of two points."""
    for number in range(2):
        host = make_host(f"db-{number}")
        series = make_series([10.0, 20.5], host=host, target=make_target(target_name="=1+1", volume_count=4))
        run = make_run(host, labels={"rack": "r1"}, warnings=[{"code": "a", "where": "b", "message": "c"}])
        make_measurement(run, series, iops=1.5, badges=[{"code": "cached"}])
        make_incident(changes=[make_change(series)], suspects=[{"name": "kernel", "text": "kernel 6.1"}])
        make_planned_event()
        make_detection_policy()
        make_run_request(Host.objects.get(name="db-0"))
        Study.objects.create(title="-Disks", panels=[])
    return series.pk


@pytest.mark.parametrize("answer_format", ["csv", "ndjson"])
@pytest.mark.parametrize(
    "path",
    [
        "changes?",
        "hosts?",
        "incidents?",
        "planned-events?",
        "runs?",
        "series?",
        "series/{series_id}/points?rolling=3&",
        "studies?",
        "submissions?",
    ],
)
def test_a_long_list_is_written_as_a_short_one(reader, two_of_each, monkeypatch, path, answer_format):
    address = f"/api/v1/{path.format(series_id=two_of_each)}format={answer_format}"
    short = reader.get(address)

    monkeypatch.setattr(lists, "LIMIT_MAXIMUM", 1)
    long = reader.get(address)

    assert (short.streaming, long.streaming) == (False, True)
    assert read_rows(long.getvalue(), answer_format) == read_rows(short.content, answer_format)


def read_rows(body, answer_format):
    """Return what is compared: the bytes of CSV; of NDJSON the objects, whose members have no order."""
    return body if answer_format == "csv" else [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("changes", "relative,series"),
        ("detection-policies", "metric,smallest_change"),
        ("hosts", "name,kernel"),
        ("incidents", "title,id"),
        ("planned-events", "id,filter"),
        ("runs", "id,host"),
        ("series", "id,level_median,level_p10,level_p90"),
        ("studies", "title,id"),
        ("submissions", "state,host"),
        ("tokens", "label,scope"),
    ],
)
def test_list_has_the_columns_that_are_named(admin, two_of_each, path, fields):
    answer = admin.get(f"/api/v1/{path}?fields={fields}").json()
    header = admin.get(f"/api/v1/{path}?fields={fields}&format=csv").content.decode().splitlines()[0]

    (rows,) = [value for value in answer.values() if isinstance(value, list)]
    assert {tuple(row) for row in rows} == {tuple(fields.split(","))}
    assert header == ",".join(f'"{name}"' for name in fields.split(","))
    refused = admin.get(f"/api/v1/{path}?fields=nonsense").json()
    assert fields.partition(",")[0] in refused["detail"]


def test_every_list_with_pages_but_the_points_of_a_series_has_fields():
    parameters = {
        path: {parameter["name"] for parameter in methods["get"].get("parameters", ())}
        for path, methods in make_schema()[0]["paths"].items()
        if "get" in methods
    }

    lists = {path for path, names in parameters.items() if "cursor" in names}

    assert len(lists) >= 11
    assert {path for path in lists if "fields" not in parameters[path]} == {
        "/api/v1/series/{series_id}/points"
    }


@pytest.mark.parametrize("path", ["changes", "incidents"])
@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("-size", [0.5, -0.5, -0.3, 0.1]),
        ("size", [0.1, -0.3, -0.5, 0.5]),
        ("started_at", [0.1, -0.5, 0.5, -0.3]),
        ("-started_at", [-0.3, 0.5, -0.5, 0.1]),
    ],
)
def test_changes_and_incidents_are_sorted_by_time_or_size_across_pages(reader, path, sort, order):
    series = make_series([10.0])
    for day, relative in enumerate((0.1, -0.5, 0.5, -0.3)):
        at = NOON + timedelta(days=day)
        change = make_change(series, relative=relative, at=at)
        make_incident(changes=[change], relative=relative, started_at=at)

    found, url = [], f"/api/v1/{path}?sort={sort}&limit=1"
    while url is not None:
        answer = reader.get(url).json()
        found += [row["relative"] for row in answer[path]]
        url = answer["next"]

    assert found == order
    cursor = reader.get(f"/api/v1/{path}?sort={sort}&limit=1").json()["next_cursor"]
    other = "size" if "started" in sort else "started_at"
    assert reader.get(f"/api/v1/{path}?sort={other}&cursor={cursor}").json()["code"] == "cursor-invalid"


def test_hosts_are_listed_in_either_direction_of_their_names(reader):
    for name in ("db-1", "db-2", "db-3"):
        make_host(name)

    first = reader.get("/api/v1/hosts?sort=-name&limit=2&fields=name").json()
    second = reader.get(first["next"]).json()

    assert [row["name"] for row in [*first["hosts"], *second["hosts"]]] == ["db-3", "db-2", "db-1"]


@pytest.mark.parametrize(
    ("path", "sort"),
    [
        ("audit", "at"),
        ("detection-policies", "created_at"),
        ("hosts/db-0/requests", "created_at"),
        ("planned-events", "from_at"),
        ("runs", "started_at"),
        ("studies", "updated_at"),
        ("submissions", "received_at"),
        ("tokens", "created_at"),
    ],
)
def test_list_by_time_is_read_from_either_end_across_pages(admin, two_of_each, path, sort):
    make_token(Scope.READ)
    for number in range(2):
        admin.post("/api/v1/studies", {"title": f"s{number}", "panels": []}, "application/json")
    newest_first = _walk(admin, f"/api/v1/{path}?format=json")
    oldest_first = _walk(admin, f"/api/v1/{path}?sort={sort}&limit=1")

    assert len(newest_first) > 1
    assert oldest_first == newest_first[::-1]
    assert f"-{sort}" in admin.get(f"/api/v1/{path}?sort=size").json()["detail"]


def _walk(client, url):
    """Return all rows of a list."""
    found = []
    while url is not None:
        answer = client.get(url).json()
        (rows,) = [value for value in answer.values() if isinstance(value, list)]
        found += rows
        url = answer["next"]
    return found
