"""The agent as one file: a zip that Python runs."""

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent import __version__
from benchapp.storage.agent_archive import build_agent_archive
from tests.agent.archives import build_archive

ROOT = Path(__file__).parents[2]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "bench-agent.pyz"
    path.write_bytes(build_archive())
    path.chmod(0o755)
    return path


def run(archive: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "HOME": str(archive.parent), "BENCH_AGENT_SPOOL": str(archive.parent / "spool")}
    return subprocess.run(
        [sys.executable, str(archive), *arguments],
        cwd=archive.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["agent/__init__.py", "agent/__main__.py"])
def test_first_files_parse_with_python_3_6(name: str) -> None:
    ast.parse((ROOT / name).read_text(), feature_version=(3, 6))


def test_earlier_python_gets_one_line_and_exit_code_2() -> None:
    code = "import sys; sys.version_info = (3, 6, 8); from agent.commands.cli import main"

    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("bench-agent: CPython 3.8 or later is required, this is 3.6 at ")


def test_zip_is_not_compressed_so_that_its_bytes_do_not_depend_on_zlib(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert {entry.compress_type for entry in opened.infolist()} == {zipfile.ZIP_STORED}


def test_zip_prints_its_version(archive: Path) -> None:
    ended = run(archive, "version")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"bench-agent {__version__} (Python ")


def test_zip_contains_its_job_files(archive: Path) -> None:
    ended = run(archive, "profiles")

    assert ended.returncode == 0
    assert "jobs randread-4k, randwrite-4k, read-1m, write-1m; takes about 18 s and 64 MiB" in ended.stdout


def test_zip_measures(archive: Path) -> None:
    fio = archive.parent / "fio"
    names = ("randread-4k", "randwrite-4k", "read-1m", "write-1m")
    report = {"fio version": "fio-3.99", "jobs": [{"jobname": name} for name in names]}
    fio.write_text(f"#!/bin/sh\necho '{json.dumps(report)}'\n")
    fio.chmod(0o755)
    (archive.parent / "agent.ini").write_text(f"[run]\nfio = {fio}\n")
    options = ("--config", str(archive.parent / "agent.ini"), "--profile", "quick", "--no-send")

    ended = run(archive, "run", *options, "--directory", str(archive.parent))

    assert ended.returncode == 0
    assert ended.stdout.startswith("pending: ")


def test_zip_is_executable(archive: Path) -> None:
    ended = subprocess.run([str(archive), "--help"], capture_output=True, text=True, check=False)

    assert ended.returncode == 0
    assert "exit codes:" in ended.stdout


def test_running_zip_that_is_replaced_continues_with_its_own_modules(tmp_path: Path) -> None:
    path, later = tmp_path / "bench-agent.pyz", tmp_path / "later.pyz"
    for file, version in ((path, "old"), (later, "new")):
        folder = tmp_path / version
        (folder / "commands").mkdir(parents=True)
        for package in (folder, folder / "commands"):
            (package / "__init__.py").touch()
        (folder / "commands" / "cli.py").write_text(
            "def main():\n    print('started', flush=True)\n    input()\n"
            "    from agent.late import VERSION\n    print(VERSION)\n"
        )
        (folder / "late.py").write_text(f"VERSION = {version!r}\n" + "#" * 99 * (version == "new"))
        file.write_bytes(build_agent_archive(folder))
    process = subprocess.Popen(
        [sys.executable, path.name], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"

    later.replace(path)

    assert process.communicate("\n")[0] == "old\n"
