"""The packages of the agent: manual page, deb, rpm, wheel, Ansible role, container and Kubernetes examples."""

import argparse
import base64
import csv
import gzip
import hashlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

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
        *(name.upper().replace("-", "\\-") for name in list_commands(build_parser())),
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


def test_same_sources_make_the_same_packages(build: ModuleType) -> None:
    assert build.build_deb(b"x", "y") == build.build_deb(b"x", "y")
    assert make_rpm(build) == make_rpm(build)
    assert make_wheel(build) == make_wheel(build)


def make_rpm(build: ModuleType) -> bytes:
    files = build.list_files(b"archive", "manual", license_path="licenses/bench-agent/LICENSE")
    return build.build_rpm(files, version="1.2.3", summary="sum", description="des")


def make_wheel(build: ModuleType) -> bytes:
    return build.build_wheel(ROOT / "agent", version=__version__, summary="sum", license_text=b"MIT")


def read_header(content: bytes, start: int) -> tuple[dict[int, Any], int]:
    """Return the values of a header of an RPM by tag, numbers as lists, and where it ends."""
    assert content[start : start + 8] == b"\x8e\xad\xe8\x01\0\0\0\0"
    count, size = struct.unpack_from(">2I", content, start + 8)
    store = start + 16 + 16 * count
    values: dict[int, Any] = {}
    for place in range(count):
        tag, kind, offset, number = struct.unpack_from(">4I", content, start + 16 + 16 * place)
        at = store + offset
        if kind in (3, 4):
            values[tag] = list(struct.unpack_from(f">{number}{'H' if kind == 3 else 'I'}", content, at))
        elif kind == 7:
            values[tag] = content[at : at + number]
        else:
            values[tag] = content[at:].split(b"\0", number)[:number]
    return values, store + size


def test_rpm_holds_the_files_with_their_digests(build: ModuleType) -> None:
    content = make_rpm(build)

    signature, end = read_header(content, 96)
    start = end + -end % 8
    header, payload = read_header(content, start)
    archive = gzip.decompress(content[payload:])

    assert content[:6] == b"\xed\xab\xee\xdb\3\0"
    assert signature[273] == [hashlib.sha256(content[start:payload]).hexdigest().encode()]
    assert signature[1004] == hashlib.md5(content[start:]).digest()
    assert signature[1000] == [len(content) - start]
    assert header[5092] == [hashlib.sha256(content[payload:]).hexdigest().encode()]
    assert [header[tag] for tag in (1000, 1001, 1022)] == [[b"bench-agent"], [b"1.2.3"], [b"noarch"]]
    names = [header[1118][place] + name for place, name in zip(header[1116], header[1117], strict=True)]
    assert list(zip(names, header[1030], header[1028], strict=True))[:2] == [
        (b"/usr/bin/bench-agent", 0o100755, 7),
        (b"/usr/share/licenses/bench-agent/LICENSE", 0o100644, (ROOT / "LICENSE").stat().st_size),
    ]
    assert header[1035][0] == hashlib.sha256(b"archive").hexdigest().encode()
    assert (header[1049][0], header[1050][0], header[5046]) == (b"python3", b"3.8", [b"fio"])
    # The first member: header of 110 bytes, name, content.
    assert archive[:6] == b"070701"
    assert archive[110:140] == b"./usr/bin/bench-agent\0archive\0"
    assert archive.rstrip(b"\0").endswith(b"TRAILER!!!")


@pytest.mark.skipif(not shutil.which("rpm"), reason="rpm is not installed")
def test_rpm_reads_the_package(build: ModuleType, tmp_path: Path) -> None:
    package = tmp_path / "bench-agent.rpm"
    package.write_bytes(make_rpm(build))

    subprocess.run(["rpm", "--checksig", package], check=True)
    listed = subprocess.check_output(["rpm", "-qlp", package], text=True)

    assert listed.split()[0] == "/usr/bin/bench-agent"


