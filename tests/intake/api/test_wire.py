"""Bodies as they come over a real wire into the real web process: whole and stored, or refused and not stored."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from benchapp.storage.agent_archive import read_agent_version
from tests.clusters import make_place
from tests.envelopes import pack_envelope, read_fio
from tests.servers import Servers, wait_for

SUBMISSIONS = "/api/v1/submissions"
FIO = "/api/v1/fio"


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster, environment={"BROKER_URL": ""})
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


@dataclass(frozen=True)
class Senders:
    """Tokens of two hosts, and headers of people who are signed in."""

    token: str
    other_token: str
    viewer: str
    editor: str


# In one process, as each takes a second of CPU time to start.
MAKE_SENDERS = """
from django.contrib.sessions.backends.db import SessionStore
from benchapp.models import User
from benchapp.storage.write.hosts import issue_host_token

for name in ("wire-1", "wire-2"):
    print(issue_host_token(name))
for role in ("viewer", "editor"):
    person, session = User.objects.create(username=role, role=role), SessionStore()
    session["_auth_user_id"] = str(person.pk)
    session["_auth_user_hash"] = person.get_session_auth_hash()
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session.save()
    print(session.session_key)
"""


@pytest.fixture(scope="module")
def senders(stack: Servers) -> Senders:
    *_, token, other, viewer, editor = stack.manage("shell", "--no-imports", "-c", MAKE_SENDERS).split()
    cookies = (f"Cookie: sessionid={key}; csrftoken={'c' * 32}" for key in (viewer, editor))
    return Senders(token, other, *cookies)


@pytest.fixture(scope="module")
def token(senders: Senders) -> str:
    return senders.token


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


def test_answer_to_results_has_the_request_id_of_the_sender_and_the_version_of_the_agent(
    stack: Servers, token: str
) -> None:
    body = pack_envelope()
    with closing(connect(stack)) as connection:
        connection.sendall(
            head(token, "X-Request-ID: nightly-2026-11-23", f"Content-Length: {len(body)}") + body
        )
        received = b""
        while part := connection.recv(65536):
            received += part

    assert received.lower().count(b"x-request-id: nightly-2026-11-23") == 1
    assert received.lower().count(b"bench-agent-version: %s\r\n" % read_agent_version().encode()) == 1


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


def test_batch_is_stored_before_it_is_answered_and_validation_stores_nothing(
    stack: Servers, token: str
) -> None:
    ids = [str(uuid4()) for _ in range(3)]
    lines = [pack_envelope(id=each) for each in ids]
    body = gzip.compress(b"\n".join([*lines, b"{"]))

    status, answer = send(
        stack,
        head(token, f"Content-Length: {len(body)}", "Content-Encoding: gzip", path=f"{SUBMISSIONS}/batch"),
        body,
    )
    unknown = pack_envelope()
    validated, outcome = send(
        stack, head(token, f"Content-Length: {len(unknown)}", path=f"{SUBMISSIONS}?validate=1"), unknown
    )

    assert (status, answer["received"], answer["refused"]) == (207, 3, 1)
    assert [stored_bytes(stack, each) for each in ids] == lines
    assert (validated, outcome["state"], outcome["is_known"]) == (200, "stored", False)
    assert not is_known(stack, json.loads(unknown)["id"])


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


@pytest.mark.parametrize("value", [b"%FF", b"%C3", b"a%80b", b"%ED%A0%80"])
def test_label_that_is_not_utf_8_is_a_400_that_names_it(stack: Servers, token: str, value: bytes) -> None:
    body = read_fio("07_json.out").encode()
    before = stack.query("SELECT count(*) FROM benchapp_submission")
    request = head(token, f"Content-Length: {len(body)}", path=f"{FIO}?volume_count=4&label.x=VALUE")

    status, problem = send(stack, request.replace(b"VALUE", value), body)

    assert (status, problem["code"], problem["pointer"]) == (400, "parameter-invalid", "label.x")
    assert stack.query("SELECT count(*) FROM benchapp_submission") == before


@pytest.mark.parametrize("value", ["%C3%BC", "ü"])
def test_label_of_utf_8_is_kept_percent_encoded_or_not(stack: Servers, token: str, value: str) -> None:
    body = read_fio("07_json.out").encode()
    request = head(token, f"Content-Length: {len(body)}", path=f"{FIO}?label.x={value}")

    status, answer = send(stack, request, body)

    assert status in (200, 202)
    ((parameters,),) = stack.query(
        "SELECT parameters FROM benchapp_submission WHERE id = %s::uuid", answer["id"]
    )
    assert parameters["labels"] == {"x": "ü"}


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
        answer = connection.recv(65536).lower()
    assert answer.startswith(b"http/1.1 413")
    for line in (
        b"content-type: application/problem+json",
        b"cache-control: no-store",
        b"x-content-type-options: nosniff",
        b"content-security-policy: default-src 'none'; frame-ancestors 'none'",
    ):
        assert line + b"\r\n" in answer


def read_status(connection: socket.socket) -> int:
    received = b""
    while b"\r\n" not in received:
        part = connection.recv(65536)
        assert part, "closed without an answer"
        received += part
    return int(received.split()[1])


def start_post(
    stack: Servers, path: str, *lines: str, size_bytes: int = 8 * 2**20, body: bytes = b""
) -> socket.socket:
    """Announce a body and send what is given of it."""
    connection = connect(stack)
    given = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size_bytes}", *lines, "", ""]
    connection.sendall("\r\n".join(given).encode() + body)
    return connection


def unknown_token() -> str:
    public_id, secret = "0" * 12, "0" * 43
    return f"bench_{public_id}_{secret}{zlib.crc32(f'{public_id}_{secret}'.encode()):08x}"


@pytest.mark.parametrize("path", [SUBMISSIONS, FIO])
@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer nonsense", f"Bearer {unknown_token()}"],
    ids=["none", "malformed", "unknown"],
)
def test_sender_without_a_valid_token_is_answered_before_its_body(
    stack: Servers, path: str, authorization: str | None
) -> None:
    lines = [f"Authorization: {authorization}"] if authorization else []

    with closing(start_post(stack, path, *lines)) as connection:
        assert read_status(connection) == 401


def test_token_that_is_revoked_between_two_posts_stores_nothing_more(
    stack: Servers, senders: Senders
) -> None:
    token, body = senders.other_token, pack_envelope()
    first, _ = stack.post(SUBMISSIONS, body, token)
    # By another process than the one that answers.
    revoke = "UPDATE benchapp_apitoken SET revoked_at = now() WHERE public_id = %s RETURNING host_id"
    assert len(stack.query(revoke, token[6:18])) == 1
    before = stack.query("SELECT count(*) FROM benchapp_submission")

    second, problem = stack.post(SUBMISSIONS, pack_envelope(), token)

    assert (first, second, problem["code"]) == (202, 401, "token-revoked")
    assert stack.query("SELECT count(*) FROM benchapp_submission") == before


def test_answer_to_a_refused_body_reaches_a_sender_that_sends_it_all_the_same(stack: Servers) -> None:
    with closing(start_post(stack, SUBMISSIONS, body=bytes(4 * 2**20))) as connection:
        assert read_status(connection) == 401
        connection.sendall(bytes(4 * 2**20))


@pytest.mark.parametrize("path", ["/sign-in/", "/nowhere/", "/api/v1/enroll", "/hosts/add"])
def test_body_that_is_no_result_may_have_64_kib(stack: Servers, path: str) -> None:
    with closing(start_post(stack, path, size_bytes=64 * 2**10 + 1)) as connection:
        assert read_status(connection) == 413
    with closing(start_post(stack, path, size_bytes=64 * 2**10, body=bytes(64 * 2**10))) as connection:
        assert read_status(connection) in (400, 401, 403, 404)
    with closing(connect(stack)) as connection:
        request = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(request.encode() + chunk(bytes(64 * 2**10 + 1)))
        assert read_status(connection) == 413


@pytest.mark.parametrize("path", ["/uploads/add", "/studies/add", "/studies/1/edit"])
def test_large_upload_of_who_is_not_signed_in_leads_to_the_sign_in_page_unread(
    stack: Servers, path: str
) -> None:
    for line in ("Cookie: sessionid=nonsense", "X-Nothing: 1"):
        with closing(start_post(stack, path, line)) as connection:
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 303")
            assert b"location: /sign-in/\r\n" in answer


def test_large_upload_of_a_viewer_is_refused_unread(stack: Servers, senders: Senders) -> None:
    with closing(start_post(stack, "/uploads/add", senders.viewer)) as connection:
        assert read_status(connection) == 403


@pytest.mark.parametrize("path", ["/api/v1/studies", "/api/v1/studies/1"])
def test_large_study_needs_a_token_before_it_is_read(stack: Servers, token: str, path: str) -> None:
    with closing(start_post(stack, path)) as connection:
        assert read_status(connection) == 401
    with closing(start_post(stack, path, f"Authorization: Bearer {token}")) as connection:
        assert read_status(connection) == 403


def test_large_upload_of_an_editor_is_read_and_stored(stack: Servers, senders: Senders) -> None:
    output = read_fio("07_json.out").encode() + b" " * 200_000
    boundary = "b" * 20
    fields = {"csrfmiddlewaretoken": "c" * 32, "host": "wire-1", "layout": ""}
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    )
    body += (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n'
        "Content-Type: application/json\r\n\r\n"
    ).encode()
    body += output + f"\r\n--{boundary}--\r\n".encode()
    lines = [
        senders.editor,
        "Accept: application/json",
        f"Content-Type: multipart/form-data; boundary={boundary}",
        "Connection: close",
    ]

    with closing(start_post(stack, "/uploads/add", *lines, size_bytes=len(body), body=body)) as connection:
        status, answer = read_answer(connection)

    assert status == 200
    assert [file["status"] for file in answer["files"]] == [202]
    assert stored_bytes(stack, answer["files"][0]["id"])


def malformed(body: bytes, *lines: str) -> tuple[tuple[str, ...], bytes]:
    return (lines or ("Transfer-Encoding: chunked",)), body


# What hyper, the parser of the web server, passes on: our code answers.
MALFORMED = {
    "size is not hexadecimal": malformed(b"zz\r\nabc\r\n0\r\n\r\n"),
    "size has a prefix": malformed(b"0x3\r\nabc\r\n0\r\n\r\n"),
    "size is negative": malformed(b"-3\r\nabc\r\n0\r\n\r\n"),
    "size is missing": malformed(b"\r\nabc\r\n0\r\n\r\n"),
    "size overflows": malformed(b"f" * 19 + b"\r\nabc\r\n0\r\n\r\n"),
    "lines end with LF": malformed(b"3\nabc\n0\n\n"),
    "no CRLF behind the chunk": malformed(b"3\r\nabcX\r\n0\r\n\r\n"),
    "extensions of 20 kB": malformed(b"3;" + b"a" * 20_000 + b"\r\nabc\r\n0\r\n\r\n"),
    "newline in an extension": malformed(b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "trailer is not a field": malformed(b"3\r\nabc\r\n0\r\ngarbage\r\n\r\n"),
    "two thousand trailers": malformed(b"3\r\nabc\r\n0\r\n" + b"a: b\r\n" * 2_000 + b"\r\n"),
    "trailer of 100 kB": malformed(b"3\r\nabc\r\n0\r\na: " + b"b" * 100_000 + b"\r\n\r\n"),
    "ends in a chunk": malformed(b"5\r\nab"),
    "ends in a size": malformed(b"5"),
    "ends before the first chunk": malformed(b""),
    "ends before the last chunk": malformed(b"3\r\nabc\r\n"),
    "ends before Content-Length": malformed(b"abc", "Content-Length: 10"),
    "two codings": malformed(b"3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: gzip, chunked"),
}
# What hyper rejects: 400 with an empty body, before any code of ours.
REFUSED_BY_THE_PARSER = {
    "unknown coding": malformed(b"3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: xchunked"),
    "chunked is not the last coding": malformed(b"3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked, gzip"),
    "two values of Content-Length": malformed(b"abc", "Content-Length: 3", "Content-Length: 4"),
    "negative Content-Length": malformed(b"abc", "Content-Length: -3"),
}


def send_malformed(stack: Servers, request: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """Send a request, and that it ends here; return the status and the body of the answer.

    The parser drops a whole request whose sender ends the connection.
    """
    received = b""
    with closing(connect(stack)) as connection:
        connection.sendall(request)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            received += part
    lines, _, body = received.partition(b"\r\n\r\n")
    return int(lines.split()[1]), body


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("path", [SUBMISSIONS, FIO, "/sign-in/"])
def test_malformed_body_is_a_400_that_says_why(stack: Servers, token: str, path: str, name: str) -> None:
    lines, body = MALFORMED[name]
    before = stack.query("SELECT count(*) FROM benchapp_submission")

    status, answer = send_malformed(
        stack, head(token, *lines, path=path) + body, ends=name.startswith("ends")
    )

    problem = json.loads(answer)
    assert (status, problem["status"]) == (400, 400)
    assert problem["code"] in ("body-broken", "body-length", "encoding-unsupported")
    assert len(problem["detail"]) > 20
    assert stack.query("SELECT count(*) FROM benchapp_submission") == before


@pytest.mark.parametrize("length", [3, 10**6])
def test_content_length_beside_chunks_is_ignored_and_the_connection_closed(
    stack: Servers, token: str, length: int
) -> None:
    """The parser takes Content-Length away before our code sees the request (RFC 9112, 6.3)."""
    body = pack_envelope()
    lines = (f"Content-Length: {length}", "Transfer-Encoding: chunked")
    request = head(token, *lines).replace(b"Connection: close\r\n", b"") + chunk(body)
    hidden = head(token, "Content-Length: 0", path="/hidden")

    status, answer = send_malformed(stack, request + hidden)

    assert status == 202
    assert stored_bytes(stack, json.loads(answer)["id"]) == body


@pytest.mark.parametrize("name", REFUSED_BY_THE_PARSER)
def test_head_that_contradicts_itself_is_refused_by_the_parser(stack: Servers, token: str, name: str) -> None:
    lines, body = REFUSED_BY_THE_PARSER[name]
    before = stack.query("SELECT count(*) FROM benchapp_submission")

    status, answer = send_malformed(stack, head(token, *lines) + body)

    assert (status, answer) == (400, b"")
    assert stack.query("SELECT count(*) FROM benchapp_submission") == before


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
