"""Metadata services, from a service on loopback as documented by EC2, Google Cloud and Azure."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.environment.host_facts import ADDRESS, LIMIT_S, Instance, find_instance
from tests.agent.conftest import Machine, serve
from tests.agent.environment.metadata import AZURE_BODY, Metadata
from tests.agent.server import HostileServer
from tests.agent.storage.trees import write_tree

DMI = "sys/class/dmi/id"
EC2 = {f"{DMI}/sys_vendor": "Amazon EC2\n"}
GCP = {f"{DMI}/sys_vendor": "Google\n", f"{DMI}/product_name": "Google Compute Engine\n"}
AZURE = {
    f"{DMI}/sys_vendor": "Microsoft Corporation\n",
    f"{DMI}/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n",
}


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with serve(Metadata()) as service:
        yield service


def find(service: Metadata, tmp_path: Path, files: dict[str, str] | None = None) -> Instance | None:
    # The limit is of another test; this machine may be busy.
    return find_instance(root=write_tree(tmp_path, files or {}), address=service.address, limit_s=10)


@pytest.mark.parametrize(
    ("cloud", "firmware", "instance"),
    [
        ("ec2", EC2, Instance("ec2", "m5.2xlarge", "eu-central-1b")),
        ("gcp", GCP, Instance("gcp", "n2-standard-8", "europe-west4-a")),
        ("azure", AZURE, Instance("azure", "Standard_D4s_v5", "westeurope-2")),
        (
            "ec2",
            {f"{DMI}/sys_vendor": "Xen\n", f"{DMI}/bios_version": "4.11.amazon\n"},
            Instance("ec2", "m5.2xlarge", "eu-central-1b"),
        ),
        ("ec2", {}, Instance("ec2", "m5.2xlarge", "eu-central-1b")),
        ("gcp", {}, Instance("gcp", "n2-standard-8", "europe-west4-a")),
        ("azure", {}, Instance("azure", "Standard_D4s_v5", "westeurope-2")),
    ],
)
def test_instance_type_and_zone_are_read(
    metadata: Metadata, tmp_path: Path, cloud: str, firmware: dict[str, str], instance: Instance
) -> None:
    metadata.clouds = (cloud,)

    assert find(metadata, tmp_path, firmware) == instance


def test_only_the_cloud_named_by_dmi_is_queried(metadata: Metadata, tmp_path: Path) -> None:
    metadata.clouds = ("ec2", "gcp", "azure")

    find(metadata, tmp_path, EC2)

    assert metadata.seen == [
        ("PUT", "/latest/api/token"),
        ("GET", "/latest/meta-data/instance-type"),
        ("GET", "/latest/meta-data/placement/availability-zone"),
    ]


def test_machine_of_another_vendor_queries_no_service(metadata: Metadata, tmp_path: Path) -> None:
    metadata.clouds = ("ec2",)

    assert find(metadata, tmp_path, {f"{DMI}/sys_vendor": "Dell Inc.\n"}) is None
    assert metadata.seen == []


@pytest.mark.parametrize(
    "body", ["<html>Log in to the hotel</html>", "{", "[1]", '{"vmSize": 7}', "a b", "x" * 101]
)
@pytest.mark.parametrize("firmware", [EC2, GCP, AZURE, {}])
def test_response_of_another_service_is_unknown(
    metadata: Metadata, tmp_path: Path, body: str, firmware: dict[str, str]
) -> None:
    metadata.body = body

    assert find(metadata, tmp_path, firmware) is None


def test_service_without_values_is_unknown(metadata: Metadata, tmp_path: Path) -> None:
    assert find(metadata, tmp_path) is None
    assert len(metadata.seen) == 3


def test_azure_without_zones_gives_its_location(
    metadata: Metadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata.clouds = ("azure",)
    monkeypatch.setitem(AZURE_BODY, "zone", "")

    assert find(metadata, tmp_path, AZURE) == Instance("azure", "Standard_D4s_v5", "westeurope")


# Without its limit the agent would wait forever; a busy machine is slow.
MUCH_LONGER_S = 20.0


def listen() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(60)
    return server


def take_elapsed_s(address: tuple[str, int], tmp_path: Path) -> float:
    started = time.monotonic()
    assert find_instance(root=str(tmp_path), address=address) is None
    return time.monotonic() - started


def test_silent_service_takes_no_longer_than_the_limit(tmp_path: Path) -> None:
    with closing(listen()) as server:
        elapsed_s = take_elapsed_s(server.getsockname(), tmp_path)

    assert LIMIT_S == 0.2
    assert elapsed_s < MUCH_LONGER_S


def test_slow_service_takes_no_longer_than_the_limit(tmp_path: Path) -> None:
    """Each byte arrives within the time limit of a single read."""
    is_over = threading.Event()

    def send_slowly(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            try:
                while not is_over.wait(0.01):
                    connection.sendall(b"H")
            except OSError:
                return

    with closing(listen()) as server:
        thread = threading.Thread(target=send_slowly, args=(server,))
        thread.start()
        elapsed_s = take_elapsed_s(server.getsockname(), tmp_path)
        is_over.set()
        thread.join()

    assert elapsed_s < MUCH_LONGER_S


def test_refused_connection_is_unknown_immediately(tmp_path: Path) -> None:
    with closing(listen()) as server:
        address = server.getsockname()

    assert take_elapsed_s(address, tmp_path) < MUCH_LONGER_S


def test_large_response_is_truncated(tmp_path: Path) -> None:
    def send_endlessly(server: socket.socket) -> None:
        for _ in range(3):
            connection, _ = server.accept()
            with connection:
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"X-Y: " + b"z" * 10_000_000)
                except OSError:
                    continue

    with closing(listen()) as server:
        thread = threading.Thread(target=send_endlessly, args=(server,))
        thread.start()

        assert find_instance(root=str(tmp_path), address=server.getsockname(), limit_s=10) is None
        thread.join()


def test_address_is_link_local() -> None:
    """The address is not routed, and no option changes it."""
    assert ADDRESS == ("169.254.169.254", 80)


@pytest.fixture
def cloud_host(host: Machine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A host in a cloud; the list has the requests to its service."""
    requests: list[str] = []

    def find() -> Instance:
        requests.append("once")
        return Instance("ec2", "m5.2xlarge", "eu-central-1b")

    monkeypatch.setattr("agent.running.measure.find_instance", find)
    return requests


