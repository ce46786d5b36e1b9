"""Each profile with real fio and small files, up to the measurements on the server."""

import gzip
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchapp.intake.normalize.plan import PlannedRun, plan_submission
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.models import Kind
from tests.agent.conftest import Machine
from tests.short_fio import write_short_fio

pytestmark = [
    pytest.mark.fio,
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio"),
]


@pytest.fixture
def real(machine: Machine) -> Machine:
    write_short_fio(machine.home / "fio")
    return machine


def measure(machine: Machine, profile: str, *settings: str) -> tuple[dict, list[PlannedRun]]:
    options = [part for setting in settings for part in ("--set", setting)]
    outcome = machine.run_json(
        "run", "--profile", profile, "--directory", str(machine.directory), "--no-send", *options
    )
    assert (outcome["exit_code"], outcome["failure"]) == (0, None)
    assert machine.leftovers() == []
    return outcome, plan_spooled(machine)


def plan_spooled(machine: Machine) -> list[PlannedRun]:
    (path,) = machine.pending()
    body = gzip.decompress(path.read_bytes())
    source = SubmissionSource(uuid.uuid4(), 1, "host", Kind.ENVELOPE, body, {}, datetime.now(UTC))
    return list(plan_submission(source).runs)


def describe(run: PlannedRun) -> list[tuple]:
    names = ("rw", "block_size_bytes", "iodepth", "numjobs")
    return [(each.direction, *(each.workload[name] for name in names)) for each in run.measurements]


def test_ebs_series_is_six_measurements_of_one_run(real: Machine) -> None:
    _, (run,) = measure(real, "ebs-series", "file_size=4m", "runtime=1", "jobs=8", "jobs_large=2")

    assert describe(run) == [
        ("read", "read", 4096, 1, 8),
        ("write", "write", 4096, 1, 8),
        ("read", "randread", 4096, 1, 8),
        ("write", "randwrite", 4096, 1, 8),
        ("read", "read", 4194304, 1, 2),
        ("write", "write", 4194304, 1, 2),
    ]
    assert all(each.values["iops"] > 0 for each in run.measurements)
    assert all("beside" not in each.workload["options"] for each in run.measurements)
    assert {each.workload["file_size_bytes"] for each in run.measurements} == {4194304}


@pytest.mark.parametrize(
    ("profile", "settings", "measured"),
    [
        ("netapp-latency", (), ("write", "randwrite", 4096, 1, 1)),
        ("netapp-latency", ("rw=randread", "bs=8k"), ("read", "randread", 8192, 1, 1)),
        ("netapp-iops", (), ("read", "randread", 4096, 32, 1)),
        ("netapp-throughput", ("jobs=2",), ("read", "read", 65536, 32, 2)),
    ],
)
def test_netapp_profiles_are_one_measurement(
    real: Machine, profile: str, settings: tuple[str, ...], measured: tuple
) -> None:
    _, (run,) = measure(real, profile, "size=4m", "runtime=1", "ramp=1", *settings)

    assert describe(run) == [measured]
    # Which 20 samples have; the p99 needs 1000.
    assert run.measurements[0].values["latency_p50_ns"] is not None


def test_gitlab_randrw_is_both_directions_without_latency(real: Machine) -> None:
    _, (run,) = measure(real, "gitlab-randrw", "size=4m")

    directions = ("read", "write", "mixed")
    assert describe(run) == [(direction, "randrw", 4096, 64, 1) for direction in directions]
    assert {each.workload["read_share_percent"] for each in run.measurements} == {75}
    assert {each.values["latency_p99_ns"] for each in run.measurements} == {None}


def test_gitlab_smallfiles_is_elapsed_time(real: Machine) -> None:
    _, (run,) = measure(real, "gitlab-smallfiles")

    assert (run.values["profile"], run.values["format"]) == ("gitlab-smallfiles", "time")
    assert [each.direction for each in run.measurements] == ["write", "read"]
    assert all(each.values["elapsed_s"] > 0 for each in run.measurements)


