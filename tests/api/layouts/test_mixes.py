"""Mixed workloads over the API."""

import csv
import io

import pytest
from django.test import Client

from benchapp.grammar import TERMS_MAXIMUM, parse_filter
from tests.mixes import PURE, plant_mixes

pytestmark = pytest.mark.django_db
PATH = "/api/v1/mixes"


def test_estimate_has_its_interval_and_the_shares_it_is_between(reader: Client) -> None:
    plant_mixes(PURE)

    body = reader.get(f"{PATH}?read_share=50").json()

    (curve,) = body["curves"]
    assert (curve["volume_type"], curve["iodepth"], curve["is_measured"]) == ("gp3", 8, False)
    assert [(mix["read_share_percent"], mix["median"], mix["n"]) for mix in curve["measured"]] == [
        (0, 10_000, 3),
        (100, 40_000, 3),
    ]
    assert curve["estimate"] == {
        "read_share_percent": 50,
        "value": pytest.approx(16_000),
        "low": pytest.approx(16_000 * 0.992),
        "high": pytest.approx(20_000 * 1.008),
        "between_percent": [0, 100],
    }
    assert (body["series"], body["metric"], body["read_share_percent"]) == (2, "iops", 50)


def test_measured_mix_and_refusal_have_no_estimate(reader: Client) -> None:
    plant_mixes({100: 40_000.0, 70: 15_000.0})

    (measured,) = reader.get(f"{PATH}?read_share=70").json()["curves"]
    (refused,) = reader.get(f"{PATH}?read_share=30").json()["curves"]

    assert (measured["is_measured"], measured["estimate"], measured["refusal"]) == (True, None, None)
    assert (refused["is_measured"], refused["estimate"], refused["refusal"]) == (False, None, "outside")


def test_csv_marks_the_interpolated_row(reader: Client) -> None:
    plant_mixes(PURE)

    text = reader.get(f"{PATH}?read_share=50&format=csv").content.decode()

    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["read_share_percent"], row["is_interpolated"], row["n"]) for row in rows] == [
        ("0", "false", "3"),
        ("100", "false", "3"),
        ("50", "true", ""),
    ]
    assert (rows[2]["between_low_percent"], rows[2]["between_high_percent"]) == ("0", "100")


@pytest.mark.parametrize(("query", "filter"), [("", "bs:4k"), ("&block_size=64k", "bs:64k")])
def test_block_size_is_named_also_if_it_was_chosen(reader: Client, query: str, filter: str) -> None:
    plant_mixes(PURE)
    plant_mixes(PURE, depth=1)
    plant_mixes(PURE, work={"block_size_bytes": 65_536})

    text = reader.get(f"{PATH}?q=type:gp3{query}&format=csv").content.decode()
    body = reader.get(f"{PATH}?q=type:gp3{query}").json()

    filters = {row["filter"] for row in csv.DictReader(io.StringIO(text, newline=""))}
    assert [str(parse_filter(each)) for each in filters] == [str(parse_filter(f"type:gp3 {filter}"))]
    assert body["fixed"] == ({} if query else {"block_size_bytes": [4096]})


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("read_share=101", "read_share"),
        ("pattern=zigzag", "pattern"),
        ("metric=latency_p99_ns", "metric"),
        ("block_size=big", "block_size"),
        ("max_age_days=0", "max_age_days"),
        (f"block_size=4k&q={'+'.join(f'-host:db-{number}' for number in range(TERMS_MAXIMUM))}", "q"),
    ],
)
def test_parameter_that_is_not_valid_is_named(reader: Client, query: str, pointer: str) -> None:
    answer = reader.get(f"{PATH}?{query}")

    assert (answer.status_code, answer.json()["pointer"]) == (400, pointer)
