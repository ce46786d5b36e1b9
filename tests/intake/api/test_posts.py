"""POST /api/v1/submissions and /api/v1/fio: accepted means stored once; refused means said why."""

import gzip
import json
import tarfile
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.conf import LazySettings
from django.utils import timezone
from msgspec import to_builtins

from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.api.problems import Problem
from benchapp.intake.api import posts
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import BATCH, FIO, SUBMISSIONS, Post
from benchapp.intake.api.posts import Answer, Limits, answer_post
from benchapp.intake.api.submissions import describe_validation
from benchapp.intake.posts.submissions import unpack
from benchapp.models import ApiToken, Attempt, Host, Scope, State, Submission
from tests.envelopes import make_envelope, pack_envelope, read_fio

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> str:
    host = Host.objects.create(name="db-1")
    return issue_token(scope=Scope.INGEST, host=host)[1]


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())


def post(
    body: bytes,
    token: str | None,
    path: str = "/api/v1/submissions",
    *,
    query: dict[str, Any] | str = "",
    headers: dict[str, str] | None = None,
    is_packed: bool = False,
) -> Answer:
    """Post as the ASGI application does once the guard has read the body."""
    sent = {"authorization": f"Bearer {token}"} if token else {}
    wire = Wire(gzip.compress(body, mtime=0), True) if is_packed else Wire(body, False)
    text = query if isinstance(query, str) else urlencode(query)
    return answer_post(Post(path, text, sent | (headers or {}), wire), validate=describe_validation)


def refused(*arguments: Any, **named: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        post(*arguments, **named)
    return caught.value


def test_envelope_is_stored_byte_for_byte_and_answered_with_202(token: str) -> None:
    body = pack_envelope()

    answer = post(body, token)

    row = Submission.objects.get()
    assert answer.status == 202
    assert answer.headers["Location"] == f"/api/v1/submissions/{row.id}"
    assert to_builtins(answer.body) == {
        "id": str(row.id),
        "state": "received",
        "url": f"/api/v1/submissions/{row.id}",
        "page": f"/uploads/{row.id}/",
    }
    assert unpack(bytes(row.body)) == body
    assert row.body_bytes == len(body)
    assert row.host.name == "db-1"
    assert row.state == State.RECEIVED


def test_gzip_is_kept_as_it_came(token: str) -> None:
    body = pack_envelope()

    post(body, token, is_packed=True)

    assert bytes(Submission.objects.get().body) == gzip.compress(body, mtime=0)


def test_same_body_sent_twice_is_stored_once_packed_or_not(token: str) -> None:
    body = pack_envelope()

    first, second = post(body, token), post(body, token, is_packed=True)

    assert (first.status, second.status) == (202, 200)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.body == first.body
    assert Submission.objects.count() == 1


def test_replay_tells_the_state_of_now(token: str) -> None:
    body = pack_envelope()
    post(body, token)
    Submission.objects.update(state=State.STORED)

    assert post(body, token).body.state == "stored"


def test_same_id_with_another_body_conflicts_and_the_first_stays(token: str) -> None:
    body = pack_envelope(id=str(uuid4()))
    other = json.dumps(json.loads(body) | {"profile": "other"}).encode()
    post(body, token)

    problem = refused(other, token)

    assert (problem.status, problem.code) == (409, "id-taken")
    assert unpack(bytes(Submission.objects.get().body)) == body


def test_id_of_another_host_conflicts_even_with_the_same_body(token: str) -> None:
    body = pack_envelope()
    post(body, token)
    _, other_token = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-2"))

    problem = refused(body, other_token)

    assert (problem.status, problem.code) == (409, "id-taken")
    assert Submission.objects.get().host.name == "db-1"


def test_host_comes_from_the_token_and_never_from_the_body(token: str) -> None:
    Host.objects.create(name="db-2")

    post(pack_envelope(host="db-2", labels={"host": "db-2"}), token)

    assert Submission.objects.get().host.name == "db-1"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({}, "token-missing"),
        ({"authorization": "Basic YTpi"}, "token-missing"),
        ({"authorization": "Bearer"}, "token-missing"),
        ({"authorization": "Bearer nonsense"}, "token-malformed"),
    ],
)
def test_wrong_credential_is_401_with_a_challenge(header: dict[str, str], code: str) -> None:
    problem = refused(pack_envelope(), None, headers=header)

    assert (problem.status, problem.code) == (401, code)
    assert problem.headers["WWW-Authenticate"] == "Bearer"


