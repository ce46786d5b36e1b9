"""A server that follows the API, or violates it according to its script."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import NAMESPACE_OID, uuid5

TOKEN = "bench_host_0123456789"
ENROLLMENT_TOKEN = "enrol_0123456789"


@dataclass(frozen=True)
class ReceivedRequest:
    """One received request."""

    method: str
    path: str
    headers: Message
    body: bytes


class Handler(BaseHTTPRequestHandler):
    """Answers one request with the next reply of the server's script."""

    server: HostileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append(ReceivedRequest("GET", self.path, self.headers, b""))
        if self.path.endswith("/hosts/me"):
            self.answer(200, {"name": "rack1-host7", "pool": None, "server_time": self.server.server_time})
        elif "/gate" in self.path:
            self.server.gate(self, b"")
        elif "/api/v1/runs/" in self.path:
            self.server.run(self, b"")
        elif self.server.state:
            self.server.state(self, b"")
        else:
            submission_id = self.path.rpartition("/")[2]
            self.server.polls += 1
            is_final = self.server.polls > self.server.polls_until_final
            state = self.server.final_state if is_final else "received"
            page = {"id": 5, "url": "/api/v1/runs/5", "page": "/runs/5/"}
            reason = {"code": "no-report", "detail": "no fio report found"} if state == "rejected" else None
            runs = [page] if state == "stored" else []
            self.answer(200, {"id": submission_id, "state": state, "reason": reason, "runs": runs})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(ReceivedRequest("POST", self.path, self.headers, body))
        if self.path.endswith("/requests/next"):
            offer_request(self, body)
        elif self.path.endswith("/schedule/adoption"):
            self.server.adoptions.append(json.loads(body))
            self.server.adoption(self, body)
        else:
            self.server.next_reply()(self, body)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(ReceivedRequest("PATCH", self.path, self.headers, body))
        report, request_id = json.loads(body), self.path.rpartition("/")[2]
        self.server.reports.append({"id": request_id, **report})
        if report["state"] in ("failed", "declined"):
            self.server.offers = [offer for offer in self.server.offers if offer["id"] != request_id]
        self.answer(200, {"id": request_id, "state": report["state"]})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(ReceivedRequest("PUT", self.path, self.headers, body))
        reply = self.server.next_reply() if self.server.script else accept_schedule
        reply(self, body)

    def answer(
        self,
        status: int,
        document: object,
        headers: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **self.server.announced, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer_problem(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        document = {
            "type": "about:blank",
            "title": code,
            "status": status,
            "code": code,
            "detail": f"it is {code}",
        }
        self.answer(status, document, headers, "application/problem+json")

    def reset(self) -> None:
        """Close with RST, so that the client loses data in transit."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, text: str, *arguments: object) -> None:
        """Log nothing."""


# A measurement of GET /runs/{id}, as far as the agent reads it.
RESULTS = [
    {
        "workload_title": "4k random read",
        "direction": "read",
        "error": 0,
        "iops": 33415.0,
        "bandwidth_bytes_per_s": 136867840.0,
        "latency_mean_ns": 1240000.0,
        "latency_p99_ns": 8500000.0,
        "elapsed_s": None,
        "badges": [{"code": "too-short", "sentence": "read for 4 s, less than 30 s", "numbers": {}}],
        "levels": [
            {"metric": "iops", "n": 23, "median": 34097.0, "change": -0.02, "is_usual": True},
            {"metric": "latency_p99_ns", "n": 23, "median": 6e6, "change": 0.31, "is_usual": False},
        ],
    }
]
Reply = Callable[[Handler, bytes], None]


class HostileServer(ThreadingHTTPServer):
    """script: replies to the next requests; `usual` follows when it is empty."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.script: deque[Reply] = deque()
        self.usual: Reply = accept
        self.gate: Reply = reply_problem(404, "not-found")
        self.run: Reply = reply_run(RESULTS)
        # What it ships: see `ship`.
        self.announced: dict[str, str] = {}
        # Answer about a submission; without one its state is final_state after polls_until_final requests.
        self.state: Reply | None = None
        self.seen: list[ReceivedRequest] = []
        self.stored: dict[str, bytes] = {}
        self.first_answers: Counter[str] = Counter()
        self.schedule: object = None
        # What is wanted of the host: see `want`; what it reported.
        self.adoption: Reply = reply_problem(404, "not-found")
        self.adoptions: list[dict[str, object]] = []
        # Results that it rejected after their receipt, as in its answers; see `reject_later`.
        self.rejected: dict[str, object] | None = None
        # Requested runs that are offered, oldest first, until their start or end is reported; what was reported.
        self.offers: list[dict[str, object]] = []
        # Offers a run to a host that waits.
        self.offers_anyway = False
        self.reports: list[dict[str, object]] = []
        self.polls = 0
        self.polls_until_final = 1
        self.final_state = "stored"
        self.server_time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._lock = threading.Lock()

    def next_reply(self) -> Reply:
        with self._lock:
            return self.script.popleft() if self.script else self.usual

    def read_stored(self) -> dict[str, Any]:
        """Return the only envelope that it has stored."""
        (body,) = self.stored.values()
        return json.loads(body)

    def accept(self, body: bytes) -> tuple[str, bool]:
        """Store a body once by its id; return id and whether it was new."""
        unpacked = gzip.decompress(body)
        submission_id = json.loads(unpacked)["id"]
        with self._lock:
            is_new = submission_id not in self.stored
            assert self.stored.setdefault(submission_id, unpacked) == unpacked, "same id, other body"
        return submission_id, is_new

    def accept_output(self, body: bytes) -> tuple[str, bool]:
        """Store fio's output once by its content; return id and whether it was new."""
        unpacked = gzip.decompress(body)
        submission_id = str(uuid5(NAMESPACE_OID, unpacked.decode()))
        with self._lock:
            is_new = submission_id not in self.stored
            self.stored[submission_id] = unpacked
        return submission_id, is_new

    def ship(self, version: str) -> None:
        """Announce the version of the agent that the server ships."""
        self.announced = {"Bench-Agent-Version": version}

    def reject_later(self, detail: str, *, received_at: str) -> None:
        """Tell in each answer that a result was rejected after its receipt."""
        last = {"id": "6f1c2a9e", "title": "no-report", "detail": detail, "received_at": received_at}
        last["page"] = "/uploads/6f1c2a9e/"
        self.rejected = {"count": 3, "since": "2026-11-20T10:00:00Z", "last": last}

    def want(self, *wanted: Mapping[str, object], version: str = "ab12") -> None:
        """Want these schedules of the host."""
        document = {"version": version, "wanted": list(wanted)}
        self.adoption = lambda handler, body: handler.answer(200, document)

    def posts(self) -> list[ReceivedRequest]:
        return [seen for seen in self.seen if seen.method == "POST"]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that were killed."""


def accept(handler: Handler, body: bytes) -> None:
    """Follow the API."""
    if handler.path.endswith("/enrollments"):
        if handler.headers["Authorization"] != f"Bearer {ENROLLMENT_TOKEN}":
            handler.answer_problem(401, "token-unknown")
        else:
            handler.answer(201, {"host": json.loads(body)["name"], "token": TOKEN, "url": "/hosts/1/"})
    elif handler.headers["Authorization"] != f"Bearer {TOKEN}":
        handler.answer_problem(401, "token-unknown")
    else:
        is_output = handler.path.startswith("/api/v1/fio")
        submission_id, is_new = (handler.server.accept_output if is_output else handler.server.accept)(body)
        url = f"/api/v1/submissions/{submission_id}"
        document = {"id": submission_id, "state": "received", "url": url}
        if handler.server.rejected:
            document["rejected"] = handler.server.rejected
        if is_new:
            handler.server.first_answers[submission_id] += 1
            handler.answer(202, document, {"Location": url})
        else:
            handler.answer(200, document, {"Location": url, "Idempotency-Replayed": "true"})


def offer_request(handler: Handler, body: bytes) -> None:
    """Offer the oldest request without a result; none to a host that waits."""
    offers = [offer for offer in handler.server.offers if offer["id"] not in handler.server.stored]
    is_waiting = json.loads(body)["waits_for"] is not None and not handler.server.offers_anyway
    handler.answer(200, {"request": offers[0] if offers and not is_waiting else None})


def accept_schedule(handler: Handler, body: bytes) -> None:
    """Accept the schedules of a host."""
    handler.server.schedule = json.loads(body)["entries"]
    handler.answer(200, {"entries": handler.server.schedule})


def reply_problem(status: int, code: str = "x", **headers: str) -> Reply:
    """Return a reply with a problem; underscores in header names are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, body: handler.answer_problem(status, code, named)


def redirect(status: int, location: str) -> Reply:
    return lambda handler, body: handler.answer(status, b"", {"Location": location}, "text/html")


def reply_state(state: str, *run_ids: int) -> Reply:
    """Return a reply with the state of a submission and its runs."""
    runs = [{"id": each, "url": f"/api/v1/runs/{each}", "page": f"/runs/{each}/"} for each in run_ids]
    return lambda handler, body: handler.answer(200, {"state": state, "reason": None, "runs": runs})


def reply_run(measurements: Sequence[Mapping[str, object]]) -> Reply:
    """Return a reply with a run."""
    return lambda handler, body: handler.answer(200, {"id": 5, "measurements": measurements})


def captive_portal(handler: Handler, body: bytes) -> None:
    """Return 200 with a page, as a captive portal does."""
    handler.answer(200, b"<html>Welcome to the hotel</html>", {}, "text/html")


def wrong_id(handler: Handler, body: bytes) -> None:
    """Acknowledge another id."""
    handler.answer(202, {"id": "00000000-0000-4000-8000-000000000000", "state": "received", "url": "/x"})


def reset(handler: Handler, body: bytes) -> None:
    """Close with RST instead of a response."""
    handler.reset()


def store_and_reset(handler: Handler, body: bytes) -> None:
    """Store a body and lose the acknowledgment."""
    handler.server.accept(body)
    handler.reset()


def truncate(handler: Handler, body: bytes) -> None:
    """Send less than Content-Length announces."""
    handler.send_response(200 if handler.command == "GET" else 202)
    handler.send_header("Content-Length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"id": "')
    handler.close_connection = True


def reply_at_length(handler: Handler, body: bytes) -> None:
    """Send valid JSON that is longer than any response of benchapp."""
    handler.answer(200, {"outcome": "passed", "rows": ["x" * 2**20] * 9})


def send_garbage(handler: Handler, body: bytes) -> None:
    """Send something other than HTTP."""
    handler.wfile.write(b"\x16\x03\x01SSH-2.0-nonsense\r\n\r\n")
    handler.close_connection = True


def delay(seconds: float) -> Reply:
    """Return a reply that follows the API after a delay."""

    def reply(handler: Handler, body: bytes) -> None:
        time.sleep(seconds)
        accept(handler, body)

    return reply


def send_slowly(handler: Handler, body: bytes) -> None:
    """Send single header bytes, so that no read times out."""
    handler.wfile.write(b"HTTP/1.1 202 Accepted\r\nX-Slow: ")
    for _ in range(200):
        handler.wfile.write(b"a")
        time.sleep(0.05)


# Answers to a POST: most violate the API.
HOSTILITIES = (
    reset,
    store_and_reset,
    captive_portal,
    wrong_id,
    truncate,
    send_garbage,
    delay(0.3),
    reply_problem(429, Retry_After="1"),
    reply_problem(503, Retry_After="3600"),
    reply_problem(500),
    reply_problem(502),
    redirect(307, "http://127.0.0.1:9/"),
    accept,
    accept,
)
