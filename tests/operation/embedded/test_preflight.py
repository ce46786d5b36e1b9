import json
import os
import signal
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from benchapp.operation.embedded.preflight import (
    Address,
    PortTaken,
    PreflightFailed,
    check_code,
    check_disk,
    check_writable,
    choose_address,
    read_instance,
    read_start_time,
    stop_leftovers,
)


@pytest.fixture
def serve():
    """Serve one JSON answer on a free port; yield a function that starts it and returns the port."""
    servers = []

    def start(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_free_port_asked_for_is_taken():
    port = find_free_port()

    assert choose_address("127.0.0.1", port) == Address("127.0.0.1", port)


def test_port_of_another_program_is_refused_in_words(serve):
    port = serve({"hello": "world"})

    with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use by another program.*--port"):
        choose_address("127.0.0.1", port)


def test_port_of_another_instance_is_refused_with_its_name(serve):
    port = serve({"status": "ok", "instance": "beef01"})

    with pytest.raises(PortTaken, match=r"another benchapp \(instance beef01\)"):
        choose_address("127.0.0.1", port)


def test_port_that_nobody_answers_on_but_somebody_holds_is_refused():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        holder.settimeout(0.1)

        with pytest.raises(PortTaken, match="another program"):
            choose_address("127.0.0.1", holder.getsockname()[1])


def test_without_a_wish_the_next_free_port_is_taken(serve):
    port = serve({"hello": "world"})

    assert choose_address("127.0.0.1", None, first_port=port).port > port


def test_address_of_another_machine_is_refused():
    with pytest.raises(PreflightFailed, match=r"cannot listen on 192\.0\.2\.1"):
        choose_address("192.0.2.1", 8000)


@pytest.mark.parametrize(
    ("host", "url", "is_loopback"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", True),
        ("localhost", "http://localhost:8000", True),
        ("0.0.0.0", "http://127.0.0.1:8000", False),
        ("::1", "http://[::1]:8000", True),
        ("::", "http://[::1]:8000", False),
        ("192.0.2.7", "http://192.0.2.7:8000", False),
    ],
)
def test_address_to_open_on_this_machine(host, url, is_loopback):
    address = Address(host, 8000)

    assert (address.url, address.is_loopback) == (url, is_loopback)


@pytest.mark.parametrize(
    ("answer", "instance"),
    [
        ({"status": "ok", "instance": "x1"}, "x1"),
        ({"status": "ok", "instance": ""}, ""),
        ({"status": "ok"}, None),
        ([1], None),
    ],
)
def test_instance_is_read_from_healthz(serve, answer, instance):
    assert read_instance(Address("127.0.0.1", serve(answer))) == instance


def test_nearly_full_disk_is_refused(place):
    with pytest.raises(PreflightFailed, match=r"MiB free, \d+ MiB are needed.*--data-dir"):
        check_disk(place, needed_bytes=2**60)


def test_data_directory_in_the_way_of_a_file_is_refused(place):
    (place / "file").write_text("")

    with pytest.raises(PreflightFailed, match="cannot write to"):
        check_writable(place / "file" / "var")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to run servers as")
def test_python_and_checkout_that_the_account_cannot_read_are_refused_with_the_way_out(place, account):
    closed = place / "closed"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin" / "python").symlink_to("/bin/sh")
    (closed / "manage.py").write_text("")
    closed.chmod(0o700)

    with pytest.raises(PreflightFailed, match=rf"cannot read {closed}\.\n.*install python3(.|\n)*AS_ROOT=1"):
        check_code(str(closed / "bin" / "python"), account)
    with pytest.raises(PreflightFailed, match=rf"cannot read {closed}\.\n.*clone into(.|\n)*AS_ROOT=1"):
        check_code("/bin/false", account, closed)


def test_leftover_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr("benchapp.operation.embedded.preflight._OTHERS_PATIENCE_S", 0.1)
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)

    ended = stop_leftovers({"worker": (process.pid, read_start_time(process.pid))})

    assert ended == ["worker"]
    assert process.wait() == -signal.SIGKILL


def test_worker_that_does_not_end_is_killed_before_the_patience_with_postgresql_is_over(monkeypatch):
    monkeypatch.setattr("benchapp.operation.embedded.preflight._OTHERS_PATIENCE_S", 0.1)
    reader, writer = os.pipe()
    worker = subprocess.Popen(["sleep", "600"], start_new_session=True, pass_fds=[writer])
    # Ends with status 0 once the worker, which has the other end of its input, is gone.
    database = subprocess.Popen(["cat"], start_new_session=True, stdin=reader)
    os.close(reader)
    os.close(writer)

    ended = stop_leftovers(
        {
            "PostgreSQL": (database.pid, read_start_time(database.pid)),
            "worker": (worker.pid, read_start_time(worker.pid)),
        }
    )

    assert ended == ["worker"]
    assert (worker.wait(), database.wait()) == (-signal.SIGKILL, 0)


def test_process_that_took_the_number_of_a_leftover_is_left_alone():
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)

    ended = stop_leftovers({"worker": (process.pid, read_start_time(process.pid) - 5)})

    assert ended == []
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
