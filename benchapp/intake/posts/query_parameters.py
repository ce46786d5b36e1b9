"""Parse the query parameters of a bare fio output: layout, labels, profile."""

from collections.abc import Iterable
from typing import Any, Final
from zoneinfo import available_timezones

from benchapp.intake.posts.envelope import read_profile, read_time
from benchapp.intake.posts.metadata import TARGET, read_environment, read_labels, read_target

_ENVIRONMENT_NAMES: Final = (
    "kernel",
    "scheduler",
    "device_model",
    "device_firmware",
    "device_driver",
    "device_class",
    "governor",
)
_LABEL: Final = "label."


class BadParameter(Exception):
    """A query parameter that is unknown or given twice; `code` is stable."""

    def __init__(self, code: str, parameter: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.parameter = parameter


def read_parameters(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return {target, labels, environment, profile, started_at, time_zone} as plain values to store.

    Raises BadParameter, or BadLayout for an invalid value.
    """
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise BadParameter("parameter-repeated", name, f"parameter {name[:80]!r} is given twice")
        given[name] = value
    refuse_unknown_names(given)
    started_at = read_time(given.get("started_at"), "started_at")
    return {
        "target": read_target({name: given[name] for name in TARGET if name in given}, pointer=""),
        "labels": read_labels(
            {name[len(_LABEL) :]: value for name, value in given.items() if name.startswith(_LABEL)},
            pointer="",
        ),
        "environment": read_environment(
            {name: given[name] for name in _ENVIRONMENT_NAMES if name in given}, pointer=""
        ),
        "profile": read_profile(given.get("profile"), "profile"),
        "started_at": started_at.isoformat() if started_at else None,
        "time_zone": _read_time_zone(given.get("time_zone", "")),
    }


def _read_time_zone(name: str) -> str | None:
    """Return the name of a time zone of IANA, in which text output prints its dates; None without one."""
    if not name:
        return None
    if name not in available_timezones():
        raise BadParameter(
            "time-zone-unknown",
            "time_zone",
            f"time_zone {name[:80]!r} is unknown: write it as Europe/Berlin or UTC",
        )
    return name


def refuse_unknown_names(names: Iterable[str]) -> None:
    """Raise BadParameter for a name that is neither a parameter nor label.NAME."""
    known = {*TARGET, *_ENVIRONMENT_NAMES, "profile", "started_at", "time_zone"}
    for name in names:
        if name not in known and not name.startswith(_LABEL):
            raise BadParameter(
                "parameter-unknown",
                name,
                f"parameter {name[:80]!r} is unknown. Available: {', '.join(sorted(known))} and label.NAME",
            )
