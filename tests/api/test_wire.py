"""Bodies as they come over a real wire into the real web process: whole and stored, or refused and not stored."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from tests.envelopes import pack_envelope, read_fio
from tests.servers import Servers, wait_for

SUBMISSIONS = "/api/v1/submissions"
FIO = "/api/v1/fio"


@pytest.fixture(scope="module")
def stack() -> Iterator[Servers]:
    servers = Servers(environment={"BROKER_URL": ""})
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        servers.start_web()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def token(stack: Servers) -> str:
    return stack.issue_token("wire-1")


def connect(stack: Servers) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", stack.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(token: str, *lines: str, path: str = SUBMISSIONS) -> bytes:
    given = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Connection: close",
        *lines,
    ]
    return "\r\n".join([*given, "", ""]).encode()


def read_answer(connection: socket.socket) -> tuple[int, Any]:
    received = b""
    while part := connection.recv(65536):
        received += part
    lines, _, body = received.partition(b"\r\n\r\n")
    return int(lines.split()[1]), json.loads(body)


def send(stack: Servers, *parts: bytes) -> tuple[int, Any]:
    with closing(connect(stack)) as connection:
        for part in parts:
            connection.sendall(part)
        return read_answer(connection)


def chunk(body: bytes, size: int = 1000) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def is_known(stack: Servers, submission_id: str) -> bool:
    return bool(stack.query("SELECT 1 FROM benchapp_submission WHERE id = %s::uuid", submission_id))


def stored_bytes(stack: Servers, submission_id: str) -> bytes:
    ((packed,),) = stack.query("SELECT body FROM benchapp_submission WHERE id = %s::uuid", submission_id)
    return gzip.decompress(bytes(packed))


def test_chunked_body_is_stored_whole(stack: Servers, token: str) -> None:
    submission_id = str(uuid4())
    body = pack_envelope(id=submission_id)

    status, _ = send(stack, head(token, "Transfer-Encoding: chunked"), chunk(body))

    assert status == 202
    assert stored_bytes(stack, submission_id) == body


def test_dropped_upload_stores_nothing_and_its_honest_retry_is_new(stack: Servers, token: str) -> None:
    submission_id = str(uuid4())
    body = pack_envelope(id=submission_id)
    with closing(connect(stack)) as connection:
        connection.sendall(head(token, f"Content-Length: {len(body)}") + body[: len(body) // 2])
    with closing(connect(stack)) as connection:
        connection.sendall(head(token, "Transfer-Encoding: chunked") + chunk(body)[: len(body) // 2])

    status, _ = send(stack, head(token, f"Content-Length: {len(body)}"), body)

    assert status == 202
    assert stored_bytes(stack, submission_id) == body


def test_body_announced_too_big_is_refused_before_it_is_sent(stack: Servers, token: str) -> None:
    status, problem = send(stack, head(token, "Content-Length: 999999999"))

    assert (status, problem["code"]) == (413, "body-too-big")


def test_gzip_bomb_is_refused(stack: Servers, token: str) -> None:
    squeezer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([squeezer.compress(bytes(2**20)) for _ in range(200)]) + squeezer.flush()

    status, problem = send(stack, head(token, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}"), bomb)

    assert (status, problem["code"]) == (413, "body-too-big")


def test_slow_bodies_block_nobody(stack: Servers, token: str) -> None:
    body = pack_envelope()
    slow = [connect(stack) for _ in range(20)]
    try:
        for connection in slow:
            connection.sendall(head(token, f"Content-Length: {len(body)}") + body[:100])

        assert stack.post(SUBMISSIONS, body, token)[0] == 202
        assert stack.get("/healthz")[0] == 200
    finally:
        for connection in slow:
            connection.close()


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


WRONG: list[tuple[str, str, bytes]] = [
    (path, name, body)
    for path in (SUBMISSIONS, FIO)
    for name, body in (
        ("empty", b""),
        ("space", b" \n\t"),
        ("text", b"hello"),
        (
            "truncated",
            pack_envelope()[:-100] if path == SUBMISSIONS else read_fio("07_json.out").encode()[:200],
        ),
        ("json of something else", b'{"hello": ["world"]}'),
        ("a list", b"[1, 2]"),
        ("a number", b"7"),
        ("null", b"null"),
        ("nan", b'{"fio version": NaN}'),
        ("lone surrogate", b'{"schema": "\\ud800"}'),
        ("nul", b"\x00" * 100),
        ("nul in json", b'{"schema": "\\u0000"}'),
        ("huge integer", b'{"jobs": ' + b"9" * 5000 + b"}"),
        ("huge exponent", b'{"jobs": 1e999999}'),
        ("utf-16", '{"schema": "benchapp-envelope/1"}'.encode("utf-16")),
        ("broken utf-8", b'{"schema": "\xff\xfe"}'),
        ("depth bomb", deep(100_000)),
        ("list bomb", b"[" * 1_000_000),
    )
]


@pytest.mark.parametrize(
    ("path", "name", "body"), WRONG, ids=[f"{path[8:]}-{name}" for path, name, _ in WRONG]
)
def test_wrong_body_is_a_4xx_that_says_why(
    stack: Servers, token: str, path: str, name: str, body: bytes
) -> None:
    before = stack.query("SELECT count(*) FROM benchapp_submission")

    status, problem = send(stack, head(token, f"Content-Length: {len(body)}", path=path), body)

    assert 400 <= status < 500
    assert problem["status"] == status
    assert problem["code"]
    assert len(problem["detail"]) > 20
    assert stack.query("SELECT count(*) FROM benchapp_submission") == before


def test_two_thousand_clones_are_stored_as_one_run(stack: Servers, token: str) -> None:
    report = json.loads(read_fio("07_json.out"))
    entry = report["jobs"][0]
    entry = entry | {"job options": entry["job options"] | {"numjobs": "10000"}}
    body = gzip.compress(json.dumps(report | {"jobs": [entry] * 2_000}).encode())
    lines = ("Content-Encoding: gzip", f"Content-Length: {len(body)}")

    status, answer = send(stack, head(token, *lines, path=FIO), body)
    assert status == 202
    stack.manage("drain")

    def state() -> Any:
        return stack.get(f"{SUBMISSIONS}/{answer['id']}", token)[1]["state"]

    wait_for(lambda: state() == "stored", within_s=60, what="the run stored")


def test_get_where_results_are_posted_says_what_to_do(stack: Servers, token: str) -> None:
    status, problem = stack.get(FIO, token)

    assert (status, problem["code"]) == (405, "method-not-allowed")


def test_other_bodies_meet_the_same_guard(stack: Servers) -> None:
    with closing(connect(stack)) as connection:
        connection.sendall(b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\n")
        assert connection.recv(20).startswith(b"HTTP/1.1 413")


def test_body_behind_a_get_is_not_waited_for(stack: Servers) -> None:
    with closing(connect(stack)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\n")
        assert connection.recv(20).startswith(b"HTTP/1.1 200")


def test_packed_body_that_is_no_result_is_refused_unopened(stack: Servers) -> None:
    lines = (
        b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n"
    )
    with closing(connect(stack)) as connection:
        connection.sendall(lines + b"abc")
        assert connection.recv(20).startswith(b"HTTP/1.1 415")


def test_nul_in_a_path_is_a_404(stack: Servers, token: str) -> None:
    assert stack.get("/api/v1/hosts/a%00b", token)[0] in (403, 404)