def test_revoked_token_is_401_and_says_so(token: str) -> None:
    ApiToken.objects.update(revoked_at=timezone.now())

    problem = refused(pack_envelope(), token)

    assert (problem.status, problem.code) == (401, "token-revoked")
    assert "revoked" in problem.detail


@pytest.mark.parametrize("scope", [Scope.READ, Scope.ADMIN, Scope.ENROLL])
def test_token_of_another_scope_is_403(scope: Scope) -> None:
    _, token = issue_token(scope=scope)

    problem = refused(pack_envelope(), token)

    assert (problem.status, problem.code) == (403, "scope-insufficient")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "body-empty"),
        (b"  \n", 400, "body-empty"),
        (b"not json", 400, "envelope-not-json"),
        (pack_envelope(fio_output="{}")[:-20], 400, "envelope-not-json"),
        (b'{"schema": "benchapp-envelope/1", "x": NaN}', 400, "envelope-not-json"),
        (b"[" * 200_000, 400, "envelope-not-json"),
        (b'{"hello": "world"}', 422, "envelope-schema"),
        (b"[1, 2, 3]", 422, "envelope-invalid"),
        (pack_envelope(fio_output="{}", target={"volume_count": 10**40}), 422, "envelope-invalid"),
        (pack_envelope(fio_output="{}", target={"filesystem": "a\x00"}), 422, "envelope-invalid"),
    ],
)
def test_wrong_envelope_is_a_4xx_that_names_it_and_stores_nothing(
    token: str, body: bytes, status: int, code: str
) -> None:
    problem = refused(body, token)

    assert (problem.status, problem.code) == (status, code)
    assert len(problem.detail) > 20
    assert Submission.objects.count() == 0


def test_envelope_with_unreadable_output_is_kept_for_the_worker_to_judge(token: str) -> None:
    assert post(pack_envelope(fio_output="fio: no such engine"), token).status == 202


def test_idempotency_key_must_be_the_envelopes_id(token: str) -> None:
    body = pack_envelope()
    envelope_id = json.loads(body)["id"]

    assert refused(body, token, headers={"idempotency-key": str(uuid4())}).code == "idempotency-key-differs"
    assert refused(body, token, headers={"idempotency-key": "seven"}).code == "idempotency-key-invalid"
    assert post(body, token, headers={"idempotency-key": f'"{envelope_id}"'}).status == 202


def test_output_of_fio_is_taken_bare_with_its_layout_in_the_query(token: str) -> None:
    output = read_fio("07_json.out").encode()

    answer = post(
        output,
        token,
        "/api/v1/fio",
        query={"volume_type": "gp3", "volume_count": "4", "profile": "nightly", "label.rack": "r1"},
    )

    row = Submission.objects.get()
    assert answer.status == 202
    assert unpack(bytes(row.body)) == output
    assert row.parameters["target"]["volume_count"] == 4
    assert row.parameters["labels"] == {"rack": "r1"}
    assert row.parameters["profile"] == "nightly"


def test_same_output_from_one_host_is_one_submission_and_from_two_hosts_two(token: str) -> None:
    output = read_fio("07_json.out").encode()
    _, other_token = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-2"))

    statuses = [post(output, each, "/api/v1/fio").status for each in (token, token, other_token)]

    assert statuses == [202, 200, 202]
    assert Submission.objects.count() == 2


def test_same_output_with_other_parameters_is_another_submission(token: str) -> None:
    output = read_fio("07_json.out").encode()

    post(output, token, "/api/v1/fio", query={"volume_count": "4"})
    answer = post(output, token, "/api/v1/fio", query={"volume_count": "8"})

    assert answer.status == 202


