"""Documents that one host may post and that make the most of each byte: plain functions."""

import gzip
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.models import Host, Kind

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


def make_longest_envelope(number: int = 0, *, jobs: int = 250, letter: str = "x") -> bytes:
    """Return an envelope in which every text is as long as it may be, and every list has as many entries.

    number: makes it differ from others in everything that is compared.
    """

    def text(length: int) -> str:
        return f"{number}".ljust(length, letter)

    size = 1 if letter.isascii() else 4
    facts = {f"fact {place}".ljust(200 // size, letter): text(128 // size) for place in range(170)}
    options = {f"option_{place}": text(500) for place in range(100)}
    report = make_report(
        [
            {
                **make_job(text(10_000), **options, rate_iops=str(place + 1)),
                "groupid": place,
                "steadystate": {"ss": text(10_000), "attained": 0, "criterion": text(10_000)},
            }
            for place in range(jobs)
        ]
    )
    parts = {f"name {place}": text(300 // size) for place in range(50)}
    lengths = {"name": 200, "volume_type": 100, "raid_level": 20, "filesystem": 50, "mount_options": 1000}
    environment = ("kernel", "scheduler", "device_model", "device_firmware", "governor")
    document = {
        "schema": "benchapp-envelope/1",
        "id": str(uuid4()),
        "kind": "fio",
        "agent": {"version": text(1000)},
        "profile": "p" * 100,
        "parameters": parts,
        "started_at": f"2026-11-20T10:{number // 60:02}:{number % 60:02}Z",
        "command": {
            "argv": list(parts.values()),
            "exit_status": 0,
            "stderr": text(70_000),
            "jobfile": text(70_000),
        },
        "fio_output": report.decode(),
        "target": {name: text(length) for name, length in (lengths | {"instance_type": 100}).items()},
        "labels": {f"{place}".ljust(100, letter): text(500) for place in range(50)},
        "environment": {**{name: text(9000) for name in environment}, "facts": facts},
        "conditions": facts,
        "logs": {f"{place}".ljust(200, "x") + f"_bw.{place + 1}.log": "no log" for place in range(200)},
    }
    return json.dumps(document, ensure_ascii=False).encode()
