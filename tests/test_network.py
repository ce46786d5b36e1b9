"""The guard of the network: what leaves the machine is refused before it is sent, and fails the test by its name."""

import os
import socket
from pathlib import Path

import pytest

from tests.loopback.loopback_only import is_loopback
from tests.stack import ROOT

pytest_plugins = ("pytester",)

# Runs after the guard's own hook: without the guard nothing would be sent either, and the test would fail.
BACKSTOP = """
import asyncio, contextlib, socket, subprocess, sys, urllib.request

def stop(event, arguments):
    is_sent = event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.gethostbyname",
                        "socket.gethostbyaddr", "socket.getnameinfo")
    if is_sent or event == "socket.getaddrinfo" and not arguments[0][0].isdigit():
        raise SystemError("not guarded: " + event)

sys.addaudithook(stop)
"""
CALLS = {
    "connect": "socket.create_connection(('192.0.2.1', 80), timeout=1)",
    "connect_ex": "socket.socket().connect_ex(('192.0.2.1', 80))",
    "connect of IPv6": "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
    "connect of a datagram socket": "socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
    "sendto": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    "sendmsg": "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 9))",
    "link-local": "socket.create_connection(('169.254.169.254', 80), timeout=1)",
    "getaddrinfo": "socket.getaddrinfo('bench.example.org', 80)",
    "gethostbyname": "socket.gethostbyname('bench.example.org')",
    "gethostbyname_ex": "socket.gethostbyname_ex('bench.example.org')",
    "gethostbyaddr": "socket.gethostbyaddr('192.0.2.1')",
    "getnameinfo": "socket.getnameinfo(('192.0.2.1', 80), 0)",
    "urllib": "urllib.request.urlopen('http://bench.example.org/')",
    "asyncio": "asyncio.run(asyncio.open_connection('192.0.2.1', 80))",
}


def run(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str) -> pytest.RunResult:
    """Run tests in a process of their own, as their record of refusals is."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ['PYTHONPATH']}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.makeini("[pytest]\n")
    project.makepyfile(BACKSTOP + text)
    return project.runpytest_subprocess("-p", "tests.network", "-rf")


def test_swallowed_connections_fail_their_tests_by_name_also_those_of_another_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(
        f"\ndef test_{number}():\n    with contextlib.suppress(OSError):\n        {call}\n"
        for number, call in enumerate(CALLS.values())
    )
    connect = "socket.create_connection(('198.51.100.7', 80), timeout=1)"
    program = BACKSTOP + f"with contextlib.suppress(OSError):\n    {connect}\nprint('done')\n"
    text += f"""
def test_{len(CALLS)}():
    ended = subprocess.run([sys.executable, "-c", {program!r}], capture_output=True, text=True)
    assert ended.stdout == "done\\n", ended.stderr

def test_that_stays_here():
    pass
"""

    result = run(pytester, monkeypatch, text)

    result.assert_outcomes(failed=len(CALLS) + 1, passed=1)
    said = result.stdout.str()
    assert "not guarded" not in said
    named = {line.split()[1].rpartition("::")[2] for line in said.splitlines() if line.startswith("FAILED")}
    assert named == {f"test_{number}" for number in range(len(CALLS) + 1)}
    assert "socket.connect to 198.51.100.7 in " in said
    assert said.count("socket.getaddrinfo to bench.example.org in ") >= 2
    assert "socket.connect to 169.254.169.254 in " in said


def test_connection_outside_of_a_test_fails_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(
        BACKSTOP
        + f"def pytest_runtestloop():\n    with contextlib.suppress(OSError):\n        {CALLS['connect']}\n"
    )

    result = run(pytester, monkeypatch, "\ndef test_that_stays_here():\n    pass\n")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "192.0.2.1" in result.stdout.str()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("127.1", True),
        ("2130706433", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        (b"localhost", True),
        (None, True),
        ("", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("10.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback_is_known_by_its_number_and_its_name(host: str | bytes | None, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_loopback_sockets_and_names_of_numbers_pass(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("0.0.0.0", 0)) as everywhere,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX) as client,
    ):
        socket.create_connection(("localhost", server.getsockname()[1])).close()
        socket.create_connection(("127.0.0.1", everywhere.getsockname()[1])).close()
        local.bind(str(tmp_path / "socket"))
        local.listen()
        client.connect(str(tmp_path / "socket"))

    assert socket.getaddrinfo("192.0.2.1", 80, type=socket.SOCK_STREAM)[0][4] == ("192.0.2.1", 80)
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("bench.example.org", 80, flags=socket.AI_NUMERICHOST)
