"""The command `sweep` on a simulated machine: completed, stopped, killed at any time, resumed."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from agent.exit_codes import Interrupted
from agent.running.measure import RunRequest
from agent.running.session import Session
from agent.storage.signatures import Signature
from agent.sweeping.sweep_run import CleanupResult
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer
from tests.agent.sweeping.kernel import (
    DEVICES,
    EXT4,
    SIZES,
    SWEEP,
    Kernel,
    Killed,
    boot,
    kill_sweep,
    run_sweep,
    spooled,
    state,
    step_states,
)


@pytest.mark.parametrize("raid", ["mdadm", "lvm", "btrfs"])
def test_sweep_measures_each_step_and_cleans_the_devices(machine: Machine, raid: str) -> None:
    kernel = Kernel(*DEVICES)

    ended = run_sweep(machine, kernel, "--raid", raid, *SIZES)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith(": 4 of 4 steps completed\n")
    assert [known["stripe_count"] for _, known in kernel.measured] == [1, 1, 2, 2]
    assert [known["raid_level"] for _, known in kernel.measured] == [None, None, "raid0", "raid0"]
    assert kernel.is_clean
    assert state(machine)["finished_at"]
    assert [step["run_id"] for step in state(machine)["steps"]] == [run_id for run_id, _ in kernel.measured]


def test_sweep_shows_how_far_it_scales_and_the_chart(machine: Machine) -> None:
    arguments = (*SWEEP, *SIZES)
    with boot(Kernel(*DEVICES)):
        ended = machine.run(*arguments, is_terminal=True, BENCH_AGENT_URL="http://127.0.0.1:9")

    heading, *rows, chart, summary = ended.stdout.splitlines()
    assert heading.split() == ["workload", "size", "stripes", "IOPS", "efficiency"]
    assert [re.split(" {2,}", row)[1:] for row in rows] == [
        ["8m", "1", "1\u202f000", "100 %"],
        ["8m", "2", "1\u202f866", "93 %"],
        ["16m", "1", "1\u202f000", "100 %"],
        ["16m", "2", "1\u202f866", "93 %"],
    ]
    sweep_id = state(machine)["id"]
    assert chart == f"chart: http://127.0.0.1:9/scaling/?q=sweep%3A{sweep_id}"
    assert summary.startswith(f"sweep {sweep_id}: 4 of 4 steps")


def test_scaling_in_json_has_no_efficiency_without_the_first_step(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.failure = lambda request: "nothing" if request.known["stripe_count"] == 1 else None

    document = json.loads(run_sweep(machine, kernel, "--json", *SIZES).stdout)

    assert [(row["settings"], row["stripes"], row["efficiency"]) for row in document["scaling"]] == [
        ({"size": "8m"}, 2, 1.0),
        ({"size": "16m"}, 2, 1.0),
    ]
    assert document["chart"] is None


def test_status_reports_an_interrupted_sweep_and_how_to_resume_it(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.failure = lambda request: "fio failed" if len(kernel.measured) == 1 else None
    run_sweep(machine, kernel, "--stop-on-error", *SIZES)
    sweep_id = state(machine)["id"]

    shown, document = machine.run("status").stdout, machine.run_json("status")

    assert f"sweep     {sweep_id}: interrupted after 2 of 4 steps\n" in shown
    assert f"continue with: bench-agent sweep --resume {sweep_id}\n" in shown
    assert [sweep["id"] for sweep in document["interrupted_sweeps"]] == [sweep_id]
    kernel.failure = lambda request: None
    with boot(kernel):
        machine.run("sweep", "--resume", "last", "--no-send")
    assert machine.run_json("status")["interrupted_sweeps"] == []


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("raid", ["mdadm", "lvm", "btrfs"])
def test_sweep_killed_at_any_time_can_be_resumed(tmp_path: Path, raid: str, is_done: bool) -> None:
    for instant in range(1, 200):
        machine = make_machine(tmp_path / f"{instant}")
        kernel = Kernel(*DEVICES)
        kernel.held["/dev/b"] = [EXT4]
        kernel.write_data("/dev/b")
        kernel.dies_at, kernel.is_done = instant, is_done
        try:
            run_sweep(machine, kernel, "--raid", raid, "--wipe", "/dev/b", *SIZES)
        except Killed:
            kernel.is_dead = False
        else:
            break
        if not list((machine.spool / "sweeps").glob("*.json")):
            continue  # it had not started

        with boot(kernel):
            ended = machine.run("sweep", "--resume", state(machine)["id"], "--no-send")

        assert ended.returncode == 0, (instant, ended.stderr)
        assert kernel.is_clean, instant
        assert step_states(machine) == ["done"] * 4, instant
        assert len(spooled(machine)) == 4, instant
        assert {step["run_id"] for step in state(machine)["steps"]} == spooled(machine), instant
    assert instant > 30


@pytest.mark.parametrize("instant", range(3, 28, 4))
def test_sweep_killed_at_any_time_can_be_abandoned(machine: Machine, instant: int) -> None:
    kernel = Kernel(*DEVICES)
    kill_sweep(machine, kernel, *SIZES, at=instant)

    with boot(kernel):
        ended = machine.run("sweep", "--abandon", "last")

    assert ended.returncode == 0, ended.stderr
    assert kernel.is_clean
    assert (state(machine)["is_abandoned"], state(machine)["round"]) == (True, None)
    stored = {step["run_id"] for step in state(machine)["steps"] if step["state"] == "done"}
    assert stored == spooled(machine)
    with boot(kernel):
        assert machine.run("sweep", "--resume", "last").returncode == 2
    # Nothing that it left needs --wipe.
    assert run_sweep(machine, kernel, *SIZES, "--dry-run").returncode == 0


def test_incomplete_cleanup_of_an_abandoned_sweep_names_the_command_to_repeat(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kill_sweep(machine, kernel, *SIZES, at=20)
    remains = CleanupResult(problems=("/dev/md/x is busy",))

    with boot(kernel), mock.patch("agent.sweeping.sweep_run.remove_stripe", return_value=remains):
        ended = machine.run("sweep", "--abandon", "last")

    assert ended.returncode == 2
    assert f"then: bench-agent sweep --abandon {state(machine)['id']}" in ended.stderr
    assert state(machine)["finished_at"] is None


def test_mount_of_a_sweep_without_a_state_is_refused(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    with boot(kernel), mock.patch("os.path.ismount", return_value=True):
        ended = machine.run(*SWEEP, *SIZES)

    assert ended.returncode == 2
    assert "sweeps/mount is mounted, by a sweep whose state is damaged or was removed" in ended.stderr
    assert kernel.is_clean


def make_machine(home: Path) -> Machine:
    home.mkdir()
    config = home / "agent.ini"
    config.write_text("")
    return Machine(
        home, {"HOME": str(home), "BENCH_AGENT_CONFIG": str(config), "BENCH_AGENT_SPOOL": str(home / "spool")}
    )


def test_wiped_volume_group_is_removed_before_the_first_step(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.held["/dev/b"] = [Signature("LVM2", 512, "data")]

    ended = run_sweep(machine, kernel, "--wipe", "/dev/b", *SIZES)

    assert (ended.returncode, kernel.is_clean) == (0, True), ended.stderr


def test_incomplete_wipe_is_reported_as_such(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.held["/dev/b"] = [EXT4]

    with mock.patch("agent.sweeping.sweep_run.wipe_commands", return_value=()):
        ended = run_sweep(machine, kernel, "--wipe", "/dev/b", *SIZES)

    assert ended.returncode == 2
    assert "problems remain after the devices were wiped:\n  /dev/b contains ext4" in ended.stderr
    assert "nothing was written" not in ended.stderr


def test_failed_step_is_recorded_and_the_sweep_continues(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.failure = lambda request: "fio failed with status 1" if len(kernel.measured) == 1 else None

    ended = run_sweep(machine, kernel, *SIZES)

    assert ended.returncode == 5
    assert "step 2 of 4, 1 stripe, size=16m: fio failed with status 1" in ended.stderr
    assert ended.stdout.endswith(": 3 of 4 steps completed, 1 failed\n")
    assert step_states(machine) == ["done", "failed", "done", "done"]
    assert (len(spooled(machine)), kernel.is_clean) == (4, True)


def test_step_without_a_report_has_no_run(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.failure = lambda request: "nothing"

    ended = run_sweep(machine, kernel, *SIZES)

    assert ended.returncode == 5
    assert [(step["state"], step["run_id"]) for step in state(machine)["steps"]] == [("failed", None)] * 4


def test_sweep_ends_at_the_first_error_with_stop_on_error(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.failure = lambda request: "fio failed with status 1"

    ended = run_sweep(machine, kernel, "--stop-on-error", *SIZES)

    assert ended.returncode == 5
    assert step_states(machine) == ["failed", "waiting", "waiting", "waiting"]
    assert f"0 of 4 steps completed, 1 failed, 3 left: --resume {state(machine)['id']}" in ended.stdout
    assert kernel.is_clean


@pytest.mark.parametrize(
    ("raid", "tool", "failed"),
    [("mdadm", "mdadm", 2), ("lvm", "vgcreate", 2), ("mdadm", "mkfs.xfs", 4), ("lvm", "mount", 4)],
)
def test_failed_build_of_a_stripe_fails_its_steps_only(
    machine: Machine, raid: str, tool: str, failed: int
) -> None:
    kernel = Kernel(*DEVICES)
    kernel.refuses = tool

    ended = run_sweep(machine, kernel, "--raid", raid, *SIZES)

    assert f"{tool} ended with status 1: it will not" in ended.stderr
    if tool == "mdadm":  # it created nothing to be stopped
        assert kernel.is_clean
    assert step_states(machine) == ["done"] * (4 - failed) + ["failed"] * failed
    assert (ended.returncode, kernel.is_clean) == (5, True)


def test_incomplete_cleanup_is_reported_with_the_commands(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kernel.refuses = "umount"

    ended = run_sweep(machine, kernel, "--stripes", "2", *SIZES)

    mount = machine.spool / "sweeps" / "mount"
    assert ended.returncode == 2
    assert "umount ended with status 1: it will not" in ended.stderr
    assert f"\n  umount {mount}\n  wipefs --all /dev/md/bench-agent\n  mdadm --stop" in ended.stderr
    assert f"bench-agent sweep --resume {state(machine)['id']}" in ended.stderr

    kernel.refuses = ""
    with boot(kernel):
        assert machine.run("sweep", "--resume", "last", "--no-send").returncode == 0
    assert (kernel.is_clean, step_states(machine)) == (True, ["done", "done"])


def test_resumed_sweep_does_not_change_data_of_others(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    # The process is killed after the second mkfs: both devices have signatures of the sweep.
    kernel.is_done = True
    kill_sweep(machine, kernel, *SIZES, at=20)
    kernel.mounted, kernel.array, kernel.volume = None, (), []
    kernel.held["/dev/a"] = [EXT4]

    with boot(kernel):
        ended = machine.run("sweep", "--resume", "last", "--no-send")

    assert ended.returncode == 2
    assert "/dev/a contains ext4 “backup”" in ended.stderr
    assert kernel.held["/dev/a"] == [EXT4]


def test_next_sweep_needs_no_wipe_for_contents_of_the_last_one(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    first = run_sweep(machine, kernel, *SIZES)

    second = run_sweep(machine, kernel, *SIZES)

    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert len(kernel.measured) == 8
    assert kernel.read_content("/dev/b").data_at == 8192


def test_contents_changed_since_the_last_sweep_are_data(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    run_sweep(machine, kernel, *SIZES)
    kernel.write_data("/dev/b")
    before = kernel.read_content("/dev/b")

    refused = run_sweep(machine, kernel, *SIZES)
    after = kernel.read_content("/dev/b")
    wiped = run_sweep(machine, kernel, "--wipe", "/dev/b", *SIZES)

    assert refused.returncode == 2
    assert "/dev/b contains data of an unknown format (byte 8192 is not zero" in refused.stderr
    assert "to destroy it, add --wipe /dev/b" in refused.stderr
    assert "/dev/a contains" not in refused.stderr
    assert after == before
    assert wiped.returncode == 0, wiped.stderr


def test_contents_changed_since_a_stop_are_not_lost_by_resume(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    def stop(request: RunRequest, session: Session) -> Any:
        raise Interrupted("stopped: fio was ended", signal.SIGTERM)

    with boot(kernel), mock.patch("agent.sweeping.sweep_run.measure", stop):
        machine.run(*SWEEP, *SIZES)
    kernel.write_data("/dev/a")
    before = kernel.read_content("/dev/a")

    with boot(kernel):
        ended = machine.run("sweep", "--resume", "last", "--no-send")

    assert ended.returncode == 2
    assert "/dev/a contains data of an unknown format" in ended.stderr
    assert f"--wipe cannot be added to sweep {state(machine)['id']}; start a new sweep" in ended.stderr
    assert kernel.read_content("/dev/a") == before


def test_wipe_of_one_sweep_does_not_apply_to_another(machine: Machine) -> None:
    """The first sweep does not reach /dev/b, whose data has an unknown format."""
    kernel = Kernel(*DEVICES)
    kernel.write_data("/dev/b")
    first = run_sweep(machine, kernel, "--stripes", "1", "--wipe", "/dev/b", *SIZES)

    second = run_sweep(machine, kernel, "--stripes", "1", *SIZES)

    assert (first.returncode, second.returncode) == (0, 2), first.stderr
    assert "/dev/b contains data of an unknown format" in second.stderr
    assert kernel.written["/dev/b"] == 1


def test_signal_cleans_up_and_names_the_command_to_resume(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    def stop(request: RunRequest, session: Session) -> Any:
        raise Interrupted("stopped: fio was ended", signal.SIGTERM)

    with boot(kernel), mock.patch("agent.sweeping.sweep_run.measure", stop):
        ended = machine.run(*SWEEP, *SIZES)

    assert ended.returncode == 143
    assert kernel.is_clean
    assert step_states(machine) == ["waiting"] * 4
    assert f"; continue with: bench-agent sweep --resume {state(machine)['id']}" in ended.stderr


def test_signal_between_steps_ends_the_sweep(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)

    def signal_us(request: RunRequest) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    kernel.failure = signal_us
    ended = run_sweep(machine, kernel, *SIZES)

    assert (ended.returncode, kernel.is_clean) == (143, True)
    assert step_states(machine) == ["done", "waiting", "waiting", "waiting"]


def test_result_that_was_delivered_before_the_resume_is_not_measured_again(
    host: Machine, server: HostileServer
) -> None:
    kernel = Kernel(*DEVICES)
    run_ids: list[str] = []

    def accept_and_exit(request: RunRequest, session: Session) -> Any:
        run_ids.append(str(request.run_id))
        kernel.is_dead = True
        raise Killed

    with boot(kernel), mock.patch("agent.sweeping.sweep_run.measure", accept_and_exit), pytest.raises(Killed):
        host.run(*SWEEP, "--stripes", "1", "--yes")
    kernel.is_dead = False
    # The test server knows every id.
    with boot(kernel):
        ended = host.run("sweep", "--resume", "last")

    assert ended.returncode == 0, ended.stderr
    assert [step["run_id"] for step in state(host)["steps"]] == run_ids
    assert kernel.measured == []


def test_finished_sweep_has_nothing_to_resume(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    run_sweep(machine, kernel, *SIZES)

    ended = machine.run("sweep", "--resume", "last")
    again = machine.run("sweep", "--resume", state(machine)["id"])

    assert (ended.returncode, "no unfinished sweep to resume" in ended.stderr) == (2, True)
    assert (again.returncode, again.stdout) == (0, f"sweep {state(machine)['id']} is finished\n")


def test_directories_are_swept_with_fio_and_delivered_between_steps(
    host: Machine, server: HostileServer
) -> None:
    posts_at: list[int] = []

    def check_devices(handler: replies.Handler, body: bytes) -> None:
        posts_at.append(len(host.pending()))
        replies.accept(handler, body)

    server.usual = check_devices
    ended = host.run(
        *("sweep", "--directories", str(host.directory), "--profile", "quick", "--json"),
        *("--set", "iodepth=1,4", "--set", "runtime=1", "--file-sizes", "8m,16m", "--label", "Ticket=7"),
    )

    outcome = json.loads(ended.stdout)
    envelopes = [json.loads(body) for body in server.stored.values()]
    assert (ended.returncode, outcome["done"], outcome["remaining"]) == (0, 4, 0)
    assert {envelope["sweep"] for envelope in envelopes} == {outcome["id"]}
    assert posts_at == [1, 1, 1, 1]
    told = sorted((each["conditions"]["sweep_step"], each["conditions"]["sweep_steps"]) for each in envelopes)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    left_s = {each["conditions"]["sweep_step"]: each["conditions"]["sweep_left_s"] for each in envelopes}
    assert left_s[1] >= 3 and left_s[1] > left_s[2] > left_s[3] > left_s[4] == 0
    assert [step["label"] for step in outcome["steps"]] == [
        "size=8m, iodepth=1",
        "size=8m, iodepth=4",
        "size=16m, iodepth=1",
        "size=16m, iodepth=4",
    ]
    assert all(step["url"].startswith(server.url + "/api/v1/submissions/") for step in outcome["steps"])
    assert {envelope["labels"]["Ticket"] for envelope in envelopes} == {"7"}
    assert host.leftovers() == []


def test_unreachable_server_does_not_delay_the_sweep(host: Machine, server: HostileServer) -> None:
    server.usual = replies.reply_problem(503)

    ended = host.run(
        *("sweep", "--directories", str(host.directory), "--profile", "quick", "--budget", "0"),
        *("--set", "iodepth=1,2,3"),
    )

    assert ended.returncode == 1
    assert len(host.pending()) == 3
    # One attempt after the first step, and one for each result at the end, or less.
    assert len(server.posts()) <= 4


def test_quiet_sweep_prints_nothing(host: Machine) -> None:
    ended = host.run(
        "sweep", "--directories", str(host.directory), "--profile", "quick", "--quiet", "--set", "iodepth=1,2"
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_progress_shows_step_and_remaining_time(machine: Machine) -> None:
    ended = run_sweep(machine, Kernel(*DEVICES), *SIZES)

    lines = [line for line in ended.stderr.splitlines() if line.startswith("sweep: ")]
    assert lines == [
        "sweep: step 1 of 4, 1 stripe, size=8m, about 72 s left",
        "sweep: step 2 of 4, 1 stripe, size=16m, about 54 s left",
        "sweep: step 3 of 4, 2 stripes, size=8m, about 36 s left",
        "sweep: step 4 of 4, 2 stripes, size=16m, about 18 s left",
    ]


def test_sweep_of_another_version_is_cleaned_up_and_not_continued(machine: Machine) -> None:
    kernel = Kernel(*DEVICES)
    kill_sweep(machine, kernel, *SIZES, at=12)
    (path,) = (machine.spool / "sweeps").glob("*.json")
    path.write_text(path.read_text().replace("1 stripe, size=8m", "one stripe, 8 MiB"))

    with boot(kernel):
        ended = machine.run("sweep", "--resume", "last", "--no-send")

    assert ended.returncode == 2
    assert "was planned by another version of bench-agent" in ended.stderr
    assert kernel.is_clean


def test_unreadable_state_is_reported(machine: Machine) -> None:
    (machine.spool / "sweeps").mkdir(parents=True)
    (machine.spool / "sweeps" / "x.json").write_text("{}")

    ended = machine.run("sweep", "--resume", "last")

    assert ended.returncode == 2
    assert "sweeps/x.json: " in ended.stderr
