"""The shipped profiles and what --set does to them."""

import configparser

import pytest

from agent.outcome import ConfigurationError
from agent.profiles import list_profiles, load_profile, make_plan


def read_jobfile(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(allow_no_value=True, interpolation=None)
    parser.read_string(text)
    return parser


@pytest.mark.parametrize("profile", list_profiles(), ids=lambda profile: profile.name)
def test_every_profile_makes_a_whole_job_file(profile: object) -> None:
    plan = make_plan(profile, {})  # type: ignore[arg-type]

    text = plan.write_jobfile(engine="libaio", is_direct=True)

    assert "${" not in text
    assert read_jobfile(text).get("global", "ioengine") == "libaio"


def test_quick_takes_less_than_30_s_and_reads_before_it_writes() -> None:
    plan = make_plan(load_profile("quick"), {})

    assert plan.profile.steps == ("randread-4k", "randwrite-4k", "read-1m", "write-1m")
    assert plan.duration_s == 18.0
    assert plan.file_size_bytes == 64 * 2**20


def test_parameters_are_set() -> None:
    plan = make_plan(load_profile("quick"), {"runtime": "1", "size": "8m", "iodepth": "2"})

    jobs = read_jobfile(plan.write_jobfile(engine="libaio", is_direct=False))

    assert dict(jobs["global"])["runtime"] == "1"
    assert dict(jobs["global"])["size"] == "8388608"
    assert dict(jobs["global"])["direct"] == "0"
    assert jobs["randread-4k"]["iodepth"] == "2"


def test_synchronous_engine_has_queues_of_one() -> None:
    jobs = read_jobfile(make_plan(load_profile("quick"), {}).write_jobfile(engine="psync", is_direct=True))

    assert {jobs[name]["iodepth"] for name in jobs.sections() if name != "global"} == {"1"}


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("runtme", "1", "no parameter 'runtme'"),
        ("runtime", "0", "at least 1"),
        ("runtime", "soon", "no whole number"),
        ("size", "100k", "whole MiB"),
        ("size", "64m\nexec_prerun=reboot", "no size"),
    ],
)
def test_wrong_parameter_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make_plan(load_profile("quick"), {name: value})


def test_unknown_profile_names_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no profile '\.\./x'; there are: quick"):
        load_profile("../x")
