"""Tokens: form, checksum, expiry, revocation; only the digest is stored."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.accounts.write.tokens import TokenRefused, issue_token, parse_token, read_token, revoke_token
from benchapp.models import ApiToken, Host, Scope


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(name="db-1")


def test_token_opens_what_it_was_made_for(host: Host) -> None:
    _, plaintext = issue_token(scope=Scope.INGEST, host=host)

    token = read_token(plaintext)

    assert token.host == host
    assert token.scope == Scope.INGEST
    assert plaintext.startswith("bench_")
    assert plaintext.split("_", 2)[2][:43].encode() not in bytes(token.digest)


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-1], lambda t: t + "a", lambda t: t[:30] + "A" + t[31:], str.upper]
)
def test_damaged_token_is_malformed_before_the_database_is_asked(db, host, damage, django_assert_num_queries):
    _, plaintext = issue_token(scope=Scope.INGEST, host=host)
    damaged = damage(plaintext)
    if damaged == plaintext:
        damaged = plaintext[:30] + "B" + plaintext[31:]

    with django_assert_num_queries(0), pytest.raises(TokenRefused) as caught:
        read_token(damaged)

    assert caught.value.code == "token-malformed"


@pytest.mark.parametrize("text", ["", "bench_", "x" * 70, "bench_" + "é" * 64, "bench_aaaaaaaaaaaa_"])
def test_what_is_no_token_is_no_token(text: str) -> None:
    assert parse_token(text) is None


def test_revoked_token_is_rejected_and_revoking_is_idempotent(host: Host) -> None:
    row, plaintext = issue_token(scope=Scope.INGEST, host=host)

    assert revoke_token(row.public_id) is True
    assert revoke_token(row.public_id) is False
    with pytest.raises(TokenRefused, match="revoked") as caught:
        read_token(plaintext)
    assert caught.value.code == "token-revoked"


def test_expired_token_is_rejected(host: Host) -> None:
    _, plaintext = issue_token(
        scope=Scope.INGEST, host=host, expires_at=timezone.now() - timedelta(seconds=1)
    )

    with pytest.raises(TokenRefused, match="expired") as caught:
        read_token(plaintext)

    assert caught.value.code == "token-expired"


def test_two_tokens_of_a_host_overlap_while_one_is_rotated(host: Host) -> None:
    old_row, old = issue_token(scope=Scope.INGEST, host=host)
    _, new = issue_token(scope=Scope.INGEST, host=host)

    assert read_token(old).host_id == read_token(new).host_id
    revoke_token(old_row.public_id)
    assert read_token(new).host_id == host.pk


def test_token_of_a_retired_host_is_refused(host: Host) -> None:
    _, plaintext = issue_token(scope=Scope.INGEST, host=host)
    Host.objects.update(retired_at=timezone.now())

    with pytest.raises(TokenRefused, match="retired"):
        read_token(plaintext)


def test_use_is_noted_at_most_every_ten_minutes(host: Host) -> None:
    row, plaintext = issue_token(scope=Scope.INGEST, host=host)

    read_token(plaintext)
    first = ApiToken.objects.get(pk=row.pk).last_used_at
    read_token(plaintext)

    assert first is not None
    assert ApiToken.objects.get(pk=row.pk).last_used_at == first
    assert Host.objects.get().last_seen_at == first


def test_use_of_a_token_without_host_is_not_a_sight_of_a_host(host: Host) -> None:
    _, plaintext = issue_token(scope=Scope.ADMIN)

    read_token(plaintext)

    assert Host.objects.get().last_seen_at is None