def test_every_step_of_saturation_is_a_run_of_one_sweep(real: Machine) -> None:
    outcome, runs = measure(
        real, "saturation", "size=4m", "runtime=1", "limit=5s", "iodepth_maximum=2", "jobs_maximum=2"
    )

    assert [describe(run) for run in runs] == [
        [("read", "randread", 4096, 1, 1)],
        [("read", "randread", 4096, 2, 1)],
        [("read", "randread", 4096, 2, 2)],
    ][: len(runs)]
    assert len(runs) == outcome["facts"]["saturation_steps"] >= 2
    assert len({run.values["sweep_id"] for run in runs}) == 1
    assert runs[0].values["sweep_id"] is not None
    assert outcome["finding"].startswith("knee: ")
    best = max(run.measurements[0].values["iops"] for run in runs)
    assert outcome["facts"]["knee_iops"] == pytest.approx(best, abs=0.1)
    assert str(runs[0].values["command"]["conditions"]["knee_iops"]) == str(outcome["facts"]["knee_iops"])


def test_latency_above_the_limit_ends_saturation_immediately(real: Machine) -> None:
    outcome, runs = measure(real, "saturation", "size=4m", "runtime=1", "limit=1us")

    assert len(runs) == 1
    assert outcome["finding"].startswith("no knee: p95 is ")


def test_every_round_of_snia_steady_is_a_run_of_one_series(real: Machine) -> None:
    outcome, runs = measure(
        real, "snia-steady", "size=4m", "runtime=1", "rounds=2", "iodepth=2", "precondition=yes"
    )

    assert [describe(run) for run in runs] == [[("write", "randwrite", 4096, 2, 1)]] * 2
    assert len({run.measurements[0].series_key for run in runs}) == 1
    assert all(run.values["warnings"] == [] for run in runs)
    assert outcome["facts"]["steady_attained"] == "no"
    assert (outcome["facts"]["steady_round"], outcome["facts"]["preconditioned"]) == (2, "yes")


def test_seqread_reads_a_file_once_and_does_not_change_it(real: Machine, tmp_path: Path) -> None:
    file = tmp_path / "a file: with #signs"
    file.write_bytes(b"x" * (3 * 2**20 + 5))
    file.chmod(0o400)
    before = (file.read_bytes(), file.stat().st_mtime_ns)

    outcome = real.run_json(
        "run", "--profile", "seqread-fragmentation", "--file", str(file), "--no-send", "--set", "bs=64k"
    )
    (run,) = plan_spooled(real)

    assert outcome["exit_code"] == 0
    assert describe(run) == [("read", "read", 65536, 1, 1)]
    assert run.measurements[0].workload["file_size_bytes"] == 3 * 2**20
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert run.values["command"]["conditions"]["file"] == str(file)
    assert run.environment["facts"]["directory"] == str(tmp_path)


def test_custom_job_file_is_a_profile(real: Machine, tmp_path: Path) -> None:
    jobfile = tmp_path / "nightly.fio"
    jobfile.write_text("[a]\nrw=randread\nbs=8k\nsize=4m\nruntime=1\ntime_based\n")

    ended = real.run("run", "--jobfile", str(jobfile), "--directory", str(real.directory), "--no-send")
    (run,) = plan_spooled(real)

    assert ended.returncode == 0
    assert run.values["profile"] == "nightly"
    assert describe(run) == [("read", "randread", 8192, 1, 1)]


def test_fio_checks_a_custom_job_file_before_it_runs(real: Machine, tmp_path: Path) -> None:
    jobfile = tmp_path / "nightly.fio"
    jobfile.write_text("[a]\nrw=sideways\nsize=4m\nruntime=1\n")

    ended = real.run("run", "--jobfile", str(jobfile), "--directory", str(real.directory), "--no-send")

    assert ended.returncode == 2
    assert "fio rejected this job file: " in ended.stderr
    assert (real.pending(), real.leftovers()) == ([], [])


@pytest.mark.skipif(shutil.which("filefrag") is None, reason="there is not a filefrag: apt install e2fsprogs")
def test_extents_of_the_test_file_are_recorded(real: Machine) -> None:
    outcome, _ = measure(real, "gitlab-randrw", "size=1m")

    # A filesystem without support gives none of them.
    assert outcome["facts"] == {} or outcome["facts"]["extents"] >= 1
