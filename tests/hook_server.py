"""A receiver of webhooks for tests, on loopback: keeps what it was sent, and answers as it is told."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookServer:
    """What came. status: of every answer; respond: writes the answer itself, where a test wants an odd one."""

    port: int
    requests: list[Received] = field(default_factory=list)
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    respond: Callable[[BaseHTTPRequestHandler], None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        hook: HookServer = self.server.hook  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        hook.requests.append(Received(self.path, headers, body))
        if hook.respond is not None:
            hook.respond(self)
            return
        self.send_response(hook.status)
        for name, value in hook.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_hook(context: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    """Run a receiver on a free port of loopback, with TLS where there is a context."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hook = HookServer(server.server_address[1])
    server.hook = hook  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
