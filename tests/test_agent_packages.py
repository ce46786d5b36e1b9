"""The packages of the agent: manual page and Debian package."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agent import __version__
from agent.commands.cli import build_parser, list_commands

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_packages", ROOT / "packaging" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_manual_has_the_help_of_each_command(build: ModuleType) -> None:
    manual = build.write_manual()

    assert re.findall(r"^\.SH (.*)$", manual, re.MULTILINE) == [
        "NAME",
        "SYNOPSIS",
        *(name.upper() for name in list_commands(build_parser())),
    ]
    assert "\\-\\-skip\\-if\\-busy" in manual
    assert set(re.findall(r"^\.(\w+)", manual, re.MULTILINE)) == {"TH", "SH", "nf", "fi"}
    assert re.search(r"(?<!\\)-", manual.partition("\n")[2].replace("\\-", "")) is None


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not installed")
def test_debian_package_holds_the_agent_and_its_manual(build: ModuleType, tmp_path: Path) -> None:
    archive = build.build_agent_archive(ROOT / "agent")
    package = tmp_path / "bench-agent.deb"
    package.write_bytes(build.build_deb(archive, build.write_manual()))

    fields = subprocess.check_output(
        ["dpkg-deb", "--field", package, "Package", "Version", "Depends"], text=True
    )
    listed = subprocess.check_output(["dpkg-deb", "--contents", package], text=True)
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path / "root"], check=True)
    installed = tmp_path / "root" / "usr" / "bin" / "bench-agent"
    shown = subprocess.check_output([sys.executable, installed, "version"], text=True)

    assert fields == f"Package: bench-agent\nVersion: {__version__}\nDepends: python3 (>= 3.8)\n"
    assert re.findall(r"^-(\S+) root/root .* \./(\S+)$", listed, re.MULTILINE) == [
        ("rwxr-xr-x", "usr/bin/bench-agent"),
        ("rw-r--r--", "usr/share/man/man1/bench-agent.1.gz"),
        ("rw-r--r--", "usr/share/doc/bench-agent/copyright"),
    ]
    assert installed.read_bytes() == archive
    assert shown.startswith(f"bench-agent {__version__} ")


def test_same_sources_make_the_same_package(build: ModuleType) -> None:
    assert build.build_deb(b"x", "y") == build.build_deb(b"x", "y")
