"""Round trip to the server of a network filesystem."""

import socket
from collections.abc import Iterator

import pytest

from agent.storage.mounts import Mount
from agent.storage.network_storage import describe_round_trip, find_server, measure_round_trip


def mount(filesystem: str, source: str, options: str = "rw") -> Mount:
    return Mount("/srv", filesystem, source, options, "0:50")


@pytest.mark.parametrize(
    ("mounted", "server"),
    [
        (mount("nfs4", "filer:/vol/a"), ("filer", 2049)),
        (mount("nfs", "filer:/vol/a", "rw,vers=3,addr=192.0.2.7,mountport=635"), ("192.0.2.7", 2049)),
        (mount("nfs4", "filer:/vol", "rw,port=20049,addr=192.0.2.7"), ("192.0.2.7", 20049)),
        (mount("nfs4", "filer:/vol", "rw,port=0"), ("filer", 2049)),
        (mount("nfs4", "[2001:db8::7]:/vol"), ("2001:db8::7", 2049)),
        (mount("cifs", "//filer.example.com/share"), ("filer.example.com", 445)),
        (mount("cifs", "//filer/share", "rw,addr=192.0.2.8"), ("192.0.2.8", 445)),
        (mount("nfs4", "odd"), None),
        (mount("ext4", "/dev/sda1"), None),
    ],
)
def test_server_is_read_from_the_mount(mounted: Mount, server: tuple[str, int] | None) -> None:
    assert find_server(mounted) == server


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_round_trip_is_measured(listener: socket.socket) -> None:
    taken_s = measure_round_trip(("127.0.0.1", listener.getsockname()[1]))

    assert taken_s is not None
    assert 0 < taken_s < 1


def test_unreachable_server_has_no_round_trip() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert measure_round_trip(("127.0.0.1", port)) is None


def test_local_filesystem_has_no_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.storage.network_storage.find_mount", lambda path: mount("ext4", "/dev/sda1"))

    assert describe_round_trip("/srv") == {}


def test_unreachable_network_filesystem_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.storage.network_storage.find_mount", lambda path: mount("nfs4", "filer:/vol"))
    monkeypatch.setattr("agent.storage.network_storage.measure_round_trip", lambda server: None)

    assert describe_round_trip("/srv") == {"storage_round_trip_s": None}
