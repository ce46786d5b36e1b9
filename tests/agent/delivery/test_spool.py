"""Results on disk: durable, bounded, locked."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.delivery.spool import Spool
from agent.exit_codes import CannotMeasure, ConfigurationError, TryLater
from agent.trust import find_writer
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

ROOT = Path(__file__).parents[3]
IDS = [f"6f1c2a9e-0000-4000-8000-00000000000{digit}" for digit in range(10)]


def make_spool(tmp_path: Path, *, max_bytes: int = 10**6) -> Spool:
    spool = Spool(str(tmp_path / "spool"), max_bytes=max_bytes)
    spool.prepare()
    return spool


def test_entries_are_listed_oldest_first(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    for envelope_id, content in zip(IDS, (b"one", b"two"), strict=False):
        spool.add(envelope_id, content)

    assert [(entry.id, entry.read(), entry.size_bytes) for entry in spool.pending()] == [
        (IDS[0], b"one", 3),
        (IDS[1], b"two", 3),
    ]


def test_envelope_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    order = []
    real_fsync, real_rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda number: (order.append("fsync"), real_fsync(number)))
    monkeypatch.setattr(os, "rename", lambda old, new: (order.append("rename"), real_rename(old, new)))

    spool.add(IDS[0], b"one")

    assert order == ["fsync", "rename", "fsync"]


def test_directories_are_private(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)

    assert Path(spool.directory).stat().st_mode & 0o077 == 0


ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")


@ONLY_ROOT
@pytest.mark.parametrize("name", ["", "pending", "experiments", "sweeps", "running"])
def test_root_does_not_use_a_spool_of_another_user(machine: Machine, name: str) -> None:
    path = machine.spool / name
    path.mkdir(parents=True)
    os.chown(path, 65534, 65534)

    ended, status, check = machine.measure("--no-send"), machine.run("status"), machine.run("check")

    reason = f"{path} belongs to user nobody, who could change what root uses; run `chown root {path}`, or"
    assert ended.returncode == 2
    assert f"cannot use the spool {machine.spool}: {reason}" in ended.stderr
    assert (status.returncode, reason in status.stderr) == (0, True)
    assert f"FAILED   spool         cannot use the spool {machine.spool}: {reason}" in check.stdout


@ONLY_ROOT
@pytest.mark.parametrize(
    ("mode", "reason"),
    [(0o777, "any user can change what root uses"), (0o770, "its group can change what root uses")],
)
def test_root_does_not_use_a_spool_that_others_can_write(tmp_path: Path, mode: int, reason: str) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool").chmod(mode)

    with pytest.raises(ConfigurationError, match=f"/spool has mode {mode:04o}: {reason}"):
        make_spool(tmp_path)


@ONLY_ROOT
@pytest.mark.parametrize(
    ("owner", "mode", "reason"),
    [
        (41000, 0o770, None),
        (0, 0o2775, None),
        (0, 0o1777, "has mode 1777: any user can change what 41000 uses; run `chmod o-w "),
        (41001, 0o700, "belongs to user 41001, who could change what 41000 uses; run `chown 41000 "),
    ],
)
def test_user_may_share_a_spool_with_a_group_and_not_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, reason: str | None
) -> None:
    """Volumes of Kubernetes belong to root, and their group can write them."""
    os.chown(tmp_path, owner, 0)
    tmp_path.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 41000)

    found = find_writer(str(tmp_path))

    assert found is None if reason is None else reason in str(found)


def test_rejected_entry_has_its_reason_and_can_be_restored(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    entry = spool.add(IDS[0], b"one")

    spool.reject(entry, {"status": 422, "code": "no-report", "detail": "it is empty"})

    assert spool.pending() == []
    (refused,) = spool.rejected()
    assert (refused.id, refused.read()) == (IDS[0], b"one")
    assert (refused.reason["status"], refused.reason["code"]) == (422, "no-report")
    assert spool.restore_rejected() == 1
    assert [entry.id for entry in spool.pending()] == [IDS[0]]
    assert list(Path(spool.directory, "rejected").iterdir()) == []


def test_oldest_is_dropped_and_counted_above_the_maximum_size(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, max_bytes=250)
    for envelope_id in IDS[:4]:
        spool.add(envelope_id, b"x" * 100)

    dropped = spool.trim()

    assert [entry.id for entry in dropped] == IDS[:2]
    assert [entry.id for entry in spool.pending()] == IDS[2:4]
    first = spool.read_dropped()
    assert (first.count, str(first.last_at)[:2]) == (2, "20")
    assert spool.trim() == []
    assert spool.read_dropped() == first


@pytest.mark.parametrize("ahead_s", [-(50 * 365 * 86400), 90 * 86400, 10 * 365 * 86400])
def test_wrong_clock_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int) -> None:
    spool = make_spool(tmp_path)
    for envelope_id in IDS[:3]:
        spool.add(envelope_id, b"x")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ahead_s)

    assert spool.trim() == []
    assert [entry.id for entry in spool.pending()] == IDS[:3]


def test_single_envelope_above_the_limit_is_not_dropped(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, max_bytes=10)
    spool.add(IDS[0], b"x" * 100)

    assert spool.trim() == []


def test_rejected_entries_are_bounded_too(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, max_bytes=150)
    for envelope_id in IDS[:3]:
        spool.reject(spool.add(envelope_id, b"x" * 100), {"status": 422})

    assert spool.trim() == []
    assert [refused.id for refused in spool.rejected()] == [IDS[2]]
    assert len(list(Path(spool.directory, "rejected").iterdir())) == 2


def test_second_agent_gets_the_process_of_the_first(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    script = (
        "import sys\nfrom agent.delivery.spool import Spool\n"
        "with Spool(sys.argv[1], max_bytes=1).lock():\n  print('held', flush=True)\n  sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, spool.directory],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()

        assert spool.find_holder() == other.pid
        with pytest.raises(TryLater, match=f"process {other.pid}"), spool.lock():
            pass
        other.kill()

    with spool.lock():
        pass
    assert spool.find_holder() is None


def test_incomplete_files_are_removed_under_the_lock(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    torn = Path(spool.directory) / "pending" / f".new-20261121T100000Z-{IDS[0]}.json.gz"
    torn.write_bytes(b"half")

    assert spool.pending() == []
    with spool.lock():
        assert not torn.exists()


def refuse(*arguments: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_spool_on_a_full_disk_can_be_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    entry = spool.add(IDS[0], b"x")
    monkeypatch.setattr("agent.delivery.spool.os.pwrite", refuse)

    with spool.lock():
        spool.remove(entry)

    assert spool.pending() == []


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    monkeypatch.setattr("agent.delivery.spool.os.fsync", refuse)

    with pytest.raises(OSError, match="No space left"):
        spool.add(IDS[0], b"x")

    assert list((tmp_path / "spool" / "pending").iterdir()) == []


def test_full_disk_is_reported_before_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make_spool(tmp_path)
    full = os.statvfs_result((4096, 4096, 1000, 10, 3, 0, 0, 0, 0, 255))
    monkeypatch.setattr("agent.delivery.spool.os.statvfs", lambda path: full)

    with pytest.raises(CannotMeasure, match="has 12 KiB free, a result needs up to 4 MiB"):
        spool.check_room()


def test_spool_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")

    with pytest.raises(ConfigurationError, match="cannot use the spool"):
        make_spool(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"dropped": "many"}'])
def test_invalid_counts_start_at_zero(tmp_path: Path, text: str) -> None:
    spool = make_spool(tmp_path, max_bytes=10)
    (Path(spool.directory) / "counts.json").write_text(text)
    for envelope_id in IDS[:2]:
        spool.add(envelope_id, b"x" * 10)

    spool.trim()

    assert json.loads((Path(spool.directory) / "counts.json").read_text())["dropped"] == 1


def test_results_above_the_maximum_size_are_reported_to_the_server_and_in_the_status(
    host: Machine, server: HostileServer
) -> None:
    host.configure("spool", max_bytes="100")
    for _ in range(3):
        host.measure("--no-send")

    status, lines = host.run_json("status"), host.run("status").stdout
    host.measure()

    assert (status["dropped"], len(status["pending"])) == (2, 1)
    assert f"dropped   2, last at {status['last_dropped_at']}: the spool was larger than max_bytes" in lines
    # Its own result is posted first; of runs within one second, any may be the oldest.
    agent = json.loads(next(iter(server.stored.values())))["agent"]
    assert (agent["dropped_results"], agent["last_dropped_at"]) == (2, status["last_dropped_at"])


def test_run_with_a_clock_that_is_months_ahead_keeps_what_is_not_delivered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        machine.measure("--no-send")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 91 * 86400)

    assert machine.measure("--no-send").returncode == 0

    assert len(machine.pending()) == 4
    assert machine.run_json("status")["dropped"] == 0
