"""The results of a run as the server has stored them: values, badges, and the level of each series."""

from __future__ import annotations

import time
from typing import Any, Iterator, Mapping, Sequence

from agent.delivery.client import Client, Response
from agent.results.result_row import METRICS, LevelComparison, ResultRow


class ResultsUnavailable(Exception):
    """The server did not return the results; the message says why."""


def read_run_results(client: Client, run_ids: Sequence[int], *, timeout_s: float) -> tuple[ResultRow, ...]:
    """Return the rows of all runs of a submission; ResultsUnavailable after timeout_s."""
    deadline = time.monotonic() + timeout_s
    rows: list[ResultRow] = []
    for run_id in run_ids:
        # A run with many measurements has several pages.
        address: str | None = f"/api/v1/runs/{run_id}"
        while address:
            limit_s = deadline - time.monotonic()
            if limit_s <= 0:
                raise ResultsUnavailable(f"the server did not return the results within {timeout_s:.0f} s")
            response = client.request("GET", address, limit_s=limit_s)
            rows += _read_rows(response)
            address = (response.body or {}).get("next")
    return tuple(rows)


def _read_rows(response: Response) -> Iterator[ResultRow]:
    body = response.body or {}
    if response.status != 200 or not isinstance(body.get("measurements"), list):
        raise ResultsUnavailable(f"the server did not return the results: {response.describe()}")
    try:
        for measurement in body["measurements"]:
            yield _read_row(measurement)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ResultsUnavailable(f"the server returned results of another version: {error!r}") from None


def _read_row(measurement: Mapping[str, Any]) -> ResultRow:
    return ResultRow(
        workload=str(measurement["workload_title"]),
        direction=str(measurement["direction"]),
        error=int(measurement["error"]),
        values={metric: float(measurement[metric]) for metric in METRICS if measurement[metric] is not None},
        badges={str(badge["code"]): str(badge["sentence"]) for badge in measurement["badges"]},
        levels={
            str(level["metric"]): LevelComparison(int(level["n"]), level["change"], level["is_usual"])
            for level in measurement["levels"]
        },
    )
