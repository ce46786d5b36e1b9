"""Commands that decide between layouts: hosts, profiles, job files, durations; the agent and fio accept them."""

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.utils import timezone

from agent.commands.cli import build_parser
from agent.measuring.jobfile import plan_jobfile
from agent.profiles.parameters import read_latency
from agent.profiles.profile import list_names, load_profile, make_plan
from agent.running.run_command import read_pairs
from benchapp.catalog.grammar import Filter
from benchapp.layouts.read import run_commands
from benchapp.layouts.read.next_runs import NextRuns, plan_next_runs
from benchapp.layouts.read.question import LayoutQuestion
from benchapp.layouts.read.ranking import rank_layouts
from benchapp.layouts.read.run_commands import (
    SHIPPED_PROFILES,
    RunCommand,
    WantedRuns,
    make_run_commands,
    write_job_file,
)
from benchapp.models import Host, Measurement, Run, Series
from tests.factories import (
    calculate_levels,
    make_environment,
    make_host,
    make_run,
    make_series,
    make_workload,
)
from tests.planted_layouts import give_directories, plant_layouts

pytestmark = pytest.mark.django_db
ASKED: dict[str, Any] = {"iops": 20_000.0, "p99_ms": 3.0, "capacity_gb": 1000.0}


def report(profile: str = "quick", **parameters: Any) -> None:
    """Let all runs have a directory for each layout, a profile with parameters, and 18 s."""
    give_directories()
    Run.objects.update(
        profile=profile,
        command={"parameters": parameters},
        finished_at=F("started_at") + timedelta(seconds=18),
    )


def plan(**asked: Any) -> NextRuns:
    return plan_next_runs(rank_layouts(LayoutQuestion(filter=Filter(), **ASKED | asked)))


def check(command: RunCommand, tmp_path: Path) -> Any:
    """Parse a command as the agent does, with its profile and parameters or its job file."""
    arguments = build_parser().parse_args(command.argv[1:])
    if command.job_file:
        path = tmp_path / command.argv[command.argv.index("--jobfile") + 1]
        path.write_text(command.job_file)
        plan_jobfile(str(path), command.job_file, name=None, time_limit_s=None, allows_outside=False)
    else:
        make_plan(load_profile(arguments.profile), read_pairs(arguments.set, "--set"))
    return arguments


def test_certain_answer_needs_no_runs_and_no_commands(django_assert_num_queries: Any) -> None:
    plant_layouts(started_at=timezone.now())
    report()
    ranking = rank_layouts(LayoutQuestion(filter=Filter(), **ASKED))

    with django_assert_num_queries(0):
        found = plan_next_runs(ranking)

    assert (found.measurements, found.commands, found.run_count, found.duration_s) == ((), (), 0, None)


def test_old_level_is_measured_again_with_the_profile_of_its_runs(
    tmp_path: Path, django_assert_num_queries: Any
) -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=190))
    report(runtime=10, iodepth=32)
    ranking = rank_layouts(LayoutQuestion(filter=Filter(), **ASKED))

    with django_assert_num_queries(3):
        found = plan_next_runs(ranking)

    # The cheapest that meets it; the next one, as the first is not certain.
    assert [each.title[:10] for each in found.measurements] == ["xfs on 8 ×", "xfs on 1 ×"]
    assert [reason.name for each in found.measurements for reason in each.reasons] == ["old", "old"]
    # One host, one profile, two directories.
    (command,) = found.commands
    assert (command.host, command.runs, command.measurements) == ("db-layouts", 3, (0, 1))
    assert command.argv == (
        *("bench-agent", "sweep", "--directories", "/mnt/8-gp3-128,/mnt/1-io2-1024", "--profile", "quick"),
        *("--set", "iodepth=32", "--set", "runtime=10"),
    )
    assert (command.duration_s, command.is_duration_stored, found.duration_s) == (36.0, True, 108.0)
    check(command, tmp_path)


