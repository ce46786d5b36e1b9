"""What slowed the machine down during a run."""

import json
from pathlib import Path

import pytest

from agent.environment import machine_state
from agent.environment.machine_state import (
    MachineState,
    describe_interference,
    list_interference,
    read_machine_state,
)
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer
from tests.agent.storage.trees import write_tree

CPU = "sys/devices/system/cpu"
GROUP_MOUNT = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def write_machine(root: Path, *, cores: str = "3", governor: str = "performance") -> str:
    files = {
        "proc/self/mountinfo": GROUP_MOUNT,
        "proc/self/cgroup": "0::/user.slice\n",
        "sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 9\nthrottled_usec 2500000\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 9\n",
    }
    for cpu in ("cpu0", "cpu1"):
        files[f"{CPU}/{cpu}/thermal_throttle/core_throttle_count"] = cores
        # Each CPU of a package has the count of the package.
        files[f"{CPU}/{cpu}/thermal_throttle/package_throttle_count"] = "5"
        files[f"{CPU}/{cpu}/cpufreq/scaling_governor"] = governor
    return write_tree(root, files)


def test_state_is_read_from_sys_and_control_groups(tmp_path: Path) -> None:
    state = read_machine_state(root=write_machine(tmp_path))

    assert (state.throttle_events, state.quota_s, state.governor) == (11, 2.5, "performance")


def test_unknown_counters_are_none(tmp_path: Path) -> None:
    state = read_machine_state(root=str(tmp_path))

    assert (state.throttle_events, state.quota_s, state.governor) == (None, None, None)


@pytest.mark.parametrize(
    ("before", "after", "conditions"),
    [
        (
            MachineState(10.0, 3, 1.0, "performance"),
            MachineState(322.44, 7, 3.5, "powersave"),
            {
                "suspended_s": 312.4,
                "cpu_throttle_events": 4,
                "cpu_quota_throttled_s": 2.5,
                "governor_change": "performance → powersave",
            },
        ),
        (
            MachineState(10.0, 3, 1.0, "performance"),
            MachineState(10.0002, 3, 1.0, "performance"),
            {
                "suspended_s": 0,
                "cpu_throttle_events": 0,
                "cpu_quota_throttled_s": 0.0,
                "governor_change": "none",
            },
        ),
        # A counter that was reset, and machines that have none.
        (MachineState(None, 3, None, None), MachineState(None, 1, None, "performance"), {}),
    ],
)
def test_interference_is_the_difference_of_two_states(
    before: MachineState, after: MachineState, conditions: dict[str, object]
) -> None:
    assert describe_interference(before, after) == conditions


def test_only_what_impairs_a_result_is_reported() -> None:
    quiet = {
        "suspended_s": 0,
        "cpu_throttle_events": 0,
        "cpu_quota_throttled_s": 0.0,
        "governor_change": "none",
    }

    assert list_interference(quiet) == []
    assert list_interference({**quiet, "suspended_s": 312.4}) == [
        "the machine was suspended for 312.4 s during the run; results include the wake-up"
    ]
    assert len(list_interference({**quiet, "cpu_throttle_events": 4, "governor_change": "a → b"})) == 2


def test_run_records_a_suspend_and_a_throttled_cpu(
    host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([MachineState(0.0, 1, None, "performance"), MachineState(60.0, 2, None, "performance")])
    monkeypatch.setattr("agent.running.measure.read_machine_state", lambda: next(states))

    ended = host.measure("--wait", "0", is_terminal=True)

    (body,) = server.stored.values()
    conditions = json.loads(body)["conditions"]
    assert (conditions["suspended_s"], conditions["cpu_throttle_events"]) == (60.0, 1)
    assert conditions["governor_change"] == "none"
    assert "the machine was suspended for 60.0 s during the run" in ended.stderr


def test_clock_of_suspend_never_decreases() -> None:
    first, second = machine_state._read_suspended(), machine_state._read_suspended()

    assert first is not None and second is not None
    assert second - first > -1.0
