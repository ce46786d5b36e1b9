"""A load generator that costs little: raw sockets, requests made beforehand, as a process of its own.

Run as `python -m benchmarks.client PORT CLIENTS SECONDS < requests`, it prints one JSON line.
"""

import json
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from typing import Any


def frame(requests: list[bytes]) -> bytes:
    """Return requests as the client reads them: each behind its length."""
    return b"".join(struct.pack("!I", len(request)) + request for request in requests)


def main() -> None:
    """Keep CLIENTS connections busy, one request in flight on each, until SECONDS or the requests are over."""
    port, clients, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    requests = iter(_unframe(sys.stdin.buffer.read()))
    selector = selectors.DefaultSelector()
    latencies_s: list[float] = []
    statuses: Counter[int] = Counter()
    started = time.perf_counter()
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = next(requests, None)
        if request is not None:
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ, [time.perf_counter(), b""])
    while selector.get_map():
        for key, _ in selector.select(timeout=10):
            connection: Any = key.fileobj
            state = key.data
            state[1] += connection.recv(65536)
            status = _read_answer(state[1])
            if status is None:
                continue
            now = time.perf_counter()
            latencies_s.append(now - state[0])
            statuses[status] += 1
            request = next(requests, None) if now - started < seconds else None
            if request is None:
                selector.unregister(connection)
                connection.close()
                continue
            state[0], state[1] = now, b""
            connection.sendall(request)
    elapsed_s = time.perf_counter() - started
    latencies_s.sort()
    print(
        json.dumps(
            {
                "per_s": len(latencies_s) / elapsed_s,
                "count": len(latencies_s),
                "p50_ms": latencies_s[len(latencies_s) // 2] * 1e3,
                "p95_ms": latencies_s[int(len(latencies_s) * 0.95)] * 1e3,
                "p99_ms": latencies_s[int(len(latencies_s) * 0.99)] * 1e3,
                "statuses": dict(statuses),
            }
        )
    )


def _unframe(stream: bytes) -> list[bytes]:
    requests = []
    position = 0
    while position < len(stream):
        (length,) = struct.unpack_from("!I", stream, position)
        requests.append(stream[position + 4 : position + 4 + length])
        position += 4 + length
    return requests


def _read_answer(received: bytes) -> int | None:
    """Return the status of a whole answer, None while it is on its way."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return None
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0
    )
    return int(head[9:12]) if len(body) >= length else None


if __name__ == "__main__":
    main()