def test_unknown_latency_is_measured_with_a_job_file(tmp_path: Path) -> None:
    plant_layouts(started_at=timezone.now())
    report()
    series = Series.objects.filter(volume_size_bytes=128 * 2**30)
    Measurement.objects.filter(series__in=series).update(latency_p99_ns=None)
    calculate_levels([each.pk for each in series])

    found = plan()

    (measured,) = [each for each in found.measurements if "8 × gp3" in each.title]
    assert [(reason.name, reason.metric, reason.runs) for reason in measured.reasons] == [
        ("unknown", "latency_p99_ns", 3)
    ]
    command = found.commands[0]
    assert command.argv == ("bench-agent", "run", "--jobfile", "next-1.fio", "--directory", "/mnt/8-gp3-128")
    assert (command.duration_s, command.is_duration_stored) == (62.0, False)
    assert "rw=randread\nbs=4096\niodepth=" in command.job_file
    check(command, tmp_path)


def test_layout_without_a_host_that_reports_a_directory_needs_a_new_one() -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=190))
    found = plan()

    assert [each.is_possible for each in found.measurements] == [False, False]
    assert found.commands == ()
    report()
    assert all(each.is_possible for each in plan().measurements)
    Host.objects.update(retired_at=timezone.now())
    assert plan().commands == ()


def test_layout_that_was_replaced_in_its_directory_needs_a_new_volume() -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=190))
    report()
    old = Run.objects.filter(target__volume_size_bytes=128 * 2**30).select_related("host", "environment")[0]

    make_run(old.host, environment=old.environment, started_at=timezone.now())

    found = plan()
    assert {each.title[:10]: each.is_possible for each in found.measurements} == {
        "xfs on 8 ×": False,
        "xfs on 1 ×": True,
    }
    assert [command.measurements for command in found.commands] == [(1,)]


def test_directories_of_one_host_are_one_sweep(tmp_path: Path) -> None:
    host = make_host("db-1")
    ids = []
    for directory in ("/mnt/a", "/mnt/b"):
        environment = make_environment(facts={"directory": directory})
        series = make_series([1000.0], host=host, workload=make_workload(iodepth=len(ids) + 1))
        Run.objects.filter(measurements__series=series).update(
            environment=environment, profile="saturation", command={"parameters": {"limit": 500_000}}
        )
        ids.append(series.pk)

    (command,), impossible = make_run_commands([WantedRuns(2, (each,), (each,)) for each in ids])

    assert impossible == []
    assert command.argv[1:] == (
        *("sweep", "--directories", "/mnt/a,/mnt/b", "--profile", "saturation"),
        *("--set", "limit=500us"),
    )
    assert (command.runs, command.measurements, command.duration_s) == (2, (0, 1), None)
    check(command, tmp_path)


def test_series_that_is_measured_often_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_commands, "_ROWS_MAXIMUM", 4)
    host = make_host("db-1")
    ids = []
    for directory, count in (("/mnt/rare", 1), ("/mnt/often", 6)):
        environment = make_environment(facts={"directory": directory})
        series = make_series([1000.0] * count, host=host, workload=make_workload(iodepth=count))
        Run.objects.filter(measurements__series=series).update(environment=environment)
        ids.append(series.pk)
    now = timezone.now()
    Measurement.objects.filter(series=ids[0]).update(started_at=now - timedelta(days=60))
    Measurement.objects.filter(series=ids[1]).update(started_at=now)

    commands, impossible = make_run_commands([WantedRuns(1, (each,), (each,)) for each in ids])

    assert ([command.argv[-1] for command in commands], impossible) == (["/mnt/rare", "/mnt/often"], [])


def test_duration_of_a_saturation_is_that_of_all_its_steps() -> None:
    host, sweep = make_host("db-1"), uuid4()
    environment = make_environment(facts={"directory": "/data"})
    started_at = timezone.now() - timedelta(hours=1)
    series = make_series([1000.0, 2000.0], host=host)
    for step, run in enumerate(Run.objects.filter(measurements__series=series).order_by("pk")):
        Run.objects.filter(pk=run.pk).update(
            environment=environment,
            profile="saturation",
            command={"parameters": {}},
            sweep_id=sweep,
            started_at=started_at + timedelta(seconds=11 * step),
            finished_at=started_at + timedelta(seconds=11 * step + 10),
        )

    (command,), _ = make_run_commands([WantedRuns(1, (series.pk,), (series.pk,))])

    assert command.duration_s == 21.0


