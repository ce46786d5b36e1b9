"""The shipped profiles and what --set does to them."""

import configparser

import pytest

from agent.exit_codes import ConfigurationError
from agent.measuring.fio import Fio, choose_engine
from agent.profiles.profile import Plan, Profile, list_profiles, load_profile, make_plan
from agent.profiles.shipped import find_ebs_runtime, list_saturation_steps
from tests.agent.conftest import Machine

GIB = 2**30
MIB = 2**20
PLACES = {"step": "a-step", "round": "a-round", "iodepth": 4, "jobs": 2}


def read_jobfile(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(allow_no_value=True, interpolation=None)
    parser.read_string(text)
    return parser


def plan(name: str, **adjustments: str) -> Plan:
    return make_plan(load_profile(name), adjustments)


def write(name: str, *, engine: str = "libaio", **adjustments: str) -> configparser.ConfigParser:
    return read_jobfile(
        plan(name, **adjustments).write_jobfile(engine=engine, is_direct=True, step="s", round="r")
    )


@pytest.mark.parametrize(
    "profile", [each for each in list_profiles() if each.uses_fio], ids=lambda profile: profile.name
)
def test_every_profile_creates_a_complete_job_file(profile: Profile) -> None:
    text = make_plan(profile, {}).write_jobfile(engine="libaio", is_direct=True, **PLACES)

    assert "${" not in text
    assert read_jobfile(text).get("global", "ioengine") == "libaio"


@pytest.mark.parametrize("profile", list_profiles(), ids=lambda profile: profile.name)
def test_every_profile_has_a_purpose_and_needs(profile: Profile) -> None:
    needs = make_plan(profile, {}).needs

    assert profile.summary and profile.purpose
    assert needs.duration_s > 0
    assert needs.space_bytes > 0 or profile.is_read_only


def test_quick_takes_less_than_30_s_and_reads_before_it_writes() -> None:
    quick = plan("quick")

    assert quick.profile.steps == ("randread-4k", "randwrite-4k", "read-1m", "write-1m")
    assert quick.duration_s == 18.0
    assert quick.needs.space_bytes == 64 * MIB


def test_parameters_are_set() -> None:
    quick = plan("quick", runtime="1", size="8m", iodepth="2")

    jobs = read_jobfile(quick.write_jobfile(engine="libaio", is_direct=False))

    assert dict(jobs["global"])["runtime"] == "1"
    assert dict(jobs["global"])["size"] == "8388608"
    assert dict(jobs["global"])["direct"] == "0"
    assert jobs["randread-4k"]["iodepth"] == "2"


def test_synchronous_engine_has_queues_of_one() -> None:
    jobs = write("quick", engine="psync")

    assert {jobs[name]["iodepth"] for name in jobs.sections() if name != "global"} == {"1"}


def test_windows_runs_jobs_as_threads() -> None:
    assert write("netapp-latency", engine="windowsaio")["global"]["thread"] == "1"
    assert "thread" not in write("netapp-latency")["global"]


@pytest.mark.parametrize(
    ("size", "runtime_s"),
    [
        (4 * MIB, 16),
        (5 * GIB, 16),
        (10 * GIB, 24),
        (15 * GIB, 32),
        (50 * GIB, 64),
        (75 * GIB, 96),
        (100 * GIB, 128),
        (400 * GIB, 128),
    ],
)
def test_runtime_of_the_ebs_series_follows_the_file_size(size: int, runtime_s: int) -> None:
    assert find_ebs_runtime(size) == runtime_s
    assert plan("ebs-series", file_size=str(size)).values["runtime"] == runtime_s


def test_ebs_series_is_six_groups_over_one_file_in_the_order_of_the_series() -> None:
    series = plan("ebs-series")
    jobs = write("ebs-series")

    assert series.profile.steps == (
        "read-4k",
        "write-4k",
        "randread-4k",
        "randwrite-4k",
        "read-32m",
        "write-32m",
    )
    assert "stonewall" in jobs["global"]
    assert jobs["global"]["filename"] == "bench-agent.test"
    assert (jobs["randwrite-4k"]["bs"], jobs["randwrite-4k"]["numjobs"]) == ("4k", "64")
    assert (jobs["read-32m"]["bs"], jobs["read-32m"]["numjobs"]) == (str(32 * MIB), "8")
    assert series.needs.space_bytes == 5 * GIB


def test_large_block_of_the_ebs_series_is_no_larger_than_its_file() -> None:
    assert write("ebs-series", size="4m")["read-32m"]["bs"] == str(4 * MIB)


def test_runtime_of_the_ebs_series_can_be_set() -> None:
    assert write("ebs-series", size="100G", runtime="3")["global"]["runtime"] == "3"


@pytest.mark.parametrize(
    ("name", "section", "options"),
    [
        ("netapp-latency", "latency", ("randwrite", "4096", "1", "1")),
        ("netapp-iops", "iops", ("randread", "4096", "32", "1")),
        ("netapp-throughput", "throughput", ("read", "65536", "32", "16")),
    ],
)
def test_netapp_profiles_are_the_published_commands(
    name: str, section: str, options: tuple[str, ...]
) -> None:
    jobs = write(name)

    assert tuple(jobs[section][option] for option in ("rw", "bs", "iodepth", "numjobs")) == options
    assert [jobs["global"][option] for option in ("fallocate", "runtime", "ramp_time", "size")] == [
        "none",
        "60",
        "5",
        str(10 * GIB),
    ]


def test_rw_and_bs_of_netapp_profiles_are_selectable() -> None:
    jobs = write("netapp-latency", rw="randread", bs="16k")

    assert (jobs["latency"]["rw"], jobs["latency"]["bs"]) == ("randread", "16384")


def test_every_job_with_its_own_file_needs_space() -> None:
    assert plan("netapp-throughput", size="1G").needs.space_bytes == 16 * GIB


def test_gitlab_randrw_is_the_published_command() -> None:
    jobs = write("gitlab-randrw")

    assert dict(jobs["randrw-4k"]) == {"rw": "randrw", "rwmixread": "75", "bs": "4k", "iodepth": "64"}
    assert (jobs["global"]["gtod_reduce"], jobs["global"]["size"]) == ("1", str(4 * GIB))
    assert "runtime" not in jobs["global"]


def test_time_limit_includes_the_first_write_of_a_large_file() -> None:
    assert plan("ebs-series", size="100G").time_limit_s > 3 * 6 * 128 + 100 * GIB / 10**7


def test_memory_of_many_jobs_with_large_blocks_is_calculated() -> None:
    assert plan("ebs-series").needs.memory_bytes == 8 * (32 + 2) * MIB


@pytest.mark.parametrize(
    ("depth", "jobs", "steps"),
    [
        (1, 1, [(1, 1)]),
        (8, 2, [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2)]),
        (6, 3, [(1, 1), (2, 1), (4, 1), (6, 1), (6, 2), (6, 3)]),
    ],
)
def test_saturation_increases_iodepth_then_jobs(depth: int, jobs: int, steps: list[tuple[int, int]]) -> None:
    assert list_saturation_steps(depth, jobs) == steps


