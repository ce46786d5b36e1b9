"""POST /api/v1/submissions/batch: one answer for each line, and nothing accepted is lost."""

import json
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from msgspec import to_builtins

from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.api.problems import Problem
from benchapp.intake.api import posts
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import BATCH, Post
from benchapp.intake.api.posts import BATCH_MAXIMUM, Limits, split_batch
from benchapp.intake.posts import submissions
from benchapp.intake.posts.submissions import unpack
from benchapp.models import Host, Scope, Submission
from tests.envelopes import make_envelope, pack_envelope, read_fio
from tests.intake.api.test_posts import post, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> str:
    return issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"))[1]


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())


def send(lines: list[bytes], token: str, **named: Any) -> tuple[int, dict[str, Any]]:
    answer = post(b"\n".join(lines), token, BATCH, **named)
    return answer.status, to_builtins(answer.body)


def small_envelope() -> bytes:
    return pack_envelope(fio_output="x")


def test_documents_are_stored_byte_for_byte(token: str) -> None:
    lines = [pack_envelope() for _ in range(3)]

    status, answer = send([*lines, b""], token, is_packed=True)

    assert (status, answer["received"], answer["replayed"], answer["refused"]) == (200, 3, 0, 0)
    assert [(item["index"], item["status"], item["state"]) for item in answer["items"]] == [
        (0, 202, "received"),
        (1, 202, "received"),
        (2, 202, "received"),
    ]
    stored = {str(row.id): unpack(bytes(row.body)) for row in Submission.objects.all()}
    assert [stored[item["id"]] for item in answer["items"]] == lines
    assert answer["items"][0]["url"] == f"/api/v1/submissions/{json.loads(lines[0])['id']}"


def test_batch_that_is_sent_again_is_stored_once(token: str) -> None:
    lines = [small_envelope(), small_envelope()]
    post(lines[1], token)

    first, second = send(lines, token), send(lines, token)

    assert [item["status"] for item in first[1]["items"]] == [202, 200]
    assert (second[0], second[1]["replayed"], Submission.objects.count()) == (200, 2, 2)


def test_refused_lines_are_named_by_index_and_do_not_prevent_the_others(token: str) -> None:
    taken = small_envelope()
    post(taken, token)
    good = small_envelope()
    lines = [
        b"not json",
        good,
        b"",
        json.dumps(json.loads(taken) | {"profile": "other"}).encode(),
        json.dumps(json.loads(small_envelope()) | {"target": {"colour": "red"}}).encode(),
        good,
    ]

    status, answer = send(lines, token)

    assert (status, answer["received"], answer["replayed"], answer["refused"]) == (207, 1, 1, 3)
    problems = {item["index"]: item["problem"]["code"] for item in answer["items"] if item["problem"]}
    assert problems == {0: "envelope-not-json", 2: "id-taken", 3: "envelope-invalid"}
    assert answer["items"][3]["problem"]["pointer"] == "/target/colour"
    assert Submission.objects.count() == 2


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n\n\n"])
def test_blank_lines_are_skipped(token: str, blank: bytes) -> None:
    lines = [b"  " + small_envelope(), small_envelope() + b" "]

    answer = post(blank + (b"\n" + blank).join(lines) + b"\n" + blank, token, BATCH)

    assert (answer.status, [item.index for item in answer.body.items]) == (200, [0, 1])
    assert {unpack(bytes(row.body)) for row in Submission.objects.all()} == set(lines)


def test_batch_of_which_nothing_was_taken_is_a_422_with_the_reason_of_each(token: str) -> None:
    taken = small_envelope()
    post(taken, token)

    answer = post(b"not json\n" + taken.replace(b"quick", b"other"), token, BATCH)

    problem = to_builtins(answer.body)
    assert (answer.status, answer.content_type) == (422, "application/problem+json")
    assert (problem["code"], [item["status"] for item in problem["items"]]) == ("batch-refused", [400, 409])
    assert (
        "none of 2 lines was taken; nothing was stored; the first: the body is not valid JSON"
        in problem["detail"]
    )
    assert Submission.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (json.dumps([make_envelope(), make_envelope()]).encode(), "one per line (jq -c '.[]')"),
        (json.dumps([make_envelope()], indent=1).encode() + b"\n" * 300, "one per line (jq -c '.[]')"),
        (
            json.dumps(make_envelope(), indent=1).encode(),
            "post it to /api/v1/submissions, or as one line",
        ),
        (read_fio("07_json.out").encode(), "post it to /api/v1/fio"),
        (read_fio("02_terse_v3.out").encode(), "post it to /api/v1/fio"),
    ],
    ids=["list", "long list", "written over lines", "fio", "terse"],
)
def test_batch_that_is_none_is_refused_with_what_to_send(token: str, body: bytes, hint: str) -> None:
    try:
        detail = post(body, token, BATCH).body.detail
    except Problem as problem:
        detail = problem.detail

    assert hint in detail


