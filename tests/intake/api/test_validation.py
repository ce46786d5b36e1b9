"""validate=1: what a submission would become; nothing is stored."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from msgspec import to_builtins

from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.api.problems import Problem
from benchapp.intake.api import posts
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posts import VALIDATIONS_MAXIMUM, Limits, answer_post
from benchapp.intake.normalize import parsing_process, preview
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.intake.posts.envelope import read_envelope
from benchapp.intake.posts.submissions import VALIDATED_BYTES_MAXIMUM
from benchapp.models import Host, Run, Scope, Series, Submission
from tests.envelopes import pack_envelope, read_fio
from tests.intake.api.test_posts import post, refused
from tests.intake.normalize.test_parsing_process import match_badly, spin

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> str:
    return issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"))[1]


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())


def validate(body: bytes, token: str, **named: Any) -> dict[str, Any]:
    query = {"validate": "1", **named.pop("query", {})}
    answer = post(body, token, query=query, **named)
    assert (answer.status, answer.is_new) == (200, False)
    return dict(to_builtins(answer.body))


def store(body: bytes, token: str) -> None:
    assert post(body, token).status == 202
    normalize_batch()


def count_rows() -> dict[str, int]:
    """Return the number of rows of every table."""
    with connection.cursor() as cursor:
        counts = {}
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT count(*) FROM {connection.ops.quote_name(table)}")
            counts[table] = cursor.fetchone()[0]
    return counts


def test_nothing_is_stored_of_either_kind(token: str) -> None:
    store(pack_envelope(), token)
    before = count_rows()

    validate(pack_envelope(), token)
    validate(read_fio("07_json.out").encode(), token, path="/api/v1/fio", query={"volume_type": "io2"})

    assert count_rows() == before


def test_result_joins_the_series_of_an_equal_one(token: str) -> None:
    store(pack_envelope(), token)

    found = validate(pack_envelope(), token)

    (run,) = found["runs"]
    ids = set(Series.objects.values_list("id", flat=True))
    assert {each["series"] for each in run["measurements"]} == ids
    assert [(each["is_new_series"], each["nearest"]) for each in run["measurements"]] == [
        (False, None)
    ] * len(ids)
    assert (found["state"], found["reason"], found["is_known"], found["new_series"]) == (
        "stored",
        None,
        False,
        0,
    )
    stored = Run.objects.get()
    assert (run["profile"], run["fio_version"], run["error"]) == ("quick", stored.fio_version, 0)


def test_new_series_names_the_fields_that_make_it_new(token: str) -> None:
    store(pack_envelope(), token)
    target = {"filesystem": "xfs", "volume_type": "gp3", "volume_count": 8}

    found = validate(pack_envelope(target=target), token)

    measurement = found["runs"][0]["measurements"][0]
    assert (measurement["is_new_series"], measurement["series"], measurement["host"]) == (True, None, "db-1")
    assert found["new_series"] == len(found["runs"][0]["measurements"])
    nearest = measurement["nearest"]
    assert nearest["url"] == f"/api/v1/series/{nearest['id']}"
    assert list(nearest["differences"]) == [
        {"field": "volume_count", "value": 8, "nearest": 4},
        {"field": "filesystem", "value": "xfs", "nearest": "ext4"},
    ]


def test_options_of_a_workload_are_compared_by_name(token: str) -> None:
    store(pack_envelope(), token)
    printed = read_fio("07_json.out")
    report = json.loads(printed[printed.index("{") :])
    report["jobs"][0]["job options"]["rate_iops"] = "100"

    found = validate(pack_envelope(fio_output=json.dumps(report)), token)

    nearest = found["runs"][0]["measurements"][0]["nearest"]
    assert list(nearest["differences"]) == [{"field": "options.rate_iops", "value": "100", "nearest": None}]


def test_first_result_of_a_host_has_no_nearest_series(token: str) -> None:
    other = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-2"))[1]
    store(pack_envelope(), other)

    found = validate(pack_envelope(), token)

    assert {each["nearest"] for run in found["runs"] for each in run["measurements"]} == {None}
    assert found["new_series"] > 0


def test_badges_and_warnings_are_those_of_the_stored_run(token: str) -> None:
    body = pack_envelope(id=str(uuid4()))

    found = validate(body, token)
    store(body, token)

    run = Run.objects.get()
    badges = [list(each["badges"]) for each in found["runs"][0]["measurements"]]
    assert badges == [each.badges for each in run.measurements.order_by("position")]
    assert [badge["code"] for each in badges for badge in each] != []
    assert found["runs"][0]["warnings"] == run.warnings


def test_output_that_the_worker_would_reject_has_the_reason(token: str) -> None:
    found = validate(pack_envelope(fio_output="fio: engine libaio not loadable\n"), token)

    assert (found["state"], found["runs"], found["reason"]["code"]) == ("rejected", [], "no-report")
    assert Submission.objects.count() == 0


def test_known_result_is_known_and_its_id_with_another_body_conflicts(token: str) -> None:
    body = pack_envelope(id=str(uuid4()))
    store(body, token)
    other = json.dumps(json.loads(body) | {"profile": "other"}).encode()

    assert validate(body, token)["is_known"] is True
    assert refused(other, token, query={"validate": "1"}).code == "id-taken"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("validate=0", "parameter-invalid"),
        ("validate=", "parameter-invalid"),
        ("validate=1&validate=1", "parameter-repeated"),
        ("validate=1&x=1", "parameter-unknown"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/submissions", "/api/v1/fio"])
def test_other_values_are_refused_and_nothing_is_stored(token: str, path: str, query: str, code: str) -> None:
    body = pack_envelope() if path.endswith("submissions") else read_fio("07_json.out").encode()

    problem = refused(body, token, path, query=query)

    assert (problem.status, problem.code) == (400, code)
    assert Submission.objects.count() == 0


def test_bad_input_is_refused_as_without_validation(token: str) -> None:
    assert refused(b"{}", token, query={"validate": "1"}).code == refused(b"{}", token).code
    assert refused(b"hello", token, "/api/v1/fio", query={"validate": "1"}).status == 422
    assert refused(b"hello", None, query={"validate": "1"}).status == 401


def test_larger_body_is_refused_unparsed_and_stored_without_validation(token: str) -> None:
    largest = pad(pack_envelope(), VALIDATED_BYTES_MAXIMUM)

    problem = refused(largest + b" ", token, query={"validate": "1"})

    assert (problem.status, problem.code) == (413, "body-too-big")
    assert validate(largest, token)["state"] == "stored"
    assert post(largest + b" ", token).status == 202


def test_limit_of_the_body_is_that_of_the_uncompressed_one(token: str) -> None:
    body = pad(pack_envelope(), VALIDATED_BYTES_MAXIMUM + 1)

    problem = refused(body, token, query={"validate": "1"}, is_packed=True)

    assert (problem.status, problem.code) == (413, "body-too-big")


def test_further_validation_at_the_same_time_is_busy_and_a_result_is_stored(token: str) -> None:
    found: list[Problem | int] = []

    def post_meanwhile(*known: Any) -> Any:
        """Validate once more within each validation, until one is refused."""
        try:
            post_validated(token, validate=post_meanwhile)
        except Problem as problem:
            found.append(problem)
            found.append(post(pack_envelope(id=str(uuid4())), token).status)
        return None

    post_validated(token, validate=post_meanwhile)

    problem, status = found
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code, problem.headers) == (503, "busy", {"Retry-After": "2"})
    assert status == 202


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/v1/submissions", pack_envelope()), ("/api/v1/fio", read_fio("01_normal.out").encode())],
)
def test_result_that_takes_too_long_to_parse_would_be_rejected(
    path: str, body: bytes, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing_process, "DOCUMENT_LIMIT_S", 0.2)
    monkeypatch.setattr(preview, "check_format_quickly", spin)
    monkeypatch.setattr(preview, "plan_or_reject", spin)

    answer = validate(body, token, path=path)

    reason = {"code": "took-too-long", "detail": "parsing took more than 0 s: split the result"}
    assert (answer["state"], answer["reason"], answer["runs"]) == ("rejected", reason, [])
    assert Submission.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_other_requests_are_answered_while_a_text_is_parsed(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a parser that holds the lock of the interpreter and does not return."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    monkeypatch.setattr(preview, "plan_or_reject", parse_forever)

    def validate_in_thread() -> dict[str, Any]:
        try:
            return validate(pack_envelope(fio_output=str(pipe)), token)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        validation = threads.submit(validate_in_thread)
        pid = int(pipe.read_text())
        try:
            status = post(pack_envelope(), token).status
            is_parsing = not validation.done()
        finally:
            os.kill(pid, signal.SIGKILL)
        reason = validation.result()["reason"]

    assert (status, is_parsing) == (202, True)
    assert reason["code"] == "reader-fault"


def parse_forever(source: SubmissionSource) -> None:
    Path(read_envelope(source.body).fio_output).write_text(str(os.getpid()))
    match_badly()


def test_failed_validations_leave_room_for_others(token: str) -> None:
    def fail(*known: Any) -> Any:
        raise RuntimeError("the database is away")

    for _ in range(VALIDATIONS_MAXIMUM + 1):
        with pytest.raises(RuntimeError):
            post_validated(token, validate=fail)

    assert validate(pack_envelope(), token)["state"] == "stored"


def post_validated(token: str, *, validate: Any) -> None:
    headers = {"authorization": f"Bearer {token}"}
    wire = Wire(pack_envelope(), False)
    answer_post(Post("/api/v1/submissions", "validate=1", headers, wire), validate=validate)


def pad(body: bytes, size: int) -> bytes:
    """Append spaces, which are not part of the document."""
    return body.ljust(size)
