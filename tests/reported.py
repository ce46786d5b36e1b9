"""Documents of published numbers: plain functions for all tests."""

import copy
import json
from typing import Any

ID = "6f1cbb2e-9d3e-4a55-8d0a-222222222222"


def make_reported(**changes: Any) -> dict[str, Any]:
    """Return a whole document; changes replace top-level members."""
    document = {
        "schema": "benchapp-reported/1",
        "id": ID,
        "kind": "reported",
        "source": {"title": "A blog on disks", "url": "https://blog.example/disks", "author": "A. Writer"},
        "runs": [make_reported_run()],
    }
    return copy.deepcopy(document | changes)


def make_reported_run(**changes: Any) -> dict[str, Any]:
    """Return one run with two measurements; changes replace its members."""
    run = {
        "started_at": "2013-04-01T00:00:00Z",
        "profile": "",
        "target": {"volume_type": "standard", "volume_count": 4, "volume_size_bytes": "20G"},
        "labels": {"study": "1"},
        "environment": {"fio_version": "fio-2.0.9", "scheduler": "noop"},
        "measurements": [
            {"rw": "randread", "block_size": "4k", "numjobs": 64, "file_size": "5G", "iops": 24490},
            {
                "rw": "read",
                "block_size": "32M",
                "numjobs": 8,
                "bandwidth_bytes_per_s": 144395000.0,
                "note": "hard to read",
            },
        ],
    }
    return copy.deepcopy(run | changes)


def make_reported_measurement(**changes: Any) -> dict[str, Any]:
    """Return one measurement; changes replace its members, and None removes one."""
    measurement = {"rw": "randread", "block_size": "4k", "iops": 24490, **changes}
    return {name: value for name, value in measurement.items() if value is not None}


def pack_reported(**changes: Any) -> bytes:
    """Return the bytes of a whole document."""
    return json.dumps(make_reported(**changes)).encode()
