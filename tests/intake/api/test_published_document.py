"""Published numbers at the door: the same token, the same answers, and refused with the place of the fault."""

import json
from uuid import UUID

import pytest

from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.api import posts
from benchapp.intake.api.posts import Limits
from benchapp.models import Host, Kind, Scope, Submission
from tests.intake.api.test_posts import post, refused
from tests.reported import ID, make_reported, make_reported_measurement, make_reported_run, pack_reported

pytestmark = pytest.mark.django_db


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(posts, "_LIMITS", Limits())
    return issue_token(scope=Scope.INGEST, host=Host.objects.create(name="ebs"))[1]


def test_document_is_stored_as_what_it_is(token: str) -> None:
    answer = post(pack_reported(), token)

    row = Submission.objects.get()
    assert (answer.status, answer.headers["Location"]) == (202, f"/api/v1/submissions/{ID}")
    assert (row.id, row.kind) == (UUID(ID), Kind.REPORTED)


def test_same_document_is_answered_alike_and_another_of_its_id_is_refused(token: str) -> None:
    post(pack_reported(), token)

    assert post(pack_reported(), token).status == 200
    assert refused(pack_reported(source={"title": "Another"}), token).code == "id-taken"


def test_fault_is_named_with_its_place(token: str) -> None:
    run = make_reported_run(measurements=[make_reported_measurement(iops=-1)])

    problem = refused(pack_reported(runs=[run]), token)

    assert (problem.status, problem.code) == (422, "reported-invalid")
    assert problem.pointer == "/runs/0/measurements/0/iops"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"schema": "benchapp-envelope/1"}, "envelope-schema"),
        ({"schema": None}, "envelope-schema"),
        ({"kind": "fio"}, "envelope-kind"),
        ({"invented": 1}, "reported-invalid"),
    ],
)
def test_document_that_is_neither_is_refused(token: str, changes: dict[str, object], code: str) -> None:
    assert refused(json.dumps(make_reported(**changes)).encode(), token).code == code
    assert Submission.objects.count() == 0


def test_other_idempotency_key_is_refused(token: str) -> None:
    problem = refused(pack_reported(), token, headers={"idempotency-key": str(UUID(int=7))})

    assert problem.code == "idempotency-key-differs"
