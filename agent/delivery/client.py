"""One request to the server, and what its answer means for the result that was sent."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from socket import SHUT_RDWR, socket
from typing import Any, Mapping, Sequence

from agent import __version__
from agent.exit_codes import ConfigurationError

# Retry-After beyond this is a mistake or malice; cron comes back by then anyway.
RETRY_AFTER_MAXIMUM_S = 3600.0
_DELAY_MINIMUM_S = 0.5
_DELAY_MAXIMUM_S = 60.0
# A server that trickles a byte now and then never lets a read time out; the whole exchange may take this long.
EXCHANGE_MAXIMUM_S = 60.0
# Answers are small; whatever is longer is no answer of ours.
_ANSWER_MAXIMUM = 1024 * 1024


class Fate(Enum):
    """What becomes of an envelope after an answer."""

    DELIVERED = "delivered"
    REJECTED = "rejected"
    REFUSED = "refused"  # credentials or address: nothing else will fare better
    LATER = "later"


@dataclass(frozen=True)
class Answer:
    """What came back. status is None where nothing did; problem then says why, in words."""

    status: int | None
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None
    problem: str | None = None
    is_permanent: bool = False

    def describe(self) -> str:
        """Return one sentence for the operator."""
        if self.status is None:
            return self.problem or "no answer"
        if 300 <= self.status < 400:
            place = self.headers.get("location", "nowhere")[:200]
            return (
                f"status {self.status}, a redirect to {place}, is not followed: configure the final address"
            )
        body = self.body or {}
        detail = body.get("detail") or body.get("title")
        if detail:
            return f"status {self.status}, {str(detail)[:500]}"
        if self.status < 300:
            return f"status {self.status} that acknowledges nothing: does another service answer at this address?"
        return f"status {self.status}"


class Client:
    """Speaks to one server with one token; follows no redirect, so that the token goes nowhere else."""

    def __init__(self, url: str, token: str, *, timeout_s: float, ca_file: str | None) -> None:
        self.url = url
        self._token = token
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._sockets: list[socket] = []
        # A ca_file that cannot be used is told before hours of measuring; else TLS is loaded when it is needed.
        self._opener: urllib.request.OpenerDirector | None = self._make_opener() if ca_file else None

    def post_submission(
        self, submission_id: str, packed: bytes, *, limit_s: float = EXCHANGE_MAXIMUM_S
    ) -> Answer:
        """Post gzip of an envelope; the same bytes at every try."""
        headers = {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "Idempotency-Key": submission_id,
        }
        return self._exchange("POST", "/api/v1/submissions", content=packed, headers=headers, limit_s=limit_s)

    def put_schedule(self, entries: Sequence[Mapping[str, Any]]) -> Answer:
        """Tell which profiles this host runs by itself, and how often."""
        return self.request("PUT", "/api/v1/hosts/me/schedule", document={"entries": list(entries)})

    def request(
        self,
        method: str,
        path: str,
        *,
        document: Mapping[str, Any] | None = None,
        limit_s: float = EXCHANGE_MAXIMUM_S,
    ) -> Answer:
        """Send a small JSON document, or none."""
        content = None if document is None else json.dumps(document).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        limit_s = min(limit_s, EXCHANGE_MAXIMUM_S)
        return self._exchange(method, path, content=content, headers=headers, limit_s=limit_s)

    def _exchange(
        self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str], limit_s: float
    ) -> Answer:
        request = urllib.request.Request(
            self.url + path,
            data=content,
            method=method,
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/json",
                "User-Agent": f"bench-agent/{__version__}",
                **headers,
            },
        )
        watchdog = threading.Timer(limit_s, self._cut)
        watchdog.daemon = True
        watchdog.start()
        try:
            if self._opener is None:
                self._opener = self._make_opener()
            with self._opener.open(request, timeout=min(self._timeout_s, limit_s)) as response:
                return _read_answer(response)
        except (OSError, HTTPException, ValueError) as error:
            return _explain(error)
        finally:
            watchdog.cancel()
            self._sockets.clear()

    def _cut(self) -> None:
        """End an exchange that takes too long, from the watchdog's thread: whoever reads gets an end of file."""
        for opened in list(self._sockets):
            try:
                # SSLSocket's own shutdown would pull the TLS state from under the reading thread.
                socket.shutdown(opened, SHUT_RDWR)
            except OSError:
                continue

    def _make_opener(self) -> urllib.request.OpenerDirector:
        """Return an opener that knows proxies; without HTTPErrorProcessor every status is just an answer."""
        opener = urllib.request.OpenerDirector()
        opener.add_handler(urllib.request.ProxyHandler())
        if not self.url.startswith("https:"):
            opener.add_handler(_PlainHandler(self._sockets))
            return opener
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise ConfigurationError(f"ca_file {self._ca_file} cannot be used: {error}") from None
        opener.add_handler(_TlsHandler(self._sockets, context))
        return opener


