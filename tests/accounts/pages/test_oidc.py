"""Sign-in with an OpenID Connect provider, which runs as a process of its own."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.test import Client

from benchapp.accounts.pages import sign_in as oidc
from benchapp.accounts.write.accounts import (
    OidcProvider,
    SignInRefused,
    change_role,
    choose_role,
    delete_account,
    find_or_create_account,
    set_active,
)
from benchapp.models import AuditRecord, ExternalIdentity, Role, User
from tests.factories import make_user
from tests.ports import find_free_port

PORT = find_free_port()
PROVIDER = OidcProvider(
    issuer=f"http://127.0.0.1:{PORT}",
    client_id="benchapp",
    client_secret="secret",
    name="Example login",
    scopes="openid profile email",
    username_claim="preferred_username",
    groups_claim="groups",
    roles={"storage-admins": "admin", "storage": "editor"},
    pools={},
    links_by_email=False,
)
PEOPLE = (
    {"sub": "1", "preferred_username": "anna", "groups": ["storage", "staff"]},
    {"sub": "2", "preferred_username": "bob", "groups": ["staff"]},
)


def start_provider() -> subprocess.Popen[bytes]:
    people = [part for person in PEOPLE for part in ("--user-claims", json.dumps(person))]
    command = [sys.executable, "-m", "oidc_provider_mock", "-p", str(PORT), "-n", "true", *people]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            requests.get(f"{PROVIDER.issuer}/jwks", timeout=10)
        except requests.ConnectionError:
            assert process.poll() is None, "the provider ended"
        else:
            return process
    process.kill()
    raise AssertionError("the provider does not answer")


@pytest.fixture(scope="module")
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [start_provider()]
    yield running
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def use_provider(db: None, settings: Any, processes: list[Any]) -> None:
    settings.OIDC, settings.PUBLIC_URL = asdict(PROVIDER), "http://testserver"


def approve(location: str, subject: str) -> str:
    """Approve a sign-in at the provider, as a person in a browser does; return the address that it leads to."""
    answer = requests.post(location, data={"sub": subject}, allow_redirects=False, timeout=30)
    return answer.headers["Location"]


def sign_in(client: Client, subject: str, **query: str) -> Any:
    return client.get(approve(client.get("/sign-in/oidc/", query)["Location"], subject))


def test_person_signs_in_with_the_role_of_a_group_and_signs_out() -> None:
    client = Client()
    page = client.get("/sign-in/?next=/hosts/").content.decode()
    link = re.search(r'href="(/sign-in/oidc/[^"]*)"', page)
    assert link is not None
    location = client.get(link[1])["Location"]
    asked = parse_qs(urlsplit(location).query)

    answer = client.get(approve(location, "1"))

    assert (asked["code_challenge_method"], asked["scope"]) == (["S256"], ["openid profile email"])
    assert len(asked["code_challenge"][0]) == 43
    assert {"state", "nonce"} <= set(asked)
    assert (answer.status_code, answer["Location"]) == (302, "/hosts/")
    anna = User.objects.get(username="anna")
    assert (anna.role, anna.has_usable_password()) == (Role.EDITOR, False)
    assert AuditRecord.objects.filter(action="signed_in", username="anna").count() == 1
    account = client.get("/account/").content.decode()
    assert ('name="old_password"' in account, 'id="delete-username"' in account) == (False, True)
    out = client.post("/sign-out/").content.decode()
    assert f"{PROVIDER.issuer}/oauth2/end_session?id_token_hint=" in out
    assert client.get("/account/").status_code == 302
    assert sign_in(client, "1", next="https://elsewhere.example/")["Location"] == "/"
    assert User.objects.count() == ExternalIdentity.objects.count() == 1


def test_people_without_a_group_or_with_a_taken_name_are_refused() -> None:
    make_user(Role.ADMIN, username="anna")

    no_group, taken = sign_in(Client(), "2"), sign_in(Client(), "1")

    assert (no_group.status_code, taken.status_code) == (403, 403)
    assert "none of your groups" in no_group.content.decode()
    assert "belongs to another account" in taken.content.decode()
    assert not ExternalIdentity.objects.exists()


def test_changed_answers_of_the_provider_are_refused(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_client = oidc._make_client
    client = Client()
    callback = approve(client.get("/sign-in/oidc/")["Location"], "1")
    other_browser = Client().get(callback)
    wrong_state = client.get(callback.replace("state=", "state=x"))
    denied = client.get("/sign-in/oidc/callback", {"error": "access_denied", "state": "x"})
    replayed_nonce = approve(client.get("/sign-in/oidc/")["Location"], "1")
    session = client.session
    for name, value in session.items():
        if name.startswith("_state_"):
            value["data"]["nonce"] = "another"
    session.save()
    wrong_nonce = client.get(replayed_nonce)
    callback = approve(client.get("/sign-in/oidc/")["Location"], "1")
    settings.OIDC = asdict(replace(PROVIDER, client_id="another"))
    monkeypatch.setattr(oidc, "_make_client", lambda provider: make_client(PROVIDER))
    wrong_audience = client.get(callback)
    monkeypatch.undo()
    settings.OIDC = asdict(replace(PROVIDER, issuer=f"http://localhost:{PORT}/x"))
    unreachable = client.get("/sign-in/oidc/")

    answers = (other_browser, wrong_state, denied, wrong_nonce, wrong_audience)
    assert [answer.status_code for answer in answers] == [400] * 5
    assert unreachable.status_code == 502
    assert not User.objects.exists()


def test_keys_of_the_provider_can_change(processes: list[subprocess.Popen[bytes]]) -> None:
    assert sign_in(Client(), "1").status_code == 302
    keys = requests.get(f"{PROVIDER.issuer}/jwks", timeout=30).json()
    processes[0].kill()
    processes[0].wait()
    processes[0] = start_provider()

    assert requests.get(f"{PROVIDER.issuer}/jwks", timeout=30).json() != keys
    assert sign_in(Client(), "1").status_code == 302


def test_role_follows_the_groups_and_the_last_admin_stays() -> None:
    groups = {"groups": ["storage-admins"]}
    person = {"sub": "7", "preferred_username": "dora"}
    dora = find_or_create_account({**person, **groups}, PROVIDER)

    with pytest.raises(SignInRefused, match="last admin"):
        find_or_create_account({**person, "groups": ["storage"]}, PROVIDER)
    make_user(Role.ADMIN)
    assert find_or_create_account({**person, "groups": ["storage"]}, PROVIDER).role == Role.EDITOR
    set_active(dora, is_active=False)
    with pytest.raises(SignInRefused, match="deactivated"):
        find_or_create_account({**person, **groups}, PROVIDER)
    name = delete_account(dora)
    assert find_or_create_account({**person, **groups}, PROVIDER).username == "dora"
    assert User.objects.filter(username=name).exists()


@pytest.mark.parametrize(
    ("is_on", "claims", "is_linked"),
    [
        (True, {"email_verified": True}, True),
        (True, {"email_verified": "true"}, False),
        (True, {}, False),
        (False, {"email_verified": True}, False),
    ],
)
def test_account_is_linked_by_a_verified_address_only_by_setting(
    is_on: bool, claims: dict[str, Any], is_linked: bool
) -> None:
    local = make_user(Role.EDITOR, username="local")
    User.objects.filter(pk=local.pk).update(email="Anna@example.org")
    given = {
        "sub": "9",
        "preferred_username": "anna",
        "groups": ["storage"],
        "email": "anna@example.org",
        **claims,
    }

    user = find_or_create_account(given, replace(PROVIDER, links_by_email=is_on))

    assert (user.pk == local.pk) is is_linked
    # From then on by its subject.
    assert find_or_create_account({"sub": "9", "groups": ["storage"]}, PROVIDER).pk == user.pk


@pytest.mark.parametrize("claims", [{"preferred_username": "a b"}, {"preferred_username": "deleted-7"}, {}])
def test_claims_without_a_valid_name_make_no_account(claims: dict[str, Any]) -> None:
    with pytest.raises(SignInRefused):
        find_or_create_account({"sub": "8", "groups": ["storage"], **claims}, PROVIDER)
    assert not User.objects.exists()


def test_highest_role_counts() -> None:
    roles = {"a": "viewer", "b": "admin", "*": "editor"}

    assert [choose_role(groups, roles) for groups in (["a"], ["a", "b"], [])] == ["editor", "admin", "editor"]
    assert choose_role(["x"], {"a": "admin"}) is None


def test_groups_limit_viewers_to_pools_at_each_sign_in() -> None:
    provider = replace(
        PROVIDER,
        roles={"db": "viewer", "web": "viewer", "all": "viewer", "storage": "editor", "*": "viewer"},
        pools={"db": ["db"], "web": ["web", "cdn"]},
    )

    def sign_in(*groups: str) -> tuple[str, list[str]]:
        user = find_or_create_account(
            {"sub": "9", "preferred_username": "eve", "groups": list(groups)}, provider
        )
        user.refresh_from_db()
        return user.role, user.pools

    assert sign_in("db") == ("viewer", ["db"])
    assert sign_in("db", "web") == ("viewer", ["cdn", "db", "web"])
    assert sign_in("db", "all") == ("viewer", [])
    assert sign_in("db", "storage") == ("editor", [])
    assert sign_in("web") == ("viewer", ["cdn", "web"])
    assert sign_in("staff") == ("viewer", [])


def test_pools_set_by_an_admin_stay_if_groups_have_none() -> None:
    provider = replace(PROVIDER, roles={"*": "viewer"})
    claims = {"sub": "9", "preferred_username": "eve"}
    change_role(find_or_create_account(claims, provider), Role.VIEWER, ["db"])

    assert find_or_create_account(claims, provider).pools == ["db"]


def test_limit_that_postgresql_cannot_enforce_refuses_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.accounts.write.accounts.find_obstacle", lambda: "PostgreSQL has no role x")
    provider = replace(PROVIDER, roles={"*": "viewer"}, pools={"*": ["db"]})

    with pytest.raises(SignInRefused, match="limited to pools, but PostgreSQL has no role x"):
        find_or_create_account({"sub": "9", "preferred_username": "eve"}, provider)
    assert not User.objects.exists()


def test_sign_in_with_passwords_can_be_turned_off(settings: Any) -> None:
    settings.LOCAL_SIGN_IN = False
    page = Client().get("/sign-in/").content.decode()

    refused = Client().post("/sign-in/", {"username": "anna", "password": "x"})

    assert ('name="password"' in page, "Sign in with Example login" in page) == (False, True)
    assert refused.status_code == 403
    assert Client().get("/reset-password/").status_code == 404


def test_without_a_provider_there_is_no_button(settings: Any) -> None:
    settings.OIDC = None

    assert "/sign-in/oidc/" not in Client().get("/sign-in/").content.decode()
    assert Client().get("/sign-in/oidc/").status_code == 404
