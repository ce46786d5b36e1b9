"""The ranking of layouts over the API."""

import csv
import io
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.catalog.grammar import TERMS_MAXIMUM
from benchapp.models import Run
from tests.factories import make_price
from tests.planted_layouts import give_directories, plant_layouts

pytestmark = pytest.mark.django_db
PATH = "/api/v1/layouts"
# As many as a filter may have, so that those of the workload are too many.
TERMS = "+".join(f"-host:db-{number}" for number in range(TERMS_MAXIMUM))


def test_ranking_has_the_answer_its_numbers_and_the_closest_miss(reader: Client) -> None:
    plant_layouts()

    body = reader.get(f"{PATH}?iops=20000&p99_ms=3&capacity_gb=1000&block_size=4k").json()

    first = body["layouts"][0]
    assert (first["verdict"], first["volume_type"], first["volume_count"]) == ("meets", "gp3", 8)
    assert (first["iodepth"], first["iops_median"], first["latency_p99_median_ns"]) == (32, 23_500, 2e6)
    assert first["price_per_month"] == pytest.approx(642.56)
    assert first["volumes_price_per_month"] == pytest.approx(81.92)
    assert (first["n"], len(first["series"]), first["incidents"], first["lacks"]) == (3, 1, [], [])
    assert body["counts"] == {"meets": 3, "median-only": 0, "misses": 3, "unknown": 0}
    assert (body["currency"], body["series"], body["is_cut"]) == ("USD", 12, False)
    assert body["closest_miss"]["lacks"][0]["name"] == "iops"
    last = body["layouts"][-1]
    assert last["price_missing"] == "no price of volume type local"
    assert (last["price_per_month"], last["volumes_price_per_month"]) == (None, None)

    text = reader.get(f"{PATH}?iops=20000&p99_ms=3&capacity_gb=1000&format=csv").content.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["title"] for row in rows] == [row["title"] for row in body["layouts"]]


def test_region_is_known_in_any_case_and_the_regions_are_listed_otherwise(reader: Client) -> None:
    make_price(region="eu-west-1")

    known = reader.get(f"{PATH}?iops=1&region=EU-West-1").json()
    unknown = reader.get(f"{PATH}?iops=1&region=mars")

    assert (known["region"], known["currency"]) == ("eu-west-1", "USD")
    assert unknown.status_code == 400
    assert "Available: eu-west-1" in unknown.json()["detail"]


def test_runs_that_would_decide_are_those_of_the_page(reader: Client) -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=190))
    give_directories()
    Run.objects.update(command={"parameters": {"runtime": 4}})

    answer = reader.get(f"{PATH}?iops=20000&p99_ms=3&capacity_gb=1000")

    body = answer.json()["next_runs"]

    first = body["measurements"][0]
    assert (first["runs"], first["n"], first["is_possible"]) == (3, 3, True)
    assert (timezone.now() - datetime.fromisoformat(first["last_at"])).days == 189
    # Nothing in the answer depends on the time of the request.
    again = reader.get(f"{PATH}?iops=20000&p99_ms=3&capacity_gb=1000")
    assert again.headers["ETag"] == answer.headers["ETag"]
    assert first["reasons"] == [{"name": "old", "runs": 3, "metric": None, "gap": None, "spread": None}]
    (command,) = body["commands"]
    assert (command["host"], command["runs"], command["measurements"]) == ("db-layouts", 3, [0, 1])
    assert command["argv"][:4] == ["bench-agent", "sweep", "--directories", "/mnt/8-gp3-128,/mnt/1-io2-1024"]
    assert (command["duration_s"], body["duration_s"]) == (None, None)
    certain = reader.get(f"{PATH}?iops=500000").json()["next_runs"]
    assert certain == {"measurements": [], "commands": [], "more": 0, "duration_s": None}


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "iops"),
        ("p99_ms=3", "iops"),
        ("iops=-1", "iops"),
        ("iops=1e12", "iops"),
        ("iops=nan", "iops"),
        ("iops=1&pattern=random", "pattern"),
        ("iops=1&block_size=big", "block_size"),
        ("iops=1&vary=kernel", "vary"),
        ("iops=1&read_share=101", "read_share"),
        ("iops=1&max_age_days=0", "max_age_days"),
        ("iops=1&q=host%3A", "q"),
        ("iops=1&region=mars", "region"),
        (f"iops=1&block_size=4k&q={TERMS}", "q"),
    ],
)
def test_invalid_parameter_is_named(query: str, pointer: str, reader: Client) -> None:
    response = reader.get(f"{PATH}?{query}")

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