def judge_answer(answer: Answer, *, submission_id: str | None) -> Fate:
    """Say what becomes of the result. It is delivered only if the answer names its id: a portal's 200 does not."""
    status = answer.status
    if status is None:
        return Fate.REFUSED if answer.is_permanent else Fate.LATER
    is_replay = answer.headers.get("idempotency-replayed", "").lower() == "true"
    if status == 202 or (status == 200 and is_replay):
        is_ours = answer.body is not None and answer.body.get("id") == submission_id is not None
        return Fate.DELIVERED if is_ours else Fate.LATER
    if status in (400, 409, 413, 415, 422):
        # Without a code it was not our server that spoke; 413 comes from proxies too, and is as final there.
        is_final = status == 413 or (answer.body is not None and "code" in answer.body)
        return Fate.REJECTED if is_final else Fate.LATER
    if status in (408, 429) or status >= 500 or status < 300 or status in (302, 303, 307):
        return Fate.LATER
    return Fate.REFUSED


def read_retry_after(answer: Answer) -> float | None:
    """Return the seconds that the server asks to wait, from 0 to one hour; None where it does not say."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_MAXIMUM_S)
    from email.utils import mktime_tz, parsedate_tz

    parsed = parsedate_tz(text) if text else None
    try:
        return min(max(mktime_tz(parsed) - time.time(), 0.0), RETRY_AFTER_MAXIMUM_S) if parsed else None
    except (ValueError, OverflowError):
        return None


def choose_delay(previous_s: float, retry_after_s: float | None) -> float:
    """Return how long to wait: what the server asks plus up to a tenth, else decorrelated jitter.

    Jitter keeps five hundred hosts from coming back in the same second (AWS, "Exponential backoff and jitter").
    """
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0, max(retry_after_s / 10, _DELAY_MINIMUM_S))
    return min(_DELAY_MAXIMUM_S, random.uniform(_DELAY_MINIMUM_S, max(previous_s * 3, 2 * _DELAY_MINIMUM_S)))


class _PlainConnection(HTTPConnection):
    sockets: list[socket]

    def connect(self) -> None:
        super().connect()
        self.sockets.append(self.sock)


class _TlsConnection(HTTPSConnection):
    sockets: list[socket]

    def connect(self) -> None:
        super().connect()
        self.sockets.append(self.sock)


class _PlainHandler(urllib.request.HTTPHandler):
    """Notes each socket for the watchdog."""

    def __init__(self, sockets: list[socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._make_connection, request)

    def _make_connection(self, host: str, **options: Any) -> HTTPConnection:
        connection = _PlainConnection(host, **options)
        connection.sockets = self._sockets
        return connection


class _TlsHandler(urllib.request.HTTPSHandler):
    """Notes each socket for the watchdog, and verifies certificates."""

    def __init__(self, sockets: list[socket], context: ssl.SSLContext) -> None:
        super().__init__()
        self._sockets = sockets
        self._verifying = context

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._make_connection, request)

    def _make_connection(self, host: str, **options: Any) -> HTTPConnection:
        connection = _TlsConnection(host, context=self._verifying, **options)
        connection.sockets = self._sockets
        return connection


def _read_answer(response: HTTPResponse) -> Answer:
    content = response.read(_ANSWER_MAXIMUM)
    headers = {name.lower(): value for name, value in response.headers.items()}
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    return Answer(response.status, headers, body if isinstance(body, dict) else None)


def _explain(error: Exception) -> Answer:
    """Return the answer that a failed exchange stands for, in words."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        problem = f"the server's certificate is not trusted ({reason.verify_message}): set ca_file if it is your own"
        return Answer(None, {}, None, problem, is_permanent=True)
    if isinstance(reason, (InvalidURL, UnicodeError)):
        return Answer(None, {}, None, f"the server's address does not work: {reason}", is_permanent=True)
    text = str(reason) or type(reason).__name__
    return Answer(None, {}, None, f"the server cannot be reached: {text}")
