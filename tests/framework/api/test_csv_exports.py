"""Every CSV can be read alone: context in columns, as docs/api.md lists them, and numbers as precise as measured."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone
from rest_framework.views import APIView

from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.responses import COMPLETENESS, answer_lines, name_header
from benchapp.models import Role, Study, TargetMapping, Trace
from tests.factories import (
    calculate_levels,
    make_attempt,
    make_change,
    make_correction,
    make_detection_policy,
    make_detection_result,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_price,
    make_run,
    make_run_request,
    make_series,
    make_signed_link,
    make_target,
    make_wanted_schedule,
    make_workload,
)

DOCUMENT = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
# Rows of JSON are in the member that is a list of objects; where there are several, and where CSV has other rows.
ROWS = {
    "/api/v1/history": "points",
    "/api/v1/comparison": "pairs",
    "/api/v1/runs/{run_id}/traces": "points",
    "/api/v1/layouts": "layouts",
    "/api/v1/scaling": "cells",
}
OWN_COLUMNS = {
    "/api/v1/series/{series_id}/histogram": [
        *("from_at", "to_at", "runs", "last_run", "bucket", "from_ns", "to_ns", "operations")
    ],
}
# Members of the rows of JSON that no cell of a table has.
NO_COLUMNS = {"/api/v1/experiment": {"looks"}, "/api/v1/scaling": {"runs"}, "/api/v1/matrix": {"recent"}}
QUERIES: dict[str, dict[str, Any]] = {
    "/api/v1/comparison": {"a": "host:db-1", "b": "host:db-2", "q": "rw:randread"},
    "/api/v1/experiment": {"a": "host:db-1", "b": "host:db-2", "from": "2026-01-01"},
    "/api/v1/layouts": {"iops": "1"},
    "/api/v1/history": {"metrics": "iops,latency_p99_ns", "q": "host:db-1"},
}
# Digits from the first that is not 0, of a number with a fraction.
FRACTION = re.compile(r"\d+\.\d+")
TIME = re.compile(r"T\d\d:\d\d:\d\d\.\d+Z")
MEASURED = 33415.123456789


def list_documented() -> dict[str, list[str]]:
    """Return the further columns by address, from docs/api.md."""
    table = DOCUMENT.split("\n## CSV\n")[1].split("\n## ")[0]
    lines = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `GET")]
    return {
        address: re.findall(r"`(\w+)`", further)
        for addresses, further in lines
        for address in re.findall(r"`GET ([^`]+)`", addresses)
    }


def list_addresses() -> list[str]:
    """Return the addresses that have CSV, from the OpenAPI document."""
    paths: Any = make_schema()[0]["paths"]
    return [
        path
        for path, operations in paths.items()
        if "text/csv" in operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
    ]


@pytest.fixture
def names(db: None) -> dict[str, Any]:
    """Make rows for every CSV; return the parameters of the paths."""
    hosts, target = [make_host("db-1"), make_host("db-2")], make_target(volume_type="gp3", volume_count=4)
    start = timezone.now() - timedelta(days=5)
    lines = [
        make_series(
            [MEASURED * (1 + place % 7 / 1000) for place in range(12)],
            host=host,
            target=target,
            start_at=start,
        )
        for host in hosts
    ]
    run = make_run(
        hosts[0],
        target=target,
        started_at=start + timedelta(days=1),
        command={"conditions": {"extents": 3.123456789}},
    )
    make_measurement(
        run,
        lines[0],
        iops=MEASURED,
        latency_p99_ns=2345.678912,
        latency_mean_ns=1234.567891,
        percentiles={"50": 1000.123456, "99": 2345.678912},
        latency_bins=[41, 800, 20],
        total_ios=100_000,
    )
    Trace.objects.create(
        run=run,
        kind="iops",
        direction="read",
        jobs=1,
        entries=1,
        bucket_s=1.0,
        buckets={
            "at_s": [1.0],
            "mean": [MEASURED],
            "minimum": [None],
            "maximum": [None],
            "count": [1],
        },
    )
    make_series(
        [MEASURED],
        host=hosts[0],
        target=target,
        workload=make_workload(rw="randwrite"),
        direction="write",
        start_at=start,
    )
    calculate_levels()
    change = make_change(lines[0], before=MEASURED, after=MEASURED / 1.3)
    make_incident(changes=[change])
    make_detection_result(lines[0])
    make_price()
    make_signed_link()
    make_planned_event()
    make_wanted_schedule()
    make_correction()
    make_detection_policy()
    Study.objects.create(title="Disks", panels=[])
    TargetMapping.objects.create(scope="host:db-1", pattern="/mnt/run-*", target_name="data")
    make_attempt(hosts[0])
    make_run_request(hosts[0])
    return {"series_id": lines[0].pk, "run_id": run.pk, "name": "db-1"}


def read_csv(client: Client, address: str, query: dict[str, Any]) -> list[list[str]]:
    response = client.get(address, {**query, "format": "csv"})
    assert response.status_code == 200, (address, response.content)
    return list(csv.reader(io.StringIO(response.getvalue().decode(), newline=""), strict=True))


def find_rows(body: dict[str, Any], address: str) -> list[dict[str, Any]]:
    if address in ROWS:
        return list(body[ROWS[address]])
    lists = [
        value for value in body.values() if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    return lists[-1] if lists else []


def list_long_numbers(rows: list[list[str]]) -> list[str]:
    """Return the fractional numbers with more than six significant digits."""
    texts = [text for row in rows for cell in row for text in FRACTION.findall(TIME.sub("", cell))]
    return [text for text in texts if len(text.replace(".", "").lstrip("0")) > 6]


def test_every_csv_has_the_documented_columns_and_measured_digits(
    admin: Client, names: dict[str, Any]
) -> None:
    documented, found = list_documented(), {}
    long_numbers, without_member, without_rows = {}, {}, set()

    for path in list_addresses():
        address, query = path.format(**names), QUERIES.get(path, {})
        header, *rows = read_csv(admin, address, query)
        body = json.loads(admin.get(address, query).getvalue())
        members = OWN_COLUMNS.get(path) or [
            name for name in (find_rows(body, path) or [{}])[0] if name not in NO_COLUMNS.get(path, ())
        ]
        further = [name for name in header if name not in members]
        found[re.sub(r"{\w*_id}", "{id}", path).removeprefix("/api/v1")] = further
        if missing := set(members) - set(header):
            without_member[path] = missing
        if numbers := list_long_numbers(rows):
            long_numbers[path] = numbers
        if not rows:
            without_rows.add(path)

    assert [item for item in found.items() if item not in documented.items()] == []
    assert set(documented) == set(found)
    assert (without_member, long_numbers) == ({}, {})
    assert without_rows == set()


def test_headers_state_what_csv_and_ndjson_leave_out(admin: Client, names: dict[str, Any]) -> None:
    stated = {}

    for path, further in list_documented().items():
        columns = [name for name in further if name in COMPLETENESS]
        address = f"/api/v1{path}".format(**names | {"id": names["series_id"]})
        for answer_format in ("csv", "ndjson") if columns else ():
            response = admin.get(address, {**QUERIES.get(f"/api/v1{path}", {}), "format": answer_format})
            stated[path, answer_format] = [
                response[name_header(name)] for name in COMPLETENESS if name_header(name) in response
            ]
            assert len(stated[path, answer_format]) == len(columns), (path, answer_format)

    assert stated["/matrix", "ndjson"] == ["false", "false", "0", "0", "0"]
    assert {path for path, _ in stated} >= {"/scaling", "/comparison", "/layouts"}


def test_lines_that_leave_something_out_are_another_version() -> None:
    """The lines may be the same: a client that knows the complete ones has to see the header."""
    request = APIView().initialize_request(RequestFactory().get("/api/v1/matrix"))

    answers = [
        answer_lines(
            request,
            [],
            columns=["iops"],
            answer_format="ndjson",
            file_name="matrix",
            context={"is_cut": is_cut},
        )
        for is_cut in (False, True)
    ]

    assert [answer["X-Is-Cut"] for answer in answers] == ["false", "true"]
    assert answers[0]["ETag"] != answers[1]["ETag"]


def test_header_about_what_is_left_out_is_ascii_of_one_line() -> None:
    request = APIView().initialize_request(RequestFactory().get("/api/v1/matrix"))
    left_out = {"fixed": 'label.site:"Köln 5%\n"', "hidden_by_fixed": 3}

    answer = answer_lines(
        request, [], columns=["n"], answer_format="csv", file_name="matrix", left_out=left_out
    )

    assert answer["X-Fixed"] == 'label.site:"K%C3%B6ln 5%25%0A"'
    assert answer["X-Hidden-By-Fixed"] == "3"


def test_csv_of_a_run_names_host_and_layout(person: Callable[[Role], Client], names: dict[str, Any]) -> None:
    header, row = read_csv(person(Role.VIEWER), f"/runs/{names['run_id']}/table.csv", {})

    cells = dict(zip(header, row, strict=True))
    assert (cells["host"], cells["target"], cells["iops"]) == ("db-1", "4 × gp3", "33415.1")
    assert (cells["latency_p50_ns"], list_long_numbers([row])) == ("1000.12", [])
