"""Load of the host and its disks, and limits above which a run is skipped."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.measuring.load import (
    BusyLimits,
    DeviceIo,
    Observation,
    TooBusy,
    check_load,
    find_rates,
    observe,
    read_counters,
    read_load,
)
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer
from tests.agent.storage.trees import write_tree

# Linux 6.1: reads, merged, sectors, ms; the same of writes; in flight, busy ms, weighted ms; discards and flushes.
DISKSTATS = """\
 259       0 nvme0n1 1000 7 80000 500 2000 9 160000 900 0 30000 1400 0 0 0 0 5 2
 259       1 nvme0n1p1 990 7 79000 490 2000 9 160000 900 0 29000 1390 0 0 0 0 0 0
 259       2 nvme1n1 10 0 80 5 20 0 160 9 0 300 14 0 0 0 0 0 0
"""
LATER = """\
 259       0 nvme0n1 1300 7 80000 500 2100 9 160000 900 0 30500 1400 0 0 0 0 5 2
 259       2 nvme1n1 10 0 80 5 60 0 160 9 0 1300 14 0 0 0 0 0 0
"""


def test_rates_are_sums_and_the_busy_share_is_the_maximum(tmp_path: Path) -> None:
    disks = ("nvme0n1", "nvme1n1")
    before = read_counters(disks, root=write_tree(tmp_path / "a", {"proc/diskstats": DISKSTATS}))
    after = read_counters(disks, root=write_tree(tmp_path / "b", {"proc/diskstats": LATER}))

    rates = find_rates(before, after, elapsed_s=2.0)

    assert rates == DeviceIo(reads_per_s=150.0, writes_per_s=70.0, busy_percent=50.0)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (LATER.replace("nvme1n1", "nvme7n1"), "a disk is gone"),
        (LATER.replace(" 1300 7", " 999 7"), "the counters fell"),
        ("", "there are none"),
        ("259 0 nvme0n1 x\n259 2 nvme1n1\n", "no numbers"),
    ],
)
def test_missing_counters_give_unknown_rates(tmp_path: Path, after: str, why: str) -> None:
    disks = ("nvme0n1", "nvme1n1")
    first = read_counters(disks, root=write_tree(tmp_path / "a", {"proc/diskstats": DISKSTATS}))
    last = read_counters(disks, root=write_tree(tmp_path / "b", {"proc/diskstats": after}))

    assert find_rates(first, last, elapsed_s=1.0) is None, why


def test_busy_share_is_at_most_100_percent(tmp_path: Path) -> None:
    first = read_counters(("nvme1n1",), root=write_tree(tmp_path / "a", {"proc/diskstats": DISKSTATS}))
    last = read_counters(("nvme1n1",), root=write_tree(tmp_path / "b", {"proc/diskstats": LATER}))

    rates = find_rates(first, last, elapsed_s=0.5)

    assert rates is not None
    assert rates.busy_percent == 100.0


def test_idle_disks_have_no_load(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/diskstats": DISKSTATS, "proc/loadavg": "0.42 0.30 0.20 1/99 1234\n"})

    seen = observe(("nvme0n1",), root=root, span_s=0.001)

    assert seen.as_facts("before") == {
        "load_before": 0.42,
        "other_io_before": {"reads_per_s": 0.0, "writes_per_s": 0.0, "busy_percent": 0.0},
    }


def test_missing_files_give_no_observation(tmp_path: Path) -> None:
    seen = observe(("sda",), root=str(tmp_path))

    assert seen == Observation(None, None)
    assert seen.as_facts("after") == {}


@pytest.mark.parametrize("text", ["", "high 1 2\n", "\n"])
def test_invalid_load_is_unknown(tmp_path: Path, text: str) -> None:
    assert read_load(root=write_tree(tmp_path, {"proc/loadavg": text})) is None


@pytest.mark.parametrize(
    ("limits", "load", "busy_percent", "is_put_off"),
    [
        (BusyLimits(), 99.0, 100.0, False),
        (BusyLimits(load=4.0), 4.0, 100.0, False),
        (BusyLimits(load=4.0), 4.01, 0.0, True),
        (BusyLimits(load=4.0), None, None, False),
        (BusyLimits(busy_percent=20.0), 99.0, 20.0, False),
        (BusyLimits(busy_percent=20.0), 0.0, 20.1, True),
        (BusyLimits(busy_percent=20.0), 0.0, None, False),
        (BusyLimits(load=4.0, busy_percent=20.0), 5.0, 0.0, True),
    ],
)
def test_run_above_a_limit_is_refused(
    limits: BusyLimits, load: Any, busy_percent: Any, is_put_off: bool
) -> None:
    other_io = None if busy_percent is None else DeviceIo(1.0, 2.0, busy_percent)
    try:
        check_load(limits, Observation(load, other_io))
    except TooBusy:
        assert is_put_off
    else:
        assert not is_put_off


@pytest.fixture
def busy_host(host: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A host with load 8 and a disk that is 60 % busy with I/O of others."""
    seen = Observation(8.0, DeviceIo(1200.0, 300.0, 60.0))
    monkeypatch.setattr("agent.running.measure.observe", lambda disks: seen)
    return host


def test_busy_host_is_a_temporary_failure_with_the_reason(busy_host: Machine, server: HostileServer) -> None:
    ended = busy_host.measure("--max-load", "4.0")

    assert ended.returncode == 1
    assert "load 8.00 exceeds the limit of 4" in ended.stderr
    assert (busy_host.pending(), busy_host.leftovers()) == ([], [])
    assert (server.read_stored()["kind"], server.read_stored()["reason_code"]) == ("attempt", "busy")


def test_skipped_run_prints_nothing_and_is_not_a_failure(busy_host: Machine, server: HostileServer) -> None:
    ended = busy_host.measure("--skip-if-busy")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert (busy_host.pending(), server.read_stored()["reason_code"]) == ([], "busy")
    skipped = json.loads(busy_host.measure("--skip-if-busy", "50", "--json").stdout)
    assert skipped["state"] == "skipped"
    assert "other I/O keeps the storage 60 % busy (1200 reads/s, 300 writes/s)" in skipped["reason"]


def test_skip_applies_to_the_load_too_if_both_are_set(busy_host: Machine) -> None:
    assert busy_host.measure("--skip-if-busy", "90%", "--max-load", "4").returncode == 0
    assert busy_host.pending() == []


def test_limits_come_from_the_configuration(busy_host: Machine) -> None:
    busy_host.configure("run", max_load="2.5")

    assert "limit of 2.5" in busy_host.measure().stderr
    assert busy_host.measure("--max-load", "9").returncode == 0


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "much"])
def test_invalid_limit_is_refused(host: Machine, limit: str) -> None:
    ended = host.measure(f"--max-load={limit}")

    assert ended.returncode == 2
    assert "is not a number above 0" in ended.stderr


def test_run_records_load_before_and_after(busy_host: Machine, server: HostileServer) -> None:
    busy_host.measure()

    (body,) = server.stored.values()
    conditions = json.loads(body)["conditions"]
    assert (conditions["load_before"], conditions["load_after"]) == (8.0, 8.0)
    assert conditions["other_io_before"] == {
        "reads_per_s": 1200.0,
        "writes_per_s": 300.0,
        "busy_percent": 60.0,
    }
    assert conditions["other_io_after"] == conditions["other_io_before"]