def test_no_service_is_queried_unless_enabled(
    host: Machine, server: HostileServer, cloud_host: list[str]
) -> None:
    host.measure()

    assert cloud_host == []
    assert "cloud" not in server.read_stored()["environment"]["facts"]


def test_option_enables_the_query_and_sets_the_instance_type(
    host: Machine, server: HostileServer, cloud_host: list[str]
) -> None:
    host.measure("--cloud")

    envelope = server.read_stored()
    assert cloud_host == ["once"]
    assert envelope["target"]["instance_type"] == "m5.2xlarge"
    assert envelope["environment"]["facts"]["cloud"] == {
        "provider": "ec2",
        "instance_type": "m5.2xlarge",
        "zone": "eu-central-1b",
    }


def test_configuration_enables_the_query_and_a_given_target_overrides_the_response(
    host: Machine, server: HostileServer, cloud_host: list[str]
) -> None:
    host.configure("run", cloud="yes")

    host.measure("--target", "instance_type=my.own")

    assert cloud_host == ["once"]
    assert server.read_stored()["target"]["instance_type"] == "my.own"


@pytest.mark.parametrize(("options", "is_shown"), [((), False), (("--serials",), True)])
def test_serial_numbers_are_sent_only_if_enabled(
    host: Machine, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_shown: bool
) -> None:
    seen = []

    def describe(path: str, *, sends_serials: bool) -> Any:
        from agent.storage.layout import Storage

        seen.append(sends_serials)
        return Storage({}, {}, {})

    monkeypatch.setattr("agent.running.measure.describe_storage", describe)

    host.measure(*options)

    assert seen == [is_shown]


def test_invalid_choice_is_refused(host: Machine) -> None:
    host.configure("run", cloud="perhaps")

    ended = host.measure()

    assert ended.returncode == 2
    assert "[run] cloud = perhaps: use yes or no" in ended.stderr