def test_id_for_bare_output_comes_from_the_header_where_one_is_sent(token: str) -> None:
    key = uuid4()

    answer = post(
        read_fio("07_json.out").encode(), token, "/api/v1/fio", headers={"idempotency-key": str(key)}
    )

    assert answer.body.id == key


@pytest.mark.parametrize(
    ("query", "code", "pointer"),
    [
        ({"volume_cuont": "4"}, "parameter-unknown", "volume_cuont"),
        ("volume_count=4&volume_count=8", "parameter-repeated", "volume_count"),
        ({"volume_count": "four"}, "parameter-invalid", "/volume_count"),
        ({"volume_size_bytes": "big"}, "parameter-invalid", "/volume_size_bytes"),
        ({"profile": "a b"}, "parameter-invalid", "profile"),
        ({"started_at": "noon"}, "parameter-invalid", "started_at"),
        ({"label.x": "y" * 501}, "parameter-invalid", "/x"),
    ],
)
def test_wrong_query_parameter_is_a_400_that_names_it(
    token: str, query: dict[str, str] | str, code: str, pointer: str
) -> None:
    problem = refused(read_fio("07_json.out").encode(), token, "/api/v1/fio", query=query)

    assert (problem.status, problem.code, problem.pointer) == (400, code, pointer)
    assert Submission.objects.count() == 0


@pytest.mark.parametrize("query", ["volume_type=gp3", "x"])
def test_envelope_with_a_query_parameter_is_a_400_and_not_stored(token: str, query: str) -> None:
    problem = refused(pack_envelope(), token, query=query)

    assert (problem.status, problem.code, problem.pointer) == (400, "parameter-unknown", query.split("=")[0])
    assert Submission.objects.count() == 0


def write_form(output: bytes, name: str = "output") -> bytes:
    """Return what `curl --form` sends."""
    head = f'--x8Yd\r\nContent-Disposition: form-data; name="{name}"; filename="a.json"\r\n\r\n'
    return head.encode() + output + b"\r\n--x8Yd--\r\n"


FIO_OUTPUT = read_fio("07_json.out").encode()


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "hint"),
    [
        (FIO, pack_envelope(), 422, "document", "post it to /api/v1/submissions"),
        (FIO, pack_envelope(fio_output="x" * 300_000), 422, "document", "post it to /api/v1/submissions"),
        (
            FIO,
            b"\n".join([pack_envelope(), pack_envelope()]),
            422,
            "document",
            "post it to /api/v1/submissions",
        ),
        (FIO, pack_envelope()[:-30], 422, "document", "post it to /api/v1/submissions"),
        (FIO, write_form(FIO_OUTPUT), 415, "body-wrapped", "curl --data-binary @FILE), and the layout"),
        (FIO, b"output=%7B%22jobs%22%3A1&volume_type=gp3", 415, "body-wrapped", "the body is a form"),
        (FIO, b"PK\x03\x04", 415, "body-wrapped", "the body is an archive: post each file alone"),
        (FIO, tarfile.TarInfo("a").tobuf() + FIO_OUTPUT, 415, "body-wrapped", "the body is an archive"),
        (FIO, gzip.compress(FIO_OUTPUT), 415, "body-wrapped", "send the header Content-Encoding: gzip"),
        (FIO, b"BZh91AY&SY", 415, "body-wrapped", "the body is bzip2: send it plain or as gzip"),
        (SUBMISSIONS, FIO_OUTPUT, 422, "envelope-schema", "post it to /api/v1/fio, the layout as query"),
        (SUBMISSIONS, read_fio("01_normal.out").encode(), 400, "envelope-not-json", "post it to /api/v1/fio"),
        (SUBMISSIONS, b"[%b]" % pack_envelope(), 422, "envelope-invalid", "/api/v1/submissions/batch"),
        (
            SUBMISSIONS,
            b"\n".join([pack_envelope(), pack_envelope()]),
            400,
            "envelope-not-json",
            "one per line, to /api/v1/submissions/batch",
        ),
        (
            SUBMISSIONS,
            write_form(pack_envelope()),
            415,
            "body-wrapped",
            "(curl --data-binary @FILE); nothing",
        ),
        (SUBMISSIONS, gzip.compress(pack_envelope()), 415, "body-wrapped", "Content-Encoding: gzip"),
    ],
)
def test_body_for_another_address_is_refused_with_what_to_post_where(
    token: str, path: str, body: bytes, status: int, code: str, hint: str
) -> None:
    problem = refused(body, token, path)

    assert (problem.status, problem.code) == (status, code)
    assert hint in problem.detail
    assert Submission.objects.count() == 0


