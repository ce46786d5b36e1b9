import csv
import gzip
import io
import json
from datetime import UTC, datetime

import brotli
import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from benchapp.framework.api.answers import AnswerPage, ApiAnswer, ChosenColumns
from benchapp.framework.api.responses import accepts, answer_rows


class Line(ApiAnswer, kw_only=True, frozen=True):
    a: object
    b: object = None


class ChosenLine(ChosenColumns, kw_only=True, frozen=True):
    a: object
    b: object


class LinePage(AnswerPage, kw_only=True, frozen=True):
    rows: list[ApiAnswer]


def answer(rows, *, columns=("a",), **options):
    return answer_rows(request_with(), LinePage, rows, name="rows", columns=columns, **options)


def request_with(**headers):
    return Request(RequestFactory().get("/api/v1/series?limit=2", headers=headers))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ({"fsync": "1"}, '{"fsync":"1"}'),
        ([], "[]"),
        (datetime(2026, 11, 21, 12, tzinfo=UTC), "2026-11-21T12:00:00Z"),
        (-1.5, "-1.5"),
    ],
)
def test_csv_has_values_that_are_not_plain_as_json(value, cell):
    response = answer([Line(a=value)], answer_format="csv")

    (cells,) = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    assert cells == {"a": cell}


def test_csv_of_the_api_is_quoted_and_escaped():
    response = answer([Line(a="\r=1+1")], answer_format="csv")

    assert response.content == b'"a"\r\n"\'\r=1+1"\r\n'


@pytest.mark.parametrize(
    ("offer", "accepted"),
    [
        ("gzip", ["gzip"]),
        ("br, gzip", ["br", "gzip"]),
        ("deflate,gzip;q=0.5", ["gzip"]),
        ("GZIP, br;q=0.001", ["br", "gzip"]),
        ("gzip;q=0", []),
        ("gzip;q=0.000, br;q=0", []),
        ("br", ["br"]),
        ("brotli, x-gzip", []),
        ("", []),
    ],
)
def test_content_codings_are_those_that_the_client_accepts(offer, accepted):
    request = request_with(**{"Accept-Encoding": offer})

    assert [coding for coding in ("br", "gzip") if accepts(request, coding)] == accepted


def test_rows_are_compressed_from_a_kilobyte_on():
    rows = [Line(a="x" * 2000)]
    compressing = request_with(**{"Accept-Encoding": "gzip"})

    packed = answer_rows(compressing, LinePage, rows, name="rows")
    plain = answer(rows)
    small = answer_rows(compressing, LinePage, [], name="rows")

    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in small.headers
    assert "Accept-Encoding" in plain.headers["Vary"]


def test_brotli_is_preferred_to_gzip():
    rows = [Line(a="x" * 2000)]

    packed = answer_rows(request_with(**{"Accept-Encoding": "gzip, br"}), LinePage, rows, name="rows")

    assert packed.headers["Content-Encoding"] == "br"
    assert packed.headers["Content-Length"] == str(len(packed.content))
    assert brotli.decompress(packed.content) == answer(rows).content


@pytest.mark.parametrize("answer_format", ["json", "csv", "ndjson"])
def test_next_page_stands_in_the_link_header(answer_format):
    response = answer([Line(a=1)], next_cursor="CURSOR", answer_format=answer_format)

    assert response.headers["Link"] == '</api/v1/series?limit=2&cursor=CURSOR>; rel="next"'


def test_next_page_stands_in_the_body():
    response = answer([Line(a=1)], next_cursor="CURSOR")

    body = json.loads(response.content)
    assert body == {
        "rows": [{"a": 1, "b": None}],
        "next": "/api/v1/series?limit=2&cursor=CURSOR",
        "next_cursor": "CURSOR",
    }


def test_last_page_has_no_next():
    response = answer([])

    assert json.loads(response.content) == {"rows": [], "next": None, "next_cursor": None}
    assert "Link" not in response.headers


def test_csv_without_rows_still_has_its_header():
    response = answer([], columns=["a", "b"], answer_format="csv")

    assert response.content == b'"a","b"\r\n'
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="rows.csv"'


def test_ndjson_is_a_row_a_line():
    response = answer([Line(a=1), Line(a=None)], answer_format="ndjson")

    assert response.content == b'{"a":1,"b":null}\n{"a":null,"b":null}\n'


@pytest.mark.parametrize("answer_format", ["json", "ndjson"])
def test_rows_have_the_chosen_columns_only(answer_format):
    response = answer([ChosenLine(a=1, b=2)], columns=("b",), answer_format=answer_format)

    assert b'{"b":2}' in response.content
    assert b'"a"' not in response.content
