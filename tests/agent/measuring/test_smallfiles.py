"""Small files, timed in the format of the shell."""

import gzip
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.measuring.fio import StopSignals
from agent.measuring.methods import format_timing, read_file, write_and_read, write_file
from benchapp.fio import read_output
from tests.agent.conftest import Machine, open_directory


def test_timing_is_printed_as_bash_does() -> None:
    assert format_timing(real=63.1184, user=1.267, sys=0.00001) == (
        "real\t1m3.118400s\nuser\t0m1.267000s\nsys\t0m0.000010s\n"
    )


def test_file_is_truncated_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "test0.txt"
    path.write_text("something longer than it")

    with open_directory(tmp_path) as directory:
        write_file("test0.txt", directory)
        read_file("test0.txt", directory)

    assert path.read_bytes() == b"test\n"


def test_small_files_need_no_fio_and_are_removed(machine: Machine) -> None:
    (machine.home / "fio").unlink()

    ended = machine.measure("--profile", "gitlab-smallfiles", "--no-send")

    assert ended.returncode == 0
    assert machine.leftovers() == []


def test_server_parses_the_timings(machine: Machine) -> None:
    machine.measure("--profile", "gitlab-smallfiles", "--no-send")
    envelope = json.loads(gzip.decompress(machine.pending()[0].read_bytes()))

    (document,) = read_output(envelope["fio_output"].encode()).documents

    assert document.format == "time"
    assert [job.name for job in document.jobs] == ["write", "read"]
    assert [job.options["nrfiles"] for job in document.jobs] == ["1001", "1001"]
    assert all(job.directions[0].elapsed_s > 0 for job in document.jobs)  # type: ignore[operator]


@pytest.mark.parametrize("option", [["--logs"], ["--set", "size=1m"]])
def test_unsupported_options_of_small_files_are_refused(machine: Machine, option: list[str]) -> None:
    assert machine.measure("--profile", "gitlab-smallfiles", *option).returncode == 2


@pytest.mark.parametrize(
    ("received", "is_over", "why"),
    [(signal.SIGTERM, False, "stopped by a signal"), (None, True, "stopped after the time limit of 9 s")],
)
def test_small_files_end_at_a_signal_or_the_time_limit(
    tmp_path: Path, received: int | None, is_over: bool, why: str
) -> None:
    stop = StopSignals()
    stop.received = received
    with open_directory(tmp_path) as directory:
        context = SimpleNamespace(
            workspace=SimpleNamespace(descriptor=directory),
            stop=stop,
            is_over=is_over,
            time_limit_s=9.0,
            tick=lambda: None,
        )
        outcome = write_and_read(context)  # type: ignore[arg-type]

    assert outcome.result.stopped_because == why
    assert not outcome.is_complete
