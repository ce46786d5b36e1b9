"""HTTP requests to the server, and what a response means for the submitted result."""

from __future__ import annotations

import json
import random
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from enum import Enum
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, socket
from typing import Any, Mapping

from agent import __version__
from agent.exit_codes import ConfigurationError, ExitCode

# A longer Retry-After is capped: cron starts the next run by then anyway.
RETRY_AFTER_MAXIMUM_S = 3600.0
_DELAY_MINIMUM_S = 0.5
_DELAY_MAXIMUM_S = 60.0
# What OpenSSL reports about an answer in plain text: "HTTP/1.1 400" instead of a TLS record.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
# Limit for a whole exchange: a server that sends single bytes never lets a read time out.
EXCHANGE_MAXIMUM_S = 60.0
# The longest response is the gate of a run: 1 KB for each series and metric.
_RESPONSE_MAXIMUM_BYTES = 8 * 1024 * 1024
# The version of the agent that the server ships; of each answer of its API.
_VERSION_HEADER = "bench-agent-version"
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}", re.ASCII)


class DeliveryOutcome(Enum):
    """What to do with an envelope after a response."""

    DELIVERED = "delivered"
    REJECTED = "rejected"
    REFUSED = "refused"  # credentials or address: other envelopes would fail too
    LATER = "later"


