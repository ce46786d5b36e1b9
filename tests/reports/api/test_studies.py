"""Studies of the API: listed, read, made, changed and removed by those who may."""

from collections.abc import Callable

import pytest
from django.test import Client

from benchapp.models import Role, Scope, Study
from tests.factories import make_token, make_user

pytestmark = pytest.mark.django_db

PANEL = {"kind": "scaling", "query": "q=host:db-1&x=volume_count", "title": "Reads", "text": "*so*"}


def make_study(**fields) -> Study:
    return Study.objects.create(**{"title": "Disks", "text": "- a", "panels": [PANEL], **fields})


def test_studies_are_listed_those_changed_last_first(reader: Client) -> None:
    first, second = make_study(title="First"), make_study(title="Second", owner=make_user(username="grace"))

    body = reader.get("/api/v1/studies").json()

    assert [(row["id"], row["title"], row["owner"], row["panel_count"]) for row in body["studies"]] == [
        (second.pk, "Second", "grace", 1),
        (first.pk, "First", None, 1),
    ]
    assert (body["next"], body["studies"][0]["is_shared"]) == (None, False)


def test_study_is_read_with_its_charts_and_without_its_share_token(reader: Client) -> None:
    study = make_study(share_token="s" * 43)

    response = reader.get(f"/api/v1/studies/{study.pk}")

    body = response.json()
    assert (body["title"], body["text"], body["is_shared"]) == ("Disks", "- a", True)
    assert body["panels"] == [{**PANEL, "page": "/scaling/?q=host:db-1&x=volume_count"}]
    assert body["page"] == f"/studies/{study.pk}/"
    assert "s" * 43 not in response.content.decode()


def test_study_is_made_for_who_made_the_token() -> None:
    admin = make_user(Role.ADMIN)
    _, plaintext = make_token(Scope.ADMIN, created_by=admin)
    client = Client(headers={"Authorization": f"Bearer {plaintext}"})

    response = client.post(
        "/api/v1/studies", {"title": "New", "panels": [PANEL]}, content_type="application/json"
    )

    study = Study.objects.get()
    assert (response.status_code, response["Location"]) == (201, f"/api/v1/studies/{study.pk}")
    assert (study.title, study.text, study.panels, study.owner) == ("New", "", [PANEL], admin)


def test_editor_changes_an_own_study_in_parts(person: Callable[[Role], Client]) -> None:
    owner = make_user(Role.EDITOR)
    study = make_study(owner=owner)
    client = Client()
    client.force_login(owner)

    response = client.patch(
        f"/api/v1/studies/{study.pk}", {"text": "changed"}, content_type="application/json"
    )

    study.refresh_from_db()
    assert response.json()["text"] == "changed"
    assert (study.title, study.text, study.panels) == ("Disks", "changed", [PANEL])


def test_editor_changes_no_foreign_study(person: Callable[[Role], Client]) -> None:
    study = make_study(owner=make_user(Role.EDITOR, username="grace"))

    response = person(Role.EDITOR).patch(
        f"/api/v1/studies/{study.pk}", {"title": "Mine"}, content_type="application/json"
    )

    assert (response.status_code, response.json()["code"]) == (403, "forbidden")
    assert "belongs to grace" in response.json()["detail"]


def test_study_is_deleted(admin: Client) -> None:
    study = make_study()

    assert admin.delete(f"/api/v1/studies/{study.pk}").status_code == 204
    assert admin.get(f"/api/v1/studies/{study.pk}").json()["code"] == "not-found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "value-invalid"),
        ({"title": ""}, "value-invalid"),
        ({"title": "x" * 201}, "value-invalid"),
        ({"title": "x", "owner": "me"}, "member-unknown"),
        ({"title": "x", "panels": {}}, "value-invalid"),
        ({"title": "x", "panels": ["x"]}, "value-invalid"),
        ({"title": "x", "panels": [{"kind": "song"}]}, "value-invalid"),
        ({"title": "x", "panels": [PANEL] * 41}, "value-invalid"),
        ({"title": "x", "text": "a\x00b"}, "value-invalid"),
        ({"title": "x", "panels": [{**PANEL, "query": "\x07"}]}, "value-invalid"),
    ],
)
def test_study_that_cannot_be_is_refused(admin: Client, body: dict, code: str) -> None:
    response = admin.post("/api/v1/studies", body, content_type="application/json")

    assert (response.status_code, response.json()["code"]) == (400, code)
    assert Study.objects.count() == 0
