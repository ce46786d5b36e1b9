"""Envelopes as an agent would post them: plain functions for all tests."""

import copy
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).parent
FIO = ROOT / "data" / "fio" / "generated"


def read_fio(name: str) -> str:
    """Return the text of a recorded output of fio."""
    return (FIO / name).read_text(errors="surrogateescape")


def make_envelope(**changes: Any) -> dict[str, Any]:
    """Return a whole envelope; changes replace top-level members."""
    envelope: dict[str, Any] = {
        "schema": "benchapp-envelope/1",
        "id": str(uuid4()),
        "kind": "fio",
        "agent": {"version": "0.1.0", "python": "3.11.7"},
        "profile": "quick",
        "started_at": "2026-11-20T10:00:00Z",
        "finished_at": "2026-11-20T10:00:20Z",
        "command": {
            "argv": ["fio", "--output-format=json+", "quick.fio"],
            "exit_status": 0,
            "signal": None,
            "stderr": "",
            "jobfile": "[global]\nbs=4k\n",
        },
        "fio_output": read_fio("07_json.out") if "fio_output" not in changes else "",
        "target": {"filesystem": "ext4", "volume_type": "gp3", "volume_count": 4},
        "labels": {"rack": "r1"},
        "environment": {"kernel": "6.1.0", "cpu_count": 2},
        "sweep": None,
    }
    return copy.deepcopy(envelope | changes)


def pack_envelope(**changes: Any) -> bytes:
    """Return the bytes of a whole envelope."""
    return json.dumps(make_envelope(**changes)).encode()
