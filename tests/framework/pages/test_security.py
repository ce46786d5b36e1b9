"""Headers of every answer, and who is really asking."""

import gzip
from ipaddress import ip_network

import brotli
import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from benchapp.framework.pages.security import CONTENT_SECURITY_POLICY, read_client_address
from tests.factories import add_series, make_host


def test_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/nowhere/", "/docs/errors", "/agent/bench-agent.pyz"])
def test_every_answer_carries_the_policies(path: str) -> None:
    response = Client().get(path)

    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert "camera=()" in response["Permissions-Policy"]
    assert response["Referrer-Policy"] == "same-origin"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    ("remote", "forwarded", "address"),
    [
        ("203.0.113.9", "198.51.100.7", "203.0.113.9"),
        ("10.0.0.2", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.2", "6.6.6.6, 198.51.100.7, 10.0.0.3", "198.51.100.7"),
        ("10.0.0.2", "", "10.0.0.2"),
        ("10.0.0.2", "rubbish", "rubbish"),
        ("", "198.51.100.7", "unknown"),
    ],
    ids=[
        "stranger lies",
        "one proxy",
        "rightmost hop that is not ours",
        "proxy itself",
        "rubbish",
        "unix socket",
    ],
)
def test_address_is_the_rightmost_hop_that_is_not_our_proxy(
    remote: str, forwarded: str, address: str, settings
) -> None:
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8")]
    request = RequestFactory().get("/", REMOTE_ADDR=remote, headers={"X-Forwarded-For": forwarded})

    assert read_client_address(request) == address


@pytest.fixture
def behind_tls_proxy(settings):
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.1")]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_SSL_REDIRECT = True


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/api/v1/hosts"])
def test_tls_proxy_that_is_not_trusted_gets_an_error_that_names_it_and_the_setting(
    behind_tls_proxy, path: str, caplog
) -> None:
    response = Client(REMOTE_ADDR="10.0.0.2", headers={"X-Forwarded-Proto": "https"}).get(path)

    assert response.status_code == 400
    assert "TLS proxy 10.0.0.2 is not trusted" in response.content.decode()
    assert "BENCHAPP_TRUSTED_PROXIES" in response.content.decode()
    assert response["X-Frame-Options"] == "DENY"
    assert "'peer': '10.0.0.2', 'event': 'proxy.not_trusted'" in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("peer", "headers", "path", "status"),
    [
        ("10.0.0.1", {"X-Forwarded-Proto": "https"}, "/sign-in/", 200),
        ("10.0.0.1", {"X-Forwarded-Proto": "http"}, "/sign-in/", 301),
        ("10.0.0.2", {}, "/sign-in/", 301),
        ("10.0.0.2", {"X-Forwarded-Proto": "https"}, "/healthz", 200),
    ],
    ids=["proxy with TLS", "proxy without TLS", "no proxy", "health check"],
)
def test_requests_without_tls_are_redirected_to_tls(
    behind_tls_proxy, peer: str, headers: dict[str, str], path: str, status: int
) -> None:
    response = Client(REMOTE_ADDR=peer, headers=headers).get(path)

    assert response.status_code == status
    assert response.get("Location", "https://testserver/sign-in/") == "https://testserver/sign-in/"


HOSTILE = ["%00", "9" * 30, "%ED%A0%80", "../../etc/passwd", "<script>", "a" * 3000, "%0d%0aX:1", "-1", "NaN"]
QUERIES = {
    "/runs/": ("host", "pool", "profile", "rw", "from", "to", "text", "failed", "after"),
    "/series/": ("host", "pool", "rw", "direction", "text", "after"),
    "/hosts/": ("text", "retired", "after"),
    "/uploads/": ("state", "reason", "after"),
    "/sign-in/": ("next",),
}
PATHS = ("/runs/{}/", "/runs/{}/output", "/series/{}/", "/hosts/{}/", "/uploads/{}/", "/setup/{}/")


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:20])
def test_hostile_addresses_are_never_a_fault(value: str, viewer: Client) -> None:
    addresses = [f"{path}?{name}={value}" for path, names in QUERIES.items() for name in names]
    addresses += [path.format(value) for path in PATHS]

    statuses = {address: viewer.get(address).status_code for address in addresses}

    assert {address: status for address, status in statuses.items() if status >= 500} == {}


@pytest.mark.parametrize(
    "path",
    [
        "/hosts/add",
        "/hosts/db-01/token",
        "/hosts/db-01/pool",
        "/tokens/add",
        "/people/invite",
        "/uploads/retry",
        "/uploads/add",
        "/account/",
    ],
)
@pytest.mark.parametrize("value", ["\x00", "a" * 3000, "<script>", ""], ids=["NUL", "long", "HTML", "empty"])
def test_hostile_forms_are_never_a_fault(path: str, value: str, admin: Client) -> None:
    make_host("db-01")
    fields = (
        "name",
        "label",
        "pool",
        "role",
        "scope",
        "reason",
        "host",
        "layout",
        "old_password",
        "new_password1",
    )

    response = admin.post(path, dict.fromkeys(fields, value))

    assert response.status_code in (200, 302, 400)
    if response.status_code == 302:
        assert "<script>" not in admin.get(response["Location"]).content.decode()


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
