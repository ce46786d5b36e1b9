"""Detection policies and dry runs over the API."""

import pytest
from django.test import Client

from benchapp.models import DetectionPolicy, DetectionPolicyLogEntry
from benchapp.policies.write import advance_dry_runs
from tests.factories import make_detection_policy

pytestmark = pytest.mark.django_db
PATH = "/api/v1/detection-policies"
GIVEN = {"metric": "iops", "smallest_change": 0.1, "filter": "pool:web", "reason": "noisy"}


def test_policy_is_created_read_listed_canceled_and_restored(admin: Client, reader: Client) -> None:
    created = admin.post(PATH, GIVEN, content_type="application/json")

    body = created.json()
    assert (created.status_code, created["Location"]) == (201, body["url"])
    assert (body["smallest_change"], body["default"], body["label"]) == (0.1, 0.05, "")
    assert (reader.get(body["url"]).json(), body["series"]) == (body, 0)
    assert [row["id"] for row in reader.get(PATH).json()["detection_policies"]] == [body["id"]]
    assert admin.delete(body["url"]).status_code == 204
    assert reader.get(PATH).json()["detection_policies"] == []
    assert len(reader.get(f"{PATH}?canceled=true").json()["detection_policies"]) == 1
    restored = admin.patch(body["url"], {"is_canceled": False}, content_type="application/json").json()
    assert [entry["action"] for entry in restored["activity"]] == ["created", "canceled", "restored"]
    assert DetectionPolicyLogEntry.objects.exclude(via__startswith="bench_").count() == 0


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"metric": "latency_p50_ns"}, "/metric"),
        ({"smallest_change": 0.001}, "/smallest_change"),
        ({"filter": "kernel:6.1"}, "/filter"),
        ({"label": "prod"}, "/label"),
        ({"reason": " "}, "/reason"),
    ],
)
def test_invalid_policy_is_a_problem_with_a_pointer(
    changed: dict[str, object], pointer: str, admin: Client
) -> None:
    response = admin.post(PATH, GIVEN | changed, content_type="application/json")

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    assert not DetectionPolicy.objects.exists()


def test_reader_cannot_change_policies_or_start_dry_runs(reader: Client) -> None:
    policy = make_detection_policy()

    assert reader.post(PATH, GIVEN, content_type="application/json").status_code == 403
    assert reader.delete(f"{PATH}/{policy.pk}").status_code == 403
    dry_run = {"metric": "iops", "smallest_change": 0.1}
    response = reader.post("/api/v1/detection-dry-runs", dry_run, content_type="application/json")
    assert response.status_code == 403


def test_dry_run_is_accepted_and_has_a_result_once_it_is_done(admin: Client, reader: Client) -> None:
    given = {"metric": "iops", "smallest_change": 0.02, "filter": "pool:web"}

    started = admin.post("/api/v1/detection-dry-runs", given, content_type="application/json")

    body = started.json()
    assert (started.status_code, started["Location"]) == (202, body["url"])
    assert (body["state"], body["current"], body["evaluated"]) == ("running", None, 0)
    advance_dry_runs(budget_s=60)
    done = reader.get(body["url"]).json()
    assert (done["state"], done["current"], done["proposed"], done["added"]) == ("done", 0, 0, [])


def test_running_dry_run_is_canceled(admin: Client, reader: Client) -> None:
    given = {"metric": "iops", "smallest_change": 0.02}
    url = admin.post("/api/v1/detection-dry-runs", given, content_type="application/json").json()["url"]

    assert (reader.delete(url).status_code, admin.delete(url).status_code) == (403, 204)

    assert reader.get(url).json()["state"] == "canceled"
    again = admin.delete(url)
    assert (again.status_code, again.json()["code"]) == (400, "value-invalid")
