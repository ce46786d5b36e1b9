"""Increases in spread and two states are stored with the detection result."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from benchapp.judge import judge_due
from benchapp.models import Change, DetectionResult
from tests.detection.write.judging import add_runs, make_cells, make_level
from tests.factories import NOON, make_host

pytestmark = pytest.mark.django_db


def make_alternating(visits: int) -> list[float]:
    """Return stays of 12 runs at 1 000 and of 8 at 800."""
    return [value for _ in range(visits) for value in (*make_level(1000.0, 12), *make_level(800.0, 8))]


def test_increase_in_spread_is_stored_and_cleared() -> None:
    generator = np.random.default_rng(1)
    spread = np.where(np.arange(112) < 70, 0.01, 0.06)
    (series,) = make_cells(make_host(), [(1000 * (1 + spread * generator.standard_normal(112))).tolist()])

    judge_due()

    found = DetectionResult.objects.get(series=series).spread_increase
    assert found is not None
    since = datetime.fromisoformat(found["from_at"]) - NOON
    assert timedelta(hours=64) <= since <= timedelta(hours=76)
    assert found["after"] > 4 * found["before"]

    add_runs(series, make_level(1000.0, 48))
    judge_due()
    assert DetectionResult.objects.get(series=series).spread_increase is None


def test_alternation_is_stored_instead_of_changes() -> None:
    (series,) = make_cells(make_host(), [make_alternating(6) + make_level(1000.0, 8)])

    judge_due()

    result = DetectionResult.objects.get(series=series)
    assert result.two_states is not None
    assert (result.two_states["visits"], result.two_states["high_share"]) == (6, pytest.approx(80 / 128))
    assert (result.two_states["low"], result.two_states["high"]) == (
        pytest.approx(800, rel=0.01),
        pytest.approx(1000, rel=0.01),
    )
    assert result.two_states["from_at"] == NOON.isoformat()
    starts = [
        (moment - NOON) // timedelta(hours=1)
        for moment in Change.objects.values_list("started_at", flat=True)
    ]
    # The third stay in each state is the first one that is known as one of two.
    assert all(start < 60 for start in starts)
