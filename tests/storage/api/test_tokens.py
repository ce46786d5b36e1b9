from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from benchapp.accounts.write.tokens import TokenRefused, read_token, revoke_token
from benchapp.models import ApiToken, Host, Role, Scope
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


def test_refused_enrollment_names_the_remedies(client_of):
    make_token(host=make_host("taken"))

    detail = (
        client_of(Scope.ENROLL)
        .post("/api/v1/enrollments", {"name": "taken"}, content_type=JSON)
        .json()["detail"]
    )

    assert "revoke it on the settings page of the host, or enroll with another name" in detail
    assert "--name NAME" in detail


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_token_of_any_scope_is_made_with_an_expiry(admin, scope):
    body = {"scope": scope, "label": "dashboard", "expires_at": "2099-06-30T00:00:00Z"}

    response = admin.post("/api/v1/tokens", body, content_type=JSON)

    made = response.json()
    assert (response.status_code, response.headers["Cache-Control"]) == (201, "no-store")
    assert response.headers["Location"] == made["url"] == f"/api/v1/tokens/{made['public_id']}"
    token = read_token(made["token"])
    assert (token.scope, token.host, token.label, made["expires_at"]) == (
        scope,
        None,
        "dashboard",
        "2099-06-30T00:00:00Z",
    )


def test_token_of_a_host_and_one_for_enrollment_are_made(admin):
    make_host("db-7")

    ingest = admin.post("/api/v1/tokens", {"scope": "ingest", "host": "DB-7"}, content_type=JSON).json()
    enroll = admin.post("/api/v1/tokens", {"scope": "enroll"}, content_type=JSON).json()

    assert read_token(ingest["token"]).host.name == ingest["host"] == "db-7"
    lifetime = datetime.fromisoformat(enroll["expires_at"]) - datetime.fromisoformat(enroll["created_at"])
    assert (read_token(enroll["token"]).scope, round(lifetime.total_seconds())) == ("enroll", 86_400)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scope": "ingest"}, "/host"),
        ({"scope": "ingest", "host": "nobody"}, "/host"),
        ({"scope": "read", "host": "db-7"}, "/host"),
        ({"scope": "enroll", "expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"scope": "read", "expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"scope": "root"}, "/scope"),
        ({}, "/scope"),
    ],
)
def test_wrong_member_of_a_new_token_is_named(admin, body, pointer):
    make_host("db-7")
    before = ApiToken.objects.count()

    response = admin.post("/api/v1/tokens", body, content_type=JSON)

    assert (response.status_code, response.json()["pointer"]) == (400, pointer)
    assert ApiToken.objects.count() == before


def test_list_has_no_secrets_and_is_filtered(admin):
    host = make_host("db-7")
    own, plaintext = make_token(host=host)
    old, _ = make_token(Scope.READ, expires_at=timezone.now() - timedelta(days=1))

    def list_ids(query):
        return {each["public_id"] for each in admin.get(f"/api/v1/tokens{query}").json()["tokens"]}

    everything = admin.get("/api/v1/tokens")
    (mine,) = list_ids("?scope=admin")
    assert list_ids("") == {own.public_id, old.public_id, mine}
    assert list_ids("?host=db-7") == list_ids("?scope=ingest") == {own.public_id}
    assert list_ids("?valid=true") == {own.public_id, mine}
    assert list_ids("?valid=false") == {old.public_id}
    assert plaintext[20:] not in everything.content.decode()
    assert everything.json()["tokens"] == sorted(
        everything.json()["tokens"], key=lambda token: token["created_at"], reverse=True
    )
    first = admin.get("/api/v1/tokens?limit=2").json()
    rest = admin.get(first["next"]).json()
    assert len({each["public_id"] for page in (first, rest) for each in page["tokens"]}) == 3


def test_label_and_expiry_of_a_valid_token_are_changed(admin):
    token, plaintext = make_token(Scope.READ)
    address = f"/api/v1/tokens/{token.public_id}"

    changed = admin.patch(
        address, {"label": "grafana", "expires_at": "2099-01-01T00:00:00Z"}, content_type=JSON
    )
    cleared = admin.patch(address, {"expires_at": None}, content_type=JSON)

    assert (changed.json()["label"], changed.json()["expires_at"]) == ("grafana", "2099-01-01T00:00:00Z")
    assert (cleared.json()["label"], cleared.json()["expires_at"]) == ("grafana", None)
    assert admin.get(address).json() == cleared.json()
    assert read_token(plaintext).pk == token.pk


def test_revoked_or_expired_token_is_neither_changed_nor_rotated(admin):
    revoked, _ = make_token(Scope.READ)
    revoke_token(revoked.public_id)
    expired, _ = make_token(Scope.READ, expires_at=timezone.now() - timedelta(hours=1))

    for token in (revoked, expired):
        for response in (
            admin.patch(f"/api/v1/tokens/{token.public_id}", {"expires_at": None}, content_type=JSON),
            admin.post(f"/api/v1/tokens/{token.public_id}/rotation", {}, content_type=JSON),
        ):
            assert (response.status_code, response.json()["code"]) == (409, "state-differs")
    assert not ApiToken.objects.filter(pk__in=(revoked.pk, expired.pk)).valid_at(timezone.now()).exists()


