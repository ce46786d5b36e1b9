"""Badges as the API gives them, and what it filters by."""

import csv
import io

import pytest

from benchapp.models import Series
from benchapp.series.read.shapes import BADGE_CODES
from tests.factories import make_measurement, make_run, make_series

SHORT = {"code": "too-short", "sentence": "It ran 3 s.", "numbers": {"runtime_s": 3.0}}
CACHED = {"code": "cached", "sentence": "From memory.", "numbers": {}}
FEW = {"code": "few-samples", "sentence": "Too few.", "numbers": {"samples": 12}}


def make_marked_run(*badges, **fields):
    run = make_run(badges=sorted(badge["code"] for badge in badges), **fields)
    make_measurement(run, badges=list(badges))
    return run


def listed(reader, query):
    return {row["id"] for row in reader.get(f"/api/v1/runs?{query}").json()["runs"]}


def test_run_has_codes_and_its_measurements_have_sentences_and_numbers(reader):
    run = make_marked_run(FEW, SHORT)

    body = reader.get(f"/api/v1/runs/{run.id}").json()

    assert body["badges"] == ["too-short", "few-samples"]
    assert body["measurements"][0]["badges"] == [FEW, SHORT]
    assert reader.get("/api/v1/runs?fields=badges").json()["runs"] == [
        {"badges": ["too-short", "few-samples"]}
    ]


def test_runs_are_filtered_by_any_of_the_badges_named(reader):
    short, few, both = make_marked_run(SHORT), make_marked_run(FEW), make_marked_run(FEW, SHORT)
    make_marked_run()

    assert listed(reader, "badge=too-short") == {short.id, both.id}
    assert listed(reader, "badge=too-short,few-samples") == {short.id, few.id, both.id}
    assert listed(reader, "badge=cached") == set()


def test_valid_runs_are_those_without_doubt(reader):
    cached, few, short, none = (make_marked_run(*badges) for badges in ([CACHED], [FEW], [SHORT], []))

    assert listed(reader, "valid=true") == {few.id, short.id, none.id}
    assert listed(reader, "valid=false") == {cached.id}
    assert listed(reader, "") == {cached.id, few.id, short.id, none.id}


def test_failed_run_is_not_valid_though_no_badge_says_so(reader):
    failed, good = make_marked_run(error=5), make_marked_run()

    assert listed(reader, "valid=true") == {good.id}
    assert listed(reader, "valid=false") == {failed.id}


@pytest.mark.parametrize("address", ["runs", "series"])
def test_unknown_badge_is_refused_with_those_there_are(reader, address):
    response = reader.get(f"/api/v1/{address}?badge=too-long")

    assert response.status_code == 400
    assert (response.json()["code"], response.json()["pointer"]) == ("parameter-invalid", "badge")
    assert all(code in response.json()["detail"] for code in BADGE_CODES)


def test_series_bears_the_badges_of_its_newest_and_is_found_by_them(reader):
    marked, plain = make_series([1.0]), make_series([2.0])
    Series.objects.filter(pk=marked.pk).update(badges=["few-samples", "stalls"])

    (row,) = reader.get("/api/v1/series?badge=stalls").json()["series"]

    assert (row["id"], row["badges"]) == (marked.pk, ["stalls", "few-samples"])
    assert reader.get(f"/api/v1/series/{plain.pk}").json()["badges"] == []


def test_points_carry_codes_also_in_csv(reader):
    series = make_series([1.0])
    make_measurement(make_run(host=series.host), series, iops=2.0, badges=[SHORT, FEW])
    address = f"/api/v1/series/{series.pk}/points?metrics=iops"

    first, second = reader.get(address).json()["points"]
    lines = list(csv.DictReader(io.StringIO(reader.get(f"{address}&format=csv").content.decode())))

    assert (first["badges"], second["badges"]) == ([], ["too-short", "few-samples"])
    assert [line["badges"] for line in lines] == ["[]", '["too-short","few-samples"]']
