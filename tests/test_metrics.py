"""Values are shown alike everywhere; the same table of cases tests static/js/format.js."""

import json
import math
from pathlib import Path

import pytest

from benchapp.metrics import CATALOGUE, PERCENTILES, format_value

CASES = json.loads((Path(__file__).parent / "data" / "format_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['value']} {case['unit']}")
def test_value_is_shown_to_three_digits_in_its_unit(case) -> None:
    assert format_value(case["value"], case["unit"]) == case["text"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_shown_as_unknown(value: float) -> None:
    assert format_value(value, "ns") == "–"


def test_every_unit_of_the_catalogue_can_be_shown() -> None:
    assert all(format_value(1500.0, metric.unit) for metric in CATALOGUE.values())


def test_every_percentile_metric_is_in_the_catalogue() -> None:
    assert set(PERCENTILES) <= set(CATALOGUE)
