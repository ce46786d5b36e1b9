"""Changes of pooled levels: too small for each series, clear in all series of a host together."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.detection.write import pooled
from benchapp.detection.write.pooled import judge_pooled
from benchapp.detection.write.pooled_members import MemberHistories, read_member_histories
from benchapp.detection.write.pooled_rows import read_stored_rows
from benchapp.incidents.write import incidents
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.judge import judge_series
from benchapp.models import (
    Change,
    DetectionPolicy,
    Incident,
    IncidentEvent,
    Level,
    Measurement,
    PlannedEvent,
    PlannedEventKind,
    PooledEvaluation,
    Series,
)
from benchapp.notices.write.incident_message import make_incident_message
from benchapp.policies.write import POLICIES
from tests.detection.write.judging import add_common_run, add_runs, get_incident, judge_all, make_cells
from tests.factories import NOON, make_change, make_host, make_series
from tests.shared_rows import shared_rows

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


@shared_rows
def quiet_host() -> list[Series]:
    """Make db-1 with 24 series."""
    return make_quiet_host()


@shared_rows
def slower_host() -> tuple[list[Series], list[int]]:
    """Make db-1 with 24 series and 6 runs at 97 %; return the events to notify about, too."""
    cells = make_quiet_host()
    return cells, measure(cells, 6, factor=0.97)


def measure(
    cells: Sequence[Series], runs: int, *, factor: float = 1.0, seed: int = 2, at_once: bool = False
) -> list[int]:
    """Measure all series again; return the events to notify about. at_once: evaluated after the last run only."""
    return measure_values(cells, factor * make_noise(len(cells), runs, seed=seed), at_once=at_once)


def measure_values(cells: Sequence[Series], values: np.ndarray, *, at_once: bool = False) -> list[int]:
    """Measure all series again, one run after the other, evaluated after each unless told otherwise.

    Return the events to notify about.
    """
    events: list[int] = []
    for number, run in enumerate(values.T, start=1):
        add_common_run(cells, run.tolist())
        if not at_once or number == values.shape[1]:
            events += judge_until_done()
    return events


def judge_until_done() -> list[int]:
    """Evaluate until nothing is due; return the events to notify about."""
    events: list[int] = []
    while (judged := judge_all()).series_ids:
        events += judged.event_ids
    return events


def test_small_change_of_all_series_is_an_incident(slower_host: Any) -> None:
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


def test_levels_of_the_series_begin_with_the_pooled_change(slower_host: Any) -> None:
    cells, _ = slower_host

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


def test_half_of_the_series_is_no_pooled_change(quiet_host: list[Series]) -> None:
    cells = quiet_host
    values = make_noise(24, 6, seed=2)
    values[:12] *= 0.97

    measure_values(cells, values)

    assert not Change.objects.filter(method=POOLED_METHOD).exists()


def test_series_of_one_volume_type_have_a_pooled_level() -> None:
    targets = [{"volume_type": "gp3"}, {"volume_type": "st1"}]
    cells = make_quiet_host(series=40, targets=targets)
    values = make_noise(40, 6, seed=2)
    values[1::2] *= 0.97

    measure_values(cells, values, at_once=True)

    incident = get_incident()
    (level,) = incident.pooled_levels
    assert (level["dimension"], level["value"], level["series"]) == ("volume_type", "st1", 20)
    assert "20 series with volume type st1" in level["text"]
    affected = Series.objects.filter(changes__incident=incident).distinct()
    assert set(affected.values_list("volume_type", flat=True)) == {"st1"}


def test_sweep_is_evaluated_once_and_when_it_is_complete(quiet_host: list[Series]) -> None:
    cells = quiet_host
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


def test_sweep_whose_newest_runs_failed_is_evaluated_once(quiet_host: list[Series]) -> None:
    cells = quiet_host
    add_common_run(cells, [1000.0] * len(cells))
    newest = NOON + timedelta(hours=RUNS)
    Measurement.objects.filter(started_at=newest).update(error=5)

    judge_until_done()
    # At most once more, since no slot with valid runs is newer.
    Series.objects.update(judging_is_due=True)
    judge_until_done()
    failed = PooledEvaluation.objects.get().evaluated_to_at
    Series.objects.update(judging_is_due=True)
    with CaptureQueriesContext(connection) as queries:
        judge_until_done()
    add_common_run(cells, [1000.0] * len(cells))
    judge_until_done()

    assert newest < failed <= newest + timedelta(hours=1)
    assert not any(
        "benchapp_pooledevaluation" in query["sql"] for query in queries if "UPDATE" in query["sql"]
    )
    assert PooledEvaluation.objects.get().evaluated_to_at == failed + timedelta(hours=1)


def test_series_with_a_change_of_its_own_joins_without_a_pooled_row(quiet_host: list[Series]) -> None:
    cells = quiet_host
    values = make_noise(24, 8, seed=2) * 0.97
    values[0] *= 0.7

    measure_values(cells, values)

    incident = get_incident()
    (own,) = Change.objects.exclude(state="withdrawn").filter(series=cells[0], metric="iops")
    assert (own.method == POOLED_METHOD, own.incident_id) == (False, incident.pk)
    assert incident.metric_sizes[0]["series"] == incident.change_count
    assert incident.relative == pytest.approx(-0.03, abs=0.01)


def make_large_change(*, runs: int, seed: int, at_once: bool) -> list[Series]:
    """Make db-1 with 24 series of common and individual noise, of which every fourth falls by 30 %; return these."""
    generator = np.random.default_rng(seed)
    spreads = np.linspace(0.01, 0.08, 24)[:, np.newaxis]
    noise = spreads * generator.standard_normal((24, RUNS + runs)) + 0.01 * generator.standard_normal(
        RUNS + runs
    )
    values = 1000 * (1 + noise)
    values[::4, RUNS:] *= 0.7
    cells = make_cells(make_host("db-1"), values[:, :RUNS].tolist())
    judge_until_done()
    measure_values(cells, values[:, RUNS:], at_once=at_once)
    return cells[::4]


@pytest.mark.parametrize("seed", [3, 4, 5, 10])
def test_large_change_of_a_quarter_is_no_change_of_the_others(seed: int) -> None:
    fallen = make_large_change(runs=8, seed=seed, at_once=True)

    incident = get_incident()
    changes = Change.objects.filter(incident=incident).exclude(state="withdrawn")
    assert {change.series_id for change in changes} == {cell.pk for cell in fallen}
    assert incident.relative == pytest.approx(-0.3, abs=0.05)


def test_noise_of_the_others_beside_a_large_change_is_no_change_of_all() -> None:
    """By chance the others fall by more than the threshold of pooled levels in these runs."""
    fallen = make_large_change(runs=6, seed=246, at_once=False)

    changes = Change.objects.filter(incident=get_incident()).exclude(state="withdrawn")
    assert {change.series_id for change in changes} == {cell.pk for cell in fallen}


def test_change_of_all_series_is_found_after_a_time_without_workers(quiet_host: list[Series]) -> None:
    """Ten sweeps that are evaluated together: the change is confirmed when it is found."""
    measure(quiet_host, 10, factor=0.97, at_once=True)

    assert get_incident().relative == pytest.approx(-0.03, abs=0.01)
    states = Change.objects.filter(method=POOLED_METHOD).values_list("state", flat=True)
    assert (len(states) >= 20, set(states)) == (True, {"confirmed"})


def test_return_of_all_series_is_a_recovery(quiet_host: list[Series]) -> None:
    cells = quiet_host
    measure(cells, 10, factor=0.97, at_once=True)

    measure(cells, 5, seed=3)

    incident = get_incident()
    assert incident.recovered_at is not None
    assert IncidentEvent.objects.filter(incident=incident, kind="recovered").count() == 1
    assert not Incident.objects.filter(is_regression=False).exists()


@pytest.mark.parametrize(("factor", "is_recovered"), [(0.992, True), (0.985, False)])
def test_pooled_level_that_is_nearly_back_recovers_after_three_runs(
    factor: float, is_recovered: bool, quiet_host: list[Series]
) -> None:
    """A quarter of the step is left, as by chance; half of it is not a recovery."""
    cells = quiet_host
    measure(cells, 10, factor=0.97, at_once=True)

    values = factor * make_noise(24, 3, seed=4)
    measure_values(cells, values[:, :2])
    early = get_incident().recovered_at
    measure_values(cells, values[:, 2:])

    assert early is None
    assert (get_incident().recovered_at is not None) is is_recovered


def test_incident_has_not_recovered_while_a_third_of_its_series_is_far_lower(
    quiet_host: list[Series],
) -> None:
    cells = quiet_host
    low = make_noise(24, 10, seed=2) * 0.97
    low[:8] *= 0.6
    measure_values(cells, low, at_once=True)

    high = make_noise(24, 5, seed=3)
    high[:8] *= 0.6
    measure_values(cells, high)

    incident = get_incident()
    assert incident.change_count >= 20
    assert incident.recovered_at is None
    assert not IncidentEvent.objects.filter(incident=incident, kind="recovered").exists()


def test_pooled_levels_that_are_no_longer_updated_are_no_recovery(
    quiet_host: list[Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pooled, incidents):
        monkeypatch.setattr(module, "UPDATED_SLOTS", 14)
    monkeypatch.setattr(pooled, "_REACH_SLOTS", 8)
    for number, factor in enumerate([0.97] * 11 + [1.0] * 4 + [0.97] * 10):
        measure(quiet_host, 1, factor=factor, seed=100 + number)

    kinds = list(IncidentEvent.objects.order_by("id").values_list("kind", flat=True))
    assert kinds == ["opened", "confirmed", "recovered", "reopened", "confirmed"]


def test_recovery_is_found_with_the_last_series_of_a_sweep() -> None:
    cells = make_quiet_host(series=48, targets=[{"volume_type": "st1"}, {"volume_type": "gp3"}])
    changed = [cell.pk for cell in cells[::2]]
    values = make_noise(48, 15, seed=4)
    values[::2, :12] *= 0.965
    values[::2, 12:] *= 0.991
    measure_values(cells, values[:, :12], at_once=True)

    for run in values[:, 12:].T:
        add_common_run(cells, run.tolist())
        judge_series(changed)
        # The batch that completes the sweep has no series of the incident.
        judge_all()

    incident = get_incident()
    affected = (
        Change.objects.filter(incident=incident)
        .exclude(state="withdrawn")
        .values_list("series_id", flat=True)
    )
    assert set(affected) <= set(changed)
    assert incident.recovered_at is not None


def test_sweep_without_a_volume_type_is_left_out_of_its_pooled_level() -> None:
    cells = make_quiet_host(series=40, targets=[{"volume_type": "gp3"}, {"volume_type": "st1"}])
    values = make_noise(40, 8, seed=2)
    values[1::2] *= 0.97
    measure_values(cells[::2], values[::2, :1])

    measure_values(cells, values[:, 1:])

    (level,) = get_incident().pooled_levels
    assert (level["dimension"], level["value"], level["series"]) == ("volume_type", "st1", 20)


def test_host_without_a_pooled_level_is_read_once_for_each_sweep() -> None:
    cells = make_cells(make_host("db-1"), make_noise(24, 30).tolist())
    # 15 of 30 runs are valid, fewer than a pooled level needs.
    Measurement.objects.filter(started_at__gte=NOON + timedelta(hours=15)).update(error=5)
    judge_until_done()

    Series.objects.filter(pk=cells[0].pk).update(judging_is_due=True)
    with CaptureQueriesContext(connection) as queries:
        judge_until_done()

    assert PooledEvaluation.objects.get().evaluated_to_at > NOON + timedelta(hours=29)
    assert not any("ROW_NUMBER" in query["sql"] for query in queries), "the members are read"


def test_pooled_change_disappears_with_its_runs(quiet_host: list[Series]) -> None:
    cells = quiet_host
    measure(cells, 4, factor=0.97)
    incident = get_incident()

    Measurement.objects.filter(started_at__gte=NOON + timedelta(hours=RUNS)).update(is_excluded=True)
    measure(cells, 3, seed=3)

    incident.refresh_from_db()
    assert (incident.phase, incident.verdict) == ("over", "")
    assert not Change.objects.exclude(state="withdrawn").exists()


def test_expected_pooled_change_is_resolved_without_notice() -> None:
    event = EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.CHANGE,
            filter="host:db-1",
            from_at=NOON + timedelta(hours=RUNS - 1),
            to_at=NOON + timedelta(days=30),
            reason="encryption",
        ),
        by=None,
    )
    cells = make_quiet_host()

    measure(cells, 6, factor=0.97)

    incident = get_incident()
    assert (incident.state, incident.verdict, incident.planned_event_id) == ("resolved", "expected", event.pk)


def test_opened_incident_is_notified_once(slower_host: Any) -> None:
    _, events = slower_host

    (opened,) = IncidentEvent.objects.filter(pk__in=events, kind="opened")
    assert opened.incident == get_incident()
    changes = list(get_incident().changes.select_related("series").order_by("relative"))
    message = make_incident_message(
        get_incident(), opened, changes=changes, change_count=len(changes), base_url=""
    )
    level = get_incident().pooled_levels[0]
    assert f"Pooled level of db-1: {level['text']}." in message.sentence
    assert message.facts["incident"]["pooled_levels"] == [level]
    assert f"IOPS lower in {level['changed']} of 24 series, median −" in level["text"]


def test_policy_applies_to_the_pooled_levels_at_once(quiet_host: list[Series]) -> None:
    """40 % of a threshold of 10 % is more than a change of −3 %."""
    cells = quiet_host
    policy = POLICIES.create(
        DetectionPolicy(metric="iops", smallest_change=0.1, filter="host:db-1", reason="noisy"), by=None
    )
    measure(cells, 6, factor=0.97)
    assert not Incident.objects.exists()

    POLICIES.cancel(policy.pk, by=None)
    judge_until_done()

    assert get_incident().relative == pytest.approx(-0.03, abs=0.01)
    newest = cells[0].measurements.latest("started_at").started_at
    assert PooledEvaluation.objects.get().evaluated_to_at > newest


def make_quiet_hosts(*names: str) -> list[list[Series]]:
    """Make hosts with 20 series each, measured at the same times and evaluated together."""
    hosts = [
        make_cells(make_host(name), make_noise(20, RUNS, seed=seed).tolist())
        for seed, name in enumerate(names)
    ]
    judge_until_done()
    return hosts


def measure_together(
    hosts: Sequence[Sequence[Series]], *, factors: Sequence[float], runs: int, at_once: bool = False
) -> None:
    """Measure the series of all hosts, times the factor of their host; all are evaluated after each or the last run."""
    values = [factor * make_noise(20, runs, seed=10 + number) for number, factor in enumerate(factors)]
    for run in range(runs):
        for cells, of_host in zip(hosts, values, strict=True):
            add_common_run(cells, of_host[:, run].tolist())
        if not at_once or run == runs - 1:
            judge_until_done()


def test_hosts_that_are_evaluated_together_have_their_own_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slower, one as before, one faster: the members of two hosts are read at once, then those of the third."""
    numbers: list[int] = []

    def read_counted(ids: Sequence[int], **options: Any) -> MemberHistories:
        numbers.append(len(ids))
        return read_member_histories(ids, **options)

    monkeypatch.setattr(pooled, "MEMBERS_MAXIMUM", 45)
    monkeypatch.setattr(pooled, "read_member_histories", read_counted)
    hosts = make_quiet_hosts("db-1", "db-2", "db-3")

    measure_together(hosts, factors=[0.97, 1.0, 1.03], runs=5)

    assert numbers == [40, 20] * 6
    found = Change.objects.filter(method=POOLED_METHOD).exclude(state="withdrawn")
    assert set(found.values_list("series__scope", "is_regression")) == {
        ("host:db-1", True),
        ("host:db-3", False),
    }
    newest = NOON + timedelta(hours=RUNS + 4)
    evaluated = list(PooledEvaluation.objects.order_by("scope").values_list("scope", "evaluated_to_at"))
    assert [scope for scope, _ in evaluated] == ["host:db-1", "host:db-2", "host:db-3"]
    assert all(newest < until <= newest + timedelta(hours=1) for _, until in evaluated)