def test_hosts_enroll_until_the_chosen_expiry_of_their_token(admin, client):
    body = {"scope": "enroll", "label": "autoscaling", "expires_at": "2099-06-30T00:00:00Z"}
    made = admin.post("/api/v1/tokens", body, content_type=JSON).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    statuses = []

    for number, year in enumerate((2098, 2099, 2100)):
        moment = datetime(year, 6, 29, tzinfo=UTC)
        with mock.patch.object(timezone, "now", lambda moment=moment: moment):
            name = {"name": f"node-{number}"}
            answer = client.post("/api/v1/enrollments", name, content_type=JSON, headers=headers)
        statuses.append(answer.status_code)

    assert (made["label"], made["expires_at"]) == ("autoscaling", "2099-06-30T00:00:00Z")
    assert statuses == [201, 201, 401]


def test_enrollment_token_always_has_an_expiry(admin):
    token, _ = make_token(Scope.ENROLL, expires_at=timezone.now() + timedelta(hours=1))
    address = f"/api/v1/tokens/{token.public_id}"

    never = admin.patch(address, {"expires_at": None}, content_type=JSON)
    later = admin.patch(address, {"expires_at": "2099-06-30T00:00:00Z"}, content_type=JSON)

    assert (never.status_code, never.json()["pointer"]) == (400, "/expires_at")
    assert (later.status_code, later.json()["expires_at"]) == (200, "2099-06-30T00:00:00Z")


def test_both_tokens_are_valid_until_the_overlap_ends(admin):
    host = make_host("db-7")
    old, plaintext = make_token(host=host, label="cron")

    response = admin.post(f"/api/v1/tokens/{old.public_id}/rotation", {"overlap_s": 3600}, content_type=JSON)

    made = response.json()
    assert response.status_code == 201
    assert (made["host"], made["scope"], made["label"], made["expires_at"]) == (
        "db-7",
        "ingest",
        "cron",
        None,
    )
    assert read_token(plaintext).pk == old.pk
    assert read_token(made["token"]).host == host
    left = datetime.fromisoformat(made["replaced"]["expires_at"]) - timezone.now()
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
    later = timezone.now() + timedelta(hours=2)
    with mock.patch.object(timezone, "now", lambda: later), pytest.raises(TokenRefused):
        read_token(plaintext)


def test_rotation_keeps_the_lifetime_and_never_prolongs_the_old_token(admin):
    soon = timezone.now() + timedelta(days=10)
    old, _ = make_token(Scope.READ, expires_at=soon)

    made = admin.post(
        f"/api/v1/tokens/{old.public_id}/rotation", {"overlap_s": 20 * 86_400}, content_type=JSON
    ).json()
    now = admin.post(
        f"/api/v1/tokens/{made['public_id']}/rotation", {"overlap_s": 0}, content_type=JSON
    ).json()

    assert datetime.fromisoformat(made["replaced"]["expires_at"]) == soon
    days = (datetime.fromisoformat(made["expires_at"]) - timezone.now()) / timedelta(days=1)
    assert 9.9 < days <= 10.01
    with pytest.raises(TokenRefused):
        read_token(made["token"])
    assert read_token(now["token"]).scope == "read"


@pytest.mark.parametrize("overlap", [-1, 31 * 86_400, "long"])
def test_overlap_is_at_most_30_days(admin, overlap):
    token, _ = make_token(Scope.READ)

    response = admin.post(
        f"/api/v1/tokens/{token.public_id}/rotation", {"overlap_s": overlap}, content_type=JSON
    )

    assert (response.status_code, response.json()["pointer"]) == (400, "/overlap_s")


def test_every_change_of_a_token_is_logged_with_the_token_that_asked(admin):
    mine = ApiToken.objects.get(scope=Scope.ADMIN).public_id
    with capture_logs() as lines:
        made = admin.post("/api/v1/tokens", {"scope": "read"}, content_type=JSON).json()
        address = f"/api/v1/tokens/{made['public_id']}"
        admin.patch(address, {"label": "x"}, content_type=JSON)
        rotated = admin.post(f"{address}/rotation", {}, content_type=JSON).json()
        admin.delete(address)

    logged = [
        (line["event"], line["token"], line["via"]) for line in lines if line["event"].startswith("token.")
    ]
    via = f"bench_{mine}"
    assert logged == [
        ("token.issued", made["public_id"], via),
        ("token.changed", made["public_id"], via),
        ("token.issued", rotated["public_id"], via),
        ("token.rotated", made["public_id"], via),
        ("token.revoked", made["public_id"], via),
    ]
    assert made["token"][20:] not in str(lines)
