"""The agent's document: typed where it is right, named fault and place where it is wrong."""

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from benchapp.intake.posts.envelope import BadEnvelope, describe_envelope, read_envelope
from tests.envelopes import make_envelope, pack_envelope

OPENED = {
    "path": "/dev/nvme1n1",
    "device": {"kernel_name": "nvme1n1", "identifier": "nvme-eui.0025", "model": "X", "class": "nvme"},
    "layout": {"volume_count": "1", "raid_level": "RAID-0"},
}


def refusal(body: bytes) -> tuple[str, str | None]:
    with pytest.raises(BadEnvelope) as caught:
        read_envelope(body)
    return caught.value.code, caught.value.pointer


def test_whole_envelope_is_typed() -> None:
    envelope = read_envelope(pack_envelope(fio_output="{}", id="6f1cbb2e-9d3e-4a55-8d0a-111111111111"))

    assert str(envelope.id) == "6f1cbb2e-9d3e-4a55-8d0a-111111111111"
    assert envelope.started_at == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert envelope.target["volume_count"] == 4
    assert envelope.environment["kernel"] == "6.1.0"
    assert envelope.command["argv"][0] == "fio"
    assert (envelope.agent.version, envelope.agent.installation) == ("0.1.0", "")


def test_conditions_are_facts_of_this_run_alone() -> None:
    envelope = read_envelope(pack_envelope(conditions={"load_before": 0.42, "other_io_before": {"busy": 1}}))

    assert envelope.conditions == {"load_before": "0.42", "other_io_before": {"busy": "1"}}


def test_conditions_that_are_no_object_are_refused() -> None:
    assert refusal(pack_envelope(conditions=[1])) == ("envelope-invalid", "/conditions")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "envelope-not-json"),
        (b'{"a": NaN}', "envelope-not-json"),
        (b'{"a": "\\ud800"}', "envelope-not-json"),
        (b"\xff\xfe{\x00}\x00", "envelope-not-json"),
        (b"[" * 100_000 + b"]" * 100_000, "envelope-not-json"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "envelope-not-json"),
        (b"[]", "envelope-invalid"),
        (b"7", "envelope-invalid"),
        (b'"text"', "envelope-invalid"),
        (b"{}", "envelope-schema"),
        (b'{"jobs": [], "fio version": "fio-3.33"}', "envelope-schema"),
    ],
)
def test_what_is_no_envelope_is_refused_by_name(body: bytes, code: str) -> None:
    assert refusal(body)[0] == code


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"schema": "benchapp-envelope/9"}, "/schema"),
        ({"kind": "song"}, "/kind"),
        ({"id": "7"}, "/id"),
        ({"id": 7}, "/id"),
        ({"id": None}, "/id"),
        ({"fio_output": {"jobs": []}}, "/fio_output"),
        ({"profile": "../../etc"}, "/profile"),
        ({"profile": 9 * "long name "}, "/profile"),
        ({"started_at": "yesterday"}, "/started_at"),
        ({"started_at": "2026-11-20T10:00:00"}, "/started_at"),
        ({"started_at": 1_700_000_000}, "/started_at"),
        ({"started_at": "0001-01-01T00:00:00+14:00"}, "/started_at"),
        ({"target": []}, "/target"),
        ({"target": {"volume_count": "four"}}, "/target/volume_count"),
        ({"target": {"volume_count": 2**63}}, "/target/volume_count"),
        ({"target": {"volume_size_bytes": 10**30}}, "/target/volume_size_bytes"),
        ({"target": {"filesystem": "ext4\x00"}}, "/target/filesystem"),
        ({"target": {"filesystem": {"type": "ext4"}}}, "/target/filesystem"),
        ({"targets": {}}, "/targets"),
        ({"targets": [[]]}, "/targets/0"),
        ({"targets": [{"path": "data"}]}, "/targets/0/path"),
        ({"targets": [OPENED, OPENED | {"device": "sda"}]}, "/targets/1/device"),
        ({"targets": [OPENED | {"layout": []}]}, "/targets/0/layout"),
        ({"targets": [OPENED | {"mount_point": "/" + 2000 * "m"}] * 64}, "/targets"),
        ({"labels": {"rack": ["r1"]}}, "/labels/rack"),
        ({"labels": {"rack": "x" * 501}}, "/labels/rack"),
        ({"environment": {"cpu_count": "two"}}, "/environment/cpu_count"),
        ({"command": {"exit_status": 2**40}}, "/command/exit_status"),
        ({"command": {"argv": "fio"}}, "/command/argv"),
        ({"sweep": "first"}, "/sweep"),
        ({"logs": ["x_bw.1.log"]}, "/logs"),
        ({"logs": {"x_bw.1.log": ["500, 1, 0, 0"]}}, "/logs/x_bw.1.log"),
        ({"logs": {"notes.txt": ""}}, "/logs/notes.txt"),
        ({"logs": {"../x_bw.1.log": ""}}, "/logs/..~1x_bw.1.log"),
        ({"logs": {"a~b.log": ""}}, "/logs/a~0b.log"),
        ({"logs": {f"{'x' * 300}_bw.1.log": ""}}, f"/logs/{'x' * 200}"),
        ({"logs": {f"x_bw.{number}.log": "" for number in range(201)}}, "/logs"),
    ],
)
def test_wrong_member_is_named_with_its_place(changes: dict[str, Any], pointer: str) -> None:
    document = make_envelope(fio_output="{}") | changes

    assert refusal(json.dumps(document).encode())[1] == pointer


