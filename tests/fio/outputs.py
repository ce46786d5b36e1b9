"""Outputs for tests: real ones, and small generated ones."""

import json
from pathlib import Path
from typing import Any

from benchapp.fio import read_output
from benchapp.fio.report import Direction, Document, Report

OUTPUTS = Path(__file__).parent.parent / "data" / "fio"


def read_bytes(name: str) -> bytes:
    return (OUTPUTS / name).read_bytes()


def read_fixture(name: str) -> Report:
    return read_output(read_bytes(name))


def read_single(name: str) -> Document:
    (document,) = read_fixture(name).documents
    return document


def find_direction(document: Document, name: str, *, group: int = 0) -> Direction:
    return next(direction for direction in document.groups[group].directions if direction.name == name)


def make_latency(**changes: Any) -> dict[str, Any]:
    return {"min": 10, "max": 90, "mean": 50.0, "stddev": 5.0, "N": 100, **changes}


def make_direction(**changes: Any) -> dict[str, Any]:
    return {
        "io_bytes": 409600,
        "io_kbytes": 400,
        "bw_bytes": 204800,
        "iops": 50.0,
        "runtime": 2000,
        "total_ios": 100,
        "slat_ns": make_latency(),
        "clat_ns": make_latency(percentile={"50.000000": 48, "99.000000": 88}),
        "lat_ns": make_latency(),
        **changes,
    }


def make_job(name: str = "job", **changes: Any) -> dict[str, Any]:
    return {
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "elapsed": 3,
        "job options": {"name": name, "rw": "read"},
        "read": make_direction(),
        **changes,
    }


def make_content(*jobs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "fio version": "fio-3.33",
        "timestamp": 1795246631,
        "jobs": list(jobs or (make_job(),)),
        **changes,
    }


def make_output(*jobs: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(make_content(*jobs, **changes), indent=2).encode()