def test_profile_of_an_own_job_file_is_not_named(tmp_path: Path) -> None:
    host = make_host("db-1")
    series = make_series([1000.0], host=host)
    Run.objects.update(
        environment=make_environment(facts={"directory": "/data"}), profile="ours", command={"parameters": {}}
    )

    (command,), _ = make_run_commands([WantedRuns(1, (series.pk,), (series.pk,))])

    assert "ours" not in command.argv
    assert command.job_file


@pytest.mark.parametrize(
    "directory", [["/data"], {"a": "/data"}, "data", "--allow-outside", "/data\x03\nid", "/data\u202e", None]
)
def test_directory_that_is_not_a_printable_path_is_not_in_a_command(directory: Any) -> None:
    series = make_series([1000.0], host=make_host("db-1"))
    environment = make_environment(facts={"directory": directory})
    Run.objects.update(environment=environment, profile="quick", command={"parameters": {}})

    assert make_run_commands([WantedRuns(1, (series.pk,), (series.pk,))]) == ([], [0])


def test_parameters_with_control_characters_are_not_in_a_command() -> None:
    series = make_series([1000.0], host=make_host("db-1"))
    environment = make_environment(facts={"directory": "/data"})
    Run.objects.update(
        environment=environment, profile="quick", command={"parameters": {"size": "1g\x03\nid"}}
    )

    (command,), _ = make_run_commands([WantedRuns(1, (series.pk,), (series.pk,))])

    assert command.argv == ("bench-agent", "run", "--jobfile", "next-1.fio", "--directory", "/data")


@pytest.mark.parametrize("limit_ns", [500_000, 12_345_678, 1_000_000_000, 1_500_000_000, 999_999_999_999])
def test_agent_reads_the_limit_of_a_saturation_as_it_was(limit_ns: int) -> None:
    series = make_series([1000.0], host=make_host("db-1"))
    Run.objects.update(
        environment=make_environment(facts={"directory": "/data"}),
        profile="saturation",
        command={"parameters": {"limit": limit_ns}},
    )

    (command,), _ = make_run_commands([WantedRuns(1, (series.pk,), (series.pk,))])

    assert read_latency(command.argv[-1].removeprefix("limit=")) == limit_ns


def test_shipped_profiles_are_those_of_the_agent() -> None:
    assert sorted(SHIPPED_PROFILES) == list_names()


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rw": "randrw", "read_share_percent": 70, "iodepth": 64, "numjobs": 4},
        {
            "rw": "write",
            "block_size_bytes": 2**20,
            "file_size_bytes": None,
            "is_direct": False,
            "runtime_s": 7.5,
        },
        {"engine": "psync"},
        {"engine": "libaio\nexec_prerun=true"},
    ],
)
def test_fio_accepts_every_job_file(fields: dict[str, Any], tmp_path: Path) -> None:
    text = write_job_file(make_series(workload=make_workload(**fields)))

    assert text is not None and "exec_prerun" not in text
    (tmp_path / "next-1.fio").write_text(text)
    ended = subprocess.run(
        ["fio", "--parse-only", "next-1.fio"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("fields", [{"rw": "trim"}, {"block_size_bytes": None}, {"options": {"fsync": 1}}])
def test_workload_that_columns_do_not_describe_has_no_job_file(fields: dict[str, Any]) -> None:
    assert write_job_file(make_series(workload=make_workload(**fields))) is None


def test_missing_direction_of_a_mix_is_measured() -> None:
    host = make_host("db-1")
    workload = make_workload(rw="randrw", read_share_percent=70)
    series = make_series([1000.0, 1010.0, 1020.0], host=host, workload=workload, direction="read")
    calculate_levels([series.pk])
    Run.objects.update(environment=make_environment(facts={"directory": "/data"}))

    found = plan_next_runs(rank_layouts(LayoutQuestion(filter=Filter(), iops=500.0, pattern="randrw")))

    (measured,) = found.measurements
    assert ([reason.name for reason in measured.reasons], measured.directions) == (
        ["one-direction"],
        ("read",),
    )
    assert "rwmixread=70" in found.commands[0].job_file
