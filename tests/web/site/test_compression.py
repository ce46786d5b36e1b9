"""Pages are compressed, except those with secrets."""

import gzip

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import add_series, make_host

pytestmark = pytest.mark.django_db
GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.mark.parametrize(
    "page", ["home", "matrix", "scaling", "history", "series_list", "incidents", "hosts", "runs"]
)
def test_page_is_compressed_for_clients_that_accept_it(page: str, viewer: Client) -> None:
    add_series([1.0])

    plain = viewer.get(reverse(page))
    packed = viewer.get(reverse(page), headers=GZIP)

    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert len(packed.content) < len(plain.content) / 2
    assert b"</html>" in gzip.decompress(packed.content)


@pytest.mark.parametrize("page", ["account", "people", "tokens", "studies", "subscriptions"])
def test_page_with_lasting_secrets_is_not_compressed(page: str, admin: Client) -> None:
    assert "Content-Encoding" not in admin.get(reverse(page), headers=GZIP).headers


def test_page_is_not_compressed_while_it_shows_a_new_token(admin: Client) -> None:
    host = make_host("db-1")
    admin.post(reverse("make_host_token", args=[host.name]), {"label": "cron"})

    with_token = admin.get(reverse("host", args=[host.name]), headers=GZIP)
    without = admin.get(reverse("host", args=[host.name]), headers=GZIP)

    assert "Content-Encoding" not in with_token.headers
    assert b"bench_" in with_token.content
    assert without.headers["Content-Encoding"] == "gzip"


def test_shared_study_and_sign_in_are_not_compressed(client: Client) -> None:
    for path in ("/sign-in/", "/shared/no-such-token/"):
        assert "Content-Encoding" not in client.get(path, headers=GZIP).headers
