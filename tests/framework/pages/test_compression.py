"""Pages are compressed, except those with secrets."""

import gzip

import brotli
import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import add_series, make_host

pytestmark = pytest.mark.django_db
GZIP = {"Accept-Encoding": "gzip, deflate"}
BROTLI = {"Accept-Encoding": "gzip, deflate, br"}


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


def test_brotli_is_preferred(viewer: Client) -> None:
    add_series([1.0])

    packed = viewer.get(reverse("matrix"), headers=BROTLI)

    assert packed.headers["Content-Encoding"] == "br"
    assert packed.headers["Content-Length"] == str(len(packed.content))
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert b"</html>" in brotli.decompress(packed.content)


@pytest.mark.parametrize(
    ("accepted", "sent"),
    [
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.0, gzip", "gzip"),
        ("br;q=0.5, gzip", "br"),
        ("brotli", None),
        ("", None),
    ],
)
def test_encoding_is_one_that_the_client_accepts(accepted: str, sent: str | None, viewer: Client) -> None:
    answer = viewer.get(reverse("matrix"), headers={"Accept-Encoding": accepted})

    assert answer.headers.get("Content-Encoding") == sent


@pytest.mark.parametrize("page", ["account", "people", "tokens", "studies", "subscriptions"])
def test_page_with_lasting_secrets_is_not_compressed(page: str, admin: Client) -> None:
    assert "Content-Encoding" not in admin.get(reverse(page), headers=BROTLI).headers


def test_page_is_not_compressed_while_it_shows_a_new_token(admin: Client) -> None:
    host = make_host("db-1")
    admin.post(reverse("make_host_token", args=[host.name]), {"label": "cron"})

    with_token = admin.get(reverse("host_settings", args=[host.name]), headers=BROTLI)
    without = admin.get(reverse("host_settings", args=[host.name]), headers=BROTLI)

    assert "Content-Encoding" not in with_token.headers
    assert b"bench_" in with_token.content
    assert without.headers["Content-Encoding"] == "br"


def test_shared_study_and_sign_in_are_not_compressed(client: Client) -> None:
    for path in ("/sign-in/", "/shared/no-such-token/"):
        assert "Content-Encoding" not in client.get(path, headers=BROTLI).headers