@pytest.mark.parametrize("body", [pack_envelope()[:-30], pack_envelope(target={"colour": "red"})])
def test_wrong_document_is_sent_to_no_other_address(token: str, body: bytes) -> None:
    assert "/api/v1/" not in refused(body, token).detail
    assert "/api/v1/" not in post(body + b"\n" + body, token, BATCH).body.detail


@pytest.mark.parametrize(
    "body", [b"hello", b"\x00\x01\x02", b"{}", b'{"jobs": 7}', b"[" * 100_000, b"\xff" * 50]
)
def test_bare_body_that_fio_never_printed_is_a_422_with_the_reason(token: str, body: bytes) -> None:
    problem = refused(body, token, "/api/v1/fio")

    assert problem.status == 422
    assert len(problem.detail) > 20
    assert Submission.objects.count() == 0


def test_fault_of_the_reader_loses_nothing(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: bytes) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("benchapp.intake.posts.format_check.read_output", fail)

    assert post(b"whatever fio will print one day", token, "/api/v1/fio").status == 202


def test_quota_of_a_host_is_429_with_the_time_to_wait(token: str, settings: LazySettings) -> None:
    settings.HOST_QUOTA_PER_HOUR = 2
    for _ in range(2):
        post(pack_envelope(), token)

    problem = refused(pack_envelope(), token)

    assert (problem.status, problem.code) == (429, "quota-exceeded")
    assert 0 < int(problem.headers["Retry-After"]) <= 3600
    assert Submission.objects.count() == 2


def test_full_backlog_is_503_with_the_time_to_wait(token: str, settings: LazySettings) -> None:
    settings.BACKLOG_LIMIT = 1
    post(pack_envelope(), token)
    posts._LIMITS._checked_at = float("-inf")

    problem = refused(pack_envelope(), token)

    assert (problem.status, problem.code) == (503, "backlog-full")
    assert problem.headers["Retry-After"] == "15"


def test_low_disk_is_503(token: str, settings: LazySettings, tmp_path: Any) -> None:
    settings.DATA_DIR = tmp_path
    settings.DISK_RESERVE_BYTES = 2**62

    assert refused(pack_envelope(), token).code == "disk-low"


def test_accepting_costs_four_queries(token: str, django_assert_num_queries: Any) -> None:
    post(pack_envelope(), token)

    # the token, the backlog (once a second), the insert, rejected results
    posts._LIMITS._checked_at = float("-inf")
    with django_assert_num_queries(4):
        post(pack_envelope(), token)


def test_four_thousand_jobs_are_accepted_and_ten_thousand_are_too_big(token: str) -> None:
    entry = json.loads(read_fio("07_json.out"))["jobs"][0]
    report = json.loads(read_fio("07_json.out")) | {"jobs": [entry] * 4_000}

    assert (
        post(json.dumps(make_envelope() | {"fio_output": json.dumps(report)}).encode(), token).status == 202
    )
    report["jobs"] = [entry] * 10_000
    problem = refused(pack_envelope(fio_output=json.dumps(report)), token, is_packed=True)
    assert (problem.status, problem.code) == (413, "body-too-big")


def test_bottomless_member_of_an_envelope_is_a_422(token: str) -> None:
    nested: object = 1
    for _ in range(900):
        nested = [nested]

    for name in ("schema", "id", "started_at", "command"):
        assert refused(json.dumps(make_envelope() | {name: nested}).encode(), token).status == 422


