"""The command `run`: measure, store, deliver; and its errors."""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tests.agent import server as replies
from tests.agent.conftest import ROOT, Machine, wait_for
from tests.agent.server import HostileServer

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def test_run_delivers_what_fio_printed(host: Machine, server: HostileServer) -> None:
    ended = host.measure("--label", "Ticket=42", "--target", "volume_type=gp3", "--target", "volume_count=4")

    envelope = server.read_stored()
    assert (ended.returncode, ended.stdout) == (0, f"{server.url}/api/v1/submissions/{envelope['id']}\n")
    assert json.loads(envelope["fio_output"])["jobs"][0] == {"jobname": "randread-4k", "error": 0}
    assert envelope["command"]["failure"] is None
    assert envelope["command"]["exit_status"] == 0
    assert envelope["command"]["argv"][1:] == ["--output-format=json+", "--eta=never", "bench-agent.fio"]
    assert "runtime=4\n" in envelope["command"]["jobfile"]
    assert envelope["labels"] == {"Rack": "r1", "Ticket": "42"}
    assert (envelope["target"]["volume_type"], envelope["target"]["volume_count"]) == ("gp3", 4)
    assert envelope["environment"]["facts"]["directory"] == str(host.directory)
    assert host.pending() == []
    assert host.leftovers() == []


def test_result_is_in_the_spool_before_it_is_posted(host: Machine, server: HostileServer) -> None:
    spooled = []

    def check_spool(handler: replies.Handler, body: bytes) -> None:
        spooled.extend(path.read_bytes() for path in host.pending())
        replies.accept(handler, body)

    server.usual = check_spool
    host.measure()

    assert spooled == [server.posts()[0].body]


def test_wait_prints_the_page_of_the_run(host: Machine, server: HostileServer) -> None:
    assert host.measure("--wait", "10").stdout == f"{server.url}/runs/5/\n"


def test_wait_reports_a_rejection(host: Machine, server: HostileServer) -> None:
    server.final_state = "rejected"

    ended = host.measure("--wait", "10")

    assert ended.returncode == 6
    assert "the server rejected the result: no fio report found" in ended.stderr


def test_token_that_is_revoked_during_the_wait_is_reported_with_the_result(
    host: Machine, server: HostileServer
) -> None:
    server.state = replies.reply_problem(401, "token-revoked")

    ended = host.measure("--json", "--wait", "60")

    outcome = json.loads(ended.stdout)
    assert (ended.returncode, outcome["exit_code"], outcome["state"]) == (2, 2, "received")
    assert outcome["url"] == f"{server.url}/api/v1/submissions/{outcome['id']}"
    assert "it is token-revoked" in ended.stderr


def test_json_is_one_object(host: Machine, server: HostileServer) -> None:
    outcome = json.loads(host.measure("--json", "--wait", "10").stdout)

    assert outcome["command"] == "run"
    assert (outcome["exit_code"], outcome["state"], outcome["remaining"]) == (0, "stored", 0)
    assert outcome["pages"] == [f"{server.url}/runs/5/"]
    assert outcome["id"] in server.stored


def test_quiet_prints_nothing(host: Machine) -> None:
    ended = host.measure("--quiet")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_result_is_in_the_spool_while_the_server_is_unreachable(host: Machine, server: HostileServer) -> None:
    server.usual = replies.reply_problem(503, Retry_After="3600")
    ended = host.measure()

    assert ended.returncode == 1
    assert "not delivered: status 503, it is x; results in the spool: 1" in ended.stderr
    assert len(host.pending()) == 1

    server.usual = replies.accept
    flushed = host.run("flush")
    assert (flushed.returncode, flushed.stdout) == (0, "1 delivered, 0 pending\n")
    assert len(server.stored) == 1


def test_invalid_token_is_an_error_and_the_result_stays_in_the_spool(host: Machine) -> None:
    ended = host.measure("--quiet", BENCH_AGENT_TOKEN="bench_wrong_token")

    assert ended.returncode == 2
    assert "not delivered: status 401" in ended.stderr
    assert len(host.pending()) == 1


def test_missing_token_does_not_prevent_the_measurement(host: Machine) -> None:
    del host.environ["BENCH_AGENT_TOKEN"]

    ended = host.measure()

    assert ended.returncode == 2
    assert "enroll this host" in ended.stderr
    assert len(host.pending()) == 1


def test_unusable_ca_file_does_not_prevent_the_measurement(host: Machine) -> None:
    (host.home / "agent.ini").write_text(f"[server]\nca_file = no.pem\n[run]\nfio = {host.home}/fio\n")

    ended = host.measure(BENCH_AGENT_URL="https://127.0.0.1:9")

    assert ended.returncode == 2
    assert "cannot use ca_file" in ended.stderr
    assert ended.stdout.startswith("pending: ")
    assert len(host.pending()) == 1


