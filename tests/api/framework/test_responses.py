import csv
import gzip
import io
import json
from datetime import UTC, datetime

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from benchapp.api.framework.responses import accepts_gzip, answer_rows


def request_with(**headers):
    return Request(RequestFactory().get("/api/v1/series?limit=2", headers=headers))


def test_csv_has_values_that_are_not_plain_as_json():
    row = {
        "options": {"fsync": "1"},
        "badges": [],
        "at": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "loss": -1.5,
    }

    response = answer_rows(
        request_with(), [row], name="rows", columns=list(row), next_cursor=None, format="csv"
    )

    (cells,) = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    assert cells == {"options": '{"fsync":"1"}', "badges": "[]", "at": "2026-11-21T12:00:00Z", "loss": "-1.5"}


def test_csv_of_the_api_is_quoted_and_escaped():
    response = answer_rows(
        request_with(), [{"a": "\r=1+1"}], name="rows", columns=["a"], next_cursor=None, format="csv"
    )

    assert response.content == b'"a"\r\n"\'\r=1+1"\r\n'


@pytest.mark.parametrize(
    ("offer", "is_taken"),
    [
        ("gzip", True),
        ("br, gzip", True),
        ("deflate,gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("br", False),
        ("", False),
    ],
)
def test_gzip_is_used_where_it_is_accepted(offer, is_taken):
    assert accepts_gzip(request_with(**{"Accept-Encoding": offer})) is is_taken


def test_rows_are_compressed_from_a_kilobyte_on():
    rows = [{"a": "x" * 2000}]

    packed = answer_rows(
        request_with(**{"Accept-Encoding": "gzip"}), rows, name="rows", columns=["a"], next_cursor=None
    )
    plain = answer_rows(request_with(), rows, name="rows", columns=["a"], next_cursor=None)
    small = answer_rows(
        request_with(**{"Accept-Encoding": "gzip"}), [], name="rows", columns=["a"], next_cursor=None
    )

    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in small.headers
    assert "Accept-Encoding" in plain.headers["Vary"]


@pytest.mark.parametrize("format", ["json", "csv", "ndjson"])
def test_next_page_stands_in_the_link_header(format):
    response = answer_rows(
        request_with(), [{"a": 1}], name="rows", columns=["a"], next_cursor="CURSOR", format=format
    )

    assert response.headers["Link"] == '</api/v1/series?limit=2&cursor=CURSOR>; rel="next"'


def test_next_page_stands_in_the_body():
    response = answer_rows(request_with(), [{"a": 1}], name="rows", columns=["a"], next_cursor="CURSOR")

    body = json.loads(response.content)
    assert body == {
        "rows": [{"a": 1}],
        "next": "/api/v1/series?limit=2&cursor=CURSOR",
        "next_cursor": "CURSOR",
    }


def test_last_page_has_no_next():
    response = answer_rows(request_with(), [], name="rows", columns=["a"], next_cursor=None)

    assert json.loads(response.content) == {"rows": [], "next": None, "next_cursor": None}
    assert "Link" not in response.headers


def test_csv_without_rows_still_has_its_header():
    response = answer_rows(
        request_with(), [], name="rows", columns=["a", "b"], next_cursor=None, format="csv"
    )

    assert response.content == b'"a","b"\r\n'
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="rows.csv"'


def test_ndjson_is_a_row_a_line():
    rows = [{"a": 1}, {"a": None}]

    response = answer_rows(
        request_with(), rows, name="rows", columns=["a"], next_cursor=None, format="ndjson"
    )

    assert response.content == b'{"a":1}\n{"a":null}\n'
