"""How far the web process grows while many clients send large bodies, and what it keeps afterwards.

    python -m benchmarks memory [--connections 300]

RSS of the web process and its worker. A client that expects a refusal sends all it announced as fast as it can; one
with a token keeps the last byte back, so that the server has to hold what it took.
"""

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.servers import ROOT, Servers

BODY_BYTES: Final = 8 * 2**20
CLIENTS: Final = 4
GROWTH_LIMIT_MIB: Final = 100
# The budget of bodies in flight (BENCHAPP_BODIES_IN_FLIGHT_MIB) comes on top where the senders have a token.
BUDGET_MIB: Final = 256
_SAMPLE_S: Final = 0.05
_REST_S: Final = 5.0
_CLIENT_LIMIT_S: Final = 40.0


@dataclass(frozen=True, slots=True)
class Growth:
    """What many connections did to the web process."""

    peak_mib: float
    kept_mib: float
    statuses: dict[str, int]


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--client"]:
        _send_all(int(sys.argv[2]), int(sys.argv[3]), keeps_last=sys.argv[4] == "1")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=1000)
    connections = parser.parse_args().connections
    servers = Servers(environment={"BROKER_URL": ""})
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        servers.start_web()
        token = servers.issue_token("bench-1")
        for _ in range(20):
            servers.get("/sign-in/")
        web_pid = servers.processes["web"].pid
        print(f"{'':50}{'peak MiB':>9}{'kept MiB':>9}{'limit':>7}  answers")
        print(f"{'web process at rest':50}{_read_rss_mib(web_pid):9.0f}")
        for text, path, header, limit_mib in (
            ("results, no token", "/api/v1/submissions", "", GROWTH_LIMIT_MIB),
            (
                "results, an unknown token",
                "/api/v1/fio",
                f"Authorization: Bearer {_make_token()}\r\n",
                GROWTH_LIMIT_MIB,
            ),
            ("sign-in", "/sign-in/", "", GROWTH_LIMIT_MIB),
            ("files, not signed in", "/uploads/add", "", GROWTH_LIMIT_MIB),
            (
                "results, a host's token, never whole",
                "/api/v1/submissions",
                f"Authorization: Bearer {token}\r\n",
                GROWTH_LIMIT_MIB + BUDGET_MIB,
            ),
        ):
            head = (
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}Content-Length: {BODY_BYTES}\r\n\r\n"
            ).encode()
            keeps_last = limit_mib > GROWTH_LIMIT_MIB
            grown = _measure(servers.port, web_pid, head, connections=connections, keeps_last=keeps_last)
            statuses = ", ".join(f"{count} × {status}" for status, count in sorted(grown.statuses.items()))
            label = f"{connections} × {BODY_BYTES // 2**20} MiB: {text}"
            print(
                f"{label:50}{grown.peak_mib:+9.0f}{grown.kept_mib:+9.0f}{limit_mib:7}  {statuses}", flush=True
            )
    finally:
        servers.stop()


def _measure(port: int, pid: int, head: bytes, *, connections: int, keeps_last: bool) -> Growth:
    before = peak = _read_rss_mib(pid)
    clients = [_start_client(port, head, connections // CLIENTS, keeps_last) for _ in range(CLIENTS)]
    while any(client.poll() is None for client in clients):
        peak = max(peak, _read_rss_mib(pid))
        time.sleep(_SAMPLE_S)
    statuses: Counter[str] = Counter()
    for client in clients:
        assert client.stdout is not None
        statuses.update(json.loads(client.stdout.read()))
    time.sleep(_REST_S)
    return Growth(peak - before, _read_rss_mib(pid) - before, dict(statuses))


def _start_client(port: int, head: bytes, connections: int, keeps_last: bool) -> "subprocess.Popen[bytes]":
    client = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "benchmarks.memory",
            "--client",
            str(port),
            str(connections),
            str(int(keeps_last)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert client.stdin is not None
    client.stdin.write(head)
    client.stdin.close()
    return client


def _send_all(port: int, connections: int, *, keeps_last: bool) -> None:
    """Send a body over each connection, all at once; print how often each status was answered."""
    head = sys.stdin.buffer.read()
    request = memoryview(head + bytes(BODY_BYTES - keeps_last))
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setblocking(False)
        # [bytes sent, bytes received]
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, [0, b""])
    statuses: Counter[str] = Counter()
    ends_at = time.monotonic() + _CLIENT_LIMIT_S
    last_at = time.monotonic()
    while selector.get_map() and time.monotonic() < ends_at:
        ready = selector.select(timeout=0.2)
        if ready:
            last_at = time.monotonic()
        elif keeps_last and time.monotonic() - last_at > 2:
            break
        for key, events in ready:
            connection: Any = key.fileobj
            status = _go_on(connection, key.data, events, request)
            if key.data[0] >= len(request) and selector.get_key(connection).events & selectors.EVENT_WRITE:
                selector.modify(connection, selectors.EVENT_READ, key.data)
            if status is not None:
                statuses[status] += 1
                selector.unregister(connection)
                connection.close()
    statuses["none"] += len(selector.get_map())
    print(json.dumps({status: count for status, count in statuses.items() if count}))


def _go_on(connection: Any, state: list[Any], events: int, request: memoryview) -> str | None:
    """Send and receive what can be; return the status once there is one, "reset" where the server hung up."""
    try:
        if events & selectors.EVENT_READ:
            part = connection.recv(65536)
            state[1] += part
            if b"\r\n" in state[1]:
                return str(int(state[1].split(b" ", 2)[1]))
            if not part:
                return "reset"
        if events & selectors.EVENT_WRITE and state[0] < len(request):
            state[0] += connection.send(request[state[0] : state[0] + 2**18])
    except BlockingIOError:
        return None
    except OSError:
        return "reset"
    return None


def _read_rss_mib(pid: int) -> float:
    """Return the resident memory of a process and its children."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _make_token() -> str:
    """Return a token of the right form that no server knows."""
    public, secret = "0" * 12, "0" * 43
    return f"bench_{public}_{secret}{zlib.crc32(f'{public}_{secret}'.encode()):08x}"


if __name__ == "__main__":
    main()
