"""fio's logs: enabled by an option, and sent completely or omitted with a warning."""

import shutil
from pathlib import Path

import pytest

from agent.exit_codes import CannotMeasure
from agent.measuring import fio as logs
from agent.measuring.fio import list_log_options, read_logs
from tests.agent.conftest import FAKE_FIO, Machine, open_directory
from tests.agent.server import HostileServer
from tests.short_fio import write_short_fio


@pytest.fixture
def logging_host(host: Machine) -> Machine:
    """A host whose fio writes one log and another file."""
    script = FAKE_FIO.replace(
        "touch bench-agent.test",
        'printf "1000, 33415, 0, 0, 0\\n" > bench-agent_iops.1.log; touch bench-agent.test',
    )
    (host.home / "fio").write_text(script)
    return host


def test_logs_are_off_by_default(logging_host: Machine, server: HostileServer) -> None:
    logging_host.measure()

    assert "logs" not in server.read_stored()
    assert server.read_stored()["command"]["argv"][1:] == [
        "--output-format=json+",
        "--eta=never",
        "bench-agent.fio",
    ]


def test_logs_are_in_the_envelope_as_fio_wrote_them(logging_host: Machine, server: HostileServer) -> None:
    ended = logging_host.measure("--logs")

    assert (ended.returncode, logging_host.leftovers()) == (0, [])
    assert server.read_stored()["logs"] == {"bench-agent_iops.1.log": "1000, 33415, 0, 0, 0\n"}
    assert server.read_stored()["command"]["argv"][3:-1] == [
        "--write_bw_log=bench-agent",
        "--write_iops_log=bench-agent",
        "--write_lat_log=bench-agent",
        "--log_avg_msec=1000",
        "--log_unix_epoch=1",
    ]


def test_missing_logs_are_a_warning_and_the_result_is_stored(host: Machine, server: HostileServer) -> None:
    ended = host.measure("--logs")

    assert ended.returncode == 0
    assert "fio wrote no logs; the result has no logs" in ended.stderr
    assert "logs" not in server.read_stored()


def test_too_large_logs_are_omitted_with_a_warning(
    logging_host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_LOGS_MAXIMUM_BYTES", 20)

    ended = logging_host.measure("--logs")

    assert ended.returncode == 0
    assert "fio's logs take 0.0 MB; the maximum is 0 MB; the result has no logs" in ended.stderr
    assert "logs" not in server.read_stored()


def test_more_logs_than_the_server_accepts_are_omitted(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / f"bench-agent_bw.{number}.log").write_text("0, 1, 0, 0\n")

    refusal = pytest.raises(CannotMeasure, match="fio wrote 201 logs; the maximum is 200")
    with open_directory(tmp_path) as directory, refusal:
        read_logs(directory)


def test_only_logs_of_this_run_are_read(tmp_path: Path) -> None:
    for name in ("bench-agent_bw.1.log", "bench-agent_clat_hist.1.log", "other_bw.1.log", "bench-agent.test"):
        (tmp_path / name).write_bytes(b"1, 2, 0, 0\n\xff")

    with open_directory(tmp_path) as directory:
        assert read_logs(directory) == {"bench-agent_bw.1.log": "1, 2, 0, 0\n\ufffd"}


@pytest.mark.parametrize(
    ("version", "has_clock"),
    [("fio-3.33", True), ("fio-3.26-19-ge7e53", True), ("fio-2.2.10", False), ("fio 2.0.8", False)],
)
def test_epoch_times_are_enabled_from_fio_3(version: str, has_clock: bool) -> None:
    assert ("--log_unix_epoch=1" in list_log_options(version)) is has_clock


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
def test_real_fio_logs_every_job_in_epoch_times(
    host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_AVERAGED_MS", 20)
    write_short_fio(host.home / "fio", runtime="400ms")

    assert host.measure("--logs", "--set", "size=8m").returncode == 0

    found = server.read_stored()["logs"]
    names = [
        f"bench-agent_{kind}.{job}.log" for kind in ("bw", "clat", "iops", "lat", "slat") for job in "1234"
    ]
    assert sorted(found) == sorted(names)
    starts = [int(found[f"bench-agent_iops.{job}.log"].partition(",")[0]) for job in "1234"]
    assert starts == sorted(starts)
    assert starts[0] > 1_700_000_000_000
    assert host.leftovers() == []
