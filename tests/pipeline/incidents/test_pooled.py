"""Changes of pooled levels: too small for each series, clear in all series of a host together."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.detection.pooled_levels import POOLED_METHOD
from benchapp.models import (
    Change,
    Incident,
    IncidentEvent,
    Level,
    Measurement,
    PlannedEventKind,
    PooledEvaluation,
    Series,
)
from benchapp.pipeline.maintenance.planned_events import schedule_planned_event
from benchapp.pipeline.notifications.incident_message import make_incident_message
from benchapp.pipeline.policies.policies import cancel_detection_policy, create_detection_policy
from tests.factories import NOON, make_host
from tests.pipeline.detection.judging import add_common_run, add_runs, get_incident, judge_all, make_cells

pytestmark = pytest.mark.django_db

RUNS = 40


def make_noise(series: int, runs: int, *, seed: int = 1) -> np.ndarray:
    """Return values around 1 000 with a spread of 3 %, a row for each series."""
    return 1000 * (1 + 0.03 * np.random.default_rng(seed).standard_normal((series, runs)))


def make_quiet_host(series: int = 24, **options: object) -> list[Series]:
    """Make series of one host that are measured together and evaluated."""
    cells = make_cells(make_host("db-1"), make_noise(series, RUNS).tolist(), **options)
    judge_until_done()
    return cells


def measure(cells: Sequence[Series], runs: int, *, factor: float = 1.0, seed: int = 2) -> list[int]:
    """Measure all series again; return the events to notify about."""
    return measure_values(cells, factor * make_noise(len(cells), runs, seed=seed))


def measure_values(cells: Sequence[Series], values: np.ndarray) -> list[int]:
    """Measure all series again, one run after the other, evaluated after each; return the events to notify about."""
    events: list[int] = []
    for run in values.T:
        add_common_run(cells, run.tolist())
        events += judge_until_done()
    return events


def judge_until_done() -> list[int]:
    """Evaluate until nothing is due; return the events to notify about."""
    events: list[int] = []
    while (judged := judge_all()).series_ids:
        events += judged.event_ids
    return events


def test_small_change_of_all_series_is_an_incident() -> None:
    cells = make_quiet_host()

    measure(cells, 6, factor=0.97)

    incident = get_incident()
    assert (incident.scope, incident.is_regression, incident.state) == ("host:db-1", True, "new")
    assert not Change.objects.exclude(method=POOLED_METHOD).exclude(incident=None).exists()
    assert 20 <= incident.change_count <= 24
    assert incident.relative == pytest.approx(-0.03, abs=0.01)
    (level,) = incident.pooled_levels
    assert (level["scope"], level["metric"], level["series"]) == ("host:db-1", "iops", 24)
    assert level["changed"] == incident.change_count
    assert level["relative"] == pytest.approx(-0.03, abs=0.01)
    assert incident.severity == "low"
    assert abs(incident.started_at - NOON - timedelta(hours=RUNS)) < timedelta(hours=2)


def test_levels_of_the_series_begin_with_the_pooled_change() -> None:
    cells = make_quiet_host()

    measure(cells, 6, factor=0.97)

    (change,) = Change.objects.filter(method=POOLED_METHOD, series=cells[0], metric="iops")
    level = Level.objects.get(series=cells[0], metric="iops", is_current=True)
    assert (level.change_id, level.n, change.after_n, change.before_n) == (change.pk, 6, 6, RUNS)
    assert level.median == change.after_median
    assert level.from_at == NOON + timedelta(hours=RUNS)


def test_fewer_than_twenty_series_have_no_pooled_level() -> None:
    cells = make_quiet_host(series=19)

    measure(cells, 6, factor=0.97)

    assert not PooledEvaluation.objects.exists()
    assert not Incident.objects.exists()


def test_half_of_the_series_is_no_pooled_change() -> None:
    cells = make_quiet_host()
    values = make_noise(24, 6, seed=2)
    values[:12] *= 0.97

    measure_values(cells, values)

    assert not Change.objects.filter(method=POOLED_METHOD).exists()


def test_series_of_one_volume_type_have_a_pooled_level() -> None:
    targets = [{"volume_type": "gp3"}, {"volume_type": "st1"}]
    cells = make_quiet_host(series=40, targets=targets)
    values = make_noise(40, 6, seed=2)
    values[1::2] *= 0.97

    measure_values(cells, values)

    incident = get_incident()
    (level,) = incident.pooled_levels
    assert (level["dimension"], level["value"], level["series"]) == ("volume_type", "st1", 20)
    assert "20 series with volume type st1" in level["text"]
    affected = Series.objects.filter(changes__incident=incident).distinct()
    assert set(affected.values_list("volume_type", flat=True)) == {"st1"}


def test_sweep_is_evaluated_once_and_when_it_is_complete() -> None:
    cells = make_quiet_host()
    before = PooledEvaluation.objects.get(scope="host:db-1").evaluated_to_at

    for cell in cells[:18]:
        add_runs(cell, [1000.0])
    judge_until_done()
    incomplete = PooledEvaluation.objects.get().evaluated_to_at
    for cell in cells[18:]:
        add_runs(cell, [1000.0])
    judge_until_done()
    complete = PooledEvaluation.objects.get().evaluated_to_at
    Series.objects.update(judging_is_due=True)
    with CaptureQueriesContext(connection) as queries:
        judge_until_done()

    assert before == incomplete == complete - timedelta(hours=1)
    assert PooledEvaluation.objects.get().evaluated_to_at == complete
    assert not any(
        "benchapp_pooledevaluation" in query["sql"] for query in queries if "UPDATE" in query["sql"]
    )


def test_series_with_a_change_of_its_own_joins_without_a_pooled_row() -> None:
    cells = make_quiet_host()
    values = make_noise(24, 8, seed=2) * 0.97
    values[0] *= 0.7

    measure_values(cells, values)

    incident = get_incident()
    (own,) = Change.objects.exclude(state="withdrawn").filter(series=cells[0], metric="iops")
    assert (own.method == POOLED_METHOD, own.incident_id) == (False, incident.pk)
    assert incident.metric_sizes[0]["series"] == incident.change_count
    assert incident.relative == pytest.approx(-0.03, abs=0.01)


def test_return_of_all_series_is_a_recovery() -> None:
    cells = make_quiet_host()
    measure(cells, 10, factor=0.97)

    measure(cells, 5, seed=3)

    incident = get_incident()
    assert incident.recovered_at is not None
    assert IncidentEvent.objects.filter(incident=incident, kind="recovered").count() == 1
    assert not Incident.objects.filter(is_regression=False).exists()


def test_pooled_change_disappears_with_its_runs() -> None:
    cells = make_quiet_host()
    measure(cells, 4, factor=0.97)
    incident = get_incident()

    Measurement.objects.filter(started_at__gte=NOON + timedelta(hours=RUNS)).update(is_excluded=True)
    measure(cells, 3, seed=3)

    incident.refresh_from_db()
    assert (incident.state, incident.verdict, incident.change_count) == ("resolved", "noise", 0)
    assert not Change.objects.exclude(state="withdrawn").exists()


def test_expected_pooled_change_is_resolved_without_notice() -> None:
    event = schedule_planned_event(
        PlannedEventKind.CHANGE,
        "host:db-1",
        from_at=NOON + timedelta(hours=RUNS - 1),
        to_at=NOON + timedelta(days=30),
        reason="encryption",
        by=None,
    )
    cells = make_quiet_host()

    measure(cells, 6, factor=0.97)

    incident = get_incident()
    assert (incident.state, incident.verdict, incident.planned_event_id) == ("resolved", "expected", event.pk)


def test_opened_incident_is_notified_once() -> None:
    cells = make_quiet_host()

    events = measure(cells, 8, factor=0.97)

    (opened,) = IncidentEvent.objects.filter(pk__in=events)
    assert (opened.kind, opened.incident) == ("opened", get_incident())
    changes = list(get_incident().changes.select_related("series").order_by("relative"))
    message = make_incident_message(
        get_incident(), opened, changes=changes, change_count=len(changes), base_url=""
    )
    level = get_incident().pooled_levels[0]
    assert f"Pooled level of db-1: {level['text']}." in message.sentence
    assert message.facts["incident"]["pooled_levels"] == [level]
    assert f"IOPS lower in {level['changed']} of 24 series, median −" in level["text"]


def test_policy_applies_to_the_pooled_levels_at_once() -> None:
    """40 % of a threshold of 10 % is more than a change of −3 %."""
    cells = make_quiet_host()
    policy = create_detection_policy("iops", 0.1, filter="host:db-1", label="", reason="noisy", by=None)
    measure(cells, 6, factor=0.97)
    assert not Incident.objects.exists()

    cancel_detection_policy(policy.pk, by=None)
    judge_until_done()

    assert get_incident().relative == pytest.approx(-0.03, abs=0.01)
    newest = cells[0].measurements.latest("started_at").started_at
    assert PooledEvaluation.objects.get().evaluated_to_at > newest
