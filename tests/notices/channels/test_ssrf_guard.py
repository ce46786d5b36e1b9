"""Webhooks are sent to the public internet, and to other networks only if the operator allows them."""

import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from benchapp.notices.channels.posting import (
    NameUnknown,
    is_allowed,
    read_url,
    refuse_private_number,
    resolve_address,
)
from benchapp.notices.channels.transport import AddressRefused

PORTS = (80, 443, 8443)


def answer_with(*addresses: str) -> Any:
    """Return a resolver that always gives these."""

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return look_up


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("https://hooks.example.org/a?b=c", "hooks.example.org", 443, "/a?b=c"),
        ("http://hooks.example.org", "hooks.example.org", 80, "/"),
        ("https://HOOKS.example.org.:8443/x#part", "hooks.example.org", 8443, "/x"),
        ("http://[2001:4860::8888]/", "2001:4860::8888", 80, "/"),
    ],
)
def test_url_is_read(text: str, host: str, port: int, path: str) -> None:
    url = read_url(text, ports=PORTS)

    assert (url.host, url.port, url.path) == (host, port, path)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "//example.org/",
        "example.org",
        "https://",
        "https:///path",
        "https://user:secret@example.org/",
        "https://user@example.org/",
        "https://example.org:22/",
        "https://example.org:99999/",
        "https://exa mple.org/",
        "https://example.org/\r\nHost: other",
        "https://example.org\\@evil.example/",
        "https://[fe80::1%25eth0]/",
        "https://example.org/" + "a" * 500,
        "https://exämple.org/",
    ],
)
def test_url_that_no_webhook_goes_to_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        read_url(text, ports=PORTS)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "168.63.129.16",
        "192.0.0.8",
        "192.0.0.192",
        "192.0.2.7",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:168.63.129.16",
        "::ffff:0:a00:1",
        "::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::a00:1",
        "64:ff9b:1:ffff::1",
        "2002:7f00:1::",
        "2002:a83f:8110::",
        "2001:0:7f00:1::",
        "2001:0:5db8:d70e::f5ff:fffe",
        "2001:1::1",
        "2001:2::1",
        "2001:3::1",
        "2001:4:112::1",
        "2001:10::1",
        "2001:20::1",
        "2001:30::1",
        "2620:4f:8000::1",
        "fe80::1",
        "fc00::1",
        "fd12:3456::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fec0::1",
        "feff::1",
        "ff02::1",
        "ff0e::1",
        "2001:db8::1",
        "3fff::1",
        "3fff:fff:ffff::1",
        "5f00::1",
        "100::1",
        "100:0:0:1::1",
        "200::1",
        "4000::1",
        "e000::1",
    ],
)
def test_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_allowed(ip_address(address), allowed=())


@pytest.mark.parametrize(
    "address",
    [
        "93.184.215.14",
        "2606:2800:21f:cb07::1",
        "::ffff:93.184.215.14",
        "168.63.129.17",
        "192.88.98.1",
        "2001:200::1",
        "3ffe:ffff::1",
    ],
)
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), allowed=())


def test_network_that_the_operator_named_is_allowed_and_no_other() -> None:
    allowed = (ip_network("10.7.0.0/16"),)

    assert is_allowed(ip_address("10.7.1.1"), allowed=allowed)
    assert is_allowed(ip_address("::ffff:10.7.1.1"), allowed=allowed)
    assert not is_allowed(ip_address("10.8.1.1"), allowed=allowed)
    assert not is_allowed(ip_address("127.0.0.1"), allowed=allowed)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("168.63.129.16", "168.63.0.0/16"),
        ("169.254.169.254", "169.254.0.0/16"),
        ("100.100.100.200", "100.64.0.0/10"),
        ("fd00:ec2::254", "fd00::/8"),
        ("::ffff:100.100.100.200", "100.64.0.0/10"),
    ],
)
def test_cloud_metadata_is_allowed_by_its_own_address_only(address: str, network: str) -> None:
    plain = address.removeprefix("::ffff:")

    assert not is_allowed(ip_address(address), allowed=(ip_network(network),))
    assert is_allowed(ip_address(address), allowed=(ip_network(plain),))


@pytest.mark.parametrize(
    ("address", "network", "embedded"),
    [
        ("64:ff9b::a07:101", "64:ff9b::/96", "10.7.1.1"),
        ("64:ff9b:1::a07:101", "64:ff9b:1::/48", "10.7.1.1"),
        ("2002:a07:101::1", "2002::/16", "10.7.1.1"),
        ("2001:0:5db8:d70e::f5f8:fefe", "2001::/32", "10.7.1.1"),
        ("64:ff9b::a9fe:a9fe", "64:ff9b::/96", "169.254.169.254"),
    ],
)
def test_translated_address_is_allowed_where_the_embedded_one_is_too(
    address: str, network: str, embedded: str
) -> None:
    assert not is_allowed(ip_address(address), allowed=(ip_network(network),))
    assert not is_allowed(ip_address(address), allowed=(ip_network(embedded),))
    assert is_allowed(ip_address(address), allowed=(ip_network(network), ip_network(embedded)))


def test_nat64_that_the_operator_named_leads_to_public_addresses() -> None:
    assert is_allowed(ip_address("64:ff9b::5db8:d70e"), allowed=(ip_network("64:ff9b::/96"),))


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1", "localhost"])
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    with pytest.raises((AddressRefused, NameUnknown)):
        resolve_address(read_url(f"http://{host}/", ports=PORTS), allowed=(), timeout_s=5)


def test_name_with_one_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answer_with("93.184.215.14", "10.0.0.1"))

    with pytest.raises(AddressRefused, match="not public") as refusal:
        resolve_address(read_url("http://mixed.example/", ports=PORTS), allowed=(), timeout_s=5)

    assert "10.0.0.1" not in str(refusal.value)


def test_name_that_is_unknown_may_be_known_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    with pytest.raises(NameUnknown):
        resolve_address(read_url("http://gone.example/", ports=PORTS), allowed=(), timeout_s=5)


@pytest.mark.parametrize("host", ["10.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]"])
def test_number_that_is_not_public_is_refused_without_asking_anybody(host: str) -> None:
    url = read_url(f"https://{host}/", ports=PORTS)

    with pytest.raises(AddressRefused, match="BENCHAPP_WEBHOOK_ALLOW_PRIVATE"):
        refuse_private_number(url, allowed=[])


@pytest.mark.parametrize("host", ["10.0.0.1", "8.8.8.8", "[2001:4860::8888]", "hooks.example.org"])
def test_number_that_is_allowed_and_every_name_may_be_written(host: str) -> None:
    url = read_url(f"https://{host}/", ports=PORTS)

    refuse_private_number(url, allowed=[ip_network("10.0.0.0/24")])