def test_stored_changes_of_a_host_are_those_of_its_own_series() -> None:
    """The runs of one of two slower hosts are excluded: only its changes are withdrawn."""
    hosts = make_quiet_hosts("db-1", "db-2")
    measure_together(hosts, factors=[0.97, 0.97], runs=5, at_once=True)
    live = Change.objects.filter(method=POOLED_METHOD).exclude(state="withdrawn")
    scopes = Counter(live.values_list("series__scope", flat=True))

    low = Measurement.objects.filter(started_at__gte=NOON + timedelta(hours=RUNS))
    low.filter(series__scope="host:db-1").update(is_excluded=True)
    measure_together(hosts, factors=[1.0, 0.97], runs=2, at_once=True)

    assert min(scopes["host:db-1"], scopes["host:db-2"]) >= 15
    remaining = Counter(live.values_list("series__scope", flat=True))
    assert remaining.keys() == {"host:db-2"}
    assert remaining["host:db-2"] >= 15


def test_rows_are_read_since_a_time_of_each_scope() -> None:
    cells = [make_series([1.0] * 9, host=make_host(name)) for name in ("db-1", "db-2")]
    times = [NOON + timedelta(hours=hour) for hour in (2, 4, 6)]
    level = {"pooled": {"dimension": "", "value": "", "started_at": "2026-01-01T00:00:00+00:00"}}
    for series in cells:
        for at in times:
            make_change(series, at=at, method=POOLED_METHOD, evidence=level)
        make_change(series, at=times[0] - timedelta(hours=1))
        make_change(series, at=times[2] + timedelta(minutes=1), state="withdrawn")
        make_change(series, at=times[2] + timedelta(hours=1))

    stored = read_stored_rows(
        {series.scope: [series.pk] for series in cells},
        since={"host:db-1": times[0], "host:db-2": times[1]},
    )

    own_at = times[2] + timedelta(hours=1)
    for scope, series, since in zip(("host:db-1", "host:db-2"), cells, (0, 1), strict=True):
        rows = [(record.series_id, record.started_at) for record in stored[scope].records]
        assert rows == [(series.pk, at) for at in times[since:]]
        assert [(own.series_id, own.at) for own in stored[scope].own] == [(series.pk, own_at)]


