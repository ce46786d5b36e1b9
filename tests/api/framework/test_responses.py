import csv
import gzip
import io
import json
from datetime import UTC, datetime

import brotli
import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from rest_framework.request import Request

from benchapp.api.framework.answers import AnswerPage, ApiAnswer, ChosenColumns
from benchapp.api.framework.responses import accepts, answer_rows, answer_unchanged
from benchapp.queries import snapshots
from benchapp.queries.snapshots import SnapshotCache


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
    response = answer([Line(a=value)], format="csv")

    (cells,) = csv.DictReader(io.StringIO(response.content.decode(), newline=""))
    assert cells == {"a": cell}


def test_csv_of_the_api_is_quoted_and_escaped():
    response = answer([Line(a="\r=1+1")], format="csv")

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


class Makes:
    """Make responses, each with its number."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return HttpResponse(str(self.count), headers={"ETag": f'W/"{self.count}"'})


def read_unchanged(make, address, **headers):
    request = Request(RequestFactory().get(address, headers=headers))
    return int(answer_unchanged(request, make).content)


@pytest.fixture
def snapshot(monkeypatch):
    """Let results be cached, also over the end of a minute, and return what sets the snapshot."""
    monkeypatch.setattr("benchapp.api.framework.responses.RESULTS", SnapshotCache())
    monkeypatch.setattr("benchapp.api.framework.responses.read_minute", lambda: None)

    def set_snapshot(text):
        monkeypatch.setattr(snapshots, "read_snapshot", lambda: text)

    set_snapshot("1")
    return set_snapshot


def test_answer_is_made_again_after_a_write(snapshot):
    make = Makes()

    before = [read_unchanged(make, "/a") for _ in range(2)]
    snapshot("2")
    after = [read_unchanged(make, "/a") for _ in range(2)]

    assert (before, after) == ([1, 1], [2, 2])


def test_answer_without_a_snapshot_is_made_each_time(snapshot):
    make = Makes()
    snapshot(None)

    assert [read_unchanged(make, "/a") for _ in range(2)] == [1, 2]


def test_kept_answer_is_that_of_its_address_and_content_coding(snapshot):
    make, brotli_accepted = Makes(), {"Accept-Encoding": "br"}

    requests = [("/a", {}), ("/a?q=b", {}), ("/a", brotli_accepted), ("/a", {}), ("/a", brotli_accepted)]

    assert [read_unchanged(make, address, **headers) for address, headers in requests] == [1, 2, 3, 1, 3]


def test_kept_answer_of_one_user_is_not_that_of_another(snapshot):
    make = Makes()

    answers = [answer_unchanged(request_with(), make, reader=reader) for reader in (1, 2, None, 1)]

    assert [answer.content for answer in answers] == [b"1", b"2", b"3", b"1"]


@pytest.mark.parametrize(("address", "headers"), [("/a", {"If-None-Match": 'W/"1"'}), ("/a?from=-30d", {})])
def test_conditional_and_relative_requests_are_answered_anew(snapshot, address, headers):
    make = Makes()

    assert [read_unchanged(make, address, **headers) for _ in range(2)] == [1, 2]


def test_kept_answer_has_its_headers_and_takes_others(snapshot):
    make, request = Makes(), request_with()

    first = answer_unchanged(request, make)
    first.headers["RateLimit"] = "of the first client"
    second = answer_unchanged(request, make)

    assert second.headers["ETag"] == 'W/"1"'
    assert "RateLimit" not in second.headers


def test_parts_and_errors_are_not_kept(snapshot):
    for response in (StreamingHttpResponse([b"a"]), HttpResponse(status=304)):
        with pytest.raises(TypeError, match="only whole answers are kept"):
            answer_unchanged(request_with(), lambda response=response: response)


@pytest.mark.parametrize("format", ["json", "csv", "ndjson"])
def test_next_page_stands_in_the_link_header(format):
    response = answer([Line(a=1)], next_cursor="CURSOR", format=format)

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
    response = answer([], columns=["a", "b"], format="csv")

    assert response.content == b'"a","b"\r\n'
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="rows.csv"'


def test_ndjson_is_a_row_a_line():
    response = answer([Line(a=1), Line(a=None)], format="ndjson")

    assert response.content == b'{"a":1,"b":null}\n{"a":null,"b":null}\n'


@pytest.mark.parametrize("format", ["json", "ndjson"])
def test_rows_have_the_chosen_columns_only(format):
    response = answer([ChosenLine(a=1, b=2)], columns=("b",), format=format)

    assert b'{"b":2}' in response.content
    assert b'"a"' not in response.content
