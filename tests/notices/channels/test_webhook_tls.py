"""Webhooks over TLS: the connection goes to the judged address, the certificate must be of the name."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from benchapp.notices.channels.posting import post_json
from benchapp.notices.channels.transport import NotDelivered
from tests.hook_server import HookServer, serve_hook

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl to make a certificate with"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate of hooks.example.org, self-signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += [
        "-days",
        "2",
        "-subj",
        "/CN=hooks.example.org",
        "-addext",
        "subjectAltName=DNS:hooks.example.org",
    ]
    subprocess.run([*argv, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def hook(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[HookServer]:
    """Run a receiver with TLS; every name leads to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with serve_hook(context) as server:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        yield server


def post(hook: HookServer, name: str) -> str:
    allowed = (ip_network("127.0.0.0/8"),)
    with override_settings(WEBHOOK_PORTS=(hook.port,), WEBHOOK_ALLOW_PRIVATE=allowed):
        return post_json(f"https://{name}:{hook.port}/x", {"a": 1}, message_id="m", secret="")


def test_certificate_of_the_name_is_accepted(
    hook: HookServer, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

    assert post(hook, "hooks.example.org") == "delivered: answered 204"
    assert hook.requests[0].headers["host"] == f"hooks.example.org:{hook.port}"


@pytest.mark.parametrize(("name", "is_trusted"), [("other.example.org", True), ("hooks.example.org", False)])
def test_certificate_of_another_name_or_authority_is_rejected(
    hook: HookServer,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_trusted: bool,
) -> None:
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

    with pytest.raises(NotDelivered, match="its certificate is not trusted"):
        post(hook, name)

    assert hook.requests == []
