"""A given file is read and never written."""

import gzip
import json
import os
from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.profiles.profile import check_plan, load_profile, make_plan
from tests.agent.conftest import Machine


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file: with #signs"
    path.write_bytes(b"x" * 2**21)
    return path


def read(machine: Machine, *arguments: str) -> str:
    ended = machine.run("run", "--profile", "seqread-fragmentation", "--no-send", *arguments)
    assert ended.returncode == 2
    return ended.stderr


def test_file_is_required(machine: Machine) -> None:
    assert "no file given; set --file" in read(machine, "--directory", str(machine.directory))


def test_missing_file_is_reported(machine: Machine) -> None:
    assert "is not a file" in read(machine, "--file", str(machine.directory))


def test_directory_together_with_a_file_is_refused(machine: Machine, file: Path) -> None:
    assert "cannot be used with --file" in read(
        machine, "--file", str(file), "--directory", str(machine.directory)
    )


def test_file_smaller_than_a_block_is_refused(machine: Machine, file: Path) -> None:
    assert "smaller than one block" in read(machine, "--file", str(file), "--set", "bs=4m")


def test_only_root_drops_all_caches(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(load_profile("seqread-fragmentation"), {"file": str(file), "drop_caches": "yes"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ConfigurationError, match="drop_caches=yes: requires root"):
        check_plan(plan)


def test_remainder_below_one_block_is_not_read(file: Path) -> None:
    file.write_bytes(b"x" * (2**21 + 4096))

    plan = make_plan(load_profile("seqread-fragmentation"), {"file": str(file)})

    assert plan.values["size"] == 2**21


def test_job_file_uses_a_link_and_fio_is_read_only(machine: Machine, file: Path) -> None:
    ended = machine.run_json("run", "--profile", "seqread-fragmentation", "--no-send", "--file", str(file))

    assert (ended["exit_code"], ended["facts"]["file"]) == (0, str(file))
    assert sorted(path.name for path in file.parent.iterdir() if path.name.startswith(".bench")) == []
    (path,) = machine.pending()
    envelope = json.loads(gzip.decompress(path.read_bytes()))
    assert "--readonly" in envelope["command"]["argv"]