def test_worker_is_woken_only_if_something_is_new(token: str) -> None:
    line = small_envelope()

    answers = [post(line, token, BATCH), post(line, token, BATCH)]

    assert [answer.is_new for answer in answers] == [True, False]


def test_batch_is_one_transaction(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored of a batch whose answer is an error would be sent again by nobody who reads 5xx as nothing."""
    known = small_envelope()
    post(known, token)
    monkeypatch.setattr(submissions, "_read_known", Mock(side_effect=OperationalError("gone")))

    with pytest.raises(OperationalError):
        post(b"\n".join([small_envelope(), known]), token, BATCH)

    assert Submission.objects.count() == 1


def test_batch_is_stored_by_one_statement(token: str) -> None:
    lines = [small_envelope() for _ in range(20)]

    with CaptureQueriesContext(connection) as queries:
        send(lines, token)

    assert len([query for query in queries if "INSERT INTO benchapp_submission" in query["sql"]]) == 1


def test_longest_batch_is_taken_and_a_longer_one_refused_as_a_whole(token: str) -> None:
    lines = [small_envelope() for _ in range(BATCH_MAXIMUM + 1)]

    problem = refused(b"\n".join(lines), token, BATCH)
    status, answer = send(lines[:-1], token)

    assert (problem.status, problem.code) == (413, "batch-too-long")
    assert (status, answer["received"], Submission.objects.count()) == (200, 200, 200)


def test_each_line_counts_in_the_quota(token: str, settings: Any) -> None:
    settings.HOST_QUOTA_PER_HOUR = 5

    send([small_envelope() for _ in range(2)], token)

    problem = refused(b"\n".join(small_envelope() for _ in range(4)), token, BATCH)

    assert (problem.status, problem.code) == (429, "quota-exceeded")
    assert Submission.objects.count() == 2
    # One of the refused batch was counted with the token.
    assert send([small_envelope() for _ in range(1)], token)[0] == 200


def test_batch_beyond_the_quota_of_an_hour_is_not_to_be_repeated(token: str, settings: Any) -> None:
    settings.HOST_QUOTA_PER_HOUR = 5

    problem = refused(b"\n".join(small_envelope() for _ in range(6)), token, BATCH)

    assert (problem.status, problem.code, "Retry-After" in problem.headers) == (413, "batch-too-long", False)


def test_line_feeds_are_counted_before_they_are_split() -> None:
    """A list of millions of lines would take hundreds of MiB for a body of some KiB."""

    class Unsplit(bytes):
        def split(self, *arguments: object) -> list[bytes]:  # type: ignore[override]
            raise AssertionError("the body is split")

    post = Post(path=BATCH, query="", headers={}, wire=Wire(b"", is_packed=False))

    with pytest.raises(Problem) as found:
        split_batch(post, Unsplit(b"{}\n" * 1000))

    assert found.value.code == "batch-too-long"
    assert "1000 lines" in found.value.detail


@pytest.mark.parametrize(
    ("body", "options", "status", "code"),
    [
        (b"", {}, 400, "body-empty"),
        (b"\n", {}, 400, "body-empty"),
        (b"{}", {"query": {"validate": "1"}}, 400, "parameter-unknown"),
        (b"{}", {"headers": {"idempotency-key": str(uuid4())}}, 400, "idempotency-key-invalid"),
    ],
)
def test_wrong_batch_is_refused(
    token: str, body: bytes, options: dict[str, Any], status: int, code: str
) -> None:
    problem = refused(body, token, BATCH, **options)

    assert (problem.status, problem.code) == (status, code)


def test_limit_of_the_unpacked_size_is_that_of_all_lines_together(token: str, settings: Any) -> None:
    settings.UNPACKED_LIMIT_BYTES = 2000

    problem = refused(b"\n".join(small_envelope() for _ in range(10)), token, BATCH, is_packed=True)

    assert (problem.status, problem.code) == (413, "body-too-big")


def test_other_methods_are_not_allowed(client: Client) -> None:
    answer = client.get(BATCH)

    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")
