"""Headers of every answer, and who is really asking."""

import asyncio

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from benchapp.web.security import CONTENT_SECURITY_POLICY, content_security_policy, read_client_address


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


def test_policy_is_added_in_an_asynchronous_stack_too() -> None:
    async def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse("")

    response = asyncio.run(content_security_policy(answer)(RequestFactory().get("/")))  # type: ignore[arg-type]

    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY


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
    ids=["stranger lies", "one proxy", "rightmost hop that is not ours", "proxy itself", "rubbish", "unix socket"],
)
def test_address_is_the_rightmost_hop_that_is_not_our_proxy(
    remote: str, forwarded: str, address: str, settings
) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    request = RequestFactory().get("/", REMOTE_ADDR=remote, headers={"X-Forwarded-For": forwarded})

    assert read_client_address(request) == address
