"""Reported changes are retained while they last and after their end."""

import numpy as np
import pytest

from benchapp.detection.changepoints.estimates import ShiftLevel
from benchapp.detection.write.metric import DetectedChange, StoredChange, find_retained
from benchapp.models import ChangeState, Incident, IncidentEvent, IncidentState, Series, Verdict
from tests.detection.write.judging import (
    add_runs,
    get_incident,
    judge_all,
    list_changes,
    make_cells,
    make_level,
)
from tests.factories import make_host

# A spread of 3 %: in it the detector takes a few bad runs between good ones for chance, as soon as they are over.
ROUGH = [1030.0, 970.0, 1010.0, 985.0, 1045.0, 960.0, 1020.0, 990.0, 1005.0, 975.0] * 2
GOOD, BAD = 1000.0, 850.0


def make_dip(bad_runs: int) -> Series:
    """Make a host fall by 20 % for so many runs, judged after each, and be good for some more."""
    (series,) = make_cells(make_host(), [ROUGH])
    for value in [*(value * 0.8 for value in ROUGH[:bad_runs]), *ROUGH[:8]]:
        add_runs(series, [value])
        judge_all()
    return series


def list_kinds(incident: Incident) -> list[str]:
    return list(IncidentEvent.objects.filter(incident=incident).order_by("id").values_list("kind", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize("bad_runs", [3, 4, 5, 7])
def test_ended_dip_is_a_recovery_and_not_noise(bad_runs: int) -> None:
    series = make_dip(bad_runs)

    incident = get_incident()
    assert list_changes(series)[0] in [(20, "provisional"), (20, "confirmed")]
    assert (incident.state, incident.verdict) == (IncidentState.NEW, Verdict.NONE)
    kinds = list_kinds(incident)
    assert (kinds[0], kinds.count("recovered")) == ("opened", 1)
    assert not {"resolved", "reopened"} & {*kinds}
    assert incident.change_count == 1


def is_retained(
    values: list[float], *others: DetectedChange, state: ChangeState = ChangeState.CONFIRMED
) -> bool:
    """Return whether a fall at the 20th run is retained although the detector does not find it."""
    fall = StoredChange(
        1,
        state,
        20,
        is_rise=False,
        before=ShiftLevel(GOOD, 10.0, 10),
        after=ShiftLevel(BAD, 10.0, 10),
        is_in_incident=True,
    )
    return find_retained(np.array(values), [fall], others) == {1}


def find(index: int, *, relative: float = -0.15) -> DetectedChange:
    level = ShiftLevel(GOOD, 10.0, 10)
    return DetectedChange(index, level, level, relative=relative, low=None, high=None, chance=1e-6)


def test_lasting_change_is_retained_if_it_is_not_detected_once() -> None:
    assert is_retained(make_level(GOOD, 20) + make_level(BAD, 10))
    assert is_retained(make_level(GOOD, 20) + make_level(BAD, 10) + [GOOD, GOOD, BAD])
    assert is_retained(make_level(GOOD, 20) + make_level(BAD, 4), state=ChangeState.PROVISIONAL)
    assert not is_retained(make_level(GOOD, 20) + make_level(BAD, 10), state=ChangeState.SUSPECTED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (make_level(GOOD, 20), make_level(GOOD, 10)),  # its values were corrected
        (make_level(BAD, 20), make_level(BAD, 10)),
        (make_level(GOOD, 20), [BAD, BAD]),  # its runs were excluded
        (make_level(GOOD, 20), []),
        (make_level(GOOD, 20), [BAD, GOOD, 990.0, BAD, GOOD, 980.0, BAD]),  # it faded
    ],
)
def test_unconfirmed_change_is_not_retained(before: list[float], after: list[float]) -> None:
    assert not is_retained(before + after)


def test_change_detected_at_another_place_is_not_retained() -> None:
    values = make_level(GOOD, 20) + make_level(BAD, 10)

    assert not is_retained(values, find(27))
    assert not is_retained(values, find(12))
    assert is_retained(values, find(10))  # the fall before, to the level that this one left
    assert is_retained(values, find(27, relative=0.1))