def test_file_size_is_an_option_too(host: Machine, server: HostileServer) -> None:
    host.measure("--file-size", "128m")

    (body,) = server.stored.values()
    assert "size=134217728\n" in json.loads(body)["command"]["jobfile"]


def test_no_send_only_stores(host: Machine, server: HostileServer) -> None:
    assert host.measure("--no-send").returncode == 0
    assert (len(host.pending()), server.seen) == (1, [])


def test_rejected_result_can_be_retried(host: Machine, server: HostileServer) -> None:
    server.script.append(replies.reply_problem(422, "no-report"))

    assert host.measure().returncode == 6
    assert (len(host.pending()), len(host.rejected())) == (0, 1)
    assert host.run("flush", "--retry-rejected").returncode == 0
    assert len(server.stored) == 1


def test_failed_fio_with_a_report_is_delivered_and_reported(host: Machine, server: HostileServer) -> None:
    ended = host.measure(FAKE_FIO="failing")

    assert ended.returncode == 5
    assert "fio failed with status 2: fio: ENOSPC on laying out file" in ended.stderr
    assert server.read_stored()["command"]["exit_status"] == 2
    assert (
        server.read_stored()["command"]["failure"]
        == "fio failed with status 2: fio: ENOSPC on laying out file"
    )
    assert server.read_stored()["command"]["stderr"] == "fio: ENOSPC on laying out file\n"
    assert host.leftovers() == []


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        ("silent", "fio failed with status 1: fio: engine libaio not loadable"),
        ("mute", "fio exited with status 0 without a report"),
    ],
)
def test_failed_fio_without_a_report_leaves_nothing_to_store(
    host: Machine, server: HostileServer, behavior: str, message: str
) -> None:
    ended = host.measure(FAKE_FIO=behavior)

    assert ended.returncode == 5
    assert message in ended.stderr
    assert (host.pending(), host.leftovers()) == ([], [])
    assert (server.read_stored()["kind"], server.read_stored()["reason"]) == ("attempt", message)


def test_invalid_token_outranks_a_failed_fio(host: Machine) -> None:
    assert host.measure(FAKE_FIO="failing", BENCH_AGENT_TOKEN="bench_wrong_token").returncode == 2


def test_time_limit_ends_fio_and_its_report_is_delivered(host: Machine, server: HostileServer) -> None:
    ended = host.measure("--time-limit", "1s", FAKE_FIO="hanging")

    assert ended.returncode == 5
    assert "fio was stopped after the time limit of 1 s" in ended.stderr
    assert "time limit" in server.read_stored()["command"]["stderr"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signal_ends_fio_removes_its_files_and_stores_nothing(
    host: Machine, server: HostileServer, number: int, status: int
) -> None:
    process = host.start("run", "--profile", "quick", "--directory", str(host.directory), FAKE_FIO="hanging")
    wait_for(lambda: list(host.directory.glob("*/bench-agent.test")))

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == status
    assert "fio was terminated, its files are removed, no result was stored" in stderr
    assert (host.leftovers(), host.pending(), server.seen) == ([], [], [])


def test_second_run_at_the_same_time_is_refused(host: Machine) -> None:
    first = host.start("run", "--profile", "quick", "--directory", str(host.directory), FAKE_FIO="hanging")
    wait_for(lambda: list(host.directory.glob("*/bench-agent.test")))

    second = host.measure()
    first.terminate()
    first.communicate(timeout=60)

    assert second.returncode == 1
    assert f"another bench-agent is running (process {first.pid})" in second.stderr


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--directory", "/nonexistent"), "not-measured", "is not a directory"),
        (("--set", "size=900t"), "no-space", "not enough space"),
        (("--device", "/dev/null", "--profile", "saturation"), "device-in-use", "not a block device"),
    ],
)
def test_unattended_run_that_cannot_start_is_reported_with_its_reason(
    host: Machine, server: HostileServer, options: tuple[str, ...], code: str, reason: str
) -> None:
    place = () if "--device" in options or "--directory" in options else ("--directory", str(host.directory))

    host.run("run", "--profile", "quick", *place, *options)

    attempt = server.read_stored()
    profile = options[-1] if "--profile" in options else "quick"
    assert (attempt["kind"], attempt["profile"], attempt["reason_code"]) == ("attempt", profile, code)
    assert reason in attempt["reason"]
    assert attempt["target_name"] == (place or options)[1]
    assert host.pending() == []


def test_attempt_names_the_directory_as_runs_do(
    host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.home)

    host.run("run", "--profile", "quick", "--directory", "disk", "--set", "size=900t")

    assert server.read_stored()["target_name"] == str(host.directory)


