"""Two things side by side, for programs."""

import csv
import io

import pytest

from tests.factories import add_series, make_host, make_workload

pytestmark = pytest.mark.django_db


def test_pairs_carry_the_statistics(reader):
    first = add_series([100, 101, 99, 100, 102, 98], host=make_host("fast"))
    second = add_series([80, 81, 79, 80, 82, 78], host=make_host("slow"))

    answer = reader.get("/api/v1/comparison?a=host:fast&b=host:slow&metrics=iops").json()

    (pair,) = answer["pairs"]
    assert (pair["a_n"], pair["a_median"], pair["b_median"], pair["ratio"]) == (6, 100, 80, 0.8)
    assert pair["ratio_low"] < 0.8 < pair["ratio_high"] < 1
    assert (pair["effect"], pair["is_significant"], pair["is_worse"]) == ("large", True, True)
    assert (pair["a_series"], pair["b_series"]) == ([first.id], [second.id])
    assert (answer["differing"], answer["series_of_a"], answer["is_cut"]) == (["scope"], 1, False)


def test_what_has_no_counterpart_is_listed(reader):
    lone = add_series([100], host=make_host("fast"), workload=make_workload(iodepth=1))
    add_series([100], host=make_host("slow"), workload=make_workload(iodepth=2))

    answer = reader.get("/api/v1/comparison?a=host:fast&b=host:slow").json()

    assert answer["pairs"] == []
    assert [row["series"] for row in answer["only_a"]] == [lone.id]


def test_csv_has_a_line_a_pair(reader):
    add_series([100], host=make_host("fast"))
    add_series([80], host=make_host("slow"))

    text = reader.get("/api/v1/comparison?a=host:fast&b=host:slow&format=csv").content.decode()

    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["metric"], row["ratio"], row["ratio_low"], row["is_significant"]) == (
        "iops",
        "0.8",
        "",
        "false",
    )


@pytest.mark.parametrize(
    ("query", "pointer"), [("a=depth:lots", "a"), ("b_run=0", "b_run"), ("metrics=speed", "metrics")]
)
def test_what_cannot_be_read_is_a_problem(reader, query, pointer):
    response = reader.get(f"/api/v1/comparison?{query}")

    assert (response.status_code, response.json()["code"], response.json()["pointer"]) == (
        400,
        "parameter-invalid",
        pointer,
    )
