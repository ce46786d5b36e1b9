"""The command `experiment`: order, labels, switches, reboots, resume, refusals."""

import gzip
import json
import shutil
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.delivery.spool import Spool
from agent.running import experiment_command
from agent.running.experiment_command import order_arms
from benchapp.layouts.rules import experiments
from tests.agent.conftest import Machine, Terminal
from tests.short_fio import write_short_fio

# Writes the arms that the host was switched to, and becomes them.
SWITCH = 'echo $BENCH_AGENT_ARM >> "$HOME/switches"; echo $BENCH_AGENT_ARM > "$HOME/arm"'
CHECK = 'test "$(cat "$HOME/arm")" = "$BENCH_AGENT_ARM"'


def run(machine: Machine, *arguments: str, **options: Any) -> Any:
    return machine.run("experiment", *arguments, **options)


def start(machine: Machine, *arguments: str, **options: Any) -> Any:
    return run(machine, "--profile", "quick", "--directory", str(machine.directory), *arguments, **options)


def read_state(machine: Machine) -> dict[str, Any]:
    (path,) = (machine.spool / "experiments").glob("*.json")
    return dict(json.loads(path.read_text()))


def list_states(machine: Machine) -> list[str]:
    return [each["state"] for each in read_state(machine)["runs"]]


def list_labels(machine: Machine) -> list[dict[str, str]]:
    """Return the labels of the results in the spool, in the order of the runs."""
    found = {}
    for path in machine.pending():
        envelope = json.loads(gzip.decompress(path.read_bytes()))
        found[envelope["id"]] = dict(envelope["labels"])
    runs = [each["run_id"] for each in read_state(machine)["runs"]]
    return [found[run_id] for run_id in runs if run_id in found]


