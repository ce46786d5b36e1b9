"""Custom job files."""

import json
from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.measuring.jobfile import hide_secrets, is_outside, parse_sections, plan_jobfile, refuse_outside
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

MINE = """\
; mine
[global]
size=64m
runtime=30
ramp_time=5s
bs=8k

[reader]
rw=randread
numjobs=4

[writer]
rw=write
filename=shared
runtime=2m
"""


def plan(text: str, **options: object):
    given = {"name": None, "time_limit_s": None, "allows_outside": False, **options}
    return plan_jobfile("/srv/my jobs.fio", text, **given)  # type: ignore[arg-type]


def test_global_options_apply_to_the_jobs_after_them() -> None:
    reader, writer = parse_sections(MINE)

    assert (reader.name, reader.options["runtime"], reader.options["bs"]) == ("reader", "30", "8k")
    assert (writer.name, writer.options["runtime"]) == ("writer", "2m")


def test_plan_has_time_space_and_memory() -> None:
    mine = plan(MINE)

    assert (mine.profile.name, mine.profile.steps) == ("my-jobs", ("reader", "writer"))
    assert mine.duration_s == 35 + 125
    assert mine.file_size_bytes == 5 * 64 * 2**20
    assert mine.needs.memory_bytes == 5 * (2 * 2**20 + 8192)
    assert mine.write_jobfile(engine="libaio", is_direct=True) == MINE


def test_job_without_a_runtime_needs_a_time_limit() -> None:
    endless = "[a]\nrw=read\nsize=1g\n"

    with pytest.raises(ConfigurationError, match="job a has no runtime"):
        plan(endless)

    assert plan(endless, time_limit_s=600).duration_s == 600


@pytest.mark.parametrize(
    ("value", "is_so"),
    [
        ("test.file", False),
        ("a/b", False),
        ("a:b", False),
        ("4k/50:8k/50", False),
        ("..file", False),
        ("/dev/sda", True),
        ("a:/etc/passwd", True),
        ("../x", True),
        ("a/../../x", True),
        ("'/x'", True),
        ("${HOME}/x", True),
        ("external:/tmp/x.so", True),
    ],
)
def test_path_outside_of_the_directory_is_recognized(value: str, is_so: bool) -> None:
    assert is_outside(value, {"HOME": "/root"}) is is_so


@pytest.mark.parametrize(
    "line",
    [
        "filename=/dev/sda",
        "directory=/srv",
        "write_bw_log=../x",
        "exec_prerun=touch x",
        "ioengine=exec",
        "filename_format=/srv/$jobnum",
    ],
)
def test_option_with_a_path_outside_is_refused(line: str) -> None:
    text = f"[a]\nruntime=1\n{line}\n"

    with pytest.raises(ConfigurationError, match=r"line 3: .*--allow-outside"):
        refuse_outside(text)

    assert plan(text, allows_outside=True).duration_s == 1


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("[global]\nruntime=1\n", None, "no job section found"),
        ("[a]\nruntime=1\n", "quick", "name of a shipped profile"),
        ("[a]\nruntime=1\n", "a b", "letters, digits"),
        ("include x.fio\n[a]\nruntime=1\n", None, "include is not supported"),
    ],
)
def test_invalid_job_file_is_refused(text: str, name: str | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan(text, name=name)


@pytest.fixture
def jobfile(tmp_path: Path) -> Path:
    path = tmp_path / "nightly.fio"
    path.write_text("[a]\nrw=read\nsize=1m\nruntime=1\n")
    return path


def run(machine: Machine, *arguments: str) -> str:
    return machine.run("run", "--directory", str(machine.directory), "--no-send", *arguments).stderr


def test_missing_job_file_is_reported(machine: Machine) -> None:
    assert "--jobfile /nonexistent.fio: " in run(machine, "--jobfile", "/nonexistent.fio")


def test_job_file_has_no_parameters(machine: Machine, jobfile: Path) -> None:
    message = run(machine, "--jobfile", str(jobfile), "--set", "size=1m")

    assert "--set cannot be used with --jobfile" in message


def test_allow_outside_without_a_job_file_is_refused(machine: Machine) -> None:
    assert "requires --jobfile" in run(machine, "--profile", "quick", "--allow-outside")


@pytest.mark.parametrize("value", ["pa$$word", "${S3_KEY}"])
def test_secrets_of_a_job_file_are_removed(value: str) -> None:
    jobfile = f"[global]\nhttp_s3_key={value}\n[a]\nrw=read\n"
    printed = '{"global options": {"http_s3_key": "pa$$word", "rw": "read"}, "x": "\\"q"}'

    text = hide_secrets(jobfile + printed, jobfile, {"S3_KEY": "pa$$word"})

    assert text.count("(not sent)") == 2
    assert "pa$$word" not in text
    assert '"rw": "read"' in text


def test_secret_is_recognized_in_json_encoding() -> None:
    assert hide_secrets('{"http_pass": "a\\"b"}', '[a]\nhttp_pass=a"b\n', {}) == '{"http_pass": "(not sent)"}'


def test_password_in_a_job_file_is_not_stored_in_the_spool(
    host: Machine, server: HostileServer, tmp_path: Path
) -> None:
    path = tmp_path / "s3.fio"
    path.write_text("[a]\nrw=read\nruntime=1\nhttp_pass=fio-3.99\n")

    ended = host.run("run", "--jobfile", str(path), "--directory", str(host.directory))

    assert ended.returncode == 0, ended.stderr
    (body,) = server.stored.values()
    assert json.loads(body)["command"]["jobfile"].endswith("http_pass=(not sent)\n")
    assert "fio-3.99" not in json.loads(body)["fio_output"]


def test_name_of_a_job_that_is_a_path_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="contains a path"):
        plan("[../b]\nruntime=1\n")
