"""A program, or an editor's script, takes a run out of medians and puts it back."""

import pytest
from django.test import Client

from benchapp.models import Role, Run, Scope
from tests.factories import make_series, make_token, make_user

pytestmark = pytest.mark.django_db
REASON = {"reason": "a backup ran"}


def put(client, run_id, body):
    return client.put(f"/api/v1/runs/{run_id}/exclusion", body, content_type="application/json")


@pytest.fixture
def run():
    make_series([10.0])
    return Run.objects.get()


def test_run_is_excluded_by_who_made_the_token_and_told_so(run):
    _, plaintext = make_token(Scope.ADMIN, created_by=make_user(Role.ADMIN, username="anna"))
    client = Client(headers={"Authorization": f"Bearer {plaintext}"})

    response = put(client, run.pk, REASON)

    body = client.get(f"/api/v1/runs/{run.pk}").json()
    assert response.json() == {
        name: body[name] for name in ("excluded_at", "excluded_by", "excluded_reason")
    } | {"run_id": run.pk}
    assert (body["excluded_by"], body["excluded_reason"]) == ("anna", "a backup ran")
    assert body["excluded_at"].endswith("Z")
    assert client.get("/api/v1/runs").json()["runs"][0]["excluded_at"] == body["excluded_at"]


def test_same_again_answers_the_same(admin, run):
    first, second = put(admin, run.pk, REASON), put(admin, run.pk, REASON)

    assert (first.status_code, first.json()) == (second.status_code, second.json())


def test_run_is_put_back_and_putting_it_back_again_changes_nothing(admin, run):
    put(admin, run.pk, REASON)

    answers = [admin.delete(f"/api/v1/runs/{run.pk}/exclusion") for _ in range(2)]

    expected = {"run_id": run.pk, "excluded_at": None, "excluded_by": None, "excluded_reason": "a backup ran"}
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, expected)] * 2


def test_point_of_an_excluded_run_is_told_and_enters_no_level(admin):
    series = make_series([10.0, 20.0, 30.0, 9000.0])
    put(admin, Run.objects.get(measurements__iops=9000.0).pk, REASON)

    points = admin.get(f"/api/v1/series/{series.pk}/points?metrics=iops&rolling=20").json()["points"]
    summary = admin.get(f"/api/v1/series/{series.pk}/summary?metric=iops").json()

    assert [point["is_excluded"] for point in points] == [False, False, False, True]
    assert (points[-1]["iops"], points[-1]["iops_median"]) == (9000.0, 20.0)
    assert (summary["n"], summary["maximum"], summary["last"]) == (3, 30.0, 30.0)


def test_answers_about_its_series_change(admin, run):
    address = f"/api/v1/series/{run.measurements.get().series_id}/points"
    before = admin.get(address)["ETag"]

    put(admin, run.pk, REASON)

    assert admin.get(address, headers={"If-None-Match": before}).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "value-invalid"),
        ({"reason": " "}, "value-invalid"),
        ({"reason": "x" * 501}, "value-invalid"),
        ({"reason": "noise", "by": "me"}, "member-unknown"),
        ([], "value-invalid"),
    ],
)
def test_reason_that_says_nothing_is_refused(admin, run, body, code):
    response = put(admin, run.pk, body)

    assert (response.status_code, response.json()["code"]) == (400, code)


def test_address_that_is_none_is_a_problem_also_for_a_method_that_changes():
    client = Client(enforce_csrf_checks=True)

    response = put(client, "null", REASON)

    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