def test_missing_fio_is_reported_when_the_server_is_back(host: Machine, server: HostileServer) -> None:
    (host.home / "fio").unlink()
    host.measure("--budget", "0.1", BENCH_AGENT_URL="http://127.0.0.1:9")
    waiting = host.pending()

    host.run("flush")

    assert (len(waiting), host.pending()) == (1, [])
    assert (server.read_stored()["reason_code"], server.read_stored()["profile"]) == ("fio-missing", "quick")


def test_person_at_a_terminal_reads_the_reason_there(host: Machine, server: HostileServer) -> None:
    host.measure("--set", "size=900t", is_terminal=True)

    assert (host.pending(), server.seen) == ([], [])


def test_attempt_that_an_earlier_server_does_not_know_is_dropped(
    host: Machine, server: HostileServer
) -> None:
    server.script.append(replies.reply_problem(422, "envelope-kind"))

    ended = host.measure("--set", "size=900t")

    assert (ended.returncode, host.pending(), host.rejected()) == (5, [], [])


def test_missing_libaio_is_a_label_and_a_warning(host: Machine, server: HostileServer) -> None:
    ended = host.measure(FAKE_FIO_ENGINE="")

    assert "libaio is not available in this fio" in ended.stderr
    assert server.read_stored()["labels"]["fallback.ioengine"] == "psync: libaio is not available in this fio"
    assert "ioengine=psync\n" in server.read_stored()["command"]["jobfile"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--set", "runtime=never"], 2, "not a valid duration"),
        (["--target", "volume_typ=x"], 2, "unknown target field 'volume_typ'"),
        (["--label", "rack"], 2, "--label rack: expected KEY=VALUE"),
        (["--profile", "nope"], 2, "unknown profile 'nope'"),
        (["--time-limit", "soon"], 2, "not a valid duration"),
    ],
)
def test_invalid_arguments_are_refused_before_the_measurement(
    host: Machine, server: HostileServer, arguments: list[str], status: int, message: str
) -> None:
    ended = host.measure(*arguments)

    assert ended.returncode == status
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (host.pending(), server.seen) == ([], [])


def test_missing_fio_is_reported(host: Machine) -> None:
    (host.home / "fio").unlink()

    ended = host.measure("--json")

    assert ended.returncode == 5
    assert json.loads(ended.stdout)["exit_code"] == 5
    assert "cannot execute" in json.loads(ended.stdout)["error"]


def test_results_above_the_maximum_size_are_posted_before_they_are_dropped(
    host: Machine, server: HostileServer
) -> None:
    for _ in range(2):
        host.measure("--no-send")
    host.configure("spool", max_bytes="100")

    ended = host.measure()

    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(server.stored) == 3


def test_internal_error_is_reported_as_json_too(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.running.run_command.measure", lambda request, session: 1 / 0)

    ended = host.measure("--json")

    assert ended.returncode == 70
    assert json.loads(ended.stdout)["error"].startswith("internal error of bench-agent")
    assert "ZeroDivisionError" in ended.stderr


def test_dropped_results_are_reported(host: Machine) -> None:
    host.configure("spool", max_bytes="100")
    host.measure("--no-send")

    ended = host.measure("--no-send")

    assert "the spool is larger than max_bytes in [spool]: oldest results dropped: 1\n" in ended.stderr
    assert host.run_json("status")["dropped"] == 1


def test_terminal_shows_one_redrawn_line(host: Machine) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "agent", "run", "--profile", "quick", "--wait", "0"),
            "--directory",
            str(host.directory),
        ],
        cwd=ROOT,
        env={**host.environ, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=follower,
    )
    process.wait(timeout=60)
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)

    start, _, line = shown.partition("\r\n")
    assert start == f"quick in {host.directory}: takes about 18 s"
    assert line == "\rquick  [........................]  randread-4k, 0 s of 18 s\x1b[K\r\x1b[K"


def test_successful_run_prints_nothing_under_cron(host: Machine) -> None:
    assert host.measure().stderr == ""


def test_failed_run_prints_its_log_with_times_under_cron(host: Machine) -> None:
    first, second = host.measure(FAKE_FIO="silent").stderr.splitlines()

    assert re.fullmatch(rf"{TIME} quick in {host.directory}: takes about 18 s", first)
    assert re.fullmatch(rf"{TIME} bench-agent: fio failed with status 1: .*", second)


def test_quiet_run_prints_errors_only(host: Machine) -> None:
    (line,) = host.measure("--quiet", FAKE_FIO="silent").stderr.splitlines()

    assert re.fullmatch(rf"{TIME} bench-agent: fio failed with status 1: .*", line)


def test_envelope_in_the_spool_is_plain_gzip(host: Machine) -> None:
    host.measure("--no-send")

    assert json.loads(gzip.decompress(host.pending()[0].read_bytes()))["schema"] == "benchapp-envelope/1"
