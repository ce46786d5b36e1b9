import pytest

from benchapp.models import ApiToken, Host, Role, Scope
from benchapp.pipeline.access.tokens import read_token
from tests.factories import make_host, make_token

pytestmark = pytest.mark.django_db

JSON = "application/json"


def test_admin_makes_a_token_that_is_shown_once(admin):
    make_host("db-7")

    response = admin.post("/api/v1/hosts/db-7/tokens", {"label": "cron"}, content_type=JSON)

    assert response.status_code == 201
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert (body["host"], body["label"], body["expires_at"]) == ("db-7", "cron", None)
    token = read_token(body["token"])
    assert (token.host.name, token.scope, token.public_id) == ("db-7", "ingest", body["public_id"])
    listed = admin.get("/api/v1/hosts/db-7/tokens").json()["tokens"]
    assert [each["public_id"] for each in listed] == [body["public_id"]]
    assert body["token"] not in str(listed)


def test_signed_in_admin_is_named_as_its_maker(person):
    make_host("db-7")
    client = person(Role.ADMIN)

    client.post("/api/v1/hosts/db-7/tokens", {}, content_type=JSON)

    assert ApiToken.objects.get(host__name="db-7").created_by.role == Role.ADMIN


def test_signed_in_admin_needs_the_csrf_token(person):
    make_host("db-7")
    client = person(Role.ADMIN)
    client.handler.enforce_csrf_checks = True

    response = client.post("/api/v1/hosts/db-7/tokens", {}, content_type=JSON)

    assert response.status_code == 403
    assert "CSRF" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"label": "%s"}' % ("x" * 101), "/label"),
        ('{"expires_at": "2001-01-01T00:00:00Z"}', "/expires_at"),
        ('{"expires_at": "soon"}', "/expires_at"),
        ('{"label": "\\u0000"}', "/label"),
        ('{"scope": "admin"}', "/scope"),
        ("[]", None),
        ("nonsense", None),
        ("[" * 100_000, None),
        ('{"label": NaN}', None),
        ('{"label": "\\ud800"}', None),
        ("\ufeff{}", None),
    ],
)
def test_bad_body_is_refused_and_named(admin, body, pointer):
    make_host("db-7")

    response = admin.post("/api/v1/hosts/db-7/tokens", body, content_type=JSON)

    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json().get("pointer") == pointer


def test_body_that_is_not_json_by_its_type_is_refused(admin):
    make_host("db-7")

    response = admin.post("/api/v1/hosts/db-7/tokens", "<a/>", content_type="application/xml")

    assert response.status_code == 415


def test_token_of_an_unknown_host_makes_no_host(admin):
    response = admin.post("/api/v1/hosts/typo/tokens", {}, content_type=JSON)

    assert response.status_code == 404
    assert not Host.objects.exists()


def test_revoked_token_opens_nothing(admin, client):
    token, plaintext = make_token()
    headers = {"Authorization": f"Bearer {plaintext}"}

    assert client.get("/api/v1/hosts/me", headers=headers).status_code == 200
    assert admin.delete(f"/api/v1/tokens/{token.public_id}").status_code == 204
    refused = client.get("/api/v1/hosts/me", headers=headers)

    assert (refused.status_code, refused.json()["code"]) == (401, "token-revoked")
    assert admin.delete(f"/api/v1/tokens/{token.public_id}").status_code == 404


def test_host_enrolls_with_a_token(client_of):
    response = client_of(Scope.ENROLL).post(
        "/api/v1/enrollments", {"name": "DB-7", "agent_version": "0.1.0"}, content_type=JSON
    )

    assert response.status_code == 201
    body = response.json()
    assert (body["host"], body["url"]) == ("db-7", "/api/v1/hosts/db-7")
    assert response.headers["Location"] == "/api/v1/hosts/db-7"
    assert read_token(body["token"]).host.agent_version == "0.1.0"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "taken"}, 409, "host-exists"),
        ({"name": "no host"}, 422, "host-name-invalid"),
        ({"name": "Me"}, 422, "host-name-invalid"),
        ({}, 400, "value-invalid"),
        ({"name": "a", "pool": "b"}, 400, "member-unknown"),
    ],
)
def test_host_that_cannot_be_enrolled_is_told_why(client_of, body, status, code):
    make_token(host=make_host("taken"))

    response = client_of(Scope.ENROLL).post("/api/v1/enrollments", body, content_type=JSON)

    assert (response.status_code, response.json()["code"]) == (status, code)
