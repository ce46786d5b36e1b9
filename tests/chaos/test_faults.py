"""Each server is killed, frozen, full or emptied: nothing is lost or stored twice, and no person is needed.

The stack runs throughout: what one fault leaves behind, the next one meets. A test starts what was killed, as the
supervisor of `make up` does (tests/operation/embedded); tests/chaos/test_chaos.py has poison and kills under load.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from redis import Redis

from benchapp.operation.embedded.child import spawn
from benchapp.operation.embedded.preflight import worker_command
from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import ROOT, Servers, wait_for

pytestmark = pytest.mark.chaos
# With sweeps every second; on a busy machine processes start slowly.
RECOVERY_S = 60
# A client of a server that hangs waits: the fault ends after this time.
FAULT_S = 4
# Room for the cluster and some results.
DISK_MIB = 256

Heal = Callable[[], object]


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    disk = servers.directory / "pg"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
    has_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_web()
        start_worker(servers)
        yield servers
    finally:
        servers.stop(keeps_directory=True)
        if has_disk:
            subprocess.run(["umount", str(disk)], check=True)
        shutil.rmtree(servers.directory, ignore_errors=True)


def start_worker(servers: Servers) -> None:
    """Start the worker of `make up`, whose beat is a thread."""
    servers.processes["worker"] = spawn(
        worker_command(servers.directory / "beat"),
        log=servers.directory / "worker.log",
        account=None,
        env=servers.env("worker"),
        cwd=ROOT,
    )


@pytest.fixture(scope="module")
def token(stack: Servers) -> str:
    return stack.issue_token()


def post_results(stack: Servers, token: str, count: int = 5) -> list[str]:
    """Post results and return the ids of those that were accepted."""
    ids = [str(uuid4()) for _ in range(count)]
    return [
        each
        for each in ids
        if stack.post("/api/v1/submissions", pack_envelope(id=each), token)[0] in (200, 202)
    ]


def wait_stored(stack: Servers, ids: list[str]) -> None:
    """Wait until each of these is stored, and none twice."""
    runs = "SELECT count(DISTINCT submission_id) FROM benchapp_run WHERE submission_id = ANY(%s::uuid[])"
    wait_for(lambda: stack.query(runs, ids) == [(len(ids),)], within_s=RECOVERY_S, what="all are stored")
    assert stack.query("SELECT submission_id FROM benchapp_run GROUP BY 1 HAVING count(*) > 1") == []


def wait_well(stack: Servers) -> None:
    """Wait until the tasks of beat reach the worker through the broker."""
    wait_for(
        lambda: (stack.get("/readyz")[1] or {}).get("status") == "ok",
        within_s=RECOVERY_S,
        what="readiness is ok",
    )


def list_children(pid: int) -> list[int]:
    """Return the children of a process, without the substitute of a worker."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if b"drain" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def send(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        # PostgreSQL ends some of its processes by itself.
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(*pids: int) -> Heal:
    """Stop processes as a debugger does; the returned function lets them go on."""
    send(signal.SIGSTOP, list(pids))
    return lambda: send(signal.SIGCONT, list(pids))


def kill_broker(stack: Servers) -> Heal:
    stack.kill("valkey")
    return stack.start_valkey


def freeze_broker(stack: Servers) -> Heal:
    return freeze(stack.processes["valkey"].pid)


def fill_broker(stack: Servers) -> Heal:
    broker = Redis(unix_socket_path=str(stack.valkey.socket))
    broker.config_set("maxmemory", 1)
    return lambda: broker.config_set("maxmemory", 2**26)


def wipe_broker(stack: Servers) -> Heal:
    with Redis(unix_socket_path=str(stack.valkey.socket)) as broker:
        broker.flushall()
    return lambda: None


def kill_child(stack: Servers) -> Heal:
    send(signal.SIGKILL, list_children(stack.processes["worker"].pid))
    return lambda: None


def freeze_child(stack: Servers) -> Heal:
    return freeze(*list_children(stack.processes["worker"].pid))


def start_second_beat(stack: Servers) -> Heal:
    argv = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "benchapp",
        "beat",
        "--schedule",
        str(stack.directory / "beat-2"),
    ]
    stack.processes["beat"] = spawn(
        argv, log=stack.directory / "beat.log", account=None, env=stack.env("beat"), cwd=ROOT
    )
    return lambda: stack.kill("beat")


@pytest.mark.parametrize(
    "strike",
    [wipe_broker, start_second_beat, fill_broker, freeze_broker, kill_broker, kill_child, freeze_child],
)
def test_results_are_stored_during_the_fault(
    stack: Servers, token: str, strike: Callable[[Servers], Heal]
) -> None:
    wait_well(stack)

    heal = strike(stack)
    try:
        ids = post_results(stack, token)
        assert len(ids) == 5
        wait_stored(stack, ids)
    finally:
        heal()

    wait_well(stack)
    wait_stored(stack, post_results(stack, token))


def kill_worker(stack: Servers) -> Heal:
    stack.kill("worker")
    return lambda: start_worker(stack)


def freeze_worker(stack: Servers) -> Heal:
    return freeze(stack.processes["worker"].pid)


def kill_web(stack: Servers) -> Heal:
    stack.kill("web")
    return stack.start_web


def freeze_web(stack: Servers) -> Heal:
    pid = stack.processes["web"].pid
    return freeze(pid, *list_children(pid))


def kill_postgresql(stack: Servers) -> Heal:
    stack.kill("postgres")
    return stack.start_postgres


def freeze_postgresql(stack: Servers) -> Heal:
    pid = stack.processes["postgres"].pid
    return freeze(pid, *list_children(pid))


def use_up_connections(stack: Servers) -> Heal:
    connections = ExitStack()
    address = {"host": str(stack.postgres.socket_directory), "user": "benchapp", "dbname": "benchapp"}
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        while True:
            connections.enter_context(psycopg.connect(**address))
    return connections.close


def fill_disk(stack: Servers) -> Heal:
    disk = stack.directory / "pg"
    if not os.path.ismount(disk):
        pytest.skip("a small disk cannot be mounted here")
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(2**20))

    def heal() -> None:
        filler.unlink()
        if stack.processes["postgres"].poll() is not None:
            stack.start_postgres()

    return heal


@pytest.mark.parametrize(
    "strike",
    [
        *(kill_worker, freeze_worker, kill_web, freeze_web, kill_postgresql, freeze_postgresql),
        *(use_up_connections, fill_disk),
    ],
)
def test_what_was_accepted_during_the_fault_is_stored_after_it(
    stack: Servers, token: str, strike: Callable[[Servers], Heal]
) -> None:
    wait_well(stack)

    heal = strike(stack)
    with ThreadPoolExecutor(1) as client:
        posting = client.submit(post_results, stack, token)
        wait([posting], timeout=FAULT_S)
        heal()
        ids = posting.result()

    wait_stored(stack, ids)
    wait_well(stack)
    later: list[str] = []
    # Right after an outage of the database some posts are refused (503), and agents send them again.
    wait_for(
        lambda: len(later.extend(post_results(stack, token)) or later) >= 5,
        within_s=RECOVERY_S,
        what="posts are accepted",
    )
    wait_stored(stack, later)