def test_nul_in_untrusted_text_is_replaced() -> None:
    envelope = read_envelope(pack_envelope(fio_output="{}", command={"stderr": "a\x00b", "argv": ["f\x00"]}))

    assert envelope.command["stderr"] == "a\ufffdb"
    assert envelope.command["argv"] == ["f\ufffd"]


def test_member_of_a_newer_agent_is_passed_over() -> None:
    body = pack_envelope(fio_output="{}", invented_later={"x": 1})

    assert read_envelope(body).profile == "quick"


def test_opened_files_are_typed_with_null_for_what_is_unknown() -> None:
    (device,) = read_envelope(pack_envelope(targets=[OPENED])).targets

    assert device["device"] == OPENED["device"]
    assert (device["path"], device["mount_point"], device["memory_filesystem"]) == (
        "/dev/nvme1n1",
        None,
        None,
    )
    assert (device["layout"]["volume_count"], device["layout"]["raid_level"]) == (1, "raid0")
    assert device["layout"]["filesystem"] is None


def test_envelope_of_an_older_agent_has_no_opened_files() -> None:
    assert read_envelope(pack_envelope()).targets == ()


def test_logs_come_along_by_their_names() -> None:
    logs = {"bench-agent_iops.1.log": "1000, 33415, 0, 0, 0\n", "x_clat.log": "", "x_clat_hist.12.log": ""}

    assert read_envelope(pack_envelope(fio_output="{}", logs=logs)).logs == logs


def test_envelope_without_logs_has_none() -> None:
    assert read_envelope(pack_envelope(fio_output="{}")).logs == {}


SOUND = {
    "target": {
        "name": "/dev/nvme1n1",
        "volume_size_bytes": "500GiB",
        "volume_count": 4,
        "provisioned_iops": "16k",
    },
    "targets": [OPENED, {"path": "/data", "mount_point": "/", "device": None, "memory_filesystem": "tmpfs"}],
    "labels": {"rack": "r1"},
    "environment": {"kernel": "6.1.0", "cpu_count": 8, "memory_bytes": 2**34, "facts": {"bios": "1.2"}},
    "command": {"argv": ["fio"], "exit_status": -2, "signal": None, "stderr": None, "jobfile": ""},
    "profile": "quick",
    "logs": {"a_bw.1.log": "1, 2, 0, 0"},
}


@pytest.mark.parametrize("name", SOUND)
def test_what_the_schema_describes_is_accepted(name: str) -> None:
    for value in (SOUND[name], None):
        document = make_envelope(**{name: value})

        jsonschema.validate(document, describe_envelope())
        assert read_envelope(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"schema": "benchapp-envelope/0"}, "/schema"),
        ({"kind": "iozone"}, "/kind"),
        ({"fio_output": 5}, "/fio_output"),
        ({"id": 5}, "/id"),
        ({"profile": "p" * 101}, "/profile"),
        ({"profile": "a/b"}, "/profile"),
        ({"started_at": 5}, "/started_at"),
        ({"command": []}, "/command"),
        ({"command": {"argv": ["x"] * 201}}, "/command/argv"),
        ({"command": {"exit_status": 2**31 + 1}}, "/command/exit_status"),
        ({"target": {"colour": "red"}}, "/target/colour"),
        ({"target": {"volume_type": "g" * 101}}, "/target/volume_type"),
        ({"target": {"volume_count": -1}}, "/target/volume_count"),
        ({"target": {"volume_count": 2**31}}, "/target/volume_count"),
        ({"target": {"volume_size_bytes": 2**62 + 1}}, "/target/volume_size_bytes"),
        ({"targets": [OPENED] * 65}, "/targets"),
        ({"targets": [{"mount_point": "/"}]}, "/targets/0/path"),
        ({"targets": [OPENED | {"name": "data"}]}, "/targets/0/name"),
        ({"targets": [OPENED | {"layout": {"instance_type": "m7"}}]}, "/targets/0/layout/instance_type"),
        ({"targets": [OPENED | {"device": {"class": "tape"}}]}, "/targets/0/device/class"),
        ({"targets": [OPENED | {"device": {"identifier": "i" * 201}}]}, "/targets/0/device/identifier"),
        ({"labels": {str(number): "" for number in range(51)}}, "/labels"),
        ({"labels": {"": "x"}}, "/labels/"),
        ({"labels": {"a": "x" * 501}}, "/labels/a"),
        ({"environment": {"memory_bytes": []}}, "/environment/memory_bytes"),
        ({"environment": {"kernel": "k" * 10_001}}, "/environment/kernel"),
        ({"conditions": "busy"}, "/conditions"),
        ({"sweep": 7}, "/sweep"),
        ({"logs": {f"a_bw.{number}.log": "" for number in range(201)}}, "/logs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_schema_rules_out_is_refused(part: dict[str, Any], pointer: str) -> None:
    document = make_envelope(**part)

    with pytest.raises(jsonschema.ValidationError) as found:
        jsonschema.validate(document, describe_envelope())

    assert refusal(json.dumps(document).encode())[1] == pointer
    assert pointer.startswith("/" + "/".join(str(step) for step in list(found.value.absolute_path)[:1]))
