"""Detection methods by version; the version is stored with each change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchapp.analysis.changepoints import v1 as changepoints_v1
from benchapp.analysis.changepoints.v1 import ChangePoint, PointJudgement, ValueHistory

__all__ = [
    "CURRENT",
    "DETECTORS",
    "ChangePoint",
    "Detector",
    "PointJudgement",
    "UnknownDetector",
    "ValueHistory",
    "get_detector",
]


class UnknownDetector(LookupError):
    """No method with this version exists."""


@dataclass(frozen=True, slots=True)
class Detector:
    """A method with its version; frozen once rows are stored with it. A better one gets a new version."""

    version: str
    judge_values: Callable[..., PointJudgement]
    extend_history: Callable[..., PointJudgement]


DETECTORS: Final = {
    detector.version: detector
    for detector in (
        Detector(changepoints_v1.VERSION, changepoints_v1.judge_values, changepoints_v1.extend_history),
    )
}
CURRENT: Final = DETECTORS["changepoints-v1"]


def get_detector(version: str) -> Detector:
    """Return the method of a version; UnknownDetector names those that there are."""
    try:
        return DETECTORS[version]
    except KeyError:
        raise UnknownDetector(f"no detector {version!r}; there are: {', '.join(DETECTORS)}") from None
