"""How an agent is installed, which chooses the command that updates it."""

import gzip
import json
from pathlib import Path

import pytest

from agent.programs import find_installation
from tests.agent.conftest import Machine


def install(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("installed", "package", "container", "kind"),
    [
        ((), "opt/bench-agent.pyz/agent", None, "zipapp"),
        (("usr/share/doc/bench-agent/copyright",), "opt/bench-agent.pyz/agent", None, "zipapp"),
        (("usr/share/doc/bench-agent/copyright",), "usr/bin/bench-agent/agent", None, "deb"),
        (("usr/share/licenses/bench-agent/LICENSE",), "usr/bin/bench-agent/agent", None, "rpm"),
        ((), "usr/local/bin/bench-agent/agent", "podman", "container"),
        # A container that is kept like a machine.
        ((), "opt/bench-agent.pyz/agent", "lxc", "zipapp"),
        (("venv/bench_agent-0.1.0.dist-info/RECORD",), "venv/agent", None, "wheel"),
        (("srv/other-1.0.dist-info/RECORD",), "srv/agent", None, "checkout"),
    ],
)
def test_installation_is_recognized(
    tmp_path: Path, installed: tuple[str, ...], package: str, container: str | None, kind: str
) -> None:
    is_zip = package.startswith(("opt", "usr"))
    install(tmp_path, *installed, package.rpartition("/")[0] if is_zip else f"{package}/__init__.py")
    command = ("/usr/bin/python3", str(tmp_path / package.rpartition("/")[0]))

    found = find_installation(
        command, container=container, package=str(tmp_path / package), root=str(tmp_path)
    )

    assert found == kind


def test_result_names_the_installation(machine: Machine) -> None:
    machine.measure("--no-send")

    (path,) = machine.pending()
    agent = json.loads(gzip.decompress(path.read_bytes()))["agent"]
    assert agent["installation"] in ("checkout", "container")