def test_wheel_is_the_same_agent_and_records_its_files(build: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / f"bench_agent-{__version__}-py3-none-any.whl"
    path.write_bytes(make_wheel(build))

    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    about = f"bench_agent-{__version__}.dist-info"
    record = list(csv.reader(files.pop(f"{about}/RECORD").decode().splitlines()))
    shown = subprocess.check_output(
        [sys.executable, "-m", "agent", "version"], env={"PYTHONPATH": str(path)}, cwd=tmp_path, text=True
    )

    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        for name, content in files.items()
    }
    assert {name: digest for name, digest, _ in record[:-1]} == {
        name: f"sha256={digest}" for name, digest in digests.items()
    }
    with zipfile.ZipFile(io.BytesIO(build.build_agent_archive(ROOT / "agent"))) as archive:
        modules = {name: archive.read(name) for name in archive.namelist() if name != "__main__.py"}
    assert {name: content for name, content in files.items() if name.startswith("agent/")} == modules
    assert b"bench-agent = agent.commands.cli:main" in files[f"{about}/entry_points.txt"]
    assert shown.startswith(f"bench-agent {__version__} ")


def parse(command: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of bench-agent; an unknown option ends the test."""
    return build_parser().parse_args(list(command))


def list_commands_of(text: str) -> list[list[str]]:
    """Return the arguments of each bench-agent command in a shell script."""
    return [shlex.split(found) for found in re.findall(r"bench-agent ([a-z][^\n;]*)", text)]


def test_ansible_role_has_a_default_for_each_variable_and_valid_commands() -> None:
    role = ROOT / "packaging" / "ansible" / "bench_agent"
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text())
    text = (role / "tasks" / "main.yml").read_text()
    template = (role / "templates" / "bench-agent.ini.j2").read_text()
    tasks = [step for task in yaml.safe_load(text) for step in [task, *task.get("block", [])]]

    used = set(re.findall(r"\bbench_agent_[a-z0-9_]+", text + template))
    registered = {task["register"] for task in tasks if "register" in task}
    assert used == set(defaults) | registered
    assert all(task["name"] for task in tasks)
    commands = [task["ansible.builtin.command"] for task in tasks if "ansible.builtin.command" in task]
    example = re.search(r"#  - (--.*)", (role / "defaults" / "main.yml").read_text())
    assert example is not None
    parsed = [
        parse(command["argv"][2:] if "argv" in command else ["schedule", "install", *example[1].split()])
        for command in commands
    ]
    assert [arguments.command for arguments in parsed] == ["enroll", "schedule", "schedule"]
    # A play that fails between removal and installation has no complete record, so that the next one repeats both.
    assert [task["name"] for task in tasks[-4:]] == [
        "Mark the record as incomplete",
        "Remove earlier schedules",
        "Install the schedules",
        "Record the schedules",
    ]
    (enroll,) = (task for task in tasks if task["name"] == "Enroll the host")
    assert enroll["no_log"] is True
    # The keys that it writes are those that `enroll` sets.
    assert re.findall(r"^(\w+) = ", template, re.MULTILINE) == ["url", "token_file"]


def test_kubernetes_examples_run_valid_commands_without_privileges() -> None:
    folder = ROOT / "packaging" / "kubernetes"
    (daemonset,) = yaml.safe_load_all((folder / "daemonset.yaml").read_text())
    *claims, cronjob = yaml.safe_load_all((folder / "cronjob.yaml").read_text())
    pods = [daemonset["spec"]["template"]["spec"], cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]]

    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert container["image"] == "bench-agent"
        assert pod["automountServiceAccountToken"] is False
    scripts = "\n".join(
        container["command"][-1]
        for container in [*pods[0]["initContainers"], *pods[0]["containers"]]
        if container["command"][0] == "sh"
    )
    assert [parse(command).command for command in list_commands_of(scripts)] == ["enroll", "run"]
    assert parse(pods[1]["containers"][0]["args"]).profile == "quick"
    named = {volume["persistentVolumeClaim"]["claimName"] for volume in pods[1]["volumes"][:2]}
    assert {claim["metadata"]["name"] for claim in claims} == named
    assert daemonset["spec"]["selector"]["matchLabels"] == daemonset["spec"]["template"]["metadata"]["labels"]


def test_container_image_copies_what_make_builds_and_runs_as_another_user() -> None:
    lines = (ROOT / "packaging" / "container" / "Dockerfile").read_text().splitlines()
    instructions = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines if line[:1].isupper()}

    assert instructions["COPY"] == "bench-agent.pyz /usr/local/bin/bench-agent"
    assert instructions["USER"] == "bench-agent"
    assert json.loads(instructions["ENTRYPOINT"]) == ["bench-agent"]
