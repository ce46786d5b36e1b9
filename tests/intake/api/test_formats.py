"""POST /api/v1/fio takes whatever fio printed: any format in, a run out."""

import pytest

from benchapp.accounts.write.tokens import issue_token
from benchapp.framework.api.problems import Problem
from benchapp.intake.api import posts
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posts import Limits, answer_post
from benchapp.intake.api.submissions import describe_validation
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import Host, Run, Scope
from tests.envelopes import read_fio

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("01_normal.out", "normal"),
        ("04_terse_v4.out", "terse"),
        ("07_json.out", "json"),
        ("08_jsonplus.out", "json+"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_output_of_every_format_becomes_a_run(name: str, form: str, content_type: str) -> None:
    _, token = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"))
    headers = {"authorization": f"Bearer {token}", "content-type": content_type}

    answer = answer_post(
        Post("/api/v1/fio", "", headers, Wire(read_fio(name).encode(), False)), validate=describe_validation
    )
    normalize_batch()

    assert answer.status == 202
    assert [run.format for run in Run.objects.all()] == [form]


@pytest.mark.parametrize(
    ("body", "code", "title", "detail"),
    [
        (
            '{"fio version": "fio-3.36",\n "jobs": [{"jobname": "a", "elapsed": 6,0}]}',
            "invalid-json",
            "Invalid JSON",
            "the fio report has invalid JSON at line 2, column 41",
        ),
        (
            '{"fio version": "fio-3.36", "jobs": [{"jobname": "a",',
            "truncated-report",
            "Incomplete output",
            "the fio report ends before its first job is complete",
        ),
        ("hello", "no-report", "No fio output", "no fio report found"),
        (
            '{"schema": "benchapp-reported/1", "runs": []}',
            "document",
            "Not fio output",
            "this is a document of an agent or of published numbers",
        ),
        (
            '{"fio version": "fio-3.36", "jobs": []}',
            "no-jobs",
            "Unreadable fio output",
            "the fio report has no",
        ),
    ],
)
def test_refusal_has_the_title_of_its_reason(body: str, code: str, title: str, detail: str) -> None:
    _, token = issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"))
    post = Post("/api/v1/fio", "", {"authorization": f"Bearer {token}"}, Wire(body.encode(), False))

    with pytest.raises(Problem) as caught:
        answer_post(post, validate=describe_validation)

    assert (caught.value.status, caught.value.code, caught.value.title) == (422, code, title)
    assert caught.value.detail.startswith(detail)
