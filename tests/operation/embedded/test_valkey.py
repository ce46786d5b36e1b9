import stat

from benchapp.operation.embedded import servers as valkey_module
from benchapp.operation.embedded.child import stop
from benchapp.operation.embedded.servers import Valkey, choose_broker, find_bundled, read_version


def make_server(directory, name, version_line):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{version_line}'\n")
    path.chmod(0o755)
    return path


def test_given_broker_comes_first(place, account):
    make_server(place, "valkey-server", "Valkey server v=9.0.1 sha=0")

    broker = choose_broker({"BROKER_URL": "redis://there:6379/0", "PATH": str(place)}, account)

    assert (broker.url, broker.binary) == ("redis://there:6379/0", None)


def test_server_on_path_comes_second(place, account):
    server = make_server(
        place, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"
    )

    broker = choose_broker({"PATH": str(place)}, account)

    assert broker.binary == server
    assert broker.description == f"{server} 7.0"


def test_valkey_on_path_is_preferred_to_redis(place, account):
    make_server(place, "redis-server", "Redis server v=7.0.15")
    server = make_server(place, "valkey-server", "Valkey server v=8.1.1")

    assert choose_broker({"PATH": str(place)}, account).binary == server


def test_old_server_on_path_is_passed_over(place, account):
    make_server(place, "redis-server", "Redis server v=6.0.16 sha=00000000:0")

    broker = choose_broker({"PATH": str(place)}, account)

    assert broker.binary == find_bundled(account)


def test_broken_server_on_path_is_passed_over(place, account):
    make_server(place, "redis-server", "Segmentation fault")

    assert read_version(place / "redis-server") is None
    assert choose_broker({"PATH": str(place)}, account).binary == find_bundled(account)


def test_no_server_at_all_leaves_the_drain_loop(place, account, monkeypatch):
    monkeypatch.setattr(valkey_module, "find_bundled", lambda account: None)

    broker = choose_broker({"PATH": str(place)}, account)

    assert (broker.url, broker.binary) == ("", None)
    assert "polls for submissions" in broker.description


def test_server_refuses_when_full_and_keeps_its_socket_private(place, account):
    valkey = Valkey(find_bundled(account), place / "run", place / "log", account)

    process = valkey.start()

    import kombu

    with kombu.Connection(valkey.url) as connection:
        client = connection.channel().client
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("port") == {"port": "0"}
    assert stat.S_IMODE(valkey.socket_directory.stat().st_mode) == 0o700
    assert stop(process) == 0
    assert not valkey.is_ready()


def test_second_start_takes_over_the_socket_that_a_kill_left(place, account):
    valkey = Valkey(find_bundled(account), place / "run", place / "log", account)
    first = valkey.start()
    first.kill()
    first.wait()

    second = valkey.start()

    assert valkey.is_ready()
    stop(second)
