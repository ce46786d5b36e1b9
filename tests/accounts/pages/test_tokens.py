"""Tokens of programs."""

import re

from django.test import Client
from django.urls import reverse

from benchapp.accounts.write.tokens import read_token
from benchapp.models import ApiToken, Scope
from tests.factories import make_host, make_token

TOKEN = re.compile(r"bench_[a-z0-9]{12}_[\w-]{51}")


def test_token_of_a_program_is_shown_once_and_reads(admin: Client) -> None:
    admin.post(reverse("add_token"), {"scope": "read", "label": "grafana"})
    first = admin.get(reverse("tokens")).content.decode()
    second = admin.get(reverse("tokens")).content.decode()

    (secret,) = set(TOKEN.findall(first))
    assert not TOKEN.findall(second)
    assert read_token(secret).scope == Scope.READ
    assert "grafana" in second


def test_host_scope_is_rejected(admin: Client) -> None:
    for scope in ("ingest", "enroll", "root"):
        admin.post(reverse("add_token"), {"scope": scope, "label": "x"})

    assert not ApiToken.objects.exists()


def test_tokens_of_hosts_are_not_in_this_list(admin: Client) -> None:
    token, _ = make_token(host=make_host("db-01"))

    assert token.public_id not in admin.get(reverse("tokens")).content.decode()


def test_token_is_revoked_from_the_list(admin: Client) -> None:
    token, _ = make_token(Scope.READ, label="grafana")

    response = admin.post(reverse("revoke_token", args=[token.public_id]))

    token.refresh_from_db()
    assert response["Location"] == reverse("tokens")
    assert token.revoked_at is not None


def test_digest_of_a_token_is_in_no_page(admin: Client) -> None:
    token, _ = make_token(Scope.READ)

    text = admin.get(reverse("tokens")).content.decode()

    assert bytes(token.digest).hex() not in text


def test_list_asks_as_much_for_many_as_for_one(admin: Client, django_assert_num_queries) -> None:
    for number in range(4):
        make_token(Scope.READ, label=f"program {number}")

    with django_assert_num_queries(
        5
    ):  # session, person, tokens with their makers, pools, new incidents of the bar
        admin.get(reverse("tokens"))
