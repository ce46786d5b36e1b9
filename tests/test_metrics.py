"""Values are shown alike everywhere; the same table of cases tests static/js/site/format.js."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchapp.catalog.metrics import (
    CATALOG,
    JUDGED_METRICS,
    METRIC_WORDS,
    REFERENCE_LINES,
    SMALLEST_CHANGES,
    USUAL_SPREADS,
    find_limit,
    find_references,
    format_change_size,
    format_percent,
    format_signed_percent,
    format_value,
    lower_label,
    show_rates_in,
)
from benchapp.catalog.thresholds import parse_threshold
from benchapp.charts.read.scaling_shapes import SCALING_METRICS, find_metric

CHANGE_CASES = json.loads((Path(__file__).parent / "data" / "change_cases.json").read_text())
CASES = json.loads((Path(__file__).parent / "data" / "format_cases.json").read_text())
RATE_CASES = json.loads((Path(__file__).parent / "data" / "rate_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['value']} {case['unit']}")
def test_value_is_shown_to_three_digits_in_its_unit(case) -> None:
    assert format_value(case["value"], case["unit"]) == case["text"]


@pytest.mark.parametrize("case", RATE_CASES, ids=lambda case: case["si"])
def test_rate_is_shown_in_the_chosen_units(case) -> None:
    with show_rates_in("binary"):
        assert format_value(case["value"], "bytes/s") == case["binary"]
    assert format_value(case["value"], "bytes/s") == case["si"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_shown_as_unknown(value: float) -> None:
    assert format_value(value, "ns") == "–"


def test_every_unit_of_the_catalogue_can_be_shown() -> None:
    assert all(format_value(1500.0, metric.unit) for metric in CATALOG.values())


def test_a_word_names_one_metric_everywhere() -> None:
    words = [
        word
        for metric in CATALOG.values()
        for word in {metric.name, metric.label.lower(), metric.short.lower(), *metric.words}
    ]

    assert len(words) == len(set(words)) == len(METRIC_WORDS)
    for word, name in METRIC_WORDS.items():
        unit = {"ns": "ms", "s": "s", "bytes/s": "MB/s", "operations/s": ""}[CATALOG[name].unit]
        assert parse_threshold(f"{word} 2 {unit}".strip()).metric == name
        assert find_metric(word) is SCALING_METRICS[name]


def test_every_metric_in_which_changes_are_detected_has_its_limits() -> None:
    for name in JUDGED_METRICS:
        assert 0 < USUAL_SPREADS[name] < SMALLEST_CHANGES[name]
    for metric in CATALOG.values():
        assert metric.is_judged or set(metric.detected_instead) & set(JUDGED_METRICS)


@pytest.mark.parametrize(("value", "is_good"), [(9.99, True), (10.0, False), (11.2, False)])
def test_small_files_take_under_ten_seconds_where_it_is_good(value: float, is_good: bool) -> None:
    limit = find_limit("gitlab-smallfiles", "elapsed_s")

    assert limit is not None
    assert limit.is_met(value) is is_good


def test_limit_is_of_one_metric_of_one_profile() -> None:
    assert find_limit("quick", "elapsed_s") is None
    assert find_limit("gitlab-smallfiles", "iops") is None


@pytest.mark.parametrize(("direction", "values"), [("read", [33415.0, 2000.0]), ("write", [11219.0, 700.0])])
def test_known_systems_stand_beside_the_random_mix_by_direction(direction: str, values: list[float]) -> None:
    lines = find_references("gitlab-randrw", "iops", direction)

    assert [line.value for line in lines] == values
    assert [line.label for line in lines] == ["known good: SSD", "known bad: spinning disk"]
    assert all("GitLab" in line.source for line in lines)


def test_known_systems_are_of_one_metric_of_one_profile() -> None:
    assert find_references("quick", "iops", "read") == ()
    assert find_references("gitlab-randrw", "latency_mean_ns", "read") == ()
    assert all(line.metric in CATALOG for line in REFERENCE_LINES)


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Mean latency", "mean latency"),
        ("IOPS", "IOPS"),
        ("RAID level", "RAID level"),
        ("Direct I/O", "direct I/O"),
    ],
)
def test_label_within_a_sentence_keeps_its_abbreviations(label: str, text: str) -> None:
    assert lower_label(label) == text


@pytest.mark.parametrize("case", CHANGE_CASES, ids=lambda case: case["text"])
def test_change_has_one_decimal_below_10_percent_and_none_from_there(case: dict[str, Any]) -> None:
    assert format_signed_percent(case["relative"]) == case["text"]
    assert format_change_size(case["relative"]) == case["text"].lstrip("±+−")


def test_share_of_half_a_percent_is_rounded_away_from_zero() -> None:
    assert [format_percent(share) for share in (0.0035, 0.05, 0.125, 0.135, 0.145)] == [
        "0.35 %",
        "5 %",
        "13 %",
        "14 %",
        "15 %",
    ]
