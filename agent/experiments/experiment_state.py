"""The state of an experiment: its runs, the arm of the host, and the switch that is under way."""

from __future__ import annotations

from typing import Any, Mapping

from agent.job_state import JobState, check_types

_TEXT = (str, type(None))
# What is stored for --resume: all that determines a run, and how the host becomes an arm.
STORED_OPTIONS: Mapping[str, Any] = {
    "profile": None,
    "jobfile": None,
    "file": None,
    "file_size": None,
    "directory": None,
    "time_limit": None,
    "allow_outside": False,
    "trust_directory": False,
    "set": [],
    "target": [],
    "label": [],
    "cloud": False,
    "serials": False,
    "logs": False,
    "arm_label": "arm",
    "arms": "a,b",
    "switch_command": None,
    "check_command": None,
    "reboots": False,
}
# What defines a new experiment.
NEW_OPTIONS: Mapping[str, Any] = {**STORED_OPTIONS, "pairs": None, "plan": None, "dry_run": False}


class ExperimentState(JobState):
    """The state file of one experiment; its steps are runs."""

    kind = "experiment"
    directory = "experiments"
    schema = "bench-agent-experiment/1"
    steps_member = "runs"
    remedy = "the experiment cannot be continued; remove the file. Its results are not lost"

    @classmethod
    def check_members(cls, document: Mapping[str, Any]) -> None:
        """Raise ValueError if arms or the switch are not valid."""
        check_types(document, {"arm": _TEXT, "switching": (dict, type(None))})
        check_types({"arm_boot_id": None, **document}, {"arm_boot_id": _TEXT})
        if document["switching"] is not None:
            check_types(document["switching"], {"arm": (str,), "boot_id": _TEXT})
        for run in document[cls.steps_member]:
            check_types(run, {"arm": (str,)})

    @property
    def arms(self) -> list[str]:
        """Return the arm of every run, in order."""
        return [str(run["arm"]) for run in self.steps()]

    @property
    def arm(self) -> str | None:
        """Return the arm that the host is; None if unknown."""
        arm = self._document["arm"]
        return None if arm is None else str(arm)

    def is_switched_by_reboot(self, arm: str, boot_id: str | None) -> bool:
        """Return whether the host was switched to an arm, and has booted since."""
        switching = self._document["switching"]
        if not switching or switching["arm"] != arm or boot_id is None:
            return False
        return switching["boot_id"] not in (None, boot_id)

    def begin_switch(self, arm: str, boot_id: str | None) -> None:
        """Record that the host is about to become an arm; until then its arm is unknown."""
        self._save(arm=None, switching={"arm": arm, "boot_id": boot_id})

    def end_switch(self, arm: str, boot_id: str | None) -> None:
        """Record that the host is an arm, in this boot."""
        self._save(arm=arm, arm_boot_id=boot_id, switching=None)

    def is_arm_of_boot(self, boot_id: str | None) -> bool:
        """Return whether the host became its arm in this boot: an arm need not last beyond it."""
        return boot_id is not None and self._document.get("arm_boot_id") == boot_id

    def forget_arm(self) -> None:
        """Record that the arm of the host is unknown, also if it was switched."""
        self._save(arm=None, switching=None)
