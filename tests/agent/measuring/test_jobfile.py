"""Custom job files."""

import gzip
import json
from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.measuring.jobfile import is_outside, list_opened, parse_sections, plan_jobfile, refuse_outside
from tests.agent.conftest import Machine

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
    assert mine.needs.space_bytes == 5 * 64 * 2**20
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
    ("options", "paths"),
    [
        ("", ["/data"]),
        ("filename=a.dat", ["/data"]),
        ("filename=/mnt/b/x.dat", ["/mnt/b/x.dat"]),
        ("filename=/dev/sdb:/dev/sda:/dev/sdb", ["/dev/sdb", "/dev/sda"]),
        (r"filename=/dev/disk/by-path/pci-0000\:00", ["/dev/disk/by-path/pci-0000:00"]),
        ("filename=a:/b\ndirectory=/mnt/c", ["/mnt/c/a", "/b"]),
        ("directory=/mnt/a:/mnt/b\nnumjobs=2", ["/mnt/a", "/mnt/b"]),
        ("directory=/mnt/a:/mnt/b", ["/mnt/a"]),
        ("opendir=/mnt/a", ["/mnt/a"]),
        ("filename=${PLACE}/x", ["/srv/x"]),
        ("ioengine=rbd\nfilename=/a", []),
        ("ioengine=external:/x.so\nfilename=/a", ["/a"]),
    ],
)
def test_opened_files_and_devices_are_listed(
    options: str, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "/srv")

    assert list_opened(f"[global]\n{options}\n[a]\n[b]\n", "/data") == paths


def test_each_job_opens_its_own_file() -> None:
    text = "[global]\nfilename=/a\n[first]\n[second]\nfilename=/b\n"

    assert list_opened(text, "/data") == ["/a", "/b"]


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


def test_storage_of_every_file_is_sent_that_the_job_file_opens(machine: Machine, jobfile: Path) -> None:
    jobfile.write_text("[a]\nruntime=1\nfilename=/dev/shm/x\n[b]\nruntime=1\nfilename=y\n")

    run(machine, "--jobfile", str(jobfile), "--allow-outside", "--target-name", "scratch")

    envelope = json.loads(gzip.decompress(machine.pending()[0].read_bytes()))
    memory, directory = envelope["targets"]
    assert (memory["path"], memory["mount_point"], memory["memory_filesystem"]) == (
        *("/dev/shm/x", "/dev/shm"),
        "tmpfs",
    )
    assert memory["layout"]["filesystem"] == envelope["target"]["filesystem"] == "tmpfs"
    assert envelope["environment"]["device_class"] == memory["device"]["class"] == "memory"
    assert directory["path"] == str(machine.directory.resolve())
    assert envelope["target"]["name"] == "scratch"


def test_remote_storage_is_not_described_as_the_directory(machine: Machine, jobfile: Path) -> None:
    jobfile.write_text("[a]\nruntime=1\nioengine=rbd\npool=p\nrbdname=i\n")

    run(machine, "--jobfile", str(jobfile))

    envelope = json.loads(gzip.decompress(machine.pending()[0].read_bytes()))
    assert (envelope["targets"], envelope["target"]["filesystem"]) == ([], None)


SECRET = 'SE"CR ET/1+2='
PRINTS_SECRETS = f"""
for jobfile; do :; done
case "$*" in *parse-only*) exit 0 ;; esac
echo 'fio: cannot sign with {SECRET}' >&2
cat << END
{{"fio version": "fio-3.99", "global options": {{"http_s3_key": {json.dumps(SECRET)}}},
"jobs": [{{"jobname": "a"}}]}}
END
exit 1
"""


@pytest.mark.parametrize("value", [SECRET, "${S3_KEY}"])
def test_secrets_are_neither_in_the_spool_nor_in_messages(
    machine: Machine, tmp_path: Path, value: str
) -> None:
    fio = machine.home / "fio"
    fio.write_text(fio.read_text().partition("touch bench")[0] + PRINTS_SECRETS)
    path = tmp_path / "s3.fio"
    path.write_text(f"[a]\nrw=read\nruntime=1\nhttp_s3_key={value}\nhttp_host=https://me:hidden@host\n")
    log = tmp_path / "agent.log"

    ended = machine.run(
        *(
            "run",
            "--jobfile",
            str(path),
            "--directory",
            str(machine.directory),
            "--no-send",
            "--log",
            str(log),
        ),
        *("--allow-outside", "--label", "token=LABELSECRET"),
        S3_KEY=SECRET,
    )

    (entry,) = machine.pending()
    body = gzip.decompress(entry.read_bytes()).decode()
    assert ended.returncode == 5
    for text in (body, ended.stdout, ended.stderr, log.read_text()):
        assert not any(
            secret in text for secret in (SECRET, json.dumps(SECRET)[1:-1], "CR ET", "hidden", "LABELSECRET")
        )
    assert "cannot sign with (removed)" in ended.stderr
    assert json.loads(body)["command"]["jobfile"].endswith("http_host=https://(removed)@host\n")
    assert json.loads(json.loads(body)["fio_output"])["global options"] == {"http_s3_key": "(removed)"}


def test_error_about_a_line_does_not_show_its_secret(machine: Machine) -> None:
    with pytest.raises(ConfigurationError) as raised:
        refuse_outside("[a]\nhttp_s3_key=/SECRET/x\n")

    assert "http_s3_key=(removed) is outside" in str(raised.value)


def test_name_of_a_job_that_is_a_path_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="contains a path"):
        plan("[../b]\nruntime=1\n")
