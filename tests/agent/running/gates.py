"""Answers of the server's gate: plain functions."""

from typing import Any


def make_row(*, outcome: str = "passed", **fields: Any) -> dict[str, Any]:
    """Return a row; fields replace members."""
    return {
        "series_id": 3,
        "host": "db-1",
        "workload_title": "randread 4k",
        "target_title": "gp3",
        "metric": "iops",
        "metric_label": "IOPS",
        "unit": "operations/s",
        "better": "higher",
        "outcome": outcome,
        "reason": "",
        "value": 800.0,
        "value_text": "800",
        "n": 1,
        "baseline_median": 1000.0,
        "baseline_median_text": "1 000",
        "baseline_n": 30,
        "baseline_deviation": 0.0123,
        "change": -0.2,
        "best": -0.15,
        "worst": -0.25,
        "max_regression": 0.05,
        "runs_needed": None,
        "series_url": "/api/v1/series/3",
        "series_page": "/series/3/",
    } | fields


def make_gate(*rows: dict[str, Any], outcome: str = "passed") -> dict[str, Any]:
    """Return a whole answer."""
    return {
        "run": 5,
        "runs": [5],
        "outcome": outcome,
        "error_rate": 0.01,
        "tests": len(rows),
        "rows": list(rows),
        "url": "/api/v1/runs/5/gate",
        "page": "/runs/5/",
    }
