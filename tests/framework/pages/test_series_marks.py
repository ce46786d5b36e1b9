"""The mark of a series as pages show it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from benchapp.framework.pages.series_marks import show_mark, show_scope_mark
from benchapp.incidents.read.series_status import ScopeMark, SeriesMark
from benchapp.models import Severity, Slope

AT = datetime(2026, 11, 8, 12, 0, tzinfo=UTC)
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
DRIFT = Slope(AT.replace(day=3), AT, -0.012, continues=True)


def make_mark(**fields: Any) -> SeriesMark:
    values: dict[str, Any] = {
        "series_id": 1,
        "change_id": 2,
        "incident_id": 3,
        "metric": "iops",
        "state": "open",
        "is_regression": True,
        "relative": -0.217,
        "started_at": AT,
    }
    return SeriesMark(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "text", "kind"),
    [
        ({}, "▼ −22 % since 8 Nov", "worse"),
        ({"is_regression": False, "relative": 0.25}, "▲ +25 % since 8 Nov", "better"),
        ({"started_at": AT.replace(year=2025)}, "▼ −22 % since 8 Nov 2025", "worse"),
        ({"metric": "latency_p99_ns", "relative": 0.4}, "▲ p99 latency +40 % since 8 Nov", "worse"),
        ({"slope": DRIFT}, "▼ drifts since 3 Nov, −1.2 % a day", "worse"),
        (
            {"slope": DRIFT, "metric": "latency_p99_ns"},
            "▼ p99 latency drifts since 3 Nov, −1.2 % a day",
            "worse",
        ),
        ({"slope": replace(DRIFT, per_day=None)}, "▼ drifts since 3 Nov", "worse"),
        ({"slope": replace(DRIFT, continues=False)}, "▼ −22 % since 8 Nov", "worse"),
        ({"state": "recovered"}, "recovered from −22 %", "settled"),
        ({"state": "accepted"}, "accepted −22 % on 8 Nov", "settled"),
    ],
)
def test_mark_names_size_start_and_state(fields: dict[str, Any], text: str, kind: str) -> None:
    shown = show_mark(make_mark(**fields), metric="iops", now=NOW)

    assert shown
    assert (shown.text, shown.kind, shown.url) == (text, kind, "/incidents/3/")


def test_series_without_a_change_has_no_mark() -> None:
    assert show_mark(None, metric="iops") is None
    assert show_scope_mark(None) is None


def test_host_is_marked_with_the_metric() -> None:
    shown = show_scope_mark(ScopeMark(make_mark(started_at=AT.replace(year=2020)), (3,), Severity.HIGH, 1))

    assert shown
    assert shown.text == "▼ IOPS −22 % since 8 Nov 2020"
