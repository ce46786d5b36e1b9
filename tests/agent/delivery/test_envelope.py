"""The posted document: its shape, its bytes, targets and labels."""

import gzip
import json
from typing import Any

import pytest

from agent.delivery.envelope import check_labels, make_envelope, pack_envelope, read_target
from agent.exit_codes import ConfigurationError
from agent.measuring.fio import FioResult

RESULT = FioResult(
    argv=("/usr/bin/fio", "x.fio"),
    exit_status=0,
    signal=None,
    stdout='{"fio version": "fio-3.33"}\n',
    stderr="",
    started_at=1795255200.7,
    finished_at=1795255221.2,
    stopped_because=None,
)


def make(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "profile": "quick",
        "jobfile": "[global]\n",
        "target": {"volume_type": "gp3"},
        "targets": [{"path": "/data"}],
        "labels": {"rack": "r1"},
        "environment": {"kernel": "6.1.0"},
        **changes,
    }
    return make_envelope("6f1c2a9e-0000-4000-8000-000000000001", RESULT, **arguments)


def test_envelope_has_the_shape_of_the_api() -> None:
    envelope = make()

    assert envelope["schema"] == "benchapp-envelope/1"
    assert envelope["kind"] == "fio"
    assert (envelope["started_at"], envelope["finished_at"]) == (
        "2026-11-21T10:00:00Z",
        "2026-11-21T10:00:21Z",
    )
    assert envelope["command"] == {
        "argv": ["/usr/bin/fio", "x.fio"],
        "exit_status": 0,
        "signal": None,
        "failure": None,
        "stderr": "",
        "jobfile": "[global]\n",
    }
    assert envelope["fio_output"] == RESULT.stdout
    assert envelope["target"]["volume_type"] == "gp3"
    assert [value for name, value in envelope["target"].items() if name != "volume_type"] == [None] * 10
    assert envelope["targets"] == [{"path": "/data"}]
    assert envelope["sweep"] is None


def test_same_envelope_gives_the_same_bytes() -> None:
    assert pack_envelope(make()) == pack_envelope(make())


def test_invalid_utf8_is_packed_as_utf8() -> None:
    """Python represents a directory name in Latin-1 with lone surrogates."""
    packed = pack_envelope(make(labels={"directory": "/srv/caf\udce9"}))

    assert json.loads(gzip.decompress(packed).decode("utf-8"))["labels"] == {"directory": "/srv/caf?"}


def test_target_is_typed() -> None:
    target = read_target(
        {
            "volume_type": " gp3 ",
            "volume_size": "500GiB",
            "volume_count": "4",
            "provisioned_iops": "16k",
            "chunk_size_bytes": "256k",
            "name": "",
        }
    )

    assert target == {
        "volume_type": "gp3",
        "volume_size_bytes": 536870912000,
        "volume_count": 4,
        "provisioned_iops": 16000,
        "chunk_size_bytes": 262144,
        "name": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("volume_typ", "gp3", "unknown target field 'volume_typ'; available: name, volume_type"),
        ("volume_count", "four", "not a whole number"),
        ("volume_size_bytes", "big", "not a valid size"),
        ("raid_level", "x" * 21, "21 characters exceed the maximum of 20"),
    ],
)
def test_invalid_target_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_target({name: value})


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"x" * 101: "y"}, {"x": "y" * 501}, {str(number): "" for number in range(51)}]
)
def test_labels_that_the_server_refuses_are_refused_by_the_agent(labels: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        check_labels(labels)
