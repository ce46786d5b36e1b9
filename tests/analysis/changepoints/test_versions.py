"""The registry of methods by version."""

import pytest

from benchapp.analysis.changepoints.versions import CURRENT, DETECTORS, UnknownDetector, get_detector


def test_method_is_found_under_its_version() -> None:
    detector = get_detector("changepoints-v1")

    assert detector is CURRENT
    assert [change.index for change in detector.judge_values([100.0] * 20 + [80.0] * 9).changes] == [20]


def test_every_method_is_registered_under_its_own_version() -> None:
    assert all(version == detector.version for version, detector in DETECTORS.items())


def test_unknown_version_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownDetector, match="no detector 'v0'; there are: changepoints-v1"):
        get_detector("v0")