@dataclass(frozen=True)
class Response:
    """A response. status: None without one; problem: why there is none, or why its body was not read to the end.

    body: a JSON object, None for other content; content: the bytes.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    problem: str | None = None
    is_permanent: bool = False
    content: bytes = b""

    def describe(self) -> str:
        """Return one sentence for the operator."""
        if self.status is None:
            return self.problem or "no response"
        if 300 <= self.status < 400:
            location = self.headers.get("location", "unknown")[:200]
            return f"status {self.status}: redirects are not followed; configure the final URL ({location})"
        if self.problem:
            return f"status {self.status}, {self.problem}"
        body = self.body or {}
        detail = body.get("detail") or body.get("title")
        if detail:
            return f"status {self.status}, {' '.join(str(detail)[:500].split())}"
        if self.status < 300:
            return f"status {self.status} without an acknowledgment; is another service running at this URL?"
        return f"status {self.status}"


class Client:
    """Client for one server with one token; does not follow redirects, which could leak the token.

    token: "" for a service without one. shipped_version: of the agent that the server ships, as in its last answer.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float,
        ca_file: str | None = None,
        proxy: str | None = None,
        uses_proxy: bool = True,
    ) -> None:
        self.url = url
        self.shipped_version: str | None = None
        self._token = token
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._proxies = {"http": proxy, "https": proxy} if proxy else None
        self._uses_proxy = uses_proxy
        self._sockets: list[socket] = []
        # Report an unusable ca_file before hours of measuring; otherwise load TLS when it is needed.
        self._opener: urllib.request.OpenerDirector | None = self._make_opener() if ca_file else None

    def post_submission(
        self, submission_id: str, packed: bytes, *, limit_s: float = EXCHANGE_MAXIMUM_S
    ) -> Response:
        """Post a gzip-compressed envelope; every attempt sends the same bytes."""
        headers = {
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "Idempotency-Key": submission_id,
        }
        return self._exchange("POST", "/api/v1/submissions", content=packed, headers=headers, limit_s=limit_s)

    def post_output(self, query: str, packed: bytes, *, limit_s: float) -> Response:
        """Post gzip-compressed output of fio with its layout; the server derives the id from the content."""
        headers = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
        path = "/api/v1/fio" + (f"?{query}" if query else "")
        return self._exchange("POST", path, content=packed, headers=headers, limit_s=limit_s)

    def request(
        self,
        method: str,
        path: str,
        *,
        document: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        limit_s: float = EXCHANGE_MAXIMUM_S,
    ) -> Response:
        """Send a request with a small JSON document or no body."""
        content = None if document is None else json.dumps(document).encode()
        kind = {} if content is None else {"Content-Type": "application/json"}
        return self._exchange(
            method, path, content=content, headers={**kind, **(headers or {})}, limit_s=limit_s
        )

    def describe_newer(self) -> str | None:
        """Return which newer version the server ships, and where the command is; None without a newer one."""
        if self.shipped_version is None or not is_newer(self.shipped_version, __version__):
            return None
        return (
            f"bench-agent {__version__} is installed, the server ships {self.shipped_version}; "
            f"the page of this host at {self.url}/hosts/ has the command that updates it"
        )

    def _exchange(
        self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str], limit_s: float
    ) -> Response:
        """Return the response of one request, after limit_s at the latest.

        In a thread: no limit of a socket holds for the look-up of a name, nor for all addresses of a name together.
        """
        limit_s = min(limit_s, EXCHANGE_MAXIMUM_S)
        if limit_s <= 0:
            return Response(problem="no time is left for a request")
        if self._opener is None:
            self._opener = self._make_opener()
        request = urllib.request.Request(  # noqa: S310
            self.url + path,
            data=content,
            method=method,
            headers={
                **({"Authorization": f"Bearer {self._token}"} if self._token else {}),
                "Accept": "application/json",
                "User-Agent": f"bench-agent/{__version__}",
                # The server compares it with its own clock.
                "Date": formatdate(usegmt=True),
                **headers,
            },
        )
        self._sockets.clear()
        host = request.host
        ended: SimpleQueue[Response | Exception] = SimpleQueue()
        timeout_s = min(self._timeout_s, limit_s)
        threading.Thread(target=_open, args=(self._opener, request, timeout_s, ended), daemon=True).start()
        try:
            response = ended.get(timeout=limit_s)
        except Empty:
            self._cut()
            response = Response(problem=f"cannot reach the server: no answer within {limit_s:.3g} s")
        if isinstance(response, Exception):
            raise response
        if response.status is None and request.host != host:
            response = replace(response, problem=f"{response.problem} (through the proxy {request.host})")
        self.shipped_version = response.headers.get(_VERSION_HEADER, self.shipped_version)
        return response

    def _cut(self) -> None:
        """End an exchange that takes too long; its thread gets an end of file."""
        for opened in list(self._sockets):
            try:
                # SSLSocket.shutdown would remove the TLS state while the other thread reads.
                socket.shutdown(opened, SHUT_RDWR)
            except OSError:
                continue

    def _make_opener(self) -> urllib.request.OpenerDirector:
        """Return an opener with proxy support; without HTTPErrorProcessor, error statuses raise nothing."""
        opener = urllib.request.OpenerDirector()
        if self._uses_proxy:
            opener.add_handler(urllib.request.ProxyHandler(self._proxies))
        context = None
        if self.url.startswith("https:"):
            try:
                context = ssl.create_default_context(cafile=self._ca_file)
            except OSError as error:
                raise ConfigurationError(f"cannot use ca_file {self._ca_file}: {error}") from None
        opener.add_handler(_RecordingHandler(self._sockets, context))
        return opener


def classify_response(response: Response, *, submission_id: str | None) -> DeliveryOutcome:
    """Classify a response. DELIVERED requires the id in the response: a captive portal's 200 lacks it."""
    status = response.status
    if status is None:
        return DeliveryOutcome.REFUSED if response.is_permanent else DeliveryOutcome.LATER
    is_replay = response.headers.get("idempotency-replayed", "").lower() == "true"
    if status == 202 or (status == 200 and is_replay):
        is_ours = response.body is not None and response.body.get("id") == submission_id is not None
        return DeliveryOutcome.DELIVERED if is_ours else DeliveryOutcome.LATER
    if status in (400, 409, 413, 415, 422):
        # Without a code the response is not from benchapp; 413 comes from proxies too, and is final there as well.
        is_final = status == 413 or (response.body is not None and "code" in response.body)
        return DeliveryOutcome.REJECTED if is_final else DeliveryOutcome.LATER
    if status in (408, 429) or status >= 500 or status < 300 or status in (302, 303, 307):
        return DeliveryOutcome.LATER
    return DeliveryOutcome.REFUSED