def test_saturation_with_a_synchronous_engine_increases_jobs_only() -> None:
    assert list_saturation_steps(4, 2, is_synchronous=True) == [(1, 1), (1, 2), (1, 4), (1, 8)]


@pytest.mark.parametrize(
    ("profile", "name", "value", "message"),
    [
        ("quick", "runtme", "1", "unknown parameter 'runtme'"),
        ("quick", "runtime", "0", "at least 1"),
        ("quick", "runtime", "soon", "not a valid duration"),
        ("quick", "size", "100k", "a multiple of 1 MiB"),
        ("quick", "size", "64m\nexec_prerun=reboot", "not a valid size"),
        ("netapp-iops", "rw", "trim", "available: read, write"),
        ("netapp-iops", "bs", "1000", "a multiple of 512 bytes"),
        ("netapp-iops", "bs", "128m", "at most 64m"),
        ("netapp-iops", "bs", "3m", "not a multiple of the block size"),
        ("saturation", "limit", "10", "not a valid latency"),
        ("saturation", "limit", "0ms", "not a valid latency"),
        ("snia-steady", "precondition", "maybe", "yes or no"),
        ("seqread-fragmentation", "file", "/nonexistent", "is not a file"),
        ("gitlab-smallfiles", "size", "1m", "available: none"),
    ],
)
def test_invalid_parameter_is_refused(profile: str, name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_plan(load_profile(profile), {name: value})


def test_unknown_profile_lists_the_available_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown profile '\.\./x'; available: ebs-series, .*quick"):
        load_profile("../x")


def test_list_describes_every_profile(machine: Machine) -> None:
    text = machine.run("profiles").stdout

    assert text.count("  good for: ") == len(list_profiles())
    assert "takes about 99 s and 5 GiB" in text
    assert "--set runtime=            runtime of each job (default: 16, 32, 64, 128 s" in text


def test_list_is_available_as_json(machine: Machine) -> None:
    profiles = {each["name"]: each for each in machine.run_json("profiles")["profiles"]}

    assert profiles["netapp-throughput"]["file_size_bytes"] == 160 * GIB
    assert profiles["gitlab-smallfiles"]["needs_fio"] is False
    assert profiles["seqread-fragmentation"]["duration_s"] is None
    assert profiles["ebs-series"]["parameters"]["runtime"] is None


def test_plan_without_enough_space_is_refused_before_writing(machine: Machine) -> None:
    ended = machine.measure("--profile", "netapp-throughput", "--set", "size=1000T")

    assert ended.returncode == 5
    assert "must remain free; nothing was written" in ended.stderr
    assert machine.leftovers() == []


def test_jobs_that_do_not_fit_into_memory_are_refused(machine: Machine) -> None:
    ended = machine.measure("--profile", "ebs-series", "--set", "size=4m", "--set", "jobs=100000000")

    assert ended.returncode == 5
    assert "not enough memory: jobs and buffers need" in ended.stderr


@pytest.mark.parametrize(
    ("platform", "engines", "engine"),
    [
        ("linux", {"libaio", "posixaio", "psync"}, "libaio"),
        ("linux", {"posixaio", "psync"}, "psync"),
        ("darwin", {"posixaio", "psync"}, "posixaio"),
        ("freebsd14", {"posixaio", "psync"}, "posixaio"),
        ("win32", {"windowsaio", "sync"}, "windowsaio"),
    ],
)
def test_engine_is_the_default_of_the_platform(platform: str, engines: set[str], engine: str) -> None:
    fio = Fio("fio", "fio-3.99", frozenset(engines))

    assert choose_engine(fio, platform=platform) == engine