def test_only_series_with_the_metric_count() -> None:
    """The IOPS of series with several block sizes are not evaluated: they increase while the others decrease."""
    cells = make_cells(make_host("db-1"), make_noise(40, RUNS).tolist())
    several = [cell.pk for cell in cells[20:]]
    Series.objects.filter(pk__in=several).update(block_size_bytes=None)
    judge_until_done()
    values = make_noise(40, 6, seed=2)
    values[:20] *= 0.97
    values[20:] *= 1.03

    measure_values(cells, values, at_once=True)

    (level,) = get_incident().pooled_levels
    assert (level["metric"], level["series"]) == ("iops", 20)
    assert level["changed"] >= 17
    assert not Change.objects.filter(series__in=several).exists()


def test_hosts_of_a_batch_take_no_further_queries() -> None:
    hosts = make_quiet_hosts("db-1", "db-2", "db-3")
    for cells in hosts:
        add_common_run(cells, [1000.0] * 20)
    Series.objects.update(judging_is_due=False)

    with CaptureQueriesContext(connection) as one:
        judge_pooled(["host:db-1"], now=NOON)
    with CaptureQueriesContext(connection) as two:
        judge_pooled(["host:db-2", "host:db-3"], now=NOON)

    assert len(two) == len(one)
    until = PooledEvaluation.objects.values_list("evaluated_to_at", flat=True)
    assert all(moment > NOON + timedelta(hours=RUNS) for moment in until)
