"""The packages of the agent: manual page, deb, rpm, wheel, Ansible role, container and Kubernetes examples."""

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="module")
def packages(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages."""
    folder = tmp_path_factory.mktemp("packages")
    build.build_packages(folder)
    return folder


def test_same_sources_make_the_same_packages(build: ModuleType, packages: Path, tmp_path: Path) -> None:
    build.build_packages(tmp_path)

    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(built) == sorted(
        [
            "bench-agent.1",
            "bench-agent.pyz",
            f"bench-agent_{__version__}_all.deb",
            f"bench-agent-{__version__}-1.noarch.rpm",
            f"bench_agent-{__version__}-py3-none-any.whl",
        ]
    )
    assert built == {path.name: path.read_bytes() for path in packages.iterdir()}
    assert built["bench-agent.pyz"] == build.build_agent_archive(ROOT / "agent")
    assert built["bench-agent.1"] == build.write_manual().encode()


def test_missing_tool_is_named(build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "_PROGRAMS", tmp_path)

    with pytest.raises(SystemExit, match=r"nfpm is not installed in .*: `make agent-packages` installs it"):
        build.build_packages(tmp_path)


def run(*command: str | Path) -> str:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout


def show_version(program: Path) -> str:
    return run(sys.executable, program, "version")


needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg"), reason="dpkg is not installed")
needs_rpm = pytest.mark.skipif(not shutil.which("rpm"), reason="rpm is not installed")
# Both programs change owners, and rpm its root directory.
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")


@needs_dpkg
def test_debian_package_names_its_dependencies_and_owners(packages: Path) -> None:
    package = packages / f"bench-agent_{__version__}_all.deb"

    fields = run("dpkg-deb", "--field", package)
    listed = run("dpkg-deb", "--contents", package)
    control = run("dpkg-deb", "--info", package)

    assert re.sub(r"Installed-Size: \d+\n", "", fields) == (
        f"Package: bench-agent\nVersion: {__version__}\nSection: utils\nPriority: optional\nArchitecture: all\n"
        "Maintainer: benchapp\nDepends: python3 (>= 3.8)\nRecommends: fio\n"
        "Suggests: mdadm, lvm2, xfsprogs, btrfs-progs\n"
        "Description: runs storage benchmarks and sends the results to benchapp\n"
        " Runs fio from cron or systemd, stores each result on disk, and posts it until\n"
        " the server has acknowledged it.\n"
    )
    assert re.findall(r"^-(\S+) (\S+) .* \./(\S+)$", listed, re.MULTILINE) == [
        ("rwxr-xr-x", "root/root", "usr/bin/bench-agent"),
        ("rw-r--r--", "root/root", "usr/share/doc/bench-agent/copyright"),
        ("rw-r--r--", "root/root", "usr/share/man/man1/bench-agent.1.gz"),
    ]
    assert re.findall(r"lines +(\S+)", control) == ["control", "md5sums"]


@needs_dpkg
@needs_root
def test_debian_package_is_installed_beside_python_and_purged(packages: Path, tmp_path: Path) -> None:
    package, database = packages / f"bench-agent_{__version__}_all.deb", tmp_path / "var" / "lib" / "dpkg"
    (database / "updates").mkdir(parents=True)
    (database / "info").mkdir()
    python = (
        "Package: python3\nStatus: install ok installed\nMaintainer: x\nArchitecture: all\nDescription: x\n"
    )
    dpkg = ("dpkg", f"--root={tmp_path}", "--log=/dev/null")

    (database / "status").write_text(f"{python}Version: 3.7.9\n\n")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(*dpkg, "--install", package)
    (database / "status").write_text(f"{python}Version: 3.8.2\n\n")
    run(*dpkg, "--install", package)
    shown = show_version(tmp_path / "usr" / "bin" / "bench-agent")
    changed = run(*dpkg, "--verify", "bench-agent")
    run(*dpkg, "--purge", "bench-agent")

    assert "bench-agent depends on python3 (>= 3.8)" in refused.value.stderr
    assert shown.startswith(f"bench-agent {__version__} ")
    assert changed == ""
    assert not (tmp_path / "usr").exists()


@needs_rpm
def test_rpm_names_its_dependencies_and_owners(packages: Path, tmp_path: Path) -> None:
    package = packages / f"bench-agent-{__version__}-1.noarch.rpm"
    rpm = ("rpm", "--dbpath", tmp_path)
    tags = ("summary", "license", "group", "arch", "payloadcompressor", "buildtime", "buildhost")

    described = run(*rpm, "-qp", "--queryformat", "|".join(f"%{{{tag}}}" for tag in tags), package)
    files = run(
        *(*rpm, "-qp", "--queryformat"),
        "[%{filemodes:perms} %{fileusername}:%{filegroupname} %{filenames}\n]",
        package,
    )

    assert described == (
        "runs storage benchmarks and sends the results to benchapp|MIT|Applications/System|noarch|gzip|0|benchapp"
    )
    assert files.splitlines() == [
        "-rwxr-xr-x root:root /usr/bin/bench-agent",
        "drwxr-xr-x root:root /usr/share/licenses/bench-agent",
        "-rw-r--r-- root:root /usr/share/licenses/bench-agent/LICENSE",
        "-rw-r--r-- root:root /usr/share/man/man1/bench-agent.1.gz",
    ]
    requirements = run(*rpm, "-qp", "--requires", package).splitlines()
    assert [line for line in requirements if not line.startswith("rpmlib(")] == ["python3 >= 3.8"]
    assert run(*rpm, "-qp", "--recommends", package) == "fio\n"
    assert run(*rpm, "-qp", "--scripts", package) == ""
    assert "digests OK" in run(*rpm, "--checksig", package)


@needs_rpm
@needs_root
def test_rpm_is_installed_and_erased(packages: Path, tmp_path: Path) -> None:
    package = packages / f"bench-agent-{__version__}-1.noarch.rpm"
    rpm = ("rpm", "--root", tmp_path)

    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(*rpm, "--install", package)
    run(*rpm, "--nodeps", "--install", package)
    shown = show_version(tmp_path / "usr" / "bin" / "bench-agent")
    changed = run(*rpm, "--verify", "--nodeps", "bench-agent")
    run(*rpm, "--erase", "bench-agent")

    assert "python3 >= 3.8 is needed by bench-agent" in refused.value.stderr
    assert shown.startswith(f"bench-agent {__version__} ")
    assert changed == ""
    assert list(tmp_path.rglob("*bench-agent*")) == []


def test_wheel_is_the_same_agent_with_its_metadata(packages: Path) -> None:
    with zipfile.ZipFile(packages / f"bench_agent-{__version__}-py3-none-any.whl") as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
        modes = {entry.external_attr >> 16 & 0o777 for entry in wheel.infolist()}
    with zipfile.ZipFile(packages / "bench-agent.pyz") as archive:
        modules = {name: archive.read(name) for name in archive.namelist() if name != "__main__.py"}

    about = f"bench_agent-{__version__}.dist-info"
    assert {name: content for name, content in files.items() if name.startswith("agent/")} == modules
    assert sorted(files.keys() - modules.keys()) == [
        f"{about}/METADATA",
        f"{about}/RECORD",
        f"{about}/WHEEL",
        f"{about}/entry_points.txt",
        f"{about}/licenses/LICENSE",
    ]
    assert modes == {0o644}
    assert files[f"{about}/METADATA"].decode().splitlines()[1:] == [
        "Name: bench-agent",
        f"Version: {__version__}",
        "Summary: runs storage benchmarks and sends the results to benchapp",
        "License-Expression: MIT",
        "License-File: LICENSE",
        "Requires-Python: >=3.8",
    ]


def test_wheel_is_installed_into_a_fresh_environment(packages: Path, tmp_path: Path) -> None:
    uv, python = run(ROOT / "tools" / "bootstrap").strip(), tmp_path / "bin" / "python"
    run(uv, "venv", "--offline", "--python", sys.executable, tmp_path)
    run(uv, "pip", "install", "--python", python, "--no-index", *packages.glob("*.whl"))

    shown = run(tmp_path / "bin" / "bench-agent", "version")

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
