"""fio client/server: each host is one client, in text as in JSON, and a missing one is named."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from benchapp.fio import read_output
from benchapp.fio.merging.jobs import total_up
from benchapp.fio.report import Report
from tests.fio.outputs import read_bytes
from tests.ports import find_free_port

JOBS = (
    "[global]\ndirectory={directory}\nsize=1m\nrw=randread\nbs=4k\ntime_based\nruntime=1\n[vol]\nnumjobs=2\n"
)


def list_missing(report: Report) -> list[str]:
    return [note.message.rpartition(" ")[2] for note in report.warnings if note.code == "client-missing"]


def test_server_that_is_not_reached_is_named() -> None:
    text = b"fio: connect: Connection refused\nfio: failed to connect to 10.0.0.2:8765\n"

    assert list_missing(read_output(text + read_bytes("generated/60_client_json.out"))) == ["10.0.0.2"]
    assert list_missing(read_output(read_bytes("generated/60_client_json.out"))) == []


def test_server_that_greeted_the_client_without_results_is_named() -> None:
    text = read_bytes("generated/63_client_two_normal.out").decode()
    other = text.replace("<vm> csjob", "<db-2> csjob", 1)

    assert list_missing(read_output(other.encode())) == ["db-2"]
    assert list_missing(read_output(text.encode())) == []


def test_server_that_has_options_but_no_results_is_named() -> None:
    text = read_bytes("generated/62_client_two_json.out").decode()
    report = json.loads(text[text.index("{") :])
    report["global options"] = [{"hostname": "127.0.0.1", "port": 8765}, {"hostname": "db-2", "port": 8765}]

    assert list_missing(read_output(json.dumps(report).encode())) == ["db-2"]


def test_name_of_a_server_does_not_depend_on_the_others_that_answer() -> None:
    text = read_bytes("generated/62_client_two_json.out").decode()
    report = json.loads(text[text.index("{") :])

    def list_names(ports: set[int]) -> list[str | None]:
        kept = [entry for entry in report["client_stats"] if entry["port"] in ports]
        (document,) = read_output(json.dumps(report | {"client_stats": kept}).encode()).documents
        return sorted({str(group.hostname) for group in document.groups})

    assert list_names({8765, 8766}) == ["127.0.0.1", "127.0.0.1:8766"]
    assert list_names({8765}) == ["127.0.0.1"]
    assert list_names({8766}) == ["127.0.0.1:8766"]


def read_two_hosts(*results: str) -> list[tuple[str | None, int]]:
    """Return host and number of each server; results: the lines that announce a server, and "=" for its results."""
    text = read_bytes("generated/63_client_two_normal.out").decode()
    head, first, second = (text[: (at := text.index("csjob: (groupid"))], *split_results(text[at:]))
    head = head.rsplit("Jobs: ", 1)[0].replace("hostname=vm", "hostname=db-2", 1)
    head = head.replace("<vm> csjob", "<db-2> csjob", 1)
    parts = iter((first, second))
    body = "".join(next(parts) if line == "=" else f"{line} \n" for line in results)
    (document,) = read_output((head + body).encode()).documents
    return [(group.hostname, group.server_number) for group in document.groups]


def split_results(text: str) -> tuple[str, str]:
    """Return the results of two servers."""
    second = text.index("csjob: (groupid", text.index("Run status group"))
    return text[:second].replace("<vm> \n", ""), text[second:]


def test_results_are_of_the_server_that_announced_them() -> None:
    assert read_two_hosts("<vm>", "=", "<db-2>", "=") == [("vm", 0), ("db-2", 0)]
    # After a status line without an end.
    assert read_two_hosts("Jobs: 0 (f=0)<db-2>", "=", "<vm>", "=") == [("db-2", 0), ("vm", 0)]


def test_results_that_several_servers_announced_at_once_are_of_none_of_them() -> None:
    # fio's client prints them in any order.
    assert read_two_hosts("<vm>", "<db-2>", "=", "=") == [("db-2, vm", 1), ("db-2, vm", 2)]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Report]]:
    """Measure with two servers of this host, once for each format."""
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("needs fio")
    place = tmp_path_factory.mktemp("clients")
    job_file = place / "jobs.fio"
    job_file.write_text(JOBS.format(directory=place))
    ports = [find_free_port(), find_free_port()]
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(run_server(fio, port, place))
        yield {name: read_output(run_client(fio, ports, job_file, name)) for name in ("json", "normal")}


def run_client(fio: str, ports: list[int], job_file: Path, output_format: str) -> bytes:
    named = [text for port in ports for text in (f"--client=127.0.0.1,{port}", str(job_file))]
    return subprocess.run(
        [fio, *named, f"--output-format={output_format}"],
        check=True,
        capture_output=True,
        timeout=120,
        cwd=job_file.parent,
    ).stdout


@contextmanager
def run_server(fio: str, port: int, place: Path) -> Iterator[None]:
    """Run a server until the end of the block; it answers when the block begins."""
    with subprocess.Popen(
        [fio, f"--server=127.0.0.1,{port}"],
        cwd=place,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            while server.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("output_format", ["json", "normal"])
def test_servers_of_a_host_are_kept_and_add_up_to_all_clients_in_each_format(
    outputs: dict[str, Report], output_format: str
) -> None:
    (document,) = outputs[output_format].documents
    (total,) = total_up(document.groups)
    (of_fio,) = [job for job in document.jobs if job.is_aggregate]

    (ours,), (theirs,) = total.directions, of_fio.directions
    assert [group.numjobs for group in document.groups] == [2, 2]
    assert len({(group.hostname, group.server_number) for group in document.groups}) == 2
    assert ours.total_ios == theirs.total_ios
    # fio divides by the longest run time, which a busy machine extends; text has three or four digits.
    assert ours.total_ios / ours.runtime_s == pytest.approx(theirs.iops, rel=0.005)
    assert ours.iops == pytest.approx(sum(group.directions[0].iops for group in document.groups))
    assert list_missing(outputs[output_format]) == []
