"""State files of sweeps and experiments that are damaged: reported, and never in the way of others."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.delivery import spool
from agent.files import read_json
from agent.job_state import ExperimentState, JobState, StateDirectory, SweepState
from agent.scheduling.adoption import AdoptionStore
from tests.agent.conftest import Machine

DEEP = "[" * 100_000 + "]" * 100_000
NAME = "00000000-0000-4000-8000-000000000000"
KINDS = ("sweep", "experiment")
STATES: dict[str, type[JobState]] = {"sweep": SweepState, "experiment": ExperimentState}


def sweep(machine: Machine, *arguments: str) -> Any:
    place = ("--directories", str(machine.directory), "--profile", "quick", "--yes")
    return machine.run("sweep", *place, "--file-sizes", "1m,2m", *arguments)


def experiment(machine: Machine, *arguments: str) -> Any:
    place = ("--directory", str(machine.directory), "--profile", "quick")
    return machine.run("experiment", *place, "--pairs", "1", "--switch-command", "true", *arguments)


START = {"sweep": sweep, "experiment": experiment}


def start_unfinished(machine: Machine, kind: str) -> dict[str, Any]:
    """Leave a job of which one step is done; return its document."""
    START[kind](machine)
    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    document = json.loads(path.read_text())
    document["finished_at"] = None
    document["steps" if kind == "sweep" else "runs"][1] |= {"state": "waiting", "run_id": None}
    path.write_text(json.dumps(document))
    return dict(document)


def make_unreadable(path: Path) -> None:
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "it is empty": lambda path: path.touch(),
    "it is not JSON": lambda path: path.write_text('{"schema": "bench'),
    "it is not a JSON object": lambda path: path.write_text("[]"),
    "its JSON is nested too deeply": lambda path: path.write_text(DEEP),
    "it is not UTF-8 text": lambda path: path.write_bytes(b'"\xff\xfe\xfa"'),
    "its schema is": lambda path: path.write_text('{"schema": "other/7"}'),
    "No such file": lambda path: path.symlink_to("nowhere"),
    "it is not a regular file": make_unreadable,
    "directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states_are_reported_and_others_are_resumed(machine: Machine, kind: str) -> None:
    left = start_unfinished(machine, kind)
    paths = {reason: machine.spool / f"{kind}s" / f"{reason[-9:]}.json" for reason in DAMAGES}
    for reason, path in paths.items():
        DAMAGES[reason](path)

    status, document = machine.run("status"), machine.run_json("status")
    resumed = machine.run(kind, "--resume", "last")
    again = START[kind](machine)

    assert status.returncode == 0
    assert f"bench-agent {kind} --resume {left['id']}" in status.stdout
    damaged = {each["path"]: each for each in document["damaged_states"]}
    assert len(damaged) == len(DAMAGES)
    for reason, path in paths.items():
        assert f"damaged   {path}: " in status.stdout
        assert damaged[str(path)]["job"] == kind
        assert reason in damaged[str(path)]["reason"]
        assert "remove the file" in damaged[str(path)]["remedy"]
        for ended in (resumed, again):
            assert ended.returncode == 0, ended.stderr
            assert f"cannot read the {kind} state {path}: " in ended.stderr
    assert all(os.path.lexists(path) for path in paths.values())
    assert machine.run_json("status")[f"interrupted_{kind}s"] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["--resume", "--abandon"])
def test_damaged_state_that_is_named_is_an_error(machine: Machine, kind: str, option: str) -> None:
    (machine.spool / f"{kind}s").mkdir(parents=True)
    (machine.spool / f"{kind}s" / f"{NAME}.json").write_text("{}")

    ended = machine.run(kind, option, NAME)

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "its schema is 'None'" in line


WRONG: list[tuple[str, Any]] = [
    ("id", "other"),
    ("id", 5),
    ("created_at", None),
    ("finished_at", 5),
    ("request", []),
    ("steps", {}),
    ("steps", [None]),
    ("steps", [{"label": "x", "arm": "a", "state": "lost", "run_id": None, "failure": None}]),
    ("steps", [{"label": 5, "arm": 5, "state": "done", "run_id": None, "failure": None}]),
    ("steps", [{"label": "x", "state": "done", "run_id": 7, "failure": None}]),
]
OF_A_SWEEP: list[tuple[str, Any]] = [
    ("sizes", {"/dev/a": "1 GiB"}),
    ("round", "first"),
    ("left", {"/dev/a": 5}),
    ("approved_contents", {"/dev/a": 5}),
    ("steps", [{"label": "x", "state": "done", "run_id": None, "failure": None, "results": [{}]}]),
    (
        "steps",
        [{"label": "x", "state": "done", "run_id": None, "failure": None, "results": [{"iops": 10**400}]}],
    ),
]
OF_AN_EXPERIMENT: list[tuple[str, Any]] = [("arm", 5), ("arm_boot_id", {}), ("switching", {"arm": "a"})]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((kind, *each) for kind in KINDS for each in WRONG),
        *(("sweep", *each) for each in OF_A_SWEEP),
        *(("experiment", *each) for each in OF_AN_EXPERIMENT),
    ],
)
def test_member_of_a_wrong_type_is_damage(machine: Machine, kind: str, name: str, value: Any) -> None:
    document = start_unfinished(machine, kind)
    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    path.write_text(
        json.dumps({**document, "runs" if (kind, name) == ("experiment", "steps") else name: value})
    )

    status = machine.run_json("status")

    assert [each["path"] for each in status["damaged_states"]] == [str(path)]
    assert status[f"interrupted_{kind}s"] == []
    assert machine.run(kind, "--resume", "last").returncode == 2


REQUESTS: list[tuple[str, str, Any]] = [
    ("sweep", "parameters", {"size": 5}),
    ("sweep", "profile", None),
    ("sweep", "devices", ["/dev/a"]),
    ("sweep", "others", 5),
    ("sweep", "labels", {"a": 5}),
    ("experiment", "profile", 5),
    ("experiment", "set", [5]),
    ("experiment", "reboots", "yes"),
    ("experiment", "resume", "x"),
    ("experiment", "arms", "c,d"),
]


@pytest.mark.parametrize(("kind", "name", "value"), REQUESTS)
def test_job_with_a_bad_request_is_not_continued_and_can_be_abandoned(
    machine: Machine, kind: str, name: str, value: Any
) -> None:
    document = start_unfinished(machine, kind)
    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    path.write_text(json.dumps({**document, "request": {**document["request"], name: value}}))

    resumed = machine.run(kind, "--resume", "last")
    abandoned = machine.run(kind, "--abandon", "last")

    assert resumed.returncode == 2
    assert f"end this one with bench-agent {kind} --abandon {document['id']}" in resumed.stderr
    assert abandoned.returncode == 0, abandoned.stderr


def test_directory_of_states_that_is_a_file_is_reported(machine: Machine) -> None:
    machine.spool.mkdir()
    (machine.spool / "experiments").touch()

    status, started = machine.run("status"), experiment(machine)

    assert status.returncode == 0
    assert f"damaged   {machine.spool}/experiments: Not a directory" in status.stdout
    assert started.returncode == 2
    assert f"cannot use {machine.spool}/experiments: " in started.stderr


def test_state_that_cannot_be_written_ends_the_command_with_the_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent.job_state.write_durably", fail)

    ended = experiment(machine)

    assert ended.returncode == 5
    assert "No space left on device" in ended.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_abandoned_job_is_never_continued_and_its_results_stay(machine: Machine, kind: str) -> None:
    job_id, results = start_unfinished(machine, kind)["id"], machine.pending()

    ended = machine.run(kind, "--abandon", "last")

    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    document = json.loads(path.read_text())
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0)
    assert re.search(
        f"{kind} {job_id} is abandoned: 1 of 2 (steps|runs) completed, their results stay", ended.stdout
    )
    assert (document["is_abandoned"], document["finished_at"] is None) == (True, False)
    assert machine.pending() == results
    status = machine.run("status").stdout
    assert job_id not in status
    last = machine.run(kind, "--resume", "last")
    assert (last.returncode, f"no unfinished {kind} to resume" in last.stderr) == (2, True)
    named = machine.run(kind, "--resume", job_id)
    assert (named.returncode, f"{kind} {job_id} was abandoned" in named.stderr) == (2, True)
    assert machine.run(kind, "--abandon", job_id).returncode == 0
    assert f"no unfinished {kind} to abandon" in machine.run(kind, "--abandon", "last").stderr


@pytest.mark.parametrize("kind", KINDS)
def test_job_that_is_abandoned_while_resume_waits_for_the_lock_is_not_continued(
    machine: Machine, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = start_unfinished(machine, kind)["id"]
    wait = spool._wait_for_lock

    def abandon_and_wait(descriptor: int, patience_s: float) -> bool:
        StateDirectory(STATES[kind], str(machine.spool)).load(job_id, option="--abandon").abandon()
        return wait(descriptor, patience_s)

    monkeypatch.setattr(spool, "_wait_for_lock", abandon_and_wait)
    resumed = machine.run(kind, "--resume", job_id)

    assert (resumed.returncode, f"{kind} {job_id} was abandoned" in resumed.stderr) == (2, True)
    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    assert json.loads(path.read_text())["is_abandoned"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_finished_job_stays_finished_if_it_is_abandoned(machine: Machine, kind: str) -> None:
    START[kind](machine)
    (path,) = (machine.spool / f"{kind}s").glob("*.json")
    before = path.read_text()

    ended = machine.run_json(kind, "--abandon", path.stem)

    assert (ended["exit_code"], ended["is_abandoned"]) == (0, False)
    assert path.read_text() == before


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_abandoned_while_an_agent_runs(machine: Machine, kind: str) -> None:
    from agent.delivery.spool import Spool

    job_id = start_unfinished(machine, kind)["id"]
    with Spool(str(machine.spool), max_bytes=2**20).lock():
        ended = machine.run(kind, "--abandon", job_id)

    assert ended.returncode == 1
    assert "another bench-agent is running" in ended.stderr
    assert machine.run_json("status")[f"interrupted_{kind}s"][0]["id"] == job_id


@pytest.mark.parametrize("kind", KINDS)
def test_options_of_a_new_job_are_refused_with_abandon(machine: Machine, kind: str) -> None:
    ended = machine.run(kind, "--abandon", "last", "--profile", "quick", "--dry-run")

    assert ended.returncode == 2
    assert "--abandon measures nothing; leave out --profile, --dry-run" in ended.stderr


@pytest.mark.parametrize("is_spooled", [True, False])
def test_killed_step_of_an_abandoned_job_is_done_if_its_result_is_in_the_spool(
    machine: Machine, is_spooled: bool
) -> None:
    document = start_unfinished(machine, "experiment")
    (path,) = (machine.spool / "experiments").glob("*.json")
    document["runs"][0]["state"] = "running"
    if not is_spooled:
        document["runs"][0]["run_id"] = NAME
    path.write_text(json.dumps(document))

    machine.run("experiment", "--abandon", "last")

    state = json.loads(path.read_text())["runs"][0]["state"]
    assert state == ("done" if is_spooled else "waiting")


def test_command_names_the_arm_that_an_abandoned_experiment_leaves(machine: Machine) -> None:
    start_unfinished(machine, "experiment")

    assert "the host is left as arm b" in machine.run("experiment", "--abandon", "last").stderr


@pytest.mark.parametrize("text", ["", "[]", DEEP, '{"wanted": 5}', '{"problem": 5}', '{"refused": [5]}', "{"])
def test_damaged_adoption_does_not_end_status(machine: Machine, text: str) -> None:
    machine.spool.mkdir()
    (machine.spool / "adoption.json").write_text(text)
    (machine.spool / "counts.json").write_text(text)

    assert AdoptionStore(str(machine.spool)).read() is None
    assert machine.run("status").returncode == 0


def test_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('"' + "x" * 100 + '"')

    with pytest.raises(ValueError, match="it has more than 50 bytes"):
        read_json(str(tmp_path / "x"), maximum_bytes=50)


def test_states_of_the_same_second_are_in_a_fixed_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    states = StateDirectory(SweepState, str(tmp_path))
    for name in ("b", "a"):
        states.create(name, request={}, steps=[], sizes={}, approved_contents={}, round=None)

    assert [state.id for state in states.read().states] == ["a", "b"]
