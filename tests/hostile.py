"""Documents that one host may post and that make the most of each byte: plain functions."""

import gzip
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from benchapp.models import Host, Kind
from benchapp.pipeline.intake.submissions import IncomingSubmission, accept_submission

LATENCY = {
    "min": 1000,
    "max": 900_000,
    "mean": 50_000.0,
    "stddev": 1000.0,
    "N": 100_000,
    "percentile": {"50.000000": 49_000, "95.000000": 60_000, "99.000000": 70_000, "99.900000": 90_000},
}


def make_job(name: str = "job", **options: str) -> dict[str, Any]:
    """Return an entry of fio's report that read something."""
    read = {
        "io_bytes": 409_600_000,
        "bw_bytes": 40_960_000,
        "iops": 10_000.0,
        "runtime": 10_000,
        "total_ios": 100_000,
        "clat_ns": LATENCY,
        "lat_ns": {**LATENCY, "percentile": {}},
    }
    return {
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "job options": {"rw": "randread", "bs": "4k", "iodepth": "8", "numjobs": "1", **options},
        "read": read,
    }


def make_report(jobs: Sequence[dict[str, Any]], **members: Any) -> bytes:
    """Return a report of fio with these jobs."""
    return json.dumps(
        {"fio version": "fio-3.36", "timestamp": 1_795_000_000, **members, "jobs": jobs}
    ).encode()


def make_long_option(number: int = 0, length: int = 6_000_000) -> bytes:
    """Return a report with one option of this length: sent compressed, less than 40 KB."""
    return make_report([make_job("job", ioscheduler=f"{number}" + "x" * length)])


def make_many_jobs(count: int = 20_000) -> bytes:
    """Return a report with so many jobs of one group each, all different: sent compressed, less than 200 KB."""
    return make_report(
        [{**make_job("j", rate_iops=str(number + 1)), "groupid": number} for number in range(count)]
    )


def count_sent_bytes(body: bytes) -> int:
    """Return the size of a body as a sender may send it."""
    return len(gzip.compress(body))


def submit(host: Host, body: bytes, kind: Kind = Kind.FIO) -> UUID:
    """Accept a body and return the id of its submission."""
    return accept_submission(IncomingSubmission(host.pk, kind, body, uuid4())).id
