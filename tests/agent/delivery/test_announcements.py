"""The newer version that a server announces, which a person is told of."""

import pytest

from agent.delivery.client import is_newer
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer


def test_person_learns_where_the_command_for_the_newer_version_is_and_cron_does_not(
    host: Machine, server: HostileServer
) -> None:
    server.ship("0.2.0")

    shown = host.measure("--wait", "0", is_terminal=True)
    silent = host.measure()

    assert "the server ships 0.2.0; the page of this host at http://127.0.0.1:" in shown.stderr
    assert (silent.returncode, silent.stderr) == (0, "")


def test_check_names_the_newer_version(host: Machine, server: HostileServer) -> None:
    server.ship("0.2.0")

    checks = {each["name"]: each for each in host.run_json("check")["checks"]}

    assert (checks["version"]["ok"], checks["version"]["warning"]) == (True, True)
    assert "the server ships 0.2.0" in checks["version"]["detail"]


@pytest.mark.parametrize(
    ("version", "installed", "expected"),
    [
        ("0.10.0", "0.9.9", True),
        ("1.0", "0.9.9", True),
        ("0.9.9", "0.9.9", False),
        ("0.9", "0.9.1", False),
        ("0.2.0rc1", "0.1.0", False),
        ("", "0.1.0", False),
        ("9" * 400, "0.1.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, installed: str, expected: bool) -> None:
    assert is_newer(version, installed) is expected