def find_exit_code(response: Response) -> ExitCode:
    """Return the code of a command whose request was not answered as expected."""
    is_refused = classify_response(response, submission_id=None) == DeliveryOutcome.REFUSED
    return ExitCode.CONFIGURATION if is_refused else ExitCode.TRY_LATER


def is_newer(version: str, installed: str) -> bool:
    """Return whether a version of numbers and dots is newer; False for anything else."""
    if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(installed)):
        return False
    return [int(part) for part in version.split(".")] > [int(part) for part in installed.split(".")]


def read_retry_after(response: Response) -> float | None:
    """Return Retry-After in seconds, from 0 to one hour; None without it."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_MAXIMUM_S)
    from email.utils import mktime_tz, parsedate_tz

    parsed = parsedate_tz(text) if text else None
    try:
        return min(max(mktime_tz(parsed) - time.time(), 0.0), RETRY_AFTER_MAXIMUM_S) if parsed else None
    except (ValueError, OverflowError):
        return None


def choose_delay(previous_s: float, retry_after_s: float | None) -> float:
    """Return how long to wait: Retry-After plus up to 10 %, else decorrelated jitter.

    Jitter keeps many hosts from retrying in the same second (AWS, "Exponential backoff and jitter").
    """
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0, max(retry_after_s / 10, _DELAY_MINIMUM_S))
    return min(_DELAY_MAXIMUM_S, random.uniform(_DELAY_MINIMUM_S, max(previous_s * 3, 2 * _DELAY_MINIMUM_S)))


class _RecordingHandler(urllib.request.AbstractHTTPHandler):
    """Records each socket, so that the exchange can be cut, and verifies certificates; context: of TLS."""

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def __init__(self, sockets: list[socket], context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._sockets = sockets
        self._verifying = context

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(self._make_connection, HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(self._make_connection, HTTPSConnection, context=self._verifying), request)

    def _make_connection(self, kind: type[HTTPConnection], host: str, **options: Any) -> HTTPConnection:
        connection = kind(host, **options)
        connect = connection.connect

        def connect_and_record() -> None:
            connect()
            self._sockets.append(connection.sock)

        connection.connect = connect_and_record  # type: ignore[method-assign]
        return connection


def _open(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    timeout_s: float,
    ended: SimpleQueue[Response | Exception],
) -> None:
    """Send a request, and put the response into a queue, or what no response explains."""
    try:
        with opener.open(request, timeout=timeout_s) as opened:
            ended.put(_read_response(opened))
    except (OSError, HTTPException, ValueError) as error:
        ended.put(_describe_error(error))
    except Exception as error:
        ended.put(error)


def _read_response(response: HTTPResponse) -> Response:
    content = response.read(_RESPONSE_MAXIMUM_BYTES + 1)
    headers = {name.lower(): value for name, value in response.headers.items()}
    if len(content) > _RESPONSE_MAXIMUM_BYTES:
        problem = f"the response is longer than {_RESPONSE_MAXIMUM_BYTES // 2**20} MiB"
        return Response(response.status, headers, problem=problem, is_permanent=True)
    # http.client reports an early end only of responses that are read without a maximum.
    if response.length:
        problem = f"the response ended {response.length} bytes too early"
        return Response(response.status, headers, problem=problem)
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    return Response(response.status, headers, body if isinstance(body, dict) else None, content=content)


def _describe_error(error: Exception) -> Response:
    """Return a response that describes a failed exchange."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        problem = (
            f"the server certificate is not trusted ({reason.verify_message}); for a private CA, set ca_file"
        )
        return Response(problem=problem, is_permanent=True)
    if isinstance(reason, ssl.SSLError) and reason.reason in _NOT_TLS:
        problem = (
            f"the server does not speak TLS at this port ({reason.reason}): configure the https port, or an http:// "
            "URL if the server has no certificate"
        )
        return Response(problem=problem, is_permanent=True)
    if isinstance(reason, (InvalidURL, UnicodeError)):
        return Response(problem=f"the server URL is not usable: {reason}", is_permanent=True)
    return Response(problem=f"cannot reach the server: {str(reason) or type(reason).__name__}")