def list_switches(machine: Machine) -> list[str]:
    path = machine.home / "switches"
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give the host another boot id."""

    def set_id(name: str) -> None:
        monkeypatch.setattr(experiment_command, "read_boot_id", lambda: name)

    set_id("first")
    return set_id


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 300])
def test_order_is_that_of_the_server(pairs: int) -> None:
    assert order_arms(pairs) == experiments.order_arms(pairs)


def test_runs_are_in_abba_order_with_the_arm_as_label(machine: Machine) -> None:
    ended = start(machine, "--pairs", "3", "--switch-command", SWITCH, "--label", "Disk=1")

    assert ended.returncode == 0, ended.stderr
    labels, state = list_labels(machine), read_state(machine)
    assert [each["arm"] for each in labels] == list("abbaab")
    assert {(each["Disk"], each["experiment"]) for each in labels} == {("1", state["id"])}
    assert list_switches(machine) == ["a", "b", "a", "b"]
    assert f"experiment {state['id']}: 6 of 6 runs completed" in ended.stdout
    assert state["finished_at"]


def test_address_of_the_result_has_the_arms_and_the_start(machine: Machine) -> None:
    arguments = ("--pairs", "1", "--switch-command", "true", "--arms", "6.1,6.12", "--arm-label", "kernel")
    ended = start(machine, *arguments, "--no-send", BENCH_AGENT_URL="http://127.0.0.1:9")

    state = read_state(machine)
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result: ")]
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(line.partition(" ")[2]).query))
    assert query == {
        "q": f"label.experiment:{state['id']}",
        "a": "label.kernel:6.1",
        "b": "label.kernel:6.12",
        "from": state["created_at"],
    }
    assert [each["kernel"] for each in list_labels(machine)] == ["6.1", "6.12"]


def test_of_a_plan_only_the_order_is_read(machine: Machine) -> None:
    plan = machine.home / "plan.json"
    plan.write_text(json.dumps({"plan": {"order": "abba", "pairs": 2}, "switch_command": "touch x"}))

    ended = start(machine, "--plan", str(plan), "--switch-command", SWITCH, "--dry-run")

    assert ended.returncode == 0, ended.stderr
    assert "order     a b b a\nswitches  3\n" in ended.stdout
    assert not (machine.spool / "experiments").exists()
    assert start(machine, "--plan", str(plan), "--switch-command", SWITCH).returncode == 0
    assert list_states(machine) == ["done"] * 4
    assert not (machine.home / "x").exists()


def test_failed_switch_ends_the_experiment_and_resume_repeats_it(machine: Machine) -> None:
    failing = 'test "$BENCH_AGENT_ARM" = a || test -e "$HOME/fixed"'
    ended = start(machine, "--pairs", "1", "--switch-command", failing)

    assert ended.returncode == 5
    assert "arm b: --switch-command failed with exit status 1" in ended.stderr
    assert "continue with: bench-agent experiment --resume" in ended.stderr
    assert list_states(machine) == ["done", "waiting"]
    (machine.home / "fixed").touch()

    assert run(machine, "--resume", "last").returncode == 0
    assert [each["arm"] for each in list_labels(machine)] == ["a", "b"]


def test_experiment_waits_for_the_reboot_and_continues_after_it(
    machine: Machine, boot: Callable[[str], None]
) -> None:
    first = start(machine, "--pairs", "2", "--switch-command", SWITCH, "--reboots")

    assert first.returncode == 0
    assert "after the reboot: bench-agent experiment --resume" in first.stdout
    assert (list_states(machine), machine.pending()) == (["waiting"] * 4, [])
    for number, measured in ((1, "a"), (2, "abb"), (3, "abba")):
        boot(f"boot {number}")
        ended = run(machine, "--resume", "last")
        assert ended.returncode == 0, ended.stderr
        assert [each["arm"] for each in list_labels(machine)] == list(measured)
    assert list_switches(machine) == ["a", "b", "a"]
    assert read_state(machine)["finished_at"]


def test_without_a_reboot_nothing_is_measured_as_the_new_arm(
    machine: Machine, boot: Callable[[str], None]
) -> None:
    start(machine, "--pairs", "1", "--switch-command", SWITCH, "--reboots")

    again = run(machine, "--resume", "last")

    assert (again.returncode, machine.pending()) == (0, [])
    assert list_switches(machine) == ["a", "a"]


def test_check_command_finds_out_which_arm_the_host_is(machine: Machine) -> None:
    (machine.home / "arm").write_text("a\n")

    ended = start(machine, "--pairs", "1", "--switch-command", SWITCH, "--check-command", CHECK)

    assert ended.returncode == 0, ended.stderr
    assert list_switches(machine) == ["b"]


def test_switch_without_effect_is_found_by_the_check(machine: Machine) -> None:
    ended = start(machine, "--pairs", "1", "--switch-command", "true", "--check-command", "false")

    assert ended.returncode == 5
    assert "the host is not this arm" in ended.stderr
    assert list_states(machine) == ["waiting", "waiting"]


def test_person_confirms_each_arm(machine: Machine) -> None:
    ended = start(machine, "--pairs", "2", stdin=Terminal("yes\nyes\n\n"))

    assert ended.returncode == 2
    assert ended.stderr.count("then type yes:") == 3
    assert "arm a: not confirmed" in ended.stderr
    assert list_states(machine) == ["done", "done", "done", "waiting"]


def test_without_a_terminal_or_a_command_nothing_starts(machine: Machine) -> None:
    ended = start(machine, "--pairs", "1")

    assert ended.returncode == 2
    assert "there is no terminal to confirm it; give --switch-command" in ended.stderr
    assert (machine.pending(), list(machine.spool.glob("experiments/*"))) == ([], [])


def test_experiment_that_cannot_begin_is_not_left(machine: Machine) -> None:
    spool = Spool(str(machine.spool), max_bytes=2**20)

    with spool.lock():
        ended = start(machine, "--pairs", "1", "--switch-command", "true")

    assert (ended.returncode, list(machine.spool.glob("experiments/*"))) == (1, [])
    assert "another bench-agent is running" in ended.stderr
    assert "no unfinished experiment to resume" in run(machine, "--resume", "last").stderr


def test_failed_run_is_counted_and_the_others_are_measured(machine: Machine) -> None:
    ended = start(machine, "--pairs", "1", "--switch-command", "true", FAKE_FIO="silent")

    assert ended.returncode == 5
    assert list_states(machine) == ["failed", "failed"]
    assert "0 of 2 runs completed, 2 failed" in ended.stdout


@pytest.mark.parametrize(("is_stored", "count"), [(True, 2), (False, 3)])
def test_killed_run_is_repeated_unless_its_result_is_stored(
    machine: Machine, is_stored: bool, count: int
) -> None:
    start(machine, "--pairs", "1", "--switch-command", "true")
    (path,) = (machine.spool / "experiments").glob("*.json")
    document = json.loads(path.read_text())
    document["runs"][1]["state"] = "running"
    if not is_stored:
        document["runs"][1]["run_id"] = "11111111-1111-4111-8111-111111111111"
    path.write_text(json.dumps({**document, "finished_at": None}))

    assert run(machine, "--resume", "last").returncode == 0

    assert list_states(machine) == ["done", "done"]
    assert len(machine.pending()) == count


def test_reboot_that_does_not_lead_to_the_arm_is_not_repeated_at_once(
    machine: Machine, boot: Callable[[str], None]
) -> None:
    start(machine, "--pairs", "1", "--switch-command", SWITCH, "--check-command", "false", "--reboots")
    boot("second")

    failed = run(machine, "--resume", "last")
    switches = list_switches(machine)
    again = run(machine, "--resume", "last")

    assert (failed.returncode, switches) == (5, ["a"])
    assert "arm a: --check-command failed after the reboot" in failed.stderr
    assert (again.returncode, list_switches(machine)) == (0, ["a", "a"])
    assert machine.pending() == []


@pytest.mark.parametrize(
    ("booted", "check", "arm_since", "switches"),
    [
        ("first", "", "a", []),
        ("second", "", "a", ["a"]),
        ("second", CHECK, "a", []),
        ("first", CHECK, "b", ["a"]),
    ],
)
def test_resume_measures_nothing_as_an_arm_that_the_host_was_before(
    machine: Machine,
    boot: Callable[[str], None],
    booted: str,
    check: str,
    arm_since: str,
    switches: list[str],
) -> None:
    start(machine, "--pairs", "2", "--switch-command", SWITCH, *(["--check-command", check] if check else []))
    (path,) = (machine.spool / "experiments").glob("*.json")
    document = json.loads(path.read_text())
    document["runs"][-1] |= {"state": "waiting", "run_id": None}
    path.write_text(json.dumps({**document, "finished_at": None}))
    (machine.home / "switches").unlink()
    (machine.home / "arm").write_text(arm_since)
    boot(booted)

    ended = run(machine, "--resume", "last")

    assert (ended.returncode, list_switches(machine)) == (0, switches), ended.stderr
    assert list_states(machine) == ["done"] * 4


def test_status_names_an_experiment_that_is_left(machine: Machine) -> None:
    start(machine, "--pairs", "2", "--switch-command", 'test "$BENCH_AGENT_ARM" = a')
    experiment_id = read_state(machine)["id"]

    status = machine.run("status")

    assert f"experiment {experiment_id}: 3 of 4 runs are left" in status.stdout
    assert f"bench-agent experiment --resume {experiment_id}" in status.stdout


def test_finished_experiment_is_not_measured_again(machine: Machine) -> None:
    start(machine, "--pairs", "1", "--switch-command", "true")
    experiment_id = read_state(machine)["id"]

    again = run(machine, "--resume", experiment_id)

    assert (again.returncode, len(machine.pending())) == (0, 2)
    assert f"experiment {experiment_id} is finished" in again.stdout
    assert "no unfinished experiment to resume" in run(machine, "--resume", "last").stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give either --pairs or --plan"),
        (("--pairs", "1", "--plan", "x"), "give either --pairs or --plan"),
        (("--plan", "/nonexistent"), "--plan /nonexistent: "),
        (("--pairs", "1", "--arms", "a"), "--arms a: expected two different names"),
        (("--pairs", "1", "--arms", "a,a"), "--arms a,a: expected two different names"),
        (("--pairs", "1", "--arms", "a b,c"), "--arms a b,c: expected two different names"),
        (("--pairs", "1", "--arm-label", "experiment"), "--arm-label experiment: "),
        (("--pairs", "1", "--label", "arm=x"), "--label arm=…: this label is set by the experiment"),
        (("--pairs", "1", "--reboots"), "--reboots needs --switch-command"),
        (("--resume", "last", "--pairs", "1"), "leave out --profile, --directory, --pairs"),
    ],
)
def test_bad_arguments_are_named(machine: Machine, arguments: tuple[str, ...], problem: str) -> None:
    ended = start(machine, *arguments)

    assert ended.returncode == 2
    assert problem in ended.stderr


@pytest.mark.parametrize("order", ["", "aa", "abc", "ab" * 301, 5, None])
def test_plan_without_a_valid_order_is_refused(machine: Machine, order: Any) -> None:
    plan = machine.home / "plan.json"
    plan.write_text(json.dumps({"plan": {"order": order}}))

    ended = start(machine, "--plan", str(plan), "--switch-command", "true")

    assert ended.returncode == 2
    assert "no plan with an order of at most 300 pairs" in ended.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "its JSON is nested too deeply"),
        ('"' + "x" * 10**6 + '"', "it has more than 1000000 bytes"),
    ],
)
def test_plan_that_cannot_be_read_is_an_error(machine: Machine, text: str, reason: str) -> None:
    plan = machine.home / "plan.json"
    plan.write_text(text)

    ended = start(machine, "--plan", str(plan), "--switch-command", "true")

    assert ended.returncode == 2
    assert f"--plan {plan}: {reason}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_number_of_pairs_has_a_limit(machine: Machine) -> None:
    for text in ("0", "301", "x", "-1"):
        with pytest.raises(SystemExit):
            start(machine, "--pairs", text)


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
def test_arms_are_measured_with_fio(machine: Machine, tmp_path: Path) -> None:
    write_short_fio(machine.home / "fio")

    ended = start(
        machine,
        *("--pairs", "1", "--switch-command", SWITCH, "--check-command", CHECK, "--json"),
        *("--set", "size=1m", "--set", "runtime=1"),
    )

    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert (document["done"], document["failed"], document["waiting"]) == (2, 0, 0)
    assert [each["arm"] for each in list_labels(machine)] == ["a", "b"]
    assert machine.leftovers() == []