def test_refusals_of_a_full_backlog_keep_no_body(token: str, settings: LazySettings) -> None:
    settings.BACKLOG_LIMIT = 0

    first, second = refused(pack_envelope(), token), refused(pack_envelope(), token)

    assert first.code == second.code == "backlog-full"
    assert first is not second


def make_attempt(**changes: Any) -> bytes:
    """Return the document of a run that was skipped."""
    document = {
        "schema": "benchapp-envelope/1",
        "kind": "attempt",
        "id": "6f1cbb2e-9d3e-4a55-8d0a-222222222222",
        "agent": {"version": "0.1.0"},
        "profile": "quick",
        "target_name": "/data",
        "started_at": "2026-11-20T10:00:00Z",
        "reason_code": "fio-missing",
        "reason": "fio not found",
    }
    return json.dumps(document | changes).encode()


@pytest.mark.parametrize(("pool", "target_name"), [("", "wwn-1"), ("db", "sdb")])
def test_attempt_on_a_raw_device_is_named_as_runs_are(pool: str, target_name: str, token: str) -> None:
    Host.objects.filter(name="db-1").update(pool=pool)

    assert post(make_attempt(target_name="wwn-1", kernel_name="sdb"), token).status == 202

    assert Attempt.objects.get().target_name == target_name


def test_attempt_is_stored_once_and_no_submission(token: str) -> None:
    new, again = post(make_attempt(), token, is_packed=True), post(make_attempt(), token)

    attempt = Attempt.objects.get()
    assert (new.status, again.status, again.headers["Idempotency-Replayed"]) == (202, 200, "true")
    assert to_builtins(new.body) == {
        "id": "6f1cbb2e-9d3e-4a55-8d0a-222222222222",
        "state": "stored",
        "url": "/api/v1/hosts/db-1/attempts",
        "page": "/hosts/db-1/#attempts",
    }
    assert (attempt.host.name, attempt.profile, attempt.target_name) == ("db-1", "quick", "/data")
    assert (attempt.reason_code, attempt.reason) == ("fio-missing", "fio not found")
    assert not new.is_new and not Submission.objects.exists()


def test_attempt_with_the_id_of_another_one_is_a_conflict(token: str) -> None:
    other = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-2"))[1]
    post(make_attempt(), token)

    assert refused(make_attempt(), other).status == 409
    assert refused(make_attempt(reason_code="busy"), token).status == 409
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"id": "7"}, "/id"),
        ({"started_at": None}, "/started_at"),
        ({"started_at": "yesterday"}, "/started_at"),
        ({"reason_code": "No fio"}, "/reason_code"),
        ({"reason_code": None}, "/reason_code"),
        ({"reason": "x" * 501}, "/reason"),
        ({"target_name": ["/data"]}, "/target_name"),
        ({"profile": "a/b"}, "/profile"),
    ],
)
def test_attempt_that_is_not_valid_is_refused_with_its_place(
    token: str, changes: dict[str, Any], pointer: str
) -> None:
    problem = refused(make_attempt(**changes), token)

    assert (problem.status, problem.code, problem.pointer) == (422, "envelope-invalid", pointer)


def test_attempt_counts_for_the_quota_of_its_host(token: str, settings: LazySettings) -> None:
    settings.HOST_QUOTA_PER_HOUR = 1
    post(make_attempt(), token)

    assert refused(make_attempt(id=str(uuid4())), token).status == 429


def test_secret_in_the_reason_of_an_attempt_is_removed(token: str) -> None:
    post(make_attempt(reason="cannot open https://me:hidden@host/x"), token)

    assert "hidden" not in Attempt.objects.get().reason


def test_newest_attempts_of_a_host_are_kept(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.intake.posts.submissions.ATTEMPTS_MAXIMUM", 2)

    for hour in (12, 11, 10, 13):
        post(make_attempt(id=str(uuid4()), started_at=f"2026-11-20T{hour}:00:00Z"), token)

    assert sorted(each.started_at.hour for each in Attempt.objects.all()) == [12, 13]
