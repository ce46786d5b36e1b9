"""Every number on the Run page equals what fio printed: read here once more, without any code of ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import Kind, Run
from tests.factories import make_host
from tests.pages import Page

OUTPUTS = Path(__file__).parents[3] / "data" / "fio" / "generated"
PERCENTILES = {"50.000000": "p50", "95.000000": "p95", "99.000000": "p99", "99.900000": "p99_9"}
# Ten samples must lie beyond a percentile for it to be shown.
LEAST_SAMPLES = {"50.000000": 20, "95.000000": 200, "99.000000": 1_000, "99.900000": 10_000}


def store(name: str) -> Run:
    arrival = IncomingSubmission(host_id=make_host().pk, kind=Kind.FIO, body=(OUTPUTS / name).read_bytes())
    accept_submission(arrival)
    normalize_batch()
    return Run.objects.get()


def read_plainly(name: str) -> dict[tuple[str, str], dict[str, float | None]]:
    """Read fio's JSON in the plainest way: every direction that did I/O, as it stands there."""
    text = (OUTPUTS / name).read_text()
    report = json.loads(text[text.index("{") : text.rindex("}") + 1])
    rows = {}
    for job in report["jobs"]:
        for direction in ("read", "write", "trim"):
            if job[direction]["total_ios"]:
                rows[job["jobname"], direction] = read_direction(job[direction])
    return rows


def read_direction(entry: dict[str, Any]) -> dict[str, float | None]:
    latency = entry["clat_ns"]
    values: dict[str, float | None] = {
        f"latency_{name}_ns": float(latency["percentile"][key])
        if latency["N"] >= LEAST_SAMPLES[key]
        else None
        for key, name in PERCENTILES.items()
    }
    return values | {
        "iops": entry["iops"],
        "bandwidth_bytes_per_s": float(entry["bw_bytes"]),
        "latency_mean_ns": entry["lat_ns"]["mean"],
        "latency_max_ns": float(entry["lat_ns"]["max"]),
    }


def read_page(client: Client, run: Run) -> dict[tuple[str, str], dict[str, float | None]]:
    rows: dict[tuple[str, str], dict[str, float | None]] = {}
    for cell in Page(client.get(reverse("run", args=[run.pk]))).cells:
        row = rows.setdefault((cell["data-job"] or "", cell["data-direction"] or ""), {})
        row[cell["data-metric"] or ""] = float(cell["title"]) if cell.get("title") else None
    return rows


@pytest.mark.parametrize(
    "name",
    [
        "07_json.out",
        "08_jsonplus.out",
        "12_numjobs4_group_json.out",
        "80_multi_job_json.out",
        "83_multi_job_jsonplus.out",
    ],
)
def test_page_shows_what_fio_printed(name: str, viewer: Client) -> None:
    run = store(name)

    rows = read_page(viewer, run)
    printed = read_plainly(name)
    assert {key: row for key, row in rows.items() if key[1] != "mixed"} == printed
    # The total of a mix is not printed, but added up.
    for job, _ in (key for key in rows if key[1] == "mixed"):
        parts = [printed[job, "read"]["iops"], printed[job, "write"]["iops"]]
        assert rows[job, "mixed"]["iops"] == pytest.approx(sum(parts))


def test_percentiles_of_jobs_that_ran_together_are_withheld_and_said_why(viewer: Client) -> None:
    run = store("11_numjobs4_json.out")

    page = Page(viewer.get(reverse("run", args=[run.pk])))

    withheld = {cell["data-metric"] for cell in page.cells if not cell.get("title")}
    assert withheld == {"latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "latency_p99_9_ns"}
    assert "percentiles cannot be averaged" in page.words
