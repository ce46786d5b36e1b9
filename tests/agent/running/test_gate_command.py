"""The command `gate` against a server that decides, refuses or is away."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.commands.cli import main
from agent.console import WaitProgress
from agent.running import RUNS_MAXIMUM
from benchapp.incidents.read.gate import FURTHER_RUNS_MAXIMUM
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.running.gates import make_gate, make_row
from tests.agent.server import HostileServer


def decide(*rows: dict[str, Any], outcome: str = "passed") -> replies.Reply:
    """Answer about stored runs; run 0 does not exist."""

    def reply(handler: replies.Handler, body: bytes) -> None:
        if "/runs/0/" in handler.path:
            handler.answer_problem(404, "not-found")
        else:
            handler.answer(200, make_gate(*rows, outcome=outcome))

    return reply


@pytest.fixture
def output(host: Machine) -> Path:
    path = host.home / "fio.json"
    path.write_text('{"fio version": "fio-3.33", "jobs": []}')
    return path


def list_gets(server: HostileServer) -> list[str]:
    return [seen.path for seen in server.seen if seen.method == "GET" and "/gate" in seen.path]


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("regressed", 3), ("undecided", 4)])
def test_exit_code_is_the_outcome(
    host: Machine, server: HostileServer, output: Path, outcome: str, status: int
) -> None:
    server.gate = decide(make_row(outcome=outcome), outcome=outcome)

    ended = host.run("gate", str(output))

    assert ended.returncode == status
    assert ended.stdout.splitlines()[-1] == f"{outcome}: 1 {outcome}; {server.url}/runs/5/"


def test_file_is_posted_with_layout_and_labels_and_its_runs_are_compared(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.gate = decide(make_row())

    host.run(
        *("gate", str(output), "--target", "volume_type=gp3", "--target", "volume_size=1g"),
        *("--branch", "main", "--profile", "nightly", "--baseline", "label.branch:main"),
        *("--metric", "iops", "--max-regression", "5%", "--error-rate", "0.02"),
    )

    (post,) = server.posts()
    assert urlsplit(post.path).path == "/api/v1/fio"
    assert parse_qs(urlsplit(post.path).query) == {
        "volume_type": ["gp3"],
        "volume_size_bytes": [str(2**30)],
        "label.Rack": ["r1"],
        "label.branch": ["main"],
        "profile": ["nightly"],
    }
    assert list(server.stored.values()) == [output.read_bytes()]
    query = {"baseline": ["label.branch:main"], "metric": ["iops"], "max_regression": ["0.05"]}
    assert [(urlsplit(path).path, parse_qs(urlsplit(path).query)) for path in list_gets(server)] == [
        ("/api/v1/runs/0/gate", query | {"error_rate": ["0.02"]}),
        ("/api/v1/runs/5/gate", query | {"error_rate": ["0.02"]}),
    ]


def test_undecided_build_passes_if_it_is_told_to(host: Machine, server: HostileServer, output: Path) -> None:
    server.gate = decide(make_row(outcome="undecided", reason="no-baseline"), outcome="undecided")

    statuses = [
        host.run("gate", str(output), "--undecided", choice).returncode for choice in ("pass", "fail")
    ]

    assert statuses == [0, 4]


@pytest.mark.parametrize(
    ("needed", "decided_after", "runs", "status"),
    # The third run decides; never decided; ten runs are too many; nothing that further runs decide.
    [(2, 3, 3, 0), (1, 9, 5, 4), (10, 9, 1, 4), (None, 9, 1, 4)],
)
def test_profile_is_repeated_until_the_gate_is_decided(
    host: Machine, server: HostileServer, needed: int | None, decided_after: int, runs: int, status: int
) -> None:
    def reply(handler: replies.Handler, body: bytes) -> None:
        is_decided = len(server.stored) >= decided_after
        row = make_row(outcome="undecided", reason="too-noisy", runs_needed=needed)
        answer = decide(make_row()) if is_decided else decide(row, outcome="undecided")
        answer(handler, body)

    server.gate = reply

    ended = host.run("gate", "--profile", "quick", "--directory", str(host.directory), "--repeat", "auto")

    assert (ended.returncode, len(server.stored)) == (status, runs)


def test_repeated_command_stores_nothing_twice(host: Machine, server: HostileServer, output: Path) -> None:
    server.gate = decide(make_row())

    statuses = [host.run("gate", str(output)).returncode for _ in range(2)]

    assert (statuses, len(server.posts()), len(server.stored)) == ([0, 0], 2, 1)


def test_profile_is_run_and_delivered(host: Machine, server: HostileServer) -> None:
    server.gate = decide(make_row())

    ended = host.run(
        "gate", "--profile", "quick", "--directory", str(host.directory), "--repeat", "2", "--json"
    )

    document = json.loads(ended.stdout)
    assert (ended.returncode, document["exit_code"], document["outcome"]) == (0, 0, "passed")
    assert sorted(document["submissions"]) == sorted(server.stored)
    assert len(server.stored) == 2
    assert document["gate"] == make_gate(make_row())
    assert host.pending() == []


def test_failed_fio_with_a_report_does_not_pass(host: Machine, server: HostileServer) -> None:
    server.gate = decide(make_row())

    ended = host.run("gate", "--profile", "quick", "--directory", str(host.directory), FAKE_FIO="failing")

    assert ended.returncode == 5
    assert "ENOSPC" in ended.stderr
    assert len(server.stored) == 1


def test_regression_of_a_partially_failed_run_is_a_regression(host: Machine, server: HostileServer) -> None:
    server.gate = decide(
        make_row(outcome="regressed"), make_row(outcome="undecided", reason="no-value"), outcome="regressed"
    )

    ended = host.run("gate", "--profile", "quick", "--directory", str(host.directory), FAKE_FIO="failing")

    assert ended.returncode == 3
    assert "regressed: 1 regressed, 1 undecided; " in ended.stdout


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (replies.reply_problem(400, "parameter-invalid"), 2, "it is parameter-invalid"),
        (replies.reply_problem(401, "token-revoked"), 2, "it is token-revoked"),
        (replies.reply_problem(503, "busy"), 1, "it is busy"),
        (replies.captive_portal, 2, "is another service running"),
        (replies.reset, 1, "cannot reach the server"),
    ],
)
def test_server_that_refuses_ends_the_command_before_a_run(
    host: Machine, server: HostileServer, reply: replies.Reply, status: int, text: str
) -> None:
    server.gate = reply

    ended = host.run("gate", "--profile", "quick", "--directory", str(host.directory))

    assert (ended.returncode, ended.stdout) == (status, "")
    assert text in ended.stderr
    assert (server.posts(), host.pending()) == ([], [])


def test_unreachable_server_is_temporary(host: Machine, output: Path) -> None:
    ended = host.run("gate", str(output), BENCH_AGENT_URL="http://127.0.0.1:1")

    assert ended.returncode == 1
    assert "cannot reach the server" in ended.stderr


def test_server_that_goes_away_after_the_run_leaves_the_result_in_the_spool(
    host: Machine, server: HostileServer
) -> None:
    server.usual = replies.reset

    ended = host.run("gate", "--profile", "quick", "--directory", str(host.directory), "--budget", "0")

    assert ended.returncode == 1
    assert len(host.pending()) == 1
    assert "is in the spool" in ended.stderr


def test_rejected_file_has_its_own_exit_code(host: Machine, server: HostileServer, output: Path) -> None:
    server.usual = replies.reply_problem(422, "no-report")
    refused = host.run("gate", str(output))
    server.usual, server.final_state = replies.accept, "rejected"
    rejected = host.run("gate", str(output))

    assert (refused.returncode, rejected.returncode) == (6, 6)
    assert "it is no-report" in refused.stderr
    assert "no fio report found" in rejected.stderr


def test_result_that_is_not_stored_in_time_is_temporary(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.polls_until_final = 1000

    ended = host.run("gate", str(output), "--wait", "0")

    assert ended.returncode == 1
    assert "is not stored after 0 s" in ended.stderr


def test_revoked_token_ends_the_wait_with_its_own_exit_code(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.state = replies.reply_problem(401, "token-revoked")

    ended = host.run("gate", str(output))

    assert ended.returncode == 2
    assert "was received, but its state cannot be read: status 401, it is token-revoked" in ended.stderr
    assert len([seen for seen in server.seen if "/submissions/" in seen.path]) == 1


def test_submission_without_a_run_has_its_own_text(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.state = replies.reply_state("stored")

    ended = host.run("gate", str(output))

    assert ended.returncode == 5
    assert "is stored without a run" in ended.stderr
    assert len(list_gets(server)) == 1


def test_maximum_is_that_of_the_server_and_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gate", "--help"])

    assert RUNS_MAXIMUM == 1 + FURTHER_RUNS_MAXIMUM
    assert " ".join(capsys.readouterr().out.split()).count(f"at most {RUNS_MAXIMUM}") == 2


def test_too_many_files_are_refused_before_a_request(
    host: Machine, server: HostileServer, output: Path
) -> None:
    ended = host.run("gate", *[str(output)] * (RUNS_MAXIMUM + 1))

    assert (ended.returncode, server.seen) == (2, [])
    assert "52 files: the gate compares at most 51 runs" in ended.stderr


def test_too_many_runs_in_one_file_are_reported(host: Machine, server: HostileServer, output: Path) -> None:
    server.state = replies.reply_state("stored", *range(1, RUNS_MAXIMUM + 2))

    ended = host.run("gate", str(output))

    assert ended.returncode == 2
    assert "52 runs are stored, but the gate compares at most 51" in ended.stderr
    assert len(list_gets(server)) == 1


def test_as_many_runs_as_the_server_compares_are_compared(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.state = replies.reply_state("stored", *range(1, RUNS_MAXIMUM + 1))
    server.gate = decide(make_row())

    ended = host.run("gate", str(output))

    assert ended.returncode == 0
    query = parse_qs(urlsplit(list_gets(server)[-1]).query)
    assert query == {"runs": [",".join(map(str, range(2, RUNS_MAXIMUM + 1)))]}


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (replies.reply_at_length, 2, "the response is longer than 8 MiB"),
        (replies.truncate, 1, "the response ended 492 bytes too early"),
    ],
)
def test_incomplete_answer_of_the_gate_is_named(
    host: Machine, server: HostileServer, output: Path, reply: replies.Reply, status: int, text: str
) -> None:
    def reply_late(handler: replies.Handler, body: bytes) -> None:
        (decide() if "/runs/0/" in handler.path else reply)(handler, body)

    server.gate = reply_late

    ended = host.run("gate", str(output))

    assert (ended.returncode, ended.stdout) == (status, "")
    assert text in ended.stderr
    assert "another service" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["nothing.json"], 2, "cannot read nothing.json"),
        (["{empty}"], 5, "is empty"),
        (["{output}", "--directory", "/tmp"], 2, "--directory cannot be used with FILE"),
        (["{output}", "--time-limit", "5m"], 2, "--time-limit cannot be used with FILE"),
        (["{output}", "--cloud"], 2, "--cloud cannot be used with FILE"),
        (["{output}", "--repeat", "2"], 2, "--repeat cannot be used with FILE"),
        (["{output}", "--set", "size=1g"], 2, "--set cannot be used with FILE"),
        (["{output}", "--target", "colour=red"], 2, "unknown target field"),
        (["{output}", "--max-regression", "much"], 2, "expected a share"),
        (["{output}", "--error-rate", "nan"], 2, "expected a share"),
        (["{output}", "--comment", "/nonexistent/comment.md"], 2, "cannot write"),
        (["{output}", "--github"], 2, "GITHUB_STEP_SUMMARY is not set"),
        (["--directory", "/tmp"], 2, "no profile given"),
    ],
)
def test_wrong_arguments_are_refused_before_a_request(
    host: Machine, server: HostileServer, output: Path, arguments: Sequence[str], status: int, text: str
) -> None:
    empty = host.home / "empty.json"
    empty.touch()

    ended = host.run("gate", *(each.format(output=output, empty=empty) for each in arguments))

    assert (ended.returncode, server.seen) == (status, [])
    assert text in ended.stderr


def test_file_that_no_server_accepts_is_refused(
    host: Machine, server: HostileServer, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.running.gate_command._OUTPUT_MAXIMUM_BYTES", 10)

    ended = host.run("gate", str(output))

    assert (ended.returncode, server.seen) == (2, [])
    assert f"{output} has more than 10 bytes, which no server accepts" in ended.stderr


def test_github_gets_a_step_summary_and_annotations(
    host: Machine, server: HostileServer, output: Path
) -> None:
    server.gate = decide(make_row(outcome="regressed", workload_title="a%b"), make_row(), outcome="regressed")
    summary, comment = host.home / "summary.md", host.home / "comment.md"
    summary.write_text("before\n")
    comment.write_text("an older comment, which is longer than nothing" * 100)

    ended = host.run(
        "gate", str(output), "--github", "--comment", str(comment), GITHUB_STEP_SUMMARY=str(summary)
    )

    text = comment.read_text()
    assert ended.returncode == 3
    assert text.startswith("### Storage benchmark: regressed\n")
    assert summary.read_text() == "before\n" + text
    (annotation,) = [line for line in ended.stderr.splitlines() if line.startswith("::")]
    assert annotation.startswith("::error title=Benchmark regressed::db-1 · a%25b · gp3, IOPS: 800")


def test_wait_is_shown_on_a_terminal_and_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = WaitProgress("storing", total_s=120.0, is_quiet=False)

    progress.start()
    progress.finish()

    shown = capsys.readouterr().err
    assert "storing  [........................]  0 s of at most 120 s" in shown
    assert shown.endswith("\r\x1b[K")
