"""Outdated versions."""

import pytest

from benchapp.storage.read.hosts import HostFilter, is_outdated, list_hosts
from tests.factories import make_host


@pytest.mark.parametrize(
    ("version", "shipped", "expected"),
    [
        ("0.9.9", "0.10.0", True),
        ("0.10.0", "0.10.0", False),
        ("0.11", "0.10.0", False),
        ("", "0.10.0", False),
        ("0.2.0rc1", "0.10.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version, shipped, expected):
    assert is_outdated(version, shipped) is expected


@pytest.mark.django_db
def test_hosts_with_an_outdated_agent_are_selected():
    for name, version in (("a", "0.9.0"), ("b", "0.10.0"), ("c", "")):
        make_host(name, agent_version=version)

    chosen = {
        wanted: [
            host.name for host in list_hosts(HostFilter(is_agent_outdated=wanted, shipped_version="0.10.0"))
        ]
        for wanted in (True, False, None)
    }

    assert chosen == {True: ["a"], False: ["b", "c"], None: ["a", "b", "c"]}
