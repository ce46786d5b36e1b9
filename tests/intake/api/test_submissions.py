from uuid import uuid4

import pytest

from benchapp.models import Scope, State
from tests.factories import make_host, make_run, make_submission

pytestmark = pytest.mark.django_db


def test_stored_submission_names_its_runs(reader):
    run = make_run()

    body = reader.get(f"/api/v1/submissions/{run.submission_id}").json()

    assert (body["id"], body["state"], body["reason"]) == (str(run.submission_id), "stored", None)
    assert body["runs"] == [{"id": run.id, "url": f"/api/v1/runs/{run.id}", "page": f"/runs/{run.id}/"}]
    assert body["received_at"].endswith("Z")


def test_rejected_submission_says_why(reader):
    submission = make_submission(state=State.REJECTED, reason_code="worker-died", reason="five times")

    body = reader.get(f"/api/v1/submissions/{submission.id}").json()

    assert body["reason"] == {"code": "worker-died", "detail": "five times"}
    assert body["runs"] == []


def test_waiting_submission_is_not_settled(reader):
    submission = make_submission(state=State.RECEIVED)

    body = reader.get(f"/api/v1/submissions/{submission.id}").json()

    assert (body["state"], body["settled_at"]) == ("received", None)


def test_host_sees_its_own_submission_only(client_of):
    host = make_host()
    own, foreign = make_submission(host), make_submission()
    client = client_of(Scope.INGEST, host)

    assert client.get(f"/api/v1/submissions/{own.id}").status_code == 200
    of_another = client.get(f"/api/v1/submissions/{foreign.id}")
    of_nobody = client.get(f"/api/v1/submissions/{uuid4()}")

    assert of_another.status_code == of_nobody.status_code == 404
    assert of_another.json()["code"] == of_nobody.json()["code"] == "not-found"


def test_submissions_are_listed_by_state(reader, django_assert_num_queries):
    make_submission()
    rejected = make_submission(state=State.REJECTED)

    with django_assert_num_queries(3):  # the token, its last use, and one
        body = reader.get("/api/v1/submissions?state=rejected").json()

    assert [submission["id"] for submission in body["submissions"]] == [str(rejected.id)]


def test_id_that_is_no_uuid_is_not_found(reader):
    assert reader.get("/api/v1/submissions/7").status_code == 404
